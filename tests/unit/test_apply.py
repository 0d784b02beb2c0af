# SPDX-License-Identifier: GPL-2.0
"""terrace apply and set --save: the kernel has the values of the file, or the old ones; and the
file those of the kernel.
"""

from __future__ import annotations

import errno
import json
import multiprocessing
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from ops_golden import run
from ops_tree import Tree, build, cxl, dram
from test_answer import validate

from terrace.errors import MissingError, TerraceError, UsageError
from terrace.ops import apply, knobs, settings, unit
from terrace.ops.applied import Applied, alone
from terrace.ops.knob_table import CGROUPS, WEIGHTS
from terrace.paths import repo_root
from terrace.sysfs import MTIER, KernelFileError, KernelFiles

FILE = settings.DEFAULT
STATE = "run/terrace/applied.json"
TEXT = """\
demotion_enabled = true
engine.promote.rate_mbps = 500
engine.enabled = true
weights.node0 = 9

[cgroup.db]
auto_migration = true
[cgroup."not/there"]
auto_migration = true
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    found = build(tmp_path, [dram(), cxl()], enabled=False)
    found.capabilities()
    return found


class Weights(KernelFiles):
    """A kernel in which a weight switches auto off, and auto sets the weights to 3 and 1;
    ``refused`` is a path that it rejects.
    """

    refused = ""

    def write(self, name: str, value: str) -> None:
        if name == self.refused:
            raise KernelFileError(self.shown_path(name), 95, "write")
        super().write(name, value)
        if self.dry_run:
            return
        folder = self.real_path(name).parent
        if name.endswith("/auto") and value == "true":
            (folder / "node0").write_text("3\n")
            (folder / "node1").write_text("1\n")
        elif folder.name == "weighted_interleave" and not name.endswith("/auto"):
            (folder / "auto").write_text("false\n")


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in ("apply", "set"):
        monkeypatch.setattr(f"terrace.cli.{verb}.KernelFiles", Weights)
    monkeypatch.setattr(Weights, "refused", "")


def values(tree: Tree) -> dict[str, str]:
    """All of the kernel's files."""
    return {
        str(path.relative_to(tree.root)): path.read_text()
        for place in ("proc", "sys")
        for path in (tree.root / place).rglob("*")
        if path.is_file()
    }


def differences(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    return {name.rpartition("/")[2]: text.strip() for name, text in after.items() if before[name] != text}


def given_file(tree: Tree, text: str) -> None:
    (tree.root / FILE).parent.mkdir(parents=True, exist_ok=True)
    (tree.root / FILE).write_text(text)


def go(tree: Tree, *words: str) -> int:
    return run("apply", "--root", str(tree.root), *words)


def test_the_file_is_applied_again_and_undone(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    given_file(tree, TEXT)
    before = values(tree)
    assert go(tree, "--json") == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    validate(document)
    assert [(one["knob"], one["after"], one["line"]) for one in document["changes"]] == [
        ("promote.rate_mbps", "500", 2),
        ("weights.node0", "9", 4),
        ("auto_migration", "1", 7),
        ("enabled", "1", 3),
    ]
    assert document["settings"] == 5 and not document["dry_run"]
    assert document["without_cgroup"] == [{"cgroup": "not/there", "line": 9}]
    assert "line 9: passed over, there is no cgroup /sys/fs/cgroup/not/there now" in said.err
    applied = values(tree)
    assert differences(before, applied) == {
        "rate_mbps": "500",
        "node0": "9",
        "cpuset.auto_migration": "1",
        "enabled": "1",
    }
    assert go(tree) == 0
    assert "5 settings, all in force already" in capsys.readouterr().out
    assert go(tree, "--undo", "--json") == 0
    undone = json.loads(capsys.readouterr().out)
    validate(undone)
    # Promotion first: nothing runs without its limits.
    assert [one["knob"] for one in undone["changes"]] == [
        "enabled",
        "auto_migration",
        "weights.node0",
        "promote.rate_mbps",
    ]
    assert values(tree) == before
    assert not (tree.root / STATE).exists()
    assert go(tree, "--undo") == 0
    assert capsys.readouterr().out == "nothing to put back\n"


def test_a_line_that_has_gone_gives_the_old_value_back(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    tree.put(f"{MTIER}/promote/rate_mbps", "77")
    given_file(tree, TEXT)
    before = values(tree)
    go(tree)
    given_file(tree, "engine.enabled = true\nweights.node1 = 4\n")
    capsys.readouterr()
    assert go(tree) == 0
    assert "promote.rate_mbps: 77 MiB/s (was 500 MiB/s)" in capsys.readouterr().out
    assert differences(before, values(tree)) == {"enabled": "1", "node1": "4"}
    # Two files later it is still the value from before the first.
    go(tree, "--undo")
    assert values(tree) == before


def test_weights_come_back_with_auto(tree: Tree) -> None:
    for name, value in (("auto", "true"), ("node0", "3"), ("node1", "1")):
        tree.put(f"{WEIGHTS}/{name}", value)
    before = values(tree)
    given_file(tree, "weights.node0 = 8\n")
    go(tree)
    assert differences(before, values(tree)) == {"auto": "false", "node0": "8"}
    state = (tree.root / STATE).read_text()
    go(tree)
    assert (tree.root / STATE).read_text() == state
    given_file(tree, "")
    go(tree)
    assert values(tree) == before


@pytest.mark.parametrize("refused", [f"{MTIER}/enabled", f"{CGROUPS}/db/cpuset.auto_migration", f"{WEIGHTS}/node0"])
def test_refused_it_leaves_everything_as_it_was(
    tree: Tree, refused: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given_file(tree, "engine.charge = true\n")
    go(tree)
    before, state = values(tree), (tree.root / STATE).read_text()
    given_file(tree, TEXT)
    monkeypatch.setattr(Weights, "refused", refused)
    with pytest.raises(MissingError, match="do not set Accessed bits"):
        go(tree)
    assert values(tree) == before and (tree.root / STATE).read_text() == state
    assert "promote.rate_mbps: back at 1024 MiB/s" in capsys.readouterr().err


def test_wrong_anywhere_it_writes_nothing(tree: Tree) -> None:
    before = values(tree)
    given_file(tree, TEXT + "\n[engine.scan]\ncpu_percent = 101\n")
    with pytest.raises(UsageError, match="terrace.toml, line 12: scan.cpu_percent cannot be '101'; allowed: 1-100 %"):
        go(tree)
    assert values(tree) == before
    shutil.rmtree(tree.root / MTIER)
    (tree.root / "proc/sys/vm/mapped_file_policy").unlink()
    gone = values(tree)
    given_file(tree, TEXT.replace("weights", "file_policy = 1\nweights"))
    with pytest.raises(MissingError) as caught:
        go(tree)
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0].rpartition(", ")[2] for line in lines] == ["line 2", "line 3", "line 4"]
    assert "has no promotion engine" in lines[0]
    assert values(tree) == gone
    assert not (tree.root / STATE).exists()


def test_a_dry_run_needs_no_rights_and_changes_nothing(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    given_file(tree, TEXT)
    before = values(tree)
    assert go(tree, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "promote.rate_mbps: would be 500 MiB/s (is 1024 MiB/s)" in said
    assert "db: auto_migration: would be 1 (is 0)" in said
    assert "5 settings, 4 to be written" in said
    assert values(tree) == before and not (tree.root / "run").exists()


def test_check_needs_no_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.toml"
    path.write_text(TEXT)
    assert run("apply", "--check", "--file", str(path), "--root", str(tmp_path / "none"), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    validate(document)
    assert [one["line"] for one in document["settings"]] == [1, 2, 4, 7, 9, 3]
    assert run("apply", "--check", "--file", str(path), "--cgroup", "/sys/fs/cgroup/db") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1].split() == ["db:", "auto_migration", "1", "7"]
    assert said[2] == f"{path}: 1 setting, nothing wrong"
    with pytest.raises(UsageError, match="--cgroup web: the file has nothing of it; it has db, not/there"):
        run("apply", "--check", "--file", str(path), "--cgroup", "web")


def test_one_cgroup_alone(tree: Tree) -> None:
    """As in the unit of a service, whose cgroup is created at each start."""
    given_file(tree, TEXT)
    before = values(tree)
    assert go(tree, "--cgroup", "db") == 0
    assert differences(before, values(tree)) == {"cpuset.auto_migration": "1"}
    go(tree)
    with_all = values(tree)
    assert go(tree, "--cgroup", "db") == 0
    assert values(tree) == with_all
    with pytest.raises(UsageError, match="there is no cgroup /sys/fs/cgroup/not/there"):
        go(tree, "--cgroup", "not/there")
    # Without the cgroup there is nothing to restore.
    shutil.rmtree(tree.root / CGROUPS / "db")
    assert go(tree, "--undo") == 0
    assert not (tree.root / STATE).exists()


def test_undo_goes_on_where_the_kernel_refuses(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    given_file(tree, TEXT)
    before = values(tree)
    go(tree)
    monkeypatch.setattr(Weights, "refused", f"{MTIER}/enabled")
    with pytest.raises(TerraceError, match="Accessed bits"):
        go(tree, "--undo")
    assert differences(before, values(tree)) == {"enabled": "1"}
    monkeypatch.setattr(Weights, "refused", "")
    go(tree, "--undo")
    assert values(tree) == before


def test_a_state_that_it_did_not_write(tree: Tree) -> None:
    given_file(tree, TEXT)
    for text in ("", "{}", "[1]", '{"knobs": [{"knob": "x", "path": "y", "before": "1", "named": true}]}'):
        tree.put(STATE, text)
        with pytest.raises(TerraceError, match="applied.json is not what `terrace apply` wrote"):
            go(tree)


def test_words_that_do_not_go_together(tree: Tree) -> None:
    for words in (["--example", "--json"], ["--unit", "--cgroup", "db"], ["--undo", "--file", "x"]):
        with pytest.raises(UsageError, match="no other option goes with it|takes neither"):
            go(tree, *words)


def test_who_may_not_write_is_told_so() -> None:
    """No user can create folders in /proc."""
    with pytest.raises(TerraceError, match="cannot write below .*run as root"), alone(KernelFiles("/proc/self")):
        pass


def test_saving_with_a_knob_and_its_value(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    given_file(tree, "# ours\nengine.promote.rate_mbps = 500 # careful\n")
    (tree.root / FILE).chmod(0o640)
    words = ["set", "--root", str(tree.root), "--save"]
    assert run(*words, "rate=600M/s", "demotion=off", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    validate(document)
    assert document["saved"] == str(tree.root / FILE)
    text = "# ours\nengine.promote.rate_mbps = 600 # careful\ndemotion_enabled = false\n"
    assert (tree.root / FILE).read_text() == text
    assert stat.S_IMODE((tree.root / FILE).stat().st_mode) == 0o640
    assert [path.name for path in (tree.root / FILE).parent.iterdir()] == ["terrace.toml"]
    run(*words, "--cgroup", "db", "migrate_on_fault", "2")
    assert (tree.root / FILE).read_text() == text + "\n[cgroup.db]\nmigrate_on_fault = 2\n"
    capsys.readouterr()
    assert go(tree) == 0
    assert "3 settings, all in force already" in capsys.readouterr().out
    # Saved values are undone as well: the unit's stop restores all knobs of the file, set in any
    # way.
    go(tree, "--undo")
    assert (tree.root / MTIER / "promote/rate_mbps").read_text() == "1024\n"
    assert (tree.root / "sys/kernel/mm/numa/demotion_enabled").read_text() == "true\n"


def test_a_value_that_is_refused_is_not_saved(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    before = values(tree)
    monkeypatch.setattr(Weights, "refused", f"{MTIER}/enabled")
    with pytest.raises(MissingError):
        run("set", "--root", str(tree.root), "--save", "delay=5s", "enabled=1")
    assert not (tree.root / FILE).exists() and values(tree) == before


def test_when_the_file_cannot_be_written_nothing_is_noted(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next apply would have restored them, as if a line had been removed."""
    before = values(tree)

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("terrace.cli.set.replace", full)
    with pytest.raises(TerraceError, match="cannot write .*terrace.toml: no space left in /"):
        run("set", "--root", str(tree.root), "--save", "delay=5s")
    assert values(tree) == before and not (tree.root / STATE).exists()


def test_what_is_not_put_back_is_told_and_the_rest_is(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first error of a restore left everything before it as the failed command had set it."""
    before = values(tree)

    class Stuck(Weights):
        def write(self, name: str, value: str) -> None:
            if name.endswith("file_policy") and value != "1" or name.endswith("/enabled"):
                raise KernelFileError(self.shown_path(name), errno.EIO, "write")
            super().write(name, value)

    monkeypatch.setattr("terrace.cli.set.KernelFiles", Stuck)
    with pytest.raises(TerraceError, match="cannot write '1' to .*enabled: EIO\nnot put back: .*file_policy"):
        run("set", "--root", str(tree.root), "delay=5s", "file_policy=1", "enabled=1")
    assert differences(before, values(tree)) == {"mapped_file_policy": "1"}
    assert "scan.delay_ms: back at 100 ms" in capsys.readouterr().err


def test_what_cannot_be_saved_is_not_set(tree: Tree) -> None:
    before = values(tree)
    words = ["set", "--root", str(tree.root), "--save", "delay", "5s"]
    given_file(tree, "x = \n")
    with pytest.raises(UsageError, match="not TOML"):
        run(*words)
    given_file(tree, "engine.scan = { delay_ms = 3 }\n")
    with pytest.raises(TerraceError, match="terrace.toml: only by hand"):
        run(*words)
    (tree.root / FILE).unlink()
    (tree.root / FILE).parent.rmdir()
    tree.put("etc/terrace", "a file")
    with pytest.raises(TerraceError, match="terrace"):
        run(*words)
    assert values(tree) == before


def test_saving_all_that_is_set(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["set", "--root", str(tree.root)]
    tree.put("sys/kernel/mm/numa/demotion_enabled", "false")
    run(*words, "--save")
    assert "nothing to save" in capsys.readouterr().out
    assert not (tree.root / FILE).exists()
    run(*words, "delay=5s", "weights.auto=on", "enabled=1")
    before = values(tree)
    assert run(*words, "--save", "--dry-run") == 0
    assert "would save in" in capsys.readouterr().out
    assert run(*words, "--save") == 0
    saved = "engine.enabled = true\nengine.scan.delay_ms = 5000\nweights.auto = true\n"
    assert (tree.root / FILE).read_text() == saved
    assert values(tree) == before
    # Values in the file follow the kernel, even to the default.
    run(*words, "delay=default", "weights.node1=6")
    run(*words, "--save")
    saved = saved.replace("5000", "100").replace("auto = true", "auto = false")
    assert (tree.root / FILE).read_text() == f"{saved}weights.node0 = 3\nweights.node1 = 6\n"
    run(*words, "--cgroup", "db", "auto_migrate_lazy=1")
    run(*words, "--cgroup", "db", "--save")
    assert (tree.root / FILE).read_text().endswith("\n[cgroup.db]\nauto_migrate_lazy = true\n")
    with pytest.raises(UsageError, match="give the value, too, or no knob"):
        run(*words, "--save", "delay")
    with pytest.raises(UsageError, match="--list takes no knob and no --save"):
        run(*words, "--save", "--list")


def _save(root: str, number: int) -> None:
    run("set", "--root", root, "--save", f"weights.node{number}", str(number + 2))


def test_nothing_is_lost_when_several_save_at_once(tree: Tree) -> None:
    for number in range(8):
        tree.put(f"{WEIGHTS}/node{number}", "1")
    context = multiprocessing.get_context("fork")
    several = [context.Process(target=_save, args=(str(tree.root), number)) for number in range(8)]
    for one in several:
        one.start()
    for one in several:
        one.join()
    assert [one.exitcode for one in several] == [0] * 8
    found = {one.knob.name: one.value for one in settings.parse((tree.root / FILE).read_text(), Path(FILE))}
    assert found == {f"weights.node{number}": str(number + 2) for number in range(8)}


known = {
    "engine.promote.rate_mbps": st.integers(1, 5).map(str),
    "engine.enabled": st.sampled_from(["true", "false"]),
    "file_policy": st.sampled_from(["0", "1"]),
    "weights.node0": st.integers(1, 5).map(str),
    "weights.node1": st.integers(1, 5).map(str),
}
files = st.fixed_dictionaries({}, optional=known).map(lambda one: "".join(f"{k} = {v}\n" for k, v in one.items()))


@given(st.lists(files, min_size=1, max_size=5), st.booleans())
@examples(60)
def test_after_any_files_it_is_as_the_last_one_says(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], auto: bool
) -> None:
    tree = build(tmp_path_factory.mktemp("tree"), [dram(), cxl()], enabled=False)
    tree.capabilities()
    kernel = Weights(tree.root)
    knobs.apply(kernel, knobs.find("weights.auto"), "true" if auto else "false")
    start = values(tree)
    with alone(kernel):
        for text in texts:
            wanted = settings.parse(text, Path("x"))
            applied = Applied(kernel)
            planned = apply.plan(kernel, Path("x"), wanted, applied)
            apply.carry_out(kernel, planned, applied, lambda _: None, lambda *_: None)
            # Knobs of the file have its values; all others have their initial ones, after any
            # earlier files.
            assert all(knobs.current(kernel, one.knob) == one.value for one in wanted)
            paths = {one.knob.path for one in wanted}
            if any(path.startswith(WEIGHTS) for path in paths):
                paths.add(f"{WEIGHTS}/auto")
            now = values(tree)
            assert {name for name in start if now[name] != start[name]} <= paths
            assert apply.plan(kernel, Path("x"), wanted, Applied(kernel)).writes == []
        apply.undo(kernel, Applied(kernel), lambda _: None)
    assert values(tree) == start
    shutil.rmtree(tree.root)


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    program = tmp_path / "ä b 100% $HOME" / "terrace"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = unit.text(program, "man:terrace.toml(5)")
    assert "ConditionPathExists=|/sys/kernel/mm/mtier\n" in text
    assert "100%% $HOME" in text
    with pytest.raises(UsageError, match="no program with a quote"):
        unit.text(Path('/a "b"/terrace'), "")
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    # systemd checks that the program exists, and so that it parses the path as intended.
    path = tmp_path / unit.NAME
    path.write_text(text)
    exporter = repo_root() / "debian/terrace-tools.terrace-exporter.service"
    (tmp_path / "terrace-exporter.service").write_text(exporter.read_text().replace("/usr/bin/terrace", "/bin/true"))
    for name in (unit.NAME, "terrace-exporter.service"):
        words = ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        # Its messages about other units of this machine do not matter.
        assert [line for line in done.stderr.splitlines() if "terrace" in line] == []

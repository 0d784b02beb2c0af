# SPDX-License-Identifier: GPL-2.0
"""terrace set: names, units, the kernel's answers, and undoing."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from ops_golden import check, run
from ops_tree import Tree, build, cxl, dram

from terrace.errors import MissingError, TerraceError, UsageError
from terrace.ops import knobs
from terrace.ops.knob_table import KNOBS
from terrace.sysfs import MTIER, KernelFileError, KernelFiles


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return build(tmp_path, [dram(), cxl()])


class RefusingFiles(KernelFiles):
    """A kernel that refuses every write with one errno."""

    def __init__(self, root: Path, number: int) -> None:
        super().__init__(root)
        self.number = number

    def write(self, name: str, value: str) -> None:
        raise KernelFileError(self.shown_path(name), self.number, "write")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("scan/delay_ms", "scan.delay_ms"),
        ("scan.delay", "scan.delay_ms"),
        ("delay", "scan.delay_ms"),
        ("cpu_percent", "scan.cpu_percent"),
        ("demotion", "demotion_enabled"),
    ],
)
def test_names(given: str, name: str) -> None:
    assert knobs.find(given).name == name


def test_every_name_finds_its_own_knob() -> None:
    for knob in KNOBS:
        assert knobs.find(knob.name) is knob
        assert knobs.find("/" + knob.path if knob.path.startswith(MTIER) else knob.name) is knob


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    with pytest.raises(UsageError, match=r"no knob 'scan.dealy'; did you mean scan.delay_ms"):
        knobs.find("scan.dealy")
    with pytest.raises(UsageError, match="set --list"):
        knobs.find("zzz")


@pytest.mark.parametrize(
    ("name", "given", "written"),
    [
        ("scan.delay_ms", "2s", "2000"),
        ("promote.rate_mbps", "1G/s", "1024"),
        ("promote.rate_mbps", "512M", "512"),
        ("scan.cpu_percent", "20%", "20"),
        ("scan.cpu_percent", "-3", "-3"),
        ("scan.cpu_percent", "default", "25"),
        ("enabled", "on", "1"),
        ("enabled", "off", "0"),
        ("promote.target_node", "auto", "auto"),
        ("demotion_enabled", "on", "true"),
    ],
)
def test_values(name: str, given: str, written: str) -> None:
    assert knobs.parse_value(knobs.find(name), given) == written


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("scan.delay_ms", "5us", "takes a whole number of ms"),
        ("scan.delay_ms", "5 parsecs", "scan.delay_ms cannot be '5 parsecs'; allowed: 0-3600000 ms"),
        ("promote.thp", "both", "allowed: whole, split"),
        ("promote.target_node", "node1", r"allowed: auto, 0-1023 node \(online, top tier\)"),
        ("numa_balancing", "default", "give a number"),
    ],
)
def test_values_that_are_none(name: str, given: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        knobs.parse_value(knobs.find(name), given)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ERANGE])
def test_a_refusal_names_file_value_and_range(tree: Tree, number: int) -> None:
    knob = knobs.find("scan.cpu_percent")
    with pytest.raises(UsageError) as caught:
        knobs.apply(RefusingFiles(tree.root, number), knob, "999")
    text = str(caught.value)
    for part in ("'999'", "/sys/kernel/mm/mtier/scan/cpu_percent", errno.errorcode[number], "1-100 %", "stays at 25"):
        assert part in text


def test_cpus_without_accessed_bits_are_a_missing_feature(tree: Tree) -> None:
    with pytest.raises(MissingError, match="do not set Accessed bits"):
        knobs.apply(RefusingFiles(tree.root, errno.EOPNOTSUPP), knobs.find("enabled"), "1")


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.EACCES, "run as root"), (errno.EROFS, "read-only"), (errno.EIO, "EIO")],
)
def test_other_refusals(tree: Tree, number: int, message: str) -> None:
    with pytest.raises(TerraceError, match=message) as caught:
        knobs.apply(RefusingFiles(tree.root, number), knobs.find("enabled"), "1")
    assert caught.value.exit_code == 1


def test_stock_knobs_are_held_to_their_documented_range(tree: Tree) -> None:
    with pytest.raises(UsageError, match="allowed: 0-3"):
        run("set", "--root", str(tree.root), "numa_balancing", "4")


def test_a_kernel_that_takes_another_value_is_a_failure(tree: Tree) -> None:
    class Deaf(KernelFiles):
        def write(self, name: str, value: str) -> None:
            pass

    with pytest.raises(TerraceError, match="the kernel has '25' after '30' was written"):
        knobs.apply(Deaf(tree.root), knobs.find("scan.cpu_percent"), "30")


def test_a_kernel_without_the_engine(tmp_path: Path) -> None:
    build(tmp_path, [dram()], engine=False)
    with pytest.raises(MissingError, match="terrace doctor"):
        run("set", "--root", str(tmp_path), "enabled", "1")


def test_set_writes_and_reads_back(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("set", "--root", str(tree.root), "delay", "2s") == 0
    assert (tree.root / f"{MTIER}/scan/delay_ms").read_text() == "2000\n"
    assert capsys.readouterr().out == "scan.delay_ms: 2000 ms (was 100 ms)\n"


def test_enabling_shows_the_state(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("set", "--root", str(tree.root), "enabled", "1") == 0
    assert "state: looking" in capsys.readouterr().out


def test_several_are_all_or_nothing(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    (tree.root / f"{MTIER}/promote/move_fast").unlink()
    with pytest.raises(MissingError):
        run("set", "--root", str(tree.root), "delay=2s", "rate=2G/s", "move_fast=0")
    assert (tree.root / f"{MTIER}/scan/delay_ms").read_text() == "100\n"
    assert (tree.root / f"{MTIER}/promote/rate_mbps").read_text() == "1024\n"
    assert "back at 100 ms" in capsys.readouterr().err


def test_dry_run_writes_nothing_and_checks(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("set", "--root", str(tree.root), "--dry-run", "scan.cpu", "30%") == 0
    assert capsys.readouterr().out == "would write '30' to /sys/kernel/mm/mtier/scan/cpu_percent (now 25)\n"
    assert (tree.root / f"{MTIER}/scan/cpu_percent").read_text() == "25\n"
    with pytest.raises(UsageError, match="allowed: 1-100 %"):
        run("set", "--root", str(tree.root), "--dry-run", "scan.cpu", "300%")


@pytest.mark.parametrize("words", [[], ["--list", "enabled"], ["a", "b", "c"], ["enabled=1", "b"]])
def test_command_lines_that_make_no_sense(tree: Tree, words: list[str]) -> None:
    with pytest.raises(UsageError):
        run("set", "--root", str(tree.root), *words)


def test_list(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("set", "--root", str(tree.root), "--list") == 0
    check("set-list.txt", capsys.readouterr().out)


def test_list_as_json(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("set", "--root", str(tree.root), "--list", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["version"], shown["kind"], len(shown["knobs"])) == (1, "knobs", len(KNOBS) + 2)


def test_change_as_json(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("set", "--root", str(tree.root), "--json", "rate", "2G/s") == 0
    (changed,) = json.loads(capsys.readouterr().out)["changes"]
    assert (changed["knob"], changed["before"], changed["after"]) == ("promote.rate_mbps", "1024", "2048")


@pytest.fixture
def whole(tree: Tree) -> Tree:
    tree.capabilities()
    return tree


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("tlb_defer.mode", "tlb_defer.mode"),
        ("tlb_defer/backoff", "tlb_defer.backoff_ms"),
        ("vm.mapped_file_policy", "file_policy"),
        ("migrate_on_fault.rate", "migrate_on_fault.rate_mbps"),
        ("weighted_interleave.auto", "weights.auto"),
        ("weights.node12", "weights.node12"),
    ],
)
def test_names_of_other_capabilities(given: str, name: str) -> None:
    assert knobs.find(given).name == name


@pytest.mark.parametrize(
    ("name", "given", "written"),
    [
        ("tlb_defer.held_limit_bp", "0.5%", "50"),
        ("tlb_defer.backoff_ms", "2s", "2000"),
        ("tlb_defer.mode", "default", "off"),
        ("weights.node1", "7", "7"),
        ("weights.auto", "on", "true"),
        ("file_policy", "on", "1"),
    ],
)
def test_values_of_other_capabilities(name: str, given: str, written: str) -> None:
    assert knobs.parse_value(knobs.find(name), given) == written


def test_knobs_of_a_cgroup(whole: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["set", "--root", str(whole.root), "--cgroup"]
    assert run(*words, "/sys/fs/cgroup/db", "cpuset.auto_migration=on", "auto_migrate_interval=2min", "--json") == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert [(change["knob"], change["after"]) for change in changes] == [
        ("auto_migration", "1"),
        ("auto_migrate_interval_s", "120"),
    ]
    assert changes[0]["path"] == "/sys/fs/cgroup/db/cpuset.auto_migration"
    assert run(*words, "db", "--list") == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in shown[1:3]] == [["auto_migration", "1"], ["auto_migrate_interval_s", "120"]]
    with pytest.raises(UsageError, match=r"migrate_on_fault cannot be '4'; allowed: 0-3 .*/sys/fs/cgroup/db/cpuset"):
        run(*words, "db", "migrate_on_fault", "4")


def test_a_name_of_a_cgroup_and_of_the_machine(whole: Tree) -> None:
    words = ["set", "--root", str(whole.root)]
    machine, group = "proc/sys/kernel/numa_balancing", "sys/fs/cgroup/db/cpuset.numa_balancing"
    assert run(*words, "numa_balancing=1") == 0
    assert ((whole.root / machine).read_text().strip(), (whole.root / group).read_text().strip()) == ("1", "1")
    assert run(*words, "--cgroup", "db", "numa_balancing=off") == 0
    assert ((whole.root / machine).read_text().strip(), (whole.root / group).read_text().strip()) == ("1", "0")
    with pytest.raises(UsageError, match=r"numa_balancing cannot be '2'; allowed: 0-1"):
        run(*words, "--cgroup", "db", "numa_balancing=2")
    with pytest.raises(UsageError, match="'cpuset.numa_balancing' is set for each cgroup: say which with --cgroup"):
        run(*words, "cpuset.numa_balancing=0")
    whole.put("sys/fs/cgroup/bare/cgroup.procs", "")
    with pytest.raises(MissingError, match=r"bare has no cpuset.numa_balancing: it has no cpuset controller"):
        run(*words, "--cgroup", "bare", "numa_balancing=0")


def test_a_cgroup_that_cannot_be_meant(whole: Tree) -> None:
    words = ["set", "--root", str(whole.root)]
    for path, message in (
        ("/", "the root cgroup has no knobs"),
        ("../x", "no cgroup"),
        ("web", "no cgroup /sys/fs/cgr"),
    ):
        with pytest.raises(UsageError, match=message):
            run(*words, "--cgroup", path, "auto_migration", "1")
    with pytest.raises(UsageError, match="'auto_migration' is set for each cgroup: say which with --cgroup"):
        run(*words, "auto_migration", "1")
    with pytest.raises(UsageError, match="no knob 'tlb_defer.mode'; a cgroup has auto_migration, "):
        run(*words, "--cgroup", "db", "tlb_defer.mode", "off")
    whole.put("sys/fs/cgroup/bare/cgroup.procs", "")
    with pytest.raises(MissingError, match=r"bare has no cpuset.auto_migration: it has no cpuset controller"):
        run(*words, "--cgroup", "bare", "auto_migration", "1")


def test_a_kernel_without_a_capability_is_told_which_option_it_lacks(tree: Tree) -> None:
    for knob, why in (("tlb_defer.mode=off", "CONFIG_TLB_DEFER"), ("weights.auto=1", "CONFIG_MEMPOLICY2")):
        with pytest.raises(MissingError, match=f"built without {why}"):
            run("set", "--root", str(tree.root), knob)
    with pytest.raises(MissingError, match="node9: no node of that number has memory"):
        run("set", "--root", str(tree.root), "weights.node9", "2")


class Weights(KernelFiles):
    """A kernel in which a weight ends auto, and auto sets the weights to 3 and 1."""

    def write(self, name: str, value: str) -> None:
        super().write(name, value)
        folder = self.real_path(name).parent
        if name.endswith("/auto") and value == "true":
            (folder / "node0").write_text("3\n")
            (folder / "node1").write_text("1\n")
        elif folder.name == "weighted_interleave" and not name.endswith("/auto"):
            (folder / "auto").write_text("false\n")


@pytest.mark.parametrize("before", ["false 5 2", "true 3 1"])
@pytest.mark.parametrize("words", [["weights.auto=on"], ["weights.node0=9", "weights.node1=4"]], ids=" ".join)
def test_weights_and_auto_are_put_back_together(
    whole: Tree, before: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A weight switches auto off, auto writes all weights: undoing one write alone would lose the rest."""
    names = [f"sys/kernel/mm/mempolicy/weighted_interleave/{name}" for name in ("auto", "node0", "node1")]
    for name, value in zip(names, before.split(), strict=True):
        whole.put(name, value)
    monkeypatch.setattr("terrace.cli.set.KernelFiles", Weights)
    with pytest.raises(UsageError, match="file_policy cannot be '2'"):
        run("set", "--root", str(whole.root), *words, "file_policy=2")
    assert [(whole.root / name).read_text().strip() for name in names] == before.split()


def test_a_value_that_the_kernel_made_another_of_is_put_back(whole: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    class Rounding(KernelFiles):
        def write(self, name: str, value: str) -> None:
            super().write(name, "8" if value == "7" else value)

    monkeypatch.setattr("terrace.cli.set.KernelFiles", Rounding)
    with pytest.raises(TerraceError, match="the kernel has '8' after '7' was written"):
        run("set", "--root", str(whole.root), "weights.node0", "7")
    assert (whole.root / "sys/kernel/mm/mempolicy/weighted_interleave/node0").read_text() == "1\n"

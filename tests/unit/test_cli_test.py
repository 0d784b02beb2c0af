# SPDX-License-Identifier: GPL-2.0
"""terrace test as a command: what it needs is there before it runs, and nothing keeps it from its summary."""

import argparse
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from terrace.cli import test as verb
from terrace.kernel.check import CHECKS
from terrace.paths import repo_root
from terrace.testing import groups, host_groups, journal, needs
from terrace.testing.gate import load_gate
from terrace.testing.programs import MachineKey, Program, find_programs
from terrace.testing.results import TestResult
from terrace.testing.selftest import SelftestRun


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.main(parser.parse_args(words))


def test_without_make_the_group_fails_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(needs, "require_packages", lambda packages, why: None)
    monkeypatch.setattr(groups, "run_lint", lambda wanted: iter([TestResult("lint", "ruff", "pass")]))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run("--group", "policy", "--group", "lint") == 1
    said = capsys.readouterr().out
    assert "FAIL policy/policy" in said
    assert "the group policy could not go on: [Errno 2] No such file or directory: 'make'" in said
    assert said.endswith("failed:\n  policy/policy\n1 passed, 1 failed, 0 skipped\n")


PROGRAMS = [
    Program("quick", Path("a.c"), MachineKey(), 60, debug=True),
    Program("slow", Path("b.c"), MachineKey(), 60, debug=True),
    Program("never_debug", Path("c.c"), MachineKey(), 60, debug=False),
]
EVERYTHING = ["selftest/quick", "selftest/slow", "selftest/never_debug", "selftest-debug/quick", "selftest-debug/slow"]
LEFT = """
selftests = ["quick", "never_debug"]
[[left]]
name = "selftest/quick:by the clock"
date = 2026-11-23
again = 2026-11-24
seen = "1 of 50 failed"
"""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The programs of PROGRAMS that run; the gate has LEFT, and one check of `quick` has left it."""
    names: list[str] = []

    def run_them(run: SelftestRun, programs: Sequence[Program]) -> Iterator[TestResult]:
        for program in programs:
            names.append(f"{run.group}/{program.name}")
            yield TestResult(run.group, f"{program.name}:sound", "pass")
            if program.name == "quick":
                yield TestResult(run.group, "quick:by the clock", "fail")

    (tmp_path / "gate.toml").write_text(LEFT)
    monkeypatch.setattr(verb, "load_gate", partial(load_gate, path=tmp_path / "gate.toml"))
    monkeypatch.setattr(journal, "build_dir", lambda: tmp_path)
    for module in (verb, groups):
        monkeypatch.setattr(module, "find_programs", lambda: PROGRAMS)
    monkeypatch.setattr(groups, "kernel_for", lambda request, flavour: Path("vmlinux"))
    monkeypatch.setattr(groups, "run_selftests", run_them)
    monkeypatch.setattr(verb, "GROUPS", {name: groups.GROUPS[name] for name in ("selftest", "selftest-debug")})
    return names


def test_the_gate_has_what_its_file_says(ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A check that left fails, and the gate passes and names the checks that left."""
    assert run() == 0
    assert ran == ["selftest/quick", "selftest/never_debug"]
    said, warned = (text.splitlines() for text in capsys.readouterr())
    assert warned[-1] == (
        "terrace: warning: tests/gate.toml: selftest/quick:by the clock left the gate "
        "and is due to be tried again (--soak 50)"
    )
    assert said[-2:] == [
        "not in the gate: 1 of 3 programs of selftest, selftest-debug, 1 that left (tests/gate.toml);"
        " --all runs them, too",
        "2 passed, 0 failed, 0 skipped",
    ]
    assert run("--list") == 0
    assert capsys.readouterr().out.splitlines() == ran


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--all"], EVERYTHING),
        # Named tests run as a whole.
        (["--group", "selftest-debug"], EVERYTHING[3:]),
        (["-k", "quick"], ["selftest/quick", "selftest-debug/quick"]),
    ],
)
def test_the_suite_has_everything(
    words: list[str], names: list[str], ran: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 1
    assert ran == names
    said = capsys.readouterr().out
    assert "FAIL selftest-debug/quick:by the clock" in said
    assert "not in the gate" not in said
    assert run(*words, "--list") == 0
    assert capsys.readouterr().out.splitlines() == names


def test_every_check_is_in_the_gate_or_in_the_suite_alone() -> None:
    """Nothing got lost when gate and suite were split."""
    assert [group.name for group in groups.GROUPS.values() if group.in_gate] == [
        *("lint", "unit", "policy", "patches", "kunit", "selftest"),
    ]
    checks = [*groups.GROUPS["patches"].names(), *groups.GROUPS["checks"].names()]
    assert sorted([*checks, "matrix"]) == sorted([*(check.name for check in CHECKS), "mutants"])
    assert "configs" in groups.GROUPS  # which runs the matrix, one configuration at a time
    gate = verb._gate()
    everything = {program.name for program in find_programs()}
    assert gate.selftests < everything
    assert set(verb._names(groups.GROUPS["selftest"], None)) == everything
    assert set(verb._names(groups.GROUPS["selftest"], gate)) == gate.selftests


def test_nothing_is_begun_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(groups, "run_lint", lambda wanted: iter([TestResult("lint", "ruff", "pass")]))
    assert run("--group", "lint", "--group", "selftest", "--within", "0s") == 0
    said = capsys.readouterr().out
    assert "skipped: the time of --within is over" in said
    assert said.endswith("0 passed, 0 failed, 2 skipped\n")


def test_no_kernel_is_built_that_there_is_no_time_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built: list[str] = []
    for module in (verb, groups):
        monkeypatch.setattr(module, "find_programs", lambda: PROGRAMS)

    def build(request: groups.Request, flavour: str) -> Path:
        built.append(flavour)
        return Path("vmlinux")

    monkeypatch.setattr(groups, "kernel_for", build)
    monkeypatch.setattr(groups, "run_selftests", lambda run, programs: iter([TestResult(run.group, "x", "pass")]))
    monkeypatch.setattr("terrace.kernel.build.find_built", lambda flavour: None)
    assert run("--group", "selftest-debug", "--within", "20min") == 0
    assert (built, capsys.readouterr().out.splitlines()[-1]) == ([], "0 passed, 0 failed, 2 skipped")
    assert run("--group", "selftest-debug", "--within", "30min") == 0
    assert built == ["debug"]


def one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit group starts pytest once, as with one CPU, and not a second time for tests by the clock."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})


def test_pytest_leaves_out_what_left_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tests/unit"
    folder.mkdir(parents=True)
    for name in ("conftest.py", "fixed_environment.py"):
        shutil.copy(repo_root() / "tests/unit" / name, folder)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {repo_root() / 'src'}\n")
    (folder / "test_x.py").write_text(
        "from hypothesis import settings\n"
        "def test_same_examples(): assert settings().derandomize and settings().deadline is None\n"
        "def test_by_the_clock(): assert False\n"
    )
    monkeypatch.setattr(host_groups, "repo_root", lambda: tmp_path)
    one_run(monkeypatch)
    left = "tests/unit/test_x.py::test_by_the_clock"
    gate = list(host_groups.run_pytest("unit", "tests/unit", lambda name: True, True, without=[left]))
    assert [(r.name, r.status) for r in gate] == [("tests/unit/test_x.py::test_same_examples", "pass")]
    suite = list(host_groups.run_pytest("unit", "tests/unit", lambda name: True, True))
    assert [r.status for r in suite] == ["fail", "fail"]


PARALLEL = """\
import os, pathlib, pytest
def note(name): pathlib.Path(__file__).with_name(name).write_text(os.environ.get("PYTEST_XDIST_WORKER", "alone"))
def test_shares(): note("shares")
@pytest.mark.clock
def test_by_the_clock(): note("clock")
"""


@pytest.mark.parametrize(("cpus", "shares"), [(1, "alone"), (2, "gw")])
def test_tests_by_the_clock_run_alone_and_the_others_share_the_cpus(
    cpus: int, shares: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tests/unit"
    folder.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = clock: x\n")
    (folder / "test_x.py").write_text(PARALLEL)
    monkeypatch.setattr(host_groups, "repo_root", lambda: tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    found = list(host_groups.run_pytest("unit", "tests/unit", lambda name: True, True))
    names = {f"tests/unit/test_x.py::{name}" for name in ("test_shares", "test_by_the_clock")}
    assert ({result.name for result in found}, {result.status for result in found}) == (names, {"pass"})
    assert (folder / "clock").read_text() == "alone"
    assert (folder / "shares").read_text().startswith(shares)


def test_no_test_at_all_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests/unit").mkdir(parents=True)
    monkeypatch.setattr(host_groups, "repo_root", lambda: tmp_path)
    one_run(monkeypatch)
    [only] = host_groups.run_pytest("unit", "tests/unit", lambda name: True, True)
    assert (only.name, only.status) == ("pytest", "fail") and "pytest ended with" in only.detail


def test_the_temporary_trees_of_tests_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs' worth of them stayed in /tmp, and what a test made there without pytest for ever."""
    folder = tmp_path / "tests/unit"
    folder.mkdir(parents=True)
    (folder / "test_x.py").write_text(
        "import tempfile\n"
        "def test_passes(tmp_path): (tmp_path / 'a').write_text('x'); tempfile.mkdtemp()\n"
        "def test_fails(tmp_path): (tmp_path / 'a').write_text('x'); assert False\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(host_groups, "repo_root", lambda: tmp_path)
    one_run(monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    found = list(host_groups.run_pytest("unit", "tests/unit", lambda name: True, True))
    assert sorted(result.status for result in found) == ["fail", "pass"]
    assert not list(temporary.iterdir())


def test_a_child_that_cannot_be_interrupted_and_leaves_a_process_behind_is_no_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker of pytest, say: it keeps the output open when pytest itself was killed."""
    limits: list[float | None] = []

    def ends(output: host_groups._Output, limit_s: float | None) -> int:
        limits.append(limit_s)
        while not output.text():
            time.sleep(0.01)
        return output.wait(0.01)

    monkeypatch.setattr(host_groups, "_end", ends)
    code, text = host_groups._run(["sh", "-c", "trap '' INT; sleep 1000 & echo $!; sleep 1000"], 7)
    left = int(text.split()[0])
    try:
        assert (code, text.splitlines()[-1]) == (124, "did not end within 7 s")
        assert limits == [7, host_groups._LAST_WORDS_S]
    finally:
        os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("group", ["unit", "policy"])
def test_what_a_group_compiles_and_boots_with_is_installed_before_it_runs(
    group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a bare machine whole modules skipped in silence, and QEMU came with a later group."""
    order: list[str] = []

    def packages(names: Sequence[str], why: str) -> None:
        order.extend(names)

    def ran(*_: object, **__: object) -> Iterator[TestResult]:
        order.append("ran")
        yield TestResult(group, "x", "pass")

    monkeypatch.setattr(needs, "require_packages", packages)
    monkeypatch.setattr(needs, "require_qemu", lambda: order.append("qemu"))
    monkeypatch.setattr(groups, "run_pytest", ran)
    monkeypatch.setattr(groups, "run_policy", ran)
    monkeypatch.setattr(groups, "policy_names", list)
    monkeypatch.setattr(groups, "search_path", lambda program, *packages: order.append(program))
    assert run("--group", group) == 0
    assert order == [
        "gcc",
        "libc6-dev",
        "make",
        *(["dpkg-dev", "groff-base", "systemd", "e2fsprogs", "fdisk", "qemu"] if group == "unit" else []),
        *(["promtool"] if group == "unit" else []),
        "ran",
    ]


@pytest.mark.parametrize("cpus", [1, 2])
def test_a_run_of_pytest_that_takes_too_long_keeps_what_it_has(
    cpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed, and all results of half an hour with it."""
    folder = tmp_path / "tests/unit"
    folder.mkdir(parents=True)
    (folder / "test_x.py").write_text(
        "import pathlib, time\n"
        "def test_passes(): pass\n"
        f"def test_hangs(): pathlib.Path({str(tmp_path)!r}, 'hangs').touch(); time.sleep(3600)\n"
    )
    monkeypatch.setattr(host_groups, "repo_root", lambda: tmp_path)
    end = host_groups._end

    def ends(output: host_groups._Output, limit_s: float | None) -> int:
        """The limit of a run is over once its second test hangs, however slow the host."""
        words = output.child.args
        if limit_s != host_groups._PYTEST_LIMIT_S["unit"] or (isinstance(words, list) and "clock" in words):
            return end(output, limit_s)
        while not (tmp_path / "hangs").exists() and output.child.poll() is None:
            time.sleep(0.01)
        raise subprocess.TimeoutExpired(words, 1500)

    monkeypatch.setattr(host_groups, "_end", ends)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    *before, last = list(host_groups.run_pytest("unit", "tests/unit", lambda name: True, True))
    passed = ("tests/unit/test_x.py::test_passes", "pass")
    found = [(result.name, result.status) for result in before]
    # With two workers the first test may not have come to its end yet.
    assert found[0] == passed if cpus == 1 else found in ([], [passed])
    assert (last.name, last.status, last.final) == ("pytest", "fail", True)
    assert "did not end within 1500 s" in last.detail

# SPDX-License-Identifier: GPL-2.0
"""The suite goes on where it was cut off: nothing runs twice, nothing is lost, and the rest is listed."""

import argparse
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from terrace.cli import test as verb
from terrace.errors import MissingError, UsageError
from terrace.testing import groups, journal
from terrace.testing.journal import Journal, tree_hash
from terrace.testing.lanes import run_lanes
from terrace.testing.programs import MachineKey, Program
from terrace.testing.results import TestResult
from terrace.testing.selftest import SelftestRun

PROGRAMS = [Program(name, Path(f"{name}.c"), MachineKey(), 60, debug=True) for name in ("a", "b", "c")]


class Host:
    """Runs programs of two checks each; `cut` names the program before whose second check something happens."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.cut: dict[str, BaseException] = {}
        self.bad: set[str] = set()

    def run(self, run: SelftestRun, programs: Sequence[Program]) -> Iterator[TestResult]:
        for program in programs:
            self.ran.append(f"{run.group}/{program.name}")
            yield TestResult(run.group, f"{program.name}:x", "fail" if program.name in self.bad else "pass")
            if program.name in self.cut:
                raise self.cut.pop(program.name)
            yield TestResult(run.group, f"{program.name}:y", "pass", closes=True)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Host:
    made = Host()
    monkeypatch.setattr(journal, "build_dir", lambda: tmp_path)
    monkeypatch.setattr(verb, "tree_hash", lambda: "the tree")
    for module in (verb, groups):
        monkeypatch.setattr(module, "find_programs", lambda: PROGRAMS)
    monkeypatch.setattr(groups, "kernel_for", lambda request, flavour: Path("vmlinux"))
    monkeypatch.setattr(groups, "run_selftests", made.run)
    names = ("selftest", "selftest-debug", "suites")
    monkeypatch.setattr(verb, "GROUPS", {name: groups.GROUPS[name] for name in names})
    return made


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    args = parser.parse_args(words)
    verb.check_arguments(args)
    return verb.main(args)


ALL = [f"{group}/{name}" for group in ("selftest", "selftest-debug") for name in "abc"]


def test_one_command_runs_it_to_its_end(host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--all") == 0
    assert host.ran == ALL
    said = capsys.readouterr().out
    assert said.endswith("not in the suite: suites; --group runs it\n12 passed, 0 failed, 0 skipped\n")
    # A finished run is no part of the next one.
    assert not list(tmp_path.glob("test/*"))
    assert run("--all") == 0
    assert host.ran == ALL + ALL


@pytest.mark.parametrize("cut", [KeyboardInterrupt(), SystemExit(143)])
def test_it_goes_on_where_it_was_cut_off(cut: BaseException, host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.cut = {"b": cut}
    host.bad = {"a"}
    with pytest.raises(type(cut)):
        run("--all")
    said = capsys.readouterr().out
    assert "failed:\n  selftest/a:x\n" in said
    assert "not run yet: 2 of selftest (b, c), selftest-debug; the same command goes on with that\n" in said
    host.bad = set()
    # The failure of before is not forgotten.
    assert run("--all") == 1
    # b, of which one check had passed, runs whole.
    assert host.ran == ["selftest/a", "selftest/b", "selftest/b", *ALL[2:]]
    said = capsys.readouterr().out
    assert ", which has 2 results\n" in said
    assert said.endswith("11 passed, 1 failed, 0 skipped\n")


def test_a_group_that_is_over_does_not_run_again(host: Host) -> None:
    host.cut = {}
    original = host.run

    def killed(run: SelftestRun, programs: Sequence[Program]) -> Iterator[TestResult]:
        if run.group == "selftest-debug":
            raise KeyboardInterrupt
        yield from original(run, programs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "run_selftests", killed)
        with pytest.raises(KeyboardInterrupt):
            run("--all")
    assert run("--all") == 0
    assert host.ran == ALL


def test_what_could_not_go_on_is_tried_by_the_next_command(host: Host) -> None:
    host.cut = {"b": MissingError("no QEMU")}
    assert run("--all") == 1
    assert run("--all") == 0
    assert host.ran == ["selftest/a", "selftest/b", *ALL[3:], "selftest/b", "selftest/c"]


def test_time_that_is_over_leaves_something_to_run(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--all", "--within", "0s") == 4
    assert "not run yet: selftest, selftest-debug; the same" in capsys.readouterr().out
    assert run("--all") == 0
    assert host.ran == ALL


@pytest.mark.parametrize("words", [["--all", "--again"], ["--all", "--stretch", "2"], ["--all", "-k", "a or b or c"]])
def test_another_run_begins_anew(words: list[str], host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.cut = {"b": KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        run("--all")
    assert run(*words) == 0
    assert host.ran == ["selftest/a", "selftest/b", *ALL]
    assert "goes on with the run" not in capsys.readouterr().out


def test_a_part_of_the_suite_leaves_the_whole_of_it_where_it_was(host: Host) -> None:
    host.cut = {"b": KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        run("--all")
    assert run("--all", "--group", "selftest-debug") == 0
    assert run("--all") == 0
    assert host.ran == ["selftest/a", "selftest/b", *ALL[3:], "selftest/b", "selftest/c", *ALL[3:]]


def test_another_tree_begins_anew(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host.cut = {"b": KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        run("--all")
    monkeypatch.setattr(verb, "tree_hash", lambda: "another")
    assert run("--all") == 0
    assert host.ran == ["selftest/a", "selftest/b", *ALL]
    assert "begins anew: the tree is not that of the run of " in capsys.readouterr().out


def test_again_is_for_the_suite(host: Host) -> None:
    with pytest.raises(UsageError, match="--again goes with --all"):
        run("--again")


def result(name: str, status: str = "pass", closes: bool = False) -> TestResult:
    return TestResult("selftest", name, status, closes=closes)


def test_a_line_that_was_cut_off_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    first = Journal("tree", {}, path)
    for one in (result("a:x"), result("a:y", closes=True), result("b:x", closes=True)):
        first.add(one)
    path.write_text(path.read_text()[:-20])
    second = Journal("tree", {}, path)
    assert second.done_of("selftest") == frozenset("a")
    assert [r.name for r in second.kept] == ["a:x", "a:y"]
    # And it can be gone on with.
    second.add(result("b:x", closes=True))
    assert Journal("tree", {}, path).done_of("selftest") == {"a", "b"}


def test_what_the_kernel_said_is_kept_though_its_program_runs_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    first = Journal("tree", {}, path)
    for one in (result("b:x"), result("machine:dram-cxl", "fail"), result("kmemleak:dram-cxl", "fail")):
        first.add(one)
    assert [r.name for r in Journal("tree", {}, path).kept] == ["machine:dram-cxl", "kmemleak:dram-cxl"]


def test_the_hash_is_of_all_that_git_does_not_ignore(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("/build/\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "a").write_text("a")
    for git in (False, True):
        if git:
            subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        before = tree_hash(tmp_path)
        (tmp_path / "build/x").write_text(str(git))
        assert tree_hash(tmp_path) == before
        (tmp_path / "a").write_text(f"b {git}")
        after = tree_hash(tmp_path)
        assert after != before
        (tmp_path / "a").chmod(0o644 if git else 0o755)
        assert tree_hash(tmp_path) != after


def test_results_of_a_lane_come_as_they_are_given() -> None:
    """They came when the lane had ended: hours of them were lost with it."""
    reader, writer = os.pipe()

    def work(item: int) -> Iterator[int]:
        yield item
        os.read(reader, 1)
        yield item + 1

    results = run_lanes(work, [1])
    assert next(results) == 1
    os.write(writer, b"x")
    assert list(results) == [2]
    os.close(reader)
    os.close(writer)

# SPDX-License-Identifier: GPL-2.0
"""The gate's second try: which checks get one, how it runs, and that it is reported."""

import argparse
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

import strict_schema
from terrace.cli import test as verb
from terrace.lab.run import GuestResult
from terrace.paths import repo_root
from terrace.testing import groups, journal, kunit, selftest
from terrace.testing.gate import Gate, load_gate
from terrace.testing.kunit import KunitRun
from terrace.testing.programs import MachineKey, Program
from terrace.testing.results import TestResult
from terrace.testing.second import batches, retriable, second_tries
from terrace.testing.selftest import SelftestRun, run_selftests

PROGRAMS = [Program(name, Path(f"{name}.c"), MachineKey(), 60, debug=True) for name in ("a", "b", "c")]
SCHEMA = repo_root() / "docs/reference/schema/tests.schema.json"
GATE = """
selftests = ["a", "b"]
[[left]]
name = "selftest/b:left"
date = 2026-11-23
again = 2026-12-21
seen = "1 of 50"
"""


class Lab:
    """The results of each run, by program; `runs` lists the programs that ran."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, ...]] = []
        self.tries: dict[str, list[list[TestResult]]] = {}

    def gives(self, program: str, *tries: list[TestResult]) -> None:
        self.tries[program] = list(tries)

    def run(self, run: SelftestRun, programs: Sequence[Program]) -> Iterator[TestResult]:
        self.runs.append(tuple(program.name for program in programs))
        for program in programs:
            left = self.tries.get(program.name)
            yield from left.pop(0) if left else [TestResult("selftest", f"{program.name}:x", "pass")]


def result(name: str, status: str = "pass", detail: str = "", final: bool = False) -> TestResult:
    return TestResult("selftest", name, status, detail, final=final)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    made = Lab()
    (tmp_path / "gate.toml").write_text(GATE)
    monkeypatch.setattr(verb, "load_gate", partial(load_gate, path=tmp_path / "gate.toml"))
    monkeypatch.setattr(journal, "build_dir", lambda: tmp_path)
    for module in (verb, groups):
        monkeypatch.setattr(module, "find_programs", lambda: PROGRAMS)
    monkeypatch.setattr(groups, "kernel_for", lambda request, flavour: Path("vmlinux"))
    monkeypatch.setattr(groups, "run_selftests", made.run)
    monkeypatch.setattr(verb, "GROUPS", {"selftest": groups.GROUPS["selftest"]})
    return made


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.main(parser.parse_args(words))


def test_what_passes_on_a_second_try_passes_and_is_told(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.gives("a", [result("a:x"), result("a:y", "fail", "too few")], [result("a:x", "fail"), result("a:y")])
    assert run("-o", str(tmp_path / "out.json")) == 0
    # Alone: without b. The other checks of the program have their verdict.
    assert lab.runs == [("a", "b"), ("a",)]
    said = capsys.readouterr().out.splitlines()
    assert said[-2:] == ["1 passed on a second try: selftest/a:y", "3 passed, 0 failed, 0 skipped"]
    assert "  FAIL selftest/a:y" in said and "       too few" in said
    document = json.loads((tmp_path / "out.json").read_text())
    strict_schema.validate(document, json.loads(SCHEMA.read_text()))
    assert (document["passed"], document["failed"]) == (3, 0)
    assert document["passed_on_second_try"] == ["selftest/a:y"]
    (tried,) = [test for test in document["tests"] if test["tries"] == 2]
    assert (tried["name"], tried["status"], tried["detail"]) == ("a:y", "pass", "failed on the first try:\ntoo few")


def test_each_program_is_tried_in_a_guest_of_its_own(lab: Lab) -> None:
    failed = {name: [result(f"{name}:x", "fail"), result(f"{name}:y", "fail")] for name in "ab"}
    lab.gives("a", failed["a"], [result("a:x"), result("a:y")])
    lab.gives("b", failed["b"], [result("b:x"), result("b:y")])
    assert run() == 0
    assert lab.runs == [("a", "b"), ("a",), ("b",)]


@pytest.mark.parametrize("second", [[result("a:x", "fail", "again")], [result("a:x", "skip")], []])
def test_what_does_not_pass_then_has_failed(
    second: list[TestResult], lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.gives("a", [result("a:x", "fail", "first")], second)
    assert run() == 1
    assert len(lab.runs) == 2
    said = capsys.readouterr().out
    assert "FAIL selftest/a:x, on the second try, too" in said
    assert "on a second try:" not in said
    assert said.endswith("1 passed, 1 failed, 0 skipped\n")


def test_what_is_final_is_never_tried_again(lab: Lab) -> None:
    """A kernel report decides the run: failures beside it have no second try either."""
    lab.gives("a", [result("a:x", "fail"), result("a", "fail", "the kernel reported: WARN", final=True)], [])
    assert run() == 1
    assert lab.runs == [("a", "b")]


def test_what_is_final_on_the_second_try_fails(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    report = result("machine:dram-cxl", "fail", "the kernel reported: KASAN", final=True)
    lab.gives("a", [result("a:x", "fail")], [result("a:x"), report])
    assert run() == 1
    said = capsys.readouterr().out
    assert "on the second try of a:x:\n       the kernel reported: KASAN" in said
    assert said.endswith("1 passed on a second try: selftest/a:x\n2 passed, 1 failed, 0 skipped\n")


def test_what_left_the_gate_counts_all_the_same_when_it_is_final(lab: Lab) -> None:
    lab.gives("b", [result("b:left", "fail", "by the clock")])
    assert (run(), lab.runs) == (0, [("a", "b")])
    lab.gives("b", [result("b:left", "fail", "wrong data", final=True)])
    assert run() == 1


@pytest.mark.parametrize("words", [["--strict"], ["--all"], ["-k", "a"], ["--group", "selftest"]])
def test_no_second_try_but_in_the_gate(words: list[str], lab: Lab) -> None:
    lab.gives("a", [result("a:x", "fail")], [result("a:x")])
    assert run(*words) == 1
    assert len(lab.runs) == 1


def test_a_group_without_a_guest_has_none(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of `unit` that passes on a second try depends on its host, or on the tests before it: that is a fault."""
    ran: list[bool] = []

    def unit(request: groups.Request) -> Iterator[TestResult]:
        ran.append(True)
        yield TestResult("unit", "tests/unit/test_x.py::test_y", "pass" if len(ran) > 1 else "fail")

    chosen = {**groups.GROUPS, "unit": groups.Group("unit", "no guest", list, unit, in_gate=True)}
    monkeypatch.setattr(verb, "GROUPS", {name: chosen[name] for name in ("unit", "selftest")})
    assert run() == 1
    assert ran == [True]


def test_a_case_of_kunit_is_tried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    globs: list[str] = []

    def ran(run: KunitRun) -> Iterator[TestResult]:
        globs.append(run.glob)
        again = len(globs) > 1
        yield TestResult("kunit", "suite.one", "pass")
        yield TestResult("kunit", "suite.two", "pass" if again else "fail")

    monkeypatch.setattr(groups, "kernel_for", lambda request, flavour: Path("vmlinux"))
    monkeypatch.setattr(groups, "run_kunit", ran)
    monkeypatch.setattr(groups, "kunit_names", lambda: ["suite.one", "suite.two"])
    monkeypatch.setattr(verb, "GROUPS", {"kunit": groups.GROUPS["kunit"]})
    monkeypatch.setattr(verb, "_gate", lambda: Gate(frozenset()))
    assert run() == 0
    assert globs == ["", "suite.two"]


def test_batches_keep_order_and_units_together() -> None:
    def unit(name: str) -> str:
        return name.partition(":")[0]

    assert batches(["b:1", "a:1", "b:2", "b:1"], unit) == [["b:1", "b:2"], ["a:1"]]
    assert batches(["x", "y"], lambda name: "") == [["x", "y"]]
    assert list(second_tries([], unit, lambda names: [])) == []
    assert retriable([result("a"), result("b", "skip")]) == []


# ---- what is final ----


def judged(monkeypatch: pytest.MonkeyPatch, lines: str, how: str = "exit 0", log: str = "") -> list[TestResult]:
    """The results of program `a`, which printed `lines`."""

    def guest(*words: object, **options: object) -> GuestResult:
        mark = words[2][1]  # type: ignore[index]
        text = f"{mark} start a\n{lines}{mark} end a {how} 1000\n{mark} done\n"
        options["stdout"](text.encode())  # type: ignore[operator]
        return GuestResult(0, b"", b"", log, "ok")

    monkeypatch.setattr(selftest, "run_in_guest", guest)
    monkeypatch.setattr(selftest, "compile_static", lambda *names: Path("/batch"))
    monkeypatch.setattr(selftest, "compile_programs", lambda programs, includes: [(p, Path("/a")) for p in programs])
    monkeypatch.setattr(selftest, "kernel_includes", lambda programs: [])
    return list(run_selftests(SelftestRun("selftest", Path("vmlinux")), [PROGRAMS[0]]))


@pytest.mark.parametrize(
    ("lines", "how", "log", "final"),
    [
        ("1..1\n# 90 of 100 moved\nnot ok 1 x\n", "exit 1", "", [False, False]),
        ("1..1\n# wrong data: page 7 has another content\nnot ok 1 x\n", "exit 1", "", [True, False]),
        # Too few results, a signal: strange, but neither a report nor a hang.
        ("1..2\nok 1 x\n", "exit 0", "", [False, False, False]),
        ("1..1\nok 1 x\n", "signal 11", "", [False, False, False]),
        ("1..1\nok 1 x\n", "timeout 9", "", [False, True]),
        ("1..1\nok 1 x\n", "exit 0", "terrace-test: start a\nWARNING: CPU: 0 PID: 1 at mm/x.c:1 f+0x0/0x10\n", None),
    ],
)
def test_reports_hangs_and_wrong_data_are_final(
    lines: str, how: str, log: str, final: list[bool] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = judged(monkeypatch, lines, how, log)
    if final is None:
        assert [r.name for r in found if r.final] == ["a"]
    else:
        assert [r.final for r in found] == final


def test_what_the_kernel_says_in_kunit_is_final() -> None:
    dead = GuestResult(124, b"", b"", "", "panic")
    (found,) = kunit.judge_kunit(dead, "kunit")
    assert (found.status, found.final) == ("fail", True)

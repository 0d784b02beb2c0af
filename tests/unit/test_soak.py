# SPDX-License-Identifier: GPL-2.0
"""--soak: the counts by which a check enters the gate."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import strict_schema
from terrace.cli import test as verb
from terrace.errors import UsageError
from terrace.paths import repo_root
from terrace.testing import groups
from terrace.testing.programs import MachineKey, Program
from terrace.testing.results import TestResult
from terrace.testing.selftest import OVERTIME, SelftestRun
from terrace.testing.soak import BUSY_LOOPS, busy_loops

PROGRAMS = [Program(name, Path(f"{name}.c"), MachineKey(), 60, debug=True) for name in ("a", "b")]
SCHEMA = repo_root() / "docs/reference/schema/soak.schema.json"


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    args = parser.parse_args(words)
    verb.check_arguments(args)
    return verb.main(args)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[SelftestRun]:
    """The runs there were; in the third one `a:y` fails."""
    made: list[SelftestRun] = []

    def ran(run: SelftestRun, programs: Sequence[Program]) -> Iterator[TestResult]:
        made.append(run)
        for program in programs:
            yield TestResult(run.group, f"{program.name}:x", "pass")
            bad = len(made) == 3
            yield TestResult(run.group, f"{program.name}:y", "fail" if bad else "pass", "7 of 9\nmore" if bad else "")

    for module in (verb, groups):
        monkeypatch.setattr(module, "find_programs", lambda: PROGRAMS)
    monkeypatch.setattr(groups, "kernel_for", lambda request, flavour: Path("vmlinux"))
    monkeypatch.setattr(groups, "run_selftests", ran)
    names = ("selftest", "selftest-debug")
    monkeypatch.setattr(verb, "GROUPS", {name: groups.GROUPS[name] for name in names})
    return made


def test_every_check_is_counted(rounds: list[SelftestRun], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--soak", "5", "-k", "a", "-o", str(tmp_path / "out.json")) == 1
    assert len(rounds) == 5
    # On the kernel of the gate.
    assert all(run.group == "selftest" for run in rounds)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "5 rounds of selftest beside 4 busy loops …"
    assert said[-3:] == ["4 of 5  selftest/a:y (1 failed)", "    round 3: 7 of 9", "5 of 5  selftest/a:x"]
    document = json.loads((tmp_path / "out.json").read_text())
    strict_schema.validate(document, json.loads(SCHEMA.read_text()))
    assert [(check["name"], check["passed"]) for check in document["checks"]] == [
        ("selftest/a:x", 5),
        ("selftest/a:y", 4),
    ]


def test_all_of_all_rounds_is_a_pass(rounds: list[SelftestRun]) -> None:
    assert run("--soak", "2", "-k", "b") == 0
    assert run("--soak", "1", "--group", "selftest-debug") == 1


def test_what_is_final_needs_no_count(
    rounds: list[SelftestRun], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ran(run: SelftestRun, programs: Sequence[Program]) -> Iterator[TestResult]:
        rounds.append(run)
        yield TestResult(run.group, "a", "fail", "the kernel reported: WARN\nat mm/x.c", final=True)

    monkeypatch.setattr(groups, "run_selftests", ran)
    assert run("--soak", "50", "-k", "a") == 1
    assert len(rounds) == 1
    said = capsys.readouterr().out
    assert "ended early" in said and "    round 1: the kernel reported: WARN\n    at mm/x.c\n" in said


def test_rounds_that_there_was_no_time_for_are_no_evidence(
    rounds: list[SelftestRun], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--soak", "2", "-k", "a", "--within", "0s") == 1
    assert capsys.readouterr().out.endswith(f"{OVERTIME}: 0 of 2 rounds\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--soak", "50"], "--soak is for the tests that -k or --group names"),
        (["--soak", "50", "-k", "a", "--all"], "--soak goes without --all"),
        (["--soak", "0", "-k", "a"], "--soak 0: use a whole number"),
        (["--soak", "2", "-k", "nothing-like-that"], "picks no test of selftest"),
    ],
)
def test_a_mistake_is_named(words: list[str], said: str, rounds: list[SelftestRun]) -> None:
    with pytest.raises(UsageError, match=said):
        run(*words)


def test_the_loops_are_busy_and_end() -> None:
    with busy_loops() as loops:
        assert len(loops) == BUSY_LOOPS
        assert all(loop.poll() is None for loop in loops)
    assert all(loop.poll() is not None for loop in loops)

# SPDX-License-Identifier: GPL-2.0
"""terrace test as a command: what it needs is there before it runs, and nothing keeps it from its summary."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from terrace.cli import test as verb
from terrace.testing.host_groups import list_pytest
from terrace.testing.programs import MachineKey, Program
from terrace.testing.results import TestResult
from terrace.testing.selftest import SelftestRun


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.main(parser.parse_args(words))


def test_without_make_the_group_fails_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "require_packages", lambda packages, why: None)
    monkeypatch.setattr(verb, "run_lint", lambda wanted: iter([TestResult("lint", "ruff", "pass")]))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run("--group", "policy", "--group", "lint") == 1
    said = capsys.readouterr().out
    assert "FAIL policy/policy" in said
    assert "the group policy could not go on: [Errno 2] No such file or directory: 'make'" in said
    assert said.endswith("failed:\n  policy/policy\n1 passed, 1 failed, 0 skipped\n")


PROGRAMS = [
    Program("always", Path("a.c"), MachineKey(), 60, debug=True),
    Program("debug_full", Path("b.c"), MachineKey(), 60, debug=True, short_debug=False),
    Program("full", Path("c.c"), MachineKey(), 60, debug=True, short=False, short_debug=False),
    Program("never_debug", Path("d.c"), MachineKey(), 60, debug=False, short_debug=False),
]
EVERYTHING = [
    *(f"selftest/{program.name}" for program in PROGRAMS),
    *(f"selftest-debug/{program.name}" for program in PROGRAMS[:3]),
]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["selftest/always", "selftest/debug_full", "selftest/never_debug", "selftest-debug/always"]),
        (["--full"], EVERYTHING),
        # Whoever names tests gets them.
        (["--group", "selftest-debug"], EVERYTHING[4:]),
        (["-k", "full"], ["selftest/debug_full", "selftest/full", "selftest-debug/debug_full", "selftest-debug/full"]),
    ],
)
def test_what_takes_long_runs_when_asked_for(
    words: list[str], names: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []

    def run_them(run: SelftestRun, programs: Sequence[Program]) -> Iterator[TestResult]:
        for program in programs:
            ran.append(f"{run.group}/{program.name}")
            yield TestResult(run.group, program.name, "pass")

    monkeypatch.setattr(verb, "find_programs", lambda: PROGRAMS)
    monkeypatch.setattr(verb, "_kernel", lambda request, flavour: Path("vmlinux"))
    monkeypatch.setattr(verb, "run_selftests", run_them)
    monkeypatch.setattr(verb, "GROUPS", {name: verb.GROUPS[name] for name in ("selftest", "selftest-debug")})
    assert run(*words) == 0
    assert ran == names
    said = capsys.readouterr().out.splitlines()
    assert ("not run: 1 of selftest, 2 of selftest-debug; --full runs them, too" in said) == (not words)
    assert run(*words, "--list") == 0
    assert capsys.readouterr().out.splitlines() == names


def test_nothing_is_begun_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "run_lint", lambda wanted: iter([TestResult("lint", "ruff", "pass")]))
    assert run("--group", "lint", "--group", "selftest", "--within", "0s") == 0
    said = capsys.readouterr().out
    assert "skipped: the time of --within is over" in said
    assert said.endswith("0 passed, 0 failed, 2 skipped\n")


def test_no_kernel_is_built_that_there_is_no_time_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built: list[str] = []
    monkeypatch.setattr(verb, "find_programs", lambda: PROGRAMS)

    def build(request: verb.Request, flavour: str) -> Path:
        built.append(flavour)
        return Path("vmlinux")

    monkeypatch.setattr(verb, "_kernel", build)
    monkeypatch.setattr(verb, "run_selftests", lambda run, programs: iter([TestResult(run.group, "x", "pass")]))
    monkeypatch.setattr("terrace.kernel.build.find_built", lambda flavour: None)
    assert run("--group", "selftest-debug", "--within", "20min") == 0
    assert (built, capsys.readouterr().out.splitlines()[-1]) == ([], "0 passed, 0 failed, 3 skipped")
    assert run("--group", "selftest-debug", "--within", "30min") == 0
    assert built == ["debug"]


def test_pytest_leaves_out_what_is_marked_full() -> None:
    short, full = (set(list_pytest("tests/lab", short)) for short in (True, False))
    assert short and short < full
    assert any("a_stock_kernel" in name for name in full - short)


@pytest.mark.parametrize("group", ["unit", "policy"])
def test_what_a_group_compiles_and_boots_with_is_installed_before_it_runs(
    group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a bare machine whole modules skipped in silence, and QEMU came with a later group."""
    order: list[str] = []

    def packages(names: Sequence[str], why: str) -> None:
        order.extend(names)

    def ran(*_: object) -> Iterator[TestResult]:
        order.append("ran")
        yield TestResult(group, "x", "pass")

    monkeypatch.setattr(verb, "require_packages", packages)
    monkeypatch.setattr(verb, "require_qemu", lambda: order.append("qemu"))
    monkeypatch.setattr(verb, "run_pytest", ran)
    monkeypatch.setattr(verb, "run_policy", ran)
    assert run("--group", group) == 0
    assert order == ["gcc", "libc6-dev", "make", *(["qemu"] if group == "unit" else []), "ran"]

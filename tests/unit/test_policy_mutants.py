# SPDX-License-Identifier: GPL-2.0
"""The group policy-mutants: each mutant of the decision code is a test, and a survivor is a failure."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from terrace.testing import host_groups
from terrace.testing.results import TestResult
from terrace.testing.select import parse_selector

#: Longer than the column of names in the report.
LONG = "one number of idle ranges for all slower tiers"
NAMES = ["pay time twice", LONG]


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[TestResult]]:
    """Run the group with two mutants, and with this exit code and output of make."""
    monkeypatch.setattr(host_groups, "policy_mutant_names", lambda: NAMES)
    monkeypatch.setattr(host_groups, "make_dir", lambda kind: tmp_path)

    def run(code: int, *lines: str) -> list[TestResult]:
        def make(words: list[str], limit_s: float, watch: Callable[[str], None], **_: Any) -> tuple[int, str]:
            (only,) = (word.removeprefix("ONLY=") for word in words if word.startswith("ONLY="))
            assert Path(only).read_text().splitlines() == NAMES
            for line in lines:
                watch(f"{line}\n")
            return code, "".join(f"{line}\n" for line in lines)

        monkeypatch.setattr(host_groups, "_run", make)
        return list(host_groups.run_policy_mutants(lambda name: True))

    return run


def _line(verdict: str, name: str, cases: str = "") -> str:
    """Format a line as mutants.py does."""
    return f"{verdict:8}  {name:32}  {cases}"


def test_each_mutant_has_a_result_and_there_is_progress(
    group: Callable[..., list[TestResult]], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [_line("caught", NAMES[0], "a_case, another"), _line("caught", LONG, "time limit")]
    found = group(0, *lines, "2 of 2 mutants caught")
    assert [(r.group, r.name, r.status, r.detail) for r in found] == [
        ("policy-mutants", NAMES[0], "pass", "caught by a_case, another"),
        ("policy-mutants", LONG, "pass", "caught by time limit"),
    ]
    assert "mutants of the decision code: 50 %" in capsys.readouterr().err


def test_a_survivor_is_a_failure_by_its_name(group: Callable[..., list[TestResult]]) -> None:
    lines = [_line("caught", NAMES[0], "a_case"), _line("SURVIVED", LONG), "1 of 2 mutants caught"]
    found = group(2, *lines, "make: *** [Makefile:116: mutants] Error 1")
    assert [(r.name, r.status) for r in found] == [(NAMES[0], "pass"), (LONG, "fail")]
    assert found[1].detail == "survived: all test cases pass with it"


def test_a_mutant_without_a_result_is_a_failure(group: Callable[..., list[TestResult]]) -> None:
    error = f"error: '{LONG}' does not compile:"
    found = group(2, error, _line("SURVIVED", NAMES[0]), "0 of 2 mutants caught")
    assert [(r.name, r.status, r.final) for r in found] == [
        (NAMES[0], "fail", False),
        ("make-mutants", "fail", True),
    ]
    assert found[1].detail.splitlines() == [
        "make mutants ended with 2, after 1 of 2 mutants",
        error,
        "0 of 2 mutants caught",
    ]


def test_an_error_of_make_is_a_failure_though_all_are_caught(group: Callable[..., list[TestResult]]) -> None:
    found = group(2, *(_line("caught", name, "a_case") for name in NAMES))
    assert [r.name for r in found if r.status == "fail"] == ["make-mutants"]


def test_the_selected_mutants_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The real program, with one real mutant. It survived once: no case had ranges of the last tier."""
    monkeypatch.setattr(host_groups, "make_dir", lambda kind: tmp_path)
    name = "ranges of the last tier are no evidence"
    (only,) = host_groups.run_policy_mutants(parse_selector("last and tier and evidence"))
    assert (only.name, only.status) == (name, "pass"), only.detail
    assert "each_tier_has_its_own_evidence" in only.detail
    assert list(host_groups.run_policy_mutants(parse_selector("no-such-mutant"))) == []

# SPDX-License-Identifier: GPL-2.0
"""What the bloat check makes of bloat-o-meter's words."""

import pytest

from terrace.kernel.check import _bloat

_NOTHING = "add/remove: 0/0 grow/shrink: 0/0 up/down: 0/0 (0)"
_COLUMNS = "Function                                     old     new   delta"
_TOTAL = "Total: Before=73531, After=73392, chg -0.19%"
_KNOWN = {"task_numa_work": "cut in two"}


def _shrunk(*names: str) -> list[str]:
    head = f"add/remove: 0/0 grow/shrink: 0/{len(names)} up/down: 0/-{139 * len(names)} (-139)"
    return [head, _COLUMNS, *(f"{name}      2306    2167    -139" for name in names), _TOTAL]


def test_nothing_changed() -> None:
    assert _bloat([_NOTHING, _COLUMNS, _TOTAL], {}) == []


def test_refactored_function_may_shrink() -> None:
    assert _bloat(_shrunk("task_numa_work"), _KNOWN) == []


@pytest.mark.parametrize("known", [{"task_numa_work": " "}, {"other": "why"}])
def test_shrinking_needs_a_reason(known: dict[str, str]) -> None:
    assert _bloat(_shrunk("task_numa_work"), known) == _shrunk("task_numa_work")


def test_one_without_a_reason_is_enough() -> None:
    assert _bloat(_shrunk("task_numa_work", "update_curr"), _KNOWN)


@pytest.mark.parametrize("head", ["add/remove: 1/0 grow/shrink: 0/1", "add/remove: 0/0 grow/shrink: 1/0"])
def test_growth_is_never_allowed(head: str) -> None:
    lines = [f"{head} up/down: 8/0 (8)", _COLUMNS, "task_numa_work      2306    2314      +8", _TOTAL]
    assert _bloat(lines, _KNOWN) == lines


def test_words_it_does_not_know_are_a_finding() -> None:
    assert _bloat(["something else"], _KNOWN) == ["something else"]

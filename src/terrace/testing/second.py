# SPDX-License-Identifier: GPL-2.0
"""The gate's second try: the failures to retry, their batches, and the final results.

A kernel report, a hang, wrong data and anything that stops a group are final: these results are
marked so.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from terrace.testing.results import TestResult

#: Runs the checks of a group with these names alone: in a new guest, if they need a guest.
RunAlone = Callable[[Sequence[str]], Iterable[TestResult]]


def retriable(results: Iterable[TestResult]) -> list[TestResult]:
    """Get the failures to retry; none if one of the results is final, which decides the run."""
    failed = [result for result in results if result.status == "fail"]
    return [] if any(result.final for result in failed) else failed


def batches(names: Iterable[str], unit: Callable[[str], str]) -> list[list[str]]:
    """Group the names by unit (a program, a boot), in order and each once."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(unit(name), []).append(name)
    return list(found.values())


def second_tries(
    failed: Sequence[TestResult], unit: Callable[[str], str], run_alone: RunAlone
) -> Iterator[tuple[TestResult | None, TestResult]]:
    """Retry `failed`, one unit at a time; return pairs of a first result and its replacement.

    A final failure of a second try is a result of its own, paired with None. A check that does not
    pass then, or has no result, keeps its failure, with both descriptions.
    """
    by_name = {result.name: result for result in failed}
    for names in batches(by_name, unit):
        second = {}
        for result in run_alone(names):
            if result.status == "fail" and result.final:
                yield None, replace(result, detail=f"on the second try of {', '.join(names)}:\n{result.detail}")
            # The first try has reported the other checks that ran with it.
            second[result.name] = result
        for name in names:
            first, then = by_name[name], second.get(name)
            if then is not None and then.status == "pass":
                yield first, replace(then, tries=2, detail=f"failed on the first try:\n{first.detail}")
            else:
                how = then.detail if then is not None else "it gave no result"
                yield first, replace(first, tries=2, detail=f"{first.detail}\non the second try:\n{how}")

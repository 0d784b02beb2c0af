# SPDX-License-Identifier: GPL-2.0
"""The gate's second try: which failures get one, together with what, and what comes of it.

A kernel report, a hang, wrong data and whatever keeps a group from going on are final: those results say so.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from terrace.testing.results import TestResult

#: Runs the checks of a group that have these names, alone: in a fresh guest where they are of a guest.
RunAlone = Callable[[Sequence[str]], Iterable[TestResult]]


def retriable(results: Iterable[TestResult]) -> list[TestResult]:
    """The failures that are tried once more; none when one of the results is final: that decides the run."""
    failed = [result for result in results if result.status == "fail"]
    return [] if any(result.final for result in failed) else failed


def batches(names: Iterable[str], unit: Callable[[str], str]) -> list[list[str]]:
    """The names, those of one unit (a program, a boot) together, in their order and each once."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(unit(name), []).append(name)
    return list(found.values())


def second_tries(
    failed: Sequence[TestResult], unit: Callable[[str], str], run_alone: RunAlone
) -> Iterator[tuple[TestResult | None, TestResult]]:
    """Try `failed` once more, a unit at a time: pairs of a first result and the one that takes its place.

    What is final in a second try is a result of its own, with None beside it. A check that does not pass then, or is
    not heard of, keeps its failure, with both stories in it.
    """
    by_name = {result.name: result for result in failed}
    for names in batches(by_name, unit):
        second = {}
        for result in run_alone(names):
            if result.status == "fail" and result.final:
                yield None, replace(result, detail=f"on the second try of {', '.join(names)}:\n{result.detail}")
            # Of what else ran with it the first try has told.
            second[result.name] = result
        for name in names:
            first, then = by_name[name], second.get(name)
            if then is not None and then.status == "pass":
                yield first, replace(then, tries=2, detail=f"failed on the first try:\n{first.detail}")
            else:
                how = then.detail if then is not None else "it gave no result"
                yield first, replace(first, tries=2, detail=f"{first.detail}\non the second try:\n{how}")

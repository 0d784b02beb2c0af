# SPDX-License-Identifier: GPL-2.0
"""The working set of each process by tier over the recorded time, from the events mtier_heat."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from terrace.trace.facts import WorkingSet
from terrace.trace.lines import Event
from terrace.trace.moves import quantile
from terrace.trace.store import Head

EVENT = "mtier_heat"
#: Equal parts of the time.
PARTS = 60
_NOT_RECORDED = (
    "the recording does not have them: `terrace record` of this version, on a kernel of this version, records them"
)
_NOT_SAMPLED = (
    "nothing was sampled in this time: the engine was off, or no memory of these processes was on a slow node, or it "
    "may not move"
)


def working_sets(head: Head, events: Iterable[Event]) -> list[WorkingSet]:
    """Get one working set for each process and tier; the processes with the largest ones first.

    Address spaces whose process had ended (pid 0) are left out, since their names are not known.
    """
    found: dict[tuple[int, str, str], list[Event]] = {}
    for event in events:
        if event.name == EVENT and event.number("pid"):
            found.setdefault((event.number("pid"), event.word("comm"), event.word("tier")), []).append(event)
    made = [_working_set(head, *key, own) for key, own in found.items()]
    made = [one for one in made if one.present_bytes]
    # Sort keys of a process: the sum of its medians, then the sum of its maxima.
    total: dict[tuple[int, str], tuple[int, int]] = {}
    for one in made:
        median, largest = total.get((one.pid, one.name), (0, 0))
        total[one.pid, one.name] = median - one.p50_bytes, largest - one.max_bytes
    return sorted(made, key=lambda one: (*total[one.pid, one.name], one.pid, one.name, one.tier))


def problem(head: Head, found: Sequence[WorkingSet]) -> str | None:
    """The reason for an empty table; None if it has rows."""
    if found:
        return None
    return _NOT_SAMPLED if f"mtier:{EVENT}" in head.enabled else _NOT_RECORDED


def _working_set(head: Head, pid: int, name: str, tier: str, events: Sequence[Event]) -> WorkingSet:
    weights = _weights(head, events)

    def share(field_name: str, part: float) -> int:
        """Get the value that the field does not exceed for ``part`` of the time."""
        values = sorted((event.number(field_name), weight) for event, weight in zip(events, weights, strict=True))
        return quantile(values, part)

    def size(field_name: str, part: float) -> int:
        return share(field_name, part) * head.page_bytes

    used = [event.number("in_use") for event in events]
    return WorkingSet(
        pid=pid,
        name=name,
        tier=tier,
        samples=len(events),
        looked_pages=sum(event.number("looked") for event in events),
        window_ns=share("window_ns", 0.5),
        mapped_bytes=size("rss", 0.5),
        present_bytes=size("present", 0.5),
        min_bytes=min(used) * head.page_bytes,
        p25_bytes=size("in_use", 0.25),
        p50_bytes=size("in_use", 0.5),
        p75_bytes=size("in_use", 0.75),
        max_bytes=max(used) * head.page_bytes,
        error_bytes=size("error", 0.5),
        over_time=_over_time(head, events, weights),
    )


def _weights(head: Head, events: Sequence[Event]) -> list[int]:
    """Get the duration of each estimate in ns: until the next one; the last one has the duration of
    the one before it.
    """
    gaps = [max(1, later.at_ns - event.at_ns) for event, later in zip(events, events[1:], strict=False)]
    last = gaps[-1] if gaps else max(1, events[-1].number("window_ns"))
    return [*gaps, min(last, max(1, round(head.seconds * 1e9)))]


def _over_time(head: Head, events: Sequence[Event], weights: Sequence[int]) -> list[int | None]:
    """Get the estimate in force in the middle of each part of the time; None before the first and after the last."""
    times = [event.at_ns for event in events]
    part_ns = head.seconds * 1e9 / PARTS
    found: list[int | None] = []
    for part in range(PARTS):
        # A process may live for less than a part.
        at_ns = min(max((part + 0.5) * part_ns, times[0]), times[-1] + weights[-1] - 1)
        here = part * part_ns <= at_ns < (part + 1) * part_ns
        event = events[max(0, bisect_right(times, at_ns) - 1)]
        found.append(event.number("in_use") * head.page_bytes if here else None)
    return found

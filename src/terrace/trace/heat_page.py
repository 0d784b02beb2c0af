# SPDX-License-Identifier: GPL-2.0
"""The page of `terrace report --heat`: the working set of each process by tier, over the recorded time."""

from __future__ import annotations

from terrace.cells import clip, fold, printable, width
from terrace.output import format_table
from terrace.trace.facts import Summary, WorkingSet
from terrace.trace.page import COLUMNS, bar, bars_of, head_text, time_text
from terrace.units import format_size

#: Two standard errors, as in `terrace status --heat`.
_ERRORS = 2
_NAME_CELLS = 16
#: Characters of a row over time: each shows the maximum of its parts.
_CHARACTERS = 20
_LEGEND = (
    "Estimates, from samples, of the memory that is accessed within WINDOW; +- is {errors} standard errors.",
    "MIN to MAX: a quarter of the time it was no more than P25, half of the time no more than P50, and so on.",
    "SAMPLED: memory that can be sampled, the median. PAGES SEEN: sampled pages of all estimates of a row.",
    "The highest bar of a row is its MAX.",
)


def as_text(summary: Summary, limit: int, encoding: str = "utf-8") -> str:
    """Format the page with the first ``limit`` processes, in characters of ``encoding``."""
    bars = bars_of(encoding)
    lines = [head_text(summary), ""]
    if summary.working_sets_problem:
        lines.append(f"No working set is known: {summary.working_sets_problem}")
    else:
        pids = list(dict.fromkeys((one.pid, one.name) for one in summary.working_sets))
        chosen = set(pids[:limit])
        shown = [one for one in summary.working_sets if (one.pid, one.name) in chosen]
        lines.append(_table(shown, bars, summary.seconds))
        if len(pids) > limit:
            lines.append(f"… and {len(pids) - limit} more processes (--limit N, --json has all)")
        lines += ["", *(line.format(errors=_ERRORS) for line in _LEGEND)]
        if not any(one.tier == "fast" for one in summary.working_sets):
            lines.append("The fast tier is not sampled while it has room for all memory of the slow one.")
    whole = "\n".join(lines).splitlines()
    folded = [line.rstrip() for one in whole for line in (fold(one, COLUMNS) if width(one) > COLUMNS else [one])]
    return "\n".join(folded).encode(encoding, "replace").decode(encoding)


def _table(shown: list[WorkingSet], bars: str, seconds: float) -> str:
    heads = ["PROCESS", "PID", "TIER", "SAMPLED", "MIN", "P25", "P50", "P75", "MAX", "+-", "WINDOW", "PAGES SEEN"]
    rows: list[list[object]] = []
    before: tuple[int, str] | None = None
    for one in shown:
        same = before == (one.pid, one.name)
        before = (one.pid, one.name)
        sizes = (one.present_bytes, one.min_bytes, one.p25_bytes, one.p50_bytes, one.p75_bytes, one.max_bytes)
        rows.append(
            [
                "" if same else clip(printable(one.name) or "?", _NAME_CELLS),
                "" if same else one.pid,
                one.tier,
                *map(format_size, sizes),
                format_size(_ERRORS * one.error_bytes),
                time_text(one.window_ns),
                one.looked_pages,
                f"|{_bar(one, bars)}|",
            ]
        )
    return format_table(rows, [*heads, f"OVER {seconds:.3g} s"], COLUMNS)


def _bar(one: WorkingSet, bars: str) -> str:
    """Format the working set over time: the highest character is the row's own maximum."""
    parts = [used or 0 for used in one.over_time]
    step = max(1, len(parts) // _CHARACTERS)
    return bar([max(parts[at : at + step]) for at in range(0, len(parts), step)], one.max_bytes, bars)

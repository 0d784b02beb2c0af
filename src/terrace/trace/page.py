# SPDX-License-Identifier: GPL-2.0
"""The page that `terrace report` prints: one screen of text."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence

from terrace import output
from terrace.cells import clip, fold, printable, width
from terrace.output import format_duration
from terrace.trace.facts import Check, Diagnosis, Process, Route, Summary
from terrace.units import format_nodes, format_size

#: Longest line in columns.
COLUMNS = 120
#: Most lines of each part; the page prints the number of omitted lines.
_ROUTES, _PROCESSES, _CGROUPS, _REASONS, _MIGRATIONS = 6, 8, 4, 12, 4

_DIAGNOSIS = "DIAGNOSIS, as `terrace status` gives it at start and end"
_DIAGNOSIS_NONE = "none: promotion was on, and no known reason kept pages from migrating"

_BARS = " ▁▂▃▄▅▆▇█"
_PLAIN_BARS = " .:-=+*#%"


def as_text(summary: Summary, encoding: str = "utf-8") -> str:
    """Format the page in characters of ``encoding``."""
    bars = bars_of(encoding)
    parts = [
        head_text(summary),
        _moved(summary),
        _diagnosis(summary),
        _rates(summary, bars),
        _routes(summary),
        _processes(summary),
        _cgroups(summary),
        _waits(summary),
        _reasons(summary),
        _work(summary),
        _migrations(summary),
    ]
    # A line of a table is limited already; the width of a picture does not depend on the terminal.
    lines = "\n\n".join(part for part in parts if part).splitlines()
    shown = [line.rstrip() for whole in lines for line in (fold(whole, COLUMNS) if width(whole) > COLUMNS else [whole])]
    return "\n".join(shown).encode(encoding, "replace").decode(encoding)


def bars_of(encoding: str) -> str:
    """Get the characters of bars, from none to full, in an encoding."""
    try:
        _BARS.encode(encoding)
    except UnicodeEncodeError:
        return _PLAIN_BARS
    return _BARS


def _table(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    return output.format_table(rows, headers, min(COLUMNS, output.columns() or COLUMNS))


def head_text(summary: Summary) -> str:
    """Format the first lines: what was recorded, and whether it is complete."""
    lines = [
        f"{format_duration(summary.seconds)} on {printable(summary.host)}, Linux {printable(summary.kernel)}, "
        f"from {printable(summary.started)}; nodes of the top tier: {format_nodes(summary.top_nodes)}"
    ]
    if summary.command is not None:
        lines.append(f"while this ran, with exit code {summary.exit_code}: {printable(shlex.join(summary.command))}")
    if summary.pids or summary.cgroup:
        lines.append(_narrowed(summary))
    lines.append(_trust(summary))
    if summary.strange_events:
        lines.append(f"{summary.strange_events} events have another form than this tool knows, and are left out")
    return "\n".join(lines)


def _narrowed(summary: Summary) -> str:
    parts = [f"PID {format_nodes(summary.pids)}"] if summary.pids else []
    parts += [f"cgroup {_short(summary.cgroup)}"] if summary.cgroup else []
    return f"only {', '.join(parts)}: by events alone, because the kernel's counters are of the whole machine"


def _trust(summary: Summary) -> str:
    """Format whether the trace is complete."""
    if not summary.lost_events:
        text = f"{summary.events} events, none lost"
    else:
        text = (
            f"{summary.events} events, AND {summary.lost_events} LOST: "
            "what is said by events is too little (terrace record --buffer SIZE)"
        )
    differ = [check for check in summary.checks if not check.agree]
    if differ:
        return "\n".join([text, *(f"the trace differs: {_differs(check)}" for check in differ)])
    return text + ("; as many pages as the kernel counted" if summary.checks and not summary.lost_events else "")


def _differs(check: Check) -> str:
    return f"{check.what} {check.trace_pages} pages, and the kernel counted {check.counted_pages}"


def _moved(summary: Summary) -> str:
    shown = [one for one in summary.moved if one.pages or one.what.endswith("by the engine")]
    rows = [
        (
            one.what,
            one.pages,
            format_size(one.bytes),
            f"{format_size(round(one.bytes_per_s))}/s",
            "-" if one.batches is None else one.batches,
            "-" if one.tried is None else one.tried,
        )
        for one in shown
    ]
    return _table(rows, ("WHAT MOVED", "PAGES", "SIZE", "RATE", "BATCHES", "FOLIOS TRIED"))


def _diagnosis(summary: Summary) -> str:
    """Format the reasons why no pages migrate, with next steps; empty if pages were promoted and there is no reason."""
    if summary.diagnosis is None:
        return ""
    lines = [line for one in summary.diagnosis for line in _diagnosis_lines(one)]
    if not lines and not any(one.pages for one in summary.moved):
        lines = [_DIAGNOSIS_NONE]
    return "\n".join([_DIAGNOSIS, *lines]) if lines else ""


def _diagnosis_lines(one: Diagnosis) -> list[str]:
    when = "" if one.at_start and one.at_end else "at the start: " if one.at_start else "at the end: "
    lines = _wrapped(f"{one.severity:<5}  ", 7, when + printable(one.message))
    return lines + (_wrapped("       -> ", 10, printable(one.fix)) if one.fix else [])


def _wrapped(first: str, indent: int, text: str) -> list[str]:
    """Wrap to `COLUMNS`, without cutting off a command to copy."""
    return textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False)


def _rates(summary: Summary, bars: str) -> str:
    rates = summary.rates
    lists = [("up", rates.up), ("down", rates.down), ("followed", rates.followed)]
    lists = [(name, pages) for name, pages in lists if any(pages)]
    if not lists:
        return ""
    top = max(max(pages) for _, pages in lists)
    speed = format_size(round(top * summary.page_bytes / rates.part_s))
    lines = [f"OVER TIME, {rates.part_s:.3g} s a column; the highest is {speed}/s"]
    lines += [f"{name:<9}|{bar(pages, top, bars)}|" for name, pages in lists]
    return "\n".join(lines)


def bar(pages: Iterable[int], top: int, bars: str = _BARS) -> str:
    """Format a character for each number: the last one for ``top``, the first for 0."""
    steps = len(bars) - 1
    return "".join(bars[min(steps, -(-count * steps // top))] if count > 0 and top > 0 else bars[0] for count in pages)


def _routes(summary: Summary) -> str:
    rows = [(_route(one), one.pages, format_size(one.pages * summary.page_bytes)) for one in summary.routes[:_ROUTES]]
    return _part(rows, ("FROM WHERE TO WHERE", "PAGES", "SIZE"), len(summary.routes) - _ROUTES)


def _route(one: Route) -> str:
    nodes = ["?" if node is None else str(node) for node in (one.source, one.target)]
    return f"{one.way:<8} node {nodes[0]} -> node {nodes[1]}"


def _processes(summary: Summary) -> str:
    rows = [_process_row(summary, one) for one in summary.processes[:_PROCESSES]]
    heads = ("WHOSE: PROCESS", "PID", "CGROUP", "UP", "DOWN", "FOLLOWED", "BY FAULTS", "SIZE", "FAST")
    text = _part(rows, heads, len(summary.processes) - _PROCESSES)
    if any(one.shared for one in summary.processes[:_PROCESSES]):
        text += "\n~ batches with pages of several, shared out by folios"
    return text


def _process_row(summary: Summary, one: Process) -> list[object]:
    name = one.name or ("(has ended)" if not one.pid else "?")
    return [
        clip(printable(name), 20) + ("~" if one.shared else ""),
        one.pid,
        "-" if one.cgroup is None else _short(one.cgroup),
        one.up_pages,
        one.down_pages,
        one.followed_pages,
        one.balanced_pages,
        format_size(sum(one.node_bytes_after.values())) if one.node_bytes_after else "-",
        _fast(summary, one.node_bytes_before, one.node_bytes_after),
    ]


def _short(cgroup: str) -> str:
    """Shorten a path to its end, which identifies it."""
    name = "/" + printable(cgroup)
    return name if width(name) <= 28 else "…" + name[-27:]


def _fast(summary: Summary, before: dict[str, int] | None, after: dict[str, int] | None) -> str:
    """Format the share on nodes of the top tier before and after."""
    shares = [_share(summary, nodes) for nodes in (before, after)]
    return "-" if shares == ["-", "-"] else " -> ".join(shares)


def _share(summary: Summary, nodes: dict[str, int] | None) -> str:
    total = sum(nodes.values()) if nodes else 0
    if not nodes or not total:
        return "-"
    return f"{100 * sum(nodes.get(str(node), 0) for node in summary.top_nodes) / total:.0f} %"


def _cgroups(summary: Summary) -> str:
    if summary.cgroups_problem:
        return f"Cgroups were not counted: {printable(summary.cgroups_problem)}"
    rows = [
        (
            _short(one.name),
            *("-" if pages is None else pages for pages in (one.promoted_pages, one.demoted_pages)),
            format_size(sum((one.node_bytes_after or {}).values())),
            _fast(summary, one.node_bytes_before, one.node_bytes_after),
        )
        for one in summary.cgroups[:_CGROUPS]
    ]
    return _part(
        rows, ("WHOSE: CGROUP (counted)", "PROMOTED", "DEMOTED", "SIZE", "FAST"), len(summary.cgroups) - _CGROUPS
    )


def _waits(summary: Summary) -> str:
    rows = [
        (
            one.what,
            one.pages,
            *(time_text(value) for value in (one.p50_ns, one.p90_ns, one.p99_ns, one.max_ns)),
            one.meaning,
        )
        for one in summary.waits
    ]
    return _part(rows, ("HOW LONG THEY WAITED", "PAGES", "P50", "P90", "P99", "MAX", "COUNTED"))


def _reasons(summary: Summary) -> str:
    rows = [
        (one.group, one.reason, one.count, one.unit, one.meaning)
        for one in sorted(summary.reasons, key=lambda one: one.group == "not deferred")[:_REASONS]
    ]
    return _part(rows, ("WHY NOT", "REASON", "COUNT", "OF", "MEANING"), len(summary.reasons) - _REASONS)


def _work(summary: Summary) -> str:
    """Format other work of promotion and of the other mechanisms."""
    lines = []
    if (bursts := summary.bursts).count:
        lines.append(
            f"looks: {bursts.looks} in {bursts.count} bursts of {bursts.ranges} ranges of 2 MiB, "
            f"{time_text(bursts.tau_ns)} apart in the last; CPU time {time_text(bursts.spent_ns)}, "
            f"gained {time_text(bursts.gain_ns)}"
        )
    flushes = summary.flushes
    ends = (flushes.waited_pages, flushes.no_need_pages, flushes.joined_pages, flushes.refused_pages)
    if any(ends) or flushes.flushes:
        lines.append(
            "TLB flushes: {} pages waited, {} needed none, {} went along, {} could not wait; ".format(*ends)
            + f"{flushes.flushes} forced, {flushes.interrupted_cpus} CPUs interrupted"
        )
    lines += [
        f"scans for hint faults ({one.mode}): {one.count} of {one.entries} entries, {one.updates} made to fault; "
        f"p50 {time_text(one.p50_ns)}, max {time_text(one.max_ns)}, all {time_text(one.total_ns)}"
        for one in summary.scans
    ]
    if count := len({(one.pid, one.name) for one in summary.working_sets}):
        lines.append(f"working sets of {count} processes are recorded: terrace report --heat")
    return "\n".join(lines)


def _migrations(summary: Summary) -> str:
    rows = [(one.reason, one.moved_pages, one.failed_pages) for one in summary.migrations[:_MIGRATIONS]]
    return _part(rows, ("ALL MIGRATION, BY REASON", "PAGES", "FAILED"), len(summary.migrations) - _MIGRATIONS)


def _part(rows: Sequence[Sequence[object]], headers: Sequence[str], left_out: int = 0) -> str:
    """Format a table, and a line with the number of omitted rows; empty without rows."""
    if not rows:
        return ""
    text = _table(rows, headers)
    return text + (f"\n… and {left_out} more (--json has all)" if left_out > 0 else "")


def time_text(ns: int) -> str:
    """Format a time with three digits: 850 ns, 12.3 us, 4.56 ms, 7.89 s."""
    for unit, name in ((1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")):
        if ns >= unit:
            return f"{ns / unit:.3g} {name}" if ns < 1000 * unit else f"{ns // unit} {name}"
    return f"{ns} ns"

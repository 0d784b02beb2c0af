# SPDX-License-Identifier: GPL-2.0
"""The part above the table of the live view: a bar for each node, the state of promotion, and the
migration rates.
"""

from __future__ import annotations

from itertools import zip_longest

from terrace import cells
from terrace.live.spans import Line, padded
from terrace.live.state import State
from terrace.ops import report, top
from terrace.ops.topology import Node
from terrace.units import format_nodes, format_size

#: Use two columns from this width on, as in htop.
_TWO_COLUMNS = 78
_MANY_NODES = 4


def lines(state: State, width: int) -> list[Line]:
    """Format the header, in one column or two."""
    if state.report is None:
        return []
    nodes = state.report.now.nodes
    if width < _TWO_COLUMNS:
        return [_meter(node, width) for node in nodes] + _facts(state)
    half = (width - 2) // 2
    meters = [_meter(node, half) for node in nodes]
    split = (len(meters) + 1) // 2 if len(meters) > _MANY_NODES else len(meters)
    left, right = meters[:split], meters[split:] + _facts(state)
    return [padded(one or [], half) + [("  ", "plain")] + (other or []) for one, other in zip_longest(left, right)]


def _meter(node: Node, width: int) -> Line:
    """Format a bar with the used memory of a node."""
    style = "top" if node.top else "slow"
    tier = "" if node.rank is None else f" {style}"
    label = cells.left(f"Node {node.node}{tier}", 12)
    inside = max(0, width - len(label) - 3)
    if node.total_bytes is None or node.free_bytes is None:
        return [(label, "fact"), ("[", "bold"), (cells.right("?", inside), "dim"), ("]", "bold")]
    used = max(0, node.total_bytes - node.free_bytes)
    text = cells.right(f"{format_size(used)}/{format_size(node.total_bytes)}", inside)
    full = min(inside, round(inside * used / node.total_bytes)) if node.total_bytes else 0
    bar = "".join("|" if char == " " else char for char in text[:full])
    return [(label, "fact"), ("[", "bold"), (bar, style), (text[full:], "dim"), ("]", "bold")]


def _facts(state: State) -> list[Line]:
    assert state.report is not None
    now = state.report.now
    up, down = report.speeds(state.report)
    engine = report.engine_text(now)
    facts: list[Line] = [
        [("Promotion engine: ", "fact"), (engine, "on" if now.enabled else "bold")],
        [("Promoted: ", "fact"), (_speed(up), "up"), ("  Demoted: ", "fact"), (_speed(down), "down")],
        [(cells.printable(report.settings_line(now)), "dim")],
    ]
    return [*facts, _counts(state)]


def _speed(value: float | None) -> str:
    return "-" if value is None else f"{top.size_text(value)}/s"


def _only(state: State) -> str:
    """Format the filters from the command line."""
    want = state.want
    parts = [f"cgroup {want.cgroup}"] if want.cgroup else []
    if want.kind == "process":
        parts += [f"user {want.user}"] if want.user else []
        parts += [f"PID {format_nodes(want.pids)}"] if want.pids else []
    return ", ".join(parts)


def _counts(state: State) -> Line:
    """Format the number of processes, and how many of them are in the table."""
    look = state.look
    process = state.want.kind == "process"
    line: Line = [("Processes: " if process else "Cgroups: ", "fact"), (str(look.count) if look else "-", "bold")]
    if look and len(look.rows) < look.count:
        line.append((f", first {len(look.rows)} shown", "plain"))
    line += [("  Only: ", "fact"), (cells.printable(text), "warn")] if (text := _only(state)) else []
    if state.want.filter:
        line += [("  Filter: ", "fact"), (cells.printable(state.want.filter), "warn")]
    return line

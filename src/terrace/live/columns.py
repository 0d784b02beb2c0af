# SPDX-License-Identifier: GPL-2.0
"""Columns of the live view of `terrace top`: contents, widths, and the order in which they are dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from terrace.ops import top
from terrace.ops.residents import Resident
from terrace.ops.topology import Node

#: Least number of cells of the name.
NAME_CELLS = 12
_SIZE_CELLS = 7


@dataclass(frozen=True)
class Column:
    """One column; ``key`` is its name in `terrace.ops.order`."""

    key: str
    title: str
    cells: int
    #: Style of its cells.
    style: str
    #: Columns with the lowest weight are dropped first.
    weight: int
    text: Callable[[top.Row], str]
    numbers: bool = True


def columns(kind: str, nodes: Sequence[Node]) -> list[Column]:
    """Get all columns in display order; the name is last and takes the rest of the line."""
    fast = {node.node for node in nodes if node.top}
    slow = {node.node for node in nodes if not node.top}
    shown = [_pid(), _user()] if kind == "process" else []
    shown.append(Column("total", "TOTAL", _SIZE_CELLS, "plain", 7, lambda row: top.size_text(row.resident.total)))
    # With one slow node, its column is the sum of the slow nodes.
    shown += [_node(node, "slow" if slow == {node.node} else f"node{node.node}") for node in nodes]
    if len(slow) > 1:
        shown.append(Column("slow", "SLOW", _SIZE_CELLS, "slow", 9, lambda row: _slow(row.resident, slow)))
    if slow:
        shown.append(Column("fast", "FAST", 5, "plain", 6, lambda row: top.fast_text(row.resident, fast)))
    if kind == "cgroup":
        shown.append(Column("promoted", "UP/s", _SIZE_CELLS, "up", 5, lambda row: top.size_text(row.promoted_per_s)))
        shown.append(
            Column("demoted", "DOWN/s", _SIZE_CELLS + 1, "down", 4, lambda row: top.size_text(row.demoted_per_s))
        )
    shown.append(Column("name", kind.upper(), NAME_CELLS, "name", 10, lambda row: row.resident.name, False))
    return shown


def _pid() -> Column:
    return Column("pid", "PID", 7, "plain", 3, lambda row: str(row.resident.pid))


def _user() -> Column:
    return Column("user", "USER", 9, "dim", 2, lambda row: row.resident.user or "-", False)


def _node(node: Node, key: str) -> Column:
    number = node.node
    style, weight = ("top", 1) if node.top else ("slow", 8 if key == "slow" else 1)
    return Column(
        key, f"NODE{number}", _SIZE_CELLS, style, weight, lambda row: top.size_text(top.on_node(row.resident, number))
    )


def _slow(own: Resident, slow: set[int]) -> str:
    return "-" if own.nodes is None else top.size_text(own.on(slow))


def that_fit(every: Sequence[Column], cells: int) -> list[Column]:
    """Get the columns that fit on a line, with one cell between two."""
    kept = list(every)
    while len(kept) > 1 and sum(column.cells + 1 for column in kept) - 1 > cells:
        # Of several equal weights, drop the last column.
        kept.remove(min(reversed(kept), key=lambda column: column.weight))
    return kept

# SPDX-License-Identifier: GPL-2.0
"""Contents of `terrace top`: memory by owner and tier, and migrations; as data and as text."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from terrace.cells import printable
from terrace.ops.order import Order
from terrace.ops.report import page_bytes
from terrace.ops.residents import Resident
from terrace.ops.topology import Node
from terrace.output import format_table
from terrace.units import format_nodes, format_size

JSON_VERSION = 2


@dataclass(frozen=True)
class Row:
    """One line: a resident, and the rates of promotion and demotion of its pages (bytes/s; None: unknown)."""

    resident: Resident
    promoted_per_s: float | None
    demoted_per_s: float | None


def rows(now: Sequence[Resident], before: Sequence[Resident], seconds: float) -> list[Row]:
    """Compare the residents with those ``seconds`` before; new ones have no rates."""
    then = {(old.name, old.pid): old for old in before}
    return [
        Row(
            new,
            _speed(new.promoted_pages, old.promoted_pages if old else None, seconds),
            _speed(new.demoted_pages, old.demoted_pages if old else None, seconds),
        )
        for new in now
        for old in [then.get((new.name, new.pid))]
    ]


def _speed(now: int | None, before: int | None, seconds: float) -> float | None:
    if now is None or before is None or seconds <= 0:
        return None
    return max(0, now - before) * page_bytes() / seconds


def order(shown: Sequence[Row], nodes: Sequence[Node], by: Order | None = None) -> list[Row]:
    """Sort all of them; by default those with the most memory outside of the top tier first."""
    by, slow = by or Order(), {node.node for node in nodes if not node.top}
    return sorted(shown, key=lambda row: by.key(row.resident, slow, (row.promoted_per_s, row.demoted_per_s)))


def as_text(
    shown: Sequence[Row], nodes: Sequence[Node], kind: str, refused: int = 0, problem: str | None = None
) -> str:
    """Format a table; the columns between the name and FAST are the nodes.

    ``refused``: the number of processes whose nodes may not be read; ``problem``: the reason why no
    cgroup can be shown.
    """
    top = {node.node for node in nodes if node.top}
    process = kind == "process"
    head = [kind.upper(), *(["PID", "USER"] if process else []), "TOTAL"]
    head += [f"NODE {node.node}{' (top)' if node.top else ''}" for node in nodes]
    head += ["FAST"] + ([] if process else ["PROMOTED/s", "DEMOTED/s"])
    lines = []
    for row in shown:
        own = row.resident
        line: list[object] = [printable(own.name)]
        if process:
            line += [own.pid, printable(own.user or "-")]
        line += [size_text(own.total), *(size_text(on_node(own, node.node)) for node in nodes), fast_text(own, top)]
        if not process:
            line += [size_text(row.promoted_per_s), size_text(row.demoted_per_s)]
        lines.append(line)
    notes = [problem_text(problem)] if problem else []
    if not lines:
        return "\n".join([*notes, f"no {kind} whose memory may be read"])
    foot = [f"FAST: share on nodes {format_nodes(top)} (top tier)", *([refused_text(refused)] if refused else [])]
    return "\n".join([*notes, format_table(lines, head), *foot])


def refused_text(count: int) -> str:
    """Format a line about processes whose nodes may not be read."""
    whose = "1 process" if count == 1 else f"{count} processes"
    return f"Nodes of {whose} may not be read (-): sudo terrace top --by process"


def problem_text(problem: str) -> str:
    """Format a line with the reason why no cgroup can be shown."""
    return f"Cgroups cannot be shown: {problem}"


def on_node(own: Resident, node: int) -> int | None:
    """Format the bytes on one node, None if they may not be read."""
    return None if own.nodes is None else own.nodes.get(node, 0)


def fast_text(own: Resident, top: Set[int]) -> str:
    """Format the share on nodes of the top tier."""
    return f"{100 * own.on(top) / own.total:.0f} %" if own.nodes is not None and own.total else "-"


def size_text(value: float | None) -> str:
    """Format bytes, or bytes/s, for a cell of the table."""
    return "-" if value is None else format_size(int(value))


def as_json(
    shown: Sequence[Row],
    nodes: Sequence[Node],
    kind: str,
    seconds: float,
    unreadable: dict[str, str],
    refused: int = 0,
    problem: str | None = None,
) -> dict[str, object]:
    """Create the document of `terrace top --json` (docs/reference/json.md)."""
    return {
        "version": JSON_VERSION,
        "kind": "top",
        "by": kind,
        "interval_s": round(seconds, 3),
        "top_nodes": [node.node for node in nodes if node.top],
        "rows": [
            {
                "name": row.resident.name,
                "pid": row.resident.pid,
                "user": row.resident.user,
                "total_bytes": row.resident.total,
                "node_bytes": None
                if row.resident.nodes is None
                else {str(node): size for node, size in sorted(row.resident.nodes.items())},
                "promoted_bytes_per_s": row.promoted_per_s,
                "demoted_bytes_per_s": row.demoted_per_s,
            }
            for row in shown
        ],
        "nodes_unknown": refused,
        "cgroups_problem": problem,
        "unreadable": [{"path": path, "error": why} for path, why in sorted(unreadable.items())],
    }

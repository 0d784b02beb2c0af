# SPDX-License-Identifier: GPL-2.0
"""What `terrace top` shows: who has how much on which tier, and what of it moves; as data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from terrace.ops.report import page_bytes
from terrace.ops.residents import Resident
from terrace.ops.topology import Node
from terrace.output import format_table
from terrace.units import format_nodes, format_size

JSON_VERSION = 1


@dataclass(frozen=True)
class Row:
    """One line: a resident, and how fast its pages were promoted and demoted (bytes/s; None: unknown)."""

    resident: Resident
    promoted_per_s: float | None
    demoted_per_s: float | None


def rows(now: Sequence[Resident], before: Sequence[Resident], seconds: float) -> list[Row]:
    """Now against ``seconds`` before; who was not there then has no speed."""
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


def order(shown: Sequence[Row], nodes: Sequence[Node], most: int) -> list[Row]:
    """The ``most`` with the most memory outside the top tier, then the largest."""
    slow = {node.node for node in nodes if not node.top}
    return sorted(shown, key=lambda row: (-row.resident.on(slow), -row.resident.total, row.resident.name))[:most]


def as_text(shown: Sequence[Row], nodes: Sequence[Node], kind: str) -> str:
    """A table; the columns between the name and FAST are the nodes."""
    top = {node.node for node in nodes if node.top}
    head = [kind.upper(), *(["PID"] if kind == "process" else []), "TOTAL"]
    head += [f"NODE {node.node}{' (top)' if node.top else ''}" for node in nodes]
    head += ["FAST"] + (["PROMOTED/s", "DEMOTED/s"] if kind == "cgroup" else [])
    lines = []
    for row in shown:
        own = row.resident
        line: list[object] = [own.name, *([own.pid] if kind == "process" else []), _size(own.total)]
        line += [_size(own.nodes.get(node.node, 0)) for node in nodes]
        line.append(f"{100 * own.on(top) / own.total:.0f} %" if own.total else "-")
        if kind == "cgroup":
            line += [_size(row.promoted_per_s), _size(row.demoted_per_s)]
        lines.append(line)
    if not lines:
        return f"no {kind} whose memory may be read"
    return format_table(lines, head) + f"\nFAST: share on nodes {format_nodes(top)} (top tier)"


def _size(value: float | None) -> str:
    return "-" if value is None else format_size(int(value))


def as_json(
    shown: Sequence[Row], nodes: Sequence[Node], kind: str, seconds: float, unreadable: dict[str, str]
) -> dict[str, object]:
    """The document `terrace top --json` prints (docs/reference/json.md)."""
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
                "total_bytes": row.resident.total,
                "node_bytes": {str(node): size for node, size in sorted(row.resident.nodes.items())},
                "promoted_bytes_per_s": row.promoted_per_s,
                "demoted_bytes_per_s": row.demoted_per_s,
            }
            for row in shown
        ],
        "unreadable": [{"path": path, "error": why} for path, why in sorted(unreadable.items())],
    }

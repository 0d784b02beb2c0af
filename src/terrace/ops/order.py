# SPDX-License-Identifier: GPL-2.0
"""Sort order of control groups and processes in `terrace top`, and the best possible rank of a
process.

The memory of a process by node is known only after a walk of its page tables. `Order.first` gives
the best key that a process can have, from data known without a walk: a process that cannot be among
the lines is not walked.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from terrace.ops.residents import Candidate, Resident

#: Columns to sort by, in addition to those of the nodes (``node0`` …).
COLUMNS = ("name", "pid", "user", "total", "slow", "fast", "promoted", "demoted")
_TEXTS = ("name", "user")


@dataclass(frozen=True)
class _Backwards:
    """A text that sorts in reverse."""

    text: str

    def __lt__(self, other: _Backwards) -> bool:
        return other.text < self.text


#: Sort key; the lowest comes first.
Key = tuple[bool, "float | str | _Backwards", float, str, int]


@dataclass(frozen=True)
class Order:
    """A column, and whether it is inverted: sizes are sorted from the largest, texts, PIDs and FAST
    from the lowest.

    Equal rows are sorted by their total, then by name and PID. Rows with unknown nodes are last if
    nodes matter.
    """

    column: str = "slow"
    inverted: bool = False

    def key(self, own: Resident, slow: Set[int], speeds: tuple[float | None, float | None] = (None, None)) -> Key:
        """Get the sort key; ``slow`` are the nodes outside of the top tier, ``speeds`` bytes/s promoted and demoted."""
        value: float | str | None
        if self.column in _TEXTS:
            value = own.name if self.column == "name" else own.user or ""
        elif self.column == "pid":
            value = own.pid or 0
        elif self.column == "total":
            value = own.total
        elif self.column in ("promoted", "demoted"):
            value = speeds[self.column == "demoted"]
        elif own.nodes is None:
            value = None
        elif self.column == "fast":
            value = 1 - own.on(slow) / own.total if own.total else 1.0
        else:
            value = own.on(self.nodes(slow))
        if value is None:
            return True, 0.0, -own.total, own.name, own.pid or 0
        return False, self._primary(value), self._total(own.total), own.name, own.pid or 0

    def first(self, other: Candidate, slow: Set[int]) -> Key:
        """Get the lowest possible key."""
        most, least = other.most_bytes, other.least_bytes
        value: float | str
        if self.column in _TEXTS:
            value = other.name if self.column == "name" else other.user or ""
        elif self.column == "pid":
            value = other.pid
        elif self.column == "total":
            value = least if self.inverted else most
        elif self.column == "fast":
            value = 1.0 if self.inverted else 0.0
        else:
            value = 0 if self.inverted or not self.nodes(slow) else most
        return False, self._primary(value), self._total(least if self.inverted else most), other.name, other.pid

    def nodes(self, slow: Set[int]) -> Set[int]:
        """Get the nodes whose bytes are in the column: one node, or all slow ones."""
        number = self.column.removeprefix("node")
        return {int(number)} if number != self.column else slow

    def _primary(self, value: float | str) -> float | str | _Backwards:
        if isinstance(value, str):
            return _Backwards(value) if self.inverted else value
        upwards = self.column in ("pid", "fast")
        return value if upwards != self.inverted else -value

    def _total(self, size: int) -> int:
        return size if self.inverted else -size

# SPDX-License-Identifier: GPL-2.0
"""Combine events into migrations, with source and target, time, owners, and waiting time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from terrace.trace.lines import Event
from terrace.trace.look import Task

UP, DOWN, FOLLOWED = "up", "down", "followed"
#: Number of walks of a process that are searched for the mark of an accessed page.
_WALKS_MAX = 1024


@dataclass(frozen=True)
class Share:
    """A process's part of a migration."""

    pid: int
    name: str
    pages: int


@dataclass(frozen=True)
class Move:
    """Pages that migrated together, or folios selected for it."""

    at_ns: int
    way: str
    source: int | None
    target: int | None
    pages: int
    shares: tuple[Share, ...]
    #: Time since they were selected or marked; None if the trace does not have it.
    waited_ns: int | None = None
    #: For promotion only.
    tried: int | None = None
    outcome: str | None = None
    #: Other processes had a part, which is left out.
    others: bool = False


@dataclass
class Mover:
    """Processes events in order, and yields migrations."""

    tasks: Mapping[str, Task]
    _owners: dict[int, list[Event]] = field(default_factory=dict)
    _walks: dict[int, list[Event]] = field(default_factory=dict)

    def moves(self, events: Iterable[Event]) -> list[Move]:
        """Get all migrations of the events."""
        return [move for event in events for move in [self._take(event)] if move is not None]

    def _take(self, event: Event) -> Move | None:
        match event.name:
            case "mtier_owner":
                self._owners.setdefault(event.pid, []).append(event)
            case "mtier_migrate" | "mtier_demote":
                return self._batch(event)
            case "numa_follow_walk":
                return self._walk(event)
            case "numa_follow_use":
                return self._use(event)
            case "numa_follow_fault" if event.word("verdict") == "moved":
                return self._own(event, event.number("pages"), _node(event, "from"), _node(event, "to"), None)
        return None

    def _batch(self, event: Event) -> Move:
        """Process a batch of promotion: earlier events of the same thread have its owners."""
        down = event.name == "mtier_demote"
        route = (event.number("source"), event.number("target"), int(down))
        owners = [
            one
            for one in self._owners.pop(event.pid, [])
            if (one.number("source"), one.number("target"), one.number("down")) == route
        ]
        pages = event.number("moved")
        return Move(
            at_ns=event.at_ns,
            way=DOWN if down else UP,
            source=route[0],
            target=route[1],
            pages=pages,
            shares=tuple(
                Share(one.number("pid"), one.word("comm"), part)
                for one, part in zip(owners, split(pages, [one.number("folios") for one in owners]), strict=True)
            ),
            waited_ns=event.number("waited_ns") if "waited_ns" in event.fields else None,
            tried=event.number("tried"),
            outcome=event.word("outcome"),
        )

    def _walk(self, event: Event) -> Move | None:
        if event.number("marked"):
            walks = self._walks.setdefault(self.process(event.pid), [])
            walks.append(event)
            del walks[:-_WALKS_MAX]
        pages = event.number("moved")
        return self._own(event, pages, _node(event, "from"), _node(event, "to"), None) if pages else None

    def _use(self, event: Event) -> Move | None:
        if event.word("verdict") != "moved":
            return None
        addr = event.number("addr")
        marked = next(
            (
                walk
                for walk in reversed(self._walks.get(self.process(event.pid), []))
                if walk.number("start") <= addr < walk.number("end") and walk.word("by") == event.word("by")
            ),
            None,
        )
        waited_ns = None if marked is None else max(0, event.at_ns - marked.at_ns)
        return self._own(event, event.number("pages"), None, _node(event, "nid"), waited_ns)

    def _own(self, event: Event, pages: int, source: int | None, target: int | None, waited_ns: int | None) -> Move:
        """Process the migration of a thread's own memory."""
        share = Share(self.process(event.pid), self.name(event), pages)
        return Move(event.at_ns, FOLLOWED, source, target, pages, (share,), waited_ns)

    def process(self, thread: int) -> int:
        """Get the process of a thread; the thread itself if it is not known."""
        task = self.tasks.get(str(thread))
        return task.process if task else thread

    def name(self, event: Event) -> str:
        """Get the name of the process of an event."""
        task = self.tasks.get(str(event.pid))
        return task.name if task else event.comm


def _node(event: Event, name: str) -> int | None:
    node = event.number(name)
    return node if node >= 0 else None


def split(pages: int, weights: list[int]) -> list[int]:
    """Divide pages by weights, without a remainder."""
    weights = [max(0, weight) for weight in weights]
    total = sum(weights)
    if not total:
        return [0] * len(weights)
    ends = [pages * end // total for end in accumulate(weights)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def quantile(values: list[tuple[int, int]], share: float) -> int:
    """Get the smallest value that at least ``share`` of all do not exceed, of (value, count),
    ascending; 0 without values.
    """
    sums = list(accumulate(count for _, count in values))
    if not sums or not sums[-1]:
        return 0
    return values[min(bisect_left(sums, share * sums[-1]), len(values) - 1)][0]

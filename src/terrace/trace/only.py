# SPDX-License-Identifier: GPL-2.0
"""Narrow a recording to some processes, or to the processes of a cgroup.

Events of a promotion batch are kept completely if one of its owners is wanted: the pages of a batch
are divided among all owners. The kernel's counters are for the whole machine, and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from terrace.ops.hierarchy import is_below
from terrace.trace.lines import Event
from terrace.trace.look import Task
from terrace.trace.moves import Move
from terrace.trace.store import Head

_BATCHES = ("mtier_migrate", "mtier_demote")


@dataclass(frozen=True)
class Only:
    """Processes by number, and a cgroup with its descendants; empty fields exclude nothing."""

    pids: frozenset[int] = frozenset()
    cgroup: str = ""

    def __bool__(self) -> bool:
        return bool(self.pids or self.cgroup)

    def wants(self, process: int, tasks: Mapping[str, Task]) -> bool:
        """Whether a process is wanted; the cgroup of one that ended before the recording did is not known."""
        if self.pids and process not in self.pids:
            return False
        if not self.cgroup:
            return True
        known = next((task for task in tasks.values() if task.process == process), None)
        return known is not None and is_below(known.cgroup, self.cgroup)

    def head(self, head: Head) -> Head:
        """Get the head without values of the whole machine."""
        groups = [
            [one for one in owners if self.cgroup and not self.pids and is_below(one.name, self.cgroup)]
            for owners in (head.cgroups_before, head.cgroups_after)
        ]
        return replace(head, counters_before={}, counters_after={}, cgroups_before=groups[0], cgroups_after=groups[1])

    def moves(self, moves: Iterable[Move], tasks: Mapping[str, Task]) -> list[Move]:
        """Get each migration with the parts of wanted processes only."""
        found = []
        for move in moves:
            shares = tuple(share for share in move.shares if self.wants(share.pid, tasks))
            if shares == move.shares and shares:
                found.append(move)
            elif shares:
                # The trace does not have the number of selected folios of one process.
                pages = sum(share.pages for share in shares)
                found.append(replace(move, shares=shares, pages=pages, tried=None, outcome=None, others=True))
        return found


def kept(events: Iterable[Event], wants: Callable[[int], bool]) -> Iterator[Event]:
    """Events of threads and processes that ``wants`` accepts, and whole batches with one of these as an owner."""
    owners: dict[int, list[Event]] = {}
    for event in events:
        if event.name == "mtier_owner":
            owners.setdefault(event.pid, []).append(event)
        elif event.name in _BATCHES:
            batch = owners.pop(event.pid, [])
            if any(wants(owner.number("pid")) for owner in batch):
                yield from batch
                yield event
        elif wants(event.number("pid") if "pid" in event.fields else event.pid):
            yield event

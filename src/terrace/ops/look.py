# SPDX-License-Identifier: GPL-2.0
"""Successive refreshes of `terrace top`, and the migrations between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from terrace.ops import hierarchy, residents, top
from terrace.ops.order import Order
from terrace.ops.processes import Found, Processes
from terrace.ops.residents import Candidate, Resident
from terrace.ops.topology import Node, read_nodes
from terrace.sysfs import KernelFiles


@dataclass(frozen=True)
class Want:
    """A request for a refresh."""

    kind: str = "cgroup"
    #: Number of processes whose nodes are read; control groups are complete.
    most: int = 20
    #: Levels of control groups.
    depth: int = 3
    order: Order = field(default_factory=Order)
    #: Part of a name, in lower case: no other process is read.
    filter: str = ""
    #: Processes are shown because cgroups cannot be.
    instead: bool = False
    #: Only these processes, and those of this user; empty: all.
    pids: frozenset[int] = frozenset()
    user: str = ""
    #: Only this cgroup and its descendants, or their processes; empty: all.
    cgroup: str = ""

    def names(self, name: str) -> bool:
        """Whether to show a row with this name."""
        return self.filter in name.lower()

    def wants(self, files: KernelFiles, one: Candidate) -> bool:
        """Whether to show a process."""
        return (
            self.names(one.name)
            and (not self.pids or one.pid in self.pids)
            and (not self.user or one.user == self.user)
            and (not self.cgroup or hierarchy.is_below(hierarchy.cgroup_of(files, one.pid), self.cgroup))
        )


@dataclass(frozen=True)
class Look:
    """Result of a refresh: rows in order, out of ``count``; ``refused``: processes whose nodes may not be read."""

    want: Want
    rows: list[top.Row]
    nodes: list[Node]
    count: int
    refused: int = 0
    #: Time since the last refresh; None if there was none of this kind.
    seconds: float | None = None
    unreadable: dict[str, str] = field(default_factory=dict)
    #: The reason why no cgroup can be shown; None if they can, or are not requested.
    problem: str | None = None


class Watcher:
    """Reads the state below ``root``, and remembers the last one."""

    def __init__(self, root: Path | str) -> None:
        self._root = root
        self._processes: Processes | None = None
        self._before: list[Resident] = []
        self._kind = ""
        self._at_s = 0.0

    def start(self, want: Want) -> None:
        """Record the present counters of migrations; nothing else is read."""
        self._remember(
            want.kind,
            [] if want.kind == "process" else residents.cgroups(KernelFiles(self._root), want.depth, want.cgroup),
        )

    def take(self, want: Want, going_on: Callable[[], bool] = lambda: True) -> Look:
        """Refresh; ends early once ``going_on()`` is false."""
        files = KernelFiles(self._root)
        nodes, _ = read_nodes(files)
        found = self._find(files, want, nodes, going_on)
        seconds = time.monotonic() - self._at_s if want.kind == self._kind else None
        rows = top.rows(found.residents, self._before, seconds or 0.0)
        self._remember(want.kind, found.residents)
        problem = hierarchy.find(files).problem if want.kind == "cgroup" or want.instead else None
        return Look(
            want,
            top.order(rows, nodes, want.order),
            nodes,
            found.count,
            found.refused,
            seconds,
            files.unreadable,
            problem,
        )

    def _find(self, files: KernelFiles, want: Want, nodes: list[Node], going_on: Callable[[], bool]) -> Found:
        if want.kind == "cgroup":
            groups = residents.cgroups(files, want.depth, want.cgroup)
            return Found(groups, 0, len(groups))
        if self._processes is None:
            self._processes = Processes(files)
        slow = {node.node for node in nodes if not node.top}
        return self._processes.first(files, want.most, slow, want.order, lambda one: want.wants(files, one), going_on)

    def _remember(self, kind: str, seen: list[Resident]) -> None:
        self._before, self._kind, self._at_s = seen, kind, time.monotonic()

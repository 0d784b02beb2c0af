# SPDX-License-Identifier: GPL-2.0
"""What the kernel counts and who lies where, as `terrace status` and `terrace top` read it, at one moment."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from terrace.ops import residents
from terrace.ops.devices import read_devices
from terrace.ops.hierarchy import cgroup_of
from terrace.ops.order import Order
from terrace.ops.processes import Processes
from terrace.ops.snapshot import Snapshot, take
from terrace.sysfs import KernelFiles

#: Levels of control groups, and processes whose nodes are looked up.
_DEPTH = 5
_PROCESSES = 30

_TGID = re.compile(r"^Tgid:\s+(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Owner:
    """A control group or a process: bytes on each node, and pages it had promoted and demoted (None: not counted)."""

    name: str
    pid: int | None = None
    nodes: dict[str, int] = field(default_factory=dict)
    promoted_pages: int | None = None
    demoted_pages: int | None = None


@dataclass(frozen=True)
class Counts:
    """Counters of /proc/vmstat and of the control groups, of the moment ``at_ns`` of CLOCK_MONOTONIC."""

    at_ns: int
    snapshot: Snapshot
    cgroups: list[Owner]

    @property
    def counters(self) -> dict[str, int]:
        """The counters of /proc/vmstat."""
        return self.snapshot.counters


@dataclass(frozen=True)
class Task:
    """Whose a thread is: process, its name and its control group."""

    process: int
    name: str
    cgroup: str


def counts(files: KernelFiles, last: bool = False) -> Counts:
    """Take them; ``last``: it is the end of a time, else its beginning. Nothing that takes long lies inside it."""
    groups = [] if last else _cgroups(files)
    devices = read_devices(files)
    before_ns = time.monotonic_ns()
    taken = take(files, devices)
    at_ns = before_ns if last else time.monotonic_ns()
    return Counts(at_ns, taken, _cgroups(files) if last else groups)


def _cgroups(files: KernelFiles) -> list[Owner]:
    return [_owner(found) for found in residents.cgroups(files, _DEPTH)]


def processes(files: KernelFiles) -> list[Owner]:
    """The largest: their page tables are walked for it."""
    return [_owner(found) for found in Processes(files).first(files, _PROCESSES, frozenset(), Order("total")).residents]


def _owner(found: residents.Resident) -> Owner:
    nodes = {str(node): size for node, size in sorted((found.nodes or {}).items())}
    return Owner(found.name, found.pid, nodes, found.promoted_pages, found.demoted_pages)


def tasks(files: KernelFiles, threads: Iterable[int]) -> dict[str, Task]:
    """Whose these threads are, of those that are still there; by number."""
    found: dict[str, Task] = {}
    for thread in threads:
        match = _TGID.search(files.get(f"proc/{thread}/status") or "")
        if match:
            name = files.get(f"proc/{match[1]}/comm") or "?"
            found[str(thread)] = Task(int(match[1]), name, cgroup_of(files, thread))
    return found

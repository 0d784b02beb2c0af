# SPDX-License-Identifier: GPL-2.0
"""Read the kernel's counters and the placement of memory at one moment, like `terrace status` and `terrace top`."""

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

#: Levels of control groups, and number of processes whose nodes are read.
_DEPTH = 5
_PROCESSES = 30

_TGID = re.compile(r"^Tgid:\s+(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Owner:
    """A control group or a process: bytes on each node, and pages promoted and demoted (None: not counted)."""

    name: str
    pid: int | None = None
    nodes: dict[str, int] = field(default_factory=dict)
    promoted_pages: int | None = None
    demoted_pages: int | None = None


@dataclass(frozen=True)
class Counts:
    """Counters of /proc/vmstat and of the control groups, at ``at_ns`` of CLOCK_MONOTONIC."""

    at_ns: int
    snapshot: Snapshot
    cgroups: list[Owner]

    @property
    def counters(self) -> dict[str, int]:
        """Get the counters of /proc/vmstat."""
        return self.snapshot.counters


@dataclass(frozen=True)
class Task:
    """Owner of a thread: process, its name and its control group."""

    process: int
    name: str
    cgroup: str


def counts(files: KernelFiles, last: bool = False) -> Counts:
    """Read all counters; ``last``: at the end of the time, otherwise at its start. Nothing slow is
    inside of the time.
    """
    groups = [] if last else _cgroups(files)
    devices = read_devices(files)
    before_ns = time.monotonic_ns()
    taken = take(files, devices)
    at_ns = before_ns if last else time.monotonic_ns()
    return Counts(at_ns, taken, _cgroups(files) if last else groups)


def _cgroups(files: KernelFiles) -> list[Owner]:
    return [_owner(found) for found in residents.cgroups(files, _DEPTH)]


def processes(files: KernelFiles) -> list[Owner]:
    """Get the largest processes; this walks their page tables."""
    return [_owner(found) for found in Processes(files).first(files, _PROCESSES, frozenset(), Order("total")).residents]


def _owner(found: residents.Resident) -> Owner:
    nodes = {str(node): size for node, size in sorted((found.nodes or {}).items())}
    return Owner(found.name, found.pid, nodes, found.promoted_pages, found.demoted_pages)


def tasks(files: KernelFiles, threads: Iterable[int]) -> dict[str, Task]:
    """Get the owners of these threads by number, if they still exist."""
    found: dict[str, Task] = {}
    for thread in threads:
        match = _TGID.search(files.get(f"proc/{thread}/status") or "")
        if match:
            name = files.get(f"proc/{match[1]}/comm") or "?"
            found[str(thread)] = Task(int(match[1]), name, cgroup_of(files, thread))
    return found

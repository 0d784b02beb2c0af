# SPDX-License-Identifier: GPL-2.0
"""Memory by node of control groups, which the kernel counts in any case, and of processes."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass, field

from terrace.ops import hierarchy
from terrace.ops.counters import DEMOTED
from terrace.sysfs import KernelFiles, parse_table

ON_NODE = re.compile(r"\bN([0-9]{1,5})=([0-9]{1,18})\b")
#: Lines of memory.numa_stat with a group's own pages; other lines overlap with them.
_OWN = ("anon", "file")


@dataclass(frozen=True)
class Resident:
    """One control group or process: bytes on each node, and pages promoted and demoted so far."""

    name: str
    pid: int | None
    #: None: may not be read.
    nodes: dict[int, int] | None = field(default_factory=dict)
    #: None for processes, for which there is no counter.
    promoted_pages: int | None = None
    demoted_pages: int | None = None
    #: Owner of the process: a name, or the number if there is none.
    user: str | None = None
    #: Total bytes if those on each node are not known.
    size: int = 0

    @property
    def total(self) -> int:
        """Get the bytes on all nodes."""
        return self.size if self.nodes is None else sum(self.nodes.values())

    def on(self, nodes: Set[int]) -> int:
        """Get the bytes on these nodes, as far as known."""
        return sum(size for node, size in (self.nodes or {}).items() if node in nodes)


@dataclass(frozen=True)
class Candidate:
    """A process before the walk of its page tables: it has between ``least_bytes`` and ``most_bytes`` of memory."""

    name: str
    pid: int
    user: str | None
    #: The kernel's value, which may be wrong in both directions.
    size: int
    least_bytes: int
    most_bytes: int


def cgroups(files: KernelFiles, depth: int, start: str = "") -> list[Resident]:
    """Get every cgroup v2 down to ``depth`` levels, without the root; the numbers include
    descendants.

    With ``start``, a path below the root, that cgroup and ``depth`` levels below it.

    Empty if `hierarchy.find` reports a problem.
    """
    found: list[Resident] = []
    mounted = hierarchy.find(files)
    if mounted.folder is None or mounted.problem:
        return found
    top = mounted.folder
    level = [f"{top}/{start}"] if start else [f"{top}/{name}" for name in hierarchy.folders(files, top)]
    for _ in range(depth + bool(start)):
        if not level:
            break
        below = []
        for folder in level:
            stat = files.get(f"{folder}/memory.numa_stat")
            if stat is None:
                continue
            found.append(_cgroup(files, folder, folder.removeprefix(f"{top}/"), stat))
            below += [f"{folder}/{name}" for name in hierarchy.folders(files, folder)]
        level = below
    return found


def _cgroup(files: KernelFiles, folder: str, name: str, numa_stat: str) -> Resident:
    nodes: dict[int, int] = {}
    for line in numa_stat.splitlines():
        if line.split(" ", 1)[0] in _OWN:
            for node, size in ON_NODE.findall(line):
                nodes[int(node)] = nodes.get(int(node), 0) + int(size)
    stat = parse_table(files.get(f"{folder}/memory.stat"))
    return Resident(
        name=name,
        pid=None,
        nodes=nodes,
        promoted_pages=stat.get("pgpromote_success"),
        demoted_pages=sum(stat[name] for name in DEMOTED if name in stat) if any(n in stat for n in DEMOTED) else None,
    )

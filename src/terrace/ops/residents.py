# SPDX-License-Identifier: GPL-2.0
"""Whose memory lies on which node: control groups (cheap) and processes (their page tables are walked)."""

from __future__ import annotations

import bisect
import re
from collections.abc import Set
from dataclasses import dataclass, field

from terrace.ops.counters import DEMOTED
from terrace.ops.report import page_bytes
from terrace.sysfs import KernelFiles, parse_table, to_int

CGROUPS = "sys/fs/cgroup"
_ON_NODE = re.compile(r"\bN(\d+)=(\d+)")
_HUGE_KB = re.compile(r"^HugetlbPages:\s+(\d+) kB$", re.MULTILINE)
_PAGE_KB = re.compile(r"\bkernelpagesize_kB=(\d+)")
#: Lines of memory.numa_stat that are a group's own pages; what else there is overlaps with them.
_OWN = ("anon", "file")


@dataclass(frozen=True)
class Resident:
    """One control group or process: bytes on each node, and pages it had promoted and demoted so far."""

    name: str
    pid: int | None
    nodes: dict[int, int] = field(default_factory=dict)
    #: None where nobody counts them: for processes.
    promoted_pages: int | None = None
    demoted_pages: int | None = None

    @property
    def total(self) -> int:
        """Bytes on all nodes."""
        return sum(self.nodes.values())

    def on(self, nodes: Set[int]) -> int:
        """Bytes on these nodes."""
        return sum(size for node, size in self.nodes.items() if node in nodes)


def cgroups(files: KernelFiles, depth: int) -> list[Resident]:
    """Every control group of version 2 down to ``depth`` levels, the root left out; numbers include what is below."""
    found = []
    level = [f"{CGROUPS}/{name}" for name in _folders(files, CGROUPS)]
    for _ in range(depth):
        below = []
        for folder in level:
            stat = files.get(f"{folder}/memory.numa_stat")
            if stat is None:
                continue
            found.append(_cgroup(files, folder, stat))
            below += [f"{folder}/{name}" for name in _folders(files, folder)]
        level = below
    return found


def _cgroup(files: KernelFiles, folder: str, numa_stat: str) -> Resident:
    nodes: dict[int, int] = {}
    for line in numa_stat.splitlines():
        if line.split(" ", 1)[0] in _OWN:
            for node, size in _ON_NODE.findall(line):
                nodes[int(node)] = nodes.get(int(node), 0) + int(size)
    stat = parse_table(files.get(f"{folder}/memory.stat"))
    return Resident(
        name=folder.removeprefix(f"{CGROUPS}/"),
        pid=None,
        nodes=nodes,
        promoted_pages=stat.get("pgpromote_success"),
        demoted_pages=sum(stat[name] for name in DEMOTED if name in stat) if any(n in stat for n in DEMOTED) else None,
    )


def _folders(files: KernelFiles, folder: str) -> list[str]:
    return [name for name in files.names(folder) if files.real_path(f"{folder}/{name}").is_dir()]


def processes(files: KernelFiles, most: int, slow: Set[int]) -> list[Resident]:
    """At least the ``most`` processes with the most memory on ``slow`` nodes, then in all, of those that may be read.

    Reading numa_maps walks all page tables of a process with its mmap_lock held for reading. So the largest come first,
    and no more are read once those left are smaller than what the last of the ``most`` has on slow nodes.
    """
    sizes = []
    for name in files.names("proc"):
        if name.isdecimal() and (size := _size(files, name)):
            sizes.append((size, int(name)))
    found: list[Resident] = []
    ranks: list[tuple[int, int]] = []
    for size, pid in sorted(sizes, reverse=True):
        if len(ranks) >= most and ranks[-most] >= (size if slow else 0, size):
            break
        if resident := _process(files, pid):
            found.append(resident)
            bisect.insort(ranks, (resident.on(slow), resident.total))
    return found


def _size(files: KernelFiles, pid: str) -> int:
    """Bytes that a process has at most on all nodes; 0 for a thread of the kernel."""
    pages = to_int((files.get(f"proc/{pid}/statm") or "").partition(" ")[2].partition(" ")[0])
    # Not among the resident pages.
    huge = _HUGE_KB.search(files.get(f"proc/{pid}/status") or "")
    return (pages or 0) * page_bytes() + (int(huge[1]) * 1024 if huge else 0)


def _process(files: KernelFiles, pid: int) -> Resident | None:
    maps = files.get(f"proc/{pid}/numa_maps")
    if maps is None:
        return None
    nodes: dict[int, int] = {}
    for line in maps.splitlines():
        size = _PAGE_KB.search(line)
        for node, pages in _ON_NODE.findall(line):
            nodes[int(node)] = nodes.get(int(node), 0) + int(pages) * (int(size[1]) if size else 4) * 1024
    return Resident(files.get(f"proc/{pid}/comm") or "?", pid, nodes)

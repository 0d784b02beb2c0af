# SPDX-License-Identifier: GPL-2.0
"""Whose memory lies on which node: control groups (cheap) and processes (their page tables are walked)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from terrace.ops.counters import DEMOTED
from terrace.sysfs import KernelFiles, parse_table, to_int

CGROUPS = "sys/fs/cgroup"
_ON_NODE = re.compile(r"\bN(\d+)=(\d+)")
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

    def on(self, nodes: set[int]) -> int:
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


def processes(files: KernelFiles, most: int) -> list[Resident]:
    """The ``most`` processes with the largest resident memory that may be read.

    Reading numa_maps walks all page tables of a process with its mmap_lock held for reading: so not of all.
    """
    sizes = []
    for name in files.names("proc"):
        if name.isdecimal():
            pages = to_int((files.get(f"proc/{name}/statm") or "").partition(" ")[2].partition(" ")[0])
            if pages:
                sizes.append((pages, int(name)))
    found = (_process(files, pid) for _, pid in sorted(sizes, reverse=True)[:most])
    return [resident for resident in found if resident]


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

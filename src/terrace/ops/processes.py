# SPDX-License-Identifier: GPL-2.0
"""Find the processes of the first lines of `terrace top` with as few page table walks as possible.

The memory of a process by node is in /proc/PID/numa_maps only. A read walks all page tables, with
mmap_lock held for reading, and is allowed for the process's owner and root. The total is in statm
and status, for all users.

statm is the sum of three counters (file, shmem, anonymous pages) that each CPU adds to in batches.
Early releases of 6.12 read it without the pending batches of the CPUs: less than a batch of max(32,
2 CPUs) pages on each of them, of either sign (lib/percpu_counter.c); later ones add them up
(task_statm). `Margin` detects which one it is. Huge pages of hugetlbfs are not in statm, and exact
in status. Changes of a process's memory between the reads of two files are not detected.
"""

from __future__ import annotations

import bisect
import heapq
import mmap
import pwd
import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import UsageError
from terrace.ops.order import Key, Order
from terrace.ops.report import page_bytes
from terrace.ops.residents import ON_NODE, Candidate, Resident
from terrace.sysfs import KernelFiles, parse_nodes, to_int

_HUGE_KB = re.compile(r"^HugetlbPages:\s+([0-9]{1,18}) kB$", re.MULTILINE)
_UID = re.compile(r"^Uid:\s+([0-9]{1,18})\b", re.MULTILINE)
_PAGE_KB = re.compile(r"\bkernelpagesize_kB=(\d+)")
_COUNTERS = 3
_PROBES = 8


@dataclass(frozen=True)
class Found:
    """Processes in order, out of ``count``; ``refused``: processes that may be among them, whose
    nodes may not be read.
    """

    residents: list[Resident]
    refused: int
    count: int


class Margin:
    """Possible error of statm in pages on the machine below ``files``."""

    def __init__(self, files: KernelFiles) -> None:
        cpus = max(1, len(parse_nodes(files.get("sys/devices/system/cpu/possible"))))
        self.pages = 0 if _sums_up(files) else _COUNTERS * (max(32, 2 * cpus) - 1) * cpus


def _sums_up(files: KernelFiles) -> bool:
    """Whether statm grows with each single page that this process touches; with batches it would
    not.

    Also false for files that are not of the running kernel.
    """
    with mmap.mmap(-1, _PROBES * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        before = _statm(files, "self")[1]
        for page in range(_PROBES):
            memory[page * mmap.PAGESIZE] = 1
            after = _statm(files, "self")[1]
            if after <= before:
                return False
            before = after
    return True


class Users:
    """Names of user IDs, each looked up once: of this machine, or of etc/passwd if the files are of another machine."""

    def __init__(self, files: KernelFiles) -> None:
        self._here = files.root.resolve() == Path("/")
        self._known: dict[int, str] = {}
        if not self._here:
            for line in (files.get("etc/passwd") or "").splitlines():
                name, *rest = line.split(":")
                uid = to_int(rest[1]) if len(rest) > 1 else None
                if uid is not None:
                    self._known.setdefault(uid, name)

    def find(self, text: str) -> str:
        """Get the user of a name or number, in the form of `name`. Raises UsageError if there is none."""
        if re.fullmatch(r"\d{1,10}", text, re.ASCII):
            return self.name(int(text))
        try:
            known = pwd.getpwnam(text).pw_name if self._here else text
        except KeyError:
            known = ""
        if not known or (not self._here and text not in self._known.values()):
            raise UsageError(f"there is no user '{text}'; give a name of /etc/passwd (getent passwd) or a number")
        return known

    def name(self, uid: int) -> str:
        """Get the name, or the number as text."""
        if uid not in self._known:
            try:
                self._known[uid] = pwd.getpwuid(uid).pw_name if self._here else str(uid)
            except (KeyError, OverflowError):
                self._known[uid] = str(uid)
        return self._known[uid]


class Processes:
    """The processes below a root folder; constant data is kept between refreshes."""

    def __init__(self, files: KernelFiles) -> None:
        self._margin = Margin(files)
        self._users = Users(files)

    def first(
        self,
        files: KernelFiles,
        most: int,
        slow: Set[int],
        order: Order | None = None,
        wanted: Callable[[Candidate], bool] = lambda one: True,
        going_on: Callable[[], bool] = lambda: True,
    ) -> Found:
        """Get the first ``most`` in ``order`` of the ``wanted`` ones; ends early once ``going_on()`` is false."""
        order = order or Order()
        # The number decides between equal keys: so no two keys are equal, and candidates are never
        # compared.
        waiting = [(order.first(one, slow), one) for one in self._candidates(files) if wanted(one)]
        count = len(waiting)
        heapq.heapify(waiting)
        found: dict[int, Resident] = {}
        keys: list[Key] = []
        refused = 0
        while waiting and going_on():
            # All remaining ones come later than this one can.
            if len(keys) >= most and keys[most - 1] < waiting[0][0]:
                break
            own = _walk(files, heapq.heappop(waiting)[1])
            if own is None:
                count -= 1
                continue
            assert own.pid is not None
            refused += own.nodes is None
            found[own.pid] = own
            bisect.insort(keys, order.key(own, slow))
        return Found([found[key[-1]] for key in keys[:most]], refused, count)

    def _candidates(self, files: KernelFiles) -> Iterator[Candidate]:
        """Get every process with an address space: no kernel threads, and no ended processes."""
        for name in files.names("proc"):
            if (pid := to_int(name)) is None:
                continue
            space, pages = _statm(files, name)
            if not space:
                continue
            status = files.get(f"proc/{name}/status") or ""
            huge_kb, uid = _HUGE_KB.search(status), _UID.search(status)
            huge = int(huge_kb[1]) * 1024 if huge_kb else 0
            least, most = max(0, pages - self._margin.pages), min(max(space, pages), pages + self._margin.pages)
            yield Candidate(
                files.get(f"proc/{name}/comm") or "?",
                pid,
                self._users.name(int(uid[1])) if uid else None,
                *(size * page_bytes() + huge for size in (pages, least, most)),
            )


def _statm(files: KernelFiles, pid: str) -> tuple[int, int]:
    """Get the pages of the address space, and those in memory; (0, 0) without a process, or without
    memory of its own.
    """
    words = (files.get(f"proc/{pid}/statm") or "").split()
    space, pages = (to_int(word) for word in words[:2]) if len(words) > 1 else (None, None)
    return (0, 0) if space is None or pages is None else (space, pages)


def _walk(files: KernelFiles, one: Candidate) -> Resident | None:
    """Read its memory by node; None if it has ended."""
    path = f"proc/{one.pid}/numa_maps"
    maps = files.get(path)
    if maps is None:
        if files.shown_path(path) not in files.unreadable:
            return None
        return Resident(one.name, one.pid, None, user=one.user, size=one.size)
    nodes: dict[int, int] = {}
    for line in maps.splitlines():
        size = _PAGE_KB.search(line)
        for node, pages in ON_NODE.findall(line):
            nodes[int(node)] = nodes.get(int(node), 0) + int(pages) * (int(size[1]) if size else 4) * 1024
    return Resident(one.name, one.pid, nodes, user=one.user)

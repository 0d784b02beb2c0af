# SPDX-License-Identifier: GPL-2.0
"""Bandwidth of each node, measured: all CPUs of this task copy memory of one node after another."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from terrace.errors import UsageError
from terrace.policy.calls import BIND, Policy, PolicyCalls
from terrace.sysfs import KernelFiles, parse_meminfo, parse_nodes
from terrace.units import parse_size

#: Memory of a node that is copied from and to, at least, and for each thread where sysfs describes no caches.
AREA_BYTES = 256 << 20
THREAD_BYTES = 16 << 20
#: Times the last-level caches in all, and times the second-level cache for each thread: caches hold little of it.
LAST_LEVEL_TIMES = 4
SECOND_LEVEL_TIMES = 4
#: Seconds of each of the rounds, and their number; the best one counts.
ROUND_S = 0.1
ROUNDS = 5

Clock = Callable[[], float]


@dataclass(frozen=True)
class Area:
    """Memory of each node that a measurement takes: two halves of `half` bytes for each thread.

    `cache_bytes`: the last-level caches of its CPUs in all, 0 where they are unknown.
    """

    half: int
    threads: int
    cache_bytes: int = 0

    @property
    def total(self) -> int:
        """Bytes in all."""
        return 2 * self.half * self.threads


def choose_area(files: KernelFiles, cpus: Collection[int] | None = None) -> Area:
    """An area that the caches of `cpus` (default: those that this task may use) hold a quarter of at most."""
    chosen = os.sched_getaffinity(0) if cpus is None else cpus
    last_level, second = _caches(files, chosen)
    threads = len(chosen)
    least = SECOND_LEVEL_TIMES * second if last_level else THREAD_BYTES
    wanted = max(-(-max(AREA_BYTES, LAST_LEVEL_TIMES * last_level) // threads), least)
    # Each half is whole caches of the second level, and whole pages.
    step = max(second, mmap.PAGESIZE)
    return Area(-(-wanted // (2 * step)) * step, threads, last_level)


def _caches(files: KernelFiles, cpus: Iterable[int]) -> tuple[int, int]:
    """Bytes of all last-level caches of `cpus`, and of the largest second-level cache; 0 where sysfs has none."""
    last: dict[tuple[int, int], int] = {}
    second = 0
    for cpu in cpus:
        base = f"sys/devices/system/cpu/cpu{cpu}/cache"
        found = []
        for name in files.names(base):
            level = files.get_int(f"{base}/{name}/level")
            size = _size(files.get(f"{base}/{name}/size"))
            if level and size and files.get(f"{base}/{name}/type") != "Instruction":
                sharing = parse_nodes(files.get(f"{base}/{name}/shared_cpu_list"))
                found.append((level, min(sharing, default=cpu), size))
                second = max(second, size) if level == 2 else second
        if found:
            level, first_cpu, size = max(found)
            last[level, first_cpu] = size
    return sum(last.values()), second


def _size(text: str | None) -> int:
    try:
        return parse_size(text or "0")
    except UsageError:
        return 0


def without_room(files: KernelFiles, nodes: Iterable[int], clean_cache: bool, needed: int) -> dict[int, int]:
    """Bytes that can be had of each of `nodes` with less than `needed`.

    Free memory, and with `clean_cache` the page cache, which is dropped for it. A node without numbers in sysfs is not
    in the result.
    """
    names = ["MemFree", *(["Active(file)", "Inactive(file)"] if clean_cache else [])]
    found = {}
    for node in nodes:
        sizes = parse_meminfo(files.get(f"sys/devices/system/node/node{node}/meminfo"))
        room = sum(sizes.get(name, 0) for name in names)
        if "MemFree" in sizes and room < needed:
            found[node] = room
    return found


def measured_bandwidths(
    nodes: Iterable[int], calls: PolicyCalls, area: Area, clock: Clock = time.perf_counter
) -> dict[int, int]:
    """MB/s that copying reaches on each of `nodes`, bytes read and written together.

    Raises OSError when memory cannot be had on one of them.
    """
    return {node: max(_node_bandwidth(node, calls, area, clock), 1) for node in nodes}


def _node_bandwidth(node: int, calls: PolicyCalls, area: Area, clock: Clock) -> int:
    memory = mmap.mmap(-1, area.total)
    view = ctypes.c_char.from_buffer(memory)
    start = ctypes.addressof(view)
    try:
        calls.set_range(start, len(memory), Policy(BIND, (node,)))
        with ThreadPoolExecutor(area.threads) as pool:
            begins = [start + 2 * area.half * number for number in range(area.threads)]
            list(pool.map(lambda begin: ctypes.memset(begin, 1, 2 * area.half), begins))
            return max(_round(pool, begins, area.half, clock) for _ in range(ROUNDS))
    finally:
        del view
        memory.close()


def _round(pool: ThreadPoolExecutor, begins: list[int], half: int, clock: Clock) -> int:
    """MB/s of all threads together over one round."""
    began = clock()

    def copy(begin: int) -> int:
        copied = 0
        while not copied or clock() - began < ROUND_S:
            # The call lets the other threads run.
            ctypes.memmove(begin + half, begin, half)
            copied += half
        return copied

    copied = sum(pool.map(copy, begins))
    return int(2 * copied / (clock() - began) / 1e6)

# SPDX-License-Identifier: GPL-2.0
"""Bandwidth of each node as this machine shows it: all CPUs of this task copy memory of one node after another."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from terrace.policy.calls import BIND, Policy, PolicyCalls
from terrace.sysfs import KernelFiles, parse_meminfo

#: Memory of a node that is copied from and to: more than caches hold.
AREA_BYTES = 256 << 20
#: How long each of the rounds lasts, and how many there are; the best one counts.
ROUND_S = 0.1
ROUNDS = 5

Clock = Callable[[], float]


def without_room(files: KernelFiles, nodes: Iterable[int], clean_cache: bool) -> dict[int, int]:
    """Those of `nodes` that have less memory to give than is copied there, and how many bytes they have.

    Free memory, and with `clean_cache` the page cache, which has to make room then. A node that tells nothing is none
    of them.
    """
    names = ["MemFree", *(["Active(file)", "Inactive(file)"] if clean_cache else [])]
    found = {}
    for node in nodes:
        sizes = parse_meminfo(files.get(f"sys/devices/system/node/node{node}/meminfo"))
        room = sum(sizes.get(name, 0) for name in names)
        if "MemFree" in sizes and room < AREA_BYTES:
            found[node] = room
    return found


def measured_bandwidths(
    nodes: Iterable[int], calls: PolicyCalls, area_bytes: int = AREA_BYTES, clock: Clock = time.perf_counter
) -> dict[int, int]:
    """MB/s that copying reaches on each of `nodes`, bytes read and written together.

    Raises OSError when memory cannot be had on one of them.
    """
    return {node: max(_node_bandwidth(node, calls, area_bytes, clock), 1) for node in nodes}


def _node_bandwidth(node: int, calls: PolicyCalls, area_bytes: int, clock: Clock) -> int:
    threads = len(os.sched_getaffinity(0))
    half = area_bytes // threads // 2 // mmap.PAGESIZE * mmap.PAGESIZE or mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * half * threads)
    view = ctypes.c_char.from_buffer(area)
    start = ctypes.addressof(view)
    try:
        calls.set_range(start, len(area), Policy(BIND, (node,)))
        ctypes.memset(start, 1, len(area))
        with ThreadPoolExecutor(threads) as pool:
            begins = [start + 2 * half * number for number in range(threads)]
            return max(_round(pool, begins, half, clock) for _ in range(ROUNDS))
    finally:
        del view
        area.close()


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

# SPDX-License-Identifier: GPL-2.0
"""Nodes and CPUs that `terrace exec` may name, as numactl counts them, and the binding of a program to CPUs."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable

from terrace.errors import TerraceError, UsageError
from terrace.sysfs import KernelFiles
from terrace.sysfs import parse_nodes as parse_kernel_list
from terrace.units import format_nodes, parse_set

_NODES = "sys/devices/system/node"
_CPUS_ONLINE = "sys/devices/system/cpu/online"
_MEMS_ALLOWED = re.compile(r"^Mems_allowed_list:\s*(\S+)$", re.MULTILINE)


class CpuCalls:
    """The CPU affinity of this task; tests put another object in its place."""

    def allowed(self) -> list[int]:
        """CPUs that this task may run on."""
        return sorted(os.sched_getaffinity(0))

    def bind(self, cpus: Iterable[int]) -> None:
        """Run this task, and the program that it executes, on these CPUs alone. Raises OSError."""
        os.sched_setaffinity(0, cpus)


def memory_nodes(files: KernelFiles) -> list[int]:
    """Nodes with memory; 0 alone on a kernel without NUMA."""
    return parse_kernel_list(files.get(f"{_NODES}/has_memory")) or [0]


def allowed_nodes(files: KernelFiles, every: bool = False) -> list[int]:
    """Nodes with memory that the cpuset of this task allows, or those of the machine for ``every``."""
    known = memory_nodes(files)
    found = None if every else _MEMS_ALLOWED.search(files.get("proc/self/status") or "")
    if found is None:
        return known
    allowed = set(parse_kernel_list(found[1]))
    return [node for node in known if node in allowed] or known


def whose_nodes(every: bool) -> str:
    """How a message calls `allowed_nodes`."""
    return "this machine has" if every else "this task may use (--all: cpuset or not)"


def cpus_of_nodes(text: str, files: KernelFiles, every: bool) -> list[int]:
    """The CPUs of a node set, the value of --cpunodebind. Raises UsageError."""
    with_cpus = parse_kernel_list(files.get(f"{_NODES}/has_cpu")) or [0]
    # A node without memory is in no cpuset.
    known = {*allowed_nodes(files, every), *(set(with_cpus) - set(memory_nodes(files)))}
    nodes = parse_set(text, known, "node", whose_nodes(every))
    cpus = sorted({cpu for node in nodes for cpu in _cpus_of(files, node)})
    if not cpus:
        raise UsageError(
            f"--cpunodebind {text}: node {format_nodes(nodes)} has no CPUs; nodes with CPUs: {format_nodes(with_cpus)}"
        )
    return cpus


def _cpus_of(files: KernelFiles, node: int) -> list[int]:
    listed = files.get(f"{_NODES}/node{node}/cpulist")
    if listed is None and not files.exists(_NODES):
        # A kernel without NUMA has all CPUs on node 0.
        listed = files.get(_CPUS_ONLINE)
    return parse_kernel_list(listed)


def cpus_of_set(text: str, files: KernelFiles, every: bool, calls: CpuCalls) -> list[int]:
    """The CPUs of a CPU set, the value of --physcpubind. Raises UsageError."""
    online = parse_kernel_list(files.get(_CPUS_ONLINE))
    if every and online:
        return parse_set(text, online, "CPU", "online are")
    return parse_set(text, calls.allowed(), "CPU", "this task may use (--all: affinity or not)")


def bind(cpus: list[int], calls: CpuCalls) -> None:
    """Bind this task to CPUs. Raises TerraceError."""
    try:
        calls.bind(cpus)
    except OSError as error:
        why = "its cpuset allows none of them" if error.errno == errno.EINVAL else error.strerror
        raise TerraceError(f"the kernel refuses to run the program on CPU {format_nodes(cpus)}: {why}") from error

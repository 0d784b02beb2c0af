# SPDX-License-Identifier: GPL-2.0
"""CPU time of the kernel threads that promote and demote."""

from __future__ import annotations

import os
from dataclasses import dataclass

from terrace.sysfs import KernelFiles, to_int

#: The thread of promotion, which scans and migrates pages.
ENGINE = "kmtierd"
#: Names of the threads: promotion, and reclaim (which demotes).
NAMES = (ENGINE, "kswapd")


@dataclass(frozen=True)
class Daemon:
    """One kernel thread and the CPU time it has used since its start."""

    name: str
    pid: int
    cpu_seconds: float


def read_daemons(files: KernelFiles) -> list[Daemon]:
    """Read the running threads, by name; empty inside a PID namespace (a container)."""
    daemons = []
    for pid in _kernel_threads(files):
        name = files.get(f"proc/{pid}/comm")
        if name is None or not name.startswith(NAMES):
            continue
        seconds = _cpu_seconds(files, pid)
        if seconds is not None:
            daemons.append(Daemon(name, pid, seconds))
    return sorted(daemons, key=lambda daemon: (daemon.name, daemon.pid))


def _kernel_threads(files: KernelFiles) -> list[int]:
    """List children of kthreadd (PID 2); every process if the kernel has no such list."""
    children = [
        pid for word in (files.get("proc/2/task/2/children") or "").split() if (pid := to_int(word)) is not None
    ]
    if children:
        return children
    if files.get("proc/2/comm") != "kthreadd":
        return []
    return [pid for name in files.names("proc") if (pid := to_int(name)) is not None]


def _cpu_seconds(files: KernelFiles, pid: int) -> float | None:
    exact = (files.get(f"proc/{pid}/schedstat") or "").split()
    if exact and (spent := to_int(exact[0])):
        return spent / 1e9
    fields = (files.get(f"proc/{pid}/stat") or "").rpartition(")")[2].split()
    user, system = (to_int(field) for field in fields[11:13]) if len(fields) > 12 else (None, None)
    if user is None or system is None:
        return None
    return (user + system) / os.sysconf("SC_CLK_TCK")

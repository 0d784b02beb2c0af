# SPDX-License-Identifier: GPL-2.0
"""One look at the machine: everything `terrace status` shows, read once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from terrace.ops.daemons import Daemon, read_daemons
from terrace.ops.topology import Node, Tier, read_nodes
from terrace.sysfs import MTIER, KernelFiles, parse_table

#: Counters of /proc/vmstat that every tiered kernel has and status shows beside our own.
COMMON_COUNTERS = (
    "pgpromote_success",
    "pgpromote_candidate",
    "pgdemote_kswapd",
    "pgdemote_direct",
    "pgdemote_khugepaged",
    "numa_hint_faults",
    "numa_pages_migrated",
    "pgmigrate_success",
    "pgmigrate_fail",
)


@dataclass
class Snapshot:
    """The machine at one moment; None where a file is missing or closed to us."""

    monotonic_s: float
    release: str
    engine: bool
    enabled: bool | None
    state: str | None
    #: Address spaces in the scanner's list, and bytes of its records of page frames.
    processes: int | None
    records_bytes: int | None
    numa_balancing: int | None
    demotion_enabled: bool | None
    nodes: list[Node]
    tiers: list[Tier]
    counters: dict[str, int]
    daemons: list[Daemon] = field(default_factory=list)

    @property
    def slow_nodes(self) -> list[Node]:
        """Nodes whose pages can be promoted."""
        return [node for node in self.nodes if not node.top]

    @property
    def top_nodes(self) -> list[Node]:
        """Nodes of the top tier."""
        return [node for node in self.nodes if node.top]


def kernel_release(files: KernelFiles) -> str:
    """Release of the running kernel, as uname -r gives it."""
    return files.get("proc/sys/kernel/osrelease") or "unknown"


def take(files: KernelFiles) -> Snapshot:
    """Read everything once; takes a few milliseconds."""
    nodes, tiers = read_nodes(files)
    enabled = files.get_int(f"{MTIER}/enabled")
    vmstat = parse_table(files.get("proc/vmstat"))
    return Snapshot(
        monotonic_s=time.monotonic(),
        release=kernel_release(files),
        engine=files.exists(MTIER),
        enabled=None if enabled is None else enabled != 0,
        state=files.get(f"{MTIER}/state"),
        processes=files.get_int(f"{MTIER}/mms"),
        records_bytes=files.get_int(f"{MTIER}/records_bytes"),
        numa_balancing=files.get_int("proc/sys/kernel/numa_balancing"),
        demotion_enabled=_to_bool(files.get("sys/kernel/mm/numa/demotion_enabled")),
        nodes=nodes,
        tiers=tiers,
        counters={
            name: value for name, value in vmstat.items() if name in COMMON_COUNTERS or name.startswith("mtier_")
        },
        daemons=read_daemons(files),
    )


@dataclass(frozen=True)
class Change:
    """What happened between two snapshots, or since boot when there is only one."""

    seconds: float | None
    counters: dict[str, int]

    def get(self, name: str) -> int:
        """How much the counter grew; 0 when the kernel has none of that name."""
        return self.counters.get(name, 0)

    def total(self, *prefixes: str) -> int:
        """Sum over all counters that start with one of ``prefixes``."""
        return sum(value for name, value in self.counters.items() if name.startswith(prefixes))


def change(before: Snapshot | None, now: Snapshot) -> Change:
    """Growth of each counter from ``before`` to ``now``."""
    if before is None:
        return Change(None, dict(now.counters))
    seconds = max(now.monotonic_s - before.monotonic_s, 1e-9)
    grown = {name: value - before.counters.get(name, 0) for name, value in now.counters.items()}
    return Change(seconds, grown)


def _to_bool(text: str | None) -> bool | None:
    if text is None:
        return None
    return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower())

# SPDX-License-Identifier: GPL-2.0
"""A snapshot of the machine: everything `terrace status` prints, read once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields

from terrace.ops.capabilities import Capability, read_capabilities
from terrace.ops.daemons import Daemon, read_daemons
from terrace.ops.devices import Devices, read_devices
from terrace.ops.topology import Node, Tier, read_nodes
from terrace.sysfs import MTIER, KernelFiles, parse_nodes, parse_table

#: Counters of /proc/vmstat that every tiered kernel has and status prints in addition to those of
#: the overlay.
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

#: Prefixes of the counters of the overlay.
OWN_COUNTERS = ("mtier_", "tlb_defer_", "numa_follow_", "numa_scan_")

#: Results of the last burst, one value per file.
PLACE = f"{MTIER}/place"

#: While it is 1, promotion decides and migrates nothing. For root only, like all of debugfs.
OBSERVE = "sys/kernel/debug/mtier/observe"


@dataclass(frozen=True)
class Target:
    """Why no more pages migrated to some nodes of one tier."""

    nodes: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class Place:
    """The files below place/, by name; None if one is missing or may not be read."""

    #: The reason why no more pages migrated to the first of the targets, in one word; ``none`` before the first burst.
    why: str | None = None
    #: The reasons for all target nodes that pages may migrate to, the fastest first.
    targets: tuple[Target, ...] = ()
    tau_us: int | None = None
    share_ppm: int | None = None
    margin_ppm: int | None = None
    trust_percent: int | None = None
    gain_us: int | None = None
    cost_us: int | None = None
    #: Pages since promotion was switched on.
    taken: int | None = None
    promoted: int | None = None
    demoted: int | None = None

    @property
    def told(self) -> bool:
        """Whether a burst has ended since promotion was switched on."""
        return self.why not in (None, "none")


#: The files of place/ that have a number.
PLACE_NUMBERS = tuple(entry.name for entry in fields(Place) if entry.name not in ("why", "targets"))


@dataclass
class Snapshot:
    """The machine at one moment; None if a file is missing or may not be read."""

    monotonic_s: float
    release: str
    engine: bool
    enabled: bool | None
    state: str | None
    #: Address spaces registered for promotion.
    processes: int | None
    numa_balancing: int | None
    demotion_enabled: bool | None
    nodes: list[Node]
    tiers: list[Tier]
    counters: dict[str, int]
    daemons: list[Daemon] = field(default_factory=list)
    place: Place | None = None
    observing: bool | None = None
    capabilities: list[Capability] = field(default_factory=list)
    devices: Devices = field(default_factory=Devices)

    @property
    def slow_nodes(self) -> list[Node]:
        """Get the nodes whose pages can be promoted."""
        return [node for node in self.nodes if not node.top]

    @property
    def top_nodes(self) -> list[Node]:
        """Get the nodes of the top tier."""
        return [node for node in self.nodes if node.top]


def kernel_release(files: KernelFiles) -> str:
    """Get the release of the running kernel, as in uname -r."""
    return files.get("proc/sys/kernel/osrelease") or "unknown"


def take(files: KernelFiles, devices: Devices | None = None) -> Snapshot:
    """Read everything once; takes a few milliseconds.

    `devices` are those of an earlier snapshot: two files are read for each memory block of a dax device, so a terabyte
    of CXL memory takes some tenths of a second.
    """
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
        numa_balancing=files.get_int("proc/sys/kernel/numa_balancing"),
        demotion_enabled=_to_bool(files.get("sys/kernel/mm/numa/demotion_enabled")),
        nodes=nodes,
        tiers=tiers,
        counters={
            name: value for name, value in vmstat.items() if name in COMMON_COUNTERS or name.startswith(OWN_COUNTERS)
        },
        daemons=read_daemons(files),
        place=_read_place(files),
        observing=files.get_int(OBSERVE) == 1 if files.exists(OBSERVE) else None,
        capabilities=read_capabilities(files, vmstat),
        devices=read_devices(files) if devices is None else devices,
    )


def _read_place(files: KernelFiles) -> Place | None:
    if not files.exists(PLACE):
        return None
    numbers = {name: files.get_int(f"{PLACE}/{name}") for name in PLACE_NUMBERS}
    reasons = [line.split() for line in (files.get(f"{PLACE}/why") or "").splitlines() if line.strip()]
    targets = tuple(Target(tuple(parse_nodes(words[1])), words[0]) for words in reasons if len(words) > 1)
    return Place(why=reasons[0][0] if reasons else None, targets=targets, **numbers)


@dataclass(frozen=True)
class Change:
    """Changes between two snapshots, or since boot with only one."""

    seconds: float | None
    counters: dict[str, int]

    def get(self, name: str) -> int:
        """Get the growth of the counter; 0 if the kernel does not have it."""
        return self.counters.get(name, 0)

    def total(self, *prefixes: str) -> int:
        """Sum up all counters that start with one of ``prefixes``."""
        return sum(value for name, value in self.counters.items() if name.startswith(prefixes))


def change(before: Snapshot | None, now: Snapshot) -> Change:
    """Get the growth of each counter from ``before`` to ``now``."""
    if before is None:
        return Change(None, dict(now.counters))
    seconds = max(now.monotonic_s - before.monotonic_s, 1e-9)
    grown = {name: value - before.counters.get(name, 0) for name, value in now.counters.items()}
    return Change(seconds, grown)


def _to_bool(text: str | None) -> bool | None:
    if text is None:
        return None
    return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower())

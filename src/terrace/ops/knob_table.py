# SPDX-License-Identifier: GPL-2.0
"""The table of knobs: `terrace set --list` prints it, and docs/reference/knobs.md is compared with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from terrace.sysfs import MTIER

CGROUPS = "sys/fs/cgroup"
WEIGHTS = "sys/kernel/mm/mempolicy/weighted_interleave"


@dataclass(frozen=True)
class Knob:
    """One knob. ``low`` and ``high`` bound a number in ``unit``; ``words`` are further values."""

    name: str
    path: str
    unit: str
    default: str
    summary: str
    low: int | None = None
    high: int | None = None
    words: tuple[str, ...] = ()
    #: A further condition for a number.
    condition: str = ""
    #: Other common names of it.
    aliases: tuple[str, ...] = ()
    #: The kernel option that it needs; "": the stock kernel has it.
    option: str = ""

    @property
    def allowed(self) -> str:
        """Format the allowed values: ``0-3600000 ms``, ``whole, split``."""
        parts = list(self.words)
        if self.low is not None:
            unit = f" {self.unit}" if self.unit else ""
            parts.append(f"{self.low}-{self.high}{unit}{self.condition and f' ({self.condition})'}")
        return ", ".join(parts)

    @property
    def key(self) -> str:
        """Get its name in a file of settings, where a key with nested keys cannot have a value."""
        if self.path.startswith(f"{MTIER}/"):
            return f"engine.{self.name}"
        return "numa_balancing.mode" if self.name == "numa_balancing" else self.name


def _mtier(name: str, unit: str, default: object, low: int, high: int, summary: str) -> Knob:
    path = f"{MTIER}/{name.replace('.', '/')}"
    return Knob(name, path, unit, str(default), summary, low, high, option="CONFIG_MTIER")


def _defer(name: str, unit: str, default: int, low: int, high: int, summary: str) -> Knob:
    path = f"sys/kernel/mm/tlb_defer/{name}"
    return Knob(f"tlb_defer.{name}", path, unit, str(default), summary, low, high, option="CONFIG_TLB_DEFER")


def _of_cgroup(name: str, unit: str, default: int, low: int, high: int, summary: str, option: str) -> Knob:
    """Create a knob of a cgroup: its file is in the cgroup's folder (`in_cgroup`)."""
    file = f"cpuset.{name.removesuffix('_s')}"
    return Knob(name, file, unit, str(default), summary, low, high, aliases=(file,), option=option)


def _follow(name: str, unit: str, default: int, low: int, high: int, summary: str) -> Knob:
    return _of_cgroup(name, unit, default, low, high, summary, "CONFIG_NUMA_FOLLOW")


KNOBS: tuple[Knob, ...] = (
    _mtier("enabled", "", 0, 0, 1, "promotion: scan and migrate pages"),
    _mtier("charge", "", 0, 0, 1, "charge the CPU time of scans and migrations to the processes that own the pages"),
    _mtier("scan.delay_ms", "ms", 100, 0, 3_600_000, "how long a new address space is left alone"),
    _mtier("scan.cpu_percent", "%", 25, 1, 100, "limit for the CPU time of scans, of one CPU"),
    _mtier("promote.rate_mbps", "MiB/s", 1024, 1, 1 << 20, "most promotion into each target node"),
    Knob(
        "promote.target_node",
        f"{MTIER}/promote/target_node",
        "node",
        "auto",
        "target node: by the users of a page, or always one node of the top tier",
        0,
        1023,
        words=("auto",),
        condition="online, top tier",
        option="CONFIG_MTIER",
    ),
    Knob(
        "promote.thp",
        f"{MTIER}/promote/thp",
        "",
        "whole",
        "a huge page when the target has no free huge page: wait, or split it",
        words=("whole", "split"),
        option="CONFIG_MTIER",
    ),
    _mtier("promote.move_fast", "", 1, 0, 1, "private anonymous pages move by address space, not one by one"),
    Knob(
        "tlb_defer.mode",
        "sys/kernel/mm/tlb_defer/mode",
        "",
        "off",
        "old frames of read-only pages that moved wait for the flush of their translations",
        words=("off", "quarantine"),
        option="CONFIG_TLB_DEFER",
    ),
    _defer("limit_ticks", "ticks", 3, 1, 100, "when CPUs that have not flushed by themselves are interrupted"),
    _defer("held_limit_bp", "bp", 50, 0, 1000, "most frames of a node that wait, in 1/10000 of its memory"),
    _defer("backoff_ms", "ms", 1000, 0, 60_000, "time without deferral for a process after too many forced flushes"),
    _defer("protect", "", 1, 0, 1, "pages that tiering has moved stay write-protected, to wait the next time"),
    Knob(
        "weights.auto",
        f"{WEIGHTS}/auto",
        "",
        "false",
        "compute the weights of all nodes from the bandwidth in firmware tables",
        words=("true", "false", "1", "0"),
        aliases=("weighted_interleave.auto",),
        option="CONFIG_MEMPOLICY2",
    ),
    Knob(
        "file_policy",
        "proc/sys/vm/mapped_file_policy",
        "",
        "0",
        "memory policies of mappings of files hold for the pages of the file",
        0,
        1,
        aliases=("vm.mapped_file_policy", "mapped_file_policy"),
        option="CONFIG_MAPPED_FILE_POLICY",
    ),
    Knob(
        "migrate_on_fault.rate_mbps",
        "proc/sys/vm/migrate_on_fault_mbps",
        "MiB/s",
        "256",
        "most that page faults move to each node, in cgroups with migrate_on_fault",
        1,
        1 << 20,
        aliases=("vm.migrate_on_fault_mbps", "migrate_on_fault_mbps"),
        option="CONFIG_NUMA_FOLLOW",
    ),
    Knob(
        "numa_balancing",
        "proc/sys/kernel/numa_balancing",
        "",
        "0 or 1",
        "stock NUMA balancing: 1 between sockets, 2 promotion by hint faults, 3 both",
        0,
        3,
        aliases=("kernel.numa_balancing", "numa_balancing.mode"),
    ),
    Knob(
        "numa_balancing.scan_mode",
        "proc/sys/kernel/numa_balancing_scan_mode",
        "",
        "sync",
        "stock NUMA balancing scans in the task at once, in the task in slices, or in threads",
        words=("sync", "async", "sliced"),
        aliases=("kernel.numa_balancing_scan_mode",),
        option="CONFIG_NUMA_SCAN_MODES",
    ),
    Knob(
        "numa_balancing.scan_windows",
        "proc/sys/kernel/numa_balancing_scan_windows",
        "",
        "0",
        "stock NUMA balancing scans only recently used memory",
        0,
        1,
        aliases=("kernel.numa_balancing_scan_windows",),
        option="CONFIG_NUMA_SCAN_MODES",
    ),
    Knob(
        "numa_balancing.rate_mbps",
        "proc/sys/kernel/numa_balancing_promote_rate_limit_MBps",
        "MiB/s",
        "65536",
        "most promotion by stock NUMA balancing into each node",
        0,
        2_147_483_647,
        aliases=("kernel.numa_balancing_promote_rate_limit_MBps", "numa_balancing_promote_rate_limit_MBps"),
    ),
    Knob(
        "demotion_enabled",
        "sys/kernel/mm/numa/demotion_enabled",
        "",
        "false",
        "reclaim moves cold pages to a slower node instead of dropping or swapping them",
        words=("true", "false", "1", "0"),
        aliases=("demotion", "numa.demotion_enabled"),
    ),
)

#: Knobs of each cgroup except the root; their paths are names in its folder.
CGROUP_KNOBS: tuple[Knob, ...] = (
    _follow("auto_migration", "", 0, 0, 1, "memory follows its task to another node"),
    _follow("auto_migrate_interval_s", "s", 30, 1, 86_400, "time from one such move to the next, at least"),
    _follow("auto_migrate_lazy", "", 0, 0, 1, "automatic migration moves pages at their next access, not at once"),
    _follow("migrate_max_mapcount", "", 1, 1, 1_000_000, "pages that more processes share stay"),
    _follow("migrate_on_fault", "", 0, 0, 3, "faults move unmapped pages: 1 in memory, 2 files with policies, 3 all"),
    # This name is also that of a knob of the machine, which is meant without --cgroup and outside
    # of [cgroup."PATH"].
    _of_cgroup(
        "numa_balancing", "", 1, 0, 1, "0 keeps its processes out of scans of NUMA balancing", "CONFIG_NUMA_SCAN_CPUSET"
    ),
)

#: The knob of each node with memory, `weights.node0` and so on.
NODE_WEIGHT = Knob("weights.nodeN", f"{WEIGHTS}/nodeN", "", "1", "weight of the node for weighted interleave", 1, 255)


def node_weight(node: int) -> Knob:
    """Create the knob for the global weight of one node."""
    name = f"weights.node{node}"
    return replace(NODE_WEIGHT, name=name, path=f"{WEIGHTS}/node{node}", aliases=(f"weighted_interleave.node{node}",))


def in_cgroup(knob: Knob, cgroup: str) -> Knob:
    """Get a knob of CGROUP_KNOBS in the folder of a cgroup, a path below /sys/fs/cgroup."""
    return replace(knob, path=f"{CGROUPS}/{cgroup}/{knob.path}")

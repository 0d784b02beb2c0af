# SPDX-License-Identifier: GPL-2.0
"""Every compared policy, in one table: its kernel, its kernel files, and the initial placement of
the memory.

All have the same limit for promotions, and demotion on; all other settings are defaults.
"""

from collections.abc import Callable
from dataclasses import dataclass

from terrace.bench.physical import node_ranges
from terrace.lab.topology import Topology

RATE_MBPS = 1024
# The group below /sys/fs/cgroup for loads on machines on which every node has CPUs.
CGROUP = "bench"
# Least time between two migrations of a task's memory, in seconds: the minimum, as runs take
# seconds.
FOLLOW_INTERVAL_S = 1
FAST_NODE = 0
SLOW_NODE = 1
Settings = list[tuple[str, str]]
TIERS = "tiers"
EVEN = "even"


def machine_kind(machine: Topology) -> str:
    """Get the kind of the machine for experiments: TIERS, EVEN, or "" for neither."""
    first, *rest = machine.nodes
    if rest and all(node.cpus for node in machine.nodes):
        return EVEN
    return TIERS if len(rest) == 1 and first.cpus and not rest[0].cpus else ""


@dataclass(frozen=True)
class Policy:
    """One row of every table.

    `settings` gives the kernel files to write, in order; `before` those that a task copies when it
    is forked, which are written before any process of the load exists. `limit` marks a bound
    instead of a policy: "fast" has all memory on fast memory, "slow" on slow, "oracle" by a
    profile, "even" on all nodes in turn, "copies" a copy of read-only memory on each node. Fast
    memory may be short for the oracle only. `machines` are the kinds of machine that it fits:
    "tiers" with one node that has all CPUs and one without, "even" with CPUs on every node, or
    both.
    """

    name: str
    purpose: str
    flavour: str
    settings: Callable[[Topology], Settings]
    limit: str = ""
    # Names, in the plugin, of the tasks and code paths that scan pages.
    scanners: tuple[str, ...] = ()
    machines: tuple[str, ...] = (TIERS,)
    before: Callable[[Topology], Settings] = lambda _machine: []


DEMOTION = ("/sys/kernel/mm/numa/demotion_enabled", "1")
_BALANCING = "/proc/sys/kernel/numa_balancing"
_DAMON = "/sys/kernel/mm/damon/admin/kdamonds"
_MAX = str((1 << 64) - 1)
# Terrace's own default (scan/delay_ms).
_EARLY_MS = 100
_TUNED_MS = 100
_BOTH = (TIERS, EVEN)


def _stock(mode: int) -> Callable[[Topology], Settings]:
    def settings(_machine: Topology) -> Settings:
        rate = ("/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps", str(RATE_MBPS))
        return [DEMOTION, rate, (_BALANCING, str(mode))]

    return settings


def _early(_machine: Topology) -> Settings:
    return [("/sys/kernel/debug/sched/numa_balancing/scan_delay_ms", str(_EARLY_MS))]


def _tuned(_machine: Topology) -> Settings:
    """The scan of a process starts at once and takes a tenth of a second; a page is hot when used within that."""
    folder = "/sys/kernel/debug/sched/numa_balancing"
    period = [(f"{folder}/scan_period_{end}_ms", str(_TUNED_MS)) for end in ("min", "max")]
    return [(f"{folder}/scan_delay_ms", "1"), *period, (f"{folder}/hot_threshold_ms", str(_TUNED_MS))]


def _terrace(_machine: Topology) -> Settings:
    folder = "/sys/kernel/mm/mtier"
    rate = (f"{folder}/promote/rate_mbps", str(RATE_MBPS))
    return [DEMOTION, (_BALANCING, "0"), rate, (f"{folder}/enabled", "1")]


def _deferring(settings: Callable[[Topology], Settings]) -> Callable[[Topology], Settings]:
    """The same, with deferred TLB flushes: pages that nobody can write to migrate without an interrupt."""
    return lambda machine: [("/sys/kernel/mm/tlb_defer/mode", "quarantine"), *settings(machine)]


def _follow(lazy: bool, level: int = 0) -> Callable[[Topology], Settings]:
    """Automatic NUMA migration; `level` is that of migration on faults."""
    folder = f"/sys/fs/cgroup/{CGROUP}"

    def settings(_machine: Topology) -> Settings:
        return [
            (_BALANCING, "0"),
            (f"{folder}/cpuset.auto_migrate_interval", str(FOLLOW_INTERVAL_S)),
            (f"{folder}/cpuset.auto_migrate_lazy", str(int(lazy))),
            (f"{folder}/cpuset.migrate_on_fault", str(level)),
            (f"{folder}/cpuset.auto_migration", "1"),
        ]

    return settings


def _nothing(_machine: Topology) -> Settings:
    return [(DEMOTION[0], "0"), (_BALANCING, "0")]


def _damon(machine: Topology) -> Settings:
    """One kdamond per node, as in damo's example for tiered memory.

    Cold pages of the fast node are demoted, hot pages of the slow node promoted, each decided once
    a second, with damo's thresholds (no access at all; at least 5 %), its filter by the pages' own
    Accessed bits, and DAMON's default intervals and numbers of regions. The example's goals for the
    use of a node are not in 6.12, so the quota is the rate limit that all policies have.
    """
    return [
        DEMOTION,
        (_BALANCING, "0"),
        (f"{_DAMON}/nr_kdamonds", "2"),
        *_kdamond(_Scheme(0, FAST_NODE, "migrate_cold", SLOW_NODE, (0, 0), young_is_out=True), machine),
        *_kdamond(_Scheme(1, SLOW_NODE, "migrate_hot", FAST_NODE, (1, 20), young_is_out=False), machine),
        (f"{_DAMON}/0/state", "on"),
        (f"{_DAMON}/1/state", "on"),
    ]


@dataclass(frozen=True)
class _Scheme:
    """The scheme of a kdamond. `accesses` are of 20 samples; with `young_is_out` its filter excludes young pages."""

    number: int
    node: int
    action: str
    target: int
    accesses: tuple[int, int]
    young_is_out: bool


def _kdamond(wish: _Scheme, machine: Topology) -> Settings:
    context = f"{_DAMON}/{wish.number}/contexts/0"
    regions = f"{context}/targets/0/regions"
    scheme = f"{context}/schemes/0"
    ranges = node_ranges(machine)[wish.node]
    found = [
        (f"{_DAMON}/{wish.number}/contexts/nr_contexts", "1"),
        (f"{context}/operations", "paddr"),
        (f"{context}/monitoring_attrs/intervals/sample_us", "5000"),
        (f"{context}/monitoring_attrs/intervals/aggr_us", "100000"),
        (f"{context}/monitoring_attrs/intervals/update_us", "1000000"),
        (f"{context}/monitoring_attrs/nr_regions/min", "10"),
        (f"{context}/monitoring_attrs/nr_regions/max", "1000"),
        (f"{context}/targets/nr_targets", "1"),
        (f"{regions}/nr_regions", str(len(ranges))),
    ]
    for index, (start, end) in enumerate(ranges):
        found += [(f"{regions}/{index}/start", str(start)), (f"{regions}/{index}/end", str(end))]
    return [
        *found,
        (f"{context}/schemes/nr_schemes", "1"),
        (f"{scheme}/action", wish.action),
        (f"{scheme}/target_nid", str(wish.target)),
        (f"{scheme}/apply_interval_us", "1000000"),
        (f"{scheme}/access_pattern/sz/min", "4096"),
        (f"{scheme}/access_pattern/sz/max", _MAX),
        (f"{scheme}/access_pattern/nr_accesses/min", str(wish.accesses[0])),
        (f"{scheme}/access_pattern/nr_accesses/max", str(wish.accesses[1])),
        (f"{scheme}/access_pattern/age/min", "0"),
        (f"{scheme}/access_pattern/age/max", "4294967295"),
        (f"{scheme}/quotas/bytes", str(RATE_MBPS << 20)),
        (f"{scheme}/quotas/reset_interval_ms", "1000"),
        (f"{scheme}/filters/nr_filters", "1"),
        (f"{scheme}/filters/0/type", "young"),
        (f"{scheme}/filters/0/matching", "Y" if wish.young_is_out else "N"),
    ]


_TABLE = (
    Policy("all-dram", "bound: all memory on fast memory", "stock", _nothing, limit="fast"),
    Policy("oracle", "bound: the pages most accessed in an earlier run, on fast memory", "stock", _nothing, "oracle"),
    Policy("stock-0", "the stock kernel, numa_balancing=0: nothing is promoted", "stock", _stock(0), machines=_BOTH),
    Policy(
        "stock-1",
        "the stock kernel, numa_balancing=1",
        "stock",
        _stock(1),
        scanners=("numa_scan",),
        machines=_BOTH,
    ),
    Policy("stock-2", "the stock kernel, numa_balancing=2 (tiering)", "stock", _stock(2), scanners=("numa_scan",)),
    Policy(
        "stock-2-early",
        f"the same, begun when a process is {_EARLY_MS} ms old and not a second",
        "stock",
        _stock(2),
        scanners=("numa_scan",),
        before=_early,
    ),
    Policy(
        "stock-2-tuned",
        f"the same, begun at once, each scan in {_TUNED_MS} ms, hot is used again within {_TUNED_MS} ms",
        "stock",
        _stock(2),
        scanners=("numa_scan",),
        before=_tuned,
    ),
    Policy("damon", "the stock kernel, DAMON: migrate_hot and migrate_cold", "stock", _damon, scanners=("kdamond",)),
    Policy(
        "terrace",
        "the Terrace kernel, promotion on, numa_balancing=0",
        "terrace",
        _terrace,
        scanners=("kmtierd",),
    ),
    Policy(
        "stock-2-tuned-defer",
        "the Terrace kernel, numa_balancing=2 tuned as in stock-2-tuned, TLB flushes of migrated pages deferred",
        "terrace",
        _deferring(_stock(2)),
        scanners=("numa_scan",),
        before=_tuned,
    ),
    Policy(
        "terrace-defer",
        "the Terrace kernel, promotion on, numa_balancing=0, TLB flushes of migrated pages deferred",
        "terrace",
        _deferring(_terrace),
        scanners=("kmtierd",),
    ),
    Policy("all-slow", "bound: all memory on slow memory", "stock", _nothing, limit="slow"),
    Policy("even", "bound: the load's pages on all nodes in turn", "terrace", _nothing, limit="even", machines=(EVEN,)),
    Policy(
        "copies",
        "bound: a copy of what is only read on each node, made before",
        "stock",
        _nothing,
        limit="copies",
        machines=(EVEN,),
    ),
    Policy("direct", "cpuset.auto_migration: memory follows at once", "terrace", _follow(False), machines=(EVEN,)),
    Policy("lazy", "and cpuset.auto_migrate_lazy: when it is used", "terrace", _follow(True), machines=(EVEN,)),
    Policy("lazy-fault-1", "lazy, cpuset.migrate_on_fault=1", "terrace", _follow(True, 1), machines=(EVEN,)),
    Policy("lazy-fault-3", "lazy, cpuset.migrate_on_fault=3", "terrace", _follow(True, 3), machines=(EVEN,)),
)
POLICIES = {policy.name: policy for policy in _TABLE}
#: Colours in pictures, of the policies for machines with slow memory.
COLOURS = {
    "all-dram": "#333333",
    "oracle": "#8a63b8",
    "stock-0": "#b5b5b5",
    "stock-1": "#5b8db8",
    "stock-2": "#c96a28",
    "stock-2-early": "#e0a070",
    "stock-2-tuned": "#d9b36c",
    "damon": "#c2a11a",
    "terrace": "#1b7f5c",
    "stock-2-tuned-defer": "#8a6a1c",
    "terrace-defer": "#5fb894",
    "all-slow": "#a33a3a",
}

# SPDX-License-Identifier: GPL-2.0
"""A small machine on which every metric of `terrace exporter` has a value, and its page as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ops_tree import Tree, build, cxl, dram
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from terrace.exporter.collector import as_text
from terrace.exporter.machine import look
from terrace.ops.knob_table import CGROUPS
from terrace.ops.snapshot import COMMON_COUNTERS
from terrace.sysfs import KernelFiles

#: Every counter that our kernel adds to /proc/vmstat and status reads, and the stock ones beside them.
COUNTERS = [
    *COMMON_COUNTERS,
    "mtier_bursts",
    "mtier_demoted",
    "mtier_drop_dirty",
    "mtier_drop_gone",
    "mtier_drop_pinned",
    "mtier_drop_policy",
    "mtier_drop_type",
    "mtier_fail_busy",
    "mtier_fail_isolate",
    "mtier_fail_nomem",
    "mtier_fast_busy",
    "mtier_fast_deferred",
    "mtier_fast_kind",
    "mtier_fast_moved",
    "mtier_fast_nomem",
    "mtier_fast_poison",
    "mtier_hint_faults",
    "mtier_look_flushes",
    "mtier_look_ptes",
    "mtier_looks",
    "mtier_promoted_anon",
    "mtier_promoted_file",
    "mtier_promoted_folios",
    "mtier_promoted_shmem",
    "mtier_promoted_thp",
    "mtier_split_thp",
    "mtier_taken",
    "mtier_throttle_rate",
    "numa_follow_checked",
    "numa_follow_declined_balancing",
    "numa_follow_declined_node",
    "numa_follow_declined_policy",
    "numa_follow_declined_threads",
    "numa_follow_faulted_anon",
    "numa_follow_faulted_file",
    "numa_follow_faulted_shmem",
    "numa_follow_marked",
    "numa_follow_moved",
    "numa_follow_pulled",
    "numa_follow_refused_busy",
    "numa_follow_refused_dirty",
    "numa_follow_refused_nomem",
    "numa_follow_refused_rate",
    "numa_follow_refused_shared",
    "numa_follow_scanned",
    "numa_follow_tasks",
    "numa_scan_fallbacks",
    "numa_scan_fallbacks_locked",
    "numa_scan_held",
    "numa_scan_ns_async",
    "numa_scan_ns_sliced",
    "numa_scan_ns_sync",
    "numa_scan_one_node",
    "numa_scan_opted_out",
    "numa_scan_ptes",
    "numa_scan_skipped",
    "numa_scan_slices_async",
    "numa_scan_slices_sliced",
    "numa_scan_slices_sync",
    "numa_scan_visits",
    "tlb_defer_aside",
    "tlb_defer_backoffs",
    "tlb_defer_batch_clean",
    "tlb_defer_batch_flushed",
    "tlb_defer_flush_cap",
    "tlb_defer_flush_compact",
    "tlb_defer_flush_cpus",
    "tlb_defer_flush_late",
    "tlb_defer_flush_open",
    "tlb_defer_flush_pressure",
    "tlb_defer_flush_stop",
    "tlb_defer_folios",
    "tlb_defer_forced_unmap",
    "tlb_defer_forced_write",
    "tlb_defer_generations",
    "tlb_defer_joined",
    "tlb_defer_no_need",
    "tlb_defer_pages",
    "tlb_defer_refused_backoff",
    "tlb_defer_refused_file",
    "tlb_defer_refused_full",
    "tlb_defer_refused_kind",
    "tlb_defer_refused_open",
    "tlb_defer_refused_pending",
    "tlb_defer_refused_pressure",
    "tlb_defer_refused_write",
    "tlb_defer_tick_flush",
]


def full(root: Path, *, first: int = 1000) -> Tree:
    """A machine with everything; the counters have values from ``first`` on, each another one."""
    tree = build(root, [dram(gave_up=True), cxl(engine={"promoted": "25600", "dropped": "400", "demoted": "512"})])
    tree.capabilities()
    tree.vmstat(**{name: first + place for place, name in enumerate(COUNTERS)})
    tree.place()
    tree.put("sys/kernel/debug/mtier/observe", "0")
    cgroup(tree, "db", fast=6 << 20, slow=2 << 20)
    cgroup(tree, "db/old", fast=1 << 20, slow=1 << 20)
    return tree


def cgroup(tree: Tree, name: str, fast: int, slow: int) -> None:
    """A control group with bytes on node 0 and node 1."""
    tree.put(f"{CGROUPS}/cgroup.controllers", "cpuset memory")
    tree.put(f"{CGROUPS}/{name}/memory.numa_stat", f"anon N0={fast} N1={slow}\nfile N0=0 N1=0")
    moved = {"pgpromote_success": 7, "pgdemote_kswapd": 2, "pgdemote_direct": 1, "mtier_demoted": 4}
    tree.put(f"{CGROUPS}/{name}/memory.stat", "\n".join(f"{key} {value}" for key, value in moved.items()))


def text(root: Path, most: int = 50, depth: int = 3) -> str:
    """The page of metrics of a machine."""
    return as_text(lambda: look(KernelFiles(root), most, depth)).decode("utf-8")


def families(root: Path, most: int = 50, depth: int = 3) -> list[Metric]:
    """The same as Prometheus' own reader sees it."""
    return list(text_string_to_metric_families(text(root, most, depth)))


def samples(root: Path, most: int = 50, depth: int = 3) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Values by name and sorted labels."""

    def all_of() -> Iterator[tuple[tuple[str, tuple[tuple[str, str], ...]], float]]:
        for family in families(root, most, depth):
            for sample in family.samples:
                yield (sample.name, tuple(sorted(sample.labels.items()))), sample.value

    pairs = list(all_of())
    found = dict(pairs)
    assert len(found) == len(pairs), "a series is there twice"
    return found

# SPDX-License-Identifier: GPL-2.0
"""The table of metrics (docs/reference/metrics.md is compared with it), and a page of them with values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

Kind = Literal["counter", "gauge", "info"]
#: Factor from a unit of the kernel to the metric's.
Unit = Fraction | int
NS = Fraction(1, 1_000_000_000)


@dataclass(frozen=True)
class Metric:
    """One metric. The name has its unit, a counter's ends in ``_total``, that of words in ``_info`` (value 1)."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


def _counter(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(f"terrace_{name}_total", "counter", labels, help_text)


def _gauge(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(f"terrace_{name}", "gauge", labels, help_text)


def _info(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(f"terrace_{name}_info", "info", labels, help_text)


_MACHINE = (
    _info("build", "Version of terrace that answers", "version"),
    _info("kernel", "Release of the running kernel, as uname -r gives it", "release"),
    _gauge("page_size_bytes", "Size of a page in bytes; metrics named pages count these"),
    _info("node", "A node with memory: CPUs, memory tier, and whether it is a top tier", "node", "cpus", "tier", "top"),
    _gauge("node_top_tier", "1 if the node is in a top tier, out of which no page is promoted; otherwise 0", "node"),
    _gauge("node_tier_rank", "Place of the node's memory tier; 0 is the fastest", "node", "tier"),
    _gauge(
        "node_memory_bytes",
        "Memory of the node: total, free, and movable (on the LRU lists). The states overlap",
        "node",
        "tier",
        "state",
    ),
    _gauge(
        "node_watermark_bytes",
        "Free memory below which kswapd runs: low; promo for promotion",
        "node",
        "mark",
    ),
    _gauge("node_reclaim_gave_up", "1 if kswapd failed so often that it demotes nothing there; otherwise 0", "node"),
    _gauge("node_distance", "Distance of another node, as firmware gives it; 10 is the node itself", "node", "to"),
    _gauge("node_demotes_to", "1 for each node that reclaim demotes to from the node", "node", "to"),
    _gauge("node_promotes_to", "1 for each node that promotion from the node targets", "node", "to"),
    _gauge("node_read_latency_seconds", "Read latency from the nearest CPUs, as firmware (HMAT) gives it", "node"),
    _gauge(
        "node_read_bandwidth_bytes_per_second",
        "Read bandwidth from the nearest CPUs, as firmware (HMAT) gives it",
        "node",
    ),
    _counter("node_promoted_pages", "Pages promoted from the node since promotion was switched on", "node"),
    _counter("node_demoted_pages", "Pages demoted to the node by promotion since it was switched on", "node"),
    _counter(
        "node_not_promoted_folios",
        "Folios of the node that were selected and not promoted, since promotion was switched on",
        "node",
    ),
)

_ENGINE = (
    _gauge("engine_present", "1 if the kernel has the promotion engine (mm/mtier); otherwise 0"),
    _gauge("engine_enabled", "1 if promotion is switched on; otherwise 0"),
    _gauge("engine_state", "1 for the present state of promotion, 0 for the other states", "state"),
    _gauge("engine_processes", "Address spaces registered for promotion"),
    _gauge("engine_observing", "1 if promotion only decides and moves nothing; otherwise 0 (debugfs: for root)"),
    _gauge("last_burst_why", "1 for the reason why the last burst moved no more pages, 0 for the other reasons", "why"),
    _gauge("last_burst_look_interval_seconds", "Interval between two scans of the last burst"),
    _gauge("last_burst_cpu_share_ratio", "Share of one CPU that scans may use now, on average"),
    _gauge(
        "last_burst_margin_ratio",
        "Probability of an access between two scans for the last page that fits in the fast tier",
    ),
    _gauge("last_burst_trust_ratio", "Share of the predicted benefit of migrations that re-checks found"),
    _gauge("last_burst_gain_seconds", "Time saved so far by the migrations of the last burst"),
    _gauge("last_burst_cost_seconds", "CPU time of the scans of the last burst"),
    _counter("place_taken_pages", "Pages selected for promotion since promotion was switched on"),
    _counter("place_promoted_pages", "Pages promoted since promotion was switched on"),
    _counter("place_demoted_pages", "Pages demoted to make room since promotion was switched on"),
    _counter("thread_cpu_seconds", "CPU time of a kernel thread that promotes or demotes", "thread"),
    _gauge(
        "reason",
        "1 for each thing that stops promotion, as terrace status --interval 0 names it (by counters since boot)",
        "id",
        "severity",
    ),
)

_SETTINGS = (
    _gauge("capability_present", "1 if the kernel has the capability; otherwise 0", "capability"),
    _gauge("capability_on", "1 if the capability is on, for control groups in any of them; otherwise 0", "capability"),
    _gauge("capability_cgroups", "Control groups that have the capability on", "capability"),
    _gauge("knob_value", "Knob whose value is a plain number, or off (0) and on (1)", "knob"),
    _gauge("knob_seconds", "Knob whose value is a time", "knob"),
    _gauge("knob_ratio", "Knob whose value is a share", "knob"),
    _gauge("knob_bytes_per_second", "Knob whose value is a rate", "knob"),
    _info("knob", "Knob whose value is a word now", "knob", "value"),
)

_CGROUPS = (
    _gauge("cgroup_memory_bytes", "Memory of the control group and its descendants on a node", "cgroup", "node"),
    _counter("cgroup_promoted_pages", "Pages of the control group that were promoted", "cgroup"),
    _counter("cgroup_demoted_pages", "Pages of the control group that were demoted", "cgroup"),
    _gauge("cgroups_readable", "1 if cgroup v2 counts the memory of control groups; otherwise 0, and none is shown"),
    _gauge("cgroups_found", "Control groups down to the requested depth"),
    _gauge("cgroups_left_out", "Control groups left out, because other ones have more slow memory"),
)

_SCRAPE = (
    _gauge("scrape_duration_seconds", "Time it took to read the values of this page"),
    _gauge("unreadable_files", "Files of the kernel that are there and may not be read by the exporter's user"),
)

_VMSTAT = (
    _counter("promoted_pages", "Pages promoted, by the engine or by stock NUMA balancing"),
    _counter("promotion_candidate_pages", "Pages that hint faults of stock NUMA balancing found hot"),
    _counter(
        "demoted_pages", "Pages demoted, by the code that found them cold: reclaim (three kinds) or promotion", "by"
    ),
    _counter("migrated_pages", "Pages that the kernel was to migrate for any reason, by result", "result"),
    _counter("numa_migrated_pages", "Pages that NUMA balancing, faults or followers moved to another node"),
    _counter("numa_hint_faults", "Hint faults of NUMA balancing"),
    _counter("engine_bursts", "Bursts of scans"),
    _counter("engine_looks", "Looks of the engine"),
    _counter("engine_look_entries", "Page table entries scanned"),
    _counter("engine_look_flushes", "TLB flushes of an address space after a scan"),
    _counter("engine_hint_faults", "Hint faults that found a slow page hot and left it to mm/mtier"),
    _counter("engine_throttled", "Waits for a limit (rate: promote.rate_mbps)", "limit"),
    _counter("engine_taken_folios", "Folios selected for promotion"),
    _counter("engine_promoted_folios", "Folios selected and promoted"),
    _counter("not_promoted_folios", "Folios selected and not promoted, by reason", "reason"),
    _counter("engine_promoted_pages", "Pages promoted by mm/mtier, by kind", "kind"),
    _counter("engine_promoted_huge_folios", "Huge pages promoted by mm/mtier"),
    _counter("engine_split_huge_folios", "Huge pages split because the target had no free huge page"),
    _counter("engine_fast_moved_pages", "Pages that moved by address space, up or down"),
    _counter("engine_fast_deferred_pages", "Pages migrated by address space with a deferred TLB flush"),
    _counter(
        "engine_fast_left_folios",
        "Folios that could not move by address space and were left to migrate_pages(), by reason",
        "reason",
    ),
    _counter("tlb_defer_pages", "Migrated pages with a deferred TLB flush"),
    _counter("tlb_defer_joined_pages", "Pages that could have waited, and went along with the flush of another"),
    _counter("tlb_defer_no_need_pages", "Pages for which no other CPU had to be interrupted"),
    _counter("tlb_defer_refused_pages", "Pages whose flush could not be deferred, by reason", "reason"),
    _counter("tlb_defer_batches", "Batches of pages: clean sent no interrupt, flushed had to", "end"),
    _counter("tlb_defer_flushes", "Flushes by interrupt, by reason", "cause"),
    _counter("tlb_defer_interrupted_cpus", "CPUs interrupted by flushes of pages that waited"),
    _counter("tlb_defer_forced_address_spaces", "Forced flushes of address spaces, by reason", "by"),
    _counter("numa_follow_scanned_pages", "Pages that migration walks checked, to move or mark them"),
    _counter("numa_follow_checked_pages", "Pages that faults checked for misplacement"),
    _counter("numa_follow_marked_pages", "Pages marked to move when they are used next"),
    _counter("numa_follow_pulled_pages", "Marked pages that an access moved"),
    _counter("numa_follow_moved_pages", "Pages moved at once, after their task"),
    _counter("numa_follow_faulted_pages", "Unmapped pages moved by a fault before it mapped them, by kind", "kind"),
    _counter("numa_follow_refused_pages", "Pages that should have followed and stay, by reason", "reason"),
    _counter("numa_follow_walks", "Walks begun: memory of a process follows"),
    _counter("numa_follow_declined", "Tasks that moved without their memory, by reason", "reason"),
    _counter("numa_scan_visits", "Scans of a process that were due"),
    _counter("numa_scan_walks", "Scans of NUMA balancing, by context", "mode"),
    _counter("numa_scan_seconds", "Time in walks of NUMA balancing", "mode"),
    _counter("numa_scan_entries", "Page table entries scanned by NUMA balancing"),
)

#: Every metric whose name is known before a kernel is read; other counters of /proc/vmstat:
#: `terrace.exporter.vmstat`.
METRICS: dict[str, Metric] = {
    metric.name: metric for metric in (*_MACHINE, *_ENGINE, *_SETTINGS, *_CGROUPS, *_SCRAPE, *_VMSTAT)
}


@dataclass
class Family:
    """A metric with its values, by the values of its labels."""

    metric: Metric
    samples: dict[tuple[str, ...], float] = field(default_factory=dict)


class Page:
    """All values of one read. Values that the kernel does not report are not on the page."""

    def __init__(self) -> None:
        self.families: dict[str, Family] = {}

    def put(self, name: str, value: float | None, /, **labels: object) -> None:
        """Set the metric ``terrace_NAME``; None sets nothing."""
        self.add(METRICS[f"terrace_{name}"], value, **labels)

    def add(self, metric: Metric, value: float | None, /, **labels: object) -> None:
        """Add to any metric. Values with the same labels are summed, as for two threads of one name."""
        if value is None or not math.isfinite(value):
            return
        if set(labels) != set(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}, not {tuple(labels)}")
        key = tuple(printable(str(labels[label])) for label in metric.labels)
        samples = self.families.setdefault(metric.name, Family(metric)).samples
        samples[key] = value if metric.kind == "info" else samples.get(key, 0) + value


def scaled(value: int, unit: Unit) -> float:
    """Multiply ``value`` by ``unit``, rounded once: 250 ns are 2.5e-07 s, which ``250 * 1e-9`` is not."""
    product = value * unit
    return product if isinstance(product, int) else float(product)


def printable(text: str) -> str:
    r"""Make ``text`` valid UTF-8: an invalid byte of a file's name is shown as ``\xff``."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")

# SPDX-License-Identifier: GPL-2.0
r"""Counters of /proc/vmstat as metrics: related ones are one metric with a label, all others follow
one rule.

A counter without a line below, for instance of a later kernel, is ``terrace_NAME_total``; ``_ns``
in its name becomes ``_seconds``, and its value seconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from terrace.exporter.table import METRICS, NS, Metric, Page, Unit, scaled

_REFERENCE = "docs/reference/counters.md"


@dataclass(frozen=True)
class _Rule:
    """Counters whose names match; named groups are labels of that name."""

    pattern: str
    metric: str
    unit: Unit = 1
    labels: Mapping[str, str] = field(default_factory=dict)


_RULES = (
    _Rule("pgpromote_success", "promoted_pages"),
    _Rule("pgpromote_candidate", "promotion_candidate_pages"),
    _Rule("pgdemote_(?P<by>kswapd|direct|khugepaged)", "demoted_pages"),
    _Rule("mtier_demoted", "demoted_pages", labels={"by": "engine"}),
    _Rule("pgmigrate_(?P<result>success|fail)", "migrated_pages"),
    _Rule("numa_pages_migrated", "numa_migrated_pages"),
    _Rule("numa_hint_faults", "numa_hint_faults"),
    _Rule("mtier_bursts", "engine_bursts"),
    _Rule("mtier_looks", "engine_looks"),
    _Rule("mtier_look_ptes", "engine_look_entries"),
    _Rule("mtier_look_flushes", "engine_look_flushes"),
    _Rule("mtier_hint_faults", "engine_hint_faults"),
    _Rule("mtier_throttle_(?P<limit>[a-z_]+)", "engine_throttled"),
    _Rule("mtier_taken", "engine_taken_folios"),
    _Rule("mtier_promoted_folios", "engine_promoted_folios"),
    _Rule("mtier_(?P<reason>(?:drop|fail)_[a-z_]+)", "not_promoted_folios"),
    _Rule("mtier_promoted_(?P<kind>anon|file|shmem)", "engine_promoted_pages"),
    _Rule("mtier_promoted_thp", "engine_promoted_huge_folios"),
    _Rule("mtier_split_thp", "engine_split_huge_folios"),
    _Rule("mtier_fast_moved", "engine_fast_moved_pages"),
    _Rule("mtier_fast_deferred", "engine_fast_deferred_pages"),
    _Rule("mtier_fast_(?P<reason>kind|busy|nomem)", "engine_fast_left_folios"),
    _Rule("tlb_defer_pages", "tlb_defer_pages"),
    _Rule("tlb_defer_joined", "tlb_defer_joined_pages"),
    _Rule("tlb_defer_no_need", "tlb_defer_no_need_pages"),
    _Rule("tlb_defer_refused_(?P<reason>[a-z_]+)", "tlb_defer_refused_pages"),
    _Rule("tlb_defer_batch_(?P<end>clean|flushed)", "tlb_defer_batches"),
    _Rule("tlb_defer_flush_cpus", "tlb_defer_interrupted_cpus"),
    _Rule("tlb_defer_flush_(?P<cause>[a-z_]+)", "tlb_defer_flushes"),
    _Rule("tlb_defer_forced_(?P<by>[a-z_]+)", "tlb_defer_forced_address_spaces"),
    _Rule("numa_follow_scanned", "numa_follow_scanned_pages"),
    _Rule("numa_follow_checked", "numa_follow_checked_pages"),
    _Rule("numa_follow_marked", "numa_follow_marked_pages"),
    _Rule("numa_follow_pulled", "numa_follow_pulled_pages"),
    _Rule("numa_follow_moved", "numa_follow_moved_pages"),
    _Rule("numa_follow_faulted_(?P<kind>[a-z_]+)", "numa_follow_faulted_pages"),
    _Rule("numa_follow_refused_(?P<reason>[a-z_]+)", "numa_follow_refused_pages"),
    _Rule("numa_follow_tasks", "numa_follow_walks"),
    _Rule("numa_follow_declined_(?P<reason>[a-z_]+)", "numa_follow_declined"),
    _Rule("numa_scan_visits", "numa_scan_visits"),
    _Rule("numa_scan_slices_(?P<mode>[a-z_]+)", "numa_scan_walks"),
    _Rule("numa_scan_ns_(?P<mode>[a-z_]+)", "numa_scan_seconds", NS),
    _Rule("numa_scan_ptes", "numa_scan_entries"),
)


def put_counters(page: Page, counters: Mapping[str, int]) -> None:
    """Add every counter of a snapshot."""
    for name, value in counters.items():
        for rule in _RULES:
            if match := re.fullmatch(rule.pattern, name):
                page.put(f"{rule.metric}_total", scaled(value, rule.unit), **{**rule.labels, **match.groupdict()})
                break
        else:
            metric, unit = by_rule(name)
            # Never two metrics of one name, for any name of a counter.
            if metric.name not in METRICS and metric.name not in page.families:
                page.add(metric, scaled(value, unit))


def by_rule(counter: str) -> tuple[Metric, Unit]:
    """Get the metric of a counter without a line, and the factor of its value."""
    bare = re.sub(r"\W", "_", counter, flags=re.ASCII)
    seconds = re.sub(r"_ns(?=_|$)", "_seconds", bare)
    help_text = f"Counter {counter} of /proc/vmstat, see {_REFERENCE}"
    return Metric(f"terrace_{seconds}_total", "counter", (), help_text), 1 if seconds == bare else NS

# SPDX-License-Identifier: GPL-2.0
"""Read the machine into a page of metrics: the data of `terrace status` and `terrace top`, in base units."""

from __future__ import annotations

import time
from fractions import Fraction

from terrace import __version__
from terrace.exporter.table import NS, Page, Unit, scaled
from terrace.exporter.vmstat import put_counters
from terrace.ops import hierarchy, knobs, residents, snapshot, top
from terrace.ops.capabilities import Capability
from terrace.ops.counters import WHY
from terrace.ops.diagnose import diagnose
from terrace.ops.knob_table import Knob
from terrace.ops.snapshot import Place, Snapshot
from terrace.ops.topology import NODES, Node, page_size
from terrace.sysfs import KernelFiles, parse_nodes, to_int

#: Values of mtier/state (docs/reference/counters.md); an unknown value is exported too.
STATES = ("off", "no_slow_tier", "idle", "looking", "moving", "throttled", "resting")
_MIB = 1 << 20
_MILLI, _MICRO, _PERCENT, _BP = (Fraction(1, parts) for parts in (1000, 1_000_000, 100, 10_000))
#: Unit of a knob -> its metric, and the factor from the knob's unit to the metric's.
_UNITS: dict[str, tuple[str, Unit]] = {
    "ms": ("knob_seconds", _MILLI),
    "s": ("knob_seconds", 1),
    "%": ("knob_ratio", _PERCENT),
    "bp": ("knob_ratio", _BP),
    "MiB/s": ("knob_bytes_per_second", _MIB),
}
_TRUTH = {"true": 1, "false": 0}
#: Numbers of place/ -> metric, and the factor from the file's unit to the metric's.
_PLACE = (
    ("tau_us", "last_burst_look_interval_seconds", _MICRO),
    ("share_ppm", "last_burst_cpu_share_ratio", _MICRO),
    ("margin_ppm", "last_burst_margin_ratio", _MICRO),
    ("trust_percent", "last_burst_trust_ratio", _PERCENT),
    ("gain_us", "last_burst_gain_seconds", _MICRO),
    ("cost_us", "last_burst_cost_seconds", _MICRO),
)


def look(files: KernelFiles, most_cgroups: int, depth: int) -> Page:
    """Read everything once. No page table is walked; for control groups the ``most_cgroups`` with
    the most slow memory.

    Takes a few milliseconds, and about 0.1 ms for each control group down to ``depth`` levels.
    """
    began = time.monotonic()
    page = Page()
    now = snapshot.take(files)
    page.put("build_info", 1, version=__version__)
    page.put("kernel_info", 1, release=now.release)
    page.put("page_size_bytes", page_size(files))
    order = parse_nodes(files.get(f"{NODES}/online"))
    for node in now.nodes:
        _put_node(page, node, order)
    _put_engine(page, now)
    put_counters(page, now.counters)
    for capability in now.capabilities:
        _put_capability(page, capability)
    for knob in knobs.present(files):
        _put_knob(page, knob, knobs.current(files, knob))
    if most_cgroups:
        _put_cgroups(page, files, now, most_cgroups, depth)
    page.put("unreadable_files", len(files.unreadable))
    page.put("scrape_duration_seconds", time.monotonic() - began)
    return page


def _put_node(page: Page, node: Node, order: list[int]) -> None:
    number, tier = node.node, node.tier or ""
    page.put("node_info", 1, node=number, cpus=node.cpus, tier=tier, top="yes" if node.top else "no")
    page.put("node_top_tier", node.top, node=number)
    page.put("node_tier_rank", node.rank, node=number, tier=tier)
    sizes = {"total": node.total_bytes, "free": node.free_bytes, "movable": node.movable_bytes}
    for state, size in sizes.items():
        page.put("node_memory_bytes", size, node=number, tier=tier, state=state)
    for mark, size in (("low", node.low_bytes), ("promo", node.promo_bytes)):
        page.put("node_watermark_bytes", size, node=number, mark=mark)
    page.put("node_reclaim_gave_up", node.reclaim_gave_up, node=number)
    page.put("node_read_latency_seconds", _scaled(node.read_latency_ns, NS), node=number)
    page.put("node_read_bandwidth_bytes_per_second", _scaled(node.read_bandwidth_mib_s, _MIB), node=number)
    page.put("node_promoted_pages_total", node.promoted, node=number)
    page.put("node_demoted_pages_total", node.demoted, node=number)
    page.put("node_not_promoted_folios_total", node.dropped, node=number)
    for to, distance in zip(order, node.distances, strict=False):
        page.put("node_distance", distance, node=number, to=to)
    for to in node.demotes_to:
        page.put("node_demotes_to", 1, node=number, to=to)
    for to in node.promotes_to:
        page.put("node_promotes_to", 1, node=number, to=to)


def _put_engine(page: Page, now: Snapshot) -> None:
    page.put("engine_present", now.engine)
    page.put("engine_enabled", now.enabled)
    _put_word(page, "engine_state", "state", now.state, STATES)
    page.put("engine_processes", now.processes)
    page.put("engine_observing", now.observing)
    if now.place:
        _put_place(page, now.place)
    for thread in now.daemons:
        page.put("thread_cpu_seconds_total", thread.cpu_seconds, thread=thread.name)
    for reason in diagnose(now, snapshot.change(None, now)):
        page.put("reason", 1, id=reason.id, severity=reason.severity)


def _put_place(page: Page, place: Place) -> None:
    for name in ("taken", "promoted", "demoted"):
        page.put(f"place_{name}_pages_total", getattr(place, name))
    if place.told:
        _put_word(page, "last_burst_why", "why", place.why, tuple(WHY))
        for name, metric, unit in _PLACE:
            page.put(metric, _scaled(getattr(place, name), unit))


def _put_word(page: Page, metric: str, label: str, word: str | None, known: tuple[str, ...]) -> None:
    """Add one value of several words: 1 for it, 0 for the others, so that a graph shows each as a line."""
    if word is not None:
        for other in dict.fromkeys((*known, word)):
            page.put(metric, other == word, **{label: other})


def _put_capability(page: Page, capability: Capability) -> None:
    name = capability.name
    page.put("capability_present", capability.present, capability=name)
    page.put("capability_on", capability.on, capability=name)
    if capability.present and name in ("auto_migration", "migrate_on_fault"):
        page.put("capability_cgroups", len(capability.cgroups), capability=name)


def _put_knob(page: Page, knob: Knob, text: str | None) -> None:
    if text is None:
        return
    value = _TRUTH.get(text, to_int(text))
    if value is None:
        page.put("knob_info", 1, knob=knob.name, value=text)
    else:
        metric, unit = _UNITS.get(knob.unit, ("knob_value", 1))
        page.put(metric, scaled(value, unit), knob=knob.name)


def _put_cgroups(page: Page, files: KernelFiles, now: Snapshot, most: int, depth: int) -> None:
    counted = hierarchy.find(files).problem is None
    page.put("cgroups_readable", counted)
    found = residents.cgroups(files, depth)
    kept = [row.resident for row in top.order(top.rows(found, [], 0), now.nodes)[:most]]
    for group in kept:
        for node, size in sorted((group.nodes or {}).items()):
            page.put("cgroup_memory_bytes", size, cgroup=group.name, node=node)
        page.put("cgroup_promoted_pages_total", group.promoted_pages, cgroup=group.name)
        page.put("cgroup_demoted_pages_total", group.demoted_pages, cgroup=group.name)
    page.put("cgroups_found", len(found))
    page.put("cgroups_left_out", len(found) - len(kept))


def _scaled(value: int | None, unit: Unit) -> float | None:
    return None if value is None else scaled(value, unit)

# SPDX-License-Identifier: GPL-2.0
"""Reasons why no pages migrate, from a snapshot, the main one first. Pure: reads no file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from terrace.ops import counters
from terrace.ops.devices import AUTO_ONLINE, Devices, Zones
from terrace.ops.snapshot import PLACE, Change, Snapshot, Target
from terrace.ops.topology import Node
from terrace.paths import command, document, has_lab
from terrace.units import format_nodes, format_size

Severity = Literal["info", "warn", "error"]

HOW_TO_KERNEL = "how-to/kernel-on-a-real-machine.md"
DEMOTE = "terrace set demotion_enabled 1"

#: With fewer LRU pages on the slow nodes there is nothing to promote (bytes).
EMPTY_BYTES = 1 << 20


@dataclass(frozen=True)
class Reason:
    """One reason that stops or slows promotion. ``id`` is stable, for scripts."""

    id: str
    severity: Severity
    message: str
    fix: str = ""


def is_moving(change: Change) -> bool | None:
    """Whether pages were promoted in the time of ``change``; None without a time."""
    return None if change.seconds is None else change.get("pgpromote_success") > 0


def diagnose(now: Snapshot, change: Change) -> list[Reason]:
    """Find every reason. Empty if promotion is on and pages migrate freely."""
    reasons = _machine(now)
    blocked = bool(reasons)
    reasons += _switches(now)
    if now.engine and now.enabled and not blocked:
        reasons += _engine(now, change)
    reasons += _pressure(now)
    reasons += _devices(now.devices)
    return reasons


def _machine(now: Snapshot) -> list[Reason]:
    """The machine has no memory to promote from, or none to promote to."""
    numbers = format_nodes([node.node for node in now.nodes])
    if len(now.nodes) <= 1:
        return [
            Reason(
                "one_node",
                "error",
                "the machine has one memory node: there is no slower memory to promote from",
                "on a machine with CXL or PMEM: bring it online as a node of its own "
                "(daxctl reconfigure-device --mode=system-ram); to try Terrace without such "
                f"hardware: {f'{command()} demo' if has_lab() else './terrace demo in a checkout'}",
            )
        ]
    if not now.tiers:
        return [
            Reason(
                "no_tiers",
                "error",
                f"the kernel exports no memory tiers for nodes {numbers}",
                "needs Linux 6.1 or later with CONFIG_NUMA and CONFIG_MIGRATION",
            )
        ]
    if len(now.tiers) == 1:
        return [
            Reason(
                "one_tier",
                "error",
                f"nodes {numbers} are all in one memory tier ({now.tiers[0].name}): "
                "for the kernel all are equally fast",
                "the firmware must describe their speed (ACPI HMAT or CXL CDAT; kernel option "
                "CONFIG_ACPI_HMAT); memory added by the kmem driver gets a slower tier by itself "
                "(daxctl reconfigure-device --mode=system-ram)",
            )
        ]
    if not now.slow_nodes:
        slowest = now.tiers[-1]
        return [
            Reason(
                "all_top_tier",
                "error",
                f"the slowest tier ({slowest.name}: nodes {format_nodes(slowest.nodes)}) has CPUs: "
                "the kernel counts such a tier and all faster ones as top tier",
                "nothing to do with promotion; for memory of sockets use numa_balancing 1",
            )
        ]
    return []


def _switches(now: Snapshot) -> list[Reason]:
    """Promotion is missing or off."""
    if not now.engine:
        stock = (now.numa_balancing or 0) & 2
        also = "; stock hot-page promotion by hint faults is on (numa_balancing 2)" if stock else ""
        return [
            Reason(
                "stock_kernel",
                "warn" if stock else "error",
                f"this kernel ({now.release}) has no promotion engine (CONFIG_MTIER){also}",
                f"install a Terrace kernel: {document(HOW_TO_KERNEL)}",
            )
        ]
    if now.enabled is None:
        return [
            Reason(
                "unreadable",
                "warn",
                "the state of promotion cannot be read",
                "run as root",
            )
        ]
    if not now.enabled:
        return [Reason("off", "error", "promotion is off", "terrace set enabled 1")]
    return []


def _engine(now: Snapshot, change: Change) -> list[Reason]:
    """Promotion is on and the machine fits: find the step that stops pages."""
    if now.state == "no_slow_tier":
        return [Reason("no_slow_tier", "error", "promotion finds no slow tier", "terrace doctor")]
    if now.observing:
        return [
            Reason(
                "observe",
                "warn",
                "promotion decides and migrates nothing: it only observes (debugfs mtier/observe)",
                "terrace set enabled 0; echo 0 > /sys/kernel/debug/mtier/observe; terrace set enabled 1",
            )
        ]
    slow = [node.movable_bytes for node in now.slow_nodes if node.movable_bytes is not None]
    if slow and sum(slow) < EMPTY_BYTES:
        numbers = format_nodes([node.node for node in now.slow_nodes])
        return [Reason("slow_empty", "info", f"there are no pages on the slow nodes ({numbers})")]
    reasons = _rate(now)
    if change.get("pgpromote_success") == 0:
        ever = Change(None, now.counters)
        reasons += _losses(ever if ever.get("pgpromote_success") == 0 else change)
        reasons += _last_burst(now)
    return reasons


def _rate(now: Snapshot) -> list[Reason]:
    """More pages could migrate than the limit allows, now or at the end of the last burst."""
    if now.state != "throttled" and (now.place is None or now.place.why != "rate"):
        return []
    meaning, fix = counters.WHY["rate"]
    return [Reason("rate_limit", "info", f"promotion is limited: {meaning}", fix)]


def _losses(change: Change) -> list[Reason]:
    """Pages were selected, and none was promoted: the most frequent result."""
    worst = _worst(change, counters.LOSSES)
    if worst is None:
        return []
    span = "since boot" if change.seconds is None else f"in {change.seconds:.3g} s"
    meaning, fix = counters.LOSSES[worst]
    return [
        Reason(
            worst.removeprefix("mtier_"),
            "warn",
            f"of {change.get('mtier_taken')} folios selected for promotion {span}, "
            f"{change.get(worst)} did not move: {meaning}",
            fix,
        )
    ]


def _last_burst(now: Snapshot) -> list[Reason]:
    """No pages migrate: the reason of the last burst."""
    if now.state == "idle":
        return [Reason("idle", "info", "no process has mapped a page on a slow node")]
    if now.place is None or not now.place.told:
        return [
            Reason(
                "no_burst",
                "info",
                "no burst of scans has ended since promotion was switched on; processes younger than scan.delay_ms "
                "are not scanned, and with scan scale 0 no page of a process is promoted",
                "watch longer: terrace status --watch",
            )
        ]
    targets = now.place.targets or (Target((), now.place.why or ""),)
    return [reason for target in targets for reason in _last_burst_to(now, target)]


def _last_burst_to(now: Snapshot, target: Target) -> list[Reason]:
    """No more pages migrate to some nodes: the reason of the last burst."""
    why = target.why
    if why == "rate":
        return []
    if why not in counters.WHY:
        return [Reason("unknown", "info", f"the engine says '{why}' (/{PLACE}/why), which this tool does not know")]
    meaning, fix = counters.WHY[why]
    if why == "no_victim" and now.demotion_enabled is False:
        # Another reason reports that the fast nodes are short of memory.
        message = "there is no free fast memory, and with demotion off no page is demoted"
        return [] if _full(now) else [Reason(why, "warn", message, DEMOTE)]
    where = f" to node {format_nodes(target.nodes)}" if target.nodes else ""
    return [Reason(why, "info", f"the last burst moved no more pages{where}: {meaning}", fix)]


def _worst(change: Change, among: Iterable[str]) -> str | None:
    """Get the counter that grew most; None if none did."""
    grown = {name: change.get(name) for name in among if change.get(name) > 0}
    return max(grown, key=lambda name: grown[name]) if grown else None


def _pressure(now: Snapshot) -> list[Reason]:
    """The fast nodes are full and no pages are demoted."""
    if not now.slow_nodes:
        return []
    reasons = []
    full = _full(now)
    if full and now.demotion_enabled is False:
        reasons.append(
            Reason(
                "dram_full_no_demotion",
                "warn",
                f"node {format_nodes([node.node for node in full])} is full and demotion is off: "
                "there is no space for hot pages",
                DEMOTE,
            )
        )
    stuck = [node for node in now.top_nodes if node.reclaim_gave_up]
    if stuck:
        reasons.append(
            Reason(
                "kswapd_gave_up",
                "error",
                f"kswapd has given up on node {format_nodes([node.node for node in stuck])} after "
                "16 failures in a row: it demotes nothing until another task reclaims there",
                f"{'' if now.demotion_enabled else f'{DEMOTE}; '}then wake it: "
                "echo 1M > /sys/fs/cgroup/memory.reclaim. It gives up when nothing can be demoted, swapped or dropped: "
                "demotion off and no swap, slow nodes full, or all memory locked",
            )
        )
    slow_full = [node for node in now.slow_nodes if _short(node, node.low_bytes)]
    if full and now.demotion_enabled and len(slow_full) == len(now.slow_nodes):
        reasons.append(
            Reason(
                "slow_full",
                "warn",
                "the slow nodes are full as well: the kernel reclaims from the fast ones to swap instead of demoting",
                "free memory, or limit the largest cgroups (memory.high)",
            )
        )
    return reasons


def _devices(found: Devices) -> list[Reason]:
    """Memory that the kernel could use, or uses in a way that its pages cannot migrate. One reason per id."""
    return [*_unused_dax(found), *_blocks(found), *_unused_cxl(found)]


def _unused_dax(found: Devices) -> list[Reason]:
    unused = [one for one in found.dax if one.mode != "system-ram"]
    if not unused:
        return []
    each = [
        f"{one.title} is {'without a driver' if one.mode == 'none' else f'in mode {one.mode}'}"
        + ("" if one.size_bytes is None else f", {format_size(one.size_bytes)}")
        + ("" if one.node is None else f" for node {one.node}")
        for one in unused
    ]
    return [
        Reason(
            "dax_not_memory",
            "warn",
            f"{'; '.join(each)}: the kernel uses it as memory of a node only in mode system-ram",
            f"daxctl reconfigure-device --mode=system-ram {' '.join(one.name for one in unused)}",
        )
    ]


def _blocks(found: Devices) -> list[Reason]:
    reasons = []
    offline = [one for one in found.zones if one.offline_bytes]
    if offline:
        each = [_amount(found, one, one.offline_bytes) for one in offline]
        reasons.append(
            Reason(
                "memory_offline",
                "warn",
                f"{'; '.join(each)} offline: that memory cannot be used",
                _with_policy(found, f"daxctl online-memory {_all_names(found, offline)}"),
            )
        )
    fixed = [one for one in found.zones if one.kernel_bytes]
    if fixed:
        each = [_amount(found, one, one.kernel_bytes) for one in fixed]
        names = _all_names(found, fixed)
        reasons.append(
            Reason(
                "memory_not_movable",
                "warn",
                f"{'; '.join(each)} in zones of the kernel, such as Normal: kernel data can be there, which is never "
                "promoted and keeps the device from going offline",
                _with_policy(found, f"daxctl offline-memory {names}; daxctl online-memory {names} (zone Movable)"),
            )
        )
    return reasons


def _amount(found: Devices, zones: Zones, count: int) -> str:
    names = ", ".join(one.title for one in found.of_node(zones.node))
    return f"node {zones.node} ({names}) has {format_size(count)}"


def _all_names(found: Devices, several: Iterable[Zones]) -> str:
    return " ".join(one.name for zones in several for one in found.of_node(zones.node))


def _with_policy(found: Devices, command: str) -> str:
    """Add to ``command`` the policy that puts later memory into zone Movable."""
    if found.auto_online in (None, "online_movable"):
        return command
    return (
        f"{command}; for memory that is added later: echo online_movable > /{AUTO_ONLINE} "
        f"(now {found.auto_online}; at boot: memhp_default_state=online_movable)"
    )


def _unused_cxl(found: Devices) -> list[Reason]:
    idle = found.idle_memory
    if not idle:
        return []
    names = ", ".join(f"{one.name} ({format_size(one.volatile_bytes or 0)})" for one in idle)
    return [
        Reason(
            "cxl_no_region",
            "warn",
            f"CXL memory {names} is in no region that the kernel knows: it is unused, unless the firmware has "
            "mapped it",
            f"cxl create-region -t ram -d DECODER {' '.join(one.name for one in idle)} "
            "(`cxl list -D` names the decoders); then daxctl reconfigure-device --mode=system-ram its dax device",
        )
    ]


def _full(now: Snapshot) -> list[Node]:
    """Get the full nodes of the top tier."""
    return [node for node in now.top_nodes if _short(node, node.promo_bytes)]


def _short(node: Node, mark: int | None) -> bool:
    return node.free_bytes is not None and mark is not None and node.free_bytes <= mark

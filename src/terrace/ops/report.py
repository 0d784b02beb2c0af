# SPDX-License-Identifier: GPL-2.0
"""The report of `terrace status` about a snapshot, as data (docs/reference/json.md) and as text."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

from terrace.ops import counters
from terrace.ops.capabilities import settings_text
from terrace.ops.daemons import Daemon
from terrace.ops.devices import AUTO_ONLINE, Devices
from terrace.ops.diagnose import Reason, diagnose, is_moving
from terrace.ops.snapshot import Change, Place, Snapshot, Target, change
from terrace.ops.topology import Node
from terrace.output import format_table, style
from terrace.units import format_nodes, format_size

JSON_VERSION = 2


@dataclass(frozen=True)
class Report:
    """A snapshot, the changes since the one before, and the conclusions."""

    now: Snapshot
    before: Snapshot | None
    change: Change
    reasons: list[Reason]
    unreadable: dict[str, str]

    @property
    def moving(self) -> bool | None:
        """Whether pages were promoted between two snapshots; None with only one."""
        return is_moving(self.change)


def make(now: Snapshot, before: Snapshot | None, unreadable: dict[str, str]) -> Report:
    """Combine the parts."""
    grown = change(before, now)
    return Report(now, before, grown, diagnose(now, grown), dict(unreadable))


def page_bytes() -> int:
    """Get the bytes of the counted pages."""
    return os.sysconf("SC_PAGE_SIZE")


def as_json(report: Report) -> dict[str, object]:
    """Create the document of `terrace status --json`."""
    now = report.now
    return {
        "version": JSON_VERSION,
        "kind": "status",
        "kernel": now.release,
        "interval_s": report.change.seconds,
        "engine": {
            "present": now.engine,
            "enabled": now.enabled,
            "state": now.state,
            "processes": now.processes,
            "observing": now.observing,
            "place": None if now.place is None else asdict(now.place),
        },
        "capabilities": [asdict(capability) for capability in now.capabilities],
        "numa_balancing": now.numa_balancing,
        "demotion_enabled": now.demotion_enabled,
        "tiers": [asdict(tier) for tier in now.tiers],
        "nodes": [node.as_json() for node in now.nodes],
        "memory_devices": now.devices.as_json(),
        "moves": _moves(report),
        "counters": now.counters,
        "rates_per_s": _rates(report.change),
        "daemons": [_daemon(report, daemon) for daemon in now.daemons],
        "moving": report.moving,
        "reasons": [asdict(reason) for reason in report.reasons],
        "unreadable": [{"path": path, "error": why} for path, why in sorted(report.unreadable.items())],
    }


def _rates(grown: Change) -> dict[str, float] | None:
    if grown.seconds is None:
        return None
    return {name: round(value / grown.seconds, 3) for name, value in grown.counters.items()}


def _moves(report: Report) -> dict[str, object]:
    """Get promotion and demotion in bytes, since boot and per second."""
    promoted, demoted = speeds(report)
    return {
        "promoted_bytes": _bytes(report, "pgpromote_success"),
        "demoted_bytes": _bytes(report, *counters.DEMOTED),
        "promoted_bytes_per_s": promoted,
        "demoted_bytes_per_s": demoted,
    }


def _bytes(report: Report, *names: str) -> int:
    return sum(report.now.counters.get(name, 0) for name in names) * page_bytes()


def speeds(report: Report) -> tuple[float | None, float | None]:
    """Get bytes promoted and demoted per second; None with only one snapshot."""
    return _speed(report, "pgpromote_success"), _speed(report, *counters.DEMOTED)


def _speed(report: Report, *names: str) -> float | None:
    if report.change.seconds is None:
        return None
    return round(sum(report.change.get(name) for name in names) * page_bytes() / report.change.seconds, 3)


def cpu_percent(report: Report, daemon: Daemon) -> float | None:
    """Get the share of one CPU that the thread used between the snapshots; None with only one."""
    if report.before is None or report.change.seconds is None:
        return None
    was = next((old.cpu_seconds for old in report.before.daemons if old.pid == daemon.pid), 0.0)
    return round(100 * max(0.0, daemon.cpu_seconds - was) / report.change.seconds, 2)


def _daemon(report: Report, daemon: Daemon) -> dict[str, object]:
    return {**asdict(daemon), "cpu_percent": cpu_percent(report, daemon)}


def as_text(report: Report) -> str:
    """Format the page of `terrace status`."""
    now = report.now
    parts = [
        _head(now),
        _nodes(now),
        _devices(now.devices),
        _capabilities(now),
        _last_burst(now),
        _flow(report),
        _threads(report),
        _why(report),
    ]
    if report.unreadable:
        parts.append(_unreadable(report.unreadable))
    return "\n\n".join(part for part in parts if part)


def engine_text(now: Snapshot) -> str:
    """Format the state of promotion."""
    if not now.engine:
        return "not in this kernel"
    if now.enabled is None:
        return "unreadable"
    engine = "on" if now.enabled else "off"
    return f"{engine}, {now.state}" if now.state and now.state != engine else engine


def settings_line(now: Snapshot) -> str:
    """Format the settings of demotion and NUMA balancing."""
    demotion = {True: "on", False: "off", None: "-"}[now.demotion_enabled]
    balancing = "-" if now.numa_balancing is None else str(now.numa_balancing)
    return f"demotion: {demotion}   numa_balancing: {balancing}"


def _head(now: Snapshot) -> str:
    does = ""
    if now.enabled and now.processes is not None:
        does = f"\nProcesses registered for promotion: {now.processes}.{_since_on(now.place)}"
    engine = style(engine_text(now), "bold")
    return f"Linux {now.release}   promotion engine: {engine}   {settings_line(now)}{does}"


def _since_on(place: Place | None) -> str:
    if place is None or not place.taken or place.promoted is None or place.demoted is None:
        return ""
    return (
        f" Since it was switched on {place.taken} pages were selected, {place.promoted} of them promoted, "
        f"and {place.demoted} demoted to make room."
    )


def _nodes(now: Snapshot) -> str:
    engine = any(node.promoted is not None for node in now.nodes)
    headers = ["NODE", "TIER", "CPUS", "SIZE", "FREE", "READ", "DEMOTES TO"]
    if engine:
        headers += ["PROMOTES TO", "PROMOTED", "DROPPED", "DEMOTED"]
    rows = [_node_row(node, engine) for node in now.nodes]
    return format_table(rows, headers)


def _node_row(node: Node, engine: bool) -> list[object]:
    tier = "-" if node.rank is None else f"{node.rank} {'top' if node.top else 'slow'}"
    row: list[object] = [
        str(node.node),
        tier,
        node.cpus or "none",
        _size(node.total_bytes),
        _free(node),
        _reading(node),
        format_nodes(node.demotes_to) if node.demotes_to else "-",
    ]
    if engine:
        row += [
            format_nodes(node.promotes_to) if node.promotes_to else "-",
            *("-" if value is None else value for value in (node.promoted, node.dropped, node.demoted)),
        ]
    return row


def _devices(found: Devices) -> str:
    """Format the devices of nodes, and the zones of their memory."""
    if not found.dax:
        return ""
    memory = {region.name: region.memory for region in found.regions}
    zones = {one.node: one for one in found.zones}
    rows = []
    for one in found.dax:
        made_from = [one.region, *memory.get(one.region, [])] if one.region else ["-"]
        place = zones.get(one.node) if one.node is not None and one.mode == "system-ram" else None
        node = "-" if one.node is None else str(one.node)
        rows.append(
            (one.name, one.mode, node, _size(one.size_bytes), " ".join(made_from), place.text if place else "-")
        )
    text = format_table(rows, ("DEVICE", "MODE", "NODE", "SIZE", "MADE FROM", "MEMORY OF THE NODE"))
    if found.auto_online is None:
        return text
    return f"{text}\nMemory that is added later: {found.auto_online} (/{AUTO_ONLINE})"


def _size(count: int | None) -> str:
    return "?" if count is None else format_size(count)


def _free(node: Node) -> str:
    if node.free_bytes is None or not node.total_bytes:
        return "?"
    return f"{format_size(node.free_bytes)} ({100 * node.free_bytes // node.total_bytes} %)"


def _reading(node: Node) -> str:
    """Format latency and bandwidth from the firmware's HMAT."""
    parts = []
    if node.read_latency_ns:
        parts.append(f"{node.read_latency_ns} ns")
    if node.read_bandwidth_mib_s:
        parts.append(f"{format_size(node.read_bandwidth_mib_s << 20)}/s")
    return " ".join(parts) or "-"


def _capabilities(now: Snapshot) -> str:
    """Format the capabilities other than promotion, which has the rest of the page."""
    states = {True: "on", False: "off", None: "unreadable"}
    rows = [
        (
            item.name,
            states[item.on],
            "-" if item.pages is None else format_size(item.pages * page_bytes()),
            settings_text(item),
        )
        for item in now.capabilities
        if item.present
    ]
    return format_table(rows, ("CAPABILITY", "STATE", "SINCE BOOT", "SETTING")) if rows else ""


def _last_burst(now: Snapshot) -> str:
    """Format the last burst: its scans, its benefit, and the reason why no more pages migrated."""
    place = now.place
    if not now.enabled or place is None or not place.told:
        return ""
    targets = place.targets or (Target((), place.why or ""),)
    rows = [
        *(("why", _target(target), _meaning(target.why)) for target in targets),
        ("tau", _time(place.tau_us), "interval between two scans"),
        ("share", _percent(place.share_ppm), "of one CPU that scans may use now, on average"),
        ("margin", _percent(place.margin_ppm), "chance that the last page with room above is used within tau"),
        ("trust", _percent(place.trust_percent, 1), "of the predicted benefit of migrations was found by re-checks"),
        ("gain", _time(place.gain_us), "time saved by migrated pages"),
        ("cost", _time(place.cost_us), "CPU time of its scans"),
    ]
    return format_table(rows, ("LAST BURST", "SAYS", "MEANING"))


def _target(target: Target) -> str:
    """Format the reason of a target, with its nodes if the kernel names them."""
    return f"{target.why} {format_nodes(target.nodes)}" if target.nodes else target.why


def _meaning(why: str) -> str:
    meaning, _ = counters.WHY.get(why, ("a word that this tool does not know", ""))
    return meaning


def _time(us: int | None) -> str:
    if us is None:
        return "-"
    for unit, name in ((1_000_000, "s"), (1000, "ms")):
        if us >= unit:
            return f"{us / unit:.3g} {name}" if us < 100 * unit else f"{us // unit} {name}"
    return f"{us} us"


def _percent(value: int | None, whole: int = 10_000) -> str:
    """Format ``value``, of which ``whole`` is one percent."""
    return "-" if value is None else f"{value / whole:.3g} %"


def _flow(report: Report) -> str:
    rows = [
        _flow_row(report, "promoted", "pgpromote_success"),
        _flow_row(report, "demoted", *counters.DEMOTED),
    ]
    headers = ["PAGES", "SINCE BOOT"]
    if report.change.seconds is not None:
        headers.append(f"NOW (over {report.change.seconds:.3g} s)")
    return "\n\n".join(part for part in (format_table(rows, headers), _counts(report)) if part)


def _flow_row(report: Report, what: str, *names: str) -> list[object]:
    row: list[object] = [what, format_size(_bytes(report, *names))]
    speed = _speed(report, *names)
    if speed is not None:
        row.append(f"{format_size(round(speed))}/s")
    return row


#: Counters that status always prints; the others only if they are not 0.
_STEPS = (
    ("mtier_bursts", "bursts of looks"),
    ("mtier_look_ptes", "page table entries scanned"),
    ("mtier_taken", "folios selected for promotion"),
)


def _counts(report: Report) -> str:
    """Format the counters of promotion, and the results of pages that were not promoted."""
    now = report.now.counters
    shown = [(name, meaning) for name, meaning in _STEPS if name in now]
    shown += [(name, f"not moved: {meaning}") for name, (meaning, _) in counters.LOSSES.items() if now.get(name)]
    shown += [(name, meaning) for name, meaning in counters.ASIDE.items() if now.get(name)]
    if not report.now.engine and now.get("numa_hint_faults"):
        shown.append(("numa_hint_faults", "hint faults of stock NUMA balancing"))
    if not shown:
        return ""
    rows: list[list[object]] = []
    for name, meaning in shown:
        row: list[object] = [name, now[name]]
        if report.change.seconds is not None:
            row.append(round(report.change.get(name) / report.change.seconds))
        rows.append([*row, meaning])
    headers = ["COUNTER", "SINCE BOOT", "PER S", "MEANING"]
    if report.change.seconds is None:
        headers.remove("PER S")
    return format_table(rows, headers)


def _threads(report: Report) -> str:
    rows: list[list[object]] = []
    for daemon in report.now.daemons:
        row: list[object] = [daemon.name, f"{daemon.cpu_seconds:.2f} s"]
        percent = cpu_percent(report, daemon)
        if percent is not None:
            row.append(f"{percent:.1f} %")
        rows.append(row)
    if not rows:
        return ""
    headers = ["THREAD", "CPU TIME"] + ([] if report.before is None else ["OF ONE CPU"])
    return format_table(rows, headers)


_MARKS = {"info": ("note:", "blue"), "warn": ("warning:", "yellow"), "error": ("stopped:", "red")}


def _why(report: Report) -> str:
    lines = [_verdict(report)]
    for reason in report.reasons:
        mark, colour = _MARKS[reason.severity]
        lines.append(f"  {style(mark, colour)} {reason.message}")
        if reason.fix:
            lines.append(f"    -> {reason.fix}")
    return "\n".join(lines)


def _verdict(report: Report) -> str:
    if report.moving:
        return style("Pages are being promoted.", "green")
    if report.moving is None:
        ever = report.now.counters.get("pgpromote_success")
        return "Pages have been promoted since boot." if ever else "No page has been promoted since boot."
    return "No page is being promoted."


def _unreadable(files: dict[str, str]) -> str:
    lines = ["Unreadable here (as root more may be):"]
    return "\n".join(lines + [f"  {path}: {why}" for path, why in sorted(files.items())])

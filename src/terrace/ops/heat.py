# SPDX-License-Identifier: GPL-2.0
"""The working set of each process by tier, estimated by the kernel from samples: `terrace status --heat`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from terrace.cells import clip, printable
from terrace.errors import MissingError, TerraceError
from terrace.ops.snapshot import kernel_release
from terrace.output import format_duration, format_table
from terrace.sysfs import MTIER, KernelFiles, parse_nodes, to_int
from terrace.trace.lines import pairs
from terrace.units import format_nodes, format_size

JSON_VERSION = 1
DEBUGFS = "sys/kernel/debug"
HEAT = f"{DEBUGFS}/mtier/heat"
TIERS = ("fast", "slow")
#: Standard errors of the printed interval: about 95 of 100 true values are within two.
ERRORS = 2
_NAME_CELLS = 20
_NUMBERS = ("pid", "rss", "present", "in_use", "error", "looked", "ranges", "of", "window_us", "age_ms")

#: Reasons for an empty table, by mtier/state.
_IDLE = {
    "no_slow_tier": "this machine has no slow tier: all memory is in the top tier (terrace doctor)",
    "idle": "no memory of a process is on a slow node, and then nothing is sampled",
}
_SOON = "no sample has ended yet: the first one ends a few seconds after promotion is switched on"


@dataclass(frozen=True)
class TierHeat:
    """Estimates for a process in one tier, in bytes, and their samples."""

    tier: str
    #: Memory that can be sampled.
    present_bytes: int
    #: The part of it that is accessed within a window.
    in_use_bytes: int
    #: The standard error of ``in_use_bytes``.
    error_bytes: int
    #: Pages that were scanned, the number of their ranges of 2 MiB, and of all ranges; recent
    #: samples count more.
    looked_pages: int
    ranges: int
    all_ranges: int
    #: Length of a window, and how long ago the samples were taken, both on average.
    window_us: int
    age_ms: int


@dataclass(frozen=True)
class ProcessHeat:
    """A process, or with ``pid`` 0 an address space whose process has ended."""

    pid: int
    name: str
    mapped_bytes: int
    tiers: tuple[TierHeat, ...]

    @property
    def in_use_bytes(self) -> int:
        """Sum over all sampled tiers."""
        return sum(one.in_use_bytes for one in self.tiers)


@dataclass(frozen=True)
class Heat:
    """Contents of `terrace status --heat`, the largest working set first."""

    kernel: str
    enabled: bool | None
    state: str | None
    #: Nodes of each tier.
    nodes: Mapping[str, list[int]]
    #: Processes known to the kernel thread, sampled or not.
    known: int
    processes: Sequence[ProcessHeat]
    #: The reason for an empty table; None if it has rows.
    problem: str | None
    #: Lines of the file in an unknown format.
    strange: int = 0
    #: Processes that --limit leaves out.
    left_out: int = 0
    unreadable: Mapping[str, str] = field(default_factory=dict)


def read(files: KernelFiles, pids: Set[int] = frozenset()) -> Heat:
    """Read the kernel's file; with ``pids`` these processes only.

    Raises MissingError if this kernel has no such file, and TerraceError if it may not be read.
    """
    text = files.get(HEAT)
    if text is None:
        raise _missing(files)
    first, *lines = text.splitlines() or [""]
    head = pairs(first)
    page_bytes = to_int(head.get("page_bytes")) or 0
    enabled = files.get_int(f"{MTIER}/enabled")
    state = files.get(f"{MTIER}/state")
    found, strange = _processes(lines, page_bytes)
    chosen = [one for one in found if not pids or one.pid in pids]
    problem = None if chosen else _problem(enabled, state, found, pids)
    return Heat(
        kernel=kernel_release(files),
        enabled=None if enabled is None else bool(enabled),
        state=state,
        nodes={tier: parse_nodes(head.get(tier)) for tier in TIERS},
        known=to_int(head.get("processes")) or 0,
        processes=sorted(chosen, key=lambda one: (-one.in_use_bytes, -one.mapped_bytes, one.pid)),
        problem=problem,
        strange=strange + (page_bytes <= 0),
        unreadable=dict(files.unreadable),
    )


def _missing(files: KernelFiles) -> TerraceError:
    """The error for a file that cannot be read."""
    release = kernel_release(files)
    if not files.exists(MTIER):
        return MissingError(
            f"this kernel ({release}) has no promotion engine (/{MTIER}), whose samples working sets are estimated "
            "from; `terrace features` says what it can do"
        )
    names = files.names(DEBUGFS)
    if why := next((why for path, why in files.unreadable.items() if path.startswith(f"/{DEBUGFS}")), ""):
        return TerraceError(f"/{HEAT}: {why}: working sets are for root: sudo terrace status --heat")
    if not names:
        return MissingError(f"/{DEBUGFS} is empty: mount -t debugfs debugfs /{DEBUGFS}")
    return MissingError(f"this kernel ({release}) has no /{HEAT}: it is an older one of Terrace; build it anew")


def _problem(enabled: int | None, state: str | None, found: Sequence[ProcessHeat], pids: Set[int]) -> str:
    """The reason for an empty table."""
    if not enabled:
        return "promotion is off, and no memory is sampled: sudo terrace set enabled 1"
    if found:
        whose = ", ".join(map(str, sorted(pids)))
        return f"no sample of PID {whose}: there is no such process, or it was not sampled yet, or its memory cannot be"
    return _IDLE.get(state or "", _SOON)


def _processes(lines: Sequence[str], page_bytes: int) -> tuple[list[ProcessHeat], int]:
    """Parse the processes, and count lines in an unknown format."""
    found: dict[tuple[int, str], ProcessHeat] = {}
    strange = 0
    for line in lines:
        given = pairs(line)
        numbers = {name: to_int(given.get(name)) for name in _NUMBERS}
        values = {name: value for name, value in numbers.items() if value is not None and value >= 0}
        if given.get("tier") not in TIERS or "comm" not in given or len(values) != len(_NUMBERS):
            strange += 1
            continue
        key = (values["pid"], given["comm"])
        one = found.get(key) or ProcessHeat(*key, values["rss"] * page_bytes, ())
        found[key] = replace(one, tiers=(*one.tiers, _tier(given["tier"], values, page_bytes)))
    return list(found.values()), strange


def _tier(tier: str, values: Mapping[str, int], page_bytes: int) -> TierHeat:
    return TierHeat(
        tier=tier,
        present_bytes=values["present"] * page_bytes,
        in_use_bytes=values["in_use"] * page_bytes,
        error_bytes=values["error"] * page_bytes,
        looked_pages=values["looked"],
        ranges=values["ranges"],
        all_ranges=values["of"],
        window_us=values["window_us"],
        age_ms=values["age_ms"],
    )


def cut(heat: Heat, most: int) -> Heat:
    """The first ``most`` processes."""
    return replace(heat, processes=heat.processes[:most], left_out=max(0, len(heat.processes) - most))


def as_text(heat: Heat) -> str:
    """Format the table, with the meaning of its columns below."""
    head = f"Linux {heat.kernel}   working sets by process and tier, estimated from samples"
    notes = [f"{heat.strange} lines have another form than this tool knows"] if heat.strange else []
    if heat.problem:
        return "\n".join([head, "", f"No working set is known: {heat.problem}", *notes])
    rows = [row for one in heat.processes for row in _rows(one)]
    table = format_table(
        rows, ("PROCESS", "PID", "MAPPED", "TIER", "SAMPLED", "IN USE", "+-", "SHARE", "WINDOW", "PAGES SEEN", "AGE")
    )
    if heat.left_out:
        notes.append(f"… and {heat.left_out} more processes (--limit N)")
    return "\n".join([head, "", table, *notes, "", _legend(heat)])


def _rows(one: ProcessHeat) -> list[list[object]]:
    """Format a line for each tier in which the process has memory; the first has its name."""
    shown = [tier for tier in one.tiers if tier.present_bytes] or list(one.tiers[:1])
    name = printable(one.name) or ("(has ended)" if not one.pid else "?")
    heads: list[list[object]] = [[clip(name, _NAME_CELLS), one.pid, format_size(one.mapped_bytes)], ["", "", ""]]
    return [[*heads[min(number, 1)], *_cells(tier)] for number, tier in enumerate(shown)]


def _cells(tier: TierHeat) -> list[object]:
    share = f"{100 * tier.in_use_bytes / tier.present_bytes:.0f} %" if tier.present_bytes else "-"
    return [
        tier.tier,
        format_size(tier.present_bytes),
        format_size(tier.in_use_bytes),
        format_size(ERRORS * tier.error_bytes),
        share,
        window_text(tier.window_us),
        tier.looked_pages,
        format_duration(tier.age_ms / 1000),
    ]


def window_text(us: int) -> str:
    """The length of a window for a cell of the table."""
    return f"{us / 1e6:.3g} s" if us >= 1_000_000 else f"{us / 1000:.3g} ms"


def _legend(heat: Heat) -> str:
    where = ", ".join(f"{tier}: node {format_nodes(nodes)}" for tier, nodes in heat.nodes.items() if nodes)
    lines = [
        f"{heat.known} processes are registered for promotion. {where}.",
        f"IN USE +-: estimate of the memory that is accessed within WINDOW, and {ERRORS} standard errors.",
        "SAMPLED: estimate of the memory that can be sampled; MAPPED - SAMPLED is never sampled.",
        "PAGES SEEN: sampled pages. AGE: time since they were sampled, on average.",
    ]
    if not any(tier.tier == TIERS[0] for one in heat.processes for tier in one.tiers):
        lines.append("The fast tier is not sampled while it has room for all memory of the slow one.")
    return "\n".join(lines)


def as_json(heat: Heat) -> dict[str, object]:
    """The document `terrace status --heat --json` prints (docs/reference/json.md)."""
    return {
        "version": JSON_VERSION,
        "kind": "heat",
        "kernel": heat.kernel,
        "enabled": heat.enabled,
        "state": heat.state,
        "nodes": dict(heat.nodes),
        "known_processes": heat.known,
        "problem": heat.problem,
        "processes": [
            {
                "pid": one.pid,
                "name": one.name,
                "mapped_bytes": one.mapped_bytes,
                "in_use_bytes": one.in_use_bytes,
                "tiers": [vars(tier) for tier in one.tiers],
            }
            for one in heat.processes
        ],
        "left_out_processes": heat.left_out,
        "strange_lines": heat.strange,
        "unreadable": [{"path": path, "error": why} for path, why in sorted(heat.unreadable.items())],
    }

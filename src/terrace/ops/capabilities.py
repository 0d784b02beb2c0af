# SPDX-License-Identifier: GPL-2.0
"""State of every capability of the kernel: presence, switch, settings, number of pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from terrace.ops import hierarchy, knobs
from terrace.ops.counters import DEMOTED
from terrace.ops.knob_table import KNOBS, WEIGHTS, Knob
from terrace.sysfs import MTIER, KernelFiles

#: Number of control groups that are named; the others are counted.
_NAMED = 3
_ON = ("1", "true")
_FAULTED = tuple(f"numa_follow_faulted_{kind}" for kind in ("anon", "shmem", "file"))
_FOLLOWED = ("numa_follow_moved", "numa_follow_pulled")
_EFFECTIVE = "cpuset.{}.effective"
_BALANCING = "numa_balancing"


@dataclass(frozen=True)
class Capability:
    """One capability. ``on`` is None if this kernel lacks it or it may not be read."""

    #: Prefix of its knobs.
    name: str
    present: bool
    on: bool | None
    #: Knobs of `terrace set` with its settings, and their values; those of a control group are in
    #: `cgroups`.
    settings: dict[str, str] = field(default_factory=dict)
    #: Control groups below /sys/fs/cgroup in which it is on, with the effective value
    #: (`cpuset.….effective`). For NUMA balancing the groups that have opted out, with 0, without
    #: their descendants.
    cgroups: dict[str, str] = field(default_factory=dict)
    #: Pages since boot: migrated, or deferred; None without a counter.
    pages: int | None = None
    #: The reason why it cannot be switched on although the kernel has it; None if it can.
    problem: str | None = None


def read_capabilities(files: KernelFiles, counters: Mapping[str, int]) -> list[Capability]:
    """Read all of them; ``counters`` are those of /proc/vmstat."""

    def pages(*names: str) -> int | None:
        known = [counters[name] for name in names if name in counters]
        return sum(known) if known else None

    follow = "numa_follow_tasks" in counters
    return [
        _by_knob(files, "promotion", "enabled", pages("pgpromote_success")),
        _by_knob(files, "demotion", "demotion_enabled", pages(*DEMOTED)),
        _by_knob(files, "tlb_defer", "tlb_defer.mode", pages("tlb_defer_pages"), lambda mode: mode != "off"),
        _weights(files),
        _numa_balancing(files, pages("numa_pages_migrated")),
        _in_cgroups(files, "auto_migration", follow, pages(*_FOLLOWED)),
        _in_cgroups(files, "migrate_on_fault", follow, pages(*_FAULTED)),
        _by_knob(files, "file_policy", "file_policy", None),
    ]


def _by_knob(
    files: KernelFiles, name: str, switch: str, pages: int | None, is_on: Callable[[str], bool] = _ON.__contains__
) -> Capability:
    """Get a capability with one switch, and the knobs of its group that differ from their defaults."""
    own = knobs.find(switch)
    value = knobs.current(files, own)
    if not files.exists(own.path):
        return Capability(name, False, None)
    settings = {} if value is None else {own.name: value}
    settings |= {knob.name: now for knob in _beside(own) if (now := _changed(files, knob))}
    return Capability(name, True, None if value is None else is_on(value), settings, pages=pages)


def _numa_balancing(files: KernelFiles, pages: int | None) -> Capability:
    """Get NUMA balancing: its knobs, and the control groups that have opted out."""
    own = _by_knob(files, _BALANCING, _BALANCING, pages, lambda mode: mode != "0")
    folder = hierarchy.find(files).folder
    found = _opted_out(files, folder) if folder else []
    return replace(own, cgroups={path.removeprefix(f"{folder}/"): "0" for path in found})


def _opted_out(files: KernelFiles, folder: str) -> list[str]:
    """Get the topmost opted-out group of each branch; descendants of a group without a cpuset controller have none."""
    found: list[str] = []
    for name in hierarchy.folders(files, folder):
        path = f"{folder}/{name}"
        value = files.get(f"{path}/{_EFFECTIVE.format(_BALANCING)}")
        if value == "0":
            found.append(path)
        elif value:
            found += _opted_out(files, path)
    return found


def _beside(switch: Knob) -> list[Knob]:
    """Get the other knobs of a switch."""
    group = {"enabled": MTIER, "tlb_defer.mode": "sys/kernel/mm/tlb_defer/"}.get(switch.name, f"{switch.path}_")
    return [knob for knob in KNOBS if knob.path.startswith(group) and knob is not switch]


def _changed(files: KernelFiles, knob: Knob) -> str | None:
    value = knobs.current(files, knob)
    return None if value is None or knobs.same(value, knob.default) else value


def _weights(files: KernelFiles) -> Capability:
    found = {knob.name: knobs.current(files, knob) for knob in knobs.present(files) if knob.path.startswith(WEIGHTS)}
    known = {name: value for name, value in found.items() if value is not None}
    auto = known.get("weights.auto") in _ON
    on = auto or any(value != "1" for name, value in known.items() if name != "weights.auto")
    here = files.exists(WEIGHTS)
    return Capability("weights", here, on if known else None, known if here else {})


def _in_cgroups(files: KernelFiles, name: str, present: bool, pages: int | None) -> Capability:
    """Get a capability of control groups, which new groups inherit."""
    if not present:
        return Capability(name, False, None)
    found: dict[str, str] = {}
    mounted = hierarchy.find(files)
    problem = mounted.problem if mounted.folder is None or "cpuset" not in mounted.controllers else None
    if mounted.folder:
        _walk(files, mounted.folder, _EFFECTIVE.format(name), found)
        found = {path.removeprefix(f"{mounted.folder}/"): value for path, value in found.items()}
    settings = {}
    if name == "migrate_on_fault" and (rate := _changed(files, knobs.find("migrate_on_fault.rate_mbps"))):
        settings = {"migrate_on_fault.rate_mbps": rate}
    return Capability(name, True, bool(found), settings, found, pages, problem)


def _walk(files: KernelFiles, folder: str, file: str, found: dict[str, str]) -> None:
    """Get groups in which it is on. If it is off, or without a cpuset controller, it is off in all
    descendants, which are not read.
    """
    for name in files.names(folder):
        path = f"{folder}/{name}"
        value = files.get(f"{path}/{file}")
        if value and value != "0":
            found[path] = value
            _walk(files, path, file, found)


def settings_text(capability: Capability) -> str:
    """Format the settings in one line; empty if it is off, unless it cannot be switched on."""
    if capability.problem:
        return f"needs cgroup v2: {capability.problem}"
    if not capability.on:
        return ""
    parts = [f"{name} {value}" for name, value in capability.settings.items() if not _is_switch(name, value)]
    named = [_group_text(name, level) for name, level in capability.cgroups.items()]
    if len(named) > _NAMED:
        named = [*named[:_NAMED], f"and {len(named) - _NAMED} more"]
    return ", ".join([*parts, *named])


def _group_text(name: str, level: str) -> str:
    return {"0": f"not in {name}", "1": name}.get(level, f"{name} ({level})")


def _is_switch(name: str, value: str) -> bool:
    return value == "false" or name == "demotion_enabled" or knobs.find(name).high == 1

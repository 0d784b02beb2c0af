# SPDX-License-Identifier: GPL-2.0
"""The placement options of `terrace exec` as a policy of this task or of files in memory."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terrace.errors import MissingError, TerraceError, UsageError
from terrace.output import say, warn
from terrace.policy.binding import CpuCalls, allowed_nodes, memory_nodes, whose_nodes
from terrace.policy.calls import (
    BIND,
    INTERLEAVE,
    LOCAL,
    MODES,
    PREFERRED,
    PREFERRED_MANY,
    WEIGHTED,
    Policy,
    PolicyCalls,
)
from terrace.policy.measure import AREA_BYTES, LAST_LEVEL_TIMES, Area, choose_area, measured_bandwidths, without_room
from terrace.policy.weights import auto_weights, format_weights, global_weights, parse_weights, weights_of
from terrace.sysfs import KernelFiles
from terrace.units import format_nodes, format_size, parse_nodes, parse_size

JSON_VERSION = 1
_RANGE = re.compile(r"(.+?)(?::([^:+]+)\+([^:+]+))?")


@dataclass(frozen=True)
class Placement:
    """The options, as text; at most one of the first six."""

    weighted: str | None = None
    interleave: str | None = None
    membind: str | None = None
    preferred: str | None = None
    preferred_many: str | None = None
    local: bool = False
    #: Also nodes that the cpuset of this task excludes.
    every: bool = False
    #: The source of weights: firmware, measured, auto (firmware, or measured where firmware lacks a node), or None.
    weights: str | None = None
    #: The CPUs that the program will be bound to; None: those that this task may use.
    cpus: tuple[int, ...] | None = None
    ranges: tuple[str, ...] = ()
    fallback: bool = False


def policy_of(wish: Placement, files: KernelFiles, calls: PolicyCalls | None = None) -> Policy | None:
    """The policy of a wish, None without a placement; `calls` for a measurement.

    Raises UsageError, MissingError, TerraceError.
    """
    known, whose = allowed_nodes(files, wish.every), whose_nodes(wish.every)
    if wish.weights:
        if wish.weighted or wish.membind or wish.preferred or wish.preferred_many or wish.local:
            raise UsageError(f"--weights {wish.weights} goes alone or with --interleave NODES")
        nodes = parse_nodes(wish.interleave or "all", known, whose)
        weights = _weights_from(wish, wish.weights, files, nodes, calls or PolicyCalls())
        _print_left_out(set(nodes) - set(weights))
        return Policy(WEIGHTED, tuple(sorted(weights)), weights)
    if wish.weighted is not None:
        weights = parse_weights(wish.weighted, known, whose)
        return Policy(WEIGHTED, tuple(sorted(weights)), {node: w for node, w in weights.items() if w})
    if wish.local:
        return Policy(LOCAL)
    for text, mode in (
        (wish.interleave, INTERLEAVE),
        (wish.membind, BIND),
        (wish.preferred, PREFERRED),
        (wish.preferred_many, PREFERRED_MANY),
    ):
        if text is not None:
            nodes = parse_nodes(text, known, whose)
            if mode == PREFERRED and len(nodes) > 1:
                raise UsageError(f"--preferred {text}: it takes one node; --preferred-many (-P) takes several")
            return Policy(mode, tuple(nodes))
    return None


def _weights_from(
    wish: Placement, where: str, files: KernelFiles, nodes: list[int], calls: PolicyCalls
) -> dict[int, int]:
    def measure(wanted: list[int]) -> dict[int, int]:
        area = choose_area(files, wish.cpus)
        _check_room(where, files, wanted, area)
        try:
            found = measured_bandwidths(wanted, calls, area)
        except OSError as error:
            raise TerraceError(f"--weights {where}: cannot measure node bandwidths: {error.strerror}") from error
        told = ", ".join(f"node {node} {mbps / 1000:.1f} GB/s" for node, mbps in found.items())
        say(f"measured by copying: {told}")
        return found

    if where == "measured":
        return weights_of(measure(nodes))
    return auto_weights(files, nodes, measure if where == "auto" else None, wish.cpus)


def _print_left_out(nodes: set[int]) -> None:
    if nodes:
        say(f"node {format_nodes(sorted(nodes))} left out: too slow to add bandwidth to the others")


def _check_room(where: str, files: KernelFiles, nodes: list[int], area: Area) -> None:
    """Refuse a measurement that would push out memory of other programs, or end by the OOM killer."""
    asked = where == "measured"
    full = without_room(files, nodes, asked, area.total)
    if not full:
        return
    rooms = ", ".join(f"node {node} has {format_size(room)}" for node, room in full.items())
    caches = f"{area.threads} CPUs, last-level caches of {format_size(area.cache_bytes)} {LAST_LEVEL_TIMES} times"
    why = f" ({caches})" if area.cache_bytes and area.total > AREA_BYTES else ""
    needed = f"a measurement takes {format_size(area.total)} of each node{why}"
    if asked:
        raise TerraceError(
            f"--weights measured: {needed}; free or in the page cache, {rooms}. Run it on fewer CPUs (taskset), or "
            "give weights (--weighted-interleave 0=9,1=1)"
        )
    raise MissingError(
        f"--weights auto: firmware does not describe the bandwidth of all nodes, and {needed}; free, {rooms}. Give "
        "weights (--weighted-interleave 0=9,1=1), or drop page cache for the measurement: --weights measured"
    )


def apply(wish: Placement, files: KernelFiles, calls: PolicyCalls) -> None:
    """Put the wish in force, for the files of --range-file or for this task. Raises TerraceError."""
    policy = policy_of(wish, files, calls)
    if policy is None:
        _check_ranges(wish)
        return
    old = False
    if policy.weights and not calls.has_weights():
        _refuse_or_tell(wish, policy, files)
        old = True
    try:
        if wish.ranges:
            for text in wish.ranges:
                _apply_to_file(text, policy, calls, old)
        else:
            calls.set_task(policy, fallback=old)
    except OSError as error:
        raise _explained(error, policy) from error


def _check_ranges(wish: Placement) -> None:
    """Refuse files without a policy to give to them."""
    if wish.ranges:
        raise UsageError("--range-file needs a placement: --weighted-interleave 0=9,1=1, for example")


def calls_text(wish: Placement, policy: Policy | None) -> list[str]:
    """The calls that `apply` makes for a policy, for people. Raises UsageError."""
    if policy is None:
        _check_ranges(wish)
        return []
    if policy.weights:
        nodes = format_weights({node: policy.weights.get(node, 0) for node in policy.nodes})
    else:
        nodes = format_nodes(policy.nodes)
    words = [f"MPOL_{MODES[policy.mode].upper().replace('-', '_')}", *([nodes] if policy.nodes else [])]
    new = "2" if policy.weights else ""
    if not wish.ranges:
        return [f"set_mempolicy{new}({', '.join(words)})"]
    for text in wish.ranges:
        parse_range(text)
    return [f"mbind{new}({', '.join([text, *words])})" for text in wish.ranges]


def _refuse_or_tell(wish: Placement, policy: Policy, files: KernelFiles) -> None:
    """On a kernel without weights per task: raise MissingError, or with --fallback print which weights hold."""
    common = global_weights(files, policy.nodes)
    release = os.uname().release
    if common is None:
        raise MissingError(f"this kernel ({release}) has no weighted interleave (Linux 6.9 has)")
    if all(common[node] == policy.weights.get(node, common[node]) for node in policy.nodes):
        return
    if not wish.fallback:
        raise MissingError(
            f"this kernel ({release}) has no weights per task; --fallback uses those that hold for everybody, "
            f"now {format_weights(common)} (/sys/kernel/mm/mempolicy/weighted_interleave)"
        )
    warn(f"fallback: weights {format_weights(common)}, which hold for everybody, not {format_weights(policy.weights)}")


def _explained(error: OSError, policy: Policy) -> TerraceError:
    what = f"{MODES[policy.mode]} on node {format_nodes(policy.nodes)}" if policy.nodes else MODES[policy.mode]
    if error.errno == errno.ENOSYS:
        return MissingError(f"this kernel ({os.uname().release}) has no memory policies (CONFIG_NUMA)")
    if error.errno == errno.EINVAL:
        return TerraceError(f"the kernel refuses {what}: none of these nodes may be used here (cpuset)?")
    return TerraceError(f"the kernel refuses {what}: {error.strerror}")


def parse_range(text: str) -> tuple[Path, int, int | None]:
    """File, offset and size (None: to its end) of `FILE` or `FILE:OFFSET+SIZE`. Raises UsageError."""
    found = _RANGE.fullmatch(text)
    assert found is not None
    if found[2] is None:
        return Path(text), 0, None
    offset, size = parse_size(found[2]), parse_size(found[3])
    if offset % mmap.PAGESIZE or not size:
        raise UsageError(f"--range-file {text}: the offset is whole pages of {mmap.PAGESIZE} bytes, the size not 0")
    return Path(found[1]), offset, size


def _apply_to_file(text: str, policy: Policy, calls: PolicyCalls, fallback: bool) -> None:
    path, offset, size = parse_range(text)
    try:
        with path.open("r+b") as file:
            length = os.fstat(file.fileno()).st_size
            size = length - offset if size is None else size
            if size <= 0 or offset + size > length:
                raise UsageError(f"--range-file {text}: the file has {length} bytes")
            area = mmap.mmap(file.fileno(), size, mmap.MAP_SHARED, offset=offset)
    except OSError as error:
        raise TerraceError(f"--range-file {text}: {error.strerror}") from error
    view = ctypes.c_char.from_buffer(area)
    try:
        calls.set_range(ctypes.addressof(view), size, policy, fallback=fallback)
    finally:
        del view
        area.close()


def describe(files: KernelFiles, calls: PolicyCalls, cpu_calls: CpuCalls) -> dict[str, Any]:
    """The policy and the CPUs of this task as documented in docs/reference/json.md. Raises MissingError."""
    try:
        policy = calls.get_task()
    except OSError as error:
        raise MissingError(f"this kernel ({os.uname().release}) has no memory policies: {error.strerror}") from error
    common = global_weights(files, memory_nodes(files)) or {}
    weighted = policy.mode == WEIGHTED
    return {
        "mode": MODES[policy.mode] if policy.mode < len(MODES) else str(policy.mode),
        "nodes": list(policy.nodes),
        "weights": [
            {"node": node, "weight": policy.weights.get(node) or common.get(node, 1), "own": node in policy.weights}
            for node in policy.nodes
        ]
        if weighted
        else [],
        "global_weights": [{"node": node, "weight": weight} for node, weight in common.items()],
        "weights_per_task": calls.has_weights(),
        "memory_nodes": memory_nodes(files),
        "allowed_nodes": allowed_nodes(files),
        "cpus": cpu_calls.allowed(),
    }


def shown(about: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    nodes = f" on node {format_nodes(about['nodes'])}" if about["nodes"] else ""
    lines = [f"policy: {about['mode']}{nodes}"]
    for entry in about["weights"]:
        whose = "its own" if entry["own"] else "holds for everybody"
        lines.append(f"  node {entry['node']}: weight {entry['weight']} ({whose})")
    lines.append(f"CPUs: {format_nodes(about['cpus'])}")
    lines.append(f"nodes with memory: {format_nodes(about['memory_nodes'])}")
    if about["allowed_nodes"] != about["memory_nodes"]:
        lines.append(f"nodes that the cpuset allows: {format_nodes(about['allowed_nodes'])}")
    if about["global_weights"]:
        text = format_weights({entry["node"]: entry["weight"] for entry in about["global_weights"]})
        lines.append(f"weights that hold for everybody: {text}")
    lines.append(f"weights per task and range: {'yes' if about['weights_per_task'] else 'not in this kernel'}")
    return lines

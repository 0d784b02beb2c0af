# SPDX-License-Identifier: GPL-2.0
"""Bandwidth of each node from firmware, as a program on some of the CPUs has it.

sysfs has one bandwidth for a node, that from its nearest CPUs. The other pairs of CPU and node are only in the HMAT
table, which root may read. HMAT numbers proximity domains: SRAT has the memory ranges of each domain, sysfs those of
each node.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from terrace.sysfs import KernelFiles, parse_nodes

_NODES = "sys/devices/system/node"
_TABLES = "sys/firmware/acpi/tables"
HMAT = f"{_TABLES}/HMAT"
_BLOCK_SIZE = "sys/devices/system/memory/block_size_bytes"

#: Sizes in bytes of what precedes the structures of both tables.
_HMAT_HEAD, _SRAT_HEAD = 40, 48
_LOCALITY, _MEMORY = 1, 1
#: type, length, flags, data type, initiators, targets, unit of an HMAT locality structure
_LOCALITY_HEAD = struct.Struct("<HxxIBBxxIIxxxxQ")
#: type, length, domain, base, size, flags of an SRAT memory affinity structure
_MEMORY_HEAD = struct.Struct("<BBIxxQQxxxxI")
#: Data types of a locality structure: bandwidth of accesses, of reads, of writes
_BANDWIDTHS = {3: ("read", "write"), 4: ("read",), 5: ("write",)}
_UNREACHABLE = 0xFFFF

Pairs = dict[tuple[int, int], int]


@dataclass
class Bandwidths:
    """MB/s by node; `unknown` has nodes without one, and the nodes of the CPUs from which it is not known."""

    mbps: dict[int, int] = field(default_factory=dict)
    unknown: dict[int, list[int]] = field(default_factory=dict)


def nearest_bandwidth(files: KernelFiles, node: int) -> int | None:
    """MB/s of a node from its nearest CPUs, the smaller one of read and write as in the kernel; None if unknown."""
    base = f"{_NODES}/node{node}/access1/initiators"
    values = [files.get_int(f"{base}/{kind}_bandwidth") or 0 for kind in ("read", "write")]
    return min(values) or None


def seen_bandwidths(files: KernelFiles, nodes: Iterable[int], cpus: Collection[int] | None = None) -> Bandwidths:
    """MB/s of each of `nodes` for a program whose threads run on `cpus` alike (default: those this task may use).

    A node of CPUs with a part of the threads makes that part of the accesses. So a node of memory gives what it has,
    and no more than the slowest way to it allows at that part.
    """
    parts = _parts(files, os.sched_getaffinity(0) if cpus is None else cpus)
    pairs: Pairs | None = None
    found = Bandwidths()
    for node in nodes:
        nearest = nearest_bandwidth(files, node)
        if nearest is None:
            found.unknown[node] = []
            continue
        near = _nearest_cpu_nodes(files, node)
        far = [cpu_node for cpu_node in parts if cpu_node not in near]
        limits = [nearest]
        if far:
            pairs = _hmat_pairs(files) if pairs is None else pairs
            trusted = _best(pairs, node) == nearest
            known = {cpu_node: pairs[cpu_node, node] for cpu_node in far if trusted and (cpu_node, node) in pairs}
            limits += [int(mbps / parts[cpu_node]) for cpu_node, mbps in known.items()]
            # Threads on the nearest CPUs reach the whole bandwidth: the rest of the pairs may be unknown.
            if len(known) < len(far) and len(far) == len(parts):
                found.unknown[node] = [cpu_node for cpu_node in far if cpu_node not in known]
                continue
        found.mbps[node] = max(min(limits), 1)
    return found


def _parts(files: KernelFiles, cpus: Collection[int]) -> dict[int, float]:
    """Nodes of `cpus`, and which part of them each has; empty where the kernel does not number them."""
    counts: dict[int, int] = {}
    for node in _online(files):
        count = len(set(parse_nodes(files.get(f"{_NODES}/node{node}/cpulist"))) & set(cpus))
        if count:
            counts[node] = count
    return {node: count / sum(counts.values()) for node, count in counts.items()}


def _online(files: KernelFiles) -> list[int]:
    return parse_nodes(files.get(f"{_NODES}/online"))


def _nearest_cpu_nodes(files: KernelFiles, node: int) -> set[int]:
    """Nodes of the CPUs whose bandwidth sysfs has for `node`; by distance where it has no links to them."""
    names = files.names(f"{_NODES}/node{node}/access1/initiators")
    linked = {int(name[4:]) for name in names if name.startswith("node") and name[4:].isdecimal()}
    if linked:
        return linked
    row = (files.get(f"{_NODES}/node{node}/distance") or "").split()
    distances = {other: int(text) for other, text in zip(_online(files), row, strict=False) if text.isdecimal()}
    with_cpus = {other for other in distances if _has_cpus(files, other)}
    least = min((distances[other] for other in with_cpus), default=0)
    return {other for other in with_cpus if distances[other] == least}


def _best(pairs: Mapping[tuple[int, int], int], node: int) -> int:
    """The highest bandwidth in HMAT for a node. Where sysfs has another one, the tables were read in a wrong way."""
    return max((mbps for (_, target), mbps in pairs.items() if target == node), default=0)


# ---- HMAT and SRAT ----


def _hmat_pairs(files: KernelFiles) -> Pairs:
    """MB/s by node of CPUs and node of memory; empty where the tables are missing, closed to us or broken."""
    try:
        nodes = _nodes_of_domains(files)
        by_kind = _by_kind(files.get_bytes(HMAT) or b"")
    except (struct.error, ValueError):
        return {}
    pairs: Pairs = {}
    for source, target in by_kind["read"].keys() & by_kind["write"].keys():
        mbps = min(by_kind["read"][source, target], by_kind["write"][source, target])
        sources = [node for node in nodes.get(source, ()) if _has_cpus(files, node)]
        pairs |= dict.fromkeys(product(sources, nodes.get(target, ())), mbps)
    return pairs


def _has_cpus(files: KernelFiles, node: int) -> bool:
    return bool(parse_nodes(files.get(f"{_NODES}/node{node}/cpulist")))


def _by_kind(table: bytes) -> dict[str, Pairs]:
    """MB/s of reads and of writes by proximity domains of initiator and target."""
    found: dict[str, Pairs] = {"read": {}, "write": {}}
    for offset, size in _structures(table, _HMAT_HEAD, "<HxxI"):
        if struct.unpack_from("<H", table, offset)[0] != _LOCALITY:
            continue
        _, _, flags, data_type, sources, targets, unit = _LOCALITY_HEAD.unpack_from(table, offset)
        # The low bits name a level of the memory hierarchy; 0 is memory, others are caches in front of it.
        if flags & 0xF or data_type not in _BANDWIDTHS:
            continue
        if size < _LOCALITY_HEAD.size + 4 * (sources + targets) + 2 * sources * targets:
            raise ValueError("a locality structure ends too early")
        lists = struct.unpack_from(f"<{sources + targets}I", table, offset + _LOCALITY_HEAD.size)
        entries = offset + _LOCALITY_HEAD.size + 4 * (sources + targets)
        values = struct.unpack_from(f"<{sources * targets}H", table, entries)
        for index, value in enumerate(values):
            if value and value != _UNREACHABLE:
                pair = lists[index // targets], lists[sources + index % targets]
                for kind in _BANDWIDTHS[data_type]:
                    found[kind][pair] = value * unit
    return found


def _nodes_of_domains(files: KernelFiles) -> dict[int, set[int]]:
    """Nodes that have memory of each proximity domain."""
    table = files.get_bytes(f"{_TABLES}/SRAT") or b""
    block = int(files.get(_BLOCK_SIZE) or "0", 16)
    starts = sorted((start, node) for node in _online(files) for start in _block_starts(files, node, block))
    nodes: dict[int, set[int]] = {}
    for offset, _ in _structures(table, _SRAT_HEAD, "<BB"):
        if table[offset] != _MEMORY:
            continue
        _, _, domain, base, size, flags = _MEMORY_HEAD.unpack_from(table, offset)
        if flags & 1:
            inside = {node for start, node in starts if start < base + size and base < start + block}
            nodes.setdefault(domain, set()).update(inside)
    return nodes


def _block_starts(files: KernelFiles, node: int, block: int) -> Iterator[int]:
    for name in files.names(f"{_NODES}/node{node}"):
        if name.startswith("memory") and name[6:].isdecimal():
            yield int(name[6:]) * block


def _structures(table: bytes, head: int, form: str) -> Iterator[tuple[int, int]]:
    """Offset and size of each structure behind the head of a table. Raises ValueError, struct.error when cut."""
    offset = head
    while offset < len(table):
        size = struct.unpack_from(form, table, offset)[1]
        if size < struct.calcsize(form) or offset + size > len(table):
            raise ValueError("a structure is larger than its table")
        yield offset, size
        offset += size

# SPDX-License-Identifier: GPL-2.0
"""The ACPI table HMAT of a machine with nodes without memory.

QEMU's own table names every node as a memory domain, and Linux ignores the whole table if one of them has no memory.
"""

import hashlib
import struct
from pathlib import Path

from terrace.files import replace
from terrace.lab.topology import MIB, Topology
from terrace.paths import build_dir

_PS_PER_NS = 1000
_MOST_ENTRY = 0xFFFE
_ACCESS_LATENCY = 0
_ACCESS_BANDWIDTH = 3


def is_needed(topology: Topology) -> bool:
    """Whether QEMU cannot create the table."""
    return any(not node.memory for node in topology.nodes)


def path_of(topology: Topology) -> Path | None:
    """Get the path of the file for QEMU, named by its contents; None if QEMU creates the table. Writes nothing."""
    if not is_needed(topology):
        return None
    return build_dir() / "guest" / f"hmat-{hashlib.sha256(table(topology)).hexdigest()[:16]}"


def write(topology: Topology) -> Path | None:
    """Write the file of `path_of`, and return its path."""
    path = path_of(topology)
    if path and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, table(topology))
    return path


def table(topology: Topology) -> bytes:
    """Create the table after the header that is common to all ACPI tables, for revision 2 of HMAT."""
    targets = [number for number, node in enumerate(topology.nodes) if node.memory]
    domains = b"".join(_domain(topology.nearest_cpu_node(target), target) for target in targets)
    ways = [topology.access(source, target) for source in topology.cpu_nodes for target in targets]
    latencies = [way.latency_ns if way else 0 for way in ways]
    rates = [way.bandwidth // MIB if way else 0 for way in ways]
    unit = max(1, -(-max(rates) // _MOST_ENTRY))
    return (
        bytes(4)
        + domains
        + _locality(topology.cpu_nodes, targets, _ACCESS_LATENCY, _PS_PER_NS, latencies)
        + _locality(topology.cpu_nodes, targets, _ACCESS_BANDWIDTH, unit, [max(1, rate // unit) for rate in rates])
    )


def _domain(initiator: int, memory: int) -> bytes:
    """Create a memory proximity domain, with the nearest CPUs."""
    return struct.pack("<HHIHHIIIQQ", 0, 0, 40, 1, 0, initiator, memory, 0, 0, 0)


def _locality(sources: list[int], targets: list[int], kind: int, unit: int, entries: list[int]) -> bytes:
    """Create the latency (``unit`` in ps) or bandwidth (in MiB/s) from each source to each target."""
    rest = struct.pack(f"<{len(sources)}I{len(targets)}I{len(entries)}H", *sources, *targets, *entries)
    head = struct.pack("<HHIBBBBIIIQ", 1, 0, 32 + len(rest), 0, kind, 0, 0, len(sources), len(targets), 0, unit)
    return head + rest

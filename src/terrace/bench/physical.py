# SPDX-License-Identifier: GPL-2.0
"""Physical addresses of a machine's memory in QEMU's q35: node by node from 0 up, with a hole for
devices below 4 GiB.
"""

from terrace.lab.topology import Topology

_GIB = 1 << 30
_HOLE_END = 4 * _GIB
# With at least this much memory the part below the hole ends at 2 GiB; with less, all memory is
# below it.
_SPLIT_FROM = 0xB0000000
_SPLIT_AT = 2 * _GIB

Range = tuple[int, int]


def node_ranges(machine: Topology) -> list[list[Range]]:
    """Get the physical addresses of each node's memory, as [start, end) pairs."""
    below = _SPLIT_AT if machine.memory >= _SPLIT_FROM else machine.memory
    found: list[list[Range]] = []
    start = 0
    for node in machine.nodes:
        end = start + node.memory
        parts = []
        if start < below:
            parts.append((start, min(end, below)))
        if end > below:
            parts.append((_HOLE_END + max(start, below) - below, _HOLE_END + end - below))
        found.append(parts)
        start = end
    return found

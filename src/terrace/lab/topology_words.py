# SPDX-License-Identifier: GPL-2.0
"""A machine from words of the command line: one for each node, with common values for missing parts."""

from collections.abc import Sequence
from dataclasses import dataclass

from terrace.errors import UsageError
from terrace.lab.topology import MIB, Access, Node, Topology, check_machine, check_memory
from terrace.units import parse_size, parse_time_ns

_KEYS = ("cpus", "distance", "latency", "bandwidth")
#: As in topologies/two-socket-cxl.toml: the memory of a CPU's own node, of a node with other CPUs,
#: of a node without CPUs; latency in ns, bandwidth in MiB/s.
_OWN = (80, 64 << 10)
_OTHER_NS = 50
_OTHER_DISTANCE = 21
_ALONE = (250, 20 << 10)
_ALONE_DISTANCE = 24


@dataclass(frozen=True)
class _Word:
    """One node as given; None for missing parts."""

    node: Node
    distance: int | None
    latency_ns: int | None
    bandwidth: int | None


def from_words(words: Sequence[str]) -> Topology:
    """Create the machine of words such as `2G,cpus=2`; nodes are numbered in the order of the
    words.

    Latency and bandwidth are those from the node's own CPUs, or from every CPU if it has none. From
    CPUs of other nodes, a node with CPUs has 50 ns more latency and half the bandwidth. The
    distance is that from CPUs of other nodes. Raises UsageError with the word if it is invalid.
    """
    nodes = [_read(word) for word in words]
    check_machine("--numa", tuple(one.node for one in nodes))
    accesses = [
        _way(source, target, nodes[target])
        for source, from_node in enumerate(nodes)
        for target, to_node in enumerate(nodes)
        if from_node.node.cpus and to_node.node.memory
    ]
    return Topology(
        name="--numa",
        description=f"as asked for: {'; '.join(words)}",
        nodes=tuple(one.node for one in nodes),
        accesses=tuple(accesses),
    )


def _way(source: int, target: int, word: _Word) -> Access:
    usual = _OWN if word.node.cpus else _ALONE
    latency_ns = word.latency_ns if word.latency_ns is not None else usual[0]
    bandwidth = word.bandwidth if word.bandwidth is not None else usual[1] * MIB
    if source == target:
        return Access(source, target, 10, latency_ns, bandwidth)
    if word.node.cpus:
        half = max(MIB, bandwidth // 2 // MIB * MIB)
        return Access(source, target, word.distance or _OTHER_DISTANCE, latency_ns + _OTHER_NS, half)
    return Access(source, target, word.distance or _ALONE_DISTANCE, latency_ns, bandwidth)


def _read(word: str) -> _Word:
    size, *rest = word.split(",")
    found: dict[str, str] = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals or key not in _KEYS or key in found:
            raise UsageError(f"--numa {word}: '{part}': after the size come {', '.join(f'{key}=…' for key in _KEYS)}")
        found[key] = value
    try:
        node = Node(memory=parse_size(size), cpus=_number(found, "cpus", 0, 64) or 0)
        check_memory(node)
        read = _Word(
            node,
            _number(found, "distance", 11, 254),
            parse_time_ns(found["latency"]) if "latency" in found else None,
            parse_size(found["bandwidth"]) if "bandwidth" in found else None,
        )
    except UsageError as error:
        raise UsageError(f"--numa {word}: {error}") from error
    if not node.memory and set(found) - {"cpus", "distance"}:
        raise UsageError(f"--numa {word}: a node without memory has neither latency nor bandwidth")
    if read.latency_ns is not None and not 1 <= read.latency_ns <= 65000 - _OTHER_NS:
        raise UsageError(f"--numa {word}: latency is from 1ns to {65000 - _OTHER_NS}ns")
    if read.bandwidth is not None and (read.bandwidth < MIB or read.bandwidth % MIB):
        raise UsageError(f"--numa {word}: bandwidth is per second, in whole MiB (example: 20G)")
    return read


def _number(found: dict[str, str], key: str, low: int, high: int) -> int | None:
    text = found.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and low <= int(text) <= high):
        raise UsageError(f"{key} is a whole number from {low} to {high}, not '{text}'")
    return int(text)

# SPDX-License-Identifier: GPL-2.0
"""Memory nodes and tiers of the running kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from terrace.sysfs import MTIER, KernelFiles, parse_meminfo, parse_nodes, to_int

NODES = "sys/devices/system/node"
TIERS = "sys/devices/virtual/memory_tiering"


@dataclass(frozen=True)
class Tier:
    """One memory tier. ``rank`` 0 is the fastest; ``top``: pages are never promoted out of it."""

    name: str
    rank: int
    top: bool
    nodes: list[int]


@dataclass
class Node:
    """One node with memory. Sizes in bytes; None if the kernel does not report them."""

    node: int
    cpus: str
    tier: str | None = None
    rank: int | None = None
    top: bool = True
    total_bytes: int | None = None
    free_bytes: int | None = None
    #: Pages that could be promoted or demoted: anonymous and file pages on the LRU lists.
    movable_bytes: int | None = None
    #: Free memory below which kswapd starts to demote or reclaim.
    low_bytes: int | None = None
    #: Free memory that kswapd restores for promotion.
    promo_bytes: int | None = None
    #: kswapd has failed so often that it gives up on the node.
    reclaim_gave_up: bool | None = None
    distances: list[int] = field(default_factory=list)
    demotes_to: list[int] = field(default_factory=list)
    read_latency_ns: int | None = None
    read_bandwidth_mib_s: int | None = None
    #: Counters of promotion, for slow nodes only: pages promoted from the node, folios selected and
    #: not promoted, pages demoted to it.
    promoted: int | None = None
    dropped: int | None = None
    demoted: int | None = None
    promotes_to: list[int] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Get the node as documented in docs/reference/json.md."""
        shown = dict(vars(self))
        shown["top"] = self.top
        return shown


def read_tiers(files: KernelFiles, memory_nodes: list[int]) -> list[Tier]:
    """Get the memory tiers, fastest first; empty if the kernel exports none.

    A tier is a top tier if it, or a slower one, has a node with CPUs. This is the kernel's rule,
    and it never promotes out of such a tier.
    """
    found: list[tuple[int, str, list[int]]] = []
    for name in files.names(TIERS):
        number = name.removeprefix("memory_tier")
        rank = to_int(number)
        if number == name or rank is None:
            continue
        nodes = parse_nodes(files.get(f"{TIERS}/{name}/nodelist"))
        nodes = [node for node in nodes if node in memory_nodes]
        if nodes:
            found.append((rank, name, nodes))
    found.sort()
    with_cpus = set(parse_nodes(files.get(f"{NODES}/has_cpu")))
    lowest_top = max(
        (rank for rank, (_, _, nodes) in enumerate(found) if with_cpus.intersection(nodes)),
        default=len(found),
    )
    return [Tier(name, rank, rank <= lowest_top, nodes) for rank, (_, name, nodes) in enumerate(found)]


def read_nodes(files: KernelFiles) -> tuple[list[Node], list[Tier]]:
    """Get every node with memory, and the tiers."""
    numbers = parse_nodes(files.get(f"{NODES}/has_memory"))
    if not numbers and files.exists("proc/meminfo"):
        return [_machine_as_node(files)], []
    tiers = read_tiers(files, numbers)
    zones = parse_zoneinfo(files.get("proc/zoneinfo"), page_size(files))
    nodes = [_read_node(files, number, zones) for number in numbers]
    order = parse_nodes(files.get(f"{NODES}/online"))
    for node in nodes:
        for tier in tiers:
            if node.node in tier.nodes:
                node.tier, node.rank, node.top = tier.name, tier.rank, tier.top
    for node in nodes:
        node.demotes_to = demotion_targets(node, tiers, order)
    return nodes, tiers


def demotion_targets(node: Node, tiers: list[Tier], order: list[int]) -> list[int]:
    """Get the nodes that the kernel demotes to from ``node``: the nearest of the next lower tier.

    ``order``: online nodes, in the order of the distance file.
    """
    if node.rank is None or node.rank + 1 >= len(tiers):
        return []
    below = tiers[node.rank + 1].nodes
    distance = dict(zip(order, node.distances, strict=False))
    known = [distance[other] for other in below if other in distance]
    if not known:
        return list(below)
    return [other for other in below if distance.get(other) == min(known)]


def page_size(files: KernelFiles) -> int:
    """Get the bytes of a base page of the running machine (files do not have it)."""
    import os

    return os.sysconf("SC_PAGE_SIZE")


@dataclass
class ZoneSums:
    """Watermarks of a node, summed over its zones, in bytes."""

    low_bytes: int = 0
    promo_bytes: int | None = None
    gave_up: bool = False


def parse_zoneinfo(text: str | None, page_bytes: int) -> dict[int, ZoneSums]:
    """Parse /proc/zoneinfo by node. Only the lines named here are used."""
    sums: dict[int, ZoneSums] = {}
    current: ZoneSums | None = None
    for line in (text or "").splitlines():
        fields = line.split()
        if len(fields) >= 4 and fields[0] == "Node" and fields[2] == "zone":
            number = to_int(fields[1].rstrip(","))
            current = sums.setdefault(number, ZoneSums()) if number is not None else None
        elif current is not None and len(fields) == 2 and (value := to_int(fields[1])) is not None:
            if fields[0] == "low":
                current.low_bytes += value * page_bytes
            elif fields[0] == "promo":
                current.promo_bytes = (current.promo_bytes or 0) + value * page_bytes
            elif fields[0] == "node_unreclaimable:":
                current.gave_up = current.gave_up or value != 0
    return sums


def _read_node(files: KernelFiles, number: int, zones: dict[int, ZoneSums]) -> Node:
    base = f"{NODES}/node{number}"
    node = Node(number, files.get(f"{base}/cpulist") or "")
    sizes = parse_meminfo(files.get(f"{base}/meminfo"))
    node.total_bytes = sizes.get("MemTotal")
    node.free_bytes = sizes.get("MemFree")
    if "Active" in sizes and "Inactive" in sizes:
        node.movable_bytes = sizes["Active"] + sizes["Inactive"]
    node.distances = [
        value for word in (files.get(f"{base}/distance") or "").split() if (value := to_int(word)) is not None
    ]
    if number in zones:
        node.low_bytes = zones[number].low_bytes
        node.promo_bytes = zones[number].promo_bytes
        node.reclaim_gave_up = zones[number].gave_up
    near = f"{base}/access0/initiators"
    node.read_latency_ns = _positive(files.get(f"{near}/read_latency"))
    node.read_bandwidth_mib_s = _positive(files.get(f"{near}/read_bandwidth"))
    engine = f"{MTIER}/node{number}"
    node.promoted = files.get_int(f"{engine}/promoted")
    node.dropped = files.get_int(f"{engine}/dropped")
    node.demoted = files.get_int(f"{engine}/demoted")
    node.promotes_to = parse_nodes(files.get(f"{engine}/target"))
    return node


def _machine_as_node(files: KernelFiles) -> Node:
    """Create node 0 of a kernel without NUMA: the whole machine."""
    sizes = parse_meminfo(files.get("proc/meminfo"))
    zones = parse_zoneinfo(files.get("proc/zoneinfo"), page_size(files))
    node = Node(0, files.get("sys/devices/system/cpu/online") or "")
    node.total_bytes = sizes.get("MemTotal")
    node.free_bytes = sizes.get("MemFree")
    node.movable_bytes = sizes.get("Active", 0) + sizes.get("Inactive", 0)
    if 0 in zones:
        node.low_bytes = zones[0].low_bytes
        node.promo_bytes = zones[0].promo_bytes
        node.reclaim_gave_up = zones[0].gave_up
    return node


def _positive(text: str | None) -> int | None:
    value = to_int(text)
    return value if value else None

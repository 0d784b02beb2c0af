# SPDX-License-Identifier: GPL-2.0
"""The modelled machine as the timing plugin reads it (plugin/machine.h), computed from a topology. Pure."""

from dataclasses import dataclass

from terrace.errors import UsageError
from terrace.lab.topology import Cache, Tlb, Topology

_LINE = 64
_HUGE_PAGE = 2 << 20
_GB_PER_S = 10**9
# QEMU's q35 machine leaves a gap below 4G for devices: memory of at least `_MUCH` ends at `_GAP`
# and continues at 4G.
_MUCH = 0xB000_0000
_GAP = 0x8000_0000
_GAP_END = 1 << 32
_CACHE_NAMES = {1: "l1", 2: "l2", 3: "llc"}
_TLB_NAMES = {(1, "4K"): "dtlb_4k", (1, "2M"): "dtlb_2m", (2, None): "stlb"}


@dataclass(frozen=True)
class Span:
    """The range of a node's memory in the addresses that QEMU passes to a plugin.

    Subtract `skew` from such an address to get the guest's physical one, modulo 2M.
    """

    base: int
    size: int
    skew: int


def node_spans(topology: Topology, *, physical: bool) -> list[Span]:
    """Get the spans of all nodes.

    `physical`: QEMU passes the guest's physical address to a plugin (8.2 and later). The plugin
    removes the gap below 4G (`gap` in `machine_text`). Before 8.2 a plugin's address is the sum of
    three offsets: of the node's memory backend among all memory blocks, of the backend in the
    machine's memory, and in the backend. lab/machine.py gives each node one backend, in order, so
    the first two are both the sum of the sizes before it. These offsets do not include the gap,
    which is a multiple of 2M.
    """
    spans = []
    before = 0
    for node in topology.nodes:
        spans.append(Span(before, node.memory, 0) if physical else Span(2 * before, node.memory, before % _HUGE_PAGE))
        before += node.memory
    return spans


def machine_text(topology: Topology, *, physical: bool) -> str:
    """Create the file; `physical` as in `node_spans`. Raises UsageError if the topology lacks a
    parameter of the model.
    """
    for number, node in enumerate(topology.nodes):
        if not node.memory:
            raise UsageError(f"topology '{topology.name}': node {number} has no memory; the timing model needs some")
    lines = [f"name {topology.name}"]
    if physical and topology.memory >= _MUCH:
        lines.append(f"gap {_GAP} {_GAP_END - _GAP}")
    spans = node_spans(topology, physical=physical)
    for number, (node, span) in enumerate(zip(topology.nodes, spans, strict=True)):
        lines.append(f"node {number} {span.base} {span.size} {span.skew} {node.write_cost:g}")
    cpus = [number for number, node in enumerate(topology.nodes) for _ in range(node.cpus)]
    lines += [f"cpu {cpu} {node}" for cpu, node in enumerate(cpus)]
    for way in topology.accesses:
        rate = way.bandwidth / _GB_PER_S
        lines.append(f"access {way.source} {way.target} {way.latency_ns * 1000} {rate:.9g}")
    lines += _cache_lines(topology)
    lines += _tlb_lines(topology)
    model = topology.model
    lines += [
        f"pde {model.pde_entries}",
        f"insn_ps {model.insn_ps}",
        f"overlap_random {model.overlap_random:g}",
        f"overlap_stream {model.overlap_stream:g}",
        f"overlap_store {model.overlap_store:g}",
        f"cores_per_cpu {model.cores_per_cpu:g}",
        f"window_ps {model.window_ns * 1000}",
        f"shootdown_send_ps {model.shootdown_send_ns * 1000}",
        f"shootdown_each_ps {model.shootdown_each_ns * 1000}",
        f"shootdown_receive_ps {model.shootdown_receive_ns * 1000}",
        f"curve_flat {model.curve_flat:g}",
        f"curve_linear {model.curve_linear:g}",
        f"curve_at_linear {model.curve_at_linear:g}",
        f"curve_at_full {model.curve_at_full:g}",
        f"curve_overload {model.curve_overload:g}",
    ]
    return "\n".join(lines) + "\n"


def _missing(topology: Topology, what: str) -> UsageError:
    return UsageError(
        f"topology '{topology.name}' has {what}; the timing model needs [[cache]] tables of the levels 1 to 3 with "
        f"lines of {_LINE} bytes, and [[tlb]] tables of level 1 for 4K and 2M pages and of level 2"
    )


def _is_power_of_two(count: int) -> bool:
    return count > 0 and count & (count - 1) == 0


def _cache_lines(topology: Topology) -> list[str]:
    found: dict[int, Cache] = {}
    for cache in topology.caches:
        if cache.level not in _CACHE_NAMES or cache.line != _LINE or cache.level in found:
            raise _missing(topology, f"a [[cache]] of level {cache.level} that is one too many, or not of such lines")
        if cache.size % (_LINE * cache.ways) or not _is_power_of_two(cache.size // _LINE // cache.ways):
            raise _missing(topology, f"a [[cache]] of level {cache.level} whose sets are no power of two")
        found[cache.level] = cache
    if len(found) != len(_CACHE_NAMES):
        raise _missing(topology, f"[[cache]] tables of {len(found)} levels")
    return [f"cache {_CACHE_NAMES[n]} {c.size} {c.ways} {c.latency_ns * 1000}" for n, c in sorted(found.items())]


def _tlb_lines(topology: Topology) -> list[str]:
    found: dict[str, Tlb] = {}
    for tlb in topology.tlbs:
        name = _TLB_NAMES[tlb.level, tlb.page]
        if name in found:
            raise _missing(topology, f"a second [[tlb]] for {name}")
        if tlb.entries % tlb.ways or not _is_power_of_two(tlb.entries // tlb.ways):
            raise _missing(topology, f"a [[tlb]] for {name} whose sets are no power of two")
        found[name] = tlb
    if len(found) != len(_TLB_NAMES):
        raise _missing(topology, f"[[tlb]] tables for {', '.join(found) or 'nothing'} only")
    return [f"tlb {name} {t.entries} {t.ways} {t.latency_ns * 1000}" for name, t in sorted(found.items())]

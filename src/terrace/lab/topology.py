# SPDX-License-Identifier: GPL-2.0
"""Named machines: memory nodes, their CPUs, and the latency and bandwidth between them.

A topology is a TOML file of the folder topologies/ (or any path). docs/reference/topologies.md
describes every key.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from terrace.errors import UsageError
from terrace.files import parse_toml, read_regular
from terrace.paths import repo_root
from terrace.units import format_size, parse_nodes, parse_size, parse_time_ns
from terrace.words import did_you_mean

MIB = 1 << 20
MAX_NODES = 64
_MOST_BYTES = 1 << 20
#: configs/base.config: CONFIG_NR_CPUS.
MAX_CPUS = 64
_TOP_KEYS = {"description", "node", "access", "cache", "tlb", "model"}
_NODE_KEYS = {"memory", "cpus", "count", "write_cost"}
_ACCESS_KEYS = {"from", "to", "distance", "latency", "bandwidth"}
_CACHE_KEYS = {"level", "size", "ways", "line", "latency"}
_TLB_KEYS = {"level", "page", "entries", "ways", "latency"}
_PAGES = ("4K", "2M")


@dataclass(frozen=True)
class Node:
    """One node: bytes of memory (0: CPUs only), number of CPUs (0: memory only).

    `write_cost`: in the timing model, a written byte takes the time of this number of read bytes on
    the node.
    """

    memory: int
    cpus: int = 0
    write_cost: float = 1.0


@dataclass(frozen=True)
class Access:
    """Access of a CPU of node `source` to the memory of node `target`: latency in ns, bandwidth in bytes/s."""

    source: int
    target: int
    distance: int
    latency_ns: int
    bandwidth: int


@dataclass(frozen=True)
class Cache:
    """One cache level of every CPU, for the timing model: bytes, ways, bytes of a line, ns of a hit."""

    level: int
    size: int
    ways: int
    line: int
    latency_ns: int


@dataclass(frozen=True)
class Tlb:
    """One TLB of every CPU, for the timing model: entries, ways, ns of a hit.

    `page` is 4K or 2M, or None for a TLB with both.
    """

    level: int
    entries: int
    ways: int
    latency_ns: int
    page: str | None = None


@dataclass(frozen=True)
class Model:
    """Other parameters of the timing model; see docs/reference/timing-model.md."""

    insn_ps: int = 500
    overlap_random: float = 4.0
    overlap_stream: float = 20.0
    overlap_store: float = 10.0
    cores_per_cpu: float = 1.0
    pde_entries: int = 32
    window_ns: int = 20_000
    shootdown_send_ns: int = 2_000
    shootdown_each_ns: int = 0
    shootdown_receive_ns: int = 1_000
    curve_flat: float = 0.4
    curve_linear: float = 0.8
    curve_at_linear: float = 1.5
    curve_at_full: float = 3.0
    curve_overload: float = 80.0


@dataclass(frozen=True)
class Topology:
    """A machine, checked: every CPU node has an access to every node with memory."""

    name: str
    description: str
    nodes: tuple[Node, ...]
    accesses: tuple[Access, ...]
    caches: tuple[Cache, ...] = ()
    tlbs: tuple[Tlb, ...] = ()
    model: Model = Model()
    _by_pair: dict[tuple[int, int], Access] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._by_pair.update({(a.source, a.target): a for a in self.accesses})

    @property
    def cpus(self) -> int:
        """Number of CPUs of the whole machine."""
        return sum(node.cpus for node in self.nodes)

    @property
    def memory(self) -> int:
        """Bytes of memory of the whole machine."""
        return sum(node.memory for node in self.nodes)

    @property
    def cpu_nodes(self) -> list[int]:
        """Numbers of the nodes that have CPUs."""
        return [number for number, node in enumerate(self.nodes) if node.cpus]

    def access(self, source: int, target: int) -> Access | None:
        """Get the access from the CPUs of `source` to the memory of `target`; None without such CPUs or memory."""
        return self._by_pair.get((source, target))

    def distance(self, source: int, target: int) -> int:
        """Get the SLIT distance: 10 to itself, as given, or the reverse if only that is given,
        otherwise through a third node.
        """
        if source == target:
            return 10
        known = self._stated(source, target)
        if known is not None:
            return known
        legs = [(self._stated(source, by), self._stated(by, target)) for by in range(len(self.nodes))]
        return min([254, *(first + last - 10 for first, last in legs if first is not None and last is not None)])

    def _stated(self, source: int, target: int) -> int | None:
        way = self.access(source, target) or self.access(target, source)
        return way.distance if way else None

    def nearest_cpu_node(self, number: int) -> int:
        """Get the CPU node with the fastest access to `number` (for a CPU node: itself)."""
        if self.nodes[number].cpus:
            return number

        def latency(cpu: int) -> int:
            way = self.access(cpu, number)
            return way.latency_ns if way else 1 << 62

        return min(self.cpu_nodes, key=latency)

    def with_cpus(self, count: int) -> "Topology":
        """Get the same machine with `count` CPUs, assigned to the CPU nodes in turn.

        Raises UsageError if there are fewer than CPU nodes.
        """
        nodes = self.cpu_nodes
        if count < len(nodes):
            raise UsageError(
                f"--cpus {count}: topology '{self.name}' has {len(nodes)} CPU nodes and needs a CPU for each"
            )
        share = {node: count // len(nodes) + (place < count % len(nodes)) for place, node in enumerate(nodes)}
        return replace(
            self, nodes=tuple(replace(n, cpus=share.get(i, 0)) for i, n in enumerate(self.nodes)), _by_pair={}
        )

    def with_vcpus(self, count: int) -> "Topology":
        """Get the same machine in the lab with `count` virtual CPUs: together they stand for as many cores as before.

        Raises UsageError if there are fewer than CPU nodes.
        """
        cores = self.cpus * self.model.cores_per_cpu
        return replace(self.with_cpus(count), model=replace(self.model, cores_per_cpu=cores / count), _by_pair={})

    def with_memory_scale(self, factor: float) -> "Topology":
        """Get the same machine with `factor` times the memory on every node, in whole MiB.

        Raises UsageError if a node would have less than 64 MiB.
        """
        nodes = tuple(replace(node, memory=round(node.memory * factor / MIB) * MIB) for node in self.nodes)
        small = min(new.memory for new, old in zip(nodes, self.nodes, strict=True) if old.memory)
        if small < 64 * MIB:
            raise UsageError(
                f"--memory-scale {factor:g} leaves a node of '{self.name}' with {format_size(small)}; 64M is the least"
            )
        return replace(self, nodes=nodes, _by_pair={})


def topology_names() -> list[str]:
    """List the names of the topologies that come with Terrace."""
    return sorted(path.stem for path in (repo_root() / "topologies").glob("*.toml"))


def load_topology(name: str) -> Topology:
    """Load the topology of that name, or the file if `name` is a path to a .toml file.

    Raises UsageError with file and key for invalid contents.
    """
    path = Path(name)
    if path.suffix != ".toml":
        path = repo_root() / "topologies" / f"{name}.toml"
        if name not in topology_names():
            known = topology_names()
            raise UsageError(
                f"there is no topology '{name}'; {did_you_mean(name, known)}there are {', '.join(known)}, or give the "
                "path of a .toml file"
            )
    try:
        data = read_regular(path, _MOST_BYTES)
        if len(data) > _MOST_BYTES:
            raise UsageError(f"topology {path}: has more than {_MOST_BYTES >> 20} MiB: is it a topology?")
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"topology {path}: {error}") from error
    return parse_topology(path.stem, text, str(path))


def parse_topology(name: str, text: str, file: str) -> Topology:
    """Parse and check the TOML `text`; `file` is its name in errors."""
    try:
        table = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: {error}") from error
    top = _Reader(file, "", table, _TOP_KEYS)
    nodes = tuple(node for reader in top.tables("node", _NODE_KEYS) for node in _read_nodes(reader))
    check_machine(file, nodes)
    return Topology(
        name=name,
        description=top.text("description"),
        nodes=nodes,
        accesses=_read_accesses(top, nodes, file),
        caches=tuple(_read_cache(reader) for reader in top.tables("cache", _CACHE_KEYS)),
        tlbs=tuple(_read_tlb(reader) for reader in top.tables("tlb", _TLB_KEYS)),
        model=_read_model(top.table_of("model", _MODEL_KEYS)),
    )


def check_machine(where: str, nodes: tuple[Node, ...]) -> None:
    """Raise UsageError with the prefix `where` if no machine can have these nodes."""
    if not 1 <= len(nodes) <= MAX_NODES:
        raise UsageError(f"{where}: {len(nodes)} nodes; a machine has 1 to {MAX_NODES} nodes")
    if not any(node.cpus for node in nodes):
        raise UsageError(f"{where}: no node has cpus; at least one needs some")
    if not any(node.memory for node in nodes):
        raise UsageError(f"{where}: no node has memory; at least one needs some")
    cpus = sum(node.cpus for node in nodes)
    if cpus > MAX_CPUS:
        raise UsageError(f"{where}: {cpus} CPUs in all; kernels of the lab use at most {MAX_CPUS}")


def check_memory(node: Node) -> None:
    """Raise UsageError if no node can have that memory."""
    if not node.memory and not node.cpus:
        raise UsageError("a node needs memory, CPUs, or both")
    if node.memory and (node.memory < 64 * MIB or node.memory % MIB):
        raise UsageError(f"{format_size(node.memory)} is not a whole number of MiB of at least 64M, or 0 with CPUs")


class _Reader:
    """Reads a TOML table by key; every error has file and key."""

    def __init__(self, file: str, where: str, table: Mapping[str, Any], keys: set[str]) -> None:
        self.file = file
        self.where = where
        self.table = table
        unknown = sorted(set(table) - keys)
        if unknown:
            raise UsageError(f"{file}: unknown key '{where}{unknown[0]}'; the keys here are {', '.join(sorted(keys))}")

    def error(self, key: str, problem: str) -> UsageError:
        return UsageError(f"{self.file}: {self.where}{key}: {problem}")

    def tables(self, key: str, keys: set[str]) -> list["_Reader"]:
        value = self.table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.error(key, f"write it as [[{key}]] tables")
        return [_Reader(self.file, f"{key}[{number}].", item, keys) for number, item in enumerate(value)]

    def table_of(self, key: str, keys: set[str]) -> "_Reader":
        value = self.table.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"write it as a [{key}] table")
        return _Reader(self.file, f"{key}.", value, keys)

    def text(self, key: str) -> str:
        value = self.table.get(key)
        if not isinstance(value, str) or not value:
            raise self.error(key, f"needs a text, not {value!r}")
        return value

    def number(self, key: str, low: int, high: int, default: int | None = None) -> int:
        value = self.table.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.error(key, f"needs a whole number from {low} to {high}, not {value!r}")
        return value

    def real(self, key: str, low: float, high: float, default: float) -> float:
        value = self.table.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise self.error(key, f"needs a number from {low:g} to {high:g}, not {value!r}")
        return float(value)

    def nodes(self, key: str, count: int) -> list[int]:
        value = self.table.get(key)
        if not isinstance(value, str):
            return [self.number(key, 0, count - 1)]
        try:
            return parse_nodes(value, range(count))
        except UsageError as error:
            raise self.error(key, str(error)) from error

    def size(self, key: str) -> int:
        try:
            return parse_size(self.text(key))
        except UsageError as error:
            raise self.error(key, str(error)) from error

    def time_ns(self, key: str, default: int | None = None) -> int:
        if default is not None and key not in self.table:
            return default
        try:
            return parse_time_ns(self.text(key))
        except UsageError as error:
            raise self.error(key, str(error)) from error


def _read_nodes(reader: _Reader) -> list[Node]:
    node = Node(
        memory=reader.size("memory"),
        cpus=reader.number("cpus", 0, 64, default=0),
        write_cost=reader.real("write_cost", 0, 10, 1.0),
    )
    try:
        check_memory(node)
    except UsageError as error:
        raise reader.error("memory", str(error)) from error
    return [node] * reader.number("count", 1, MAX_NODES, default=1)


def _read_accesses(top: _Reader, nodes: tuple[Node, ...], file: str) -> tuple[Access, ...]:
    found: dict[tuple[int, int], Access] = {}
    for reader in top.tables("access", _ACCESS_KEYS):
        for way in _read_ways(reader, len(nodes)):
            if not nodes[way.source].cpus:
                raise reader.error("from", f"node {way.source} has no CPUs, so nothing there accesses memory")
            if not nodes[way.target].memory:
                raise reader.error("to", f"node {way.target} has no memory, so nothing is accessed there")
            if (way.source, way.target) in found:
                raise reader.error("to", f"a second [[access]] from {way.source} to {way.target}")
            if (way.source == way.target) != (way.distance == 10):
                raise reader.error("distance", "10 is a node's distance to itself, and only that")
            found[way.source, way.target] = way
    for source in (number for number, node in enumerate(nodes) if node.cpus):
        for target in (number for number, node in enumerate(nodes) if node.memory):
            if (source, target) not in found:
                raise UsageError(
                    f"{file}: there is no [[access]] from {source} to {target}; every CPU node needs one to every "
                    "node with memory"
                )
    return tuple(found.values())


def _read_ways(reader: _Reader, nodes: int) -> list[Access]:
    """Read one table: from and to may be sets, which stand for all pairs."""
    distance = reader.number("distance", 10, 254)
    latency_ns = reader.time_ns("latency")
    bandwidth = reader.size("bandwidth")
    if not 1 <= latency_ns <= 65000:
        raise reader.error("latency", f"{latency_ns}ns is not from 1ns to 65us")
    if bandwidth < MIB or bandwidth % MIB:
        raise reader.error("bandwidth", "per second, in whole MiB (example: 20G)")
    sources, targets = reader.nodes("from", nodes), reader.nodes("to", nodes)
    return [Access(source, target, distance, latency_ns, bandwidth) for source in sources for target in targets]


def _read_cache(reader: _Reader) -> Cache:
    return Cache(
        level=reader.number("level", 1, 4),
        size=reader.size("size"),
        ways=reader.number("ways", 1, 64),
        line=reader.number("line", 16, 256, default=64),
        latency_ns=reader.time_ns("latency"),
    )


def _read_tlb(reader: _Reader) -> Tlb:
    level = reader.number("level", 1, 2)
    page = reader.text("page") if "page" in reader.table else None
    if page not in (*_PAGES, None) or (page is None) != (level == 2):
        raise reader.error("page", "'4K' or '2M' for a TLB of level 1; one of level 2 holds both and has no such key")
    return Tlb(
        level=level,
        entries=reader.number("entries", 1, 1 << 20),
        ways=reader.number("ways", 1, 64),
        latency_ns=reader.time_ns("latency"),
        page=page,
    )


_MODEL_KEYS = {
    *("insn_ps", "overlap_random", "overlap_stream", "overlap_store", "cores_per_cpu", "pde_entries"),
    *("window", "shootdown_send", "shootdown_each", "shootdown_receive"),
    *("curve_flat", "curve_linear", "curve_at_linear", "curve_at_full", "curve_overload"),
}


def _read_model(reader: _Reader) -> Model:
    usual = Model()
    model = Model(
        insn_ps=reader.number("insn_ps", 1, 100_000, usual.insn_ps),
        overlap_random=reader.real("overlap_random", 1, 1000, usual.overlap_random),
        overlap_stream=reader.real("overlap_stream", 1, 1000, usual.overlap_stream),
        overlap_store=reader.real("overlap_store", 1, 1000, usual.overlap_store),
        cores_per_cpu=reader.real("cores_per_cpu", 0.01, 1000, usual.cores_per_cpu),
        pde_entries=reader.number("pde_entries", 1, 4096, usual.pde_entries),
        window_ns=reader.time_ns("window", usual.window_ns),
        shootdown_send_ns=reader.time_ns("shootdown_send", usual.shootdown_send_ns),
        shootdown_each_ns=reader.time_ns("shootdown_each", usual.shootdown_each_ns),
        shootdown_receive_ns=reader.time_ns("shootdown_receive", usual.shootdown_receive_ns),
        curve_flat=reader.real("curve_flat", 0.01, 0.99, usual.curve_flat),
        curve_linear=reader.real("curve_linear", 0.01, 0.99, usual.curve_linear),
        curve_at_linear=reader.real("curve_at_linear", 1, 100, usual.curve_at_linear),
        curve_at_full=reader.real("curve_at_full", 1, 100, usual.curve_at_full),
        curve_overload=reader.real("curve_overload", 1, 1000, usual.curve_overload),
    )
    if not 100 <= model.window_ns <= 10_000_000:
        raise reader.error("window", f"{model.window_ns}ns is not from 100ns to 10ms")
    if model.curve_flat >= model.curve_linear:
        raise reader.error("curve_linear", f"{model.curve_linear:g} is not above curve_flat, {model.curve_flat:g}")
    if model.curve_at_linear > model.curve_at_full:
        raise reader.error("curve_at_full", f"{model.curve_at_full:g} is below curve_at_linear")
    return model

# SPDX-License-Identifier: GPL-2.0
"""The counters of the timing plugin: typed, with the sums that results are made of.

docs/reference/timing-model.md has every key of the file.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terrace.errors import UsageError

SCHEMA = "terrace.ledger"
VERSION = 2
APP = "app"
IDLE = "idle"


@dataclass(frozen=True)
class Tier:
    """Accesses to the memory of one node: all of them, and those that missed every cache."""

    reads: int = 0
    writes: int = 0
    read_misses: int = 0
    write_misses: int = 0
    stall_ns: float = 0.0

    @property
    def misses(self) -> int:
        """Get reads and writes of the node's memory."""
        return self.read_misses + self.write_misses

    def __add__(self, other: "Tier") -> "Tier":
        return Tier(
            self.reads + other.reads,
            self.writes + other.writes,
            self.read_misses + other.read_misses,
            self.write_misses + other.write_misses,
            self.stall_ns + other.stall_ns,
        )


_COUNTS = (
    *("insns", "reads", "writes", "l1_miss", "l2_miss", "llc_miss", "dtlb_miss", "stlb_miss", "walk_reads", "huge"),
    *("shootdowns_sent", "shootdowns_received"),
)


@dataclass(frozen=True)
class Mode:
    """Counters of one kind of task in user mode, or in the kernel."""

    insns: int = 0
    reads: int = 0
    writes: int = 0
    l1_miss: int = 0
    l2_miss: int = 0
    llc_miss: int = 0
    dtlb_miss: int = 0
    stlb_miss: int = 0
    walk_reads: int = 0
    huge: int = 0
    shootdowns_sent: int = 0
    shootdowns_received: int = 0
    busy_ns: float = 0.0
    stall_ns: float = 0.0
    tier: tuple[tuple[int, Tier], ...] = ()

    @property
    def tiers(self) -> dict[int, Tier]:
        """By node."""
        return dict(self.tier)

    @property
    def time_ns(self) -> float:
        """Get the modelled time: instructions and waits."""
        return self.busy_ns + self.stall_ns

    def __add__(self, other: "Mode") -> "Mode":
        sums = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        tiers = self.tiers
        for node, tier in other.tier:
            tiers[node] = tiers.get(node, Tier()) + tier
        return Mode(
            **sums,
            busy_ns=self.busy_ns + other.busy_ns,
            stall_ns=self.stall_ns + other.stall_ns,
            tier=tuple(sorted(tiers.items())),
        )


@dataclass(frozen=True)
class Kind:
    """One kind of task."""

    user: Mode = Mode()
    kernel: Mode = Mode()

    @property
    def both(self) -> Mode:
        """Get the sum of user mode and kernel."""
        return self.user + self.kernel

    def __add__(self, other: "Kind") -> "Kind":
        return Kind(self.user + other.user, self.kernel + other.kernel)


@dataclass(frozen=True)
class Vcpu:
    """One vCPU in a region: the time of its clock, and its idle time while others worked."""

    clock_ns: float
    idle_ns: float
    untranslated: int
    kinds: Mapping[str, Kind]


@dataclass(frozen=True)
class Node:
    """One memory node in a region."""

    bytes_read: int
    bytes_written: int
    utilisation_mean: float
    latency_factor_mean: float


@dataclass(frozen=True)
class Region:
    """Counters between two markers."""

    number: int
    modelled_ns: float
    guest_insns: int
    all_idle_ns: float
    skew_ns: float
    shootdowns: int
    shootdowns_received: int
    shootdown_ns: float
    nodes: Mapping[int, Node]
    vcpus: tuple[Vcpu, ...]

    @property
    def modelled_s(self) -> float:
        """Get the modelled seconds, without times when all CPUs were idle."""
        return self.modelled_ns / 1e9

    @property
    def kinds(self) -> dict[str, Kind]:
        """Get every kind of task, summed over the vCPUs."""
        sums: dict[str, Kind] = {}
        for vcpu in self.vcpus:
            for name, kind in vcpu.kinds.items():
                sums[name] = sums.get(name, Kind()) + kind
        return sums

    def kind(self, name: str) -> Kind:
        """Get one kind of task, summed over the vCPUs; all zero if none ran."""
        return self.kinds.get(name, Kind())

    @property
    def app(self) -> Kind:
        """Get the application's marked threads."""
        return self.kind(APP)

    def kernel_insns(self, kind: str | None = None) -> int:
        """Get instructions in the kernel: of one kind of task, or of all except the idle task."""
        if kind is not None:
            return self.kind(kind).kernel.insns
        return sum(each.kernel.insns for name, each in self.kinds.items() if name != IDLE)

    def fast_hit_ratio(self, fast: int | Iterable[int] = 0) -> float | None:
        """Get the share of the application's memory accesses to the given node or nodes; None without accesses."""
        nodes = {fast} if isinstance(fast, int) else set(fast)
        tiers = self.app.user.tiers
        total = sum(tier.misses for tier in tiers.values())
        return sum(tier.misses for node, tier in tiers.items() if node in nodes) / total if total else None


@dataclass(frozen=True)
class Step:
    """A point of the time series: the sums of the region at `t_ms` of its modelled time."""

    t_ms: float
    insns: int
    app_insns: int
    kernel_insns: int
    shootdowns: int
    app_misses: tuple[int, ...]
    bytes: tuple[int, ...]


@dataclass(frozen=True)
class Ledger:
    """One run. Region 0 is the whole run from the start of the model; markers delimit the others."""

    machine: Mapping[str, Any]
    regions: tuple[Region, ...]
    series: tuple[Step, ...]

    def region(self, number: int = 1) -> Region:
        """Get the first region of that number. Raises UsageError if there is none."""
        for region in self.regions:
            if region.number == number:
                return region
        there = ", ".join(str(region.number) for region in self.regions)
        raise UsageError(f"the ledger has no region {number}, only {there}: did the program end early?")


def read_ledger(path: Path) -> Ledger:
    """Read the file. Raises UsageError if it is missing or of another schema."""
    try:
        text = path.read_text()
    except OSError as error:
        raise UsageError(f"ledger {path}: {error.strerror}; did QEMU end by itself?") from error
    return parse_ledger(text, str(path))


def parse_ledger(text: str, name: str = "ledger") -> Ledger:
    """Parse the JSON text; `name` is its name in errors."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    if not isinstance(document, dict) or (document.get("schema"), document.get("version")) != (SCHEMA, VERSION):
        raise UsageError(f"{name}: not a {SCHEMA} of version {VERSION}")
    try:
        return Ledger(
            machine=document["machine"],
            regions=tuple(_region(item) for item in document["regions"]),
            series=tuple(_step(item) for item in document["series"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{name}: a key is missing or of another kind: {error!r}") from error


def _region(item: Mapping[str, Any]) -> Region:
    return Region(
        number=item["number"],
        modelled_ns=item["modelled_ns"],
        guest_insns=item["guest_insns"],
        all_idle_ns=item["all_idle_ns"],
        skew_ns=item["skew_ns"],
        shootdowns=item["shootdowns"],
        shootdowns_received=item["shootdowns_received"],
        shootdown_ns=item["shootdown_ns"],
        nodes={int(number): Node(**node) for number, node in item["nodes"].items()},
        vcpus=tuple(_vcpu(vcpu) for vcpu in item["vcpus"]),
    )


def _vcpu(item: Mapping[str, Any]) -> Vcpu:
    kinds = {name: Kind(_mode(kind["user"]), _mode(kind["kernel"])) for name, kind in item["kinds"].items()}
    return Vcpu(item["clock_ns"], item["idle_ns"], item["untranslated"], kinds)


def _mode(item: Mapping[str, Any]) -> Mode:
    tiers = tuple(sorted((int(node), Tier(**tier)) for node, tier in item["tier"].items()))
    return Mode(**{**item, "tier": tiers})


def _step(item: Mapping[str, Any]) -> Step:
    return Step(**{**item, "app_misses": tuple(item["app_misses"]), "bytes": tuple(item["bytes"])})

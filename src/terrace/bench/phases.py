# SPDX-License-Identifier: GPL-2.0
"""A run with a burst in the middle, by phase: before it, during it, after it. Pure.

Rounds are those of the workload `stream`. A phase of the counters begins and ends with the marks of
guest/wl_run.c; a round with the start or the end of the burst in it belongs to no phase.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terrace.bench.ledger import APP, IDLE, Kind, Ledger, Region
from terrace.lab.topology import Topology

# Phases by the number of their region.
REGIONS = {"before": 2, "during": 3, "after": 4}
# The tasks of the burst are not marked, and no other task of that kind is in user mode for long.
_BURST = "other"
_SAMPLER = "sampler"
# Share of probed pages at which memory has followed its threads.
NEAR_AGAIN = 0.95


@dataclass(frozen=True)
class Phase:
    """Counters of one phase.

    `near_ratio`: share of the marked threads' fetches from memory that were from the node of the
    CPU; None without any. `kernel_insns` and `kernel_s` are of all except the sampler and idle,
    `burst_user_s` is the burst's own code.
    """

    modelled_s: float
    near_ratio: float | None
    kernel_insns: int
    kernel_s: float
    burst_user_s: float


def phases_of(ledger: Ledger, machine: Topology) -> dict[str, Phase]:
    """Get the phases by name; empty if the run had no burst."""
    if all(region.number != REGIONS["before"] for region in ledger.regions):
        return {}
    nodes = node_of_each_cpu(machine)
    return {name: _phase(ledger.region(number), nodes) for name, number in REGIONS.items()}


def node_of_each_cpu(machine: Topology) -> list[int]:
    """Get the node of each vCPU."""
    return [number for number, node in enumerate(machine.nodes) for _ in range(node.cpus)]


def _phase(region: Region, nodes: Sequence[int]) -> Phase:
    work = {name: kind for name, kind in region.kinds.items() if name not in (IDLE, _SAMPLER)}
    return Phase(
        modelled_s=region.modelled_s,
        near_ratio=near_ratio(region, nodes),
        kernel_insns=sum(kind.kernel.insns for kind in work.values()),
        kernel_s=sum(kind.kernel.time_ns for kind in work.values()) / 1e9,
        burst_user_s=work.get(_BURST, Kind()).user.time_ns / 1e9,
    )


def near_ratio(region: Region, nodes: Sequence[int]) -> float | None:
    """Get the share of the application's fetches from the CPU's own node; `nodes` has the node of each vCPU."""
    near = total = 0
    for vcpu, own in zip(region.vcpus, nodes, strict=True):
        for node, tier in vcpu.kinds.get(APP, Kind()).user.tier:
            total += tier.misses
            near += tier.misses if node == own else 0
    return near / total if total else None


def figures(result: Mapping[str, Any], phases: Mapping[str, Phase]) -> dict[str, Any]:
    """Get the fields of the cell's document for the phases and the burst.

    Raises KeyError or TypeError if the workload printed no rounds or no burst.
    """
    burst, ends = result["burst"], result["round_ends_ms"]
    begin, end = burst["begin_ms"], burst["end_ms"]
    limits = {"before": (0.0, begin), "during": (begin, end), "after": (end, ends[-1])}
    found = {}
    for name, phase in phases.items():
        rounds = _rounds(ends, *limits[name])
        found[name] = {
            "modelled_s": phase.modelled_s,
            "rounds": len(rounds),
            "round_ms": statistics.fmean(rounds) if rounds else None,
            "near_hit_ratio": phase.near_ratio,
            "near_page_ratio": _near_pages(result["near_samples"], *limits[name]),
            "kernel_insns": phase.kernel_insns,
            "kernel_s": phase.kernel_s,
            "burst_user_s": phase.burst_user_s,
        }
    return {
        "burst_s": burst["result"]["elapsed_ns"] / 1e9,
        "burst_ops": burst["result"]["ops"],
        "rounds_to_near": _rounds_to_near(result["near_samples"], ends, end),
        **found,
    }


def _rounds_to_near(samples: Sequence[Sequence[float]], ends: Sequence[float], since: float) -> int | None:
    """Get the number of rounds that ended from `since` until NEAR_AGAIN of the probed pages were near; None: never."""
    at = next((ms for ms, near, known in samples if ms >= since and known and near >= NEAR_AGAIN * known), None)
    return None if at is None else sum(since < end <= at for end in ends)


def _rounds(ends: Sequence[float], first: float, last: float) -> list[float]:
    """Get the durations of the rounds between these times."""
    return [end - begin for begin, end in zip([0.0, *ends], ends, strict=False) if begin >= first and end <= last]


def _near_pages(samples: Sequence[Sequence[float]], first: float, last: float) -> float | None:
    """Get the mean share of probed pages on the node of their thread, in samples between these times."""
    shares = [near / known for ms, near, known in samples if first <= ms <= last and known]
    return statistics.fmean(shares) if shares else None

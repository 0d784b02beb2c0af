# SPDX-License-Identifier: GPL-2.0
"""Compute the compared figures from the guest's output and the plugin's counters. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from terrace.bench.clock import clock_ratio
from terrace.bench.policies import Policy
from terrace.bench.reading import Reading
from terrace.bench.stats import time_to

_GIB = 1 << 30
_PAGE = 4096
# Kinds that are not the kernel's work for the load: the measurement itself, and idle time.
_NOT_WORK = ("sampler", "idle")
_APP = "app"
_DEMOTED = ("pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "mtier_demoted")


@dataclass(frozen=True)
class Printed:
    """Output of a workload; samples are pairs of milliseconds and the share on fast memory."""

    elapsed_ns: int
    samples: list[list[float]]
    vmstat: dict[str, int]
    shootdowns: int
    latency_ns: dict[str, float]
    ops: int | None
    scan_began_ms: float | None = None


def printed(result: Mapping[str, Any]) -> Printed:
    """Parse a workload's result. Raises KeyError or TypeError for missing parts, ValueError for another schema."""
    if (result["schema"], result["version"]) != ("terrace.workload", 1):
        raise ValueError(f"a result of schema {result['schema']!r}; this tool reads terrace.workload, version 1")
    return Printed(
        elapsed_ns=result["elapsed_ns"],
        samples=[[ms, fast / known if known else 0.0] for ms, fast, known in result["samples"]],
        vmstat=dict(result["vmstat"]),
        shootdowns=result["shootdowns"],
        latency_ns=dict(result.get("latency_ns") or {}),
        ops=result.get("ops"),
        scan_began_ms=result["scan_began_ms"],
    )


def figures_of(policy: Policy, dram: Fraction | None, out: Printed, reading: Reading) -> dict[str, float | None]:
    """Compute every figure by name. None: the event never happened, the divisor is 0, or there is
    no counter.

    `to_90_s` is the time until 90 % of the pages that fit are in fast memory. The guest's clock is
    the model's: a guest's seconds are modelled ones, including those in which all CPUs are idle.
    `clock_ratio` is guest time over modelled time. `scan_began_s` is the time of the first sample
    that found pages scanned, if that was within a second.
    """
    fits = float(min(Fraction(1), dram)) if dram is not None else 1.0
    promoted = out.vmstat.get("pgpromote_success", 0)
    demoted = sum(out.vmstat.get(name, 0) for name in _DEMOTED)
    # DAMON's migrations are in no counter of promotions; this counter includes every migrated page.
    moved = out.vmstat.get("pgmigrate_success", 0)
    seen = out.vmstat.get("mtier_look_ptes", 0) or out.vmstat.get("numa_pte_updates", 0)
    scan = sum(reading.kernel_insns(name) for name in policy.scanners)
    scan_s = sum(reading.kernel_s(name) for name in policy.scanners)
    guest_s = out.elapsed_ns / 1e9
    return {
        "modelled_s": reading.modelled_s,
        "guest_s": guest_s,
        "all_idle_s": reading.all_idle_s,
        "skew_us": reading.skew_us,
        "clock_ratio": clock_ratio(guest_s, reading.modelled_s + reading.all_idle_s),
        "scan_began_s": None if out.scan_began_ms is None else out.scan_began_ms / 1e3,
        "to_50_s": time_to(out.samples, 0.5 * fits),
        "to_90_s": time_to(out.samples, 0.9 * fits),
        "to_95_s": time_to(out.samples, 0.95 * fits),
        "final_share": out.samples[-1][1] if out.samples else None,
        "fast_hit_ratio": reading.fast_hit_ratio,
        "near_hit_ratio": reading.near_hit_ratio,
        "app_user_s": reading.user_s(_APP),
        "promoted_pages": promoted,
        "demoted_pages": demoted,
        "moved_pages": moved,
        "shootdowns": out.shootdowns,
        "ipis_per_page": out.shootdowns / moved if moved else None,
        "hint_faults": out.vmstat.get("numa_hint_faults", 0),
        "kernel_insns": sum(reading.kernel_insns(kind) for kind in reading.kinds if kind not in _NOT_WORK),
        "app_user_insns": reading.user_insns(_APP),
        "app_kernel_insns": reading.kernel_insns(_APP),
        "scan_insns": scan,
        "scan_insns_per_gib": scan * _GIB / (seen * _PAGE) if seen else None,
        "scan_s": scan_s,
        "scan_cpu": scan_s / reading.modelled_s if reading.modelled_s else None,
        "p50_ns": out.latency_ns.get("p50"),
        "p99_ns": out.latency_ns.get("p99"),
        "p999_ns": out.latency_ns.get("p999"),
        "max_ns": out.latency_ns.get("max"),
        "ops": out.ops,
    }

# SPDX-License-Identifier: GPL-2.0
"""Runs of the simulation, many in parallel, and their figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from terrace.sim.loads import Load, make_load
from terrace.sim.policies import policy_named
from terrace.sim.world import HOSTS, LOW_NS, TOP_NS, Tally, World

_FOUND_SHARE = 0.9


@dataclass(frozen=True, order=True)
class Cell:
    """One run: the host, the load, the share of its pages that fit in DRAM, the policy, the random seed."""

    host: str
    load: str
    dram: float
    policy: str
    seed: int


@dataclass(frozen=True)
class Figures:
    """Results of a run.

    `gap`: part of the gap from all-slow to all-DRAM in run time, including all CPU time of scans
    and migrations, from the start; `hits`: accesses to DRAM relative to the best placement at each
    moment, `moved_s`: pages migrated per second, relative to all pages, both without the first
    quarter; `looks`, `moves`: shares of one CPU; `found_s`: longest time from a change of the load
    until hits are at 90 % of the best, None without a change, or if never.
    """

    gap: float
    hits: float
    moved_s: float
    looks: float
    moves: float
    found_s: float | None


def run(cell: Cell) -> Figures:
    """Run one cell. Raises UsageError for an unknown load or policy."""
    world = _ran(cell)
    return _figures(world.tally, world, world.load)


def _ran(cell: Cell) -> World:
    host = HOSTS[cell.host]
    load = make_load(cell.load, host.setting, np.random.default_rng((cell.seed, 1)))
    world = World(host, load, cell.dram, np.random.default_rng((cell.seed, 2)))
    policy_named(cell.policy)(world)
    return world


def _figures(tally: Tally, world: World, load: Load) -> Figures:
    host = world.host
    gained_ns = tally.hits * (LOW_NS - TOP_NS) * host.scale - tally.looks_ns - tally.moves_ns
    return Figures(
        gap=gained_ns / (tally.accesses * (LOW_NS - TOP_NS) * host.scale),
        hits=tally.warm_hits / tally.warm_best,
        moved_s=tally.warm_moves / host.setting.pages / (host.run_s * 0.75),
        looks=tally.looks_ns / 1e9 / host.run_s,
        moves=tally.moves_ns / 1e9 / host.run_s,
        found_s=_found_s(tally, load) if load.at_once else None,
    )


def _found_s(tally: Tally, load: Load) -> float | None:
    """Get the longest time from a change until hits are at 90 % of the best, in seconds; None if they never are."""
    longest = 0.0
    begun, found = 0.0, False
    turn_s = load.turn_s or float("inf")
    for end_s, _, hits, best in tally.course:
        if end_s > begun + turn_s + 1e-6:
            if not found:
                return None
            begun, found = begun + turn_s, False
        if not found and hits >= _FOUND_SHARE * best:
            longest, found = max(longest, end_s - begun), True
    return longest if found or load.turn_s else None


def course(cell: Cell, points: int = 400) -> list[tuple[float, float]]:
    """Get seconds and the share of accesses to DRAM over the time of a run."""
    world = _ran(cell)
    each_s = world.host.run_s / points
    sums = np.zeros((points, 2))
    for end_s, accesses, hits, _ in world.tally.course:
        sums[min(int((end_s - 1e-9) / each_s), points - 1)] += (accesses, hits)
    return [((k + 1) * each_s, float(hits / accesses)) for k, (accesses, hits) in enumerate(sums) if accesses]


def run_all(cells: Sequence[Cell], jobs: int) -> Iterator[tuple[Cell, Figures]]:
    """Run all cells, a number of them in parallel; return results in order."""
    if jobs == 1:
        for cell in cells:
            yield cell, run(cell)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from zip(cells, pool.map(run, cells), strict=True)

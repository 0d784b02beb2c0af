# SPDX-License-Identifier: GPL-2.0
"""Simulated memory of two tiers, its time, and its counters; the policies are in policies.py."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from terrace.sim.loads import BLOCK, Load, Rates, Setting

TOP_NS, LOW_NS = 100.0, 250.0
MOVE_NS = 2500
LOOK_NS = 20
Pages = NDArray[np.intp]


@dataclass(frozen=True)
class Host:
    """A machine: one simulated page represents `scale` pages of it.

    `rate_s`: simulated pages that may be promoted in a second. `look_ns`: CPU time of the scan of a page of the
    machine; `flush_ns`: CPU time that a scan takes however few pages it has.
    """

    name: str
    setting: Setting
    scale: int
    rate_s: float
    run_s: float
    look_ns: int = LOOK_NS
    flush_ns: int = 0


#: A small busy process, and a large one of 64 GiB, with one page in 64 simulated.
HOSTS = {
    "L": Host("L", Setting(pages=65536, rate=400.0, turn_s=10.0), 1, 65536.0, 60.0),
    "S": Host("S", Setting(pages=262144, rate=12.0, turn_s=250.0), 64, 4096.0, 1000.0),
}
# A scan takes as long as in the lab, which has slow CPUs.
HOSTS["D"] = replace(HOSTS["L"], name="D", look_ns=100)
# A TLB flush takes as long as in an emulator, or in a VM whose CPUs do not run all the time.
HOSTS["E"] = replace(HOSTS["L"], name="E", flush_ns=2_000_000)
#: Hosts that are simulated by default.
USUAL_HOSTS = ("L", "S")


@dataclass
class Tally:
    """Result of a run. Accesses and moves are of simulated pages; CPU times are of the machine.

    `warm` is the part after the first quarter. `course` has an entry for each step: its end in seconds, accesses,
    accesses to DRAM, and accesses to DRAM with the best placement of the moment.
    """

    accesses: float = 0.0
    hits: float = 0.0
    best: float = 0.0
    moves: int = 0
    warm_moves: int = 0
    warm_hits: float = 0.0
    warm_best: float = 0.0
    looks_ns: float = 0.0
    moves_ns: float = 0.0
    course: list[tuple[float, float, float, float]] = field(default_factory=list)


class World:
    """Pages on two tiers under a load; DRAM has `room` pages, and is full of any pages, or of those of the load."""

    def __init__(self, host: Host, load: Load, dram: float, rng: np.random.Generator) -> None:
        self.host = host
        self.load = load
        self.rng = rng
        self.now_s = 0.0
        self.room = round(host.setting.pages * dram)
        self.top = np.zeros(host.setting.pages, dtype=np.bool_)
        first = rng.permutation(host.setting.pages) if load.first is None else load.first
        self.top[first[: self.room]] = True
        self.tally = Tally()
        self.watched: Pages = np.empty(0, dtype=np.intp)
        self.touched: Rates = np.empty(0)
        #: Expected number of accesses to each range since its last sweep. At first, all ranges count as just accessed.
        self.swept = np.full(host.setting.pages // BLOCK, np.inf)
        self._budget = 0.0
        # Loads may change which pages are hot, but not the rates of the hottest pages.
        rates = np.sort(load.rates(0.0))
        self._best = float(rates[len(rates) - self.room :].sum() / rates.sum())

    @property
    def free(self) -> int:
        """Number of pages that fit into DRAM without a demotion."""
        return self.room - int(self.top.sum())

    @property
    def warm(self) -> bool:
        """True if the first quarter of the run is over."""
        return self.now_s > self.host.run_s / 4

    @property
    def over(self) -> bool:
        """True if the run is over."""
        return self.now_s >= self.host.run_s - 1e-6

    def watch(self, pages: Pages) -> None:
        """Start to sum up the expected number of accesses to these pages in `touched`."""
        self.watched = pages
        self.touched = np.zeros(len(pages))

    def advance(self, seconds: float, depth_s: float = 0.1) -> None:
        """Let time pass, and fill up the migration budget, at most to the pages of `depth_s` seconds."""
        end_s = min(self.now_s + seconds, self.host.run_s)
        while self.now_s < end_s - 1e-9:
            step_s = min(end_s, self.load.change_s(self.now_s)) - self.now_s
            self._step(step_s)
            self._budget = min(self._budget + self.host.rate_s * step_s, self.host.rate_s * max(depth_s, 0.1))

    def _step(self, step_s: float) -> None:
        found = self.load.accesses(self.now_s, self.now_s + step_s)
        accesses, hits = float(found.sum()), float(found[self.top].sum())
        best = accesses * self._best
        self.touched += found[self.watched]
        self.swept += found.reshape(-1, BLOCK).sum(axis=1)
        tally = self.tally
        self.now_s += step_s
        tally.accesses += accesses
        tally.hits += hits
        tally.best += best
        if self.warm:
            tally.warm_hits += hits
            tally.warm_best += best
        tally.course.append((self.now_s, accesses, hits, best))

    def budget(self) -> int:
        """Get the number of pages that may be promoted now."""
        return int(self._budget)

    def looked(self, pages: int) -> int:
        """Charge the CPU time of a scan of some pages; returns ns."""
        spent = pages * self.host.scale * self.host.look_ns + self.host.flush_ns
        self.tally.looks_ns += spent
        return spent

    def exchange(self, up: Pages, down: Pages) -> None:
        """Promote and demote pages; the caller ensures that they fit into DRAM afterwards."""
        moves = len(up) + len(down)
        self.top[down] = False
        self.top[up] = True
        self._budget -= len(up)
        self.tally.moves += moves
        self.tally.moves_ns += moves * self.host.scale * MOVE_NS
        if self.warm:
            self.tally.warm_moves += moves

# SPDX-License-Identifier: GPL-2.0
"""Simulated memory of two tiers, its time, and what is counted; who decides what moves is another matter."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from terrace.sim.loads import Load, Rates, Setting

TOP_NS, LOW_NS = 100.0, 250.0
MOVE_NS = 2500
LOOK_NS = 20
Pages = NDArray[np.intp]


@dataclass(frozen=True)
class Host:
    """A machine: one simulated page stands for `scale` pages of it.

    `rate_s`: pages that may be promoted a second, of the simulated. `look_ns`: CPU time of a look at a page of
    the machine.
    """

    name: str
    setting: Setting
    scale: int
    rate_s: float
    run_s: float
    look_ns: int = LOOK_NS


#: A small process that is busy, and a large one of 64 GiB, of which one page in 64 is simulated.
HOSTS = {
    "L": Host("L", Setting(pages=65536, rate=400.0, turn_s=10.0), 1, 65536.0, 60.0),
    "S": Host("S", Setting(pages=262144, rate=12.0, turn_s=250.0), 64, 4096.0, 1000.0),
}
# Where a look takes as long as in the lab, whose CPUs are slow.
HOSTS["D"] = replace(HOSTS["L"], name="D", look_ns=100)
#: Those that are asked for without words.
USUAL_HOSTS = ("L", "S")


@dataclass
class Tally:
    """What a run has come to. Accesses and moves are of simulated pages; CPU times of the machine.

    `warm` is the part after the first quarter; `course` holds, a step each, its end in seconds, accesses, those that
    found DRAM, and those that would have with the best placement of the moment.
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
    """Pages on two tiers under a load; DRAM, `room` pages, is full of whatever came first, or as the load says."""

    def __init__(self, host: Host, load: Load, dram: float, rng: np.random.Generator) -> None:
        self.host = host
        self.load = load
        self.rng = rng
        self.now_s = 0.0
        self.room = round(host.setting.pages * dram)
        self.top = np.zeros(host.setting.pages, dtype=np.bool_)
        first = np.arange(host.setting.pages) if load.first is None else load.first
        self.top[rng.permutation(first)[: self.room]] = True
        self.tally = Tally()
        self.watched: Pages = np.empty(0, dtype=np.intp)
        self.touched: Rates = np.empty(0)
        self._budget = 0.0
        # Who is hot may change; how hot the hottest are does not, in any of the loads.
        rates = np.sort(load.rates(0.0))
        self._best = float(rates[len(rates) - self.room :].sum() / rates.sum())

    @property
    def free(self) -> int:
        """Pages that DRAM can take before anything has to leave it."""
        return self.room - int(self.top.sum())

    @property
    def warm(self) -> bool:
        """Is the first quarter of the run over?"""
        return self.now_s > self.host.run_s / 4

    @property
    def over(self) -> bool:
        """Is the run?"""
        return self.now_s >= self.host.run_s - 1e-6

    def watch(self, pages: Pages) -> None:
        """From now on accesses to these are added up in `touched`, as how many are expected."""
        self.watched = pages
        self.touched = np.zeros(len(pages))

    def advance(self, seconds: float, depth_s: float = 0.1) -> None:
        """Let time pass, and the mover's budget fill up, at most to what it may move in `depth_s`."""
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
        """Pages that may be promoted now."""
        return int(self._budget)

    def looked(self, pages: int) -> int:
        """Charge for looking at so many pages; returns ns."""
        spent = pages * self.host.scale * self.host.look_ns
        self.tally.looks_ns += spent
        return spent

    def exchange(self, up: Pages, down: Pages) -> None:
        """Promote and demote; the caller sees to it that DRAM is not overfull afterwards."""
        moves = len(up) + len(down)
        self.top[down] = False
        self.top[up] = True
        self._budget -= len(up)
        self.tally.moves += moves
        self.tally.moves_ns += moves * self.host.scale * MOVE_NS
        if self.warm:
            self.tally.warm_moves += moves

# SPDX-License-Identifier: GPL-2.0
"""Find the ranges in use and draw those that a burst scans, as sweep.c and sample.c do in the kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from terrace.sim.decision import LOW, TOP
from terrace.sim.loads import BLOCK
from terrace.sim.world import Pages, World

#: Time between two sweeps: `_LOOKS` times that between two looks, within bounds, in seconds.
_LOOKS, _LEAST_S, _MOST_S = 4, 0.1, 1.0
#: The longest such time while no slow memory is in use.
_QUIET_S = 0.25
#: Of a range in use one entry in this many is read, to see which side its pages are on.
_PEEK_STEP = 32

Ranges = NDArray[np.intp]


@dataclass
class Sample:
    """The pages that a burst scans, and of which side each may be counted: `sides[i]` has `TOP`, `LOW` or both."""

    pages: Pages
    sides: NDArray[np.bool_]
    drawn_low: int


class Sweeper:
    """The ranges of a world, and a round of draws for each side."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._nr = world.host.setting.pages // BLOCK
        self._next_s = 0.0
        self._order = world.rng.permutation(self._nr)
        # Half a round apart: what both sides are sampled from is not drawn twice at once.
        self._cursor = {TOP: self._nr // 2, LOW: 0}
        self._for = np.ones((2, self._nr), dtype=np.bool_)

    @property
    def in_use(self) -> int:
        """Ranges that are in use and have pages on the lower side."""
        return int(self._for[LOW].sum())

    @property
    def next_s(self) -> float:
        """The time of the next sweep."""
        return self._next_s

    def sweep(self, tau_s: float, used: bool = True) -> None:
        """Find the ranges in use if it is time for that; with `used` false all are taken for used."""
        world = self._world
        if world.now_s < self._next_s:
            return
        young = np.ones(self._nr, dtype=np.bool_)
        if used:
            young = world.rng.random(self._nr) < -np.expm1(-world.swept)
        world.swept[:] = 0
        first = int(world.rng.integers(_PEEK_STEP))
        top = world.top.reshape(self._nr, BLOCK)[:, first::_PEEK_STEP]
        self._for[LOW] = young & ~top.all(axis=1)
        self._for[TOP] = ~young | top.any(axis=1)
        most_s = _MOST_S if self.in_use else _QUIET_S
        self._next_s = world.now_s + min(max(_LOOKS * tau_s, _LEAST_S), most_s)

    def draw(self, pages: int, low_only: bool) -> Sample:
        """The next ranges of the round: half for each side, or what the other one does not need."""
        want = max(pages // BLOCK, 1 if low_only else 2)
        top = 0 if low_only else int(self._for[TOP].sum())
        low = min(self.in_use, want - min(top, want // 2))
        chosen = np.zeros((2, self._nr), dtype=np.bool_)
        for side, nr in ((LOW, low), (TOP, min(top, want - low))):
            chosen[side, self._take(side, nr)] = True
        at = np.flatnonzero(chosen.any(axis=0))
        pages_of = np.asarray((at[:, None] * BLOCK + np.arange(BLOCK)).ravel())
        sides = self._for[:, at].copy()
        sides[TOP] &= not low_only
        return Sample(pages_of, np.repeat(sides, BLOCK, axis=1), int(sides[LOW].sum()))

    def _take(self, side: int, nr: int) -> Ranges:
        """The next ranges of a side from its cursor on."""
        turn = np.roll(self._order, -self._cursor[side])
        places = np.flatnonzero(self._for[side][turn])[:nr]
        if len(places):
            self._cursor[side] = (self._cursor[side] + int(places[-1]) + 1) % self._nr
        return np.asarray(turn[places])

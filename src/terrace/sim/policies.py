# SPDX-License-Identifier: GPL-2.0
"""Policies of the simulation: no migration, one that has all rates, and place.c, whole or without one part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from terrace.errors import UsageError
from terrace.sim.decision import (
    AUDIT_AGES_S,
    AUDIT_EVERY,
    EARLY_PARTS,
    LOOKS,
    LOOKS_LEAST,
    LOW,
    TOP,
    Counts,
    Decision,
    Machine,
    RangeCounts,
    Swap,
)
from terrace.sim.loads import BLOCK, Rates
from terrace.sim.sweep import Sample, Sweeper
from terrace.sim.world import LOW_NS, MOVE_NS, TOP_NS, Pages, World
from terrace.words import did_you_mean

_RING = 512
#: Shortest wait for the next sweep if there is nothing to scan, in seconds.
_IDLE_S = 0.001
_AUDIT_OLD_S = 20.0
_FADE_S = 10.0
_DRAIN_S = 2.0
_INFORMED_STEPS = 2000
_HORIZON_S = 30.0
#: Share of the pages in the TLB. Without a flush, scans do not find them accessed again.
_TLB_SHARE = 1 / 11

#: Parts of the decision that can be removed, to measure their effect.
PARTS = {
    "sides": "one histogram for both tiers instead of one each",
    "ranges": "pages are taken for independent of the range that they are in",
    "jitter": "looks at even distances",
    "audit": "forecasts are believed, never checked",
    "early": "no pair is looked at so soon that few are found: those that all looks find are taken for used once",
    "flush": "no TLB flush after bits were cleared",
    "fixed": "the time of a TLB flush is taken for that of the pages of the burst",
    "sweep": "all ranges are taken for used: none is swept before any is drawn",
}

#: Assumed cost of a scan before the first measurement, as a factor of the real cost.
COSTS: dict[str, tuple[str, float]] = {
    "dear": ("looks are taken to cost 20 times what they do, until measured", 20.0),
    "cheap": ("looks are taken to cost a twentieth of what they do, until measured", 1 / 20),
}


def static(world: World) -> None:
    """Migrate no page."""
    while not world.over:
        world.advance(1.0)


def informed(world: World) -> None:
    """Decide with all rates and the time that they stay, and pay for migrations: no policy can do better."""
    saves_ns = LOW_NS - TOP_NS
    step_s = max(min(world.host.run_s / _INFORMED_STEPS, (world.load.turn_s or world.host.run_s) / 100), 0.05)
    while not world.over:
        rates = world.load.rates(world.now_s)
        lives_s = min(world.load.lives_s(world.now_s), _HORIZON_S)
        if np.ptp(rates) * lives_s * saves_ns <= 2 * MOVE_NS:
            world.advance(max(step_s, min(world.load.change_s(world.now_s) - world.now_s, 1.0)))
            continue
        up = _first(rates, ~world.top, world.budget(), -1)
        into, up = np.split(up, [min(world.free, len(up))])
        down = _first(rates, world.top, len(up), 1)
        up = up[: len(down)]
        pays = (rates[up] - rates[down]) * lives_s * saves_ns > 2 * MOVE_NS
        into = into[rates[into] * lives_s * saves_ns > MOVE_NS]
        world.exchange(np.concatenate((into, up[pays])), down[pays])
        world.advance(step_s, step_s)


def _first(rates: Rates, where: NDArray[np.bool_], nr: int, sign: int) -> Pages:
    """Get `nr` of the pages in `where` with the lowest `sign` times rate, in that order."""
    pages = np.flatnonzero(where)
    keys = sign * rates[pages]
    if nr < len(pages):
        part = np.argpartition(keys, nr)[:nr]
        pages, keys = pages[part], keys[part]
    return np.asarray(pages[np.argsort(keys, kind="stable")])


@dataclass
class _Pair:
    """Two exchanged pages that are re-checked later; `down` is None if free memory was used."""

    up: int
    down: int | None
    gap: float
    rate_s: float
    moved_s: float
    due_s: float


class Bursts:
    """place.c in a simulated world: the part of burst.c and of the migration code in the kernel."""

    def __init__(self, world: World, without: frozenset[str], cost: float) -> None:
        self.world = world
        self.without = without
        setting = world.host.setting
        self._machine = Machine(latency_ns=round(LOW_NS - TOP_NS), move_ns=MOVE_NS)
        self._machine.look_ns = max(round(world.host.look_ns * world.host.scale * cost), 1)
        self._sweeper = Sweeper(world)
        self._per_range = BLOCK
        self._measure()
        self.decision = Decision(self._machine)
        self._ring: list[_Pair] = []
        self._pairs = 0
        self._faded_s = 0.0
        self._hottest = setting.pages - round(setting.pages * _TLB_SHARE)

    def run(self) -> None:
        """Run bursts and rests until the run is over."""
        while not self.world.over:
            rest_s = self.burst() / 1e9
            self.world.advance(rest_s)
            self.decision.rested(round(rest_s * 1e9))
            while self.world.now_s >= self._faded_s + _FADE_S:
                self._faded_s += _FADE_S
                self.decision.fade()

    def _measure(self) -> None:
        """Update the number of pages on each tier."""
        self._machine.pages[TOP] = int(self.world.top.sum())
        low = self.world.host.setting.pages - self._machine.pages[TOP]
        self._machine.pages[LOW] = min(low, self._sweeper.in_use * self._per_range)
        self._machine.free = self.world.free

    def burst(self) -> int:
        """Run one burst of scans, and migrate pages; returns ns until the next burst."""
        world, decision = self.world, self.decision
        start_s = world.now_s
        sample = self._choose()
        watched = sample.pages
        if not len(watched):
            return round(max(self._sweeper.next_s - world.now_s, _IDLE_S) * 1e9)
        audited = [] if "audit" in self.without else self._due()
        extra = np.array([page for pair in audited for page in (pair.up, pair.down) if page is not None], dtype=np.intp)
        world.watch(np.concatenate((watched, extra)))
        scene = _Scene(sample, world.top, int(world.rng.integers(len(watched))))
        seen_low = int(scene.counts().pages[LOW][0])
        extra_hits = np.zeros(len(extra), dtype=np.int64)
        early_s = self._early(audited)
        spent = world.looked(len(world.watched))
        gain = 0
        looks = 0
        while looks < LOOKS and not world.over:
            self._pause(0.0 if looks else early_s)
            found = self._look()
            spent += world.looked(len(world.watched))
            looks += 1
            scene.count += found[: len(watched)]
            extra_hits += found[len(watched) :]
            decision.look(looks, self._counts(scene), None if "ranges" in self.without else scene.ranges())
            if looks < LOOKS_LEAST - (world.free > 0):
                continue
            now, drained = self._exchange(scene)
            gain += now
            if drained or decision.enough(looks, now, gain, spent):
                break
        self._judge(audited, extra_hits, looks)
        if sample.drawn_low:
            self._per_range = (self._per_range + 1 + seen_low // sample.drawn_low) // 2
        flush_ns = 0 if "fixed" in self.without else world.host.flush_ns
        decision.looked(spent, len(world.watched) * (looks + 1), looks + 1, flush_ns)
        return decision.end(gain, spent, round((world.now_s - start_s) * 1e9))

    def _choose(self) -> Sample:
        """Draw the sample of a burst: slow ranges in use, and fast ranges if pages may have to be demoted."""
        self._sweeper.sweep(self.decision.tau_s, "sweep" not in self.without)
        self._measure()
        return self._sweeper.draw(self.decision.pages(), self.world.free >= self._machine.pages[LOW])

    def _pause(self, passed_s: float) -> None:
        random = 1 << 31 if "jitter" in self.without else int(self.world.rng.integers(1 << 32))
        tau_s = self.decision.tau_s
        self.world.advance(self.decision.pause_ns(random) / 1e9 - passed_s, 1.5 * tau_s)

    def _look(self) -> NDArray[np.bool_]:
        """Read and clear the Accessed bits of the sample."""
        world = self.world
        found = world.rng.random(len(world.watched)) < -np.expm1(-world.touched)
        if "flush" in self.without:
            rates = world.load.rates(world.now_s)
            cut = np.partition(rates, self._hottest)[self._hottest]
            found &= rates[world.watched] < cut
        world.touched[:] = 0
        return found

    def _counts(self, scene: _Scene) -> Counts:
        """Get the access counts of the pages that have not migrated in this burst."""
        counts = scene.counts()
        if "sides" in self.without:
            for c in range(LOOKS + 1):
                both = counts.pages[TOP][c] + counts.pages[LOW][c]
                counts.pages[TOP][c] = counts.pages[LOW][c] = both
        return counts

    def _exchange(self, scene: _Scene) -> tuple[int, bool]:
        """Exchange the pages of a plan; returns the gain in ns, and whether the migration budget has ended the burst.

        Pairs beyond the budget wait for it, and the next burst waits with them. Otherwise scans would use CPU time
        for pages that cannot migrate.
        """
        world, decision = self.world, self.decision
        gain = 0
        until_s = world.now_s + _DRAIN_S
        drained = False
        while True:
            self._machine.free = world.free
            swaps, gain_ns, why = decision.plan(scene.counts(), world.budget())
            gain += gain_ns * world.host.scale
            for swap in swaps:
                self._swap(scene, swap)
            if why != "rate" or world.now_s >= until_s or world.over:
                return gain, drained
            drained = True
            world.advance(0.02)

    def _swap(self, scene: _Scene, swap: Swap) -> None:
        up = scene.take(LOW, swap.low, swap.pages)
        down = scene.take(TOP, swap.top, swap.pages) if swap.top is not None else np.empty(0, dtype=np.intp)
        self.world.exchange(up, down)
        for number in range(len(up)):
            self._pairs += 1
            if self._pairs % AUDIT_EVERY == 0 and len(self._ring) < _RING:
                partner = int(down[number]) if len(down) else None
                now_s = self.world.now_s
                age_s = AUDIT_AGES_S[self._pairs // AUDIT_EVERY % len(AUDIT_AGES_S)]
                self._ring.append(_Pair(int(up[number]), partner, swap.gap, swap.rate_s, now_s, now_s + age_s))

    def _due(self) -> list[_Pair]:
        """Get the pairs that are old enough for a re-check; pairs that are too old are dropped."""
        now_s = self.world.now_s
        due = [pair for pair in self._ring if pair.due_s <= now_s <= pair.moved_s + _AUDIT_OLD_S]
        self._ring = [pair for pair in self._ring if now_s < pair.due_s]
        return due

    def _early(self, audited: list[_Pair]) -> float:
        """Scan pairs at their first re-check so soon that few are found accessed; returns the seconds that passed.

        This measures how often they are used. The scans of a burst always find the hottest pages accessed, and
        count them too low.
        """
        young = [pair.due_s - pair.moved_s < AUDIT_AGES_S[1] for pair in audited]
        if "early" in self.without or not any(young):
            return 0.0
        world = self.world
        since_s = self.decision.tau_s / EARLY_PARTS
        world.advance(since_s)
        extra = world.touched[len(world.touched) - sum(1 + (pair.down is not None) for pair in audited) :]
        used = iter(world.rng.random(len(extra)) < -np.expm1(-extra))
        for pair, is_young in zip(audited, young, strict=True):
            hits = int(next(used)) - int(pair.down is not None and next(used))
            if is_young:
                self.decision.early(pair.rate_s, since_s, hits)
        return since_s

    def _judge(self, audited: list[_Pair], hits: NDArray[np.int64], looks: int) -> None:
        place = 0
        for pair in audited:
            more = int(hits[place])
            place += 1
            if pair.down is not None:
                more -= int(hits[place])
                place += 1
            self.decision.audit(self.world.now_s - pair.moved_s, pair.gap, looks, more)


class _Scene:
    """The pages of a burst: their tier at its start, their access counts, and whether they have migrated."""

    def __init__(self, sample: Sample, top: NDArray[np.bool_], start: int) -> None:
        pages = sample.pages
        self._pages = pages
        self._side = np.where(top[pages], TOP, LOW)
        # A range counts only for the tiers that it was drawn for.
        self._moved = ~sample.sides[self._side, np.arange(len(pages))]
        self._start = start
        self.count = np.zeros(len(pages), dtype=np.int64)

    def counts(self) -> Counts:
        """Count the pages that have not migrated, by tier and access count."""
        result = Counts()
        for side in (TOP, LOW):
            here = (self._side == side) & ~self._moved
            for c, nr in enumerate(np.bincount(self.count[here], minlength=LOOKS + 1)):
                result.pages[side][c] = int(nr)
        return result

    def ranges(self) -> RangeCounts:
        """Count the pages of each range that have not migrated, by tier and access count."""
        which = np.arange(len(self._pages)) // BLOCK * (LOOKS + 1) + self.count
        nr = len(self._pages) // BLOCK * (LOOKS + 1)
        here = {tier: (self._side == tier) & ~self._moved for tier in (TOP, LOW)}
        return {tier: np.bincount(which[where], minlength=nr).reshape(-1, LOOKS + 1) for tier, where in here.items()}

    def take(self, side: int, count: int, nr: int) -> Pages:
        """Take up to `nr` pages of a tier and access count, and record them as migrated."""
        found = np.flatnonzero((self._side == side) & (self.count == count) & ~self._moved)
        found = np.roll(found, -int(np.searchsorted(found, self._start)))[:nr]
        self._moved[found] = True
        return self._pages[found]


def place(world: World, without: frozenset[str] = frozenset(), cost: float = 1.0) -> None:
    """Decide with place.c; `without` names the PARTS that are removed, `cost` is a value of COSTS."""
    Bursts(world, without, cost).run()


def policy_named(name: str) -> Callable[[World], None]:
    """Get `static`, `informed`, `place`, or `place-NAME` of PARTS or COSTS. Raises UsageError, which names them."""
    known: dict[str, Callable[[World], None]] = {"static": static, "informed": informed, "place": place}
    known |= {f"place-{part}": partial(place, without=frozenset((part,))) for part in PARTS}
    known |= {f"place-{word}": partial(place, cost=cost) for word, (_, cost) in COSTS.items()}
    if name not in known:
        raise UsageError(f"no policy '{name}'; {did_you_mean(name, known)}there are {', '.join(known)}")
    return known[name]

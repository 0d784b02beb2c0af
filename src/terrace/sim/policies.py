# SPDX-License-Identifier: GPL-2.0
"""Who decides in the simulation: nobody, one who knows all rates, or place.c, whole or with a part taken out."""

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
    Swap,
)
from terrace.sim.loads import BLOCK, Rates
from terrace.sim.world import LOW_NS, MOVE_NS, TOP_NS, Pages, World
from terrace.words import did_you_mean

#: Of a range at least so many pages are looked at by `place-parts`, and of so many ranges at most; bursts of which so
#: many meet all there is have whole ranges. By so many parts another one is looked at than in the range before.
_PART_PAGES, _PARTS_MOST, _FEW_BURSTS, _PART_STEP = 64, 64, 16, 5
_RING = 512
_AUDIT_OLD_S = 20.0
_FADE_S = 10.0
_DRAIN_S = 2.0
_INFORMED_STEPS = 2000
_HORIZON_S = 30.0
#: Without a flush, what the TLB holds is not seen again: so large a share of the pages.
_TLB_SHARE = 1 / 11

#: Parts of the decision that can be taken out, to see what they are for.
PARTS = {
    "sides": "one histogram for both tiers instead of one each",
    "jitter": "looks at even distances",
    "audit": "forecasts are believed, never checked",
    "early": "no pair is looked at so soon that few are found: those that all looks find are taken for used once",
    "flush": "no TLB flush after bits were cleared",
}

#: What the kernel does not do, to see whether it would be better.
TRIED = {
    "parts": "a small burst looks at a part each of many ranges, not at few whole ones; not in the kernel",
}

#: What a look is taken to cost before any was measured, by its cost.
COSTS: dict[str, tuple[str, float]] = {
    "dear": ("looks are taken to cost 20 times what they do, until measured", 20.0),
    "cheap": ("looks are taken to cost a twentieth of what they do, until measured", 1 / 20),
}


def static(world: World) -> None:
    """Nothing moves."""
    while not world.over:
        world.advance(1.0)


def informed(world: World) -> None:
    """Who knows all rates, and how long they stay, and pays for moves: no policy can do better."""
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
    """So many of the pages there with the least of `sign` times their rate, in that order."""
    pages = np.flatnonzero(where)
    keys = sign * rates[pages]
    if nr < len(pages):
        part = np.argpartition(keys, nr)[:nr]
        pages, keys = pages[part], keys[part]
    return np.asarray(pages[np.argsort(keys, kind="stable")])


@dataclass
class _Pair:
    """Two pages that changed places, to be looked at again; `down` is None when free memory was taken."""

    up: int
    down: int | None
    gap: float
    rate_s: float
    moved_s: float
    due_s: float


class Bursts:
    """place.c in a world: what burst.c and the mover do in the kernel."""

    def __init__(self, world: World, without: frozenset[str], cost: float, tried: frozenset[str]) -> None:
        self.world = world
        self.without = without
        self.tried = tried
        setting = world.host.setting
        self._machine = Machine(latency_ns=round(LOW_NS - TOP_NS), move_ns=MOVE_NS)
        self._machine.look_ns = max(round(world.host.look_ns * world.host.scale * cost), 1)
        self._measure()
        self.decision = Decision(self._machine)
        self._ranges: list[int] = []
        self._round = 0
        self._ring: list[_Pair] = []
        self._pairs = 0
        self._faded_s = 0.0
        self._hottest = setting.pages - round(setting.pages * _TLB_SHARE)

    def run(self) -> None:
        """Bursts and rests until the run is over."""
        while not self.world.over:
            rest_s = self.burst() / 1e9
            self.world.advance(rest_s)
            self.decision.rested(round(rest_s * 1e9))
            while self.world.now_s >= self._faded_s + _FADE_S:
                self._faded_s += _FADE_S
                self.decision.fade()

    def _measure(self) -> None:
        """What lies where."""
        self._machine.pages[TOP] = int(self.world.top.sum())
        self._machine.pages[LOW] = self.world.host.setting.pages - self._machine.pages[TOP]
        self._machine.free = self.world.free

    def burst(self) -> int:
        """One burst of looks with what it moves; returns ns until the next."""
        world, decision = self.world, self.decision
        start_s = world.now_s
        self._measure()
        watched = self._choose(decision.pages())
        audited = [] if "audit" in self.without else self._due()
        extra = np.array([page for pair in audited for page in (pair.up, pair.down) if page is not None], dtype=np.intp)
        world.watch(np.concatenate((watched, extra)))
        scene = _Scene(watched, world.top, int(world.rng.integers(len(watched))))
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
            decision.look(looks, self._counts(scene))
            if looks < LOOKS_LEAST - (world.free > 0):
                continue
            now, drained = self._exchange(scene)
            gain += now
            if drained or decision.enough(looks, now, gain, spent):
                break
        self._judge(audited, extra_hits, looks)
        self._measure()
        decision.looked(spent, len(world.watched) * (looks + 1))
        return decision.end(gain, spent, round((world.now_s - start_s) * 1e9))

    def _choose(self, pages: int) -> Pages:
        """The next ranges of the shuffled list; of each the part whose turn it is in this round, or all."""
        ranges = self.world.host.setting.pages // BLOCK
        part = self._part(pages, ranges)
        wanted = min(max(pages // part, 1), ranges)
        chosen: list[int] = []
        while len(chosen) < wanted:
            if not self._ranges:
                self._ranges = [int(r) for r in self.world.rng.permutation(ranges) if r not in chosen]
                self._round += 1
            chosen.append(self._ranges.pop())
        at = np.array(sorted(chosen))
        first = (at * _PART_STEP + self._round) % (BLOCK // part) * part
        return np.asarray(((at * BLOCK + first)[:, None] + np.arange(part)).ravel())

    def _part(self, pages: int, ranges: int) -> int:
        """Of how many pages of a range a burst of so many consists."""
        if "parts" not in self.tried or pages * _FEW_BURSTS >= ranges * BLOCK:
            return BLOCK
        part = _PART_PAGES
        while part < BLOCK and pages > part * _PARTS_MOST:
            part *= 2
        return part

    def _pause(self, passed_s: float) -> None:
        random = 1 << 31 if "jitter" in self.without else int(self.world.rng.integers(1 << 32))
        tau_s = self.decision.tau_s
        self.world.advance(self.decision.pause_ns(random) / 1e9 - passed_s, 1.5 * tau_s)

    def _look(self) -> NDArray[np.bool_]:
        """Read and clear the Accessed bits of what is watched."""
        world = self.world
        found = world.rng.random(len(world.watched)) < -np.expm1(-world.touched)
        if "flush" in self.without:
            rates = world.load.rates(world.now_s)
            cut = np.partition(rates, self._hottest)[self._hottest]
            found &= rates[world.watched] < cut
        world.touched[:] = 0
        return found

    def _counts(self, scene: _Scene) -> Counts:
        """What a look tells of the pages that have not moved in this burst."""
        counts = scene.counts()
        if "sides" in self.without:
            for c in range(LOOKS + 1):
                both = counts.pages[TOP][c] + counts.pages[LOW][c]
                counts.pages[TOP][c] = counts.pages[LOW][c] = both
        return counts

    def _exchange(self, scene: _Scene) -> tuple[int, bool]:
        """Move what a plan says; gain in ns, and whether the mover's budget has ended the burst.

        Pairs beyond the budget wait for it, and so does the next burst: else the CPU time for looks would go into
        pages that nobody can move.
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
        """Pairs that are old enough to be looked at again; those too old are forgotten."""
        now_s = self.world.now_s
        due = [pair for pair in self._ring if pair.due_s <= now_s <= pair.moved_s + _AUDIT_OLD_S]
        self._ring = [pair for pair in self._ring if now_s < pair.due_s]
        return due

    def _early(self, audited: list[_Pair]) -> float:
        """Pairs due for the first time are looked at so soon that few are found; returns how many seconds passed.

        That tells how often they are used: by the looks of a burst the hottest are always found, and count too little.
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
    """The pages of a burst: where each lay at its start, how often it was found, and whether it has moved."""

    def __init__(self, pages: Pages, top: NDArray[np.bool_], start: int) -> None:
        self._pages = pages
        self._side = np.where(top[pages], TOP, LOW)
        self._moved = np.zeros(len(pages), dtype=np.bool_)
        self._start = start
        self.count = np.zeros(len(pages), dtype=np.int64)

    def counts(self) -> Counts:
        """Pages that have not moved, by side and count."""
        result = Counts()
        for side in (TOP, LOW):
            here = (self._side == side) & ~self._moved
            for c, nr in enumerate(np.bincount(self.count[here], minlength=LOOKS + 1)):
                result.pages[side][c] = int(nr)
        return result

    def take(self, side: int, count: int, nr: int) -> Pages:
        """So many pages of a side and count, which count as moved from now on."""
        found = np.flatnonzero((self._side == side) & (self.count == count) & ~self._moved)
        found = np.roll(found, -int(np.searchsorted(found, self._start)))[:nr]
        self._moved[found] = True
        return self._pages[found]


def place(
    world: World, without: frozenset[str] = frozenset(), cost: float = 1.0, tried: frozenset[str] = frozenset()
) -> None:
    """place.c decides; `without` names PARTS that are taken out, `tried` TRIED, `cost` is a value of COSTS."""
    Bursts(world, without, cost, tried).run()


def policy_named(name: str) -> Callable[[World], None]:
    """`static`, `informed`, `place`, or `place-NAME`, of PARTS, TRIED or COSTS. Raises UsageError, which names them."""
    known: dict[str, Callable[[World], None]] = {"static": static, "informed": informed, "place": place}
    known |= {f"place-{part}": partial(place, without=frozenset((part,))) for part in PARTS}
    known |= {f"place-{word}": partial(place, tried=frozenset((word,))) for word in TRIED}
    known |= {f"place-{word}": partial(place, cost=cost) for word, (_, cost) in COSTS.items()}
    if name not in known:
        raise UsageError(f"no policy '{name}'; {did_you_mean(name, known)}there are {', '.join(known)}")
    return known[name]

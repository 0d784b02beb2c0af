# SPDX-License-Identifier: GPL-2.0
"""Loads of the simulation: the access rate of each page, and its changes.

Accesses to a page are a Poisson process with the rate of that page. Hot pages are distributed
randomly, so that neighbours are independent, except in `blocks` and `nook`, where all pages of a
range have the same rate. A sweep visits its pages one after the other, each for a moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from terrace.errors import UsageError
from terrace.words import did_you_mean

Rates = NDArray[np.float64]
Rng = np.random.Generator
Pages = NDArray[np.intp]
#: Share of hot pages in loads with two rates, and their share of the accesses: 27 times the rate of
#: the others.
HOT_PAGES, HOT_ACCESSES = 0.25, 0.9
#: Share of the pages that are accessed at all: in loads with idle pages, and so few that they fit
#: into an eighth.
USED_PAGES, AMPLE_PAGES = 0.25, 0.1
_STEPS_A_TURN = 100
#: Pages of a range, which are scanned together.
BLOCK = 512
#: For a store that writes a log: values per page, places for them, and accesses until a value is
#: rewritten.
_VALUES, _SLOTS, _VALUE_LIVES = 3, 4, 20


class Load:
    """Constant rates; `turn_s`: in loads that change, the time after which all hot pages are different ones."""

    turn_s: float | None = None
    #: Whether the load starts in this state, or with all hot pages in slow memory.
    at_once = False
    #: Initial pages in DRAM, as many as fit, in this order; None: any pages.
    first: Pages | None = None

    def __init__(self, rates: Rates) -> None:
        self._rates = rates

    def rates(self, now_s: float) -> Rates:
        """Get accesses per second of each page."""
        del now_s
        return self._rates

    def change_s(self, now_s: float) -> float:
        """Get the time of the next change of rates after `now_s`."""
        del now_s
        return float("inf")

    def lives_s(self, now_s: float) -> float:
        """Get how long a hot page stays hot, for a policy that knows the load: the time in which a
        migration can pay back.
        """
        return self.change_s(now_s) - now_s

    def accesses(self, start_s: float, end_s: float) -> Rates:
        """Get the expected accesses to each page in a time with constant rates."""
        return self.rates(start_s) * (end_s - start_s)


class _Phases(Load):
    """Hot pages that change every `every_s` seconds, in groups of `together` neighbours."""

    def __init__(self, rates: Rates, every_s: float, rng: Rng, together: int = 1) -> None:
        super().__init__(rates)
        self.turn_s = every_s
        self.at_once = True
        self._every_s = every_s
        self._rng = rng
        self._together = together
        self._phase = 0

    def rates(self, now_s: float) -> Rates:
        phase = int(now_s / self._every_s + 1e-9)
        while self._phase < phase:
            self._rates = np.repeat(self._rng.permutation(self._rates[:: self._together]), self._together)
            self._phase += 1
        return self._rates

    def change_s(self, now_s: float) -> float:
        return (int(now_s / self._every_s + 1e-9) + 1) * self._every_s


class _Drift(Load):
    """Hot pages that cool down a few at a time, in exchange for others; all within `turn_s` seconds."""

    def __init__(self, rates: Rates, turn_s: float, rng: Rng) -> None:
        super().__init__(rates.copy())
        self.turn_s = turn_s
        self._lives_s = turn_s / 2
        self._order = rng.permutation(np.flatnonzero(rates == rates.max()))
        self._cold = rng.permutation(np.flatnonzero(rates < rates.max()))
        self._each = max(1, len(self._order) // _STEPS_A_TURN)
        self._step_s = turn_s * self._each / len(self._order)
        self._done = 0

    def rates(self, now_s: float) -> Rates:
        while self._done < int(now_s / self._step_s + 1e-9):
            out, come = self._order[: self._each], self._cold[: self._each]
            self._rates[out], self._rates[come] = self._rates[come], self._rates[out]
            self._order = np.concatenate((self._order[self._each :], come))
            self._cold = np.concatenate((self._cold[self._each :], out))
            self._done += 1
        return self._rates

    def change_s(self, now_s: float) -> float:
        return (int(now_s / self._step_s + 1e-9) + 1) * self._step_s

    def lives_s(self, now_s: float) -> float:
        return self._lives_s


class _Sweep(Load):
    """Pages with constant rates, and others that a sweep visits once in `pass_s` seconds."""

    def __init__(self, rates: Rates, swept: NDArray[np.intp], accesses_s: float, pass_s: float) -> None:
        """`swept`: in the order of the sweep; they get `accesses_s` accesses per second in total."""
        steady = rates.copy()
        mean = rates.copy()
        mean[swept] += accesses_s / len(swept)
        super().__init__(mean)
        self._steady = steady
        self._swept = swept
        self._pass_s = pass_s
        self._each = accesses_s * pass_s / len(swept)

    def accesses(self, start_s: float, end_s: float) -> Rates:
        found = self._steady * (end_s - start_s)
        pages = len(self._swept)
        passed = int(end_s / self._pass_s * pages) - int(start_s / self._pass_s * pages)
        whole, part = divmod(passed, pages)
        first = int(start_s / self._pass_s * pages) % pages
        found[self._swept] += whole * self._each
        found[self._swept[(first + np.arange(part)) % pages]] += self._each
        return found


class _Log(Load):
    """Values that are rewritten in the next free place of the log, each after a number of accesses."""

    def __init__(self, pages: int, accesses_s: float, step_s: float, rng: Rng) -> None:
        self._rng = rng
        self._step_s = step_s
        self._values = _zipf(_VALUES * pages, 0.99) * (accesses_s / (_VALUES * pages))
        self._moves = -np.expm1(-self._values * step_s / _VALUE_LIVES)
        self._page = rng.permutation(np.repeat(np.arange(pages), _SLOTS))[: len(self._values)]
        self._free = _SLOTS - np.bincount(self._page, minlength=pages)
        self._next = 0
        self._done = 0
        super().__init__(self._sum())

    def _sum(self) -> Rates:
        return np.asarray(np.bincount(self._page, self._values, minlength=len(self._free)))

    def _write(self) -> None:
        """Move the values that are due to the next free slots, which frees their old ones."""
        moved = np.flatnonzero(self._rng.random(len(self._values)) < self._moves)
        order = np.roll(np.arange(len(self._free)), -self._next)
        slots = np.repeat(order, self._free[order])
        moved = self._rng.permutation(moved)[: len(slots)]
        if not len(moved):
            return
        there = slots[: len(moved)]
        np.subtract.at(self._free, there, 1)
        np.add.at(self._free, self._page[moved], 1)
        self._page[moved] = there
        self._next = int(there[-1])

    def rates(self, now_s: float) -> Rates:
        steps = int(now_s / self._step_s + 1e-9) - self._done
        for _ in range(steps):
            self._write()
        if steps > 0:
            self._rates = self._sum()
            self._done += steps
        return self._rates

    def change_s(self, now_s: float) -> float:
        return (int(now_s / self._step_s + 1e-9) + 1) * self._step_s

    def lives_s(self, now_s: float) -> float:
        del now_s
        return float(_VALUE_LIVES * _VALUES / self._rates.mean())


def _two_heats(pages: int, hot: float, accesses: float) -> Rates:
    """Rates with mean 1: a share `hot` of the pages has a share `accesses` of the accesses."""
    split = round(pages * hot)
    rates = np.full(pages, (1 - accesses) * pages / (pages - split))
    rates[:split] = accesses * pages / split
    return rates


def _zipf(pages: int, exponent: float) -> Rates:
    """Rates with mean 1: that of the k-th page is proportional to k^-exponent."""
    rates = np.arange(1, pages + 1) ** -exponent
    return np.asarray(rates * (pages / rates.sum()), dtype=np.float64)


def _levels(pages: int, parts: tuple[tuple[float, float], ...]) -> Rates:
    """Rates with mean 1 of several levels, given as (share of pages, share of accesses)."""
    return np.concatenate([np.full(round(pages * size), share / size) for size, share in parts])


def _tenants(pages: int) -> Rates:
    """Two tenants with half of the pages each, both skewed, one with four times as many accesses."""
    half = _zipf(pages // 2, 0.99)
    return np.concatenate((half * 1.6, half * 0.4))


@dataclass(frozen=True)
class Setting:
    """Parameters of a load: number of pages, accesses per second and page, seconds until all that
    changes has changed.
    """

    pages: int
    rate: float
    turn_s: float


def _steady(make: Callable[[int], Rates]) -> Callable[[Setting, Rng], Load]:
    return lambda at, rng: Load(rng.permutation(make(at.pages)) * at.rate)


def _hot(at: Setting, rng: Rng, hot: float = HOT_PAGES) -> Rates:
    return rng.permutation(_two_heats(at.pages, hot, HOT_ACCESSES)) * at.rate


def _sweep(pass_s: float) -> Callable[[Setting, Rng], Load]:
    """A quarter of the pages has 6 of 10 accesses; the sweep over all others has the rest."""

    def make(at: Setting, rng: Rng) -> Load:
        order = rng.permutation(at.pages)
        hot, swept = order[: at.pages // 4], order[at.pages // 4 :]
        rates = np.zeros(at.pages)
        rates[hot] = 0.6 * at.rate * at.pages / len(hot)
        return _Sweep(rates, swept, 0.4 * at.rate * at.pages, pass_s)

    return make


def _pass(pass_s: float) -> Callable[[Setting, Rng], Load]:
    """All pages are used alike, one after the other. The first of them are in DRAM."""

    def make(at: Setting, _: Rng) -> Load:
        pages = np.arange(at.pages)
        load = _Sweep(np.zeros(at.pages), pages, at.rate * at.pages, pass_s)
        load.first = pages
        return load

    return make


def _used(at: Setting, rng: Rng, share: float, make: Callable[[int], Rates]) -> tuple[Rates, Pages]:
    """Rates of which only a share of the pages has any, as high as in other loads; and the idle pages."""
    order = rng.permutation(at.pages)
    used, idle = np.split(order, [round(at.pages * share)])
    rates = np.zeros(at.pages)
    rates[used] = make(len(used)) * at.rate
    return rates, idle


def _begins(load: Load, first: Pages) -> Load:
    """Start with the used pages in slow memory and `first` in DRAM: they have to be found, as after a change."""
    load.first = first
    load.at_once = True
    return load


def _idle(at: Setting, rng: Rng) -> Load:
    rates, idle = _used(at, rng, USED_PAGES, lambda n: _zipf(n, 0.99))
    return _begins(Load(rates), idle)


def _idle_phase(at: Setting, rng: Rng) -> Load:
    rates, idle = _used(at, rng, USED_PAGES, lambda n: _two_heats(n, HOT_PAGES, HOT_ACCESSES))
    return _begins(_Phases(rates, at.turn_s, rng), idle)


def _ample(at: Setting, rng: Rng) -> Load:
    rates, _ = _used(at, rng, AMPLE_PAGES, lambda n: _zipf(n, 0.99))
    return _begins(Load(rates), np.empty(0, dtype=np.intp))


def _blocks(at: Setting, rng: Rng) -> Load:
    heats = rng.permutation(_two_heats(at.pages // BLOCK, 0.1, HOT_ACCESSES)) * at.rate
    return _Phases(np.repeat(heats, BLOCK), at.turn_s, rng, BLOCK)


def _nook(at: Setting, rng: Rng) -> Load:
    order = rng.permutation(at.pages // BLOCK)
    blocks = order[: max(len(order) // 16, 2)]
    rates = np.zeros((at.pages // BLOCK, BLOCK))
    rates[blocks[: len(blocks) // 2]] = at.rate
    above = np.ones_like(rates, dtype=np.bool_)
    above[blocks] = False
    return _begins(Load(rates.ravel()), np.flatnonzero(above.ravel()))


#: Description and constructor of each load.
LOADS: dict[str, tuple[str, Callable[[Setting, Rng], Load]]] = {
    "uniform": ("all pages alike", _steady(np.ones)),
    "zipf0.8": ("zipf, exponent 0.8", _steady(lambda n: _zipf(n, 0.8))),
    "zipf0.99": ("zipf, exponent 0.99", _steady(lambda n: _zipf(n, 0.99))),
    "zipf1.2": ("zipf, exponent 1.2", _steady(lambda n: _zipf(n, 1.2))),
    "multi": (
        "five heats, each several times the next",
        _steady(lambda n: _levels(n, ((0.03125, 0.5), (0.0625, 0.3), (0.15625, 0.14), (0.25, 0.05), (0.5, 0.01)))),
    ),
    "tenants": ("two tenants, zipf 0.99 each, one four times as busy", _steady(_tenants)),
    "phase25": (
        "a quarter of the pages has 9 of 10 accesses, now and then another one",
        lambda at, rng: _Phases(_hot(at, rng), at.turn_s, rng),
    ),
    "phase10": (
        "a tenth of the pages has 9 of 10 accesses, now and then another one",
        lambda at, rng: _Phases(_hot(at, rng, 0.1), at.turn_s, rng),
    ),
    "drift": (
        "a quarter of the pages has 9 of 10 accesses, and is another one little by little",
        lambda at, rng: _Drift(_hot(at, rng), at.turn_s, rng),
    ),
    "stream": ("a sweep in 2 s and a hot quarter", _sweep(2.0)),
    "sweep0.05": ("a sweep in 0.05 s and a hot quarter", _sweep(0.05)),
    "sweep0.2": ("a sweep in 0.2 s and a hot quarter", _sweep(0.2)),
    "sweep0.5": ("a sweep in 0.5 s and a hot quarter", _sweep(0.5)),
    "sweep8": ("a sweep in 8 s and a hot quarter", _sweep(8.0)),
    "pass": ("a program that goes over all of its memory in 0.02 s, page after page", _pass(0.02)),
    "short": (
        "a hot quarter that is another one every second",
        lambda at, rng: _Phases(_hot(at, rng), 1.0, rng),
    ),
    "log": (
        "a store with zipf 0.99 keys, whose values are written to another place after 20 accesses",
        lambda at, rng: _Log(at.pages, at.pages * at.rate, at.turn_s / (2 * _STEPS_A_TURN), rng),
    ),
    "light": (
        "zipf, exponent 0.99, with a hundredth of the accesses",
        lambda at, rng: Load(rng.permutation(_zipf(at.pages, 0.99)) * at.rate / 100),
    ),
    "idle": ("zipf, exponent 0.99, of a quarter of the pages; the others are idle, and fill DRAM at first", _idle),
    "idle-phase": (
        "a quarter of the pages is accessed, and a quarter of these has 9 of 10 accesses; now and then others",
        _idle_phase,
    ),
    "blocks": (
        f"a tenth of the ranges, {BLOCK} pages each, has 9 of 10 accesses, now and then another one",
        _blocks,
    ),
    "nook": (
        f"a sixteenth of the ranges, {BLOCK} pages each, lies in slow memory, half of them used; all in DRAM is idle",
        _nook,
    ),
    "ample": ("zipf, exponent 0.99, of a tenth of the pages, in slow memory at first; DRAM is free", _ample),
}


def make_load(name: str, at: Setting, rng: Rng) -> Load:
    """Create one of LOADS. Raises UsageError with their names."""
    if name not in LOADS:
        raise UsageError(f"no load '{name}'; {did_you_mean(name, LOADS)}there are {', '.join(LOADS)}")
    return LOADS[name][1](at, rng)

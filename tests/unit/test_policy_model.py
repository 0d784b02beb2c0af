# SPDX-License-Identifier: GPL-2.0
"""The kernel's policy.c against a model in exact arithmetic.

policy.c is compiled into a shared object in a temporary folder, with the
undefined-behaviour sanitizer in it: should it ever fire, it names the line and
ends the whole test run.  The model keeps unbounded integers and fractions where
C keeps packed fields, wrapping ticks and saturating words.
"""

from __future__ import annotations

import ctypes as c
import functools
import subprocess
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor
from pathlib import Path

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

REPO = Path(__file__).parents[2]
SETTINGS = settings(
    database=None, deadline=None, max_examples=150, stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow]
)

U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1
WRAP = 2**14
SLACK = 64
WINDOW_MAX = WRAP // 2
SECOND = 10**9

u8s = st.integers(0, 255)
u32s = st.integers(0, U32_MAX) | st.integers(0, 40)
u64s = st.integers(0, U64_MAX) | st.integers(0, 40) | st.integers(0, 64).map(lambda k: min(2**k, U64_MAX))


class HotParams(c.Structure):
    _fields_ = [("window_ticks", c.c_uint32), ("accesses", c.c_uint8), ("room", c.c_bool), ("full", c.c_bool)]


class Pace(c.Structure):
    _fields_ = [("period_ms", c.c_uint32), ("size_mb", c.c_uint32), ("useful", c.c_bool)]


class Bounds(c.Structure):
    _fields_ = [(name, c.c_uint32) for name in ("period_min_ms", "period_max_ms", "size_min_mb", "size_max_mb")]


class Bucket(c.Structure):
    _fields_ = [("tokens", c.c_int64), ("stamp_ns", c.c_uint64)]


u8_, u32_, u64_, bool_ = c.c_uint8, c.c_uint32, c.c_uint64, c.c_bool
SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "mtier_tick": (u32_, [u64_]),
    "mtier_window_ticks": (u32_, [u32_]),
    "mtier_rec_touch": (u32_, [u32_, u32_, c.POINTER(HotParams), c.POINTER(c.c_int)]),
    "mtier_rec_told": (u32_, [u32_, u32_, c.POINTER(HotParams)]),
    "mtier_rec_heat": (u32_, [u32_, u32_, u32_]),
    "mtier_rec_is_hot": (bool_, [u32_, u32_, c.POINTER(HotParams)]),
    "mtier_rec_age": (u32_, [u32_, u32_, u32_]),
    "mtier_rec_freq": (u8_, [u32_]),
    "mtier_room": (bool_, [u64_, u64_, u64_, u32_]),
    "mtier_window_adjust": (u32_, [u32_, u32_, u64_, u64_]),
    "mtier_pace_init": (None, [c.POINTER(Pace), u32_, u32_, c.POINTER(Bounds)]),
    "mtier_pace_adapt": (None, [c.POINTER(Pace), bool_, c.POINTER(Bounds)]),
    "mtier_pace_backoff": (None, [c.POINTER(Pace), c.POINTER(Bounds)]),
    "mtier_pace_scale": (u32_, [u32_, u32_]),
    "mtier_probe_ms": (u32_, [u32_]),
    "mtier_probe_start": (u32_, [u64_, u64_]),
    "mtier_probe_adapt": (u32_, [u32_, u64_, u64_, u64_]),
    "mtier_probe_window_ms": (u32_, [u32_, u32_]),
    "mtier_visit_mb": (u32_, [u32_, u32_, c.POINTER(Bounds)]),
    "mtier_cold_look": (u32_, [u32_, u32_, bool_, c.POINTER(HotParams), c.POINTER(bool_)]),
    "mtier_cold_window_ms": (u32_, [u32_, u32_]),
    "mtier_exchange_accesses": (u8_, [u32_, bool_]),
    "mtier_may_queue": (bool_, [u64_, u64_, bool_]),
    "mtier_cpu_pause_ns": (u64_, [u64_, u32_]),
    "mtier_pressure": (bool_, [u64_, u64_, bool_]),
    "mtier_weights_add": (None, [c.POINTER(u32_), c.c_uint, c.c_uint, u32_]),
    "mtier_weights_decay": (None, [c.POINTER(u32_), c.c_uint]),
    "mtier_weights_mix": (None, [c.POINTER(u32_), c.POINTER(u32_), c.POINTER(u32_), c.c_uint]),
    "mtier_bucket_pay": (u64_, [c.POINTER(Bucket), u64_, u64_, u64_, u64_]),
    "mtier_target_pick": (c.c_int, [c.POINTER(u32_), c.POINTER(u32_), c.c_uint]),
}


@functools.cache
def lib() -> c.CDLL:
    """policy.c, compiled and loaded once."""
    with tempfile.TemporaryDirectory(prefix="terrace-policy-") as out:
        make = ["make", "-s", "-C", str(REPO / "linux/tools/testing/mtier"), f"O={out}", "libpolicy.so"]
        subprocess.run(make, check=True)
        loaded = c.CDLL(str(Path(out) / "libpolicy.so"))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def array(values: Sequence[int]) -> c.Array[c.c_uint32]:
    return (c.c_uint32 * len(values))(*values)


def clamp(value: int, least: int, most: int) -> int:
    return min(max(value, least), most)


# ---- record -----------------------------------------------------------------


class RecordMachine(RuleBasedStateMachine):
    """One record through any life, its model beside it."""

    window: int
    accesses: int

    @initialize(window=st.integers(0, 2 * WINDOW_MAX), accesses=st.integers(0, 15), start=u32s)
    def begin(self, window: int, accesses: int, start: int) -> None:
        self.window = window
        self.accesses = accesses
        self.now = start
        self.rec = 0
        self.last = self.count = 0

    def heat(self, now: int) -> int:
        window = clamp(self.window, 1, WINDOW_MAX)
        rest = max(now - self.last, 0)
        return ceil(Fraction(self.count * (window - rest), window)) if rest < window else 0

    def params(self, room: bool) -> HotParams:
        return HotParams(self.window, self.accesses, room)

    @rule(ahead=st.integers(0, 20) | st.integers(0, WRAP // 4))
    def time_passes(self, ahead: int) -> None:
        """... and every record is aged once in a quarter of the wrap."""
        self.now += ahead
        self.rec = lib().mtier_rec_age(self.rec, self.now & U32_MAX, self.window)
        if not self.heat(self.now):
            self.count = 0

    @rule(room=st.booleans(), behind=st.integers(0, SLACK // 2))
    def touch(self, room: bool, behind: int) -> None:
        now = max(self.now - behind, 0)
        verdict = c.c_int(-1)
        params = self.params(room)
        self.rec = lib().mtier_rec_touch(self.rec, now & U32_MAX, params, verdict)
        heat = self.heat(now)
        if not heat or now > self.last:
            heat, self.last = min(heat + 1, 15), now
        self.count = heat
        assert verdict.value == (room or heat >= self.accesses)
        assert lib().mtier_rec_is_hot(self.rec, now & U32_MAX, params) == verdict.value

    @rule(behind=st.integers(0, SLACK // 2))
    def told(self, behind: int) -> None:
        now = max(self.now - behind, 0)
        self.rec = lib().mtier_rec_told(self.rec, now & U32_MAX, self.params(False))
        heat = self.heat(now)
        if not heat or now > self.last:
            heat, self.last = min(heat + 1, 15), now
        self.count = max(heat, self.accesses, 1)

    @invariant()
    def agrees(self) -> None:
        now = self.now & U32_MAX
        heat = self.heat(self.now)
        assert (self.rec != 0) == (self.count > 0)
        assert lib().mtier_rec_heat(self.rec, now, self.window) == heat
        assert lib().mtier_rec_freq(self.rec) == self.count
        for room in (False, True):
            hot = heat > 0 and (room or self.count >= self.accesses)
            assert lib().mtier_rec_is_hot(self.rec, now, self.params(room)) == hot


TestRecord = RecordMachine.TestCase
TestRecord.settings = SETTINGS


@SETTINGS
@given(start=u64s, apart=st.integers(0, 600_000))
def test_window_covers_its_ms(start: int, apart: int) -> None:
    assume(start + apart <= U64_MAX)
    ticks = lib().mtier_tick(start + apart) - lib().mtier_tick(start) & U32_MAX
    assert ticks < lib().mtier_window_ticks(apart) <= ticks + 2


# ---- window -----------------------------------------------------------------


@SETTINGS
@given(free=u64s, wmark=u64s, size=u64s, percent=st.integers(0, 110))
def test_room(free: int, wmark: int, size: int, percent: int) -> None:
    expected = percent < 100 and free > wmark and free - wmark > size * percent // 100
    assert lib().mtier_room(free, wmark, size, percent) == expected


@SETTINGS
@given(cur=u32s, ref=u32s, budget=u64s, percent=st.integers(80, 120), other=st.none() | u64s)
def test_window_adjust(cur: int, ref: int, budget: int, percent: int, other: int | None) -> None:
    candidates = min(budget * percent // 100, U64_MAX) if other is None else other
    least, most = max(ref // 16, 1), max(min(2 * ref, U32_MAX), 1)
    step = max(ref // 8, 1)
    window = clamp(cur or ref, least, most)
    # where the sum does not fit into 64 bits no demand can exceed it
    if candidates > budget + budget // 10:
        window -= step
    elif candidates < budget - budget // 10:
        window += step
    assert lib().mtier_window_adjust(cur, ref, candidates, budget) == clamp(window, least, most)


# ---- pace -------------------------------------------------------------------

FACTORS = {(True, True): (-15, Fraction(2)), (False, False): (15, Fraction(1, 2))}


def model_adapt(pace: Pace, useful: bool, bounds: Bounds) -> tuple[int, int]:
    """Period in ms and size in MiB after a visit."""
    period, size = int(pace.period_ms), int(pace.size_mb)
    if (pace.useful, useful) in FACTORS:
        percent, factor = FACTORS[pace.useful, useful]
        period += ceil(Fraction(period * abs(percent), 100)) * (1 if percent > 0 else -1)
        size = floor(size * factor)
    elif useful:
        period, size = period // 8, int(bounds.size_max_mb)
    else:
        period *= 8
    return (
        clamp(period, bounds.period_min_ms, bounds.period_max_ms),
        clamp(size, bounds.size_min_mb, bounds.size_max_mb),
    )


@SETTINGS
@given(periods=st.tuples(u32s, u32s), sizes=st.tuples(u32s, u32s), start=st.tuples(u32s, u32s), visits=st.lists(u8s))
def test_pace(periods: tuple[int, int], sizes: tuple[int, int], start: tuple[int, int], visits: list[int]) -> None:
    bounds = Bounds(*sorted(periods), *sorted(sizes))
    pace = Pace(0, 0, True)
    lib().mtier_pace_init(pace, *start, bounds)
    period = clamp(start[0], *sorted(periods))
    assert (pace.period_ms, pace.size_mb, pace.useful) == (period, clamp(start[1], *sorted(sizes)), False)
    for visit in visits:
        useful, failed = bool(visit & 1), visit & 6 == 6
        period, size = model_adapt(pace, useful, bounds)
        lib().mtier_pace_adapt(pace, useful, bounds)
        if failed:
            period = clamp(2 * period, *sorted(periods))
            lib().mtier_pace_backoff(pace, bounds)
        assert (pace.period_ms, pace.size_mb, pace.useful) == (period, size, useful)


@SETTINGS
@given(period=u32s, scale=st.integers(0, 20))
def test_pace_scale(period: int, scale: int) -> None:
    expected = clamp(period * 5 // min(scale, 10), 1, U32_MAX) if scale else U32_MAX
    assert lib().mtier_pace_scale(period, scale) == expected


@SETTINGS
@given(ran=u64s, percent=st.integers(0, 110))
def test_cpu_pause(ran: int, percent: int) -> None:
    percent = clamp(percent, 1, 100)
    ran = min(ran, U64_MAX // 100)
    assert lib().mtier_cpu_pause_ns(ran, percent) == ceil(Fraction(ran * (100 - percent), percent))


@SETTINGS
@given(cap=st.integers(1, U64_MAX) | st.integers(1, 9), fills=st.lists(u64s))
def test_pressure(cap: int, fills: list[int]) -> None:
    pressed = False
    for fill in fills:
        if Fraction(fill, cap) >= Fraction(3, 4):
            expected = True
        elif Fraction(fill, cap) <= Fraction(1, 2):
            expected = False
        else:
            expected = pressed
        pressed = lib().mtier_pressure(fill, cap, pressed)
        assert pressed == expected


# ---- choose -----------------------------------------------------------------

PROBE_MAX = 7


@SETTINGS
@given(level=u32s)
def test_probe_ms(level: int) -> None:
    expected = 256 / 2**level if level < 100 else 0
    assert lib().mtier_probe_ms(level) == (expected if expected >= 4 else 0)


@SETTINGS
@given(mapped=u64s, room=u64s)
def test_probe_start(mapped: int, room: int) -> None:
    assert lib().mtier_probe_start(mapped, room) == (PROBE_MAX if mapped > room else 0)


@SETTINGS
@given(level=u32s, found=u64s, seen=u64s, room=u64s)
def test_probe_adapt(level: int, found: int, seen: int, room: int) -> None:
    level = min(level, PROBE_MAX)
    step = 0
    if found > room and found > seen // 8:
        step = 2 if found > seen // 2 else 1
    elif found <= room // 4:
        step = level // 2 - level
    elif found <= room or found < seen // 32:
        step = -1
    assert lib().mtier_probe_adapt(level, found, seen, room) == clamp(level + step, 0, PROBE_MAX)


@SETTINGS
@given(hot=st.integers(1, 2000), warm_per_hot=st.integers(8, 30), every_ms=st.integers(5, 1000))
def test_probe_finds_the_hot(hot: int, warm_per_hot: int, every_ms: int) -> None:
    """Some pages are always in use, the others once in `every_ms`: of those few are found in the end."""
    warm = hot * warm_per_hot
    level, found = 0, hot + warm
    for _ in range(20):
        time_ms = lib().mtier_probe_ms(level) if level else 10**6
        found = hot + warm * min(time_ms, every_ms) // every_ms
        level = lib().mtier_probe_adapt(level, found, hot + warm, 0)
    assert hot <= found <= (hot + warm) // 8


@SETTINGS
@given(look=u32s, accesses=u32s)
def test_probe_window(look: int, accesses: int) -> None:
    gaps = max(accesses, 2) - 1
    expected = min((look + 128) * gaps + look // 2 + 128, U32_MAX)
    assert lib().mtier_probe_window_ms(look, accesses) == expected


@SETTINGS
@given(pace=u32s, mapped=u32s, largest=u32s)
def test_visit_mb(pace: int, mapped: int, largest: int) -> None:
    expected = max(pace, min(-(-mapped // 16), largest))
    assert lib().mtier_visit_mb(pace, mapped, Bounds(size_max_mb=largest)) == expected


@SETTINGS
@given(fill=u64s, batch=u64s, full=st.booleans())
def test_may_queue(fill: int, batch: int, full: bool) -> None:
    assert lib().mtier_may_queue(fill, batch, full) == (not full or fill < batch)


@SETTINGS
@given(wanted=st.integers(1, 15), gap=st.integers(1, 60), idle=st.lists(st.booleans(), max_size=60))
def test_cold_look(wanted: int, gap: int, idle: list[bool]) -> None:
    """Looks `gap` ticks apart: a page is cold after so many idle ones in a row, until one that is not."""
    window = lib().mtier_window_ticks(lib().mtier_cold_window_ms(gap * 128, wanted))
    params = HotParams(window, wanted, True, True)
    cold = c.c_bool()
    record = row = 0
    for number, was_idle in enumerate(idle):
        record = lib().mtier_cold_look(record, 5000 + number * gap, was_idle, params, cold)
        row = row + 1 if was_idle else 0
        assert cold.value == (row >= wanted)
        assert was_idle or record == 0


@SETTINGS
@given(look=u32s, looks=st.integers(0, 15))
def test_cold_window(look: int, looks: int) -> None:
    assert lib().mtier_cold_window_ms(look, looks) == min(4 * looks * max(look, 256), 2**32 - 1)


@SETTINGS
@given(accesses=u32s, full=st.booleans())
def test_exchange_accesses(accesses: int, full: bool) -> None:
    assert lib().mtier_exchange_accesses(accesses, full) == min(accesses + full, 15)


# ---- bucket -----------------------------------------------------------------


class BucketMachine(RuleBasedStateMachine):
    """A bucket whose rate and burst change at will, in whole bytes as the time between two calls earns them."""

    MAX = 2**52

    @initialize(start=st.integers(0, 2**60))
    def begin(self, start: int) -> None:
        self.bucket = Bucket(0, start)
        self.now = self.paid = start
        self.tokens = 0
        self.rate = self.burst = 2**20

    @rule(rate=st.integers(0, 2**40) | u64s, burst=st.integers(0, 2**40) | u64s)
    def retune(self, rate: int, burst: int) -> None:
        self.rate, self.burst = rate, burst

    @rule(ns=st.integers(0, 2000) | st.integers(0, 10 * SECOND) | st.integers(0, 2**55))
    def time_passes(self, ns: int) -> None:
        self.now += ns

    @rule(nbytes=st.just(0) | st.integers(0, 2**32) | u64s, behind=st.integers(0, 5000))
    def pay(self, nbytes: int, behind: int) -> None:
        now, rate = max(self.now - behind, 0), min(self.rate, self.MAX)
        ns = lib().mtier_bucket_pay(self.bucket, now, self.rate, self.burst, nbytes)
        if now > self.paid:
            earned = min(now - self.paid, 64 * SECOND) * rate // SECOND
            self.tokens = min(self.tokens + earned, self.burst, self.MAX)
            self.paid = now
        self.tokens = max(self.tokens - min(nbytes, self.MAX), -self.MAX)
        owed = max(-self.tokens, 0)
        assert (ns == 0) == (owed == 0)
        if owed >= rate:
            assert ns == (SECOND if owed else 0)
        elif owed:
            # enough, and not a byte's time more
            assert ns * rate // SECOND >= owed > (ns - 1) * rate // SECOND - 1

    @invariant()
    def agrees(self) -> None:
        assert self.bucket.tokens == self.tokens


TestBucket = BucketMachine.TestCase
TestBucket.settings = SETTINGS


# ---- picker -----------------------------------------------------------------

weights_lists = st.lists(st.integers(0, 40), min_size=1, max_size=12)


@SETTINGS
@given(weights=weights_lists, start=u32s)
def test_picks_are_near_the_share(weights: list[int], start: int) -> None:
    turn, total = u32_(start), sum(weights)
    picked = [0] * len(weights)
    if not total:
        assert lib().mtier_target_pick(turn, array(weights), len(weights)) == -1
        return
    for k in range(1, 200):
        picked[lib().mtier_target_pick(turn, array(weights), len(weights))] += 1
        assert all(abs(Fraction(k * w, total) - n) < 5 for w, n in zip(weights, picked, strict=True))


@SETTINGS
@given(st.lists(st.tuples(u32s, u32s), min_size=1, max_size=8))
def test_mix_adds_shares(pairs: list[tuple[int, int]]) -> None:
    sides = [list(side) for side in zip(*pairs, strict=True)]
    known = sum(1 for side in sides if any(side))
    out = array([7] * len(pairs))
    lib().mtier_weights_mix(array(sides[0]), array(sides[1]), out, len(pairs))
    for i, pair in enumerate(pairs):
        shares = [Fraction(w * 65536, sum(side) * known) for w, side in zip(pair, sides, strict=True) if w]
        assert out[i] == sum(max(floor(share), 1) for share in shares)


@SETTINGS
@given(st.lists(u32s, min_size=1, max_size=8), st.integers(0, 8), u32s)
def test_weights_add_and_decay(weights: list[int], slot: int, amount: int) -> None:
    words = array(weights)
    lib().mtier_weights_add(words, len(weights), slot, amount)
    if slot < len(weights):
        while weights[slot] + amount > U32_MAX:
            weights, amount = [w // 2 for w in weights], amount // 2
        weights[slot] += amount
    assert list(words) == weights
    lib().mtier_weights_decay(words, len(weights))
    assert list(words) == [w // 2 for w in weights]

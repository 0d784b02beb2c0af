# SPDX-License-Identifier: GPL-2.0
"""The kernel's policy.c against a model in exact arithmetic, and bandwidth.c against the tool's own arithmetic.

policy.c is compiled into a shared object in a temporary folder, with the
undefined-behaviour sanitizer in it: should it ever fire, it names the line and
ends the whole test run.  The model keeps unbounded integers and fractions where
C keeps saturating words.
"""

from __future__ import annotations

import ctypes as c
import functools
import random
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor
from pathlib import Path

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from terrace.policy.weights import shortest_round

REPO = Path(__file__).parents[2]
SETTINGS = settings(examples(150), stateful_step_count=30)

U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1
SECOND = 10**9

u32s = st.integers(0, U32_MAX) | st.integers(0, 40)
u64s = st.integers(0, U64_MAX) | st.integers(0, 40) | st.integers(0, 64).map(lambda k: min(2**k, U64_MAX))


class Bucket(c.Structure):
    _fields_ = [("tokens", c.c_int64), ("stamp_ns", c.c_uint64)]


u32_, u64_ = c.c_uint32, c.c_uint64
SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "mtier_weights_add": (None, [c.POINTER(u32_), c.c_uint, c.c_uint, u32_]),
    "mtier_weights_decay": (None, [c.POINTER(u32_), c.c_uint]),
    "mtier_weights_mix": (None, [c.POINTER(u32_), c.POINTER(u32_), c.POINTER(u32_), c.c_uint]),
    "mtier_bucket_pay": (u64_, [c.POINTER(Bucket), u64_, u64_, u64_, u64_]),
    "mtier_target_pick": (c.c_int, [c.POINTER(u32_), c.POINTER(u32_), c.c_uint]),
}
WEIGHTS = {"mpol_auto_weights": (u32_, [c.POINTER(u32_), c.POINTER(c.c_uint8), u32_, c.c_uint8])}


def lib() -> c.CDLL:
    """policy.c, compiled and loaded once."""
    return _load("libpolicy.so")


@functools.cache
def _load(target: str) -> c.CDLL:
    with tempfile.TemporaryDirectory(prefix="terrace-policy-") as out:
        make = ["make", "-s", "-C", str(REPO / "linux/tools/testing/mtier"), f"O={out}", target]
        subprocess.run(make, check=True)
        loaded = c.CDLL(str(Path(out) / target))
    for name, (result, arguments) in (SIGNATURES if target == "libpolicy.so" else WEIGHTS).items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def array(values: Sequence[int]) -> c.Array[c.c_uint32]:
    return (c.c_uint32 * len(values))(*values)


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


# ---- interleave weights -----------------------------------------------------


def kernel_weights(mbps: Sequence[int], least: int) -> list[int]:
    """Weights that the kernel's function writes; its sum has to be theirs."""
    weights = (c.c_uint8 * len(mbps))()
    assert _load("libweights.so").mpol_auto_weights(array(mbps), weights, len(mbps), least) == sum(weights)
    return list(weights)


def random_machines(count: int, seed: int) -> Iterator[list[int]]:
    """Bandwidths of 1 to 16 nodes: a few tiers, equal nodes, any ratio, numbers at the limit, nodes without one."""
    dice = random.Random(seed)
    for _ in range(count):
        tiers = [dice.randint(1000, 400000) for _ in range(dice.randint(1, 4))]
        kinds = (
            lambda tiers=tiers: dice.choice(tiers),
            lambda: dice.randint(2000, 400000),
            lambda: dice.getrandbits(dice.randint(1, 32)),
            lambda: U32_MAX - dice.randint(0, 1000),
        )
        kind = dice.choice(kinds)
        yield [kind() if dice.random() < 0.9 else 0 for _ in range(dice.randint(1, 16))]


def test_the_tool_computes_the_weights_that_the_kernel_does() -> None:
    for mbps in random_machines(2000, seed=64):
        for least in (0, 1):
            assert shortest_round(mbps, least) == kernel_weights(mbps, least), (mbps, least)


def test_weights_are_never_slower_than_the_fastest_node_alone() -> None:
    for mbps in random_machines(20000, seed=65):
        weights = kernel_weights(mbps, 0)
        reach = min((Fraction(b * sum(weights), w) for b, w in zip(mbps, weights, strict=True) if w), default=0)
        known = sum(1 for value in mbps if value)
        assert reach >= max(mbps)
        assert reach >= sum(mbps) * (1 - max(Fraction(1, 32), Fraction(known - 1, 255)))

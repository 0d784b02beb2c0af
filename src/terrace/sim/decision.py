# SPDX-License-Identifier: GPL-2.0
"""mm/mtier/history.c, place.c, pace.c and forecast.c as a shared library, compiled from the kernel's files.
Names as in place.h.
"""

from __future__ import annotations

import ctypes as c
import functools
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from terrace.errors import BuildError
from terrace.host import require_packages
from terrace.paths import repo_root

LOOKS = 8
LOOKS_LEAST = 3
AUDIT_EVERY = 8
#: Pairs are checked again at one of these ages, in turn.
AUDIT_AGES_S = (0.125, 0.5, 2.0, 8.0)
NO_VICTIM = 0xFF
#: Pairs are also checked after this part of the scan interval when they are due for the first time.
EARLY_PARTS = 16
TOP, LOW = 0, 1
Q16 = 65536
#: In the order of enum mtier_plan_why.
WHY = ("rate", "nobody", "no-victim", "alike", "cost", "saturated")

#: Base pages by tier, then those of large folios, which a simulation does not have. Of three tiers it has two.
_RANKS = 3
_GROUPS = 2 * _RANKS
_RUNS_MAX = _GROUPS * (LOOKS + 1) + 3
_PLACES = Path("linux/tools/testing/mtier")


class Counts(c.Structure):
    """struct mtier_counts"""

    _fields_ = [("pages", (c.c_uint32 * (LOOKS + 1)) * _GROUPS)]


class Together(c.Structure):
    """struct mtier_together"""

    _fields_ = [("pages", c.c_uint64), ("within_q8", c.c_uint64), ("chance_q8", c.c_uint64)]


class Evidence(c.Structure):
    """struct mtier_evidence"""

    _fields_ = [
        ("alone_q8", (c.c_uint64 * (LOOKS + 1)) * _RANKS),
        ("unsure", (c.c_uint32 * (LOOKS + 1)) * _RANKS),
        ("unsure_ranges", c.c_uint32 * _RANKS),
        ("together", Together),
    ]


class Worth(c.Structure):
    """struct mtier_worth"""

    _fields_ = [
        ("looks", c.c_uint32),
        ("known", c.c_bool * _GROUPS),
        ("q", (c.c_uint32 * (LOOKS + 1)) * _GROUPS),
        ("se", (c.c_uint32 * (LOOKS + 1)) * _GROUPS),
    ]


class Machine(c.Structure):
    """struct mtier_place_machine"""

    _fields_ = [
        ("pages", c.c_uint64 * _GROUPS),
        ("free", c.c_uint64),
        ("spare", c.c_uint64),
        ("whole", c.c_uint64),
        ("spare_ns", c.c_uint64),
        ("latency_ns", c.c_uint32),
        ("move_ns", c.c_uint32),
        ("look_ns", c.c_uint32),
        ("flush_ns", c.c_uint32),
        ("share_most", c.c_uint32),
        ("observe", c.c_bool),
    ]


class Cost(c.Structure):
    """struct mtier_place_cost"""

    _fields_ = [
        ("ns", c.c_uint64),
        ("ptes", c.c_uint64),
        ("scans", c.c_uint32),
        ("flushes", c.c_uint32),
        ("flush_ns", c.c_uint64),
    ]


class AuditSum(c.Structure):
    """struct mtier_audit_sum"""

    _fields_ = [("seen", c.c_int64), ("foretold", c.c_int64)]


class Place(c.Structure):
    """struct mtier_place"""

    _fields_ = [
        ("hist", Counts * (LOOKS + 1)),
        ("alone_q8", ((c.c_uint64 * (LOOKS + 1)) * _RANKS) * (LOOKS + 1)),
        ("together", Together),
        ("tau_ns", c.c_uint64),
        ("share", c.c_uint32),
        ("credit_ns", c.c_int64),
        ("pages", c.c_uint64),
        ("audit", AuditSum * len(AUDIT_AGES_S)),
        ("early", AuditSum),
    ]


class Run(c.Structure):
    """struct mtier_run"""

    _fields_ = [
        ("low", c.c_uint8),
        ("top", c.c_uint8),
        ("low_group", c.c_uint8),
        ("top_group", c.c_uint8),
        ("spare", c.c_bool),
        ("pages", c.c_uint32),
        ("gap", c.c_uint32),
    ]


class Plan(c.Structure):
    """struct mtier_plan"""

    _fields_ = [
        ("nr", c.c_uint32),
        ("run", Run * _RUNS_MAX),
        ("pages", c.c_uint32),
        ("spare", c.c_uint32),
        ("gain_ns", c.c_uint64),
        ("why", c.c_int),
    ]


_place, _machine = c.POINTER(Place), c.POINTER(Machine)
_counts, _worth = c.POINTER(Counts), c.POINTER(Worth)
#: Return type and argument types of each function of place.h.
FUNCTIONS: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "mtier_place_init": (None, (_place, _machine)),
    "mtier_place_pages": (c.c_uint64, (_place, _machine)),
    "mtier_place_pause_ns": (c.c_uint64, (_place, c.c_uint32)),
    "mtier_place_look": (None, (_place, c.c_uint32, _counts, c.POINTER(Evidence))),
    "mtier_evidence_add": (None, (c.POINTER(Evidence), c.c_uint32, c.POINTER(c.c_uint32), c.c_uint32)),
    "mtier_place_worth": (None, (_place, c.c_uint32, _worth)),
    "mtier_place_plan": (None, (_place, _machine, _worth, _counts, _counts, c.c_uint64, c.POINTER(Plan))),
    "mtier_place_enough": (c.c_bool, (c.c_uint32, c.c_uint64, c.c_uint64, c.c_uint64)),
    "mtier_place_tau_max_ns": (c.c_uint64, (_machine,)),
    "mtier_place_margin": (c.c_uint32, (_place, _machine, _worth)),
    "mtier_place_steer": (None, (_place, _machine, c.c_uint32, c.c_bool)),
    "mtier_place_looked": (None, (_machine, c.POINTER(Cost))),
    "mtier_place_rest_ns": (c.c_uint64, (_place, _machine, c.c_uint64, c.c_uint64, c.c_uint64)),
    "mtier_place_paid": (None, (_place, _machine, c.c_uint64, c.c_uint64)),
    "mtier_place_audit": (None, (_place, c.c_uint64, c.c_uint32, c.c_uint32, c.c_int32)),
    "mtier_place_early": (None, (_place, c.c_uint64, c.c_uint64, c.c_uint64, c.c_int32)),
    "mtier_place_factor_q8": (c.c_uint32, (_place,)),
    "mtier_place_fade": (None, (_place,)),
    "mtier_place_left": (None, (_place, c.POINTER(c.c_uint32))),
    "mtier_place_horizon_ns": (c.c_uint64, (_place,)),
    "mtier_place_rate": (c.c_uint32, (c.c_uint32,)),
    "mtier_place_q_at": (c.c_uint32, (c.c_uint32, c.c_uint64, c.c_uint64)),
}


@functools.cache
def library() -> c.CDLL:
    """Compile and load the library once per process, with the sanitizer of undefined behaviour.

    Raises BuildError with the compiler's messages, MissingError without a compiler.
    """
    require_packages(["gcc", "make", "libc6-dev"], "compile mm/mtier/place.c")
    with tempfile.TemporaryDirectory(prefix="terrace-place-") as out:
        make = ["make", "-s", "-C", str(repo_root() / _PLACES), f"O={out}", "libplace.so"]
        done = subprocess.run(make, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"mm/mtier/place.c does not compile: {done.stderr.strip()}")
        loaded = c.CDLL(str(Path(out) / "libplace.so"))
    for name, (returns, takes) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = returns, takes
    return loaded


@dataclass(frozen=True)
class Swap:
    """Exchanged pages of a plan: the number of pages with count `low` to promote in exchange for
    pages with count `top`.

    `top` is None if they take free memory; `gap` (0 to 1) is the difference of their access
    probabilities per scan, `rate_s` that of their estimated accesses per second.
    """

    low: int
    top: int | None
    pages: int
    gap: float
    rate_s: float


#: By tier: the number of pages of each range of the sample (first axis) and access count (second axis).
RangeCounts = dict[int, NDArray[np.int64]]


def _only(counts: Counts, tier: int) -> Counts:
    """Get the counts of one tier."""
    only = Counts()
    only.pages[tier] = counts.pages[tier]
    return only


class Decision:
    """One struct mtier_place, and the functions that use it. Counts are arrays by tier (TOP, LOW) and count."""

    def __init__(self, machine: Machine) -> None:
        self._lib = library()
        self.machine = machine
        self.state = Place()
        self._worth = Worth()
        self._plan = Plan()
        self._lib.mtier_place_init(self.state, machine)

    @property
    def tau_s(self) -> float:
        """Seconds between two scans."""
        return float(self.state.tau_ns) / 1e9

    @property
    def horizon_s(self) -> float:
        """Seconds for which exchanged pages are expected to keep their access rates."""
        return int(self._lib.mtier_place_horizon_ns(self.state)) / 1e9

    def pages(self) -> int:
        """Get the number of pages of the next burst."""
        return int(self._lib.mtier_place_pages(self.state, self.machine))

    def pause_ns(self, random: int) -> int:
        """Get the time until the next scan."""
        return int(self._lib.mtier_place_pause_ns(self.state, random))

    def looked(self, spent_ns: int, pages: int, scans: int, flush_ns: int = 0) -> None:
        """Report the cost of the scans of a burst: their time, the pages of all of them, and the time of a flush."""
        cost = Cost(ns=spent_ns, ptes=pages, scans=scans, flushes=scans, flush_ns=scans * flush_ns)
        self._lib.mtier_place_looked(self.machine, cost)

    def look(self, looks: int, counts: Counts, ranges: RangeCounts | None) -> None:
        """Add the result of a scan, and update the estimates of the counts.

        `ranges`: pages of each range, by tier and access count; None if no page depends on its range.
        """
        evidence = None if ranges is None else self._evidence(looks, ranges)
        self._lib.mtier_place_look(self.state, looks, counts, evidence)
        self._lib.mtier_place_worth(self.state, looks, self._worth)

    def _evidence(self, looks: int, ranges: RangeCounts) -> Evidence:
        """Get what ranges tell of their pages, as mark.c does."""
        evidence = Evidence()
        for tier, pages in ranges.items():
            for row in pages:
                self._lib.mtier_evidence_add(evidence, tier, (c.c_uint32 * (LOOKS + 1))(*row.tolist()), looks)
        return evidence

    def plan(self, movable: Counts, limit: int) -> tuple[list[Swap], int, str]:
        """Get the exchanges, the ns gained by them, and the reason why there are no more."""
        plan = self._plan
        low, top = _only(movable, LOW), _only(movable, TOP)
        self._lib.mtier_place_plan(self.state, self.machine, self._worth, low, top, limit, plan)
        swaps = [
            Swap(run.low, None if run.top == NO_VICTIM else run.top, run.pages, run.gap / Q16, self._rate_s(run))
            for run in plan.run[: plan.nr]
        ]
        return swaps, int(plan.gain_ns), WHY[plan.why]

    def _rate_s(self, run: Run) -> float:
        """Get the difference of the pages of a run in accesses per second."""
        rate = self._lib.mtier_place_rate(self._worth.q[run.low_group][run.low])
        if run.top != NO_VICTIM:
            rate -= min(rate, self._lib.mtier_place_rate(self._worth.q[run.top_group][run.top]))
        return float(rate) / Q16 / self.tau_s

    def early(self, rate_s: float, since_s: float, hits: int) -> None:
        """Report the result of an early scan of a pair."""
        tau_ns = self.state.tau_ns
        gap = round(rate_s * tau_ns / 1e9 * Q16)
        self._lib.mtier_place_early(self.state, gap, tau_ns, round(since_s * 1e9), hits)

    def enough(self, looks: int, gain_ns: int, total_gain_ns: int, spent_ns: int) -> bool:
        """Whether the burst is complete."""
        return bool(self._lib.mtier_place_enough(looks, gain_ns, total_gain_ns, spent_ns))

    def end(self, gain_ns: int, spent_ns: int, burst_ns: int) -> int:
        """Set interval and number of scans of the next burst after a burst; return ns until it starts."""
        margin = self._lib.mtier_place_margin(self.state, self.machine, self._worth)
        self._lib.mtier_place_steer(self.state, self.machine, margin, gain_ns > 2 * spent_ns)
        return int(self._lib.mtier_place_rest_ns(self.state, self.machine, gain_ns, spent_ns, burst_ns))

    def rested(self, passed_ns: int) -> None:
        """Report a time without scans."""
        self._lib.mtier_place_paid(self.state, self.machine, passed_ns, 0)

    def audit(self, age_s: float, gap: float, looks: int, hits: int) -> None:
        """Compare a prediction with the result after a time."""
        self._lib.mtier_place_audit(self.state, round(age_s * 1e9), round(gap * Q16), looks, hits)

    def fade(self) -> None:
        """Halve the results of re-checks."""
        self._lib.mtier_place_fade(self.state)

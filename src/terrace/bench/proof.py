# SPDX-License-Identifier: GPL-2.0
"""Proof that a policy acted as its row of the table claims: a setting without effect must not become a result. Pure.

The proof uses the counters of the guest's kernel over the measured part. Every cell is checked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from terrace.bench.deferral import judged
from terrace.bench.policies import POLICIES
from terrace.errors import TerraceError

# A scan that begins early begins before this; the stock kernel's first scan comes after a second.
EARLY_S = 0.5
# Share of the probed pages: the load has a few that stay where the kernel or a library put them.
_NEARLY_ALL = 0.99
# Share of the accesses with a copy on each node: measured 0.975 and more, on four nodes without
# copies 0.25 to 0.29.
_NEAR = 0.9


@dataclass(frozen=True)
class Evidence:
    """Counts of a cell: growth of /proc/vmstat in the measured part, the cell's figures, and the number of the load's
    pages on each of the machine's nodes at the end.
    """

    vmstat: Mapping[str, int]
    figures: Mapping[str, float | None]
    pages: Sequence[int] = ()

    def count(self, name: str) -> int:
        """Growth of a counter; 0 where the kernel does not have it."""
        return self.vmstat.get(name, 0)

    def figure(self, name: str) -> float:
        """A figure; 0 where it is unknown."""
        return self.figures[name] or 0.0


Problem = Callable[[Evidence], str]


def _hint_scan(seen: Evidence) -> str:
    return "" if seen.count("numa_pte_updates") else "NUMA balancing scanned no page (numa_pte_updates 0)"


def _early_hint_scan(seen: Evidence) -> str:
    began = seen.figures["scan_began_s"]
    if began is not None and began <= EARLY_S:
        return _hint_scan(seen)
    when = "not within the first second" if began is None else f"after {began:.2f} s"
    return f"the first hint scan came {when}, and has to come within {EARLY_S} s"


def _kdamond(seen: Evidence) -> str:
    return "" if seen.figure("scan_insns") else "kdamond did not run"


def _windows(seen: Evidence) -> str:
    return "" if seen.count("mtier_looks") else "promotion scanned nothing (mtier_looks 0)"


def _defers(scans: Problem) -> Problem:
    """Besides scanning, it judged migrated pages: can their flush wait? Whether one did wait is a result."""

    def problem(seen: Evidence) -> str:
        none = "of no migrated page was it judged whether its flush can wait"
        return scans(seen) or ("" if judged(seen.vmstat) else none)

    return problem


def _follows(seen: Evidence) -> str:
    return "" if seen.count("numa_follow_tasks") else "no memory followed a task (numa_follow_tasks 0)"


def _follows_lazily(seen: Evidence) -> str:
    return _follows(seen) or ("" if seen.count("numa_follow_marked") else "no page was marked (numa_follow_marked 0)")


def _still(seen: Evidence) -> str:
    for name in ("numa_pte_updates", "mtier_looks", "pgpromote_success"):
        if seen.count(name):
            return f"{name} is {seen.count(name)}, and nothing was to be scanned or promoted"
    return ""


def _all_fast(seen: Evidence) -> str:
    share = seen.figure("final_share")
    return _still(seen) or ("" if share >= _NEARLY_ALL else f"only {share:.1%} of the pages are on fast memory")


def _all_slow(seen: Evidence) -> str:
    share = seen.figure("final_share")
    return _still(seen) or ("" if share <= 1 - _NEARLY_ALL else f"{share:.1%} of the pages are on fast memory")


def _some_fast(seen: Evidence) -> str:
    return _still(seen) or ("" if seen.figure("final_share") else "no page is on fast memory")


def _even(seen: Evidence) -> str:
    least = sum(seen.pages) / (2 * max(1, len(seen.pages)))
    uneven = not seen.pages or min(seen.pages) < least
    return _still(seen) or (f"the pages are not on all nodes alike: {list(seen.pages)}" if uneven else "")


def _copies(seen: Evidence) -> str:
    near = seen.figure("near_hit_ratio")
    return _still(seen) or ("" if near >= _NEAR else f"only {near:.1%} of the accesses were to the CPU's own node")


#: For each policy a function that returns what is missing, "" when the policy acted.
PROOFS: Mapping[str, Problem] = {
    "all-dram": _all_fast,
    "oracle": _some_fast,
    "stock-0": _still,
    "stock-1": _hint_scan,
    "stock-2": _hint_scan,
    "stock-2-early": _early_hint_scan,
    "stock-2-tuned": _early_hint_scan,
    "damon": _kdamond,
    "terrace": _windows,
    "stock-2-tuned-defer": _defers(_early_hint_scan),
    "terrace-defer": _defers(_windows),
    "all-slow": _all_slow,
    "even": _even,
    "copies": _copies,
    "direct": _follows,
    "lazy": _follows_lazily,
    "lazy-fault-1": _follows_lazily,
    "lazy-fault-3": _follows_lazily,
}


def require_acted(policy: str, seen: Evidence) -> None:
    """Raise TerraceError, with the counts, for a policy that did not act as its name states."""
    problem = PROOFS[policy](seen)
    if problem:
        raise TerraceError(f"{policy} ({POLICIES[policy].purpose}) did not act: {problem}")

# SPDX-License-Identifier: GPL-2.0
"""The plugin's counters between a workload's two region markers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from terrace.bench.phases import Phase


@dataclass(frozen=True)
class Reading:
    """`kinds` has user and kernel instructions of each kind of task, `user_seconds` and
    `kernel_seconds` its modelled time.

    `series` are steps of modelled time: ms, the application's misses to fast memory in the step, to
    slow memory. `all_idle_s`: times when all CPUs were idle, not included in `modelled_s`.
    `skew_us`: the largest difference between the clocks of two busy CPUs. `phases` are those
    before, during and after a burst. If every node has CPUs, none is the fast one: `fast_hit_ratio`
    is None and `series` is empty. Then `near_hit_ratio` is the share of the application's fetches
    from memory that were from the node of the CPU.
    """

    kinds: Mapping[str, tuple[int, int]]
    modelled_s: float
    fast_hit_ratio: float | None
    all_idle_s: float = 0.0
    skew_us: float = 0.0
    kernel_seconds: Mapping[str, float] = field(default_factory=dict)
    user_seconds: Mapping[str, float] = field(default_factory=dict)
    ledger: Mapping[str, Any] = field(default_factory=dict)
    series: list[list[float]] = field(default_factory=list)
    phases: Mapping[str, Phase] = field(default_factory=dict)
    near_hit_ratio: float | None = None

    def user_insns(self, kind: str) -> int:
        """Get user instructions of a kind of task; 0 if there was none."""
        return self.kinds.get(kind, (0, 0))[0]

    def kernel_insns(self, kind: str) -> int:
        """Get kernel instructions of a kind of task; 0 if there was none."""
        return self.kinds.get(kind, (0, 0))[1]

    def user_s(self, kind: str) -> float:
        """Get modelled user seconds of a kind, of all CPUs together."""
        return self.user_seconds.get(kind, 0.0)

    def kernel_s(self, kind: str) -> float:
        """Get modelled kernel seconds of a kind."""
        return self.kernel_seconds.get(kind, 0.0)

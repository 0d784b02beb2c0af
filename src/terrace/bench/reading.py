# SPDX-License-Identifier: GPL-2.0
"""What the plugin counted between a workload's two region markers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from terrace.bench.phases import Phase


@dataclass(frozen=True)
class Reading:
    """`kinds` has user and kernel instructions of each kind of task, `user_seconds` and
    `kernel_seconds` modelled time there.

    `series` are steps of modelled time: ms, the application's misses to fast memory in the step, to slow memory.
    `all_idle_s`: times when no CPU worked, which are not in `modelled_s`. `skew_us`: the furthest that one working
    CPU's clock was ahead of another's. `phases` are those before, during and after a burst. Where every node has CPUs,
    none is the fast one: `fast_hit_ratio` is None and `series` is empty; `near_hit_ratio` is there instead, the share
    of the application's fetches from memory that came from the node of the CPU.
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
        """User instructions of a kind of task; 0 when there was none."""
        return self.kinds.get(kind, (0, 0))[0]

    def kernel_insns(self, kind: str) -> int:
        """Kernel instructions of a kind of task; 0 when there was none."""
        return self.kinds.get(kind, (0, 0))[1]

    def user_s(self, kind: str) -> float:
        """Modelled seconds of a kind's user part, of all CPUs together."""
        return self.user_seconds.get(kind, 0.0)

    def kernel_s(self, kind: str) -> float:
        """Modelled seconds of a kind's kernel part."""
        return self.kernel_seconds.get(kind, 0.0)

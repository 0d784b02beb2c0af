# SPDX-License-Identifier: GPL-2.0
"""Latency over bandwidth, measured by a chain of pointers in the guest, compared with the curve of
the model. Pure.

Number of misses for a point: the model's factor of the latency is constant for all misses of one
window of its traffic (`model.window`), so the sample consists of windows, not of misses. Up to the
full bandwidth the factor is between 1 and 3 (`curve_at_full`). A value between two bounds has a
standard deviation of at most half their distance. So the mean of 96 windows is known to 1.96 x 1 /
sqrt(96) = 0.2 idle latencies with 95 % confidence, and to 0.05 below 80 % of the bandwidth, where
the factor is at most 1.5. The narrowest verdict has 0.1. A window holds at most as many misses of a
chain as idle latencies fit into it, so 96 times this number of misses is needed. A point with fewer
is not measured.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terrace.bench.validate import DELAYS, Results

_WINDOWS = 96


@dataclass(frozen=True)
class Point:
    """Latency of the prober, in idle latencies, at a share of the sustained bandwidth, and its number of misses."""

    utilisation: float
    latency: float
    misses: int
    needed: int

    @property
    def measured(self) -> bool:
        """Whether it has enough misses for a result."""
        return self.misses >= self.needed


@dataclass(frozen=True)
class Look:
    """Result for a part of the curve; `off` in percent of the idle latency, None: nothing measured."""

    text: str
    verdict: str
    off: float | None


@dataclass(frozen=True)
class Stretch:
    """A part of the curve: points above `above` and up to `up_to`, whose highest latency has to be
    in [low, high].

    `known` is the known deviation, as in Published.
    """

    what: str
    expected: str
    above: float
    up_to: float
    low: float
    high: float
    known: float | None = 0.0

    def look(self, results: Results) -> Look | None:
        """Judge its points; None if there are none."""
        mine = [point for point in points(results) if self.above < point.utilisation <= self.up_to]
        good = [point for point in mine if point.measured]
        poor = [
            f"{p.utilisation:.0%} not measured: {p.misses:,} misses of {p.needed:,}" for p in mine if not p.measured
        ]
        if not mine:
            return None
        if not good:
            return Look("; ".join(poor), "not measured", None)
        least, most = min(p.latency for p in good), max(p.latency for p in good)
        text = f"{least:.2f} to {most:.2f} x idle, at {good[0].utilisation:.0%} to {good[-1].utilisation:.0%}"
        # No latency is below that of idle memory.
        off = max(_IDLE - least, self.low - most, most - self.high, 0.0) * 100
        return Look("; ".join([text, *poor]), "outside" if off else "within", off)


_IDLE = 0.9
STRETCHES = (
    Stretch("up to 40 % of sustained", "fairly constant", -1.0, 0.4, _IDLE, 1.1),
    Stretch("40 to 80 %", "grows almost linearly", 0.4, 0.8, 1.0, 2.0),
    Stretch("80 to 100 %", "as much as twice the idle latency or more", 0.8, math.inf, 2.0, math.inf),
)


def points(results: Results) -> list[Point]:
    """Get all points, by rising utilisation."""
    found = [_point(results[name]) for name in (f"curve-{delay}" for delay in DELAYS) if name in results]
    return sorted(found, key=lambda point: point.utilisation)


def _point(result: Mapping[str, Any]) -> Point:
    prober, machine = result["region"]["last_cpu_app"], result["machine"]
    idle_ps = next(a["latency_ps"] for a in machine["accesses"] if a["from"] == 0 and a["to"] == 0)
    misses = prober["llc_miss"]
    mean = prober["memory_stall_ns"] * 1000 / misses / idle_ps if misses else 0.0
    needed = math.ceil(_WINDOWS * machine["window_ps"] / idle_ps)
    return Point(result["region"]["nodes"]["0"]["utilisation_mean"], mean, misses, needed)

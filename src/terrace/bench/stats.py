# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of comparisons: gap closed, means, intervals, slopes. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# The 97.5 % quantile of Student's t for 1, 2, … degrees of freedom; the last one is used for all
# larger numbers.
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_T_MANY = 1.960


@dataclass(frozen=True)
class Mean:
    """A mean of `n` values with the half width of its 95 % interval; `half` is None for a single value."""

    value: float
    half: float | None
    n: int


def mean(values: Sequence[float]) -> Mean | None:
    """Get the mean and the 95 % interval by the t distribution; None without values."""
    if not values:
        return None
    n = len(values)
    if n == 1:
        return Mean(values[0], None, 1)
    return Mean(statistics.fmean(values), _quantile(n - 1) * statistics.stdev(values) / math.sqrt(n), n)


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Mean | None:
    """Get the mean of `ours` less the mean of `theirs`, with its 95 % interval; None unless both
    have at least two values.

    Welch's interval for two samples whose variances may differ (B. L. Welch, Biometrika 34, 1947),
    with the degrees of freedom of Satterthwaite (Biometrics Bulletin 2, 1946), rounded down. `n` is
    the smaller of the two numbers.
    """
    if min(len(ours), len(theirs)) < 2:
        return None
    parts = [(statistics.variance(values) / len(values), len(values) - 1) for values in (ours, theirs)]
    both = sum(part for part, _ in parts)
    value = statistics.fmean(ours) - statistics.fmean(theirs)
    n = min(len(ours), len(theirs))
    if both == 0.0:
        return Mean(value, 0.0, n)
    # As ratios, so that the square of a tiny variance cannot vanish.
    freedom = int(1 / sum((part / both) ** 2 / degrees for part, degrees in parts))
    return Mean(value, _quantile(freedom) * math.sqrt(both), n)


def _quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t."""
    return _T_975[freedom - 1] if freedom <= len(_T_975) else _T_MANY


def gap_closed(slow: float, here: float, fast: float) -> float | None:
    """(T_slow - T) / (T_slow - T_dram): 1 is as fast as all-DRAM, 0 as slow as all-slow, less is
    slower.

    None if all-slow is less than 2 % slower than all-DRAM: there is no gap to close.
    """
    gap = slow - fast
    return None if gap < 0.02 * fast else (slow - here) / gap


def time_to(samples: Sequence[Sequence[float]], share: float) -> float | None:
    """Get the seconds until `share` of the pages was on fast memory, interpolated between two
    samples; None: never.

    `samples` are pairs of milliseconds and share.
    """
    before: Sequence[float] | None = None
    for sample in samples:
        if sample[1] >= share:
            if before is None or sample[1] == before[1]:
                return sample[0] / 1e3
            part = (share - before[1]) / (sample[1] - before[1])
            return (before[0] + part * (sample[0] - before[0])) / 1e3
        before = sample
    return None


@dataclass(frozen=True)
class Line:
    """The slope of a line, and the share of the variance that it explains."""

    slope: float
    r2: float


def fit(points: Sequence[tuple[float, float]]) -> Line | None:
    """Get the least-squares line through the points; None with fewer than two different x."""
    if len({x for x, _ in points}) < 2:
        return None
    mid_x = statistics.fmean(x for x, _ in points)
    mid_y = statistics.fmean(y for _, y in points)
    spread = sum((x - mid_x) ** 2 for x, _ in points)
    slope = sum((x - mid_x) * (y - mid_y) for x, y in points) / spread
    total = sum((y - mid_y) ** 2 for _, y in points)
    rest = sum((y - mid_y - slope * (x - mid_x)) ** 2 for x, y in points)
    return Line(slope, 1 - rest / total if total else 1.0)


def thin(samples: Sequence[Sequence[float]], points: int) -> list[Sequence[float]]:
    """Reduce the samples to about `points`: all with changes of the share, fewer without."""
    changing = [i for i in range(1, len(samples)) if samples[i][1] != samples[i - 1][1]]
    kept = {0, len(samples) - 1}
    for group in (changing, range(len(samples))):
        step = max(1, -(-2 * len(group) // points))
        kept.update(list(group)[::step])
    kept.update(i - 1 for i in changing[:1])
    return [samples[i] for i in sorted(i for i in kept if 0 <= i < len(samples))]

# SPDX-License-Identifier: GPL-2.0
"""The guest's clock against modelled time. Pure.

The model drives the clock (plugin/drive.h), so that the two are one but for what goes by between the marks of a region
and the workload's own readings. That it worked is looked at in every cell.
"""

import math

from terrace.errors import TerraceError

# By which factor they may differ, either way. Seen: 1.0005.
TOLERANCE = 1.02


def clock_ratio(guest: float, modelled: float) -> float:
    """Guest time over modelled time, in the same unit: at 2 the guest's timers fire twice as often as they should."""
    return guest / modelled if modelled else math.inf


def within_tolerance(ratio: float) -> bool:
    """True when the two clocks differ by no more than TOLERANCE, either way."""
    return 1 / TOLERANCE <= ratio <= TOLERANCE


def require_right_clock(ratio: float | None) -> None:
    """Raise TerraceError for a run whose times are none: its policies saw another clock than its load."""
    if ratio is None or not within_tolerance(ratio):
        said = "unknown" if ratio is None else f"{ratio:.3f}"
        raise TerraceError(f"clock: guest time over modelled time is {said}, and may be 1 within {TOLERANCE}")

# SPDX-License-Identifier: GPL-2.0
"""Compare the guest's clock with modelled time. Pure.

The model drives the clock (plugin/drive.h). So the two agree, except for the time between the marks
of a region and the workload's own readings. Every cell is checked.
"""

import math

from terrace.errors import TerraceError

# Allowed factor between the two, in both directions. Measured: 1.0005.
TOLERANCE = 1.02


def clock_ratio(guest: float, modelled: float) -> float:
    """Get guest time over modelled time, in the same unit: at 2 the guest's timers expire twice as
    often as they should.
    """
    return guest / modelled if modelled else math.inf


def within_tolerance(ratio: float) -> bool:
    """Whether the two clocks differ by at most a factor of TOLERANCE."""
    return 1 / TOLERANCE <= ratio <= TOLERANCE


def require_right_clock(ratio: float | None) -> None:
    """Raise TerraceError for a run with wrong times: its policies used another clock than its load."""
    if ratio is None or not within_tolerance(ratio):
        said = "unknown" if ratio is None else f"{ratio:.3f}"
        raise TerraceError(f"clock: guest time over modelled time is {said}, and may be 1 within {TOLERANCE}")

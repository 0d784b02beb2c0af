# SPDX-License-Identifier: GPL-2.0
"""The guest's clock against modelled time. Pure.

Under -icount the guest's clock goes on by 2^shift ns an instruction, of whichever CPU. A first run with any shift says
how long an instruction takes on average in modelled time; the nearest power of two is the shift of the run that counts.
"""

import math

from terrace.bench.ledger import Ledger, Region

MAX_SHIFT = 10
# The worst ratio of the two clocks that a power of two can be blamed for is 2^0.5; this is what results may have.
TOLERANCE = 1.5


def insn_ns(region: Region) -> float:
    """Modelled nanoseconds of an instruction in the region, CPUs working side by side; 0 for an empty one."""
    return region.modelled_ns / region.guest_insns if region.guest_insns else 0.0


def choose_shift(ledger: Ledger | Region, number: int = 1) -> int:
    """The -icount shift with which guest time is as near to modelled time as it can be in that region."""
    region = ledger.region(number) if isinstance(ledger, Ledger) else ledger
    each = insn_ns(region)
    return 0 if each <= 1 else min(MAX_SHIFT, round(math.log2(each)))


def clock_ratio(guest_ns: float, modelled_ns: float) -> float:
    """Guest time over modelled time: 1 is right, 2 says that the guest's timers fire half as often as they should."""
    return guest_ns / modelled_ns if modelled_ns else math.inf


def insn_clock_ratio(region: Region, shift: int) -> float:
    """The same from the ledger alone: the guest's time is its instructions, without times when all CPUs idled."""
    return clock_ratio(region.guest_insns * 2.0**shift, region.modelled_ns)


def within_tolerance(ratio: float) -> bool:
    """True when the two clocks differ by no more than TOLERANCE, either way."""
    return 1 / TOLERANCE <= ratio <= TOLERANCE

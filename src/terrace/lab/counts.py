# SPDX-License-Identifier: GPL-2.0
"""Check counts of instructions by kind of task for values that cannot be true. Pure."""

from collections.abc import Mapping

from terrace.lab.plugin import KERNEL_THREADS

# Allowed difference between the sum of all counts and QEMU's own count, as a share. Measured:
# 0.001.
TOLERANCE = 0.02


def impossible(counts: Mapping[str, tuple[int, int]], *, busy: str) -> str:
    """Get the reason why `counts` cannot be true; empty if there is none.

    `counts` has the user and the kernel instructions of each kind of task in the measured region.
    `busy` is the kind of the tasks that did the measured work.
    """
    for name, (user, kernel) in counts.items():
        if user < 0 or kernel < 0:
            return f"{name} has {min(user, kernel):,} instructions"
        if user and name in KERNEL_THREADS:
            return f"{name} has {user:,} user instructions and no user code: tasks are not told apart"
    if not counts.get(busy, (0, 0))[0]:
        return f"{busy} has no user instructions: tasks are not told apart"
    return ""


def do_not_add_up(counts: Mapping[str, tuple[int, int]], executed: float) -> str:
    """Get the reason why `counts` do not add up to the `executed` instructions of a region; empty if they do."""
    total = sum(user + kernel for user, kernel in counts.values())
    if abs(total - executed) <= TOLERANCE * executed:
        return ""
    return f"{total:,} instructions were counted, and QEMU executed {executed:,.0f}"

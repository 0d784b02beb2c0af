# SPDX-License-Identifier: GPL-2.0
"""Counts of instructions by kind of task that cannot be true. Pure."""

from collections.abc import Mapping

from terrace.lab.plugin import KERNEL_THREADS

# By which share all counts together may differ from what QEMU executed. Seen: 0.001.
TOLERANCE = 0.02


def impossible(counts: Mapping[str, tuple[int, int]], *, busy: str) -> str:
    """Why `counts` cannot be true; empty when nothing speaks against them.

    `counts` has the user and the kernel instructions of each kind of task in the measured region. `busy` is the kind
    of the tasks that did the measured work.
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
    """Why `counts` are not those of a region in which QEMU executed `executed` instructions; empty when they are."""
    total = sum(user + kernel for user, kernel in counts.values())
    if abs(total - executed) <= TOLERANCE * executed:
        return ""
    return f"{total:,} instructions were counted, and QEMU executed {executed:,.0f}"

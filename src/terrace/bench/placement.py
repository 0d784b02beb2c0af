# SPDX-License-Identifier: GPL-2.0
"""The oracle: the pages that a static placement puts on fast memory. Pure."""

from collections.abc import Iterable

from terrace.bench.policies import FAST_NODE, SLOW_NODE

# Fast memory also holds the load's page tables and stacks; the kernel's own reserve is not included
# (guest/ballast.c).
USABLE = 0.94


def choose(accesses: Iterable[tuple[int, int]], pages: int, capacity: int) -> set[int]:
    """Get the `capacity` pages with most accesses; among equals, and pages without accesses, the first ones."""
    counts = dict(accesses)
    ranked = sorted(range(pages), key=lambda page: (-counts.get(page, 0), page))
    return set(ranked[:capacity])


def runs(fast: set[int], pages: int) -> list[tuple[int, int, int]]:
    """Get (first page, number of pages, node) for all pages, with neighbours of one node joined."""
    found: list[tuple[int, int, int]] = []
    for page in range(pages):
        node = FAST_NODE if page in fast else SLOW_NODE
        if found and found[-1][2] == node:
            first, count, _ = found[-1]
            found[-1] = (first, count + 1, node)
        else:
            found.append((page, 1, node))
    return found


def as_text(placed: Iterable[tuple[int, int, int]]) -> str:
    """Format the file for --place of a workload."""
    return "".join(f"{first} {count} {node}\n" for first, count, node in placed)

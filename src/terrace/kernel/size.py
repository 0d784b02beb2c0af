# SPDX-License-Identifier: GPL-2.0
"""Size of the overlay's code by folder, from `size` of binutils on the objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from terrace.output import format_table

#: Objects of the overlay in folders of Linux, and the overlay folder that each belongs to.
ELSEWHERE = {
    "kernel/cgroup/numa_balancing.o": "kernel/sched/numa_scan",
    "kernel/cgroup/numa_follow.o": "mm/follow",
}
# text, data, bss, their sum in two bases, an object, and its archive.
_LINE = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+\d+\s+[0-9a-f]+\s+(\S+)(?: \(ex (\S+)\))?")


@dataclass(frozen=True)
class Size:
    """One folder: bytes of code and constants, of initialized variables, and of zero-initialized ones."""

    folder: str
    text_bytes: int
    data_bytes: int
    bss_bytes: int


def parse(said: str) -> list[Size]:
    """Sum up bytes by folder, sorted by name, from the output of `size` for archives and objects;
    tests/ is left out.
    """
    sums: dict[str, tuple[int, int, int]] = {}
    for match in filter(None, map(_LINE.fullmatch, said.splitlines())):
        name, archive = PurePosixPath(match[4]), match[5]
        # A member of a thin archive has a path, one of another archive only a name.
        inside = name if archive is None or len(name.parts) > 1 else PurePosixPath(archive).parent / name
        if "tests" in inside.parts:
            continue
        folder = ELSEWHERE.get(str(inside)) or str(PurePosixPath(archive or inside).parent)
        text, data, bss = sums.get(folder, (0, 0, 0))
        sums[folder] = (text + int(match[1]), data + int(match[2]), bss + int(match[3]))
    return [Size(folder, *sums[folder]) for folder in sorted(sums)]


def total(sizes: Iterable[Size]) -> Size:
    """Get the sum of all of them, in bytes."""
    every = list(sizes)
    return Size(
        "total",
        sum(item.text_bytes for item in every),
        sum(item.data_bytes for item in every),
        sum(item.bss_bytes for item in every),
    )


def table(sizes: Sequence[Size]) -> str:
    """Format lines in bytes, the total last; "" if nothing was measured."""
    if not sizes:
        return ""
    rows = [(item.folder, item.text_bytes, item.data_bytes, item.bss_bytes) for item in (*sizes, total(sizes))]
    return format_table(rows, ("bytes of", "text", "data", "bss"))


def problems(sizes: Iterable[Size], limits: Mapping[str, int]) -> list[str]:
    """List folders with more bytes of text than `limits` (bytes by folder) allow; others have no limit."""
    return [
        f"linux/{item.folder}: {item.text_bytes} bytes of text, the budget is {limits[item.folder]}"
        for item in sizes
        if item.text_bytes > limits.get(item.folder, item.text_bytes)
    ]

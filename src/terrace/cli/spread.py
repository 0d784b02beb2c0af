# SPDX-License-Identifier: GPL-2.0
"""terrace spread: print the NUMA placement of a process's memory, from numa_maps."""

from __future__ import annotations

import argparse
import mmap
import os
from pathlib import Path

from terrace.cli import answer
from terrace.errors import TerraceError, UsageError
from terrace.output import table
from terrace.policy.maps import Mapping, bytes_by_node, parse_numa_maps
from terrace.policy.weights import format_weights
from terrace.sysfs import parse_meminfo
from terrace.units import format_size, parse_size

JSON_VERSION = 1
_LINES = 12
EPILOG = """\
With SIZE it allocates that much under the policy it was started with, as memhog does, and shows where it went:
  terrace exec --weighted-interleave 0=9,1=1 -- terrace spread 256M
With --pid it shows the memory of a process that runs.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("size", nargs="?", metavar="SIZE", help="memory to allocate: 256M")
    parser.add_argument("--pid", type=int, help="a process, instead of newly allocated memory")
    answer.add_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    if (args.size is None) == (args.pid is None):
        raise UsageError("give a size to allocate (terrace spread 256M) or a process (terrace spread --pid 1234)")
    found = allocated(parse_size(args.size)) if args.pid is None else read_maps(args.pid)
    answer.give(args, as_json(found, args.pid), lambda: _print(found))
    return 0


def read_maps(pid: int | None = None) -> list[Mapping]:
    """Read the mappings of a process that have pages. Raises TerraceError."""
    path = Path(f"/proc/{pid or 'self'}/numa_maps")
    try:
        return [mapping for mapping in parse_numa_maps(path.read_text(errors="replace")) if mapping.pages]
    except OSError as error:
        raise TerraceError(f"cannot read {path}: {os.strerror(error.errno or 0)}") from error


def allocated(size: int) -> list[Mapping]:
    """Allocate and touch `size` bytes, and get their mapping."""
    if size < mmap.PAGESIZE:
        raise UsageError(f"size {size} is less than a page of {mmap.PAGESIZE} bytes")
    room = parse_meminfo(Path("/proc/meminfo").read_text()).get("MemAvailable")
    # Without free memory the kernel would kill some process, and not always this one.
    if room is not None and size > room:
        raise UsageError(f"size {format_size(size)} is more than the {format_size(room)} that this machine has left")
    before = {mapping.address: mapping for mapping in read_maps()}
    area = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for offset in range(0, size, mmap.PAGESIZE):
        area[offset] = 1
    # The kernel may merge it with its neighbours: it is the largest mapping that has changed.
    grown = [m for m in read_maps() if m.address not in before or before[m.address].pages != m.pages]
    area.close()
    return sorted(grown, key=lambda m: sum(m.pages.values()), reverse=True)[:1]


def as_json(found: list[Mapping], pid: int | None) -> dict[str, object]:
    """Create the document of docs/reference/json.md."""
    return {
        "version": JSON_VERSION,
        "kind": "spread",
        "pid": pid,
        "nodes": [{"node": node, "bytes": count} for node, count in bytes_by_node(found).items()],
        "mappings": [
            {
                "address": mapping.address,
                "policy": mapping.policy,
                "what": mapping.what,
                "page_bytes": mapping.page_bytes,
                "weights": [{"node": node, "weight": weight} for node, weight in mapping.weights.items()],
                "pages": [{"node": node, "pages": count} for node, count in mapping.pages.items()],
            }
            for mapping in found
        ],
    }


def _print(found: list[Mapping]) -> None:
    total = bytes_by_node(found)
    every = sum(total.values()) or 1
    table(
        [(f"node {node}", format_size(count), f"{100 * count / every:.1f} %") for node, count in total.items()],
        headers=("node", "memory", "share"),
    )
    largest = sorted(found, key=lambda m: -sum(m.pages.values()) * m.page_bytes)
    print()
    rows = []
    for mapping in largest[:_LINES]:
        weights = f" {format_weights(mapping.weights)}" if mapping.weights else ""
        pages = " ".join(f"N{node}={count}" for node, count in mapping.pages.items())
        rows.append((f"{mapping.address:x}", mapping.policy + weights, pages, mapping.what))
    table(rows, headers=("mapping", "policy", "pages", ""))
    if len(largest) > _LINES:
        print(f"… and {len(largest) - _LINES} smaller ones")

# SPDX-License-Identifier: GPL-2.0
"""The workloads of guest/: what there is, of which sources, and what each is for.

`python3 -m terrace.lab.workloads NAME` prints the path of the compiled program.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from terrace.errors import TerraceError, UsageError
from terrace.lab.initramfs import compile_static

_COMMON = ("wl_options.c", "wl_arena.c", "wl_sample.c", "wl_run.c", "wl_json.c")
# The arena of every workload lies here: page N of a profile is page (address - ARENA) / 4096.
ARENA = 0x100000000000


@dataclass(frozen=True)
class Program:
    """One workload: `latency` says whether its result has latency_ns."""

    name: str
    purpose: str
    sources: tuple[str, ...] = ()
    latency: bool = False

    def compile(self) -> Path:
        """The static program, compiled unless that was done before. Raises MissingError or BuildError."""
        return compile_static(self.name, f"{self.name}.c", *self.sources, *_COMMON)


_PROGRAMS = (
    Program("abench", "random page accesses, all pages alike"),
    Program("stream", "bandwidth of copy, scale, add, triad"),
    Program("mlc", "latency under a load of reads and writes"),
    Program("xslookup", "Monte Carlo cross-section lookups on a unionized grid"),
    Program("kvzipf", "key-value store, zipfian keys, YCSB mixes A to F", ("wl_zipf.c",), True),
    Program("pmlat", "latency of single page accesses, and the long ones", latency=True),
    Program("phase", "page accesses with a hot set that moves"),
    Program("heat", "page accesses with weights that stay, or drift", ("wl_zipf.c",)),
    Program("scanhot", "a streaming scan beside a hot set"),
    Program("bfs", "breadth-first search in a Kronecker graph"),
    Program("buildlike", "short-lived children, private mappings, files"),
    Program("chase", "dependent reads along a random cycle"),
)
WORKLOADS: Mapping[str, Program] = MappingProxyType({program.name: program for program in _PROGRAMS})


def compile_ballast() -> Path:
    """The program that runs another with less memory on a node: ballast --node N --leave SIZE -- CMD."""
    return compile_static("ballast")


def find_workload(name: str) -> Program:
    """The workload of that name. Raises UsageError with all names."""
    try:
        return WORKLOADS[name]
    except KeyError:
        raise UsageError(f"no workload '{name}'; there are {', '.join(WORKLOADS)}") from None


def main(words: list[str]) -> int:
    """Print where the programs of these names are."""
    try:
        for name in words or list(WORKLOADS):
            print(compile_ballast() if name == "ballast" else find_workload(name).compile())
    except TerraceError as error:
        print(f"workloads: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

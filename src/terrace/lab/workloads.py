# SPDX-License-Identifier: GPL-2.0
"""The workloads of guest/: their names, sources and purposes.

`python3 -m terrace.lab.workloads NAME` prints the path of the compiled program.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from terrace.errors import MissingError, TerraceError, UsageError
from terrace.host import require_packages
from terrace.lab.initramfs import Outside, compile_static, copy_script
from terrace.words import did_you_mean

_COMMON = ("wl_options.c", "wl_arena.c", "wl_sample.c", "wl_run.c", "wl_json.c")
# Address of the arena of every workload: page N of a profile is page (address - ARENA) / 4096.
ARENA = 0x100000000000
# Processes of a workload that has several, without the option (guest/pool.c).
DEFAULT_PROCESSES = 200
# The interpreter of the guest's scripts. The guest uses the host's files.
_PYTHON = Path("/usr/bin/python3")


@dataclass(frozen=True)
class Public:
    """A public program that is compiled into a workload. The user gives its sources; they are not part of Terrace.

    `variable` is the environment variable with their folder, `home` the address of the program, `below` the folder
    of the sources in its repository.
    """

    variable: str
    home: str
    below: str
    sources: tuple[str, ...]
    flags: tuple[str, ...]

    def option(self, name: str) -> str:
        """Get the option of `bench run` for the folder."""
        return f"--{name} DIR"

    def find(self, name: str) -> Outside:
        """Find the sources. Raises UsageError if the variable is not set or the folder does not have them."""
        given = os.environ.get(self.variable)
        if not given:
            raise UsageError(
                f"workload {name} needs its sources ({self.home}): give their folder with {self.option(name)} or "
                f"{self.variable}"
            )
        root = Path(given)
        for folder in (root / self.below, root):
            if all((folder / source).is_file() for source in self.sources):
                return Outside(folder, self.sources, self.flags)
        raise UsageError(f"{given}: no {self.below}/{self.sources[0]} there: these are not the sources of {self.home}")


@dataclass(frozen=True)
class Program:
    """One workload: `latency`: its result has latency_ns; `copies`: it has that option.

    `script` is a file of guest/ that it runs in interpreters; they own the memory, and there is no
    arena. `processes` is the option with the number of processes that map the arena: they take
    memory before the measured part, so the program itself makes fast memory short (--leave).
    `public` is the program from elsewhere that is compiled into it.
    """

    name: str
    purpose: str
    sources: tuple[str, ...] = ()
    latency: bool = False
    copies: bool = False
    script: str = ""
    processes: str = ""
    public: Public | None = None

    def compile(self) -> Path:
        """Compile the static program, if necessary. Raises MissingError, BuildError, and UsageError without the
        sources of a public program.
        """
        outside = self.public.find(self.name) if self.public else None
        return compile_static(self.name, f"{self.name}.c", *self.sources, *_COMMON, outside=outside)

    @property
    def sources_option(self) -> str:
        """Get the option of `bench run` for the sources of a public program; "" for other programs."""
        return self.public.option(self.name) if self.public else ""

    def words(self) -> tuple[str, ...]:
        """Get the first options of its command line. Raises MissingError without an interpreter."""
        if not self.script:
            return ()
        return ("--script", str(copy_script(self.script)), "--python-version", _python_version())


_PROGRAMS = (
    Program("abench", "random page accesses, all pages alike"),
    Program("stream", "bandwidth of copy, scale, add, triad"),
    Program("mlc", "latency under a load of reads and writes"),
    Program("xslookup", "Monte Carlo cross-section lookups on a unionized grid", ("wl_copies.c",), copies=True),
    Program("kvzipf", "key-value store, zipfian keys, YCSB mixes A to F", ("wl_zipf.c",), True),
    Program("pmlat", "latency of single page accesses, and the long ones", latency=True),
    Program("phase", "page accesses with a hot set that moves"),
    Program("heat", "page accesses with weights that stay, or drift", ("wl_zipf.c",)),
    Program("scanhot", "a streaming scan and a hot set"),
    Program("bfs", "breadth-first search in a Kronecker graph"),
    Program("buildlike", "short-lived children, private mappings, files", ("wl_copies.c",), copies=True),
    Program("chase", "dependent reads along a random cycle"),
    Program(
        "pool",
        "a buffer pool that many processes map",
        ("wl_zipf.c", "node_fill.c"),
        processes="backends",
    ),
)
WORKLOADS: Mapping[str, Program] = MappingProxyType({program.name: program for program in _PROGRAMS})
XSBENCH = Public(
    variable="TERRACE_XSBENCH",
    home="https://github.com/ANL-CESAR/XSBench",
    below="openmp-threading",
    sources=("Simulation.c", "GridInit.c", "XSutils.c", "Materials.c"),
    flags=("-Dmalloc=xs_malloc", "-Dcalloc=xs_calloc", "-Dfree=xs_free"),
)
_PUBLIC = (Program("xsbench", "XSBench itself, from sources that the user gives", public=XSBENCH),)
_INTERPRETED = (Program("pyheap", "lookups in dicts of Python, in the interpreters' memory", script="pyheap.py"),)
ALL_WORKLOADS: Mapping[str, Program] = MappingProxyType(
    {**WORKLOADS, **{program.name: program for program in (*_INTERPRETED, *_PUBLIC)}}
)


def compile_ballast() -> Path:
    """Compile the program that runs another one with less memory on a node: ballast --node N --leave SIZE -- CMD."""
    return compile_static("ballast", "ballast.c", "node_fill.c")


def compile_crowd() -> Path:
    """Compile the program that runs another one beside idle and busy processes: crowd --idle N --busy N -- CMD."""
    return compile_static("crowd")


def compile_pagecache() -> Path:
    """Compile the program that fills a node with page cache before it runs another one: pagecache --node N -- CMD."""
    return compile_static("pagecache", "pagecache.c", "node_fill.c")


def compile_preset() -> Path:
    """Compile the program that writes kernel files before it runs another one: preset PATH=VALUE... -- CMD."""
    return compile_static("preset")


def find_workload(name: str) -> Program:
    """Get the workload of that name. Raises UsageError with all names."""
    try:
        return ALL_WORKLOADS[name]
    except KeyError:
        raise UsageError(
            f"no workload '{name}'; {did_you_mean(name, ALL_WORKLOADS)}there are {', '.join(ALL_WORKLOADS)}"
        ) from None


@cache
def _python_version() -> str:
    """Get the version of the interpreter that a guest finds, such as 3.11.2."""
    if not _PYTHON.exists():
        require_packages(["python3-minimal"], f"run {_PYTHON} in the guest")
    try:
        done = subprocess.run([_PYTHON, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise MissingError(f"needed to run it in the guest: {_PYTHON}; {error}") from error
    return done.stdout.split()[-1]


def main(words: list[str]) -> int:
    """Print the paths of the programs of these names."""
    try:
        for name in words or [name for name, program in ALL_WORKLOADS.items() if not program.public]:
            print(compile_ballast() if name == "ballast" else find_workload(name).compile())
    except TerraceError as error:
        print(f"workloads: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

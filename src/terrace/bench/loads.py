# SPDX-License-Identifier: GPL-2.0
"""The command that a cell's guest runs: ballast where fast memory is short, then the workload with its words."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace.bench.cells import Beside, Burst, Cell, Options
from terrace.bench.policies import CGROUP, DEMOTION, EVEN, FAST_NODE, POLICIES, SLOW_NODE, machine_kind
from terrace.lab.topology import Topology
from terrace.lab.workloads import (
    ALL_WORKLOADS,
    compile_ballast,
    compile_crowd,
    compile_pagecache,
    compile_preset,
    find_workload,
)

# Words that make a workload print what all others do.
_FORM = {"abench": ("--json", "workload")}
_FIRST_TOUCH = -1
_BURST_SAMPLE_MS = "60000"


@dataclass(frozen=True)
class Programs:
    """Compiled programs: the workload, with the words that belong to it, and what keeps fast memory short.

    `preset` writes kernel files before all of these are started; `crowd` starts processes beside the
    load, and `pagecache` fills the fast memory that is left.
    """

    workload: Path
    ballast: Path | None
    words: tuple[str, ...] = ()
    burst: Path | None = None
    preset: Path | None = None
    crowd: Path | None = None
    pagecache: Path | None = None


def names() -> list[str]:
    """The workloads there are."""
    return sorted(ALL_WORKLOADS)


def compile_for(cell: Cell) -> Programs:
    """The programs of a cell, compiled when their sources changed. Raises BuildError with the compiler's words."""
    program = find_workload(cell.workload)
    return Programs(
        program.compile(),
        None if cell.fast_bytes is None or program.processes else compile_ballast(),
        program.words(),
        find_workload(cell.burst.workload).compile() if cell.burst else None,
        compile_preset() if POLICIES[cell.policy].before(cell.machine()) else None,
        compile_crowd() if cell.beside and cell.beside.idle + cell.beside.busy else None,
        compile_pagecache() if cell.beside and cell.beside.page_cache and cell.fast_bytes is not None else None,
    )


def start_node(cell: Cell) -> int:
    """Node of the memory at the start; -1: the node of its first touch."""
    bound = POLICIES[cell.policy].limit
    if bound == "fast":
        return FAST_NODE
    if bound == "slow":
        return SLOW_NODE
    return SLOW_NODE if cell.start == "slow" else _FIRST_TOUCH


def words(cell: Cell, programs: Programs, place: Path | None = None) -> list[str]:
    """Command line of the guest. `place` is the file with the oracle's placement of pages."""
    machine = cell.machine()
    settings = POLICIES[cell.policy].settings(machine)
    command = [str(programs.workload), *programs.words, *_FORM.get(cell.workload, ())]
    even = machine_kind(machine) == EVEN
    if even:
        command += ["--cgroup", CGROUP]
    for path, value in settings:
        # A policy starts with the measured part, when all memory has its contents. Policies that keep memory near its
        # thread start before the first touch, because the scheduler can move the thread after it.
        command += ["--set" if even or (path, value) == DEMOTION else "--set-late", f"{path}={value}"]
    command += ["--size", str(cell.size), "--threads", str(cell.threads), "--seed", str(cell.seed)]
    command += ["--start-node", str(start_node(cell)), *_place_words(cell, machine)]
    if cell.pin:
        # Without --pin the placement of threads adds noise of its kind.
        command += ["--pin"]
    if place is not None:
        command += ["--place", str(place)]
    command += _option_words(cell.options)
    if cell.burst and programs.burst:
        command += ["--burst", str(programs.burst), "--burst-ms", str(cell.burst.at_ms)]
        command += ["--burst-words", " ".join(_burst_words(cell.burst, cell.seed))]
    if cell.fast_bytes is not None and find_workload(cell.workload).processes:
        command += ["--leave", str(cell.fast_bytes)]
    if programs.pagecache is not None:
        command = [str(programs.pagecache), "--node", str(FAST_NODE), "--", *command]
    if programs.ballast is not None:
        leave = ["--node", str(FAST_NODE), "--leave", str(cell.fast_bytes)]
        command = [str(programs.ballast), *leave, "--", *command]
    if programs.crowd is not None and cell.beside:
        command = [str(programs.crowd), *_crowd_words(cell.beside), "--", *command]
    before = POLICIES[cell.policy].before(machine)
    if programs.preset is not None and before:
        command = [str(programs.preset), *(f"{path}={value}" for path, value in before), "--", *command]
    return command


def _place_words(cell: Cell, machine: Topology) -> list[str]:
    """Options of the load for a bound, on a machine whose nodes are all alike."""
    bound = POLICIES[cell.policy].limit
    if bound == "even":
        return ["--weights", ",".join("1" for _ in machine.nodes)]
    return ["--copies"] if bound == "copies" else []


def _crowd_words(beside: Beside) -> list[str]:
    idle = ["--idle", str(beside.idle), "--ranges", str(beside.ranges)]
    busy = ["--busy", str(beside.busy), "--busy-size", str(beside.busy_size), "--busy-ms", str(beside.busy_ms)]
    return [*idle, *busy, "--node", str(SLOW_NODE)]


def _option_words(options: Options) -> list[str]:
    words: list[str] = []
    for name, given in options:
        words += [f"--{name}"] if given is None else [f"--{name}", given]
    return words


def _burst_words(burst: Burst, seed: int) -> list[str]:
    """Command line of the burst's workload. It hardly samples: no figure uses the placement of its pages."""
    plain = ["--size", str(burst.size), "--threads", str(burst.threads), "--seed", str(seed)]
    plain += ["--sample-ms", _BURST_SAMPLE_MS, *_FORM.get(burst.workload, ())]
    return [*plain, *_option_words(burst.options)]


def describe(command: Sequence[str], private: Sequence[Path]) -> str:
    """The command as a person would type it, for the record; paths in one of `private` are shortened to their names."""
    return shlex.join(Path(word).name if _is_below(word, private) else word for word in command)


def _is_below(word: str, folders: Sequence[Path]) -> bool:
    return os.path.isabs(word) and any(Path(word).is_relative_to(folder) for folder in folders)

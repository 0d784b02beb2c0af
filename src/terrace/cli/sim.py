# SPDX-License-Identifier: GPL-2.0
"""terrace sim: the kernel's decision about placement on simulated loads."""

import argparse
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from terrace import files, output
from terrace.cli import answer
from terrace.errors import TerraceError, UsageError
from terrace.host import cpu_count
from terrace.output import say
from terrace.progress import Progress
from terrace.units import whole_number
from terrace.words import did_you_mean

if TYPE_CHECKING:
    from terrace.sim.runs import Cell
    from terrace.sim.tables import Results

JSON_VERSION = 1
EPILOG = """\
Without words: every load, with DRAM for 1/8, 1/4 and 1/2 of it; minutes. A part of the decision can be taken out:
  terrace sim --loads zipf0.99,uniform --policies place,place-sides
`terrace sim --list` says which loads and policies there are.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `terrace sim`."""
    parser.description = "Run mm/mtier/place.c, as the kernel compiles it, on simulated loads; print what it came to."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    jobs = whole_number("--jobs", 1, 1024)
    parser.add_argument(
        "--hosts",
        metavar="NAME,…",
        help="L: 256 MiB, busy; S: 64 GiB; D: L with dear looks; E: L with dear flushes (L,S)",
    )
    parser.add_argument("--loads", metavar="NAME,…", help="only these")
    parser.add_argument("--dram", metavar="PART,…", help="DRAM for these parts of the load (1/8,1/4,1/2)")
    parser.add_argument("--policies", metavar="NAME,…", help="who decides (static,informed,place)")
    parser.add_argument("--seeds", metavar="N,…", default="1", help="of the random numbers (%(default)s)")
    parser.add_argument("--jobs", type=jobs, metavar="N", help="runs at a time (one for each CPU)")
    parser.add_argument("--list", action="store_true", help="print loads and policies and run nothing")
    answer.add_arguments(parser)
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw how four of the runs went")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the page of the documentation, with its picture"
    )


def main(args: argparse.Namespace) -> int:
    """Run the simulation."""
    from terrace.sim.loads import LOADS
    from terrace.sim.policies import COSTS, PARTS
    from terrace.sim.runs import run_all
    from terrace.sim.tables import HEADERS, MEANING, rows

    if args.list:
        loads = [(name, text) for name, (text, _) in LOADS.items()]
        named = [("static", "nothing moves"), ("informed", "knows all rates"), ("place", "mm/mtier/place.c")]
        parts = [*PARTS.items(), *((name, text) for name, (text, _) in COSTS.items())]
        named += [(f"place-{name}", text) for name, text in parts]

        def text() -> None:
            output.table(loads, ("load", "what it is"))
            print()
            output.table(named, ("policy", "who decides"))

        known = {"loads": [_named(*pair) for pair in loads], "policies": [_named(*pair) for pair in named]}
        answer.give(args, {"version": JSON_VERSION, "kind": "known-loads", **known}, text)
        return 0
    cells = _cells(args)
    results = {}
    with Progress("simulation", len(cells)) as progress:
        for cell, found in run_all(cells, args.jobs or cpu_count()):
            results[cell] = found
            progress.step()
    if args.picture:
        _draw(args.picture, cells[0].seed)
    if args.report:
        _report(args, results)
    found_cells = [{**asdict(cell), **asdict(found)} for cell, found in results.items()]

    def table() -> None:
        output.table([row.words() for row in rows(results)], HEADERS)
        print("\n" + MEANING)

    answer.give(args, {"version": JSON_VERSION, "kind": "sim", "cells": found_cells}, table)
    return 0


def _named(name: str, what: str) -> dict[str, str]:
    return {"name": name, "what": what}


def _cells(args: argparse.Namespace) -> "list[Cell]":
    """Parse the options. Raises UsageError, which lists the choices."""
    from terrace.sim.loads import LOADS
    from terrace.sim.policies import policy_named
    from terrace.sim.runs import Cell
    from terrace.sim.tables import DRAM, POLICIES, USUAL
    from terrace.sim.world import HOSTS, USUAL_HOSTS

    hosts = _words(args.hosts) or list(USUAL_HOSTS)
    for name in hosts:
        if name not in HOSTS:
            raise UsageError(f"--hosts: no host '{name}'; {did_you_mean(name, HOSTS)}there are {', '.join(HOSTS)}")
    loads = _words(args.loads)
    for name in loads:
        if name not in LOADS:
            raise UsageError(f"--loads: no load '{name}'; {did_you_mean(name, LOADS)}there are {', '.join(LOADS)}")
    policies = _words(args.policies) or list(POLICIES)
    for name in policies:
        policy_named(name)
    dram = [_part(word) for word in _words(args.dram)] or list(DRAM)
    seeds = [whole_number("--seeds", 0, (1 << 32) - 1)(word) for word in _words(args.seeds)]
    return [
        Cell(host, load, part, policy, seed)
        for host in hosts
        for load in loads or USUAL[host]
        for part in dram
        for policy in policies
        for seed in seeds
    ]


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()] if text else []


def _part(word: str) -> float:
    try:
        part = Fraction(word)
    except (ValueError, ZeroDivisionError):
        part = Fraction(0)
    if not 0 < part <= 1:
        raise UsageError(f"--dram: '{word}' is no part of the load, such as 1/4, above 0 and up to 1")
    return float(part)


def _draw(path: Path, seed: int) -> None:
    from terrace.sim.picture import draw

    draw(path, seed)
    say(f"picture: {path}")


def _report(args: argparse.Namespace, results: "Results") -> None:
    from terrace.sim.tables import markdown

    picture = args.report.parent.parent / "images" / "sim.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    _draw(picture, next(iter(results)).seed)
    command = f"./terrace sim --seeds {args.seeds} --report {args.report}"
    _write(args.report, markdown(results, command, "../images/sim.svg"))
    say(f"page: {args.report}")


def _write(path: Path, text: str) -> None:
    try:
        files.replace(path, text.encode())
    except OSError as error:
        raise TerraceError(f"{path}: {files.why(error, path)}") from error

# SPDX-License-Identifier: GPL-2.0
"""terrace demo: promotion, compared with the stock kernel."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from terrace import output
from terrace.cli import answer
from terrace.cli.linux import add_linux
from terrace.demo.cases import ALL, FUNCTIONS, QUICK, Workload
from terrace.demo.functions import functions_headers, functions_rows
from terrace.demo.report import as_json, caption, doubts, headers, quiet_headers, quiet_rows, rows, verdicts
from terrace.demo.runner import Outcome, kernels_for, run_cases
from terrace.errors import TerraceError
from terrace.units import parse_size, whole_number

DEFAULT_SIZE = "64M"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `terrace demo`."""
    parser.description = (
        "Run one memory load, all of it on the slow node at first, on the stock kernel with numa_balancing 0, 1 and 2 "
        "and on Terrace; print what was measured and draw how the pages came to DRAM."
    )
    parser.add_argument("--size", default=DEFAULT_SIZE, metavar="SIZE", help="memory of the load (%(default)s)")
    threads, seed = whole_number("--threads", 1, 64), whole_number("--seed", 0, (1 << 32) - 1)
    parser.add_argument("--threads", type=threads, default=8, metavar="N", help="its threads, 1 to 64 (%(default)s)")
    parser.add_argument("--seed", type=seed, default=1, metavar="N", help="of its random numbers (%(default)s)")
    add_linux(parser)
    answer.add_arguments(parser)
    parser.add_argument(
        "--picture",
        type=Path,
        default=Path("terrace-demo.png"),
        metavar="FILE",
        help="write the timeline here (%(default)s)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="one kernel and two guests: promotion by Terrace, and by NUMA balancing"
    )
    parser.add_argument(
        "--functions",
        action="store_true",
        help="instead: instructions of promotion by kernel function, for migration by address space and by folio",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit with 1 when an expectation is not met; a figure that is unknown always gives 1",
    )


def check_arguments(args: argparse.Namespace) -> None:
    """Reject invalid arguments before anything is installed or built."""
    _workload(args)
    answer.check_writable("--picture", args.picture)


def main(args: argparse.Namespace) -> int:
    """Run the demo."""
    workload = _workload(args)
    if args.functions:
        return _functions(args, workload)
    # Imported before the long work, so that a missing package of the picture ends the demo now.
    from terrace.demo.picture import draw

    cases = QUICK if args.quick else ALL
    kernels = kernels_for(cases, workload)
    outcomes = run_cases(cases, workload, kernels, "demo")
    by_name = {outcome.case.name: outcome for outcome in outcomes}
    draw(by_name, caption(workload, kernels), args.picture)
    answer.give(args, as_json(workload, kernels, outcomes), lambda: _print(args, by_name, caption(workload, kernels)))
    unknown = doubts(by_name)
    for line in unknown:
        output.warn(f"demo: unknown figures: {line}")
    return 1 if unknown or (args.check and not all(check.met for check in verdicts(by_name))) else 0


def _functions(args: argparse.Namespace, workload: Workload) -> int:
    kernels = kernels_for(FUNCTIONS, workload)
    outcomes = run_cases(FUNCTIONS, workload, kernels, "demo", functions=True)
    for outcome in outcomes:
        if outcome.figures.unknown:
            raise TerraceError(f"{outcome.case.label}: the figures are unknown: {outcome.figures.unknown}")
    pages = {outcome.case.name: max(outcome.figures.promoted_pages, 1) for outcome in outcomes}
    found = {outcome.case.name: outcome.functions for outcome in outcomes}

    def text() -> None:
        print(caption(workload, kernels) + "\n")
        output.table(functions_rows(found, pages), functions_headers())

    answer.give(args, as_json(workload, kernels, outcomes), text)
    return 0


def _print(args: argparse.Namespace, by_name: Mapping[str, Outcome], line: str) -> None:
    print(line + "\n")
    output.table(rows(by_name), headers(by_name))
    print()
    if quiet := quiet_rows(by_name):
        output.table(quiet, quiet_headers())
        print()
    words = {True: ("met", "green"), False: ("missed", "red"), None: ("unknown", "yellow")}
    for check in verdicts(by_name):
        word, colour = words[check.met]
        print(f"{output.style(f'{word:7}', colour)}  {check.text}")
    print(f"\ntimeline: {args.picture}" + (f", everything measured: {args.json_file}" if args.json_file else ""))


def _workload(args: argparse.Namespace) -> Workload:
    return Workload(size=parse_size(args.size), threads=args.threads, seed=args.seed)

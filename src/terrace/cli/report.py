# SPDX-License-Identifier: GPL-2.0
"""terrace report: print one page about a recording of `terrace record`."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from terrace.cli import answer
from terrace.cli.record import DEFAULT_FILE
from terrace.errors import UsageError
from terrace.ops.knobs import below_cgroups
from terrace.paths import document
from terrace.trace import heat_page
from terrace.trace.document import as_json
from terrace.trace.facts import Summary
from terrace.trace.only import Only
from terrace.trace.page import as_text
from terrace.trace.store import read
from terrace.trace.summary import summarize
from terrace.units import parse_pids

#: Processes of --heat.
_PROCESSES = 20
_SUFFIXES = (".svg", ".png", ".pdf")
EPILOG = f"""\
Migrated pages, their owners, source and target nodes, waiting times, and the reasons why other pages stayed. It reads
only FILE, on any machine. Meaning of each part: {document("reference/report.md")}.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help=f"of terrace record ({DEFAULT_FILE})")
    parser.add_argument("-i", "--input", type=Path, metavar="FILE", help="the same, as for perf report")
    parser.add_argument("-p", "--pid", metavar="PID[,PID]", help="only these processes")
    parser.add_argument("--cgroup", metavar="PATH", help="only processes of this cgroup and of those below it")
    parser.add_argument("--heat", action="store_true", help="the working set of each process by tier, over the time")
    parser.add_argument("--limit", type=int, metavar="N", help=f"with --heat: processes ({_PROCESSES}; --json: all)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw a plot: FILE.svg, FILE.png or FILE.pdf")
    answer.add_arguments(parser)


def check_arguments(args: argparse.Namespace) -> None:
    """Reject invalid arguments, and a plot that cannot be drawn. Raises UsageError."""
    if args.file is not None and args.input is not None:
        raise UsageError(f"FILE {args.file} and -i {args.input}: give one of them")
    _only(args)
    if args.limit is not None and (args.limit < 1 or not args.heat):
        raise UsageError(f"--limit {args.limit}: use a whole number of 1 or more, with --heat")
    if args.plot is None:
        return
    if args.plot.suffix not in _SUFFIXES:
        raise UsageError(f"--plot {args.plot}: the name has to end in one of {', '.join(_SUFFIXES)}")
    answer.check_writable("--plot", args.plot)


def _only(args: argparse.Namespace) -> Only:
    """Get the filter of -p and --cgroup. Raises UsageError."""
    pids = frozenset() if args.pid is None else parse_pids("--pid", args.pid)
    try:
        return Only(pids, "" if args.cgroup is None else below_cgroups(args.cgroup))
    except UsageError as error:
        raise UsageError(f"--cgroup {args.cgroup}: {error}") from None


def needs_packages(args: argparse.Namespace) -> bool:
    """Only the plot needs packages; Debian's python3-matplotlib is sufficient."""
    return args.plot is not None and importlib.util.find_spec("matplotlib") is None


def main(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    check_arguments(args)
    summary = summarize(read(args.input or args.file or Path(DEFAULT_FILE)), _only(args))
    if args.plot is not None:
        from terrace.trace import heat_plot, plot

        (heat_plot if args.heat else plot).draw(summary, args.plot)
    answer.give(args, as_json(summary), lambda: print(_text(args, summary)))
    return 0


def _text(args: argparse.Namespace, summary: Summary) -> str:
    """Format the page."""
    encoding = sys.stdout.encoding or "utf-8"
    if args.heat:
        return heat_page.as_text(summary, args.limit or _PROCESSES, encoding)
    return as_text(summary, encoding)

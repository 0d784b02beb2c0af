# SPDX-License-Identifier: GPL-2.0
"""terrace status: print tiers, migrations, the reasons why no pages migrate, and the memory in use."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial

from terrace.cli import answer
from terrace.errors import UsageError
from terrace.ops import heat, report, snapshot
from terrace.sysfs import KernelFiles
from terrace.units import parse_interval_s, parse_pids

EPILOG = """\
Rates are over --interval (5 or 5s, 500ms, 2min); with 0 there are none, and the page is printed at
once. Sizes are in powers of 1024. TIER: 0 is the fastest; no page is promoted out of a 'top' tier.
READ: latency and bandwidth from the firmware (HMAT). Since promotion was switched on: PROMOTED pages
of the node, DROPPED folios that were selected and not promoted, DEMOTED pages to the node. LAST BURST
shows /sys/kernel/mm/mtier/place. Counters of /proc/vmstat are since boot.

--heat shows working sets instead: the memory that each process uses in each tier, estimated from
samples. It is for root; with --watch it is shown every --interval.
"""

#: A document of JSON, and the same as text.
Page = tuple[answer.Document, str]
#: Default number of processes of --heat.
_PROCESSES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("--watch", action="store_true", help="again and again, until Ctrl-C; with --json one line each")
    parser.add_argument(
        "--interval", metavar="TIME", help="seconds, or 500ms, that rates are taken over (1s; --watch: 2s)"
    )
    parser.add_argument("--count", type=int, metavar="N", help="with --watch: stop after N")
    parser.add_argument("--heat", action="store_true", help="the working set of each process, by tier; for root")
    parser.add_argument("-p", "--pid", metavar="PID[,PID]", help="with --heat: only these processes")
    parser.add_argument("--limit", type=int, metavar="N", help=f"with --heat: processes ({_PROCESSES}; --json: all)")
    answer.add_arguments(parser)
    parser.add_argument("--root", default="/", metavar="DIR", help="take /proc and /sys from below DIR")


def main(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    default = "2s" if args.watch else "1s"
    seconds = parse_interval_s(args.interval or default)
    if args.watch and seconds == 0:
        raise UsageError("--watch needs an --interval above 0")
    if args.count is not None and (not args.watch or args.count < 1):
        raise UsageError("--count is a number of 1 or more, with --watch")
    if args.heat:
        return _heat(args, seconds)
    if args.pid is not None or args.limit is not None:
        raise UsageError("--pid and --limit choose processes, which --heat shows: terrace status --heat")
    if args.watch:
        return _again(args, seconds, partial(_watch, args))
    files = KernelFiles(args.root)
    before = snapshot.take(files) if seconds else None
    time.sleep(seconds)
    shown = report.make(snapshot.take(files), before, files.unreadable)
    answer.give(args, report.as_json(shown), lambda: print(report.as_text(shown), flush=True))
    return 0


def _heat(args: argparse.Namespace, seconds: float) -> int:
    """Show working sets, once or repeatedly."""
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit {args.limit}: use a whole number of 1 or more")
    pids = frozenset() if args.pid is None else parse_pids("--pid", args.pid)

    def take() -> Page:
        shown = heat.read(KernelFiles(args.root), pids)
        text = heat.as_text(heat.cut(shown, args.limit or _PROCESSES))
        return heat.as_json(heat.cut(shown, args.limit) if args.limit else shown), text

    if args.watch:
        return _again(args, seconds, lambda: take, first=True)
    document, text = take()
    answer.give(args, document, lambda: print(text, flush=True))
    return 0


def _watch(args: argparse.Namespace) -> Callable[[], Page]:
    """Read the counters, and return a function that creates the page of the changes since its last call."""
    before = snapshot.take(KernelFiles(args.root))

    def take() -> Page:
        nonlocal before
        files = KernelFiles(args.root)
        now = snapshot.take(files)
        shown = report.make(now, before, files.unreadable)
        before = now
        return report.as_json(shown), report.as_text(shown)

    return take


def _again(
    args: argparse.Namespace, seconds: float, begin: Callable[[], Callable[[], Page]], first: bool = False
) -> int:
    """Print until Ctrl-C, which is not a failure; ``first``: at once, and then after each interval."""
    lines = answer.Lines(args)
    left = args.count
    try:
        take = begin()
        while left is None or left > 0:
            if not first:
                time.sleep(seconds)
            first = False
            document, text = take()
            lines.give(document, partial(_print_live, text))
            left = None if left is None else left - 1
    except KeyboardInterrupt:
        if not args.json:
            print()
    return 0


def _print_live(text: str) -> None:
    print(f"\033[H\033[J{text}" if sys.stdout.isatty() else f"{text}\n", flush=True)

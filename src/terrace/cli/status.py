# SPDX-License-Identifier: GPL-2.0
"""terrace status: which node is which tier, what moves, and why nothing moves."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial

from terrace.cli import answer
from terrace.errors import UsageError
from terrace.ops import report, snapshot
from terrace.sysfs import KernelFiles
from terrace.units import parse_interval_s

EPILOG = """\
Rates are over --interval (5 or 5s, 500ms, 2min); with 0 there are none, and the answer comes at
once. Sizes count in powers of 1024. TIER: 0 is the fastest; out of a 'top' tier nothing is
promoted. READ: latency and bandwidth that the firmware states (HMAT). Since the engine was switched
on: PROMOTED pages went up from the node, DROPPED folios were to and did not, DEMOTED pages came down
to it. LAST BURST is what /sys/kernel/mm/mtier/place says. Counters of /proc/vmstat are since boot.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("--watch", action="store_true", help="again and again, until Ctrl-C; with --json one line each")
    parser.add_argument(
        "--interval", metavar="TIME", help="seconds, or 500ms, that rates are taken over (1s; --watch: 2s)"
    )
    parser.add_argument("--count", type=int, metavar="N", help="with --watch: stop after N")
    answer.add_arguments(parser)
    parser.add_argument("--root", default="/", metavar="DIR", help="take /proc and /sys from below DIR")


def main(args: argparse.Namespace) -> int:
    """Run the verb."""
    default = "2s" if args.watch else "1s"
    seconds = parse_interval_s(args.interval or default)
    if args.watch and seconds == 0:
        raise UsageError("--watch needs an --interval above 0")
    if args.count is not None and (not args.watch or args.count < 1):
        raise UsageError("--count is a number of 1 or more, with --watch")
    if args.watch:
        return _watch(args, seconds)
    files = KernelFiles(args.root)
    before = snapshot.take(files) if seconds else None
    time.sleep(seconds)
    shown = report.make(snapshot.take(files), before, files.unreadable)
    answer.give(args, report.as_json(shown), lambda: print(report.as_text(shown), flush=True))
    return 0


def _watch(args: argparse.Namespace, seconds: float) -> int:
    """Print until Ctrl-C, which is how one leaves and no failure."""
    lines = answer.Lines(args)
    try:
        before = snapshot.take(KernelFiles(args.root))
        left = args.count
        while left is None or left > 0:
            time.sleep(seconds)
            files = KernelFiles(args.root)
            now = snapshot.take(files)
            shown = report.make(now, before, files.unreadable)
            lines.give(report.as_json(shown), partial(_print_live, shown))
            before = now
            left = None if left is None else left - 1
    except KeyboardInterrupt:
        if not args.json:
            print()
    return 0


def _print_live(shown: report.Report) -> None:
    if sys.stdout.isatty():
        print("\033[H\033[J" + report.as_text(shown), flush=True)
    else:
        print(report.as_text(shown) + "\n", flush=True)

# SPDX-License-Identifier: GPL-2.0
"""terrace top: show memory by owner and tier, and migrations, live."""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial

from terrace.cli import answer
from terrace.errors import MissingError, UsageError
from terrace.live import screen
from terrace.ops import hierarchy, top
from terrace.ops.knobs import below_cgroups
from terrace.ops.look import Want, Watcher
from terrace.ops.processes import Users
from terrace.sysfs import KernelFiles
from terrace.units import parse_interval_s, parse_pids

EPILOG = """\
Lines are sorted by memory on slow nodes, most first. Control groups include their descendants, and
the kernel counts their memory in any case. For a process all of its page tables are walked, with
mmap_lock held for reading: the largest processes first, until no other one can be in the list.
Only root can read the nodes of other users' processes; others get '-'. With --count the JSON has one
document per line. On a terminal, without --count, --json and -o, it is a screen: h shows its keys,
q ends it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "--by", choices=("cgroup", "process"), help="unit of a line (cgroup; process without cgroup v2)"
    )
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="lines (20)")
    parser.add_argument("--depth", type=int, default=3, metavar="N", help="levels of control groups (3)")
    parser.add_argument(
        "-d", "--interval", default="2s", metavar="TIME", help="time between refreshes: seconds, or 500ms (2s)"
    )
    parser.add_argument("-p", "--pid", metavar="PID[,PID]", help="only these processes")
    parser.add_argument("-u", "--user", metavar="USER", help="only processes of this user, a name or a number")
    parser.add_argument("--cgroup", metavar="PATH", help="only this cgroup and those below it, or their processes")
    parser.add_argument(
        "--count", type=int, metavar="N", help="stop after N; default: never on a terminal, otherwise 1"
    )
    answer.add_arguments(parser)
    parser.add_argument("--root", default="/", metavar="DIR", help="take /proc and /sys from below DIR")


def main(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    for name, least in (("limit", 1), ("depth", 1), ("count", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise UsageError(f"--{name} {value}: use a whole number of {least} or more")
    seconds = parse_interval_s(args.interval)
    if seconds <= 0:
        raise UsageError(f"--interval {args.interval}: use a time above 0")
    want = _want(args)
    if args.count is None and not args.json and not args.json_file and screen.possible():
        return screen.run(args.root, want, seconds)
    try:
        _print_looks(args, want, seconds)
    except KeyboardInterrupt:
        if not args.json:
            print()
    return 0


def _want(args: argparse.Namespace) -> Want:
    """Get the request: processes if cgroups cannot be shown, or if only processes have the
    requested columns.

    Raises UsageError, and MissingError if --by requests cgroups that cannot be shown.
    """
    files = KernelFiles(args.root)
    of_processes = [f"--{name}" for name in ("pid", "user") if getattr(args, name) is not None]
    if args.by == "cgroup" and of_processes:
        raise UsageError(f"{of_processes[0]} is of processes: leave --by cgroup out")
    by = "process" if of_processes else args.by
    problem = None if by == "process" else hierarchy.find(files).problem
    if by == "cgroup" and problem:
        raise MissingError(f"--by cgroup: {top.problem_text(problem)}. Processes: terrace top --by process")
    return Want(
        by or ("process" if problem else "cgroup"),
        args.limit,
        args.depth,
        instead=problem is not None,
        pids=_pids(args, files),
        user="" if args.user is None else _user(args, files),
        cgroup=_cgroup(args, files),
    )


def _pids(args: argparse.Namespace, files: KernelFiles) -> frozenset[int]:
    pids = frozenset() if args.pid is None else parse_pids("--pid", args.pid)
    if missing := sorted(pid for pid in pids if not files.exists(f"proc/{pid}")):
        raise UsageError(f"--pid {args.pid}: there is no process {', '.join(map(str, missing))}")
    return pids


def _user(args: argparse.Namespace, files: KernelFiles) -> str:
    try:
        return Users(files).find(args.user)
    except UsageError as error:
        raise UsageError(f"--user {args.user}: {error}") from None


def _cgroup(args: argparse.Namespace, files: KernelFiles) -> str:
    """Get the path below the root of cgroups; one of cgroup v1 is known by its processes only."""
    if args.cgroup is None:
        return ""
    try:
        path = below_cgroups(args.cgroup)
    except UsageError as error:
        raise UsageError(f"--cgroup {args.cgroup}: {error}") from None
    mounted = hierarchy.find(files)
    if not mounted.problem and not files.exists(f"{mounted.folder}/{path}"):
        raise UsageError(f"--cgroup {args.cgroup}: there is no cgroup /{mounted.folder}/{path}")
    return path


def _print_looks(args: argparse.Namespace, want: Want, seconds: float) -> None:
    """Print a table, or a document, repeatedly."""
    lines = answer.Lines(args)
    live = args.count is None and sys.stdout.isatty() and not args.json
    left = args.count or 1
    watcher = Watcher(args.root)
    watcher.start(want)
    while live or left > 0:
        time.sleep(seconds)
        look = watcher.take(want)
        shown = look.rows[: args.limit]
        document = top.as_json(
            shown, look.nodes, want.kind, look.seconds or seconds, look.unreadable, look.refused, look.problem
        )
        text = partial(_print, top.as_text(shown, look.nodes, want.kind, look.refused, look.problem), live)
        if args.count is None and not live:
            answer.give(args, document, text)
        else:
            lines.give(document, text)
        left -= 1


def _print(text: str, live: bool) -> None:
    clear = "\033[H\033[J" if live and os.environ.get("TERM", "dumb") != "dumb" else ""
    print(clear + text, flush=True)

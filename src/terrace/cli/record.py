# SPDX-License-Identifier: GPL-2.0
"""terrace record: trace migrations for a time, for `terrace report`."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from terrace.cli import answer
from terrace.errors import TerraceError, UsageError
from terrace.files import check_regular
from terrace.output import format_duration, say, warn
from terrace.paths import document
from terrace.sysfs import KernelFiles
from terrace.trace import session
from terrace.trace.record import Request, Result, may_record, record
from terrace.units import clipped, format_size, parse_pids, parse_size, parse_time_ns

JSON_VERSION = 1
DEFAULT_FILE = "terrace.data"
DEFAULT_SECONDS = 60.0
_DAY_S = 24 * 3600.0
_BUFFER = (64 << 10, 4 << 30)
USAGE = """terrace record [-a | -p PID[,PID]] [--time TIME | -- CMD [ARG …]] [-o FILE] [--buffer SIZE] [--json]"""
EPILOG = f"""\
For the time, or while CMD or the processes of -p run, trace-cmd records the tracepoints mtier, numa_follow, tlb_defer,
numa_scan and migrate:mm_migrate_pages, in a separate instance of tracefs. The kernel's counters are read at both ends.
Ctrl-C and SIGTERM end the recording early, and it is kept. The exit code is CMD's; 127: not found,
126: cannot be run. `terrace report` shows the file, here or on another machine ({document("reference/report.md")}).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.usage = USAGE
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("-a", "--all", action="store_true", help="the whole machine (the default)")
    whose.add_argument("-p", "--pid", metavar="PID[,PID]", help="only these processes, as long as one of them runs")
    parser.add_argument("--time", metavar="TIME", help=f"seconds, or 500ms, 2min, up to 24h ({DEFAULT_SECONDS:.0f}s)")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(DEFAULT_FILE), metavar="FILE", help="write it here (%(default)s)"
    )
    parser.add_argument(
        "--buffer", default="8M", metavar="SIZE", help="of each CPU for events, 64K to 4G (%(default)s)"
    )
    answer.add_arguments(parser, file=False)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD", help="the program and its arguments")


def check_arguments(args: argparse.Namespace) -> None:
    """Reject what cannot be recorded before anything is. Raises UsageError."""
    _request(args)
    answer.check_writable("-o", args.output)
    if args.output.exists():
        check_regular(args.output, args.output.stat().st_mode, "-o")


def main(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    check_arguments(args)
    request = _request(args)
    if not may_record():
        raise TerraceError("tracing is for root: sudo terrace record …")
    if request.command and (code := _cannot_run(request.command[0])):
        return code
    session.program()
    result = record(request, KernelFiles())
    if result.head.lost:
        warn(
            f"{result.head.lost} events were lost; a larger buffer than --buffer {args.buffer} keeps more "
            "(it is taken once for each CPU)"
        )
    if result.head.cgroups_problem:
        warn(f"cgroups were not counted: {result.head.cgroups_problem}")
    if args.json:
        answer.give(args, as_json(request, result))
    else:
        # Stdout is the program's.
        say(_text(request, result))
    return result.exit_code


def _request(args: argparse.Namespace) -> Request:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if args.time is not None and command:
        raise UsageError(
            f"--time {args.time} and a program to run: give one of them; a program is recorded until it ends"
        )
    size = parse_size(args.buffer)
    if not _BUFFER[0] <= size <= _BUFFER[1]:
        low, high = (format_size(limit) for limit in _BUFFER)
        raise UsageError(f"--buffer {args.buffer}: use a size from {low} to {high}")
    pids = _pids(args.pid)
    seconds = None if pids and args.time is None else _seconds(args.time)
    return Request(args.output, seconds, size >> 10, tuple(command), pids)


def _pids(text: str | None) -> frozenset[int]:
    pids = frozenset() if text is None else parse_pids("--pid", text)
    files = KernelFiles()
    if missing := sorted(pid for pid in pids if not files.exists(f"proc/{pid}")):
        raise UsageError(f"--pid {text}: there is no process {', '.join(map(str, missing))}")
    return pids


def _seconds(text: str | None) -> float:
    if text is None:
        return DEFAULT_SECONDS
    try:
        seconds = parse_time_ns(f"{text}s" if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else text) / 1e9
    except UsageError:
        seconds = 0.0
    if not 0 < seconds <= _DAY_S:
        raise UsageError(
            f"--time {clipped(text)}: use seconds (60), or a time with its unit (500ms, 2min), above 0, up to 24h"
        )
    return seconds


def _cannot_run(name: str) -> int:
    """Return 0, or the exit code for a program that does not exist or cannot be run, after printing the reason."""
    if shutil.which(name):
        return 0
    if "/" in name and Path(name).exists():
        print(f"terrace: cannot run '{name}': Permission denied; nothing was recorded", file=sys.stderr)
        return 126
    print(f"terrace: there is no program '{name}'; nothing was recorded", file=sys.stderr)
    return 127


def _text(request: Request, result: Result) -> str:
    head = result.head
    return (
        f"terrace: {format_duration(head.seconds)} recorded in {request.path}: {head.events} events, "
        f"{head.lost or 'none'} lost, {format_size(result.size)}; `terrace report {request.path}` shows it"
    )


def as_json(request: Request, result: Result) -> dict[str, Any]:
    """Create the document of --json (docs/reference/json.md)."""
    head = result.head
    return {
        "version": JSON_VERSION,
        "kind": "record",
        "file": str(request.path),
        "size_bytes": result.size,
        "seconds": round(head.seconds, 6),
        "events": head.events,
        "lost_events": head.lost,
        "strange_events": head.strange,
        "enabled": head.enabled,
        "command": head.command,
        "exit_code": head.exit_code,
        "cgroups_problem": head.cgroups_problem,
        "pids": head.pids,
    }

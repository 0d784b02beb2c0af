# SPDX-License-Identifier: GPL-2.0
"""terrace exec: run a program with a placement and a scan scale of its own."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys

from terrace.cli import answer
from terrace.errors import MissingError, TerraceError, UsageError
from terrace.ops.calls import SCALE_MAX, Calls
from terrace.policy.calls import PolicyCalls
from terrace.policy.place import JSON_VERSION, Placement, apply, describe, shown
from terrace.sysfs import KernelFiles

EPILOG = """\
NODES is a set as numactl writes it: 0,2-3  all  !1. WEIGHTS is a list of NODE=WEIGHT, 0=9,1=1: nine pages of ten
on node 0; a node without a weight, or with 0, has the one that holds for everybody. Children inherit the policy
and it is kept over exec; weights of a task need a kernel of ours, the other policies do not.
--weights takes weights in the ratio of the nodes' bandwidths: as firmware tells them (HMAT, CDAT), measured now by
copying memory of each node, or auto: firmware's, measured where it does not tell all of them and all have
256M free.
--range-file gives the policy to a file in memory (tmpfs, hugetlbfs) or to a range of it, instead of to the
program; it stays with the file until it is deleted.

The scan scale says how often the engine looks at the program's memory: 0 never, 5 as often as any
other (the default), 10 twice as often. Children inherit it and it is kept over exec; it is shown as
MtierScanScale in /proc/PID/status. The exit code is the program's; 127: not found, 126: cannot be run.
"""
USAGE = """terrace exec [PLACEMENT] [--range-file FILE[:OFFSET+SIZE]] [--scan-scale N] -- CMD [ARG …]
       terrace exec --show [--json]"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.usage = USAGE
    place = parser.add_argument_group("placement (one of)")
    group = place.add_mutually_exclusive_group()
    group.add_argument("--weighted-interleave", metavar="WEIGHTS", help="spread pages by weights of its own: 0=9,1=1")
    group.add_argument("--interleave", metavar="NODES", help="spread pages evenly; with --weights auto by bandwidth")
    group.add_argument("--membind", metavar="NODES", help="take pages only from these nodes")
    group.add_argument("--preferred", metavar="NODES", help="take pages from these nodes as long as they have some")
    parser.add_argument("--weights", choices=("auto", "firmware", "measured"), help="weights by bandwidth, see below")
    parser.add_argument("--range-file", action="append", default=[], metavar="FILE[:OFFSET+SIZE]", help="see below")
    parser.add_argument(
        "--fallback", action="store_true", help="without weights per task use those that hold for everybody, and say so"
    )
    parser.add_argument("--show", action="store_true", help="show the policy a program would have, and run none")
    answer.add_arguments(parser)
    parser.add_argument("--scan-scale", type=int, metavar="N", help=f"0 (never looked at) to {SCALE_MAX}; 5 is usual")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD", help="the program and its arguments")


def main(args: argparse.Namespace) -> int:
    """Run the verb; returns only when the program could not be started, or with --show."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command and not args.show:
        raise UsageError("give the program to run: terrace exec --scan-scale 0 -- CMD [ARG …]")
    if (args.json or args.json_file) and not args.show:
        raise UsageError("--json and -o go with --show")
    files, calls = KernelFiles(), PolicyCalls()
    wish = Placement(
        weighted=args.weighted_interleave,
        interleave=args.interleave,
        membind=args.membind,
        preferred=args.preferred,
        weights=args.weights,
        ranges=tuple(args.range_file),
        fallback=args.fallback,
    )
    apply(wish, files, calls)
    if args.scan_scale is not None:
        set_scale(Calls(), args.scan_scale)
    if args.show:
        about = describe(files, calls)
        document = {"version": JSON_VERSION, "kind": "policy", **about}
        answer.give(args, document, lambda: print("\n".join(shown(about))))
        return 0
    sys.stdout.flush()
    # Python ignores these, and what is ignored stays so over exec: the program is to end by a closed pipe, as ever.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        print(f"terrace: there is no program '{command[0]}'", file=sys.stderr)
        return 127
    except OSError as error:
        print(f"terrace: cannot run '{command[0]}': {error.strerror}", file=sys.stderr)
        return 126


def set_scale(calls: Calls, scale: int) -> None:
    """Set the scan scale of this process.

    Raises UsageError when it is out of range, MissingError when the kernel has no such call.
    """
    if not 0 <= scale <= SCALE_MAX:
        raise UsageError(f"--scan-scale cannot be {scale}; allowed: 0 (never looked at) to {SCALE_MAX}")
    try:
        calls.set_scan_scale(scale)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOSYS):
            raise MissingError(
                f"this kernel ({os.uname().release}) has no scan scale per process; see `terrace doctor`"
            ) from error
        raise TerraceError(f"the kernel refuses --scan-scale {scale}: {error.strerror}") from error

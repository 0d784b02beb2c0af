# SPDX-License-Identifier: GPL-2.0
"""terrace exec: run a program with a memory policy, CPUs and a scan scale; the options are those of numactl."""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from terrace.cli import answer
from terrace.errors import MissingError, TerraceError, UsageError
from terrace.ops.calls import SCALE_MAX, Calls
from terrace.policy import binding
from terrace.policy.binding import CpuCalls
from terrace.policy.calls import PolicyCalls
from terrace.policy.place import JSON_VERSION, Placement, apply, calls_text, describe, policy_of, shown
from terrace.sysfs import KernelFiles
from terrace.units import format_nodes

EPILOG = """\
NODES and CPUS are sets as numactl writes them: 0,2-3  all  !1 (all but 1)  +0-1 (the first two that this
task may use)  !+0  same (the set of the option before). WEIGHTS is such a set, or a list of NODE=WEIGHT,
0=9,1=1: nine pages of ten on node 0; a node without a weight, or with 0, has the global weight.
Children inherit the policy and it is kept over exec; weights of a task need the Terrace kernel,
the other policies do not.
--weights uses the weights with the most bandwidth from the CPUs that the program may use (taskset). The
bandwidth of each node is that of the firmware (HMAT, CDAT), or is measured by copying memory of each node. auto
measures if the firmware does not describe all nodes and all have enough free memory: 256M, or 4 times the
last-level caches of the CPUs. A node that is too slow to help is left out.
--range-file gives the policy to a file in memory (tmpfs, hugetlbfs) or to a range of it, instead of to the
program; it stays with the file until it is deleted.

The scan scale sets how often the engine scans the program's slow memory for pages to promote: 0 never (its
memory is not promoted, and gives way like that of others), 5 as often as any other (the default), 10 twice as
often. Children inherit it and it is kept over exec; it is shown as
MtierScanScale in /proc/PID/status. The exit code is the program's; 127: not found, 126: cannot be run.
"""
USAGE = """terrace exec [PLACEMENT] [CPUS] [--range-file FILE[:OFFSET+SIZE]] [--scan-scale N] -- CMD [ARG …]
       terrace exec --dry-run [OPTIONS] -- CMD [ARG …]
       terrace exec --show [--json]"""


class _Once(argparse.Action):
    """An option that may be given once; ``same`` replaces the set of the option before."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) not in (None, False):
            parser.error(f"{option_string} is given twice: one set holds for the whole program")
        if values == "same":
            values = getattr(namespace, "last_set", None)
            if values is None:
                parser.error(f"{option_string} same: no set is given before it")
        if self.nargs != 0:
            namespace.last_set = values
        setattr(namespace, self.dest, True if self.nargs == 0 else values)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.usage = USAGE
    place = parser.add_argument_group("placement (one of)")
    group = place.add_mutually_exclusive_group()
    _add_set(group, "w", "weighted-interleave", "WEIGHTS", "interleave pages by these weights: 0=9,1=1")
    _add_set(group, "i", "interleave", "NODES", "spread pages evenly; with --weights auto by bandwidth")
    _add_set(group, "m", "membind", "NODES", "take pages only from these nodes")
    _add_set(group, "p", "preferred", "NODE", "take pages from this node as long as it has some")
    _add_set(group, "P", "preferred-many", "NODES", "take pages from these nodes as long as they have some")
    group.add_argument(
        "-l", "--localalloc", action=_Once, nargs=0, default=False, help="take pages from the node of the CPU"
    )
    where = parser.add_argument_group("CPUs (one of)").add_mutually_exclusive_group()
    _add_set(where, "N", "cpunodebind", "NODES", "run only on the CPUs of these nodes")
    _add_set(where, "C", "physcpubind", "CPUS", "run only on these CPUs")
    parser.add_argument("-a", "--all", action="store_true", help="sets are of the machine, not of the task's cpuset")
    parser.add_argument("--weights", choices=("auto", "firmware", "measured"), help="weights by bandwidth, see below")
    parser.add_argument("--range-file", action="append", default=[], metavar="FILE[:OFFSET+SIZE]", help="see below")
    parser.add_argument(
        "--fallback", action="store_true", help="without weights per task use those that hold for everybody, and say so"
    )
    parser.add_argument("-s", "--show", action="store_true", help="show the policy a program would have, and run none")
    parser.add_argument("--dry-run", action="store_true", help="print the calls that would be made, and make none")
    answer.add_arguments(parser)
    parser.add_argument("--scan-scale", type=int, metavar="N", help=f"0 (no promotion) to {SCALE_MAX}; 5 is normal")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD", help="the program and its arguments")


def _add_set(group: argparse._MutuallyExclusiveGroup, short: str, name: str, metavar: str, help_text: str) -> None:
    group.add_argument(f"-{short}", f"--{name}", action=_Once, metavar=metavar, help=help_text)


def main(args: argparse.Namespace) -> int:
    """Run the subcommand; returns only if the program could not be started, or with --show and --dry-run."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command and not args.show:
        raise UsageError("give the program to run: terrace exec --scan-scale 0 -- CMD [ARG …]")
    if (args.json or args.json_file) and not (args.show or args.dry_run):
        raise UsageError("--json and -o go with --show and --dry-run")
    if args.show and args.dry_run:
        raise UsageError("--show runs no program, so that --dry-run has nothing to print: give one of them")
    files, calls, cpu_calls = KernelFiles(), PolicyCalls(), CpuCalls()
    cpus = _cpus(args, files, cpu_calls)
    wish = replace(_wish(args), cpus=None if cpus is None else tuple(cpus))
    if args.scan_scale is not None:
        check_scale(args.scan_scale)
    if args.dry_run:
        return _dry_run(args, wish, cpus, files, calls, command)
    if cpus is not None:
        binding.bind(cpus, cpu_calls)
    if args.scan_scale is not None:
        set_scale(Calls(), args.scan_scale)
    # Last, because a file keeps its policy if anything else fails.
    apply(wish, files, calls)
    if args.show:
        about = describe(files, calls, cpu_calls)
        document = {"version": JSON_VERSION, "kind": "policy", **about}
        answer.give(args, document, lambda: print("\n".join(shown(about))))
        return 0
    return _execute(command)


def _wish(args: argparse.Namespace) -> Placement:
    return Placement(
        weighted=args.weighted_interleave,
        interleave=args.interleave,
        membind=args.membind,
        preferred=args.preferred,
        preferred_many=args.preferred_many,
        local=args.localalloc,
        every=args.all,
        weights=args.weights,
        ranges=tuple(args.range_file),
        fallback=args.fallback,
    )


def _cpus(args: argparse.Namespace, files: KernelFiles, calls: CpuCalls) -> list[int] | None:
    """Get the CPUs of -N or -C, None without these."""
    if args.cpunodebind is not None:
        return binding.cpus_of_nodes(args.cpunodebind, files, args.all)
    if args.physcpubind is not None:
        return binding.cpus_of_set(args.physcpubind, files, args.all, calls)
    return None


def _dry_run(
    args: argparse.Namespace,
    wish: Placement,
    cpus: list[int] | None,
    files: KernelFiles,
    calls: PolicyCalls,
    command: list[str],
) -> int:
    """Print the calls in order; only --weights measured does something: it measures."""
    policy = policy_of(wish, files, calls)
    lines = [] if cpus is None else [f"sched_setaffinity({format_nodes(cpus)})"]
    if args.scan_scale is not None:
        lines.append(f"prctl(PR_MTIER_SCAN_SCALE_SET, {args.scan_scale})")
    lines += calls_text(wish, policy)
    lines.append(f"execvp({shlex.join(command)})")
    document = {"version": JSON_VERSION, "kind": "exec", "calls": lines, "command": command}
    answer.give(args, document, lambda: print("\n".join(lines)))
    return 0


def _execute(command: list[str]) -> int:
    sys.stdout.flush()
    # Python ignores these signals, and exec would keep that: the program has to end by a closed
    # pipe, as usual.
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


def check_scale(scale: int) -> None:
    """Raise UsageError if the scan scale is out of range."""
    if not 0 <= scale <= SCALE_MAX:
        raise UsageError(f"--scan-scale cannot be {scale}; allowed: 0 (no promotion) to {SCALE_MAX}")


def set_scale(calls: Calls, scale: int) -> None:
    """Set the scan scale of this process.

    Raises UsageError if it is out of range, MissingError if the kernel has no such call.
    """
    check_scale(scale)
    try:
        calls.set_scan_scale(scale)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOSYS):
            raise MissingError(
                f"this kernel ({os.uname().release}) has no scan scale per process; see `terrace doctor`"
            ) from error
        raise TerraceError(f"the kernel refuses --scan-scale {scale}: {error.strerror}") from error

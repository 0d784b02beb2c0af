# SPDX-License-Identifier: GPL-2.0
"""terrace test: run the gate for every change, the whole suite, or a part of it."""

import argparse
import datetime
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from terrace import output, venv
from terrace.cli import answer
from terrace.cli.linux import add_linux
from terrace.errors import TerraceError, UsageError
from terrace.kernel.elf import check_vmlinux
from terrace.paths import require_checkout
from terrace.testing.capability import describe_time
from terrace.testing.gate import Gate, load_gate
from terrace.testing.groups import GROUPS, Group, Request, build_kernels
from terrace.testing.journal import Journal, tree_hash, unit_of
from terrace.testing.needs import BY_TEST, require_for
from terrace.testing.programs import find_programs
from terrace.testing.results import Reporter, TestResult
from terrace.testing.second import retriable, second_tries
from terrace.testing.select import Selector, parse_selector
from terrace.testing.selftest import OVERTIME
from terrace.testing.soak import BUSY_LOOPS, Soak, busy_loops
from terrace.testing.stale import print_stale
from terrace.units import parse_time_ns, whole_number
from terrace.words import did_you_mean

# Exit code of an incomplete run of the suite without a failure.
_UNFINISHED = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `terrace test`."""
    names = ", ".join(GROUPS)
    parser.add_argument(
        "-k", metavar="EXPR", help="only tests whose group/name has these words (and, or, not, parentheses)"
    )
    parser.add_argument("--group", action="append", metavar="G", help=f"only this group; may be repeated ({names})")
    parser.add_argument(
        "--all",
        action="store_true",
        help="the suite: all groups, complete; takes hours. Continues an interrupted run. Tests selected by -k or "
        "--group run in any case",
    )
    parser.add_argument("--again", action="store_true", help="with --all: begin anew")
    parser.add_argument(
        "--within",
        type=_seconds,
        default=math.inf,
        metavar="TIME",
        help="start no group and boot no machine for selftests after this time (75min); the rest is skipped",
    )
    parser.add_argument(
        "--soak",
        type=whole_number("--soak", 1, 10000),
        metavar="N",
        help="run the tests of -k or --group N times, as in the gate, with four busy loops; print the counts",
    )
    parser.add_argument("--strict", action="store_true", help="the gate without its second try")
    parser.add_argument(
        "--mutants",
        action="store_true",
        help="mutation tests of the kernel (tests/mutants): the check that each mutant names must detect it. Continues "
        "an interrupted run",
    )
    parser.add_argument("--list", action="store_true", help="print the tests and run none")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every test")
    answer.add_arguments(parser)
    add_linux(parser)
    parser.add_argument("--vmlinux", type=Path, metavar="FILE", help="boot this kernel, and build none")
    parser.add_argument(
        "--stretch",
        type=whole_number("--stretch", 1, 1000),
        default=1,
        metavar="N",
        help="selftests that run for a time do so for N times as long; all their time limits are N times as long",
    )


def _seconds(text: str) -> float:
    try:
        return parse_time_ns(text) / 1e9
    except UsageError as error:
        raise UsageError(f"--within: {error}") from error


def check_arguments(args: argparse.Namespace) -> None:
    """Reject unknown names before anything is installed."""
    require_checkout("terrace test")
    parse_selector(args.k)
    _choose(args.group)
    if args.soak is not None and args.k is None and args.group is None:
        raise UsageError("--soak is for the tests that -k or --group names: --soak 50 -k promote_kinds")
    if args.soak is not None and (args.all or args.list or args.strict):
        raise UsageError("--soak goes without --all, --list and --strict")
    if args.mutants:
        _check_mutants_alone(args)
    if args.again and not args.all:
        raise UsageError("--again goes with --all: nothing else is kept from run to run")
    if args.vmlinux is not None:
        check_vmlinux("--vmlinux", args.vmlinux)


def _check_mutants_alone(args: argparse.Namespace) -> None:
    given = {
        "--all": args.all,
        "--again": args.again,
        "--group": args.group,
        "--soak": args.soak,
        "--strict": args.strict,
        "--vmlinux": args.vmlinux,
        "--stretch": args.stretch != 1,
    }
    if others := [option for option, value in given.items() if value]:
        raise UsageError(
            f"--mutants goes without {', '.join(others)}: it builds kernels of its own and runs the checks that the "
            "mutants name; -k picks mutants"
        )


def needs_packages(args: argparse.Namespace) -> bool:
    """--list creates no environment, and uses an existing one."""
    return not args.list or venv.is_there("test")


def main(args: argparse.Namespace) -> int:
    """Run the tests; return 0 if none failed and at least one ran."""
    wanted = parse_selector(args.k)
    if args.list:
        return _list(args, wanted)
    with answer.text_aside(args):
        code, document = _run(args, wanted)
    answer.give(args, document)
    return code


def _run(args: argparse.Namespace, wanted: Selector) -> tuple[int, answer.Document]:
    """Get the exit code and all results, which are printed as they arrive."""
    if args.mutants:
        from terrace.testing.mutants import run as mutants

        return mutants.main(wanted, args.k, time.monotonic() + args.within)
    groups, gate = _groups(args)
    if args.soak is not None:
        return _soak(args, groups, wanted)
    reporter = Reporter(verbose=args.verbose)
    vmlinux = args.vmlinux.absolute() if args.vmlinux else None
    deadline = time.monotonic() + args.within
    journal = _journal(args, groups) if args.all else None
    request = Request(wanted, args.k is None, reporter, vmlinux, args.stretch, gate, deadline, journal=journal)
    _require(groups, request)
    try:
        for group in groups:
            _run_group(group, request, again=gate is not None and not args.strict and group.flavour != "")
    except (KeyboardInterrupt, SystemExit):
        if journal:
            reporter.print_failed()
            _tell_not_run(journal, groups, request)
        raise
    reporter.print_failed()
    left = journal is not None and _tell_not_run(journal, groups, request)
    if journal and (spent := describe_time(reporter.results)):
        print(f"time in the guests: {spent}", flush=True)
    if gate:
        _tell_left_out(gate)
    if not reporter.results:
        raise UsageError(f"-k '{args.k}' picks no test; terrace test --list shows their names")
    if passed := reporter.on_second_try():
        print(f"{len(passed)} passed on a second try: {', '.join(passed)}", flush=True)
    print(reporter.summary(), flush=True)
    code = 1 if reporter.count("fail") else _UNFINISHED if left else 0
    return code, reporter.as_json()


def _groups(args: argparse.Namespace) -> tuple[list[Group], Gate | None]:
    """Get the chosen groups, and the gate if it runs."""
    groups = _choose(args.group)
    gate = None if args.all or args.k is not None or args.group is not None else _gate()
    return [group for group in groups if gate is None or group.in_gate], gate


def _journal(args: argparse.Namespace, groups: Sequence[Group]) -> Journal:
    """Get the results so far of this run of this tree."""
    vmlinux = str(args.vmlinux.absolute()) if args.vmlinux else None
    words = {"groups": [group.name for group in groups], "k": args.k, "stretch": args.stretch, "vmlinux": vmlinux}
    journal = Journal(tree_hash(), words, afresh=args.again)
    if journal.resumed:
        print(f"goes on with the run of {_when(journal.began)}, which has {len(journal.kept)} results", flush=True)
    elif journal.given_up:
        print(f"begins anew: the tree is not that of the run of {_when(journal.given_up)}", flush=True)
    return journal


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _tell_not_run(journal: Journal, groups: Sequence[Group], request: Request) -> bool:
    """Print the parts of the suite that did not run, and whether the same command would run them."""
    left = [text for group in groups if group.name not in journal.ended for text in [_left_of(group, request)] if text]
    whole = all(group in groups or group.named_only for group in GROUPS.values())
    never = [group.name for group in GROUPS.values() if whole and group not in groups]
    if left:
        print(f"not run yet: {', '.join(left)}; the same command goes on with that", flush=True)
    else:
        journal.finish()
    if never:
        print(f"not in the suite: {', '.join(never)}; --group runs it", flush=True)
    return bool(left)


def _left_of(group: Group, request: Request) -> str:
    """Describe an unfinished group; "" if -k selects nothing of it."""
    if not request.all_wanted and not _may_have(group, request.wanted):
        return ""
    closed = {unit_of(r.name) for r in request.reporter.results if r.group == group.name and r.closes}
    if not closed:
        return group.name
    names = [name for name in group.names() if request.wanted(f"{group.name}/{name}") and name not in closed]
    return f"{len(names)} of {group.name} ({', '.join(names)})"


def _soak(args: argparse.Namespace, groups: Sequence[Group], wanted: Selector) -> tuple[int, answer.Document]:
    """Run every round in new guests; return 0 if all selected checks passed in all of them."""
    # -k alone selects from the gate's groups: on another kernel the same program would be no
    # evidence.
    picked = [group for group in groups if (group.in_gate or args.group) and _may_have(group, wanted)]
    if not picked:
        raise UsageError(f"-k '{args.k}' picks no test of {', '.join(g.name for g in groups if g.in_gate)}")
    vmlinux = args.vmlinux.absolute() if args.vmlinux else None
    deadline = time.monotonic() + args.within
    request = Request(wanted, args.k is None, Reporter(), vmlinux, args.stretch, None, deadline, soak=True)
    soak = Soak(args.soak)

    def one_round() -> Iterator[TestResult]:
        for group in picked:
            yield from (result for result in group.results(request) if result.detail != OVERTIME)

    print(f"{args.soak} rounds of {', '.join(g.name for g in picked)} beside {BUSY_LOOPS} busy loops …", flush=True)
    # Builds and installations are not part of the first round.
    _require(picked, request)
    build_kernels(picked, request)
    with busy_loops():
        for number in soak.run(one_round, lambda: time.monotonic() < deadline):
            failed = sum(count.failed for count in soak.counts.values())
            print(f"round {number} of {args.soak}: {failed} failed so far", flush=True)
    for line in soak.lines():
        print(line)
    if soak.final:
        print("ended early: a kernel report, a hang or wrong data needs no count")
    elif soak.done < soak.rounds:
        print(f"{OVERTIME}: {soak.done} of {soak.rounds} rounds")
    return 0 if soak.good else 1, soak.as_json()


def _require(groups: Sequence[Group], request: Request) -> None:
    """Install the requirements of the groups before the first one starts. Raises MissingError."""
    for group in groups:
        if not request.journal or group.name not in request.journal.ended:
            # Some groups need further tools to list their tests.
            whole = request.all_wanted and group.name not in BY_TEST
            names = [group.name] if whole else [n for n in group.names() if request.wanted(f"{group.name}/{n}")]
            require_for(group.name, names, builds=request.vmlinux is None)


def _gate() -> Gate:
    return load_gate(
        [group.name for group in GROUPS.values() if group.in_gate], [program.name for program in find_programs()]
    )


def _choose(names: list[str] | None) -> list[Group]:
    for name in names or []:
        if name not in GROUPS:
            raise UsageError(f"--group {name}: {did_you_mean(name, GROUPS)}the groups are {', '.join(GROUPS)}")
    return [group for name, group in GROUPS.items() if (name in names if names else not group.named_only)]


def _list(args: argparse.Namespace, wanted: Selector) -> int:
    if args.mutants:
        from terrace.testing.mutants import run as mutants

        picked = mutants.picked(wanted)
        found = [f"mutants/{mutant.name}" for mutant in picked]
        lines = [f"mutants/{mutant.name}: {mutant.kind}: {mutant.breaks}" for mutant in picked]
    else:
        groups, gate = _groups(args)
        every = [f"{group.name}/{name}" for group in groups for name in _names(group, gate)]
        lines = found = [name for name in every if wanted(name)]

    def text() -> None:
        for line in lines:
            print(line)

    answer.give(args, {"version": 1, "kind": "test-names", "names": found}, text)
    return 0


def _names(group: Group, gate: Gate | None) -> list[str]:
    """Get the tests of a group; for the gate only those in it."""
    names = group.names()
    if gate and group.name == "selftest":
        names = [name for name in names if name in gate.selftests]
    return [name for name in names if gate is None or gate.counts(f"{group.name}/{name}")]


def _run_group(group: Group, request: Request, again: bool) -> None:
    """Run one group; `again`: retry its failures that are not final."""
    reporter = request.reporter
    earlier = len(reporter.results)
    if not request.all_wanted and not _may_have(group, request.wanted):
        return
    reporter.begin(group.name, group.what)
    journal = request.journal
    if journal:
        reporter.results += journal.kept_of(group.name)
        if group.name in journal.ended:
            reporter.end(group.name)
            return
    if time.monotonic() > request.deadline:
        reporter.add(TestResult(group.name, group.name, "skip", OVERTIME))
        reporter.end(group.name)
        return
    try:
        for result in group.results(request):
            if _counts(request, result):
                reporter.add(result)
                if journal and result.detail != OVERTIME:
                    journal.add(result)
        if journal and not any(r.detail == OVERTIME for r in reporter.results if r.group == group.name):
            journal.end(group.name)
        if again:
            _try_again(group, request, reporter.results[earlier:])
    except TerraceError as error:
        reporter.add(TestResult(group.name, group.name, "fail", str(error), final=True))
    except OSError as error:
        # A missing program, a full disk: the other groups still run, and the summary is printed.
        why = f"the group {group.name} could not go on: {error}"
        reporter.add(TestResult(group.name, group.name, "fail", why, final=True))
    reporter.end(group.name)


def _counts(request: Request, result: TestResult) -> bool:
    """Count the results of the gate: not those of removed checks, which may be part of a program in
    it, but all final ones.
    """
    return request.gate is None or result.final or request.gate.counts(f"{result.group}/{result.name}")


def _try_again(group: Group, request: Request, results: Sequence[TestResult]) -> None:
    def run_alone(names: Sequence[str]) -> Iterator[TestResult]:
        request.reporter.note(f"once more, alone: {', '.join(names)}")
        chosen = {f"{group.name}/{name}" for name in names}
        # A program of selftest is selected by its own name, the prefix of its checks' names.
        programs = {name.partition(":")[0] for name in chosen if group.name == "selftest"}
        alone = replace(
            request,
            wanted=lambda name: name in chosen or name in programs,
            all_wanted=False,
            kunit=names[0] if group.name == "kunit" else "",
        )
        return group.run(alone)

    for first, second in second_tries(retriable(results), group.unit, run_alone):
        request.reporter.settle(first, second)


def _may_have(group: Group, wanted: Selector) -> bool:
    """Whether -k may select something of this group, as far as known without booting."""
    return any(wanted(f"{group.name}/{name}") for name in group.names())


def _tell_left_out(gate: Gate) -> None:
    print_stale()
    programs = len(find_programs())
    others = [group.name for group in GROUPS.values() if not group.in_gate and not group.named_only]
    parts = [f"{programs - len(gate.selftests)} of {programs} programs of selftest", *others]
    if gate.left:
        parts.append(f"{len(gate.left)} that left (tests/gate.toml)")
    print(f"not in the gate: {', '.join(parts)}; --all runs them, too", flush=True)
    for name in gate.due(datetime.date.today()):
        output.warn(f"tests/gate.toml: {name} left the gate and is due to be tried again (--soak 50)")

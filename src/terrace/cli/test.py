# SPDX-License-Identifier: GPL-2.0
"""terrace test: the gate that every change passes, the suite of all there is, or some of it."""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from terrace import venv
from terrace.cli import answer
from terrace.cli.linux import add_linux
from terrace.errors import MissingError, TerraceError, UsageError
from terrace.kernel import matrix, tree
from terrace.kernel import source as linux_source
from terrace.kernel.check import CHECKS, run_checks
from terrace.kernel.elf import check_vmlinux
from terrace.lab.qemu import require_qemu
from terrace.paths import require_checkout
from terrace.testing.bench_group import bench_names, run_bench
from terrace.testing.capability import describe_time
from terrace.testing.debian_program import search_path
from terrace.testing.gate import Gate, load_gate
from terrace.testing.host_groups import lint_checks, list_pytest, run_lint, run_policy, run_pytest
from terrace.testing.journal import Journal, tree_hash, unit_of
from terrace.testing.kunit import KERNEL, KunitRun, kunit_names, policy_names, run_kunit
from terrace.testing.mutants.read import check_mutants
from terrace.testing.needs import BY_TEST, require_for
from terrace.testing.programs import SELFTESTS, Program, find_programs
from terrace.testing.results import Reporter, TestResult
from terrace.testing.second import retriable, second_tries
from terrace.testing.select import Selector, parse_selector
from terrace.testing.selftest import OVERTIME, SelftestRun, run_selftests
from terrace.testing.skips import Skips, load_skips
from terrace.testing.soak import BUSY_LOOPS, Soak, busy_loops
from terrace.testing.stale import print_stale
from terrace.testing.suites import run_suites, suite_names
from terrace.units import parse_time_ns, whole_number
from terrace.words import did_you_mean

# The exit code of a suite that has not run whole, though nothing failed.
_UNFINISHED = 4
_SLOW_DEBUG = 4
# What a kernel that only one group wants takes to build on two slow cores: not begun when --within leaves less.
_BUILD_S = {"debug": 24 * 60.0, "static-keys": 8 * 60.0}
# Those of `kernel check` that need no kernel built from end to end; that of the series has checkpatch in it.
_PATCH_CHECKS = ("hooks", "budget", "exports", "symbols", "kernel-doc", "abi", "series", "sparse")
# That each mutant has its place in our tree, and names checks that there are; not that they notice it.
_MUTANTS = "mutants"
# Groups that boot no kernel.
_WITHOUT_KERNEL = ("lint", "unit", "policy", "patches", "packages", "configs", "checks")


@dataclass(frozen=True)
class Request:
    """What the command line asks for, as every group gets it.

    `gate` is None when all there is of a group runs; nothing is begun behind `deadline`, a time of time.monotonic().
    """

    wanted: Selector
    all_wanted: bool
    reporter: Reporter
    vmlinux: Path | None
    stretch: int = 1
    gate: Gate | None = None
    deadline: float = math.inf
    #: The check of kunit that runs alone; "": all of them.
    kunit: str = ""
    #: In the form that the gate has, whatever is picked: properties with the same input each time.
    soak: bool = False
    #: What a run of the suite that was cut off has come to.
    journal: Journal | None = None
    #: The skips that are no failures.
    skips: Skips = field(default_factory=lambda: load_skips(_NAMES))

    def done_of(self, group: str) -> frozenset[str]:
        """Programs and checks of a group that ran before this run was cut off."""
        return self.journal.done_of(group) if self.journal else frozenset()

    @property
    def as_gate(self) -> bool:
        """Whether tests run as the gate runs them."""
        return self.soak or self.gate is not None


@dataclass(frozen=True)
class Group:
    """A group of tests: what it is, how to list its tests (without running any), how to run them."""

    name: str
    what: str
    names: Callable[[], list[str]]
    run: Callable[[Request], Iterator[TestResult]]
    #: The gate has it, or what tests/gate.toml leaves of it; the others are in the suite alone.
    in_gate: bool = False
    #: Runs only when it is named: needs what not every machine can get.
    named_only: bool = False
    #: The kernel that it boots.
    flavour: str = ""
    #: What of a check's name says with which others it is tried once more; all of a group together: "".
    unit: Callable[[str], str] = lambda name: ""

    def results(self, request: Request) -> Iterator[TestResult]:
        """Run it; a skip without an entry has failed, but with --vmlinux and in `suites`, which compares with stock."""
        lenient = self.named_only or (request.vmlinux is not None and self.name not in _WITHOUT_KERNEL)
        return self.run(request) if lenient else map(request.skips.judge, self.run(request))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `terrace test`."""
    names = ", ".join(GROUPS)
    parser.add_argument(
        "-k", metavar="EXPR", help="only tests whose group/name has these words (and, or, not, parentheses)"
    )
    parser.add_argument("--group", action="append", metavar="G", help=f"only this group; may be repeated ({names})")
    parser.add_argument(
        "--all",
        action="store_true",
        help="the suite: all groups, whole; hours. Goes on where it was cut off. What is named by -k or --group is run "
        "in any case",
    )
    parser.add_argument("--again", action="store_true", help="with --all: begin anew")
    parser.add_argument(
        "--within",
        type=_seconds,
        default=math.inf,
        metavar="TIME",
        help="begin no group and boot no machine for selftests after so long (75min); what is left is skipped",
    )
    parser.add_argument(
        "--soak",
        type=whole_number("--soak", 1, 10000),
        metavar="N",
        help="what -k or --group names N times, as the gate runs it, with four busy loops beside it; prints the counts",
    )
    parser.add_argument(
        "--strict", action="store_true", help="the gate without its second try: what fails once has failed"
    )
    parser.add_argument(
        "--mutants",
        action="store_true",
        help="kernels broken on purpose (tests/mutants): each has to be noticed by the check that it names. Goes on "
        "where it was cut off",
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
    """Refuse what there is not before anything is installed."""
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
    """--list makes no environment, and uses the one that is there."""
    return not args.list or venv.is_there("test")


def main(args: argparse.Namespace) -> int:
    """Run the tests; 0 when none failed and at least one ran."""
    wanted = parse_selector(args.k)
    if args.list:
        return _list(args, wanted)
    with answer.text_aside(args):
        code, document = _run(args, wanted)
    answer.give(args, document)
    return code


def _run(args: argparse.Namespace, wanted: Selector) -> tuple[int, answer.Document]:
    """The exit code, and all results; they are told as they come."""
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
    """The groups that are asked for, and the gate when it is what runs."""
    groups = _choose(args.group)
    gate = None if args.all or args.k is not None or args.group is not None else _gate()
    return [group for group in groups if gate is None or group.in_gate], gate


def _journal(args: argparse.Namespace, groups: Sequence[Group]) -> Journal:
    """What this very run, of this very tree, has come to so far."""
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
    """Say what a run of the suite has not run, and whether the same command would."""
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
    """A group that is not over, in words; "" when -k picks nothing of it."""
    if not request.all_wanted and not _may_have(group, request.wanted):
        return ""
    closed = {unit_of(r.name) for r in request.reporter.results if r.group == group.name and r.closes}
    if not closed:
        return group.name
    names = [name for name in group.names() if request.wanted(f"{group.name}/{name}") and name not in closed]
    return f"{len(names)} of {group.name} ({', '.join(names)})"


def _soak(args: argparse.Namespace, groups: Sequence[Group], wanted: Selector) -> tuple[int, answer.Document]:
    """Every round in fresh guests; 0 when all that was picked passed in all of them."""
    # -k alone means the gate's groups: on another kernel the same program would be no evidence.
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
    # What a first round has to build or install is not part of it.
    _require(picked, request)
    _prepare(picked, request)
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
    """Have all that the groups need before the first of them begins. Raises MissingError."""
    for group in groups:
        if not request.journal or group.name not in request.journal.ended:
            # To list the tests of some groups takes tools of its own.
            whole = request.all_wanted and group.name not in BY_TEST
            names = [group.name] if whole else [n for n in group.names() if request.wanted(f"{group.name}/{n}")]
            require_for(group.name, names, builds=request.vmlinux is None)


def _prepare(groups: Sequence[Group], request: Request) -> None:
    for flavour in dict.fromkeys(group.flavour for group in groups if group.flavour):
        _kernel(request, flavour)


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
    """The tests of a group, those of the gate only when there is one."""
    names = group.names()
    if gate and group.name == "selftest":
        names = [name for name in names if name in gate.selftests]
    return [name for name in names if gate is None or gate.counts(f"{group.name}/{name}")]


def _run_group(group: Group, request: Request, again: bool) -> None:
    """Run one group; `again`: what failed in it, and is not final, once more."""
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
        # A program that is not there, a full disk: the other groups still run, and the summary is told.
        why = f"the group {group.name} could not go on: {error}"
        reporter.add(TestResult(group.name, group.name, "fail", why, final=True))
    reporter.end(group.name)


def _counts(request: Request, result: TestResult) -> bool:
    """Not what has left the gate, which may be part of a program that has not; but what is final counts always."""
    return request.gate is None or result.final or request.gate.counts(f"{result.group}/{result.name}")


def _try_again(group: Group, request: Request, results: Sequence[TestResult]) -> None:
    def run_alone(names: Sequence[str]) -> Iterator[TestResult]:
        request.reporter.note(f"once more, alone: {', '.join(names)}")
        chosen = {f"{group.name}/{name}" for name in names}
        # A program of selftest is picked by its own name, which is in front of its checks'.
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
    """False when it is known, without booting anything, that -k picks nothing of this group."""
    return any(wanted(f"{group.name}/{name}") for name in group.names())


def _tell_left_out(gate: Gate) -> None:
    print_stale()
    programs = len(find_programs())
    others = [group.name for group in GROUPS.values() if not group.in_gate and not group.named_only]
    parts = [f"{programs - len(gate.selftests)} of {programs} programs of selftest", *others]
    if gate.left:
        parts.append(f"{len(gate.left)} that left (tests/gate.toml)")
    print(f"not in the gate: {', '.join(parts)}; --all runs them, too", flush=True)


# ---- the groups ----


def _kernel(request: Request, flavour: str) -> Path:
    require_qemu()
    if request.vmlinux:
        return request.vmlinux
    from terrace.kernel.build import build

    return build(flavour).vmlinux


def _unit(request: Request) -> Iterator[TestResult]:
    left = request.gate.left_of("unit") if request.gate else []
    without = left if request.as_gate else None
    found = {"PATH": search_path("prometheus", "promtool")}
    return run_pytest("unit", "tests/unit", request.wanted, request.all_wanted, found, without)


def _policy(request: Request) -> Iterator[TestResult]:
    return request.skips.complete("policy", run_policy(request.wanted), policy_names, request.wanted)


def _patches(request: Request) -> Iterator[TestResult]:
    for name in _PATCH_CHECKS:
        if request.wanted(f"patches/{name}"):
            (result,) = run_checks([name])
            yield TestResult(
                "patches", name, "pass" if result.passed else "fail", "\n".join(result.problems), result.seconds
            )
    if request.wanted(f"patches/{_MUTANTS}"):
        began = time.monotonic()
        problems = check_mutants(tree.assemble(linux_source.find()))
        took = time.monotonic() - began
        yield TestResult("patches", _MUTANTS, "fail" if problems else "pass", "\n".join(problems), took)


def _other_checks() -> list[str]:
    return [check.name for check in CHECKS if check.name not in (*_PATCH_CHECKS, "matrix")]


def _checks(request: Request) -> Iterator[TestResult]:
    done = request.done_of("checks")
    for name in _other_checks():
        if not request.wanted(f"checks/{name}") or name in done:
            continue
        if time.monotonic() > request.deadline:
            yield TestResult("checks", name, "skip", OVERTIME)
            continue
        (result,) = run_checks([name])
        status = "pass" if result.passed else "fail"
        yield TestResult("checks", name, status, "\n".join(result.problems), result.seconds, closes=True)


def _configs(request: Request) -> Iterator[TestResult]:
    done = request.done_of("configs")
    chosen = [name for name in matrix.names() if request.wanted(f"configs/{name}") and name not in done]
    if not chosen:
        return
    source = linux_source.find()
    for name in chosen:
        if time.monotonic() > request.deadline:
            yield TestResult("configs", name, "skip", OVERTIME)
            continue
        request.reporter.note(f"configuration {name}")
        began = time.monotonic()
        problems = matrix.check(name, source)
        took = time.monotonic() - began
        status = "fail" if problems else "pass"
        yield TestResult("configs", name, status, "\n".join(problems), took, closes=True)


def _lab(request: Request) -> Iterator[TestResult]:
    kernels = {
        "TERRACE_TEST_VMLINUX": str(_kernel(request, "terrace")),
        "PATH": search_path("prometheus", "prometheus"),
    }
    # Not in the tests' own time: on a slow machine a first build takes longer than all of them.
    if request.all_wanted:
        from terrace.kernel.build import build

        kernels["TERRACE_TEST_STOCK_VMLINUX"] = str(build("stock").vmlinux)
    return run_pytest("lab", "tests/lab", request.wanted, request.all_wanted, kernels)


def _kunit(request: Request) -> Iterator[TestResult]:
    found = run_kunit(KunitRun(_kernel(request, "terrace"), glob=request.kunit))
    results = (result for result in found if result.name == KERNEL or request.wanted(f"kunit/{result.name}"))
    names = list if request.kunit or request.vmlinux else kunit_names
    return request.skips.complete("kunit", results, names, request.wanted)


def _selftest(request: Request) -> Iterator[TestResult]:
    programs = _picked("selftest", _programs(request.gate), request)
    if not programs:
        return iter([])
    kernel = _kernel(request, "terrace")
    run = SelftestRun(
        "selftest",
        kernel,
        stretch=request.stretch,
        deadline=request.deadline,
        note=request.reporter.note,
    )
    return run_selftests(run, programs)


def _selftest_debug(request: Request) -> Iterator[TestResult]:
    run = SelftestRun("selftest-debug", Path(), leaks=True, slow=_SLOW_DEBUG)
    return _selftest_on("debug", run, _debug_programs(), request)


def _selftest_static_keys(request: Request) -> Iterator[TestResult]:
    run = SelftestRun("selftest-static-keys", Path(), one_thread=True)
    return _selftest_on("static-keys", run, _static_keys_programs(), request)


def _selftest_on(flavour: str, run: SelftestRun, there: list[Program], request: Request) -> Iterator[TestResult]:
    """What is picked of a group's programs, on a flavour that it alone needs; `run` says how."""
    programs = _picked(run.group, there, request)
    if not programs:
        return iter([])
    if not request.vmlinux and _too_late_to_build(flavour, request.deadline):
        return iter([TestResult(run.group, program.name, "skip", OVERTIME) for program in programs])
    run = replace(
        run,
        vmlinux=_kernel(request, flavour),
        stretch=request.stretch,
        deadline=request.deadline,
        note=request.reporter.note,
    )
    return run_selftests(run, programs)


def _too_late_to_build(flavour: str, deadline: float) -> bool:
    if time.monotonic() + _BUILD_S[flavour] < deadline:
        return False
    from terrace.kernel.build import find_built

    return find_built(flavour) is None


def _bench(request: Request) -> Iterator[TestResult]:
    if request.vmlinux:
        return iter([TestResult("bench", "bench", "skip", "--vmlinux: it compares kernels of this checkout")])
    require_qemu()
    return run_bench(request.wanted)


def _suites(request: Request) -> Iterator[TestResult]:
    kernels = {"stock": _kernel(request, "stock"), "terrace": _kernel(request, "terrace")}
    return run_suites(kernels, request.wanted, request.reporter.note)


def _picked(group: str, programs: list[Program], request: Request) -> list[Program]:
    """The programs that -k leaves. That there are none at all is a failure: nothing may pass because it is missing."""
    if not programs:
        raise MissingError(f"there are no test programs in {SELFTESTS}")
    done = request.done_of(group)
    return [program for program in programs if request.wanted(f"{group}/{program.name}") and program.name not in done]


def _programs(gate: Gate | None) -> list[Program]:
    return [program for program in find_programs() if gate is None or program.name in gate.selftests]


def _debug_programs() -> list[Program]:
    return [program for program in find_programs() if program.debug]


def _static_keys_programs() -> list[Program]:
    return [program for program in find_programs() if program.static_keys]


GROUPS = {
    group.name: group
    for group in (
        Group(
            "lint", "style, types, spelling", lambda: list(lint_checks()), lambda r: run_lint(r.wanted), in_gate=True
        ),
        Group("unit", "the tool, without a guest", lambda: list_pytest("tests/unit"), _unit, in_gate=True),
        Group("policy", "the decision code in user space", policy_names, _policy, in_gate=True),
        Group(
            "patches",
            "what a reviewer's scripts say of the kernel part",
            lambda: [*_PATCH_CHECKS, _MUTANTS],
            _patches,
            in_gate=True,
        ),
        Group("configs", "our code with other options on and off, and with modules", matrix.names, _configs),
        Group("lab", "the lab and the test runner themselves", lambda: list_pytest("tests/lab"), _lab),
        Group(
            "packages",
            "Debian packages in a bare Debian, and the tool installed by pip, pipx and uv",
            lambda: list_pytest("tests/packages"),
            lambda r: run_pytest("packages", "tests/packages", r.wanted, r.all_wanted),
        ),
        Group(
            "kunit",
            "KUnit in the booted kernel",
            kunit_names,
            _kunit,
            in_gate=True,
            flavour="terrace",
            unit=lambda name: name,
        ),
        Group("bench", "an experiment from end to end, and the timing model", bench_names, _bench),
        Group(
            "selftest",
            "programs in the guest",
            lambda: [p.name for p in find_programs()],
            _selftest,
            in_gate=True,
            flavour="terrace",
            unit=lambda name: name.partition(":")[0],
        ),
        Group(
            "selftest-debug",
            "the same on the kernel that checks itself",
            lambda: [p.name for p in _debug_programs()],
            _selftest_debug,
            flavour="debug",
        ),
        Group(
            "selftest-static-keys",
            "the same on a kernel that patches its code, in one thread",
            lambda: [p.name for p in _static_keys_programs()],
            _selftest_static_keys,
            flavour="static-keys",
        ),
        Group("checks", "sizes, configurations, other architectures, each patch by itself", _other_checks, _checks),
        Group("suites", "public tests of memory policies; only when named", suite_names, _suites, named_only=True),
    )
}
_NAMES: tuple[str, ...] = tuple(GROUPS)

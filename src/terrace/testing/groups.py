# SPDX-License-Identifier: GPL-2.0
"""The groups of `terrace test`: their contents, their tests, and how they run."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from terrace.errors import MissingError
from terrace.kernel import matrix, tree
from terrace.kernel import source as linux_source
from terrace.kernel.check import CHECKS, run_checks
from terrace.lab.qemu import require_qemu
from terrace.progress import Estimate
from terrace.testing.bench_group import bench_names, run_bench
from terrace.testing.debian_program import search_path
from terrace.testing.gate import Gate
from terrace.testing.host_groups import (
    lint_checks,
    list_pytest,
    policy_mutant_names,
    run_lint,
    run_policy,
    run_policy_mutants,
    run_pytest,
)
from terrace.testing.journal import Journal
from terrace.testing.kunit import KERNEL, KunitRun, kunit_names, policy_names, run_kunit
from terrace.testing.mutants.read import check_mutants
from terrace.testing.programs import SELFTESTS, Program, find_programs
from terrace.testing.results import Reporter, TestResult
from terrace.testing.select import Selector
from terrace.testing.selftest import OVERTIME, SelftestRun, run_selftests
from terrace.testing.skips import Skips, load_skips
from terrace.testing.suites import run_suites, suite_names

_SLOW_DEBUG = 4
# Build time on two slow cores of a kernel that only one group boots: no build starts if --within
# leaves less.
_BUILD_S = {"debug": 24 * 60.0, "static-keys": 8 * 60.0}
# Checks of `kernel check` that need no complete kernel build; the check of the series includes
# checkpatch.
_PATCH_CHECKS = ("hooks", "budget", "exports", "symbols", "kernel-doc", "abi", "series", "sparse")
# Checks that each mutant applies and names existing checks; not that they detect it.
_MUTANTS = "mutants"
# Groups that boot no kernel.
_WITHOUT_KERNEL = ("lint", "unit", "policy", "policy-mutants", "patches", "packages", "configs", "checks")


@dataclass(frozen=True)
class Request:
    """The options of the command line for a group.

    `gate` is None if a group runs as a whole; nothing starts after `deadline`, a time of
    time.monotonic().
    """

    wanted: Selector
    all_wanted: bool
    reporter: Reporter
    vmlinux: Path | None
    stretch: int = 1
    gate: Gate | None = None
    deadline: float = math.inf
    #: The only check of kunit to run; "": all of them.
    kunit: str = ""
    #: As in the gate, for any selection: property tests use the same input each time.
    soak: bool = False
    #: The results of an interrupted run of the suite.
    journal: Journal | None = None
    #: The skips that are no failures.
    skips: Skips = field(default_factory=lambda: load_skips(_NAMES))

    def done_of(self, group: str) -> frozenset[str]:
        """Get the programs and checks of a group that ran before the interruption."""
        return self.journal.done_of(group) if self.journal else frozenset()

    @property
    def as_gate(self) -> bool:
        """Whether tests run as in the gate."""
        return self.soak or self.gate is not None


@dataclass(frozen=True)
class Group:
    """A group of tests: its contents, a list of its tests (without running any), and how to run them."""

    name: str
    what: str
    names: Callable[[], list[str]]
    run: Callable[[Request], Iterator[TestResult]]
    #: Part of the gate, as limited by tests/gate.toml; other groups are in the suite only.
    in_gate: bool = False
    #: Runs only if named: needs resources that not every machine has.
    named_only: bool = False
    #: The kernel that it boots.
    flavour: str = ""
    #: The part of a check's name that is common to the checks of one second try; "": the whole
    #: group.
    unit: Callable[[str], str] = lambda name: ""

    def results(self, request: Request) -> Iterator[TestResult]:
        """Run the group. A skip without an entry is a failure, except with --vmlinux and in
        `suites`, which compares with stock.
        """
        lenient = self.named_only or (request.vmlinux is not None and self.name not in _WITHOUT_KERNEL)
        return self.run(request) if lenient else map(request.skips.judge, self.run(request))


def kernel_for(request: Request, flavour: str) -> Path:
    """Get the kernel that a group boots: that of --vmlinux, or the flavour, built if necessary."""
    require_qemu()
    if request.vmlinux:
        return request.vmlinux
    from terrace.kernel.build import build

    return build(flavour).vmlinux


def build_kernels(groups: Sequence[Group], request: Request) -> None:
    """Build the kernels that the groups boot."""
    for flavour in dict.fromkeys(group.flavour for group in groups if group.flavour):
        kernel_for(request, flavour)


def _unit(request: Request) -> Iterator[TestResult]:
    left = request.gate.left_of("unit") if request.gate else []
    without = left if request.as_gate else None
    found = {"PATH": search_path("promtool", "promtool", "prometheus")}
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
    estimate, first = Estimate(len(chosen)), time.monotonic()
    for number, name in enumerate(chosen, 1):
        if time.monotonic() > request.deadline:
            yield TestResult("configs", name, "skip", OVERTIME)
            continue
        left = estimate.text(number - 1, time.monotonic() - first)
        request.reporter.note(f"configuration {name}, {number} of {len(chosen)}{left}")
        began = time.monotonic()
        problems = matrix.check(name, source)
        took = time.monotonic() - began
        status = "fail" if problems else "pass"
        yield TestResult("configs", name, status, "\n".join(problems), took, closes=True)


def _lab(request: Request) -> Iterator[TestResult]:
    kernels = {
        "TERRACE_TEST_VMLINUX": str(kernel_for(request, "terrace")),
        "PATH": search_path("prometheus", "prometheus"),
    }
    # Not within the tests' own time: on a slow machine a first build takes longer than all of them.
    if request.all_wanted:
        from terrace.kernel.build import build

        kernels["TERRACE_TEST_STOCK_VMLINUX"] = str(build("stock").vmlinux)
    return run_pytest("lab", "tests/lab", request.wanted, request.all_wanted, kernels)


def _kunit(request: Request) -> Iterator[TestResult]:
    found = run_kunit(KunitRun(kernel_for(request, "terrace"), glob=request.kunit))
    results = (result for result in found if result.name == KERNEL or request.wanted(f"kunit/{result.name}"))
    names = list if request.kunit or request.vmlinux else kunit_names
    return request.skips.complete("kunit", results, names, request.wanted)


def _selftest(request: Request) -> Iterator[TestResult]:
    programs = _picked("selftest", _programs(request.gate), request)
    if not programs:
        return iter([])
    kernel = kernel_for(request, "terrace")
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
    """Run the selected programs of a group on a flavour that only this group boots; `run` runs them."""
    programs = _picked(run.group, there, request)
    if not programs:
        return iter([])
    if not request.vmlinux and _too_late_to_build(flavour, request.deadline):
        return iter([TestResult(run.group, program.name, "skip", OVERTIME) for program in programs])
    run = replace(
        run,
        vmlinux=kernel_for(request, flavour),
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
    kernels = {"stock": kernel_for(request, "stock"), "terrace": kernel_for(request, "terrace")}
    return run_suites(kernels, request.wanted, request.reporter.note)


def _picked(group: str, programs: list[Program], request: Request) -> list[Program]:
    """Select programs by -k. An empty group is a failure: nothing may pass because it is missing."""
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
            "checks of the kernel part by scripts of reviewers",
            lambda: [*_PATCH_CHECKS, _MUTANTS],
            _patches,
            in_gate=True,
        ),
        Group(
            "policy-mutants",
            "mutants of the decision code in user space",
            policy_mutant_names,
            lambda r: run_policy_mutants(r.wanted),
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

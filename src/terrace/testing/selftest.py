# SPDX-License-Identifier: GPL-2.0
"""Selftest programs in the guest: many in one boot, each judged by its TAP, its exit code and the kernel log."""

import contextlib
import math
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from terrace.errors import BuildError
from terrace.lab.console import KernelReport, classify, plain_lines
from terrace.lab.initramfs import compile_static
from terrace.lab.plugin import TimingOptions, compile_plugin, read_symbols, timing_argument
from terrace.lab.run import GuestResult, choose_topology, run_in_guest
from terrace.testing.compile import compile_programs
from terrace.testing.lanes import deal, lanes_for, run_lanes
from terrace.testing.pace import Ended, Times, numbered
from terrace.testing.programs import MachineKey, Program, kernel_includes
from terrace.testing.results import TestResult
from terrace.testing.tap import leaves, parse_tap

#: The reason of the skips after the deadline.
OVERTIME = "the time of --within is over"
#: The check that the runner adds to those of each program.
STATE_CHECK = "state is as before"
# Objects of different kinds are counted apart when states are compared.
_APPEND = ("slab_nomerge",)
_SKIP_EXIT = 4
_OUTPUT_LINES = 40
_START = re.compile(r"^terrace-test: start (\S+)$")
# The note of a check that MT_DATA failed (terrace_run.h).
_WRONG_DATA = "wrong data"
_LEAK_TEST = "kmemleak"
# Host seconds for boot, set-up and leak scans.
_EXTRA_S = 240.0
# Variables of the programs: a factor for programs that run for a time instead of a count, and the names of checks.
_STRETCH = "TERRACE_STRETCH"
_ONLY = "TERRACE_ONLY"
# A guest second may take this many host seconds where guest time counts instructions.
_ICOUNT_STRETCH = 20.0
# With the timing model the shift only sets how often QEMU checks its timers.
_MODEL_SHIFT = 1


@dataclass
class _Outcome:
    """The output and the end of one program in one boot."""

    lines: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    how: str = ""
    number: int = 0
    seconds: float = 0.0

    @property
    def ended(self) -> bool:
        return bool(self.how)


@dataclass
class _Boot:
    """The output of the batch program, parsed as it arrives."""

    mark: str
    ended: Ended
    outcomes: dict[str, _Outcome] = field(default_factory=dict)
    leaks: list[str] = field(default_factory=list)
    running: str | None = None
    reading_leaks: bool = False
    done: bool = False
    stopped: bool = False
    _rest: bytes = b""
    #: Host time of the start of the program that runs.
    _began: float = 0.0

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line.decode(errors="replace"))

    def _line(self, line: str) -> None:
        if line.startswith(self.mark + " "):
            self._event(line.split()[1:])
        elif self.reading_leaks:
            self.leaks.append(line)
        elif self.running:
            self.outcomes[self.running].lines.append(line)

    def _event(self, words: list[str]) -> None:
        if words[0] == "start":
            self.running = words[1]
            self.outcomes[self.running] = _Outcome()
            self._began = time.monotonic()
        elif words[0] == "differs" and self.running:
            self.outcomes[self.running].differs.append(" ".join(words[1:]))
        elif words[0] == "end":
            outcome = self.outcomes[words[1]]
            outcome.how, outcome.number, outcome.seconds = words[2], int(words[3]), int(words[4]) / 1000
            self.running = None
            text = f"{words[1]} ({outcome.seconds:.1f} s in the guest)"
            self.ended(text, words[1], time.monotonic() - self._began)
        elif words[0] == "leaks":
            self.reading_leaks = words[1] != "end"
            if words[1] == "unavailable":
                self.leaks.append("kmemleak is not available on this kernel (kmemleak=off, or it disabled itself)")
        elif words[0] == "done":
            self.done = True
        elif words[0] == "stopped":
            self.stopped = True


@dataclass(frozen=True)
class SelftestRun:
    """The options for a set of programs.

    `leaks` reads kmemleak at the end. `one_thread` is for a kernel that patches its code (`Flavour.one_thread`).
    `slow` multiplies time limits; `stretch` multiplies time limits and the run time of the programs. `only` selects
    checks by parts of their names; empty: all. After `deadline`, a time of time.monotonic(), no machine is booted and
    programs are skipped. `note` gets a line for each boot and for each program that has ended.
    """

    group: str
    vmlinux: Path
    leaks: bool = False
    one_thread: bool = False
    slow: int = 1
    stretch: int = 1
    only: tuple[str, ...] = ()
    deadline: float = math.inf
    note: Callable[[str], None] = lambda text: None

    def limit_s(self, program: Program) -> int:
        """Return the time limit of a program in guest seconds."""
        return program.timeout_s * self.slow * self.stretch


def run_selftests(run: SelftestRun, programs: Sequence[Program]) -> Iterator[TestResult]:
    """Compile and run `programs`, one boot for each machine; yield results as they arrive.

    A program fails if it does not compile, prints no TAP plan or too few tests, or crashes the kernel. The programs
    after a crash, or after a program that was killed at its time limit, run in another boot. Machines that count
    instructions run in parallel.
    """
    built: list[tuple[Program, Path]] = []
    includes = kernel_includes(programs)
    for program, made in compile_programs(programs, includes):
        if isinstance(made, BuildError):
            yield TestResult(run.group, program.name, "fail", str(made), final=True, closes=True)
        else:
            built.append((program, made))
    built.sort(key=lambda pair: (pair[0].machine, pair[0].name))
    # Programs that run only some of their checks, or longer, say nothing about the next run.
    keep = not run.only and run.stretch == 1
    ended = numbered(run.note, Times(run.group), [program.name for program, _ in built], keep)
    # The time of such a guest is its instructions, so other guests on the host do not change it.
    counting = [pair for pair in built if pair[0].machine.counts]
    yield from _run_machines(run, ended, [pair for pair in built if not pair[0].machine.counts])
    lanes = lanes_for(max((_memory(pair[0].machine) for pair in counting), default=0))
    yield from run_lanes(lambda members: _run_machines(run, ended, members), deal(counting, lanes))


def _memory(machine: MachineKey) -> int:
    return choose_topology(machine.topology, memory_scale=machine.memory_scale).memory


def _run_machines(run: SelftestRun, ended: Ended, built: Sequence[tuple[Program, Path]]) -> Iterator[TestResult]:
    for machine, members in groupby(built, key=lambda pair: pair[0].machine):
        yield from _run_machine(run, ended, machine, list(members))


def _run_machine(
    run: SelftestRun, ended: Ended, machine: MachineKey, pending: list[tuple[Program, Path]]
) -> Iterator[TestResult]:
    while pending:
        if time.monotonic() > run.deadline:
            yield from (TestResult(run.group, program.name, "skip", OVERTIME) for program, _ in pending)
            return
        run.note(f"booting {machine.describe()} for {len(pending)} program{'s' if len(pending) > 1 else ''}")
        boot, guest = _boot(run, ended, machine, pending)
        blamed, unblamed = _blame(guest.console_log)
        if not boot.outcomes:
            yield _dead_boot(run, machine, guest, pending)
            return
        rest: list[tuple[Program, Path]] = []
        for program, path in pending:
            outcome = boot.outcomes.get(program.name)
            if outcome is None:
                rest.append((program, path))
                continue
            *others, last = _judge(run, program, outcome, guest, blamed.pop(program.name, []))
            yield from others
            yield replace(last, closes=True)
        yield from _judge_machine(run, machine, boot, guest, [*unblamed, *sum(blamed.values(), [])])
        if boot.done and rest:
            names = ", ".join(program.name for program, _ in rest)
            yield TestResult(run.group, f"machine:{machine.topology}", "fail", f"never started: {names}", final=True)
            return
        pending = rest


def _boot(
    run: SelftestRun, ended: Ended, machine: MachineKey, pending: Sequence[tuple[Program, Path]]
) -> tuple[_Boot, GuestResult]:
    boot = _Boot(f"@{secrets.token_hex(6)}", ended)
    argv = [str(compile_static("batch", "batch.c", "state.c")), boot.mark]
    # With -icount the clock of a guest that waits for the host runs fast.
    argv += ["leaks" if run.leaks else "noleaks", "busy" if machine.counts else "clock"]
    for program, path in pending:
        argv += [str(run.limit_s(program)), program.name, str(path)]
    limit = _EXTRA_S + sum(run.limit_s(program) for program, _ in pending)
    with _clock(run, machine) as (shift, plugin):
        guest = _guest(run, machine, argv, boot, limit, shift, plugin)
    return boot, guest


@contextlib.contextmanager
def _clock(run: SelftestRun, machine: MachineKey) -> Iterator[tuple[int | None, str | None]]:
    """Yield the shift of -icount and the plugin for the clock of a machine."""
    if not machine.model:
        yield machine.icount if machine.icount >= 0 else None, None
        return
    with tempfile.TemporaryDirectory(prefix="terrace-selftest-") as name:
        folder = Path(name)
        options = TimingOptions(ledger=folder / "ledger.json", from_boot=True, drives=True)
        topology = choose_topology(machine.topology, machine.cpus or None, machine.memory_scale)
        symbols = read_symbols(run.vmlinux)
        yield _MODEL_SHIFT, timing_argument(compile_plugin("timing"), symbols, topology, options, folder / "machine")


def _guest(
    run: SelftestRun,
    machine: MachineKey,
    argv: Sequence[str],
    boot: _Boot,
    limit: float,
    shift: int | None,
    plugin: str | None,
) -> GuestResult:
    return run_in_guest(
        run.vmlinux,
        machine.topology,
        argv,
        env=_environment(run),
        stdout=boot.feed,
        append=[*_APPEND, *([machine.append] if machine.append else [])],
        cpus=machine.cpus or None,
        icount_shift=shift,
        plugin=plugin,
        one_thread=run.one_thread,
        memory_scale=machine.memory_scale,
        timeout_s=limit * (_ICOUNT_STRETCH if machine.counts else 1.0),
    )


def _environment(run: SelftestRun) -> dict[str, str]:
    env = {**os.environ, _STRETCH: str(run.stretch)}
    return {**env, _ONLY: "\n".join(run.only)} if run.only else env


def _blame(log: str) -> tuple[dict[str, list[KernelReport]], list[KernelReport]]:
    """Return the kernel's reports by the program that was running, and the reports before the first program."""
    starts = [(n, found[1]) for n, line in enumerate(plain_lines(log), 1) if (found := _START.match(line))]
    blamed: dict[str, list[KernelReport]] = {}
    unblamed: list[KernelReport] = []
    for report in classify(log):
        name = next((name for number, name in reversed(starts) if number < report.line_number), None)
        if name is None:
            unblamed.append(report)
        else:
            blamed.setdefault(name, []).append(report)
    return blamed, unblamed


def _dead_boot(
    run: SelftestRun, machine: MachineKey, guest: GuestResult, pending: Sequence[tuple[Program, Path]]
) -> TestResult:
    names = ", ".join(program.name for program, _ in pending)
    why = guest.explain() or f"the batch program ended with {guest.exit_code}: {guest.stderr.decode(errors='replace')}"
    return TestResult(
        run.group, f"machine:{machine.topology}", "fail", f"{why}\nnot run: {names}", guest.run_s, final=True
    )


def _judge(
    run: SelftestRun, program: Program, outcome: _Outcome, guest: GuestResult, reports: Sequence[KernelReport]
) -> Iterator[TestResult]:
    """Yield the results of one program: its TAP tests, and a failure if they are not valid."""
    group = run.group
    if not outcome.ended:
        detail = "\n".join([f"while this ran, {guest.explain()}", "its output:", *outcome.lines[-_OUTPUT_LINES:]])
        # If QEMU itself failed, the kernel may be right: such a failure is not final.
        yield TestResult(group, program.name, "fail", detail, outcome.seconds, final=guest.verdict != "qemu")
        return
    tap = parse_tap(outcome.lines)
    results = [_from_tap(group, program, name, result.status, result.note) for name, result in leaves(tap.results, 0)]
    if tap.skip_all is not None and not results:
        results = [TestResult(group, program.name, "skip", tap.skip_all or "no reason given")]
    problems = [*_exit_problems(run.limit_s(program), outcome, results), *tap.problems]
    problems += [f"the kernel reported: {report.title}" for report in reports]
    if results:
        results[0] = replace(results[0], seconds=outcome.seconds)
    # A killed program cannot restore the state.
    if outcome.how != "timeout":
        results.append(_judge_state(group, program, outcome))
    yield from results
    if problems:
        shown = [line for report in reports for line in report.lines] or outcome.lines[-_OUTPUT_LINES:]
        # The limit is several times the usual time: a second try would end the same.
        final = bool(reports) or outcome.how == "timeout"
        yield TestResult(group, program.name, "fail", "\n".join([*problems, *shown]), outcome.seconds, final)


def _judge_state(group: str, program: Program, outcome: _Outcome) -> TestResult:
    """Check that the program restored the state of the machine (guest/state.c)."""
    status = "fail" if outcome.differs else "pass"
    return TestResult(group, f"{program.name}:{STATE_CHECK}", status, "\n".join(outcome.differs))


def _from_tap(group: str, program: Program, name: str, status: str, note: str) -> TestResult:
    final = status == "fail" and _WRONG_DATA in note
    return TestResult(group, f"{program.name}:{name}", status, note, final=final)


def _exit_problems(limit_s: int, outcome: _Outcome, results: Sequence[TestResult]) -> list[str]:
    if outcome.how == "timeout":
        return [f"did not end within {limit_s} s of guest time"]
    if outcome.how == "signal":
        return [f"was killed by signal {outcome.number}"]
    if outcome.number == 0:
        return []
    failed = any(result.status == "fail" for result in results)
    skipped = outcome.number == _SKIP_EXIT and all(result.status == "skip" for result in results)
    return [] if failed or skipped else [f"exit code {outcome.number}, though no test failed"]


def _judge_machine(
    run: SelftestRun, machine: MachineKey, boot: _Boot, guest: GuestResult, reports: Sequence[KernelReport]
) -> Iterator[TestResult]:
    """Yield failures of no program: reports during boot, leaks, a crash between two programs."""
    name = f"machine:{machine.topology}"
    for report in reports:
        detail = "\n".join([f"the kernel reported: {report.title}", *report.lines])
        yield TestResult(run.group, name, "fail", detail, final=True)
    if boot.done and run.leaks:
        leaks = [line for line in boot.leaks if line.strip()]
        detail = "\n".join(["memory that nothing points to any more:", *leaks]) if leaks else ""
        yield TestResult(
            run.group, f"{_LEAK_TEST}:{machine.topology}", "fail" if leaks else "pass", detail, final=bool(leaks)
        )
    if not (boot.done or boot.stopped) and boot.running is None:
        why = guest.explain() or f"batch ended with {guest.exit_code}"
        yield TestResult(run.group, name, "fail", why, guest.run_s, final=True)

# SPDX-License-Identifier: GPL-2.0
"""Run the cases: build the kernels, then run guests side by side, one process for each."""

import json
import multiprocessing
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from terrace import files, output
from terrace.demo.cases import ICOUNT_SHIFT, INSNS_PER_VISIT, TOPOLOGY, Case, Workload
from terrace.demo.counter import Counts, read_counts
from terrace.demo.figures import Figures, figures_of
from terrace.demo.functions import read_functions
from terrace.errors import TerraceError, UsageError
from terrace.host import cpu_count
from terrace.kernel.build import Kernel, build, find_built, prepare_all
from terrace.lab.plugin import compile_plugin, counter_argument, read_symbols, require_tools
from terrace.lab.qemu import host_memory, require_host_memory
from terrace.lab.run import require_guest_tools, run_in_guest
from terrace.lab.topology import load_topology
from terrace.lab.workloads import find_workload
from terrace.output import format_duration, say
from terrace.paths import cache_dir
from terrace.progress import Progress
from terrace.units import format_size

# Seconds on two cores of an ordinary server; used until this machine has measured times.
_USUAL_BUILD_S = 330.0
_USUAL_BOOT_S = 12.0
_USUAL_INSNS_PER_S = 6e7
_TICK_S = 0.5
_STOP_S = 10.0
_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class Outcome:
    """One finished case."""

    case: Case
    figures: Figures
    result: dict[str, Any]
    counts: dict[str, Counts]
    host_s: float
    functions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Job:
    """All that a process needs to run one guest."""

    case: Case
    workload: Workload
    kernel: Path
    program: Path
    plugin: Path
    functions: bool


def kernels_for(cases: Sequence[Case], workload: Workload) -> dict[str, Kernel]:
    """The kernels that the cases boot, built when needed, after saying how long that takes.

    Raises UsageError before that when this host is too small for the load's machine.
    """
    _require_memory(workload)
    # Before minutes of building, and not by several guests at once.
    require_guest_tools()
    require_tools()
    flavours = list(dict.fromkeys(case.flavour for case in cases))
    missing = [flavour for flavour in flavours if find_built(flavour) is None]
    guests = _guests_s(cases, workload)
    if missing:
        kernels = f"{len(missing)} kernel{'s' if len(missing) > 1 else ''} to build ({', '.join(missing)})"
        once = format_duration(len(missing) * _USUAL_BUILD_S * 2 / cpu_count())
        say(f"terrace: {kernels}, about {once}, this once; then {len(cases)} guests, about {format_duration(guests)}")
    else:
        say(f"terrace: {len(cases)} guests to run, about {format_duration(guests)}")
    prepare_all(missing)
    return {flavour: build(flavour) for flavour in flavours}


def _require_memory(workload: Workload) -> None:
    machine = load_topology(TOPOLOGY).with_memory_scale(workload.memory_scale)
    try:
        require_host_memory(machine)
    except UsageError as error:
        raise UsageError(
            f"--size {format_size(workload.size)} runs on a machine of {format_size(machine.memory)}, "
            f"and this host has {format_size(host_memory())}; use a smaller size"
        ) from error


def run_cases(
    cases: Sequence[Case], workload: Workload, kernels: Mapping[str, Kernel], label: str, *, functions: bool = False
) -> list[Outcome]:
    """Run every case, as many at a time as there are CPUs; the outcomes are in the order of the cases.

    `functions`: also count the engine's instructions by function.

    Raises TerraceError with the name of the first case that failed. Whatever ends it early ends the guests too.
    """
    program = find_workload("abench").compile()
    plugin = compile_plugin("insn_count")
    jobs = [_Job(case, workload, kernels[case.flavour].vmlinux, program, plugin, functions) for case in cases]
    waiting = jobs[::-1]
    known = _times()
    expected = {job.case.name: _expected_s(job.case, workload, known) for job in jobs}
    running: list[_Worker] = []
    outcomes: dict[str, Outcome] = {}
    try:
        with Progress(label, sum(expected.values())) as progress:
            while waiting or running:
                while waiting and len(running) < cpu_count():
                    running.append(_Worker(waiting.pop()))
                wait([worker.answer for worker in running], _TICK_S)
                for worker in [worker for worker in running if worker.answer.poll()]:
                    outcomes[worker.job.case.name] = worker.outcome()
                    running.remove(worker)
                amount = sum(expected[name] for name in outcomes)
                amount += sum(min(0.95 * expected[w.job.case.name], w.age_s) for w in running)
                progress.update(amount, ", ".join(worker.job.case.name for worker in running))
    finally:
        for worker in running:
            worker.stop()
    _remember(workload, outcomes.values())
    return [outcomes[case.name] for case in cases]


class _Worker:
    """A process that runs one guest: signals end it, and its failure is raised here."""

    def __init__(self, job: _Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.job = job
        self.answer, there = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(job, there), daemon=True)
        self._began = time.monotonic()
        self.process.start()
        there.close()

    @property
    def age_s(self) -> float:
        return time.monotonic() - self._began

    def outcome(self) -> Outcome:
        """Return the outcome, once there is an answer. Raises the errors of the process that a user can read."""
        try:
            value = self.answer.recv()
        except EOFError as error:
            raise TerraceError(f"{self.job.case.label}: its process ended without an answer") from error
        self.process.join()
        if isinstance(value, TerraceError):
            raise value
        assert isinstance(value, Outcome)
        return value

    def stop(self) -> None:
        """End the guest: the lab's runner takes a SIGTERM as the wish to stop."""
        self.process.terminate()
        self.process.join(_STOP_S)
        self.process.kill()


def _work(job: _Job, answer: Connection) -> None:
    """The worker process."""
    # The terminal's Ctrl-C reaches us too; the parent deals with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        answer.send(_run(job))
    except TerraceError as error:
        answer.send(error)


def _run(job: _Job) -> Outcome:
    """Run one guest from start to end, in the worker process."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="terrace-demo-") as folder:
        out, blocks = Path(folder) / "counts.json", Path(folder) / "blocks"
        symbols = read_symbols(job.kernel)
        knobs = [word for path, value in job.case.knobs.items() for word in ("--set", f"{path}={value}")]
        guest = run_in_guest(
            job.kernel,
            TOPOLOGY,
            [str(job.program), *knobs, *job.workload.argv(job.case.node)],
            cwd="/",
            env={},
            icount_shift=ICOUNT_SHIFT,
            plugin=counter_argument(job.plugin, symbols, out, blocks if job.functions else None),
            memory_scale=job.workload.memory_scale,
            timeout_s=_TIMEOUT_S,
        )
        if guest.exit_code:
            said = guest.stderr.decode(errors="replace").strip()
            raise TerraceError(f"{job.case.label}: {guest.explain() or said or f'exit code {guest.exit_code}'}")
        if guest.reports:
            titles = "; ".join(report.title for report in guest.reports)
            raise TerraceError(f"{job.case.label}: the kernel reported {titles}")
        counts = read_counts(out)
        functions = read_functions(blocks, symbols) if job.functions else {}
    result = parse_result(guest.stdout)
    return Outcome(job.case, figures_of(result, counts), result, counts, time.monotonic() - began, functions)


def parse_result(text: bytes) -> dict[str, Any]:
    """Parse the output of abench. Raises UsageError if it cannot be parsed."""
    try:
        result = json.loads(text)
        schema = result["schema"]
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"abench printed no result: {text[:200]!r}") from error
    if schema != "terrace.abench/1":
        raise UsageError(f"abench printed a result of schema {schema!r}; this tool reads terrace.abench/1")
    assert isinstance(result, dict)
    return result


# ---- estimates ----


def _times_file() -> Path:
    return cache_dir() / "demo-times.json"


def _times() -> dict[str, float]:
    try:
        known = json.loads(_times_file().read_text())
    except (OSError, ValueError):
        return {}
    given = known.items() if isinstance(known, dict) else ()
    return {name: float(value) for name, value in given if isinstance(value, int | float)}


def _expected_s(case: Case, workload: Workload, known: Mapping[str, float]) -> float:
    """Estimate the host seconds of a case: those of the last run on this machine, or by the size of the load."""
    measured = known.get(f"{case.name} {workload.size}")
    if measured:
        return measured
    visits = workload.iterations * workload.pages
    return _USUAL_BOOT_S + visits * INSNS_PER_VISIT / _USUAL_INSNS_PER_S


def _guests_s(cases: Sequence[Case], workload: Workload) -> float:
    known = _times()
    return sum(_expected_s(case, workload, known) for case in cases) / min(len(cases), cpu_count())


def _remember(workload: Workload, outcomes: Any) -> None:
    known = _times()
    known.update({f"{outcome.case.name} {workload.size}": round(outcome.host_s, 1) for outcome in outcomes})
    try:
        files.replace(_times_file(), json.dumps(known).encode())
    except OSError as error:
        output.warn(f"the times of this run are not kept for the next estimate: {files.why(error)}")

# SPDX-License-Identifier: GPL-2.0
"""A run of experiments: the cells still to measure, the first passes for oracles, and the results."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from terrace import files, output
from terrace.bench import instruments, loads, placement, store
from terrace.bench.cells import Cell
from terrace.bench.experiment import Experiment
from terrace.bench.measure import PAGE, Job, qemu_version
from terrace.bench.policies import POLICIES
from terrace.bench.schedule import Answer, Executor, Plan, Task, run_tasks
from terrace.errors import BuildError
from terrace.kernel.build import Kernel
from terrace.paths import build_dir, cache_dir
from terrace.progress import Progress

_USUAL_CELL_S = 40.0
# Version of the measurement: increase it if equal inputs give other results.
_TOOL = 2


@dataclass(frozen=True)
class Planned:
    """A cell to measure, the file of its result, and its expected time."""

    cell: Cell
    folder: Path
    fingerprint: str
    passes: tuple["Pass", ...]


@dataclass(frozen=True)
class Pass:
    """A run before an oracle's: the same load with all of its memory slow, with fetches counted by page."""

    cell: Cell
    fingerprint: str

    @property
    def name(self) -> str:
        """Its name in progress and errors."""
        return f"first pass of {self.cell.experiment}/{self.cell.name}"


@dataclass
class Session:
    """State of one `bench run`."""

    kernels: Mapping[str, Kernel]
    todo: list[Planned] = field(default_factory=list)
    finished: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    _passes: dict[str, dict[str, Any]] = field(default_factory=dict)
    _jobs: dict[str, Callable[[], Job]] = field(default_factory=dict)

    def plan(self, experiment: Experiment, cells: Sequence[Cell], folder: Path, again: bool = False) -> None:
        """Add those of `cells` without a result in `folder`, or all with `again`."""
        for cell in cells:
            passes = tuple(Pass(first, fingerprint(first, self.kernels, "first pass")) for first in first_passes(cell))
            mine = fingerprint(cell, self.kernels, " ".join(item.fingerprint for item in passes))
            if not again and store.is_finished(folder, cell.name, mine):
                self.finished += 1
            else:
                self.todo.append(Planned(cell, folder, mine, passes))

    def run(self, executor: Executor, label: str, open_for_s: float | None = None) -> int:
        """Measure all cells, or those that can start within `open_for_s`; return the number left.

        The failure of a cell is a result as well; `failed` has its name and the reason.
        """
        tasks = self._tasks()
        by_name = {f"{item.cell.experiment}/{item.cell.name}": item for item in self.todo}

        def ended(task: Task, answer: Answer) -> bool:
            if task.name in by_name:
                return self._keep(by_name[task.name], answer)
            return self._keep_pass(task, answer)

        total = sum(task.expected_s for task in tasks)
        with Progress(label, total) as progress:

            def tick(plan: Plan) -> None:
                over = plan.good | plan.bad
                progress.update(sum(t.expected_s for t in tasks if t.name in over), ", ".join(plan.running))

            return run_tasks(tasks, executor, lambda task: self._jobs[task.name](), ended, tick, open_for_s)

    def _tasks(self) -> list[Task]:
        times = _times()
        found: dict[str, Task] = {}
        for item in self.todo:
            cell = item.cell
            before = [task for task in (self._pass_task(needed, times) for needed in item.passes) if task]
            for task in before:
                found.setdefault(task.name, task)
            name = f"{cell.experiment}/{cell.name}"
            expected = times.get(_time_key(cell), _USUAL_CELL_S)
            found[name] = Task(name, cell.machine().memory, expected, tuple(task.name for task in before))
            self._jobs[name] = partial(self._job, item)
        return list(found.values())

    def _pass_task(self, item: Pass, times: Mapping[str, float]) -> Task | None:
        """Get the task of a first pass; None if it was run before."""
        known = self._passes.get(item.name) or _read_pass(item.fingerprint)
        if known:
            self._passes[item.name] = known
            return None
        cell = item.cell
        kernel = self.kernels[cell.flavour]
        job = Job(cell, kernel.content_hash, item.fingerprint, profile=True)
        self._jobs[item.name] = lambda: job
        return Task(item.name, cell.machine().memory, times.get(_time_key(cell), _USUAL_CELL_S))

    def _job(self, item: Planned) -> Job:
        cell, policy = item.cell, POLICIES[item.cell.policy]
        text = None
        if policy.limit == "oracle":
            profile = self._passes[item.passes[0].name]
            pages = cell.size // PAGE
            capacity = pages if cell.fast_bytes is None else int(cell.fast_bytes * placement.USABLE) // PAGE
            text = placement.as_text(placement.runs(placement.choose(profile["accesses"], pages, capacity), pages))
        kernel = self.kernels[cell.flavour]
        return Job(cell, kernel.content_hash, item.fingerprint, placement=text)

    def _keep(self, item: Planned, answer: Answer) -> bool:
        document = answer.document or {**_lost(item), "error": answer.problem}
        self.written.append(store.write(item.folder, document))
        if document["status"] != store.OK:
            self.failed.append((f"{item.cell.experiment}/{item.cell.name}", document["error"]))
            output.warn(f"{item.cell.experiment}/{item.cell.name}: {document['error']}")
            return False
        _remember(_time_key(item.cell), document["host_s"])
        return True

    def _keep_pass(self, task: Task, answer: Answer) -> bool:
        document = answer.document
        if document is None or document["status"] != store.OK:
            problem = answer.problem if document is None else document["error"]
            output.warn(f"{task.name}: {problem}")
            return False
        self._passes[task.name] = document
        _write_pass(document)
        return True


def first_passes(cell: Cell) -> list[Cell]:
    """Get the runs that an oracle needs first: the same load and seed, all on slow memory, to find the hot pages."""
    if POLICIES[cell.policy].limit != "oracle":
        return []
    return [replace(cell, policy="all-slow", dram=None, repetition=1)]


def flavours_of(cells: Sequence[Cell]) -> set[str]:
    """Get the kernels that these cells and their first passes need."""
    return {run.flavour for cell in cells for run in (cell, *first_passes(cell))}


def fingerprint(cell: Cell, kernels: Mapping[str, Kernel], after: str) -> str:
    """Hash all inputs of the result of a cell; `after` is the hash of its first pass."""
    policy = POLICIES[cell.policy]
    programs = loads.compile_for(cell)
    if cell.flavour not in kernels:
        raise BuildError(f"there is no {cell.flavour} kernel")
    machine = cell.machine()
    parts = [
        _TOOL,
        kernels[cell.flavour].content_hash,
        kernels[cell.flavour].config_hash,
        repr(machine),
        qemu_version(),
        instruments.identity(),
        [Path(word).name if word.startswith("/") and "=" not in word else word for word in loads.words(cell, programs)],
        policy.limit,
        cell.repetition,
        after,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _lost(item: Planned) -> dict[str, Any]:
    """Create the document of a cell without an answer."""
    return {
        "schema": store.SCHEMA,
        "version": store.VERSION,
        "experiment": item.cell.experiment,
        "cell": item.cell.name,
        "fingerprint": item.fingerprint,
        "key": item.cell.key(),
        "status": store.FAILED,
    }


# ---- first passes, kept from run to run ----


def _pass_file(name: str) -> Path:
    return build_dir() / "bench" / f"pass-{name}.json"


def _read_pass(name: str) -> dict[str, Any] | None:
    try:
        document = json.loads(_pass_file(name).read_text())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _write_pass(document: Mapping[str, Any]) -> None:
    path = _pass_file(str(document["fingerprint"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(document))
    fresh.replace(path)


# ---- estimates ----


def expected_s(cell: Cell) -> float:
    """Estimate the host seconds of a cell: those of its last run on this machine, or those of most cells."""
    return _times().get(_time_key(cell), _USUAL_CELL_S)


def _time_key(cell: Cell) -> str:
    return f"{cell.experiment}/{cell.name.partition('-seed')[0]}"


def _times_file() -> Path:
    return cache_dir() / "bench-times.json"


def _times() -> dict[str, float]:
    try:
        known = json.loads(_times_file().read_text())
    except (OSError, ValueError):
        return {}
    given = known.items() if isinstance(known, dict) else ()
    return {name: float(value) for name, value in given if isinstance(value, int | float)}


def _remember(name: str, seconds: float) -> None:
    known = _times()
    known[name] = seconds
    try:
        files.replace(_times_file(), json.dumps(known).encode())
    except OSError as error:
        output.warn(f"the time of this run is not kept for the next estimate: {files.why(error)}")

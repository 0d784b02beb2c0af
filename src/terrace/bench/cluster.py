# SPDX-License-Identifier: GPL-2.0
"""Workers through Dask distributed: as many as this machine has cores, or those of a scheduler elsewhere."""

import contextlib
import importlib
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from terrace.bench.deaths import Deaths, available_memory
from terrace.bench.schedule import Answer, Task
from terrace.errors import MissingError, TerraceError
from terrace.host import cpu_count
from terrace.lab.qemu import HOST_RESERVE, host_memory
from terrace.units import format_size

# What a worker of ours says it has of guest memory.
RESOURCE = "guest-memory"
_WAIT_S = 30
_CLOSE_S = 5


def _dask() -> Any:
    # Not all of it is typed, and only the verbs that use it have it.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    module: Any = importlib.import_module("distributed")
    return module


class Cluster:
    """An executor for run_tasks; `work` is what a worker does with a payload."""

    def __init__(self, work: Callable[[Any], dict[str, Any]], scheduler: str | None, jobs: int | None = None) -> None:
        """Connect to `scheduler`, or start `jobs` workers here (default: as many as there are CPUs)."""
        self._work = work
        self._dask = _dask()
        self._address = scheduler
        self._jobs = jobs or cpu_count()
        self._local: Any = None
        self._futures: dict[Any, tuple[Task, str]] = {}  # with the worker that has it
        self._places: dict[str, _Place] = {}
        self._deaths = Deaths()
        self._known: dict[str, Any] = {}  # workers, as the scheduler last said

    def __enter__(self) -> Self:
        if self._address:
            self._connect(self._address)
            return self
        # A task whose worker dies comes back to us at once, and we say where it goes.
        importlib.import_module("dask").config.set({"distributed.scheduler.allowed-failures": 0})
        self._local = self._dask.LocalCluster(
            n_workers=self._jobs,
            threads_per_worker=1,
            worker_class=self._deaths.nanny(self._dask.Nanny),
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
        self._client = self._dask.Client(self._local)
        return self

    def _connect(self, address: str) -> None:
        try:
            self._client = self._dask.Client(address, timeout=_WAIT_S)
        except (OSError, ValueError, TimeoutError) as error:
            raise MissingError(
                f"--scheduler {address}: nobody answers there ({error}); start one: dask scheduler"
            ) from error
        if not self._workers():
            raise MissingError(f"--scheduler {address}: it has no workers; start them: terrace bench worker {address}")

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for future in list(self._futures):
            future.cancel(force=True)
        # All answers are here, and workers that are slow to end do so with us: no reason to call the run a failure.
        with contextlib.suppress(TimeoutError):
            self._client.close(timeout=_CLOSE_S)
        with contextlib.suppress(TimeoutError):
            if self._local:
                self._local.close(timeout=_CLOSE_S)

    def _workers(self) -> dict[str, Any]:
        # Not scheduler_info(): that gives what the client knows last, and every 2 s it asks, from its own thread, for
        # totals without any workers. Then all of them would seem to have died at once.
        # Who cannot be asked just now has not lost them either.
        with contextlib.suppress(OSError):
            self._known = self._client.sync(self._client.scheduler.identity, n_workers=-1)["workers"]
        return self._known

    def takes(self, task: Task) -> bool:
        """Is there a worker with a free thread, and memory for it: this machine's, or that of the worker?"""
        self._places = {
            address: _Place(worker["nthreads"], worker["resources"].get(RESOURCE))
            for address, worker in self._workers().items()
        }
        most = max((place.memory or math.inf for place in self._places.values()), default=math.inf)
        if task.memory > most:
            raise TerraceError(f"{task.name}: needs {format_size(task.memory)} of memory, more than any worker has")
        used = 0
        for held, address in self._futures.values():
            used += held.memory
            if address in self._places:
                self._places[address].take(held)
        if self._local and used + task.memory > host_memory() - HOST_RESERVE:
            return False
        # What others on this machine hold is not ours to take. A guest alone is started all the same, or none would be.
        if self._local and used and task.memory > available_memory() - HOST_RESERVE:
            return False
        return any(place.fits(task) for place in self._places.values())

    def submit(self, task: Task, payload: Any) -> None:
        """Start it on a worker that has a place for it, and on no other: whose worker dies is then known."""
        address = next(address for address, place in self._places.items() if place.fits(task))
        self._look()
        future = self._client.submit(self._work, payload, pure=False, workers=[address])
        self._futures[future] = (task, address)

    def _look(self) -> None:
        """Note what the workers of this machine have now: when they get something to do, and while they do it."""
        for nanny in self._local.workers.values() if self._local else ():
            if nanny.pid and nanny.worker_address:
                self._deaths.look(nanny.worker_address, nanny.pid)

    def wait(self, timeout_s: float) -> list[Answer]:
        """Those that ended since."""
        with contextlib.suppress(TimeoutError):
            self._dask.wait(list(self._futures), timeout=timeout_s, return_when="FIRST_COMPLETED")
        alive = self._workers()
        self._look()
        found = [self._answer(future) for future in list(self._futures) if future.done()]
        for future, (_, address) in list(self._futures.items()):
            if address not in alive:
                found.append(self._lost(future))
        return found

    def _answer(self, future: Any) -> Answer:
        task, _ = self._futures[future]
        if future.status == "finished":
            del self._futures[future]
            return Answer(task.name, document=future.result())
        if future.status == "error":
            error = future.exception()
            if not isinstance(error, self._dask.KilledWorker):
                del self._futures[future]
                return Answer(task.name, problem=f"{type(error).__name__}: {error}")
        return self._lost(future)

    def _lost(self, future: Any) -> Answer:
        task, address = self._futures.pop(future)
        future.cancel(force=True)
        reason = self._deaths.reason(address) if self._local else f"on {address}, which is gone"
        return Answer(task.name, problem=f"its worker died: {reason}", lost=True)


@dataclass
class _Place:
    """What a worker has left: threads, and memory where it says how much (None: as much as is wanted)."""

    threads: int
    memory: float | None

    def fits(self, task: Task) -> bool:
        return self.threads > 0 and (self.memory is None or task.memory <= self.memory)

    def take(self, task: Task) -> None:
        self.threads -= 1
        if self.memory is not None:
            self.memory -= task.memory


def serve(address: str, jobs: int | None = None) -> None:
    """Be a worker of the scheduler at `address` until it ends."""
    module = _dask()
    import asyncio

    async def run() -> None:
        resources = {RESOURCE: host_memory() - HOST_RESERVE}
        async with module.Nanny(
            address, nthreads=jobs or cpu_count(), resources=resources, memory_limit=0, dashboard_address=None
        ) as nanny:
            await nanny.finished()

    try:
        asyncio.run(run())
    except (OSError, TimeoutError) as error:
        raise MissingError(f"{address}: no scheduler answers there ({error}); start one: dask scheduler") from error

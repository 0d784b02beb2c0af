# SPDX-License-Identifier: GPL-2.0
"""Workers through Dask distributed: one per core of this machine, or those of a scheduler on another machine."""

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

# Resource name for the guest memory that a worker provides.
RESOURCE = "guest-memory"
_WAIT_S = 30
_CLOSE_S = 5


def _dask() -> Any:
    # Parts of the package are not typed, and only the subcommands that use it install it.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    module: Any = importlib.import_module("distributed")
    return module


class Cluster:
    """An executor for run_tasks; `work` is the function that a worker calls with a payload."""

    def __init__(self, work: Callable[[Any], dict[str, Any]], scheduler: str | None, jobs: int | None = None) -> None:
        """Connect to `scheduler`, or start `jobs` local workers (default: one per CPU)."""
        self._work = work
        self._dask = _dask()
        self._address = scheduler
        self._jobs = jobs or cpu_count()
        self._local: Any = None
        self._futures: dict[Any, tuple[Task, str]] = {}  # with its worker
        self._places: dict[str, _Place] = {}
        self._deaths = Deaths()
        self._known: dict[str, Any] = {}  # workers, as of the last report of the scheduler

    def __enter__(self) -> Self:
        if self._address:
            self._connect(self._address)
            return self
        # A task whose worker dies is returned at once, and this program assigns it anew.
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
            raise MissingError(f"--scheduler {address}: no answer ({error}); start one: dask scheduler") from error
        if not self._workers():
            raise MissingError(f"--scheduler {address}: it has no workers; start them: terrace bench worker {address}")

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for future in list(self._futures):
            future.cancel(force=True)
        # All answers have arrived, and slow workers end with this process: no failure of the run.
        with contextlib.suppress(TimeoutError):
            self._client.close(timeout=_CLOSE_S)
        with contextlib.suppress(TimeoutError):
            if self._local:
                self._local.close(timeout=_CLOSE_S)

    def _workers(self) -> dict[str, Any]:
        # Not scheduler_info(): it returns the client's last state, and the client's own thread
        # requests totals without workers every 2 s. Then all workers would seem to be dead. A
        # scheduler that does not answer now has not lost them either.
        with contextlib.suppress(OSError):
            self._known = self._client.sync(self._client.scheduler.identity, n_workers=-1)["workers"]
        return self._known

    def takes(self, task: Task) -> bool:
        """Check for a worker with a free thread, and memory for it: on this machine, or on that of the worker."""
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
        # Do not use memory that other programs on this machine hold. A single guest starts in any
        # case, or none ever would.
        if self._local and used and task.memory > available_memory() - HOST_RESERVE:
            return False
        return any(place.fits(task) for place in self._places.values())

    def submit(self, task: Task, payload: Any) -> None:
        """Start it on one worker with a free place: then it is known which task a dead worker had."""
        address = next(address for address, place in self._places.items() if place.fits(task))
        self._look()
        future = self._client.submit(self._work, payload, pure=False, workers=[address])
        self._futures[future] = (task, address)

    def _look(self) -> None:
        """Record the present memory of this machine's workers: when they get a task, and while it runs."""
        for nanny in self._local.workers.values() if self._local else ():
            if nanny.pid and nanny.worker_address:
                self._deaths.look(nanny.worker_address, nanny.pid)

    def wait(self, timeout_s: float) -> list[Answer]:
        """Get the tasks that have ended since."""
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
    """Free resources of a worker: threads, and memory if it reports any (None: unlimited)."""

    threads: int
    memory: float | None

    def fits(self, task: Task) -> bool:
        return self.threads > 0 and (self.memory is None or task.memory <= self.memory)

    def take(self, task: Task) -> None:
        self.threads -= 1
        if self.memory is not None:
            self.memory -= task.memory


def serve(address: str, jobs: int | None = None) -> None:
    """Run as a worker of the scheduler at `address` until the scheduler ends."""
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

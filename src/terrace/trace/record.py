# SPDX-License-Identifier: GPL-2.0
"""Record for a time: the trace, the counters at both ends, and the file with all of it."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Self

from terrace.errors import TerraceError
from terrace.files import why
from terrace.ops import hierarchy, topology
from terrace.ops.diagnose import diagnose
from terrace.ops.report import page_bytes
from terrace.ops.snapshot import change, kernel_release
from terrace.output import say
from terrace.sysfs import KernelFiles
from terrace.trace import leftovers, look
from terrace.trace.lines import Event, Reader
from terrace.trace.look import Task
from terrace.trace.only import kept
from terrace.trace.session import Session, events_of, tracefs
from terrace.trace.store import Head, Writer

#: Time limit for a program after the request to end.
_GRACE_S = 5.0
_POLL_S = 0.05
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Request:
    """A recording: ``command`` while it runs, otherwise ``seconds`` (None: while ``pids`` run)."""

    path: Path
    seconds: float | None
    buffer_kb: int
    command: tuple[str, ...] = ()
    #: Record only these processes, until they have ended; empty: all.
    pids: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Result:
    """Result of a recording; ``exit_code`` is the program's."""

    head: Head
    size: int

    @property
    def exit_code(self) -> int:
        """Get the exit code of `terrace record`."""
        return self.head.exit_code or 0


class Ending:
    """While this is entered, signals that end programs are only noted, and what was recorded so far is kept."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __enter__(self) -> Self:
        # Not if nohup has set the signal to be ignored.
        wanted = [number for number in _ENDINGS if signal.getsignal(number) is not signal.SIG_IGN]
        self._old = {number: signal.signal(number, self._note) for number in wanted}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number


def record(request: Request, files: KernelFiles) -> Result:
    """Record, and write the file. Raises TerraceError; then there is no file, or the old one is unchanged."""
    place = tracefs(files)
    events = events_of(files, place)
    folder = request.path.absolute().parent
    try:
        for left in leftovers.clean(files, place, folder):
            say(f"terrace: removed {left}, which a killed `terrace record` has left")
        # Next to the file, where space is needed in any case.
        with leftovers.Folder(request.path) as aside:
            return _record(request, files, Session(files, place, events, aside.path, request.buffer_kb), events)
    except OSError as error:
        raise TerraceError(f"-o {request.path}: {why(error, request.path)}") from error


def _record(request: Request, files: KernelFiles, session: Session, events: Sequence[str]) -> Result:
    before, threads_of = look.processes(files), Threads(files, request.pids)
    with session:
        with Ending() as ending:
            started = datetime.now(UTC)
            first = look.counts(files)
            code = _meanwhile(request, session, ending, threads_of)
            last = look.counts(files, last=True)
            session.stop()
        after = look.processes(files)
        writer, reader = Writer(first.at_ns), Reader()
        threads = _keep(session, reader, writer, (first.at_ns, last.at_ns), threads_of)
        lost = max(reader.lost, session.overruns())
    nodes, _ = topology.read_nodes(files)
    head = Head(
        kernel=kernel_release(files),
        host=platform.node(),
        started=started.isoformat(timespec="seconds"),
        seconds=(last.at_ns - first.at_ns) / 1e9,
        page_bytes=page_bytes(),
        command=list(request.command) or None,
        exit_code=code,
        enabled=list(events),
        events=writer.count,
        lost=lost,
        strange=reader.strange,
        top_nodes=[node.node for node in nodes if node.top],
        nodes=[node.node for node in nodes],
        counters_before=first.counters,
        counters_after=last.counters,
        reasons_before=diagnose(first.snapshot, change(None, first.snapshot)),
        reasons_after=diagnose(last.snapshot, change(first.snapshot, last.snapshot)),
        cgroups_before=first.cgroups,
        cgroups_after=last.cgroups,
        processes_before=before,
        processes_after=after,
        tasks=threads_of.tasks(threads),
        cgroups_problem=hierarchy.find(files).problem,
        pids=sorted(request.pids),
    )
    return Result(head, writer.write(request.path, head))


class Threads:
    """Threads of the recorded processes, as far as they were found while these ran."""

    def __init__(self, files: KernelFiles, pids: frozenset[int]) -> None:
        self._files = files
        self._pids = pids
        self.narrow = bool(pids)
        self._seen: dict[int, Task] = {}
        self.update()

    def update(self) -> bool:
        """Read them again; false if none of the processes is left, true without processes."""
        left = not self._pids
        for pid in self._pids:
            names = [name for name in self._files.names(f"proc/{pid}/task") if name.isdecimal()]
            left = left or bool(names)
            fresh = [int(name) for name in names if int(name) not in self._seen]
            self._seen |= {int(thread): task for thread, task in look.tasks(self._files, fresh).items()}
        return left

    def wants(self, task: int) -> bool:
        """Whether events of a thread or process are kept."""
        return not self._pids or task in self._pids or task in self._seen

    def tasks(self, threads: set[int]) -> dict[str, Task]:
        """Get the known data of these threads."""
        known = {str(thread): task for thread, task in self._seen.items() if thread in threads}
        return known | look.tasks(self._files, sorted(threads))


def _meanwhile(request: Request, session: Session, ending: Ending, threads: Threads) -> int | None:
    """Wait for the end of the time or of the program; return its exit code."""
    if request.command:
        return _run(request.command, ending, threads)
    _wait(request.seconds, ending, session, threads)
    return None


def _keep(session: Session, reader: Reader, writer: Writer, span: tuple[int, int], wanted: Threads) -> set[int]:
    """Keep the wanted events between both reads of the counters; return the threads and processes in them."""
    threads: set[int] = set()
    for event in kept(session.events(reader), wanted.wants) if wanted.narrow else session.events(reader):
        if span[0] <= event.at_ns <= span[1]:
            writer.add(event)
            threads |= _threads(event)
    return threads - {0}


def _threads(event: Event) -> set[int]:
    return {event.pid, event.number("pid")} if "pid" in event.fields else {event.pid}


def _wait(seconds: float | None, ending: Ending, session: Session, threads: Threads) -> None:
    """Wait for the end of the time or of the processes, or for a signal. Raises TerraceError if trace-cmd ends."""
    until = math.inf if seconds is None else time.monotonic() + seconds
    while ending.number is None and threads.update() and (left := until - time.monotonic()) > 0:
        session.check()
        time.sleep(min(left, _POLL_S))


def _run(command: Sequence[str], ending: Ending, threads: Threads) -> int:
    """Run a program to its end; return its exit code as a shell does."""
    with _started(command) as process:
        deadline = float("inf")
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(_POLL_S)
                return code if code >= 0 else 128 - code
            threads.update()
            if ending.number is not None and deadline == float("inf"):
                deadline = time.monotonic() + _GRACE_S
                # The terminal sends Ctrl-C to the program itself.
                if ending.number != signal.SIGINT:
                    process.send_signal(ending.number)
            elif time.monotonic() > deadline:
                process.terminate()
                deadline += _GRACE_S


@contextlib.contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        raise TerraceError(f"cannot run '{command[0]}': {error.strerror}") from error
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def may_record() -> bool:
    """Whether this user may trace: root."""
    return os.geteuid() == 0

# SPDX-License-Identifier: GPL-2.0
"""A time that is recorded: the trace, a look at the counters at either end, and the file of both."""

from __future__ import annotations

import contextlib
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
from terrace.trace.session import Session, events_of, tracefs
from terrace.trace.store import Head, Writer

#: A program that was told to end may take that long, and no longer.
_GRACE_S = 5.0
_POLL_S = 0.05
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Request:
    """What is to be recorded: ``command`` as long as it runs, or ``seconds``."""

    path: Path
    seconds: float
    buffer_kb: int
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What came of it; ``exit_code`` is the program's."""

    head: Head
    size: int

    @property
    def exit_code(self) -> int:
        """What `terrace record` ends with."""
        return self.head.exit_code or 0


class Ending:
    """While it is entered, a signal that ends others is only noted: what was recorded until then is kept."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __enter__(self) -> Self:
        # Not where nohup set it to be ignored.
        wanted = [number for number in _ENDINGS if signal.getsignal(number) is not signal.SIG_IGN]
        self._old = {number: signal.signal(number, self._note) for number in wanted}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number


def record(request: Request, files: KernelFiles) -> Result:
    """Record, and write the file. Raises TerraceError; then there is no file, or the one before."""
    place = tracefs(files)
    events = events_of(files, place)
    folder = request.path.absolute().parent
    try:
        for left in leftovers.clean(files, place, folder):
            say(f"terrace: removed {left}, which a killed `terrace record` has left")
        # Beside the file: there is room where it is wanted.
        with leftovers.Folder(request.path) as aside:
            return _record(request, files, Session(files, place, events, aside.path, request.buffer_kb), events)
    except OSError as error:
        raise TerraceError(f"-o {request.path}: {why(error, request.path)}") from error


def _record(request: Request, files: KernelFiles, session: Session, events: Sequence[str]) -> Result:
    before = look.processes(files)
    with session:
        with Ending() as ending:
            started = datetime.now(UTC)
            first = look.counts(files)
            code = _meanwhile(request, session, ending)
            last = look.counts(files, last=True)
            session.stop()
        after = look.processes(files)
        writer, reader = Writer(first.at_ns), Reader()
        threads = _keep(session, reader, writer, (first.at_ns, last.at_ns))
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
        tasks=look.tasks(files, sorted(threads)),
        cgroups_problem=hierarchy.find(files).problem,
    )
    return Result(head, writer.write(request.path, head))


def _meanwhile(request: Request, session: Session, ending: Ending) -> int | None:
    """Let the time pass, or the program run; returns its exit code."""
    if request.command:
        return _run(request.command, ending)
    _wait(request.seconds, ending, session)
    return None


def _keep(session: Session, reader: Reader, writer: Writer, span: tuple[int, int]) -> set[int]:
    """The events between both looks; returns the threads and processes that are in them."""
    threads: set[int] = set()
    for event in session.events(reader):
        if span[0] <= event.at_ns <= span[1]:
            writer.add(event)
            threads |= _threads(event)
    return threads - {0}


def _threads(event: Event) -> set[int]:
    return {event.pid, event.number("pid")} if "pid" in event.fields else {event.pid}


def _wait(seconds: float, ending: Ending, session: Session) -> None:
    """Until the time is over, or somebody ends it. Raises TerraceError when trace-cmd ends."""
    until = time.monotonic() + seconds
    while ending.number is None and (left := until - time.monotonic()) > 0:
        session.check()
        time.sleep(min(left, _POLL_S))


def _run(command: Sequence[str], ending: Ending) -> int:
    """A program, from its beginning to its end; returns its exit code as a shell has it."""
    with _started(command) as process:
        deadline = float("inf")
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(_POLL_S)
                return code if code >= 0 else 128 - code
            if ending.number is not None and deadline == float("inf"):
                deadline = time.monotonic() + _GRACE_S
                # A terminal tells it of Ctrl-C itself.
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

# SPDX-License-Identifier: GPL-2.0
"""Run trace-cmd in a separate instance of tracefs, so that the traces of other programs are left alone."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from terrace import files
from terrace.errors import MissingError, TerraceError
from terrace.ops.snapshot import kernel_release
from terrace.sysfs import KernelFiles
from terrace.trace import leftovers
from terrace.trace.lines import EVENTS, OWN_SYSTEMS, Event, Reader

TRACE_CMD = "trace-cmd"
_PLACES = ("sys/kernel/tracing", "sys/kernel/debug/tracing")
#: Time limits: until trace-cmd has enabled all events, and until it has written the rest of the
#: buffers.
_START_S, _STOP_S = 60.0, 300.0
_POLL_S = 0.02
_OVERRUN = re.compile(r"^(?:overrun|commit overrun|dropped events): ([0-9]+)$", re.MULTILINE)


def tracefs(files: KernelFiles) -> str:
    """Find tracefs; mount it if it is not mounted, as trace-cmd does. Raises MissingError if there is none."""
    for attempt in range(2):
        for place in _PLACES:
            if files.exists(f"{place}/instances"):
                return place
        if attempt == 0 and files.exists(_PLACES[0]):
            subprocess.run(["mount", "-t", "tracefs", "tracefs", f"/{_PLACES[0]}"], check=False, capture_output=True)
    raise MissingError(
        f"there is no tracefs at /{_PLACES[0]}, and it cannot be mounted: this kernel ({kernel_release(files)}) has to "
        "be built with CONFIG_FTRACE and CONFIG_EVENT_TRACING"
    )


def events_of(files: KernelFiles, place: str) -> list[str]:
    """Get those of `EVENTS` that the kernel has. Raises MissingError if none of them is of the overlay."""
    found = [name for name in EVENTS if files.exists(f"{place}/events/{name.replace(':', '/')}/enable")]
    if not any(name.startswith(tuple(f"{system}:" for system in OWN_SYSTEMS)) for name in found):
        raise MissingError(
            f"this kernel ({kernel_release(files)}) has none of the tracepoints {', '.join(OWN_SYSTEMS)} below "
            f"/{place}/events: it is not a kernel of Terrace; `terrace features` says what it can do"
        )
    return found


def program() -> str:
    """Get the path of trace-cmd. Raises MissingError if it is not installed."""
    found = shutil.which(TRACE_CMD)
    if found is None:
        raise MissingError(f"`terrace record` needs {TRACE_CMD}: apt-get install {TRACE_CMD}")
    return found


class Session:
    """A trace from `with` until `stop`, in files in ``folder``. Afterwards no event is enabled, and
    no instance is left.
    """

    def __init__(self, kernel: KernelFiles, place: str, events: Sequence[str], folder: Path, buffer_kb: int) -> None:
        self._files = kernel
        self._events = tuple(events)
        self._place = place
        self._name = leftovers.instance_name()
        self._instance = f"{place}/instances/{self._name}"
        self._folder = folder
        self._data = folder / "trace.dat"
        self._said = folder / "said"
        self._words = [program(), "record", "-q", "-B", self._name, "-C", "mono", "-b", str(buffer_kb)]
        for event in self._events:
            self._words += ["-e", event]
        self._words += ["-o", str(self._data)]
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: leftovers.Keeper | None = None

    def __enter__(self) -> Self:
        self._keeper = leftovers.Keeper(self._files, self._place, self._name, self._folder)
        try:
            self._start()
        except BaseException:
            self._clear()
            raise
        return self

    def _start(self) -> None:
        # A new session, so that Ctrl-C reaches only this process, which then ends trace-cmd.
        with open(self._said, "wb") as said:
            self._process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self._said.parent,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
                start_new_session=True,
            )
        self._wait_until_on()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def _wait_until_on(self) -> None:
        until = time.monotonic() + _START_S
        while not self._is_on():
            assert self._process is not None
            if self._process.poll() is not None:
                raise self._failure(f"{TRACE_CMD} has ended at once")
            if time.monotonic() > until:
                raise TerraceError(f"{TRACE_CMD} has not switched on its events within {_START_S:.0f} s")
            time.sleep(_POLL_S)

    def _is_on(self) -> bool:
        """It enables one event after the other, and then tracing as a whole."""
        last = self._events[-1].replace(":", "/")
        return all(
            self._files.get(f"{self._instance}/{name}") == "1" for name in (f"events/{last}/enable", "tracing_on")
        )

    def check(self) -> None:
        """Raise TerraceError if trace-cmd has stopped recording, or has no space left."""
        if self._process is None or self._process.poll() is not None:
            raise self._failure(f"{TRACE_CMD} has ended before its time")
        # Its recorders end when they cannot write, and trace-cmd continues without them.
        if os.statvfs(self._folder).f_bfree == 0 and (full := self._full()):
            raise full

    def _full(self) -> TerraceError | None:
        """Get the error of a full disk, or of an exceeded quota, of the folder of the data; None if there is space."""
        number = self._number_of_full()
        if number is None:
            return None
        reason = files.why(OSError(number, os.strerror(number)), self._folder)
        return TerraceError(f"{reason}: nothing was recorded; make room, or name a file elsewhere with -o FILE")

    def _number_of_full(self) -> int | None:
        """Get ENOSPC or EDQUOT if that ended trace-cmd: by exit code or output, or if a small file fails with it."""
        said = self._said.read_text(encoding="utf-8", errors="replace") if self._said.exists() else ""
        code = None if self._process is None else self._process.poll()
        probed = files.probe(self._folder)
        for number in (errno.ENOSPC, errno.EDQUOT):
            # trace-cmd exits with the number of its error, and removes its files: then there is
            # space again.
            if code == number or os.strerror(number) in said or (probed and probed.errno == number):
                return number
        return None

    def _failure(self, what: str) -> TerraceError:
        """Get the reason why trace-cmd failed: a full disk, otherwise its last message."""
        return self._full() or TerraceError(f"{what}: {self._last_words()}")

    def stop(self) -> None:
        """End the trace, and wait until it is in its file. Raises TerraceError if it is not."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired as error:
            raise TerraceError(f"{TRACE_CMD} has not ended within {_STOP_S:.0f} s") from error
        if code != 0 or not self._data.is_file():
            raise self._failure(f"{TRACE_CMD} has failed with exit code {code}")

    def events(self, reader: Reader) -> Iterator[Event]:
        """Yield the recorded events in order. Raises TerraceError if trace-cmd cannot read its own file."""
        words = [program(), "report", "-i", str(self._data), "-N", "-t"]
        with open(self._said, "wb") as said:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, encoding="utf-8", errors="replace"
            )
        try:
            assert process.stdout is not None
            yield from reader.read(process.stdout)
        except BaseException:
            process.kill()
            raise
        finally:
            process.communicate()
        if process.returncode != 0:
            raise self._failure(f"{TRACE_CMD} report has failed")

    def overruns(self) -> int:
        """Get the number of events that did not fit into the kernel's buffers."""
        words = [program(), "report", "-i", str(self._data), "--stat"]
        done = subprocess.run(words, check=False, capture_output=True, encoding="utf-8", errors="replace")
        return sum(int(found[1]) for found in _OVERRUN.finditer(done.stdout))

    def _last_words(self) -> str:
        text = self._said.read_text(encoding="utf-8", errors="replace").strip() if self._said.exists() else ""
        return text.splitlines()[-1].strip() if text else "it did not say why"

    def _clear(self) -> None:
        """End trace-cmd, and remove the instance."""
        running = self._process is not None and self._process.poll() is None
        if running or self._files.exists(self._instance):
            # The recorders are children of trace-cmd, and may outlive it.
            leftovers.remove_instance(self._files, self._place, self._name)
        if self._process is not None:
            self._process.wait()
        if self._keeper is not None:
            self._keeper.close()

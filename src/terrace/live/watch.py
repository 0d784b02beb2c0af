# SPDX-License-Identifier: GPL-2.0
"""The thread that reads the machine's state while the live view handles keys.

Reading processes walks page tables, which may take seconds if there are many. The thread holds its
lock only to take a request and to return a result, so keys and the screen never wait for it. A read
without a request ends at the next process.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from terrace.ops import report, snapshot
from terrace.ops.devices import Devices
from terrace.ops.look import Look, Want, Watcher
from terrace.ops.report import Report
from terrace.sysfs import KernelFiles

#: Rates over a shorter time mean little; faster refreshes show the last ones.
_RATES_S = 0.5
#: Seconds until the devices of nodes are read again: that is slow, and they seldom change.
_DEVICES_S = 60.0

Seen = tuple[Look, Report]


class Lookout:
    """Reads the state below ``root`` for each request; a new request replaces the one before."""

    def __init__(self, root: Path | str) -> None:
        self._root = root
        self._watcher = Watcher(root)
        self._report: Report | None = None
        self._devices_until_s = 0.0
        self._changed = threading.Condition()
        self._order: Want | None = None
        #: Number of requests: a result for an earlier one is not shown.
        self._number = 0
        self._seen: Seen | None = None
        self._error: Exception | None = None
        # A process that holds its mmap_lock blocks the thread, which must not block the exit of the
        # program.
        self._thread = threading.Thread(target=self._run, name="look", daemon=True)
        self._thread.start()

    def ask(self, want: Want | None) -> None:
        """Request a read, and cancel the one in progress; None: cancel only."""
        with self._changed:
            self._order, self._number, self._seen = want, self._number + 1, None
            self._changed.notify()

    def seen(self) -> Seen | None:
        """Get a new result, once; None while the read is in progress. Raises the exception of a failed read."""
        with self._changed:
            if self._error:
                raise self._error
            seen, self._seen = self._seen, None
            return seen

    def wait(self, seconds: float) -> bool:
        """Wait for a result; false after a timeout. For tests."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._seen or self._error), seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._order is None:
                    self._changed.wait()
                want, number, self._order = self._order, self._number, None
            try:
                seen = self._look(want, number)
            except Exception as error:  # Raised in the main thread, which can report it.
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            with self._changed:
                if number == self._number:
                    self._seen = seen
                    self._changed.notify_all()

    def _look(self, want: Want, number: int) -> Seen:
        look = self._watcher.take(want, lambda: number == self._number)
        before = self._report.now if self._report else None
        files = KernelFiles(self._root)
        now = snapshot.take(files, self._known_devices())
        if self._report is None or before is None or now.monotonic_s - before.monotonic_s >= _RATES_S:
            self._report = report.make(now, before, files.unreadable)
        return look, self._report

    def _known_devices(self) -> Devices | None:
        """Get the devices of the last report, read again once a minute; None: read them now."""
        now = time.monotonic()
        if self._report is not None and now < self._devices_until_s:
            return self._report.now.devices
        self._devices_until_s = now + _DEVICES_S
        return None

# SPDX-License-Identifier: GPL-2.0
"""The thread that looks at the machine while the live view takes keys.

A look at processes walks page tables, which may take seconds where there are many. The thread holds its lock only to
take an order and to hand over a result, so that neither keys nor the screen ever wait for a look. A look that nobody
wants any more ends at the next process.
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

#: Rates over less than this say little; looks that follow each other faster show the last ones.
_RATES_S = 0.5
#: Seconds until the devices behind nodes are read again: that takes long, and they seldom change.
_DEVICES_S = 60.0

Seen = tuple[Look, Report]


class Lookout:
    """Looks below ``root``, one for each order; a new order takes the place of the one before."""

    def __init__(self, root: Path | str) -> None:
        self._root = root
        self._watcher = Watcher(root)
        self._report: Report | None = None
        self._devices_until_s = 0.0
        self._changed = threading.Condition()
        self._order: Want | None = None
        #: Counts orders: what was seen for an earlier one is not shown.
        self._number = 0
        self._seen: Seen | None = None
        self._error: Exception | None = None
        # A process that does not give its mmap_lock away keeps the thread, and must not keep the program.
        self._thread = threading.Thread(target=self._run, name="look", daemon=True)
        self._thread.start()

    def ask(self, want: Want | None) -> None:
        """Look for this, and leave off whatever is looked for now; None: for nothing any more."""
        with self._changed:
            self._order, self._number, self._seen = want, self._number + 1, None
            self._changed.notify()

    def seen(self) -> Seen | None:
        """What was seen, once; None as long as the look goes on. Raises what made the look fail."""
        with self._changed:
            if self._error:
                raise self._error
            seen, self._seen = self._seen, None
            return seen

    def wait(self, seconds: float) -> bool:
        """Wait until something was seen; false when that takes longer. For tests."""
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
            except Exception as error:  # It is raised where somebody can tell of it.
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
        """The devices of the last report, read again once a minute; None: read them now."""
        now = time.monotonic()
        if self._report is not None and now < self._devices_until_s:
            return self._report.now.devices
        self._devices_until_s = now + _DEVICES_S
        return None

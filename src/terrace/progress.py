# SPDX-License-Identifier: GPL-2.0
"""Progress of long work, on stderr."""

import os
import sys
import time
from collections import deque
from collections.abc import MutableSequence
from types import TracebackType
from typing import Self, TextIO

from terrace.output import format_duration

_TTY_INTERVAL_S = 0.1
#: Lines where there is no terminal: one for each part of known work, one for each interval of other work.
_PLAIN_PARTS = 10
_PLAIN_INTERVAL_S = 60.0
#: The first estimate comes after this part of the work and this time: a build begins with its fastest steps.
_LEAST_DONE = 0.05
_LEAST_S = 5.0
#: The speed is that of the last part of this size.
_PART = 0.15
#: In ten seconds or more an estimate changes by at most this factor, against the countdown of the last one.
_MAX_CHANGE = 1.6
_CHANGE_S = 10.0


class Estimate:
    """The time left of work whose amount is known, from the speed of its last part.

    The speed of work changes, and the estimate follows in steps: from one to the next it never changes by a factor of
    two, apart from the time that has passed.
    """

    def __init__(self, total: float, last: MutableSequence[float] | None = None) -> None:
        """`last`: two numbers, the last estimate and its time, both 0 at first; processes may share them."""
        self.total = total
        self._last: MutableSequence[float] = [0.0, 0.0] if last is None else last
        #: Work done and time spent, the oldest first: the last part and one point before it.
        self._points = deque([(0.0, 0.0)])

    def left(self, done: float, spent: float) -> float | None:
        """Estimate the seconds left when `done` took `spent` seconds; None: too early, or all is done."""
        while len(self._points) > 1 and self._points[1][0] <= done - _PART * self.total:
            self._points.popleft()
        since, began = self._points[0]
        if done > self._points[-1][0]:
            self._points.append((done, spent))
        if done <= since or done >= self.total or done < _LEAST_DONE * self.total or spent < _LEAST_S:
            return None
        left = (spent - began) * (self.total - done) / (done - since)
        last, at = self._last
        if at:
            passed = spent - at
            # Late work has no time left by the last estimate: half of that estimate is the least.
            countdown = max(last - passed, last / 2)
            change = _MAX_CHANGE ** min(1.0, passed / _CHANGE_S)
            left = min(max(left, countdown / change), countdown * change)
        self._last[:] = (left, spent)
        return left

    def text(self, done: float, spent: float) -> str:
        """Describe the time left for the end of a line: `, about 2 min left`, or nothing without an estimate."""
        left = self.left(done, spent)
        return "" if left is None else f", about {format_duration(left)} left"


class Progress:
    """Progress on stderr: a bar with the time left on a terminal; elsewhere a plain line for each tenth of the work.

    Use as a context manager; `total` None means that the amount of work is not known: without an estimate, and a line
    a minute.
    """

    def __init__(self, label: str, total: float | None = None, stream: TextIO | None = None) -> None:
        self.label = label
        self.total = total
        self.done = 0.0
        self._stream = stream or sys.stderr
        self._tty = self._stream.isatty()
        self._start = time.monotonic()
        self._shown = self._start
        self._part = 0
        self._estimate = Estimate(total) if total else None

    def __enter__(self) -> Self:
        self._start = self._shown = time.monotonic()
        if self._tty:
            self._draw(self._start, "")
        else:
            self._print(f"{self.label} …")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tty:
            self._stream.write("\r\033[K")
        took = format_duration(time.monotonic() - self._start)
        self._print(f"{self.label}: {'done' if kind is None else 'failed'} after {took}")

    def step(self, amount: float = 1.0, note: str = "") -> None:
        """Add `amount` to the work that is done; `note` names the current step."""
        self.update(self.done + amount, note)

    def update(self, done: float, note: str = "") -> None:
        """Set the amount of work that is done in all."""
        self.done = done
        now = time.monotonic()
        if not self._is_due(now):
            return
        self._shown = now
        if self._tty:
            self._draw(now, note)
        else:
            self._print(f"{self.label}: {self._amount()}{self._left(now)}")

    def _is_due(self, now: float) -> bool:
        if self._tty:
            return now - self._shown >= _TTY_INTERVAL_S
        if not self.total:
            return now - self._shown >= _PLAIN_INTERVAL_S
        part = int(_PLAIN_PARTS * self.done / self.total)
        if part <= self._part or part >= _PLAIN_PARTS:
            return False
        self._part = part
        return True

    def _amount(self) -> str:
        if not self.total:
            return f"{self.done:g}"
        return f"{min(99, int(100 * self.done / self.total))} %"

    def _left(self, now: float) -> str:
        if not self.total or not self._estimate:
            return ""
        if self.done >= self.total:
            return ", the last steps"
        return self._estimate.text(self.done, now - self._start)

    def _draw(self, now: float, note: str) -> None:
        width = os.get_terminal_size(self._stream.fileno()).columns if self._stream.isatty() else 80
        bar = ""
        if self.total:
            full = int(20 * min(1.0, self.done / self.total))
            bar = f" [{'#' * full}{'.' * (20 - full)}]"
        text = f"{self.label}{bar} {self._amount()}{self._left(now)}  {note}"
        self._stream.write("\r\033[K" + text[: max(10, width - 1)])
        self._stream.flush()

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

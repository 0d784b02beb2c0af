# SPDX-License-Identifier: GPL-2.0
"""What people and programs read: results on stdout (tables, JSON), everything about the work itself on stderr."""

import json
import os
import re
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TextIO

from terrace import cells

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
#: Those that JSON leaves as they are: DEL, and what starts an escape sequence in one character.
_CONTROLS = re.compile("[\x7f-\x9f]")
_PLAIN_INTERVAL_S = 10.0
_TTY_INTERVAL_S = 0.1


def colour_wanted(stream: TextIO) -> bool:
    """True when `stream` is a terminal and the user did not set NO_COLOR."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def style(text: str, name: str, stream: TextIO | None = None) -> str:
    """`text` in a colour or weight (bold dim red green yellow blue) where `stream` (default stdout) shows it."""
    if not colour_wanted(stream or sys.stdout):
        return text
    return f"\033[{_CODES[name]}m{text}\033[0m"


def say(text: str) -> None:
    """A line about the work in progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """A line about something that is not as it should be, on stderr."""
    say(f"{style('terrace: warning:', 'yellow', sys.stderr)} {text}")


def emit_json(obj: Any) -> None:
    """Print `obj` as indented JSON on stdout. Keys keep their order; no character is a terminal's control."""
    text = json.dumps(obj, indent=2, ensure_ascii=False)
    print(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def format_table(rows: Sequence[Sequence[object]], headers: Sequence[str] = ()) -> str:
    """Rows as aligned columns, numbers to the right; rows may be shorter than the header. No trailing newline."""
    lines = [[str(cell) for cell in row] for row in rows]
    every = ([list(headers)] if headers else []) + lines
    if not every:
        return ""
    count = max(len(row) for row in every)
    widths = [max((cells.width(row[i]) for row in every if i < len(row)), default=0) for i in range(count)]
    right = [
        bool(rows)
        and all(isinstance(row[i], int | float) and not isinstance(row[i], bool) for row in rows if i < len(row))
        for i in range(count)
    ]

    def line(row: Sequence[str]) -> str:
        padded = (
            cells.right(cell, widths[i]) if right[i] else cells.left(cell, widths[i]) for i, cell in enumerate(row)
        )
        return "  ".join(padded).rstrip()

    return "\n".join(line(row) for row in every)


def table(rows: Sequence[Sequence[object]], headers: Sequence[str] = ()) -> None:
    """Print rows as `format_table` makes them on stdout; the header is bold on a terminal."""
    text = format_table(rows, headers)
    if headers and text:
        head, _, rest = text.partition("\n")
        text = style(head, "bold") + (f"\n{rest}" if rest else "")
    if text:
        print(text)


def format_duration(seconds: float) -> str:
    """Seconds as a person says it: 0.8 s, 12 s, 5 min 30 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Progress:
    """Progress of long work, on stderr: a bar with the time left on a terminal, a plain line every 10 s elsewhere.

    Use as a context manager; `total` None means that the amount of work is not known (no estimate is shown).
    """

    def __init__(self, label: str, total: float | None = None, stream: TextIO | None = None) -> None:
        self.label = label
        self.total = total
        self.done = 0.0
        self._stream = stream or sys.stderr
        self._tty = self._stream.isatty()
        self._start = time.monotonic()
        self._shown = self._start

    def __enter__(self) -> Self:
        self._start = self._shown = time.monotonic()
        if self._tty:
            self._draw("")
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
        """`amount` more of the work is done; `note` says what is at hand."""
        self.update(self.done + amount, note)

    def update(self, done: float, note: str = "") -> None:
        """So much of the work is done in all."""
        self.done = done
        now = time.monotonic()
        if now - self._shown < (_TTY_INTERVAL_S if self._tty else _PLAIN_INTERVAL_S):
            return
        self._shown = now
        if self._tty:
            self._draw(note)
        else:
            self._print(f"{self.label}: {self._amount()}{self._left()}")

    def _amount(self) -> str:
        if not self.total:
            return f"{self.done:g}"
        return f"{min(99, int(100 * self.done / self.total))} %"

    def _left(self) -> str:
        spent = time.monotonic() - self._start
        if not self.total or self.done <= 0 or spent < 2:
            return ""
        if self.done >= self.total:
            return ", the last steps"
        left = spent * (self.total - self.done) / self.done
        return f", about {format_duration(left)} left"

    def _draw(self, note: str) -> None:
        width = os.get_terminal_size(self._stream.fileno()).columns if self._stream.isatty() else 80
        bar = ""
        if self.total:
            full = int(20 * min(1.0, self.done / self.total))
            bar = f" [{'#' * full}{'.' * (20 - full)}]"
        text = f"{self.label}{bar} {self._amount()}{self._left()}  {note}"
        self._stream.write("\r\033[K" + text[: max(10, width - 1)])
        self._stream.flush()

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

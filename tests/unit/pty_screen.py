# SPDX-License-Identifier: GPL-2.0
"""A program on a terminal of its own, and what is on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

from emulator import Emulator, Screen
from fixed_environment import DEFAULT_SIGNALS

#: Long enough for a host that does much else; what is waited for comes in a fraction of a second.
DEADLINE_S = 60.0
KEYS = {"up": "\033OA", "down": "\033OB", "pgdn": "\033[6~", "home": "\033OH", "end": "\033OF", "f1": "\033OP"}
KEYS |= {"f4": "\033OS", "f5": "\033[15~", "f6": "\033[17~", "f10": "\033[21~", "enter": "\r", "esc": "\033"}


class Terminal:
    """`command` on a terminal of `columns` by `lines`; all waiting is for what is on it.

    The command gets a fixed environment and the signals of a login shell: nothing of those of the tests' own caller.
    """

    def __init__(self, command: list[str], columns: int = 100, lines: int = 30, **env: str) -> None:
        self.emulator = Emulator(columns, lines)
        #: All that was sent to the terminal.
        self.sent = b""
        self.status: int | None = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                _resize(0, columns, lines)
                for number in DEFAULT_SIGNALS | {signal.SIGINT}:
                    signal.signal(number, signal.SIG_DFL)
                os.umask(0o022)
                whole = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]} | env
                os.execve(command[0], command, whole)
            finally:
                os._exit(127)

    @property
    def screen(self) -> Screen:
        return self.emulator.screen

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        _resize(self.fd, columns, lines)

    def press(self, *keys: str) -> None:
        for key in keys:
            os.write(self.fd, KEYS.get(key, key).encode())

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def line(self, word: str) -> str:
        """The first line that has it."""
        return next(line for line in self.screen.display if word in line)

    def wait(self, *words: str) -> str:
        """The screen once it shows all of these."""
        return self.until(lambda: all(word in self.text for word in words), f"{words}")

    def until(self, done: Callable[[], bool], what: str) -> str:
        end = time.monotonic() + DEADLINE_S
        while not done():
            assert time.monotonic() < end, f"not seen: {what}; the screen is\n{self.text}"
            assert self._read(1.0) or done(), f"ended before {what}; the screen is\n{self.text}"
        return self.text

    def _read(self, seconds: float) -> bool:
        """Take what was sent; false when there is nobody left who could send."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.sent += data
        self.emulator.feed(data)
        return bool(data)

    def end(self) -> int:
        """Read to the end, and its exit code; minus the signal that ended it."""
        while self._read(DEADLINE_S):
            pass
        self.emulator.end()
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def close(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def _resize(fd: int, columns: int, lines: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def terrace(*words: str) -> list[str]:
    """The command line of a verb, with this Python and without its packages (-S), as on a bare server."""
    source = Path(__file__).parents[2] / "src"
    start = f"import sys; sys.path.insert(0, {str(source)!r}); from terrace.__main__ import main; sys.exit(main())"
    return [sys.executable, "-S", "-c", start, *words]

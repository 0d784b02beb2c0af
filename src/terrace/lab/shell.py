# SPDX-License-Identifier: GPL-2.0
"""A terminal session in the guest: the host's terminal in raw mode, a pseudo terminal in the guest."""

import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager


def terminal_size() -> str | None:
    """Get ROWSxCOLUMNS of this terminal; None if there is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    size = os.get_terminal_size(sys.stdout.fileno())
    return f"{size.lines}x{size.columns}"


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Pass every key through, including Ctrl-C; the terminal is restored in any case."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def shell_command() -> list[str]:
    """Get the user's own shell, if the guest can start it."""
    shell = os.environ.get("SHELL", "")
    return [shell if os.access(shell, os.X_OK) else "/bin/bash"]

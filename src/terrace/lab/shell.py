# SPDX-License-Identifier: GPL-2.0
"""A terminal session in the guest: the host's terminal in raw mode, a pseudo terminal on the other side."""

import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager


def terminal_size() -> str | None:
    """ROWSxCOLUMNS of the terminal we talk to; None when there is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    size = os.get_terminal_size(sys.stdout.fileno())
    return f"{size.lines}x{size.columns}"


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Pass every key through, Ctrl-C too; the terminal is as it was afterwards, whatever happens."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def shell_command() -> list[str]:
    """The user's own shell, where it is one that the guest can start."""
    shell = os.environ.get("SHELL", "")
    return [shell if os.access(shell, os.X_OK) else "/bin/bash"]

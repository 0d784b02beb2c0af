# SPDX-License-Identifier: GPL-2.0
"""`terrace lab shell` as a person meets it: through a terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from pathlib import Path

import pytest

from terrace.paths import repo_root


class Session:
    """A program on the other side of a pseudo terminal."""

    def __init__(self, *argv: str) -> None:
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["SHELL"] = "/bin/bash"
            os.execv(argv[0], argv)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait_for(self, words: str, seconds: float = 240) -> None:
        end = time.monotonic() + seconds
        while words.encode() not in self.seen:
            if select.select([self.fd], [], [], 0.5)[0]:
                self.seen += os.read(self.fd, 4096)
            assert time.monotonic() < end, f"no '{words}' in {self.seen!r}"

    def exit_code(self) -> int:
        try:
            while data := os.read(self.fd, 4096):
                self.seen += data
        except OSError:
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_terminal_size_ctrl_c_and_exit_code(vmlinux: Path) -> None:
    if not Path("/bin/bash").exists():
        pytest.skip("no bash")
    session = Session(str(repo_root() / "terrace"), "lab", "shell", "--vmlinux", str(vmlinux))
    session.wait_for("# ")
    session.resize(41, 117)
    session.type("sleep 1; stty size; echo sum $((40+2)); touch /etc/terrace-was-here && echo wrote\n")
    session.wait_for("41 117\r")
    session.wait_for("sum 42\r")
    session.wait_for("wrote\r")
    session.type("sleep 1000\n")
    time.sleep(1)
    session.type("\x03")
    session.wait_for("^C")
    session.type("exit 5\n")
    assert session.exit_code() == 5
    assert not Path("/etc/terrace-was-here").exists()

# SPDX-License-Identifier: GPL-2.0
"""terrace top on a terminal: what a person sees, key by key, and in which state the terminal is left."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pty_screen import Terminal, terrace
from test_ops_top import machine

# Terminals, sockets, signals: one at a time, after the tests that share the CPUs.
pytestmark = pytest.mark.clock

Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `terrace top` with these words on a fake machine."""
    machine(tmp_path)
    started: list[Terminal] = []

    def begin(
        *words: str, command: list[str] | None = None, columns: int = 100, lines: int = 30, **env: str
    ) -> Terminal:
        command = command or terrace("top", "--root", str(tmp_path), "--interval", "0.2", *words)
        started.append(Terminal(command, columns, lines, **env))
        return started[-1]

    yield begin
    for terminal in started:
        terminal.close()


def names(terminal: Terminal) -> list[str]:
    """The last column of the table."""
    lines = [line.rstrip() for line in terminal.screen.display]
    head = next(index for index, line in enumerate(lines) if re.search("(CGROUP|PROCESS)( [v^])?$", line))
    below = lines[head + 1 : -1]
    return [line.split()[-1] for line in below if line and "may not be read" not in line]


def test_from_the_first_look_to_the_end(start: Start) -> None:
    terminal = start()
    terminal.wait("Node 0 top", "Node 1 slow", "Promotion engine: on, looking", "batch", "F10Quit")
    whole = ["batch", "system.slice", "system.slice/db.service", "idle"]
    terminal.until(lambda: names(terminal) == whole, "all lines")
    # Rates come with the second look.
    terminal.until(lambda: terminal.line("system.slice").split()[-3:-1] == ["0B", "0B"], "rates")
    terminal.press("p")
    terminal.until(lambda: "PID" in terminal.text and names(terminal) == ["postgres", "sh"], "processes")
    terminal.press("I")
    terminal.until(lambda: names(terminal) == ["sh", "postgres"], "the other way round")
    terminal.press("q")
    assert terminal.end() == 0


def test_keys_with_a_name(start: Start) -> None:
    terminal = start()
    terminal.wait("batch", "F10Quit")
    terminal.press("f5")
    terminal.wait("F5List", "  db.service")
    terminal.press("f1")
    terminal.wait("invert the order", "Press any key to return")
    terminal.press("x", "f6")
    terminal.wait("Sort by")
    terminal.press("up", "up", "enter", "f5")
    terminal.until(lambda: "TOTAL v" in terminal.text and names(terminal)[0] == "system.slice", "the largest first")
    terminal.press("f4", "d", "b")
    terminal.wait("Filter: db")
    terminal.until(lambda: names(terminal) == ["system.slice/db.service"], "one line")
    terminal.press("esc")
    terminal.until(lambda: len(names(terminal)) == 4, "all lines")
    terminal.press("f10")
    assert terminal.end() == 0


def test_a_new_size_down_to_nothing_much(start: Start) -> None:
    terminal = start()
    terminal.wait("batch", "F10Quit")
    terminal.resize(20, 5)
    terminal.wait("hHelp qQuit", "batch")
    terminal.resize(3, 2)
    terminal.until(lambda: "bat" in terminal.text, "some of a name")
    terminal.resize(120, 40)
    terminal.wait("F10Quit", "system.slice/db.service")
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.parametrize("kind", ["xterm-256color", "vt100", "linux", "screen"])
def test_names_that_are_escape_sequences_and_no_colours(kind: str, start: Start, tmp_path: Path) -> None:
    (tmp_path / "proc/300/comm").write_bytes(b"\033[31mEVIL\xc2\x9b2J\n")
    terminal = start("--by", "process", TERM=kind, NO_COLOR="1")
    terminal.wait("?[31mEVIL?2J", "sh")
    terminal.press("q")
    assert terminal.end() == 0
    assert b"\033[31m" not in terminal.sent and b"\x9b" not in terminal.sent
    assert not re.search(rb"\033\[([0-9;]*;)?[34][0-7](;[0-9;]*)?m", terminal.sent)


def test_colours_unless_they_are_not_wanted(start: Start) -> None:
    terminal = start()
    terminal.wait("batch")
    row = next(y for y, line in enumerate(terminal.screen.display) if "CGROUP" in line)
    assert terminal.screen.buffer[row][99].bg == "green"


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": "no-such-terminal"}])
def test_a_terminal_that_has_no_screen_gets_the_table(env: dict[str, str], start: Start) -> None:
    terminal = start(**env)
    terminal.wait("CGROUP", "FAST: share on nodes 0 (top tier)")
    assert "F10" not in terminal.text
    terminal.press("\x03")
    assert terminal.end() == 0


def test_an_answer_in_a_file_has_the_table_beside_it(start: Start, tmp_path: Path) -> None:
    terminal = start("-o", str(tmp_path / "answer"), "--count", "1")
    terminal.wait("FAST: share on nodes 0 (top tier)")
    assert (terminal.end(), (tmp_path / "answer").read_text()[:14]) == (0, '{"version": 2,')


class Shell:
    """A shell with job control, in which `terrace top` is a job."""

    def __init__(self, start: Start, root: Path, job: str = "{}") -> None:
        self.runs = 0
        self.terminal = start(command=["/bin/sh", "-i"], PS1="READY> ", ENV="")
        self.terminal.wait("READY>")
        self.run(f"stty -g > {root}/before")
        words = shlex.join(terrace("top", "--root", str(root), "--interval", "0.2"))
        self.terminal.press(f"{job.format(words)}; echo code $?\r")
        self.terminal.wait("F10Quit", "batch")
        assert "stty" not in self.terminal.text

    def run(self, line: str) -> None:
        # The typed line is on the screen as well, and does not have the word.
        self.runs += 1
        self.terminal.press(f"{line}; echo run''-{self.runs}\r")
        self.terminal.until(lambda: f"run-{self.runs}".encode() in self.terminal.sent, line)

    def check(self, tmp_path: Path) -> None:
        """The settings are those from before, and what was on the screen is back."""
        self.run(f"stty -g > {tmp_path}/after")
        assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()
        assert b"\033[?1049l" in self.terminal.sent
        assert self.terminal.sent.rindex(b"\033[?1049l") > self.terminal.sent.rindex(b"\033[?1049h")
        assert f"stty -g > {tmp_path}/before"[:30] in self.terminal.text and "F10Quit" not in self.terminal.text

    def go_on_and_quit(self, tmp_path: Path, done: Callable[[], bool] | None = None) -> None:
        """`fg` after Ctrl-Z and one check; quit once `done` finds the whole picture on the screen."""
        terminal = self.terminal
        terminal.press("fg\r")
        terminal.until(done or (lambda: terminal.sent.count(b"\033[?1049h") == 2), "the screen again")
        terminal.press("q")
        terminal.until(lambda: terminal.sent.count(b"READY>") == 5, "a prompt")
        self.check(tmp_path)


@pytest.mark.parametrize("how", ["q", "ctrl-c", "SIGTERM", "SIGHUP", "stop"])
def test_the_terminal_is_left_as_it_was(how: str, start: Start, tmp_path: Path) -> None:
    shell = Shell(start, tmp_path)
    terminal, code = shell.terminal, 0
    if how in ("q", "ctrl-c"):
        terminal.press("\x03" if how == "ctrl-c" else how)
    elif how == "stop":
        terminal.press("\x1a")
        terminal.wait("Stopped", "READY>")
        shell.check(tmp_path)
        shell.go_on_and_quit(tmp_path)
        return
    else:
        number = getattr(signal, how)
        os.killpg(os.tcgetpgrp(terminal.fd), number)
        code = 128 + number
    terminal.wait(f"code {code}")
    shell.check(tmp_path)


def waits_at(process: int) -> str:
    """The arguments of the system call in which it waits; skips the test on a host that hides them."""
    try:
        return Path(f"/proc/{process}/syscall").read_text().partition(" ")[2]
    except PermissionError as error:
        pytest.skip(f"what a process waits for is not shown here: {error}")


@pytest.mark.skipif(not Path("/proc/self/syscall").exists(), reason="a kernel that does not show system calls")
def test_stops_even_as_it_draws(start: Start, tmp_path: Path) -> None:
    """The library by itself ignores Ctrl-Z while it sends a picture to the terminal."""
    shell = Shell(start, tmp_path)
    terminal = shell.terminal
    job = os.tcgetpgrp(terminal.fd)
    # Ctrl-S: the terminal takes no more, and what is drawn waits in write() to it.
    terminal.press("\x13", "p")
    terminal.until(lambda: waits_at(job).startswith("0x1 "), "a picture on its way")
    terminal.press("\x1a")
    terminal.wait("Stopped", "READY>")
    shell.check(tmp_path)
    shell.go_on_and_quit(tmp_path, lambda: "PID" in terminal.text and names(terminal) == ["postgres", "sh"])


def test_stops_after_its_parent(start: Start, tmp_path: Path) -> None:
    """A script stops at once; the shell may have the terminal again before the screen is put back."""
    shell = Shell(start, tmp_path, f"""(sh -c 'echo $$ > {tmp_path}/pid; exec "$@"' sh {{}}; :)""")
    terminal = shell.terminal
    state = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    terminal.press("\x1a")
    terminal.until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "it has stopped, too")
    terminal.until(lambda: terminal.sent.count(b"READY>") == 3, "a prompt")
    shell.check(tmp_path)
    shell.go_on_and_quit(tmp_path)


def test_a_new_size_while_it_is_stopped(start: Start, tmp_path: Path) -> None:
    shell = Shell(start, tmp_path)
    terminal = shell.terminal
    terminal.press("\x1a")
    terminal.wait("Stopped", "READY>")
    shell.check(tmp_path)
    terminal.resize(60, 12)
    shell.go_on_and_quit(tmp_path, lambda: terminal.screen.display[-1].startswith("F1Help"))


def test_does_not_stop_where_nobody_could_continue_it(start: Start, tmp_path: Path) -> None:
    """As a program that was started with the signal ignored."""
    words = shlex.join(terrace("top", "--root", str(tmp_path), "--interval", "0.2"))
    terminal = start(command=["/bin/sh", "-c", f"trap '' TSTP; exec {words}"])
    terminal.wait("F10Quit", "batch")
    terminal.press("\x1a", "p")
    terminal.wait("PROCESS", "postgres")
    terminal.press("q")
    assert terminal.end() == 0

# SPDX-License-Identifier: GPL-2.0
"""The unit group passes wherever it is started: each row is an environment in which it once failed, or could.

It is run as the gate runs it, by `./terrace test`, and nothing that fails there is tried again.
"""

import contextlib
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from terrace.kernel import source
from terrace.paths import repo_root
from terrace.testing.soak import BUSY_LOOPS, busy_loops

WORDS = ["./terrace", "--yes", "test", "--group", "unit", "--strict"]
#: The variables of a service of systemd, which has no HOME, no terminal, and SIGPIPE ignored (systemd.exec(5)).
_SERVICE = {"LANG": "C.UTF-8", "INVOCATION_ID": "0" * 32, "SYSTEMD_EXEC_PID": "1", "JOURNAL_STREAM": "8:1"}
_KEPT = ("PATH", "TERRACE_CACHE", "TERRACE_LINUX")


def _run(words: Sequence[str], env: dict[str, str] | None = None, **more: object) -> str:
    """Run the unit group; return all that it printed."""
    env = dict(os.environ) if env is None else env
    done = subprocess.run(
        words, cwd=repo_root(), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **more
    )  # type: ignore[call-overload]
    return str(done.stdout.decode(errors="replace")) + f"\nexit {done.returncode}\n"


def _nohup() -> str:
    return _run(["nohup", *WORDS], stdin=subprocess.DEVNULL)


def _stdin_closed() -> str:
    return _run(["sh", "-c", 'exec "$@" <&-', "sh", *WORDS])


def _no_term() -> str:
    return _run(["env", "--unset=TERM", *WORDS])


def _narrow_terminal() -> str:
    """On a terminal of 20 columns and COLUMNS with the same number."""
    pid, fd = pty.fork()
    if pid == 0:
        try:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 20, 0, 0))
            os.chdir(repo_root())
            os.execvpe(WORDS[0], WORDS, {**os.environ, "TERM": "xterm-256color", "COLUMNS": "20", "LINES": "5"})
        finally:
            os._exit(127)
    parts = []
    # The end of a terminal whose program has gone is EIO.
    with contextlib.suppress(OSError):
        while part := os.read(fd, 65536):
            parts.append(part)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    # A terminal of 20 columns gets lines that are cut by carriage returns.
    return b"".join(parts).decode(errors="replace").replace("\r", "") + f"\nexit {code}\n"


def _service() -> str:
    """As a service of systemd; by systemd itself where it runs."""
    if Path("/run/systemd/system").is_dir() and os.geteuid() == 0:
        kept = [f"--setenv={name}={os.environ[name]}" for name in _KEPT if name in os.environ]
        words = ["systemd-run", "--wait", "--pipe", "--quiet", f"--working-directory={repo_root()}", *kept, *WORDS]
        return _run(words, stdin=subprocess.DEVNULL)
    env = {name: os.environ[name] for name in _KEPT if name in os.environ} | _SERVICE
    # Without HOME the cache needs a folder.
    env.setdefault("TERRACE_CACHE", str(Path.home() / ".cache/terrace"))
    return _run(
        ["setsid", "--wait", "sh", "-c", "trap '' PIPE; exec \"$@\"", "sh", *WORDS], env, stdin=subprocess.DEVNULL
    )


def _busy() -> str:
    with busy_loops(BUSY_LOOPS):
        return _run(WORDS)


def _one_cpu() -> str:
    cpu = str(min(os.sched_getaffinity(0)))
    return _run(["taskset", "--cpu-list", cpu, *WORDS])


def _named_source() -> str:
    """With a Linux source that the user names, as `--linux` does for the processes of a command."""
    return _run(["env", f"{source.VARIABLE}={source.find().path}", *WORDS])


ENVIRONMENTS: dict[str, Callable[[], str]] = {
    "nohup": _nohup,
    "stdin closed": _stdin_closed,
    "TERM unset": _no_term,
    "20 columns": _narrow_terminal,
    "service of systemd": _service,
    "busy host": _busy,
    "one CPU": _one_cpu,
    "named source": _named_source,
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_unit_group_passes(name: str) -> None:
    assert shutil.which("taskset") and shutil.which("setsid"), "util-linux is missing"
    said = ENVIRONMENTS[name]()
    passed = re.search(r"^(\d+) passed, 0 failed, \d+ skipped$", said, re.MULTILINE)
    assert passed and said.endswith("\nexit 0\n"), said[-4000:]
    # All of them ran: the group has more than 2,000 tests.
    assert int(passed[1]) > 2000, said[-4000:]

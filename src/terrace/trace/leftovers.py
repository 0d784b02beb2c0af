# SPDX-License-Identifier: GPL-2.0
"""Clean up after a recording process that was killed: processes of trace-cmd, a trace instance, a folder.

A keeper process waits for the end of the recording process and then removes all three. If the keeper was killed too,
the next recording removes them. The name of an instance holds process ID, start time and PID namespace of its owner,
and the owner of a folder holds a lock in it: so nothing of a living recording is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from terrace.sysfs import KernelFiles

_INSTANCE = re.compile(r"terrace-(\d{1,10})-(\d{1,20})-(\d{1,20})")
_FOLDER_MARK = ".terrace-record-"
_LOCK = "lock"
_POLL_S = 0.02
#: Number of attempts: killed processes hold the buffers of an instance for a moment.
_TRIES = 100
#: The keeper's program. Arguments: the folder of the package, then those of `keep`.
_KEEPER = """\
import sys
sys.path.insert(0, sys.argv[1])
from terrace.trace.leftovers import keep
keep(sys.argv[2:])"""


def instance_name() -> str:
    """Name of the trace instance of this process. No other process has it, not even one of the same number later."""
    return f"terrace-{os.getpid()}-{_start_time(os.getpid())}-{_pid_namespace()}"


def _start_time(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; None where there is no such process, or only a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name before the last bracket may have blanks and brackets.
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


def _pid_namespace() -> int:
    """The PID namespace of this process; 0 on a kernel without namespaces, which has one."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except FileNotFoundError:
        return 0


def _is_dead(name: str) -> bool:
    """Whether the owner of an instance has ended. False if its owner is in another PID namespace."""
    found = _INSTANCE.fullmatch(name)
    return found is not None and int(found[3]) == _pid_namespace() and _start_time(int(found[1])) != found[2]


def clean(files: KernelFiles, place: str, folder: Path) -> list[str]:
    """Remove instances in tracefs and folders in `folder` whose recording is dead; returns the names of both."""
    removed = []
    for name in filter(_is_dead, files.names(f"{place}/instances")):
        if remove_instance(files, place, name):
            removed.append(f"trace instance {name}")
    for path in sorted(folder.glob(f".*{_FOLDER_MARK}*")):
        if _is_dead_folder(path):
            shutil.rmtree(path, ignore_errors=True)
            removed.append(f"folder {path}")
    return removed


def remove_instance(files: KernelFiles, place: str, name: str) -> bool:
    """End the processes that record into an instance, and remove it; False where it could not be removed."""
    _kill_recorders(name)
    path = f"{place}/instances/{name}"
    if not files.exists(path):
        return True
    with contextlib.suppress(Exception):
        files.write(f"{path}/events/enable", "0")
    for _ in range(_TRIES):
        try:
            files.real_path(path).rmdir()
            return True
        except FileNotFoundError:
            return True
        except OSError:
            time.sleep(_POLL_S)
    return False


def _kill_recorders(name: str) -> None:
    """Kill trace-cmd and its recorders. Repeat until there are none: trace-cmd may start one at any moment."""
    for _ in range(_TRIES):
        found = False
        for pidfd in _recorders(name):
            found = True
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        if not found:
            return
        time.sleep(_POLL_S)


def _recorders(name: str) -> Iterator[int]:
    """A pidfd of each process that has the instance on its command line. A pidfd, unlike a number, is not reused."""
    mark = b"\0-B\0" + name.encode() + b"\0"
    for entry in filter(str.isdecimal, (path.name for path in Path("/proc").iterdir())):
        if mark not in _command_line(entry):
            continue
        try:
            pidfd = os.pidfd_open(int(entry))
        except OSError:
            continue
        try:
            if mark in _command_line(entry):
                yield pidfd
        finally:
            os.close(pidfd)


def _command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Folder:
    """A folder for the data of trace-cmd: hidden, in the folder of the file, and locked while in use."""

    def __init__(self, file: Path) -> None:
        # `clean` does not match this first name. The folder gets its final name when it is locked.
        first = Path(tempfile.mkdtemp(prefix=f".{file.name}.", dir=file.absolute().parent))
        try:
            self._lock = os.open(first / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self.path = first.with_name(f".{file.name}{_FOLDER_MARK}{first.name.rpartition('.')[2]}")
            first.rename(self.path)
        except BaseException:
            shutil.rmtree(first, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The lock is removed last: `clean` must not find an unlocked folder of a living recording.
        for path in self.path.iterdir():
            if path.name != _LOCK:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _is_dead_folder(path: Path) -> bool:
    """Whether nobody holds the lock of a folder of ours."""
    try:
        found = path.lstat()
        # Another user may make a folder of that name in /tmp.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return False
        with open(path / _LOCK, "rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Keeper:
    """A process that removes instance and folder of this process when this process ends without `close`."""

    def __init__(self, files: KernelFiles, place: str, name: str, folder: Path) -> None:
        package = Path(__file__).resolve().parents[2]
        # A new session: a signal from the terminal reaches only the recording process, which ends in order.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _KEEPER, str(package), str(files.root), place, name, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def close(self) -> None:
        """End it; nothing is left to remove."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(b".")
            self._process.stdin.flush()
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


def keep(words: Sequence[str]) -> None:
    """The keeper process: wait for a byte, or for the end of the process that has the other end of stdin."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    root, place, name, folder = words
    if os.read(0, 1):
        return
    remove_instance(KernelFiles(root), place, name)
    shutil.rmtree(folder, ignore_errors=True)

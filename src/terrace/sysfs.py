# SPDX-License-Identifier: GPL-2.0
"""All access to files of the kernel (/proc, /sys).

All paths are below a root folder, so that a unit test (or a copy of another machine's /proc and
/sys) can replace the running kernel. Reading never fails for a file that is missing or may not be
read: the value is None and ``unreadable`` has the reason. Each write is noted in ``log``; with
``dry_run`` nothing is written.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import TerraceError
from terrace.files import read_regular
from terrace.units import to_whole

#: No kernel has a higher node number.
NODE_MAX = 1 << 16

_REAL = Path("/")
#: No more bytes of a file are read.
_MOST_BYTES = 64 << 20

#: Directory of promotion in sysfs.
MTIER = "sys/kernel/mm/mtier"


class KernelFileError(TerraceError):
    """The kernel rejected a read or a write; ``errno`` is its error."""

    def __init__(self, path: str, number: int, doing: str) -> None:
        self.path = path
        self.errno = number
        super().__init__(f"cannot {doing} {path}: {os.strerror(number)}")


@dataclass(frozen=True)
class Write:
    """One value written to the kernel: the file as shown to users, and the text."""

    path: str
    value: str


class KernelFiles:
    """Files of the kernel below ``root``; names are relative (``proc/vmstat``)."""

    def __init__(self, root: Path | str = "/", *, dry_run: bool = False) -> None:
        self.root = Path(root)
        self.dry_run = dry_run
        #: Every write so far, in order; in a dry run those that would have been done.
        self.log: list[Write] = []
        #: Files that exist but could not be read, with the kernel's error.
        self.unreadable: dict[str, str] = {}

    def real_path(self, name: str) -> Path:
        """Get the real path of ``name`` on this machine."""
        return self.root / name.lstrip("/")

    @staticmethod
    def shown_path(name: str) -> str:
        """Get the path of ``name`` for messages: always the kernel's own absolute path."""
        return "/" + name.lstrip("/")

    def read(self, name: str) -> str:
        """Read the file without the trailing newline.

        Raises KernelFileError if it is missing or may not be read.
        """
        try:
            data = self._bytes(name)
        except OSError as error:
            raise KernelFileError(self.shown_path(name), error.errno or 0, "read") from error
        return data.decode("utf-8", "replace").rstrip("\n")

    def _bytes(self, name: str) -> bytes:
        path = self.real_path(name)
        if self.root == _REAL:
            return path.read_bytes()
        # In a copy of another machine's files the name can be anything. Raises OSError for a pipe
        # as for a folder.
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            raise OSError(number, os.strerror(number))
        return read_regular(path, _MOST_BYTES)

    def get(self, name: str) -> str | None:
        """Read the file, or return None; the reason is noted in ``unreadable``."""
        try:
            return self.read(name)
        except KernelFileError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH):
                self.unreadable[error.path] = os.strerror(error.errno)
            return None

    def get_int(self, name: str) -> int | None:
        """Read the file's only integer; None if it cannot be read or has other contents."""
        return to_int(self.get(name))

    def get_bytes(self, name: str) -> bytes | None:
        """Read raw content (``proc/config.gz``); None as in get()."""
        try:
            return self._bytes(name)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self.unreadable[self.shown_path(name)] = os.strerror(error.errno or 0)
            return None

    def exists(self, name: str) -> bool:
        """Whether the file or folder exists (also False if its folder may not be read)."""
        try:
            return self.real_path(name).exists()
        except OSError:
            return False

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; empty if it is missing or may not be read (then noted)."""
        try:
            return sorted(entry.name for entry in self.real_path(folder).iterdir())
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH):
                self.unreadable[self.shown_path(folder)] = os.strerror(error.errno or 0)
            return []

    def link(self, name: str) -> str | None:
        """Read a symbolic link; None if there is none."""
        try:
            return str(self.real_path(name).readlink())
        except OSError:
            return None

    def write(self, name: str, value: str) -> None:
        """Write a value to the kernel in one system call, like ``echo value > file``.

        Raises KernelFileError with the kernel's errno; the file is then unchanged.
        """
        self.log.append(Write(self.shown_path(name), value))
        if self.dry_run:
            return
        try:
            fd = os.open(self.real_path(name), os.O_WRONLY | os.O_TRUNC)
            try:
                os.write(fd, value.encode() + b"\n")
            finally:
                os.close(fd)
        except OSError as error:
            raise KernelFileError(self.shown_path(name), error.errno or 0, "write") from error


def to_int(text: str | None) -> int | None:
    """Parse the integer of a kernel file; None if it is none."""
    return None if text is None else to_whole(text.strip(), -(1 << 64), 1 << 64)


def parse_table(text: str | None) -> dict[str, int]:
    """Parse ``name value`` lines (/proc/vmstat, nodeN/vmstat, memory.stat)."""
    table: dict[str, int] = {}
    for line in (text or "").splitlines():
        name, _, number = line.strip().partition(" ")
        value = to_int(number)
        if name and value is not None:
            table[name] = value
    return table


def parse_meminfo(text: str | None) -> dict[str, int]:
    """Parse ``[Node N] Name: value kB`` lines to bytes by name."""
    sizes: dict[str, int] = {}
    for line in (text or "").splitlines():
        head, colon, rest = line.partition(":")
        words = rest.split()
        value = to_int(words[0]) if words else None
        if colon and head.strip() and value is not None and value >= 0:
            sizes[head.split()[-1]] = value * (1024 if words[1:] == ["kB"] else 1)
    return sizes


def parse_nodes(text: str | None) -> list[int]:
    """Parse a kernel list such as ``0,2-3``; empty for None, '' or invalid text."""
    nodes: list[int] = []
    for part in (text or "").strip().split(","):
        first, dash, last = part.partition("-")
        low = to_int(first)
        high = to_int(last) if dash else low
        if low is not None and high is not None and 0 <= low <= high <= NODE_MAX:
            nodes.extend(range(low, high + 1))
    return nodes

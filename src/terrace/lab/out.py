# SPDX-License-Identifier: GPL-2.0
"""Receive the files of a guest (guest/init_out.c has the format) into a folder of the host.

The guest is not trusted. Every name is checked, every folder on the path is opened without
following links, each file is created anew, modes lose all bits except rwx, and the size is limited.
The first invalid record ends the transfer.
"""

import contextlib
import os
import re
from pathlib import Path

from terrace.errors import UsageError
from terrace.units import format_size

#: The folder in the guest; guest/init.h has the same path.
GUEST_FOLDER = "/run/terrace/out"
VARIABLE = "TERRACE_OUT"
DEFAULT_LIMIT = 256 << 20

_MOST_ENTRIES = 1 << 17
_MOST_HEAD = 96
_MOST_NAME = 4096
_MOST_PART = 255
_MOST_DEPTH = 64
_HEAD = re.compile(
    rb"(d) ([0-7]{1,3}) (\d{1,5})|(f) ([0-7]{1,3}) (\d{1,15}) (\d{1,5})|(x) ([a-z]{1,16}) (\d{1,5})|(end)"
)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Kinds of entries that the guest does not send.
_KINDS = {
    "link": "a symbolic link",
    "device": "a device",
    "fifo": "a FIFO",
    "socket": "a socket",
    "mount": "another file system",
}
#: Reasons why the contents of a file are missing.
_LOSSES = {
    "limit": "larger than the rest of the limit",
    "deep": "nested too deeply",
    "error": "could not be read in the guest",
}


class _RefusedError(Exception):
    """The guest sent an invalid record, or the host cannot write."""


def check_folder(path: Path) -> None:
    """Raise UsageError unless files can be received into `path`: a new folder or an empty one."""
    try:
        if path.is_dir():
            if any(path.iterdir()):
                raise UsageError(f"--out {path}: the folder is not empty; name a new or an empty one")
        elif os.path.lexists(path):
            raise UsageError(f"--out {path}: not a folder; name a new or an empty one")
        elif not path.parent.is_dir():
            raise UsageError(f"--out {path}: there is no folder {path.parent}")
        if not os.access(path if path.is_dir() else path.parent, os.W_OK | os.X_OK):
            raise UsageError(f"--out {path}: no permission to write there")
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror}") from error


class Receiver:
    """The folder and its received files; `feed` takes bytes in pieces of any size."""

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT) -> None:
        """Create the folder if it does not exist. Raises UsageError."""
        check_folder(folder)
        self.folder = folder
        self.limit = limit
        #: True after the last record, or if no more data is accepted.
        self.ended = False
        #: Reasons for missing files, one per line; empty if all files have arrived.
        self.problems: list[str] = []
        #: Entries that are neither files nor folders, with their kinds.
        self.skipped: list[str] = []
        self._pending = bytearray()
        self._entries = 0
        self._bytes = 0
        self._file = -1
        self._left = 0
        self._mode = 0
        self._name = b""
        self._folder_modes: list[tuple[bytes, int]] = []
        self._created = not folder.exists()
        try:
            folder.mkdir(exist_ok=True)
            self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"--out {folder}: {error.strerror}") from error

    def feed(self, data: bytes) -> None:
        """Process the next bytes of the stream; bytes after the end are ignored."""
        if self.ended:
            return
        self._pending += data
        try:
            while not self.ended and self._step():
                pass
        except _RefusedError as error:
            self.give_up(str(error))
        except OSError as error:
            self.give_up(f"cannot write {_shown(self._name)}: {error.strerror}")

    def give_up(self, reason: str) -> None:
        """End the transfer: complete files stay, an incomplete one is removed.

        If the transfer never started, a folder that it created is removed.
        """
        if self.ended:
            return
        self.problems.append(reason)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._remove(self._name)
        self._finish()
        if self._created and not self._entries:
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    # ---- records ----

    def _step(self) -> bool:
        """Process one piece of the pending bytes; False if more bytes are needed."""
        if self._file >= 0:
            return self._take_contents()
        line, newline, _ = self._pending[: _MOST_HEAD + 1].partition(b"\n")
        if not newline:
            if len(self._pending) > _MOST_HEAD:
                raise _RefusedError("the guest sent a record that is none")
            return False
        match = _HEAD.fullmatch(line)
        if match is None:
            raise _RefusedError(f"the guest sent a record that is none: {_shown(bytes(line))}")
        if match[11]:
            self._finish()
            return False
        length = int(match[3] or match[7] or match[10])
        if not 0 < length <= _MOST_NAME:
            raise _RefusedError(f"the guest sent a name of {length} bytes")
        if len(self._pending) < len(line) + 1 + length:
            return False
        name = bytes(self._pending[len(line) + 1 : len(line) + 1 + length])
        del self._pending[: len(line) + 1 + length]
        self._take_record(match, name)
        return True

    def _take_record(self, match: re.Match[bytes], name: bytes) -> None:
        self._entries += 1
        if self._entries > _MOST_ENTRIES:
            raise _RefusedError(f"more than {_MOST_ENTRIES} entries")
        parts = _checked(name)
        self._name = name
        if match[8]:
            self._leave_out(match[9].decode(), name)
        elif match[1]:
            self._make_folder(parts, int(match[2], 8))
        else:
            self._open_file(parts, int(match[5], 8), int(match[6]))

    def _leave_out(self, reason: str, name: bytes) -> None:
        if reason in _KINDS:
            self.skipped.append(f"{_shown(name)} is {_KINDS[reason]}")
        else:
            self.problems.append(f"{_shown(name)}: {_LOSSES.get(reason, 'not sent')}")

    def _make_folder(self, parts: list[bytes], mode: int) -> None:
        parent = self._open_folder(parts[:-1])
        try:
            os.mkdir(parts[-1], 0o700, dir_fd=parent)
        finally:
            os.close(parent)
        self._folder_modes.append((self._name, mode))

    def _open_file(self, parts: list[bytes], mode: int, size: int) -> None:
        if self._bytes + size > self.limit:
            raise _RefusedError(f"{_shown(self._name)}: more than {format_size(self.limit)} in all")
        self._bytes += size
        parent = self._open_folder(parts[:-1])
        try:
            self._file = os.open(parts[-1], _NEW_FILE, 0o600, dir_fd=parent)
        finally:
            os.close(parent)
        self._left = size
        self._mode = mode
        self._close_full()

    def _take_contents(self) -> bool:
        piece = self._pending[: self._left]
        if not piece:
            return False
        written = os.write(self._file, piece)
        del self._pending[:written]
        self._left -= written
        self._close_full()
        return True

    def _close_full(self) -> None:
        if self._left == 0:
            os.fchmod(self._file, self._mode)
            os.close(self._file)
            self._file = -1

    # ---- folders ----

    def _open_folder(self, parts: list[bytes]) -> int:
        """Open a folder below the base folder, without following links."""
        at = os.dup(self._root)
        for part in parts:
            try:
                below = os.open(part, _FOLDER, dir_fd=at)
            finally:
                os.close(at)
            at = below
        return at

    def _remove(self, name: bytes) -> None:
        parts = name.split(b"/")
        try:
            parent = self._open_folder(parts[:-1])
            try:
                os.unlink(parts[-1], dir_fd=parent)
            finally:
                os.close(parent)
        except OSError as error:
            self.problems.append(f"{_shown(name)} is cut off, and cannot be removed: {error.strerror}")

    def _finish(self) -> None:
        """Set the modes of folders last, the innermost first: a mode may forbid writing to the folder."""
        self.ended = True
        self._pending.clear()
        for name, mode in reversed(self._folder_modes):
            try:
                at = self._open_folder(name.split(b"/"))
                try:
                    os.fchmod(at, mode)
                finally:
                    os.close(at)
            except OSError as error:
                self.problems.append(f"{_shown(name)}: its mode cannot be set: {error.strerror}")
        os.close(self._root)


def _checked(name: bytes) -> list[bytes]:
    """Get the parts of a name that stays below the folder. Raises _RefusedError."""
    parts = name.split(b"/")
    if b"\0" in name or len(parts) > _MOST_DEPTH + 1 or any(part in (b"", b".", b"..") for part in parts):
        raise _RefusedError(f"the guest sent a name that leads out of the folder: {_shown(name)}")
    if any(len(part) > _MOST_PART for part in parts):
        raise _RefusedError(f"the guest sent a name with a part of more than {_MOST_PART} bytes")
    return parts


def _shown(name: bytes) -> str:
    """Format a name for a message, without terminal control characters."""
    text = os.fsdecode(name)
    return repr(text if len(text) <= 200 else text[:200] + "…")

# SPDX-License-Identifier: GPL-2.0
"""Write files in one step, so that after a crash the old or the new one is there; read them without waiting."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

from terrace.errors import UsageError

#: Levels of tables and arrays in a file of TOML: the tool needs four.
_DEEPEST = 50
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def replace(path: Path, data: bytes, mode: int | None = None) -> None:
    """Put ``data`` in the place of the file ``path``; of a symbolic link, in that of the file it names.

    Mode and owner stay, for a new file 0644; ``mode`` given, it is that. A pipe or a device is written to. Raises
    OSError; the old file is then there.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        _write(path, data)
        return
    # No name that ends as the file's own does: others may take in every such file of the folder.
    number, name = tempfile.mkstemp(prefix=f".{path.name[:200]}.", suffix=".new", dir=path.parent)
    try:
        with open(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(number, 0o644 if mode is None else mode)
            if mode is None:
                with contextlib.suppress(FileNotFoundError):
                    old = path.stat()
                    os.fchown(number, old.st_uid, old.st_gid)
                    os.fchmod(number, old.st_mode & 0o7777)
            # Without this a crash may leave an empty file of the right name.
            os.fsync(number)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _write(path: Path, data: bytes) -> None:
    with path.open("wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises UsageError for a pipe, a device and all else that may never end, without waiting for it; OSError.
    """
    # To open a device can have an effect, and a socket cannot be opened.
    check_regular(path, path.stat().st_mode)
    # Non-blocking: a pipe may have taken the place of the file, and to open one waits for its writer.
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        check_regular(path, os.fstat(number).st_mode)
        return open(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a regular file, at most ``most`` + 1 bytes of it. Raises as `open_regular`."""
    with open_regular(path) as file:
        return file.read(most + 1)


def check_regular(path: Path, mode: int, option: str = "") -> None:
    """Raise UsageError if ``mode`` is not that of a regular file; ``option`` names the word that gave ``path``."""
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise UsageError(f"{option and option + ' '}{path}: this is {kind}; name a regular file")


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a file of TOML. Raises tomllib.TOMLDecodeError for all that is none, or has no 64-bit integers."""
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("tables or arrays are nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:
        # Python reads no number of more than 4,300 digits.
        raise tomllib.TOMLDecodeError(str(error).partition(":")[0]) from None
    values: list[tuple[Any, int]] = [(table, 0)]
    while values:
        value, depth = values.pop()
        if depth > _DEEPEST:
            raise tomllib.TOMLDecodeError("tables or arrays are nested too deeply")
        if isinstance(value, dict):
            values += ((inner, depth + 1) for inner in value.values())
        elif isinstance(value, list):
            values += ((inner, depth + 1) for inner in value)
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise tomllib.TOMLDecodeError("an integer has more than 64 bits")
    return table


def why(error: OSError, path: Path | None = None) -> str:
    """Return why ``path`` could not be written, for a message; a full disk with the name of the folder."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return error.strerror or str(error)
    given = path or (Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None)
    # Standard output may be in a file; an error that the write to it gave has no name.
    output = Path("/proc/self/fd/1").resolve().parent
    folder = given.absolute().resolve().parent if given else next(iter(full_folders(output)), None)
    where = "on the device" if folder is None else f"in {folder}"
    if error.errno == errno.EDQUOT:
        return f"the disk quota {where} is used up"
    return f"no {_short_of(folder)} left {where}"


def full_folders(*more: Path) -> list[Path]:
    """Folders without room among ``more``, the current one, that of temporary files and those where the tool writes."""
    from terrace import paths

    found: list[Path] = []
    temporary: list[Path] = []
    with contextlib.suppress(OSError):
        # Raised when no temporary folder can be written to, as on a full disk.
        temporary.append(Path(tempfile.gettempdir()))
    for folder in (*more, *paths.written_folders(), *temporary, Path()):
        with contextlib.suppress(OSError):
            state = os.statvfs(folder)
            # A file system that is mounted read-only has no room either.
            if os.access(folder, os.W_OK) and (state.f_bavail == 0 or (state.f_files and state.f_favail == 0)):
                found.append(folder.absolute())
    return list(dict.fromkeys(found))


def _short_of(folder: Path | None) -> str:
    with contextlib.suppress(OSError):
        if folder is not None:
            state = os.statvfs(folder)
            if state.f_bavail and state.f_files and not state.f_favail:
                return "inodes"
    return "space"


def probe(folder: Path) -> OSError | None:
    """Return the error of a small file written to ``folder`` and removed again, such as that of a full disk."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(1 << 16))
            os.fsync(file.fileno())
    except OSError as error:
        return error
    return None

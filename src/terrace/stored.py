# SPDX-License-Identifier: GPL-2.0
"""Keep files that are built once and used often, and detect those that were cut off or changed since.

A file is on the disk before it gets its name. Its size and hash are kept in `.NAME.sums` in the same folder, those of a
whole folder in its `sums.json`. Each use compares the size. The hash is computed again if times or inode differ from
those of the last check: a file of a hundred megabytes is not read on every call.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from terrace import files
from terrace.output import say

_FOLDER_SUMS = "sums.json"
#: Larger files (disks of machines) are compared by size alone.
_HASHED_BYTES = 1 << 30

_Sum = dict[str, Any]


def keep(fresh: Path, target: Path) -> None:
    """Move the finished file `fresh` to `target`, in a folder that is there, and remember its size and hash."""
    _sync(fresh)
    sums = {"files": {target.name: _sum(fresh)}}
    with locked(target.parent, fcntl.LOCK_EX):
        files.replace(_beside(target), json.dumps(sums).encode())
        fresh.replace(target)


def is_kept(target: Path) -> bool:
    """Whether `target` is there as `keep` left it. A damaged one is reported with one line, to be built again."""
    if not target.exists():
        return False
    with locked(target.parent, fcntl.LOCK_SH):
        # None: made by an older tool, and no reason for a line.
        if not _beside(target).exists():
            return False
        problem = _damage(_beside(target), target.parent, [target.name])
    if problem:
        report(target, problem)
    return not problem


def seal(folder: Path) -> None:
    """Remember size and hash of every file in `folder`, before it gets its final name."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != _FOLDER_SUMS)
    for name in names:
        _sync(folder / name)
    sums = {"files": {name: _sum(folder / name) for name in names}}
    files.replace(folder / _FOLDER_SUMS, json.dumps(sums).encode())
    _sync(folder)


def damage(folder: Path) -> str:
    """Return the damage of a folder that `seal` has seen, in words; empty if there is none."""
    return _damage(folder / _FOLDER_SUMS, folder, None)


def report(path: Path, problem: str) -> None:
    """Print the one line about a damaged file or folder."""
    say(f"terrace: {path} is damaged ({problem}): it is made again")


def sync_folder(folder: Path) -> None:
    """Write all of a large folder to the disk before it gets the name, or the mark, of a complete one."""
    # By the file system: thousands of single calls would take longer.
    subprocess.run(["sync", "-f", str(folder)], check=False, capture_output=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.sums")


def _sum(path: Path) -> _Sum:
    state = path.stat()
    return {"size": state.st_size, "sha256": _hash(path, state.st_size), "seen": _times(state)}


def _hash(path: Path, size: int) -> str:
    if size > _HASHED_BYTES:
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _times(state: os.stat_result) -> list[int]:
    return [state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def _damage(sums_file: Path, folder: Path, names: list[str] | None) -> str:
    try:
        sums = json.loads(sums_file.read_bytes())
        known = {str(name): dict(one) for name, one in sums["files"].items()}
        checked = [(name, _difference(folder / name, known[name])) for name in names or known]
    except FileNotFoundError:
        return "its checksums are missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "its checksums cannot be read"
    for name, problem in checked:
        if problem:
            return f"{name} {problem}"
    if not checked:
        return "its checksums name no file"
    if known != sums["files"]:
        # The folder may be read-only: then it is checked again the next time.
        with contextlib.suppress(OSError):
            files.replace(sums_file, json.dumps({"files": known}).encode())
    return ""


def _difference(path: Path, known: _Sum) -> str:
    """Return how a file differs from `known`, in words; note its times there if it does not."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return "is missing"
    if state.st_size != known["size"]:
        return f"has {state.st_size} bytes, and {known['size']} were written"
    if _times(state) == known["seen"]:
        return ""
    if _hash(path, state.st_size) != known["sha256"]:
        return "has another content than was written"
    known["seen"] = _times(state)
    return ""


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextlib.contextmanager
def locked(folder: Path, how: int) -> Iterator[None]:
    """Lock a folder, exclusively (LOCK_EX) or shared (LOCK_SH). On a file system without locks this has no effect."""
    number = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(number, how)
        yield
    finally:
        os.close(number)

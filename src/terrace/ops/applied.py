# SPDX-License-Identifier: GPL-2.0
"""Knobs that `terrace apply` has changed since boot, with their old values: a file below /run,
which a reboot removes.

It restores the value of a knob that was removed from the file of settings, and all values for
`apply --undo`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from terrace.errors import TerraceError, UsageError
from terrace.files import replace, why
from terrace.ops import knobs
from terrace.ops.knob_table import CGROUP_KNOBS, CGROUPS, Knob, in_cgroup
from terrace.sysfs import KernelFiles

FOLDER = "run/terrace"
_VERSION = 1


@dataclass(frozen=True)
class Entry:
    """A knob and its value before the first write; None if that could not be read."""

    knob: Knob
    before: str | None
    #: The knob was in the file; other knobs changed together with such a knob.
    named: bool


class Applied:
    """The changed knobs, in the order in which they are restored."""

    def __init__(self, files: KernelFiles) -> None:
        self._path = files.real_path(f"{FOLDER}/applied.json")
        self.entries: list[Entry] = self._read()

    def _read(self) -> list[Entry]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return [_entry(one) for one in found["knobs"]]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise TerraceError(f"cannot read {self._path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError) as error:
            raise TerraceError(
                f"{self._path} is not what `terrace apply` wrote ({error}); remove it, then nothing can be put back"
            ) from None

    def keep(self, entries: Sequence[Entry]) -> None:
        """Write the file, or remove it if there is nothing to restore. Raises TerraceError."""
        self.entries = list(entries)
        known = [
            {"knob": one.knob.name, "path": one.knob.path, "before": one.before, "named": one.named} for one in entries
        ]
        try:
            if known:
                text = json.dumps({"version": _VERSION, "knobs": known}, indent=1) + "\n"
                replace(self._path, text.encode())
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            raise TerraceError(f"cannot write {self._path}: {why(error, self._path)}") from error

    def with_more(self, more: Sequence[Entry], named: Set[str]) -> list[Entry]:
        """Put ``more`` before the known entries, which keep their values; ``named``: paths in the file."""
        known = {one.knob.path for one in self.entries}
        kept = [Entry(one.knob, one.before, one.named or one.knob.path in named) for one in self.entries]
        return [*(one for one in more if one.knob.path not in known), *kept]


def _entry(given: Any) -> Entry:
    """Parse an entry of the file. Raises TypeError, KeyError, UsageError if it is invalid."""
    name, path, before, named = (given[key] for key in ("knob", "path", "before", "named"))
    if not (isinstance(name, str) and isinstance(path, str) and isinstance(before, str | None)):
        raise TypeError("knob, path and value are texts")
    return Entry(_knob(name, path), before, bool(named))


def _knob(name: str, path: str) -> Knob:
    """Get the knob of an entry; knobs of cgroups are identified by path. Raises UsageError."""
    folder, _, file = path.rpartition("/")
    for knob in CGROUP_KNOBS:
        if knob.path == file and folder.startswith(f"{CGROUPS}/"):
            return in_cgroup(knob, folder.removeprefix(f"{CGROUPS}/"))
    return knobs.find(name)


@contextlib.contextmanager
def alone(files: KernelFiles) -> Iterator[None]:
    """Lock out other processes that change knobs by a file, or the file. Raises TerraceError if that is not allowed."""
    folder = files.real_path(FOLDER)
    # The lock is for root only: any user who could open it could hold it.
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        hint = "" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "; run as root (sudo terrace …)"
        raise TerraceError(f"cannot write below {folder}: {why(error, folder / 'lock')}{hint}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)

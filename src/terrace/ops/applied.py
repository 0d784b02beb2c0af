# SPDX-License-Identifier: GPL-2.0
"""What `terrace apply` changed since boot, and the values before: a file below /run, which no reboot outlives.

By it a knob that has gone from the file of settings gets its value back, and `apply --undo` gives all of them theirs.
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
    """A knob and the value it had before the first write; None where that could not be read."""

    knob: Knob
    before: str | None
    #: It was in the file; the others changed with one that was.
    named: bool


class Applied:
    """The knobs that were changed, in the order in which they are put back."""

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
        """Write the file, or remove it when nothing is to be put back. Raises TerraceError."""
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
        """``more`` in front of those known, of which each keeps its value; ``named``: paths that the file has."""
        known = {one.knob.path for one in self.entries}
        kept = [Entry(one.knob, one.before, one.named or one.knob.path in named) for one in self.entries]
        return [*(one for one in more if one.knob.path not in known), *kept]


def _entry(given: Any) -> Entry:
    """An entry of the file. Raises TypeError, KeyError, UsageError if it is none."""
    name, path, before, named = (given[key] for key in ("knob", "path", "before", "named"))
    if not (isinstance(name, str) and isinstance(path, str) and isinstance(before, str | None)):
        raise TypeError("knob, path and value are texts")
    return Entry(_knob(name, path), before, bool(named))


def _knob(name: str, path: str) -> Knob:
    """The knob of an entry; those of cgroups are known by their path. Raises UsageError."""
    folder, _, file = path.rpartition("/")
    for knob in CGROUP_KNOBS:
        if knob.path == file and folder.startswith(f"{CGROUPS}/"):
            return in_cgroup(knob, folder.removeprefix(f"{CGROUPS}/"))
    return knobs.find(name)


@contextlib.contextmanager
def alone(files: KernelFiles) -> Iterator[None]:
    """One after the other: who changes knobs by a file, or the file. Raises TerraceError when that may not be."""
    folder = files.real_path(FOLDER)
    # The lock is for root alone: whoever may open it can hold it.
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

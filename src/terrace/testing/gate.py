# SPDX-License-Identifier: GPL-2.0
"""The gate: tests/gate.toml lists the guest programs that it runs, and the checks that were removed
from it.

Every other check is in the suite only (docs/reference/test.md).
"""

import datetime
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from terrace.errors import UsageError
from terrace.paths import repo_root
from terrace.testing.kunit import KERNEL

GATE_FILE = Path("tests/gate.toml")
_NEVER_LEFT = (f"kunit/{KERNEL}", "unit/pytest")


@dataclass(frozen=True)
class Gate:
    """The programs of group `selftest` in the gate, and the checks removed from it.

    `again` maps each of these checks, named `group/name`, to the day of its next trial.
    """

    selftests: frozenset[str]
    again: Mapping[str, datetime.date] = field(default_factory=dict)

    @property
    def left(self) -> frozenset[str]:
        """Get the checks that the gate does not count."""
        return frozenset(self.again)

    def due(self, today: datetime.date) -> list[str]:
        """Get the removed checks whose day has come, in order."""
        return sorted(name for name, day in self.again.items() if day <= today)

    def counts(self, check: str) -> bool:
        """Whether a check, named `group/name`, counts for the gate."""
        return check not in self.left

    def left_of(self, group: str) -> list[str]:
        """Get the removed checks of a group, without the group's name, in order."""
        return sorted(name.partition("/")[2] for name in self.left if name.startswith(f"{group}/"))


def load_gate(groups: Collection[str], programs: Collection[str], path: Path | None = None) -> Gate:
    """Load the gate of `path` (default: the repository's); `groups` are those in the gate,
    `programs` all of `selftest`.

    Raises UsageError with the file and the error.
    """
    file = path or repo_root() / GATE_FILE
    try:
        text = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error
    try:
        return _read_gate(text, groups, programs)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error


def _read_gate(text: dict[str, Any], groups: Collection[str], programs: Collection[str]) -> Gate:
    if unknown := sorted(text.keys() - {"selftests", "left"}):
        raise UsageError(f"'{unknown[0]}': only selftests and [[left]] are known")
    chosen = text.get("selftests", [])
    if not isinstance(chosen, list) or not all(isinstance(name, str) for name in chosen):
        raise UsageError("selftests: has to be a list of names")
    if unknown := sorted(set(chosen) - set(programs)):
        raise UsageError(f"selftests: there is no program {unknown[0]}")
    entries = text.get("left", [])
    if not isinstance(entries, list):
        raise UsageError("left: write [[left]], once for each check")
    return Gate(frozenset(chosen), dict(_left(entry, groups, chosen) for entry in entries))


def _left(entry: Any, groups: Collection[str], chosen: Collection[str]) -> tuple[str, datetime.date]:
    """Parse the name of a removed check, and the day of its next trial."""
    if not isinstance(entry, dict) or entry.keys() != {"name", "date", "again", "seen"}:
        raise UsageError("[[left]]: has to have name, date, again and seen, and nothing else")
    name, seen = entry["name"], entry["seen"]
    if not isinstance(name, str) or name.partition("/")[0] not in groups or not name.partition("/")[2]:
        raise UsageError(f"[[left]]: name {name!r}: use GROUP/NAME with one of the groups {', '.join(groups)}")
    if name in _NEVER_LEFT:
        raise UsageError(f"[[left]]: {name}: stands for crashes and reports, which always count")
    group, _, check = name.partition("/")
    # The name of a program, or of a machine, stands for its crash.
    if group == "selftest" and (check.partition(":")[0] not in chosen or not check.partition(":")[2]):
        raise UsageError(f"[[left]]: {name}: use selftest/PROGRAM:CHECK with a program of selftests, or take that out")
    for key in ("date", "again"):
        # A datetime of TOML is a date for Python.
        if type(entry[key]) is not datetime.date:
            raise UsageError(f"[[left]]: {name}: {key} has to be a date (2026-11-23)")
    if entry["again"] <= entry["date"]:
        raise UsageError(f"[[left]]: {name}: again has to be a day after date")
    if not isinstance(seen, str) or not seen.strip():
        raise UsageError(f"[[left]]: {name}: seen has to say what was seen")
    return name, entry["again"]

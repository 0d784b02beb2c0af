# SPDX-License-Identifier: GPL-2.0
"""Expected skips: tests/skips.toml lists each with a reason. Any other skip is a failure.

On a kernel without an interface the programs of that interface skip themselves; without this list
that would pass.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from terrace.errors import UsageError
from terrace.paths import repo_root
from terrace.testing.results import TestResult
from terrace.testing.select import Selector
from terrace.testing.selftest import OVERTIME, STATE_CHECK

SKIPS_FILE = Path("tests/skips.toml")
_KEYS = {"groups", "name", "reason", "sometimes"}


@dataclass(frozen=True)
class Skip:
    """Checks of `groups` that are skipped; `name` is without the group, * matches any text.

    Each group has its kernel. Without `sometimes` the check is skipped in every run.
    """

    groups: frozenset[str]
    name: str
    reason: str
    sometimes: bool = False

    def covers(self, group: str, name: str) -> bool:
        """Whether this entry matches a check."""
        pattern = ".*".join(re.escape(part) for part in self.name.split("*"))
        return group in self.groups and re.fullmatch(pattern, name, re.DOTALL) is not None

    def contradicts(self, result: TestResult) -> bool:
        """Whether a result shows that the check, or its program, ran."""
        program, _, check = result.name.partition(":")
        # The runner adds that check to each program, skipped or not.
        if self.sometimes or result.status == "skip" or check == STATE_CHECK:
            return False
        return self.covers(result.group, result.name) or (check != "" and self.covers(result.group, program))


@dataclass(frozen=True)
class Skips:
    """All entries of the file."""

    entries: tuple[Skip, ...]

    def reason(self, group: str, name: str) -> str | None:
        """Get the reason for a skip; None if the check has no entry."""
        return next((entry.reason for entry in self.entries if entry.covers(group, name)), None)

    def judge(self, result: TestResult) -> TestResult:
        """Get the final result: a skip without an entry, and a pass in spite of an entry, become failures."""
        if result.status == "skip" and result.detail != OVERTIME:
            if self.reason(result.group, result.name) is not None:
                return result
            why = f"skipped, and {SKIPS_FILE} has no entry for it: {result.detail or 'no reason given'}"
            return replace(result, status="fail", detail=why, final=True)
        if result.status == "pass" and (stale := [entry for entry in self.entries if entry.contradicts(result)]):
            why = f"it ran, and {SKIPS_FILE} says that it is skipped ({stale[0].reason}): remove that entry"
            return replace(result, status="fail", detail=why, final=True)
        return result

    def complete(
        self, group: str, results: Iterable[TestResult], names: Callable[[], Collection[str]], wanted: Selector
    ) -> Iterator[TestResult]:
        """Yield `results`, then one for each wanted name without a result: a skip with an entry, a
        failure without one.

        After a final result the group has failed, and checks that did not run are not listed.
        """
        seen: set[str] = set()
        failed = False
        for result in results:
            seen.add(result.name)
            failed |= result.final
            yield result
        for name in () if failed else names():
            if name not in seen and wanted(f"{group}/{name}"):
                reason = self.reason(group, name)
                detail = reason or "the sources have it, and it gave no result"
                yield TestResult(group, name, "fail" if reason is None else "skip", detail, final=reason is None)


def load_skips(groups: Collection[str], path: Path | None = None) -> Skips:
    """Load the entries of `path` (default: the repository's) for `groups`. Raises UsageError with
    the file and the error.
    """
    file = path or repo_root() / SKIPS_FILE
    try:
        text = tomllib.loads(file.read_text(encoding="utf-8"))
        if unknown := sorted(text.keys() - {"skip"}):
            raise UsageError(f"'{unknown[0]}': only [[skip]] is known")
        entries = text.get("skip", [])
        if not isinstance(entries, list):
            raise UsageError("skip: write [[skip]], once for each entry")
        return Skips(tuple(_read(entry, groups) for entry in entries))
    except (OSError, ValueError, UsageError) as error:
        raise UsageError(f"{file}: {error}") from error


def _read(entry: Any, groups: Collection[str]) -> Skip:
    if not isinstance(entry, dict) or not _KEYS - {"sometimes"} <= entry.keys() <= _KEYS:
        raise UsageError("[[skip]]: has to have groups, name and reason, may have sometimes, and nothing else")
    name, reason, sometimes = entry["name"], entry["reason"], entry.get("sometimes", False)
    if not isinstance(name, str) or not name.strip("* "):
        raise UsageError(f"[[skip]]: name {name!r}: name a check, without its group; * stands for any text")
    named = entry["groups"]
    if not isinstance(named, list) or not named or not all(isinstance(group, str) for group in named):
        raise UsageError(f"[[skip]]: {name}: groups has to be a list of groups")
    if unknown := sorted(set(named) - set(groups)):
        raise UsageError(f"[[skip]]: {name}: there is no group {unknown[0]}: use {', '.join(groups)}")
    if not isinstance(reason, str) or not reason.strip():
        raise UsageError(f"[[skip]]: {name}: reason has to say why it is skipped")
    if not isinstance(sometimes, bool):
        raise UsageError(f"[[skip]]: {name}: sometimes has to be true or false")
    return Skip(frozenset(named), name, reason, sometimes)

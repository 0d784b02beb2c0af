# SPDX-License-Identifier: GPL-2.0
"""Verdicts of mutants: kept from run to run, and printed."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from terrace.output import format_table
from terrace.paths import build_dir, repo_root
from terrace.testing.mutants.observe import Seen
from terrace.testing.mutants.read import Mutant, Target
from terrace.testing.programs import SELFTESTS

CAUGHT, SURVIVED, NOT_BUILT, FAILS_ANYWAY = "caught", "survived", "not built", "check fails anyway"
VERDICTS = (CAUGHT, SURVIVED, NOT_BUILT, FAILS_ANYWAY)
_SAID = 100
#: Paths that determine the results of a check, in addition to its own source.
_RUNNER = ("src/terrace/testing", "guest")


@dataclass(frozen=True)
class Verdict:
    """Verdict for a mutant: `by` is the check that has to detect it, `said` the first message, or
    the reason for none.

    `silent` are other named checks that did not detect it.
    """

    name: str
    kind: str
    verdict: str
    by: str
    said: str
    silent: tuple[str, ...] = field(default=())


def decide(mutant: Mutant, seen: Mapping[Target, Seen], before: Mapping[Target, Seen]) -> Verdict:
    """Derive the verdict from the results with and without the mutant."""
    first = mutant.caught_by[0]
    silent = tuple(str(target) for target in mutant.caught_by[1:] if seen[target].status != "fail")
    if seen[first].status != "fail":
        return Verdict(mutant.name, mutant.kind, SURVIVED, str(first), _why(seen[first]), silent)
    if before[first].status not in ("pass", "none"):
        said = f"{before[first].status} without the mutant: {before[first].said}"
        return Verdict(mutant.name, mutant.kind, FAILS_ANYWAY, str(first), said, silent)
    return Verdict(mutant.name, mutant.kind, CAUGHT, str(first), seen[first].said, silent)


def _why(seen: Seen) -> str:
    return {"pass": "passes", "skip": f"is skipped: {seen.said}"}.get(seen.status, "gave no result")


class Memory:
    """Verdicts and results, keyed by all their inputs, in a file of this checkout."""

    def __init__(self, kernel: str, path: Path | None = None) -> None:
        """`kernel` identifies all inputs of the kernel without mutants."""
        self._kernel = kernel
        self._path = path or build_dir() / "test" / "mutants.jsonl"
        self._known: dict[str, dict[str, Any]] = dict(self._read())

    def verdict(self, mutant: Mutant) -> Verdict | None:
        """Get the remembered verdict of a mutant, for this kernel and these checks."""
        kept = self._known.get(self._key(mutant.name, mutant.text, mutant.caught_by))
        return Verdict(**{**kept, "silent": tuple(kept["silent"])}) if kept else None

    def keep(self, mutant: Mutant, verdict: Verdict) -> None:
        """Remember the verdict for later runs."""
        self._add(self._key(mutant.name, mutant.text, mutant.caught_by), asdict(verdict))

    def seen(self, target: Target) -> Seen | None:
        """Get the remembered result of a check on the kernel without mutants."""
        kept = self._known.get(self._key("", "", [target]))
        return Seen(**kept) if kept else None

    def keep_seen(self, target: Target, seen: Seen) -> None:
        """Remember the result for later runs."""
        self._add(self._key("", "", [target]), asdict(seen))

    def _key(self, name: str, text: str, targets: Sequence[Target]) -> str:
        digest = hashlib.sha256("\0".join((self._kernel, name, text, *map(str, targets))).encode())
        for path in _sources(targets):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:24]

    def _read(self) -> Iterator[tuple[str, dict[str, Any]]]:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except OSError:
            return
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                # The last line was cut off in the middle; the next ones start on lines of their
                # own.
                continue
            yield entry["key"], entry["value"]

    def _add(self, key: str, value: dict[str, Any]) -> None:
        self._known[key] = value
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "value": value}) + "\n")


def _sources(targets: Sequence[Target]) -> list[Path]:
    """Get the files that determine the results of these checks."""
    root = repo_root()
    folders = [root / name for name in _RUNNER]
    files: list[Path] = []
    if any(target.group == "selftest" for target in targets):
        programs = {target.unit for target in targets}
        shared = [path for path in (root / SELFTESTS).glob("*.[ch]") if path.suffix == ".h" or not _main(path)]
        files += [*shared, *(path for path in (root / SELFTESTS).glob("*.*") if path.stem in programs)]
        folders = [*folders, root / "topologies"]
    if any(target.group == "policy" for target in targets):
        folders.append(root / "linux/tools/testing/mtier")
    files += [root / target.unit for target in targets if target.group == "unit"]
    files += [path for folder in folders for path in folder.glob("*.*") if path.is_file()]
    return sorted(set(files))


def _main(path: Path) -> bool:
    return "\nint main(" in path.read_text(encoding="utf-8")


def shown(verdicts: Sequence[Verdict]) -> str:
    """Format a table."""
    rows = []
    for verdict in verdicts:
        said = verdict.said if len(verdict.said) <= _SAID else f"{verdict.said[: _SAID - 2]} …"
        rows.append((verdict.name, verdict.kind, verdict.verdict, verdict.by, said))
        rows += [("", "", "", f"not by {name}", "") for name in verdict.silent if verdict.verdict == CAUGHT]
    return format_table(rows, ("mutant", "kind", "", "check", "said"))


def summary(verdicts: Sequence[Verdict]) -> str:
    """Format `N caught, N survived, N not built`, and the checks that fail anyway."""
    counts = {name: sum(1 for verdict in verdicts if verdict.verdict == name) for name in VERDICTS}
    text = ", ".join(f"{counts[name]} {name}" for name in VERDICTS[:3])
    return text + (f", {counts[FAILS_ANYWAY]} whose check fails anyway" if counts[FAILS_ANYWAY] else "")


def as_json(verdicts: Sequence[Verdict], left: Sequence[str]) -> dict[str, Any]:
    """Get the complete document for --json (docs/reference/test.md)."""
    return {
        "version": 1,
        "kind": "mutants",
        "caught": sum(1 for verdict in verdicts if verdict.verdict == CAUGHT),
        "survived": sum(1 for verdict in verdicts if verdict.verdict == SURVIVED),
        "not_built": sum(1 for verdict in verdicts if verdict.verdict == NOT_BUILT),
        "check_fails_anyway": sum(1 for verdict in verdicts if verdict.verdict == FAILS_ANYWAY),
        "not_run": list(left),
        "mutants": [asdict(verdict) for verdict in verdicts],
    }

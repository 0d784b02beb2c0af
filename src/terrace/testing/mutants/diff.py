# SPDX-License-Identifier: GPL-2.0
"""The diff of a mutant: parse it, and apply each hunk at the only place with its lines, at any line
number.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_OLD = re.compile(r"^--- a/(\S+)")
_NEW = re.compile(r"^\+\+\+ b/(\S+)")


class DiffError(Exception):
    """An error in a diff; `line` is the line in the mutant's file."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True)
class Hunk:
    """Lines of a file and their replacement; `line` is the first line of the hunk in the mutant."""

    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class FileDiff:
    """The changes of one file; `path` is its path in the Linux tree."""

    path: str
    hunks: tuple[Hunk, ...]


def parse_diff(lines: Sequence[str], first: int = 1) -> tuple[FileDiff, ...]:
    """Parse a unified diff, whose first line has the number `first`. Raises DiffError if it is
    invalid.
    """
    files: list[FileDiff] = []
    number = 0
    while number < len(lines):
        old, new = _OLD.match(lines[number]), _NEW.match(lines[number + 1]) if number + 1 < len(lines) else None
        if not old or not new or old[1] != new[1]:
            raise DiffError(first + number, "a diff begins with '--- a/PATH' and '+++ b/PATH', the same path")
        number += 2
        hunks: list[Hunk] = []
        while number < len(lines) and lines[number].startswith("@@"):
            hunk, number = _read_hunk(lines, number, first)
            hunks.append(hunk)
        if not hunks:
            raise DiffError(first + number - 1, f"nothing changes in {old[1]}: '@@' and lines have to follow")
        if any(file.path == old[1] for file in files):
            raise DiffError(first + number - 1, f"{old[1]} stands here twice; put its hunks together")
        files.append(FileDiff(old[1], tuple(hunks)))
    return tuple(files)


def _read_hunk(lines: Sequence[str], start: int, first: int) -> tuple[Hunk, int]:
    """Parse the hunk whose @@ is in line `start`; return it and the number of the line after it."""
    before: list[str] = []
    after: list[str] = []
    number = start + 1
    while number < len(lines) and not lines[number].startswith(("@@", "--- a/")):
        sign, text = lines[number][:1], lines[number][1:]
        if sign not in ("", " ", "-", "+"):
            raise DiffError(first + number, f"'{lines[number]}' begins with none of ' ', '-' and '+'")
        before += [text] if sign != "+" else []
        after += [text] if sign != "-" else []
        number += 1
    if before == after:
        raise DiffError(first + start, "this hunk changes nothing")
    if not before:
        raise DiffError(first + start, "this hunk has no line that says where it belongs")
    return Hunk(first + start, tuple(before), tuple(after)), number


def apply_diff(change: FileDiff, text: str) -> str:
    """Apply all hunks in order, and return the text. Raises DiffError if a hunk has no place, or
    several.
    """
    lines = text.split("\n")
    behind = 0
    for hunk in change.hunks:
        places = _places(lines, hunk.before, behind)
        if not places:
            raise DiffError(hunk.line, f"{change.path} has no such lines any more: '{hunk.before[0].strip()}' …")
        if len(places) > 1:
            raise DiffError(hunk.line, f"{change.path} has these lines {len(places)} times; add a line of context")
        lines[places[0] : places[0] + len(hunk.before)] = hunk.after
        behind = places[0] + len(hunk.after)
    return "\n".join(lines)


def _places(lines: Sequence[str], wanted: Sequence[str], start: int) -> list[int]:
    size = len(wanted)
    return [n for n in range(start, len(lines) - size + 1) if list(lines[n : n + size]) == list(wanted)]

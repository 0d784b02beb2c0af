# SPDX-License-Identifier: GPL-2.0
"""Parse TAP and KTAP: test results as lines of text, nested by indentation, possibly between other lines."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_RESULT = re.compile(r"^( *)(not )?ok (\d+)(?: ?- ?| |$)(.*)$")
_PLAN = re.compile(r"^( *)1\.\.(\d+)(?:\s*# *SKIP\b:? *(.*))?\s*$", re.IGNORECASE)
_SUBTEST = re.compile(r"^( *)# Subtest: (.*)$")
_DIRECTIVE = re.compile(r"\s*(?<!\\)# *(SKIP|TODO|XFAIL)\b:? *(.*)$", re.IGNORECASE)
_VERSION = re.compile(r"^ *K?TAP version \d+$")
_BAIL = re.compile(r"^ *Bail out!\s*(.*)$")
_INDENT = 4
_NOTE_LINES = 30


@dataclass(frozen=True)
class Tap:
    """One result with its nested results. `status` is pass, fail or skip.

    `note` has details: for a failure the last lines before it, for a skip the reason, for a pass
    its comments (`# …`).
    """

    name: str
    status: str
    note: str = ""
    children: tuple["Tap", ...] = ()


@dataclass(frozen=True)
class TapReport:
    """All top-level results, and errors of the report itself ("" parts: none)."""

    results: tuple[Tap, ...]
    problems: tuple[str, ...]
    skip_all: str | None = None


@dataclass
class _Level:
    """Results at one depth since the last result one level up."""

    results: list[Tap] = field(default_factory=list)
    plan: int | None = None
    skip_all: str | None = None
    name: str = ""


class _Parser:
    def __init__(self) -> None:
        self.levels: list[_Level] = [_Level()]
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.comments: list[str] = []

    def level(self, depth: int) -> _Level:
        while len(self.levels) <= depth:
            self.levels.append(_Level())
        return self.levels[depth]

    def feed(self, line: str) -> None:
        result, plan, subtest, bail = _RESULT.match(line), _PLAN.match(line), _SUBTEST.match(line), _BAIL.match(line)
        if result:
            self._result(len(result[1]) // _INDENT, not result[2], int(result[3]), result[4])
        elif plan:
            level = self.level(len(plan[1]) // _INDENT)
            level.plan = int(plan[2])
            level.skip_all = plan[3]
        elif subtest:
            self.level(len(subtest[1]) // _INDENT).name = subtest[2].strip()
        elif bail:
            self.problems.append(f"bailed out: {bail[1].strip() or 'no reason given'}")
        elif line.strip() and not _VERSION.match(line):
            self.notes.append(line.strip().removeprefix("#").strip())
            if line.startswith("#"):
                self.comments.append(self.notes[-1])

    def _result(self, depth: int, good: bool, number: int, text: str) -> None:
        children = self._close(depth + 1)
        directive = _DIRECTIVE.search(text)
        name = (text[: directive.start()] if directive else text).strip() or f"test {number}"
        status, note = "pass" if good else "fail", ""
        if directive and (good or directive[1].upper() != "SKIP"):
            status = "skip" if good or directive[1].upper() in ("TODO", "XFAIL") else status
            note = directive[2].strip()
        if status != "skip":
            note = "\n".join((self.notes if status == "fail" else self.comments)[-_NOTE_LINES:])
        self.notes.clear()
        self.comments.clear()
        level = self.level(depth)
        level.results.append(Tap(name, status, note, children))
        if number != len(level.results):
            self.problems.append(f"'{name}' is numbered {number}, but it is the result number {len(level.results)}")
            level.results.extend(Tap(f"test {n}", "fail", "no result") for n in range(len(level.results), number))

    def _close(self, depth: int) -> tuple[Tap, ...]:
        """End a nested list of results; deeper results without a parent result are an error."""
        if depth >= len(self.levels):
            return ()
        for deeper in self.levels[depth + 1 :]:
            if deeper.results:
                self.problems.append(f"the results after '{deeper.results[-1].name}' are missing")
        level = self.levels[depth]
        del self.levels[depth:]
        if level.plan is not None and level.plan != len(level.results):
            where = f" of '{level.name}'" if level.name else ""
            self.problems.append(f"{level.plan} results{where} were announced, {len(level.results)} came")
        return tuple(level.results)

    def finish(self) -> TapReport:
        for level in self.levels[1:]:
            if level.results or level.name:
                last = f"after '{level.results[-1].name}'" if level.results else "before the first result"
                self.problems.append(f"ended inside '{level.name}', {last}")
        top = self.levels[0]
        del self.levels[1:]
        if top.plan is None:
            self.problems.append("there is no plan line (1..N)")
        results = self._close(0)
        if top.plan == 0 and top.skip_all is None:
            self.problems.append("the plan is 1..0 without '# SKIP reason'")
        return TapReport(results, tuple(self.problems), top.skip_all if top.plan == 0 else None)


def parse_tap(lines: Iterable[str]) -> TapReport:
    """Parse TAP or KTAP; other lines are ignored."""
    parser = _Parser()
    for line in lines:
        parser.feed(line.rstrip())
    return parser.finish()


def leaves(results: Sequence[Tap], depth: int, prefix: str = "") -> list[tuple[str, Tap]]:
    """Get the results `depth` levels down (or where the nesting ends earlier), named outer.inner."""
    found: list[tuple[str, Tap]] = []
    for result in results:
        name = f"{prefix}{result.name}"
        if depth and result.children:
            found += leaves(result.children, depth - 1, f"{name}.")
        else:
            found.append((name, result))
    return found

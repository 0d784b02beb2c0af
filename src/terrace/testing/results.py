# SPDX-License-Identifier: GPL-2.0
"""Results of the tests: collect, print and sum up."""

import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from terrace import output

STATUSES = ("pass", "fail", "skip")
_DETAIL_LINES = 60


@dataclass(frozen=True)
class TestResult:
    """One test: status is pass, fail or skip; `detail` is the reason or the notes; `seconds` of
    host time, or 0.

    A failure that is `final` is never retried: a report of the kernel, a hang, wrong data, or a
    group that cannot continue. `tries` is 2 after a second try. `closes` is set on the last result
    of a unit (a program, a check) of a group whose units can run one by one: the unit is complete.
    """

    __test__ = False

    group: str
    name: str
    status: str
    detail: str = ""
    seconds: float = 0.0
    final: bool = False
    tries: int = 1
    closes: bool = False


def _shown(result: TestResult) -> dict[str, Any]:
    return {name: value for name, value in asdict(result).items() if name != "closes"}


@dataclass
class Reporter:
    """Collects the results and prints them: failures at once, the others as a line per group (or all, if `verbose`)."""

    verbose: bool = False
    stream: TextIO = field(default_factory=lambda: sys.stdout)
    results: list[TestResult] = field(default_factory=list)
    _group_started: float = 0.0

    def begin(self, group: str, what: str) -> None:
        """Start a group."""
        self._group_started = time.monotonic()
        self._print(f"{group}: {what} …")

    def note(self, text: str) -> None:
        """Print a progress line."""
        self._print(f"  {text}")

    def add(self, result: TestResult) -> None:
        """Add a result."""
        self.results.append(result)
        took = f" ({output.format_duration(result.seconds)})" if result.seconds >= 0.05 else ""
        if result.status == "fail":
            self._print(f"  {output.style('FAIL', 'red', self.stream)} {result.group}/{result.name}{took}")
            lines = result.detail.splitlines()
            for line in lines[:_DETAIL_LINES]:
                self._print(f"       {line}")
            if len(lines) > _DETAIL_LINES:
                self._print(f"       … {len(lines) - _DETAIL_LINES} more lines (-o FILE keeps all)")
        elif self.verbose:
            why = f": {result.detail.splitlines()[0]}" if result.detail and result.status == "skip" else ""
            self._print(f"  {result.status} {result.group}/{result.name}{took}{why}")
            if result.status == "pass":
                for line in result.detail.splitlines():
                    self._print(f"       {line}")

    def settle(self, first: TestResult | None, second: TestResult) -> None:
        """Replace a first result by that of the second try (None: a failure of the second try only)."""
        if first is None:
            self.add(second)
            return
        self.results[self.results.index(first)] = second
        name = f"{second.group}/{second.name}"
        if second.status == "pass":
            self._print(f"  {output.style('passed on a second try', 'yellow', self.stream)} {name}")
            return
        self._print(f"  {output.style('FAIL', 'red', self.stream)} {name}, on the second try, too")
        for line in second.detail.splitlines()[-_DETAIL_LINES:]:
            self._print(f"       {line}")

    def on_second_try(self) -> list[str]:
        """List `group/name` of tests that passed on their second try."""
        return [f"{r.group}/{r.name}" for r in self.results if r.status == "pass" and r.tries > 1]

    def print_failed(self) -> None:
        """Print the names of all failures, each once; nothing without failures."""
        failed = [f"{result.group}/{result.name}" for result in self.results if result.status == "fail"]
        if failed:
            self._print("\n".join(["failed:", *(f"  {name}" for name in dict.fromkeys(failed))]))

    def end(self, group: str) -> None:
        """End a group."""
        took = output.format_duration(time.monotonic() - self._group_started)
        self._print(f"{group}: {self.summary(group)} ({took})")
        if not self.verbose:
            for result in self.results:
                if result.group == group and result.status == "skip" and result.name == group:
                    self._print(f"  skipped: {result.detail}")

    def count(self, status: str, group: str | None = None) -> int:
        """Count the results with this status."""
        return sum(1 for r in self.results if r.status == status and group in (None, r.group))

    def summary(self, group: str | None = None) -> str:
        """`N passed, N failed, N skipped`."""
        passed, failed, skipped = (self.count(status, group) for status in STATUSES)
        return f"{passed} passed, {failed} failed, {skipped} skipped"

    def as_json(self) -> dict[str, Any]:
        """Create the complete document for --json and -o (docs/reference/test.md has the schema)."""
        return {
            "version": 1,
            "kind": "tests",
            "passed": self.count("pass"),
            "failed": self.count("fail"),
            "skipped": self.count("skip"),
            "passed_on_second_try": self.on_second_try(),
            "tests": [_shown(result) for result in self.results],
        }

    def _print(self, text: str) -> None:
        # One write: other processes may print at the same time.
        print(f"{text}\n", end="", file=self.stream, flush=True)

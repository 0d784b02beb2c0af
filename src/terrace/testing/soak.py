# SPDX-License-Identifier: GPL-2.0
"""--soak: run the same checks many times on a busy host, and count how often each passed.

A check enters the gate, or returns to it, with this evidence.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from terrace.lab.qemu import die_with_parent
from terrace.testing.results import TestResult

BUSY_LOOPS = 4


@dataclass
class Count:
    """Number of passes, failures and skips of one check; `seen` has the reasons of its failures."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seen: list[str] = field(default_factory=list)


@dataclass
class Soak:
    """The counts so far, by `group/name`."""

    rounds: int
    done: int = 0
    final: bool = False
    counts: dict[str, Count] = field(default_factory=dict)

    def run(self, one_round: Callable[[], Iterable[TestResult]], go_on: Callable[[], bool]) -> Iterator[int]:
        """Run all rounds, yielding the number of each finished one; ends early after a final failure."""
        while self.done < self.rounds and not self.final and go_on():
            for result in one_round():
                self._add(result)
            self.done += 1
            yield self.done

    def _add(self, result: TestResult) -> None:
        count = self.counts.setdefault(f"{result.group}/{result.name}", Count())
        if result.status == "pass":
            count.passed += 1
        elif result.status == "skip":
            count.skipped += 1
        else:
            count.failed += 1
            self.final |= result.final
            # The rounds end with a final failure, whose whole text is needed.
            lines = result.detail.strip().splitlines()
            told = "\n    ".join(lines if result.final else lines[:1])
            count.seen.append(f"round {self.done + 1}: {told}")

    @property
    def good(self) -> bool:
        """Whether each check passed in every round."""
        every = [count.passed == self.rounds for count in self.counts.values()]
        return self.done == self.rounds and bool(every) and all(every)

    def lines(self) -> list[str]:
        """Format `49 of 50  selftest/NAME:CHECK`, the worst first, with the failures."""
        told = []
        for name, count in sorted(self.counts.items(), key=lambda item: (item[1].passed, item[0])):
            other = [f"{n} {word}" for n, word in ((count.failed, "failed"), (count.skipped, "skipped")) if n]
            told.append(f"{count.passed} of {self.rounds}  {name}" + (f" ({', '.join(other)})" if other else ""))
            told += [f"    {text}" for text in count.seen]
        return told

    def as_json(self) -> dict[str, Any]:
        """Create the document of --json (docs/reference/schema/soak.schema.json)."""
        return {
            "version": 1,
            "kind": "soak",
            "rounds": self.rounds,
            "done": self.done,
            "busy_loops": BUSY_LOOPS,
            "checks": [
                {
                    "name": name,
                    "passed": count.passed,
                    "failed": count.failed,
                    "skipped": count.skipped,
                    "seen": count.seen,
                }
                for name, count in sorted(self.counts.items())
            ],
        }


@contextmanager
def busy_loops(count: int = BUSY_LOOPS) -> Iterator[Sequence["subprocess.Popen[bytes]"]]:
    """Run this number of processes that only use a CPU, until the context ends."""
    loops = []
    try:
        for _ in range(count):
            words = [sys.executable, "-I", "-S", "-c", "while True: pass"]
            loops.append(subprocess.Popen(words, preexec_fn=die_with_parent(signal.SIGKILL)))
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()

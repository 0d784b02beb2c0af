# SPDX-License-Identifier: GPL-2.0
"""The time left of a group of selftests, from what each program took when it ran last."""

import fcntl
import json
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path

from terrace import files, stored
from terrace.paths import build_dir
from terrace.progress import Estimate

#: Called as `ended(text, program, seconds)` when a program has ended, with its time on the host.
Ended = Callable[[str, str, float], None]

#: Lines of the file; more are reduced to the last one of each program.
_MOST_LINES = 2000


def default_path() -> Path:
    """Get the file with the time of every program that ran in this checkout."""
    return build_dir() / "test" / "selftest-times.jsonl"


class Times:
    """Host seconds of each program of a group, in a file with a JSON list `[group, program, seconds]` in each line."""

    def __init__(self, group: str, path: Path | None = None) -> None:
        """Read the file. A line that cannot be read is ignored: it costs an estimate, not a result."""
        self.group = group
        self.path = path or default_path()
        self.known = {name: seconds for (of, name), seconds in self._read().items() if of == group}

    def expected(self, programs: Sequence[str]) -> dict[str, float]:
        """Get the last time of each program; the mean of the others, or 1, for a program without one."""
        known = {program: self.known[program] for program in programs if program in self.known}
        other = sum(known.values()) / len(known) if known else 1.0
        return {program: known.get(program, other) for program in programs}

    def add(self, program: str, seconds: float) -> None:
        """Keep the time of a program for the next run."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The lock: another process may replace the file between open() and write().
        with stored.locked(self.path.parent, fcntl.LOCK_EX), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([self.group, program, round(seconds, 3)]) + "\n")

    def _read(self) -> dict[tuple[str, str], float]:
        found, lines = self._parse()
        if lines > _MOST_LINES:
            with stored.locked(self.path.parent, fcntl.LOCK_EX):
                found, _ = self._parse()  # again: another process may have added lines before the lock
                text = "".join(json.dumps([*key, seconds]) + "\n" for key, seconds in found.items())
                files.replace(self.path, text.encode())
        return found

    def _parse(self) -> tuple[dict[tuple[str, str], float], int]:
        """Get the last time of each program, by group and name, and the number of lines."""
        found: dict[tuple[str, str], float] = {}
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return found, 0
        for line in lines:
            try:
                group, program, seconds = json.loads(line)
                found[str(group), str(program)] = max(0.001, float(seconds))
            except (ValueError, TypeError):
                continue
        return found, len(lines)


def numbered(note: Callable[[str], None], times: Times, programs: Sequence[str], keep: bool = True) -> Ended:
    """Get a function that notes the end of a program with its number and the time left.

    Lanes, which are processes, share the numbers and the estimate. `keep`: keep the time of each program for the
    next run.
    """
    fork = get_context("fork")
    number = fork.Value("i", 0)
    done = fork.Value("d", 0.0)
    weights = times.expected(programs)
    estimate = Estimate(sum(weights.values()), fork.Array("d", 2, lock=False))
    began = time.monotonic()

    def ended(text: str, program: str, seconds: float) -> None:
        if keep:
            times.add(program, seconds)
        with number.get_lock():
            number.value += 1
            done.value += weights[program]
            left = estimate.text(done.value, time.monotonic() - began)
            note(f"{text}, {number.value} of {len(programs)}{left}")

    return ended

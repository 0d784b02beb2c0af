# SPDX-License-Identifier: GPL-2.0
"""The results of a run of the suite so far, in a file, so that the same command continues an
interrupted run.

Each line is JSON: first the command, then every result, and the end of every group. The results of
an interrupted group are kept for its complete units (a program, a check).
"""

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from terrace.host import clean_env
from terrace.paths import build_dir, repo_root
from terrace.testing.results import TestResult

# Results without a program: kernel messages outside of programs, and leaks.
_OF_A_MACHINE = ("machine:", "kmemleak:")
_NOT_THE_TREE = ("build", ".git", "__pycache__")


def unit_of(name: str) -> str:
    """Get the part of a check's name that identifies its unit."""
    return name.partition(":")[0]


class Journal:
    """One run of the suite; `kept` are the results of finished groups, and of complete units of others."""

    def __init__(self, tree: str, words: Mapping[str, Any], path: Path | None = None, afresh: bool = False) -> None:
        """Continue the run of this command, in its own file, if it was of this tree; otherwise start a new one."""
        name = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:8]
        self.path = path or build_dir() / "test" / f"suite-{name}.jsonl"
        self.tree = tree
        self.ended: set[str] = set()
        self.kept: list[TestResult] = []
        self.began = time.time()
        #: Start of a run that cannot be continued because the tree has changed.
        self.given_up: float | None = None
        lines = [] if afresh else list(self._read())
        if len(lines) > 1 and lines[0].get("tree") == self.tree:
            self.began = lines[0]["began"]
            self._take(lines[1:])
        elif len(lines) > 1:
            self.given_up = lines[0].get("began")
        self.resumed = bool(self.kept or self.ended)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Rewritten without the dropped results, and replaced in one step.
        fresh = self.path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as file:
            for line in self._lines():
                file.write(json.dumps(line) + "\n")
        fresh.replace(self.path)

    def add(self, result: TestResult) -> None:
        """Add a result."""
        self._append({"result": asdict(result)})

    def end(self, group: str) -> None:
        """Mark a group as finished."""
        self.ended.add(group)
        self._append({"end": group})

    def finish(self) -> None:
        """Mark the run as finished: the next run is a new one."""
        self.path.unlink(missing_ok=True)

    def kept_of(self, group: str) -> list[TestResult]:
        """Get the results of a group that need not run again."""
        return [result for result in self.kept if result.group == group]

    def done_of(self, group: str) -> frozenset[str]:
        """Get the units of an interrupted group that need not run again."""
        return frozenset(unit_of(result.name) for result in self.kept_of(group) if result.closes)

    def _take(self, lines: Sequence[Mapping[str, Any]]) -> None:
        results = [TestResult(**line["result"]) for line in lines if "result" in line]
        self.ended = {line["end"] for line in lines if "end" in line}
        closed = {(result.group, unit_of(result.name)) for result in results if result.closes}
        self.kept = [
            result
            for result in results
            if result.group in self.ended
            or (result.group, unit_of(result.name)) in closed
            or result.name.startswith(_OF_A_MACHINE)
        ]

    def _lines(self) -> Iterator[dict[str, Any]]:
        yield {"tree": self.tree, "began": self.began}
        yield from ({"result": asdict(result)} for result in self.kept)
        yield from ({"end": group} for group in sorted(self.ended))

    def _read(self) -> Iterator[dict[str, Any]]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except OSError:
            return
        for line in text.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                # The last line, if the machine crashed.
                return

    def _append(self, line: Mapping[str, Any]) -> None:
        # One write, so that no line is incomplete if this process is killed.
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def tree_hash(root: Path | None = None) -> str:
    """Hash every file of the checkout that git does not ignore."""
    base = root or repo_root()
    digest = hashlib.sha256()
    for name in _files(base):
        path = base / name
        if path.is_file():
            digest.update(f"{name}\0{path.stat().st_mode & 0o111:o}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files(base: Path) -> list[str]:
    words = ["git", "-C", str(base), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(words, capture_output=True, check=False, env=clean_env())
    if done.returncode == 0:
        return sorted({name for name in done.stdout.decode().split("\0") if name})
    found = []
    for folder, folders, files in os.walk(base):
        folders[:] = [name for name in folders if name not in _NOT_THE_TREE]
        found += [str((Path(folder) / name).relative_to(base)) for name in files]
    return sorted(found)

# SPDX-License-Identifier: GPL-2.0
"""KUnit in the booted kernel: the results as KTAP in the kernel log."""

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace.lab.console import plain_lines
from terrace.lab.run import GuestResult, run_in_guest
from terrace.paths import repo_root
from terrace.testing.results import TestResult
from terrace.testing.tap import TapReport, leaves, parse_tap

# The result for the kernel itself: it did not boot, crashed, or printed a report.
KERNEL = "kernel"
_SUITE_DEPTH = 1
_SUITE = re.compile(r'^\s*\.name\s*=\s*"([^"]+)"', re.MULTILINE)
_CASE = re.compile(r"\bKUNIT_CASE(?:_[A-Z]+)*\((\w+)")


def policy_names() -> list[str]:
    """Get suite.case of the tests that also run in user space: of the files in the Makefile of mtier."""
    text = (repo_root() / "linux/tools/testing/mtier/Makefile").read_text(encoding="utf-8")
    return kunit_names(set(re.findall(r"\w+_kunit\b", text)))


def kunit_names(files: Container[str] | None = None) -> list[str]:
    """Get suite.case of the overlay's KUnit tests, or of those in `files`, found without building them."""
    names: list[str] = []
    for path in sorted((repo_root() / "linux").rglob("*kunit*.c")):
        if files is not None and path.stem not in files:
            continue
        text = path.read_text(encoding="utf-8")
        suites = _SUITE.findall(text)
        names += [f"{suites[0] if len(suites) == 1 else path.stem}.{case}" for case in _CASE.findall(text)]
    return names


@dataclass(frozen=True)
class KunitRun:
    """One boot with KUnit: `glob` picks suites (or suite.test), '' all."""

    vmlinux: Path
    glob: str = ""
    topology: str = "dram-cxl"
    append: Sequence[str] = ()
    timeout_s: float = 600.0


def run_kunit(run: KunitRun, group: str = "kunit") -> Iterator[TestResult]:
    """Boot, and get the result of every test; a kernel without tests, a crash and a kernel report are failures."""
    append = ["kunit.enable=1", *([f"kunit.filter_glob={run.glob}"] if run.glob else []), *run.append]
    guest = run_in_guest(run.vmlinux, run.topology, ["true"], append=append, timeout_s=run.timeout_s)
    yield from judge_kunit(guest, group)


def judge_kunit(guest: GuestResult, group: str) -> Iterator[TestResult]:
    """Get the results in the log of a boot."""
    report = _read_log(guest.console_log)
    for name, result in leaves(report.results, _SUITE_DEPTH):
        yield TestResult(group, name, result.status, result.note)
    problems = list(report.problems)
    if guest.verdict != "ok":
        problems.insert(0, guest.explain())
    elif not report.results:
        problems.insert(0, "this kernel ran no KUnit test (none is built in, or the glob matches none)")
    for found in guest.reports:
        problems += [f"the kernel reported: {found.title}", *found.lines]
    if problems:
        yield TestResult(group, KERNEL, "fail", "\n".join(problems), guest.run_s, final=True)


def _read_log(log: str) -> TapReport:
    """Get the log from its first KTAP line on."""
    lines = plain_lines(log)
    start = next((number for number, line in enumerate(lines) if line.startswith("KTAP version")), len(lines))
    return parse_tap(lines[start:])

# SPDX-License-Identifier: GPL-2.0
"""Run the checks that mutants name, on one kernel or one copy of the checkout, and collect their
results.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import TerraceError
from terrace.host import clean_env
from terrace.paths import repo_root
from terrace.testing.host_groups import run_policy, run_pytest_in
from terrace.testing.kunit import KERNEL, KunitRun, run_kunit
from terrace.testing.mutants.read import Target
from terrace.testing.programs import Program, find_programs
from terrace.testing.results import TestResult
from terrace.testing.selftest import STATE_CHECK, SelftestRun, run_selftests

#: Phrases of a failure of the whole kernel, which is independent of the test that ran.
_OF_THE_KERNEL = ("the kernel reported:", "while this ran,", "was killed by signal")


@dataclass(frozen=True)
class Seen:
    """Result of a check: status is pass, fail, skip or none (it did not run); `said` is its first
    message.

    `shared` is set if the kernel itself failed: another mutant of the same kernel may be the cause.
    """

    status: str
    said: str = ""
    shared: bool = False


def observe(vmlinux: Path, targets: Iterable[Target], note: Callable[[str], None]) -> dict[Target, Seen]:
    """Run the checks of these mutants that need a kernel, and return their results."""
    wanted = sorted({target for target in targets if target.in_guest})
    results = list(_selftests(vmlinux, [t for t in wanted if t.group == "selftest"], note))
    if any(target.group == "kunit" for target in wanted):
        note("booting for KUnit")
        results += run_kunit(KunitRun(vmlinux))
    return {target: judge(target, results) for target in wanted}


def _selftests(vmlinux: Path, targets: Sequence[Target], note: Callable[[str], None]) -> Iterator[TestResult]:
    """Select programs that are named as a whole, then single checks of the other programs."""
    whole = {target.unit for target in targets if target.check in ("", STATE_CHECK)}
    parts = [target for target in targets if target.unit not in whole]
    programs = {program.name: program for program in find_programs()}
    for names, only in ((whole, ()), ({t.unit for t in parts}, tuple(t.check for t in parts))):
        chosen: list[Program] = [programs[name] for name in sorted(names)]
        if chosen:
            run = SelftestRun("selftest", vmlinux, only=only, note=note)
            yield from run_selftests(run, chosen)


def judge(target: Target, results: Sequence[TestResult]) -> Seen:
    """Derive the result of one check from the results of all tests that ran together."""
    mine = [r for r in results if r.group == target.group and _is_of(target, r.name)]
    named = [r for r in mine if r.name != _whole(target) and _named(target, r.name)]
    for failed in (r for r in named if r.status == "fail"):
        return Seen("fail", f"{failed.name.removeprefix(target.unit).lstrip(':.')}: {_reason(target, failed.detail)}")
    broken = next((r for r in mine if r.name == _whole(target) and r.status == "fail"), None)
    if broken and (not named or broken.final):
        said = _first(broken.detail)
        return Seen("fail", said, shared=target.group == "kunit" or said.startswith(_OF_THE_KERNEL))
    for dead in (r for r in results if r.name.startswith("machine:") and r.status == "fail"):
        if not mine or _first(dead.detail).startswith(_OF_THE_KERNEL):
            return Seen("fail", _first(dead.detail), shared=True)
    for status in ("pass", "skip"):
        if any(r.status == status for r in named):
            return Seen(status, next(_first(r.detail, "") for r in named if r.status == status))
    return Seen("none", "no such result")


def _whole(target: Target) -> str:
    """Get the name of the result for a whole program, or for the kernel that runs KUnit."""
    return KERNEL if target.group == "kunit" else target.unit


def _is_of(target: Target, name: str) -> bool:
    sign = {"selftest": ":", "unit": "::"}.get(target.group, ".")
    return name == _whole(target) or name.startswith(f"{target.unit}{sign}")


def _named(target: Target, name: str) -> bool:
    return target.check in name.removeprefix(target.unit)


def _lines(detail: str) -> list[str]:
    """Get the lines with a message, without those with a duration."""
    lines = [line.strip() for line in detail.splitlines()]
    return [line for line in lines if line and not (line[:1].isdigit() and line.endswith(" s"))]


def _first(detail: str, otherwise: str = "failed") -> str:
    return next(iter(_lines(detail)), otherwise)


def _reason(target: Target, detail: str) -> str:
    """Get the reason of a failure: a selftest prints notes and ends with the error; KUnit and
    pytest mark it.
    """
    lines = _lines(detail)
    if target.group == "selftest" and lines and target.check != STATE_CHECK:
        return lines[-1]
    marked = (line.removeprefix("E ").strip() for line in lines if line.startswith("E ") or " FAILED at " in line)
    return next(marked, _first(detail))


def observe_host(
    changed: Mapping[str, str], targets: Iterable[Target], note: Callable[[str], None]
) -> dict[Target, Seen]:
    """Run checks on the host in a copy of the checkout with these overlay files changed."""
    wanted = sorted({target for target in targets if not target.in_guest})
    if not wanted:
        return {}
    note("the host's checks")
    results: list[TestResult] = []
    with _copy(changed) as checkout:
        if any(target.group == "policy" for target in wanted):
            results += run_policy(lambda name: True, root=checkout, out=checkout / "build" / "policy")
        for target in (target for target in wanted if target.group == "unit"):
            node = f"{target.unit}::{target.check}" if target.check else target.unit
            results += run_pytest_in(checkout, node)
    return {target: _judge_host(target, results) for target in wanted}


def _judge_host(target: Target, results: Sequence[TestResult]) -> Seen:
    broken = next((r for r in results if r.group == target.group and r.name in ("make-check", "pytest")), None)
    if broken and "error:" in broken.detail:
        raise TerraceError(broken.detail)
    seen = judge(target, results)
    return Seen("fail", _first(broken.detail)) if seen.status == "none" and broken else seen


@contextmanager
def _copy(changed: Mapping[str, str]) -> Iterator[Path]:
    """Copy the checkout's files into a new folder, with some overlay files changed."""
    words = ["git", "-C", str(repo_root()), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, capture_output=True, check=True, env=clean_env()).stdout.decode().split("\0")
    with tempfile.TemporaryDirectory(prefix="terrace-mutant-") as scratch:
        for name in filter(None, listed):
            source, place = repo_root() / name, Path(scratch) / name
            if source.is_file():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, place)
        for path, text in changed.items():
            if (Path(scratch) / "linux" / path).is_file():
                (Path(scratch) / "linux" / path).write_text(text, encoding="utf-8")
        (Path(scratch) / "build").mkdir()
        yield Path(scratch)

# SPDX-License-Identifier: GPL-2.0
"""The group of measurements: an experiment from end to end with its checks, and the timing model itself."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from terrace.bench import experiment, shape, store
from terrace.bench.session import flavours_of
from terrace.kernel.build import build
from terrace.paths import repo_root
from terrace.testing.model_check import model_names, run_model_check
from terrace.testing.results import TestResult
from terrace.testing.select import Selector

NAME = "smoke"
_LIMIT_S = 900


def bench_names() -> list[str]:
    """List the experiment's cells, the checks on all of them, and rows of the model's validation."""
    return [*_smoke_names(), *model_names()]


def _smoke_names() -> list[str]:
    return [NAME, *(f"{NAME}/{cell.name}" for cell in experiment.load(NAME).cells())]


def run_bench(wanted: Selector, group: str = "bench") -> Iterator[TestResult]:
    """Measure all cells of the smoke experiment anew, then some runs of the validation."""
    if any(wanted(f"{group}/{name}") for name in _smoke_names()):
        yield from _run_smoke(group)
    yield from run_model_check(wanted, group)


def _run_smoke(group: str) -> Iterator[TestResult]:
    """Every check of the results is a test."""
    # No shared progress and no time limit: a first build takes longer than all cells.
    smoke = experiment.load(NAME)
    for flavour in sorted(flavours_of(smoke.cells())):
        build(flavour)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="terrace-test-bench-") as folder:
        words = [str(repo_root() / "terrace"), "bench", "run", NAME, "--again", "--results", folder]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            yield TestResult(group, NAME, "fail", f"did not end within {_LIMIT_S} s")
            return
        found = store.read_all(Path(folder))
    checks = shape.check(found, experiment.load(NAME).tolerance)
    for check in checks:
        yield TestResult(group, f"{NAME}: {check.text}", "pass" if check.met else "fail")
    broken = any(not check.met for check in checks)
    problem = f"ended with {done.returncode}\n{done.stderr}" if done.returncode and not broken else ""
    yield TestResult(group, NAME, "fail" if problem else "pass", problem, time.monotonic() - began)

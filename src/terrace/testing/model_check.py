# SPDX-License-Identifier: GPL-2.0
"""Measure the timing model again and compare it with published figures: a few runs of `bench
validate`, each row a test.

Each row has the tolerance of the table (terrace.bench.published), so that a change of the model
that makes a row worse is detected. The runs are of a machine with two tiers, and of one with mixed
traffic.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from terrace.bench.published import PUBLISHED, Published, Row
from terrace.bench.validate import Run, find_runs, read_results, run_and_write
from terrace.errors import TerraceError
from terrace.testing.results import TestResult
from terrace.testing.select import Selector

RUNS = ("stream-dram", "stream-cxl", "stream-interleave", "mlc-w2-dram")
# One kernel is enough: the test is of the model, not of the kernel.
_KERNEL = "terrace"


def model_names() -> list[str]:
    """List the rows to check."""
    return [_name(published) for published in _rows()]


def run_model_check(
    wanted: Selector, group: str, measure: Callable[[Run, Path, str], Path] = run_and_write
) -> Iterator[TestResult]:
    """Measure each run that the wanted rows need, once; a row with a larger deviation than recorded fails."""
    rows = [published for published in _rows() if wanted(f"{group}/{_name(published)}")]
    names = {name for published in rows for name in published.needs}
    lost: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="terrace-test-model-") as name:
        began = time.monotonic()
        for run in find_runs(sorted(names)) if names else ():
            try:
                measure(run, Path(name), _KERNEL)
            except TerraceError as error:
                lost[run.name] = str(error)
        results = read_results(Path(name))
    took = (time.monotonic() - began) / max(1, len(rows))
    for published in rows:
        row = published.row(results)
        problem = _problem(row) if row else "\n".join(lost[name] for name in published.needs if name in lost)
        yield TestResult(group, _name(published), "fail" if problem else "pass", problem, took)


def _rows() -> list[Published]:
    return [published for published in PUBLISHED if set(published.needs) <= set(RUNS)]


def _name(published: Published) -> str:
    return f"model: {published.what}"


def _problem(row: Row) -> str:
    if not row.worse:
        return ""
    return f"published {row.published}, modelled {row.modelled}: {row.error}, and may be off by {row.limit:.1f}"

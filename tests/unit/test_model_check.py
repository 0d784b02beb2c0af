# SPDX-License-Identifier: GPL-2.0
"""The suite's check of the timing model: which rows it measures, and what it fails."""

from pathlib import Path
from typing import Any

from test_validate import MACHINE, write

from terrace.bench.validate import Run
from terrace.errors import TerraceError
from terrace.testing.bench_group import bench_names
from terrace.testing.model_check import model_names, run_model_check


def fake(speed: float) -> Any:
    """A measuring that finds all of Stream and MLC at `speed` times the published ones."""

    def measure(run: Run, folder: Path, flavour: str) -> Path:
        assert flavour == "terrace"
        if run.name == "stream-cxl":
            raise TerraceError("stream-cxl: the guest stopped answering")
        rate = {"stream-dram": 205.1, "stream-interleave": 205.1 * 0.22}.get(run.name, 298.8) * speed
        moved = 10 * (48 << 20) / 3 * 3 if run.workload == "stream" else 1e9
        traffic = {"bytes_read": moved, "bytes_written": 0}
        ns = moved * 10 / rate
        region = {"modelled_ns": ns, "cpu_app_ns": [ns, 0]}
        return write(run, folder, machine=MACHINE, workload={"ops": 3, "traffic": traffic}, region=region)

    return measure


def test_the_suite_measures_some_rows_anew_and_fails_what_is_worse() -> None:
    assert set(model_names()) <= set(bench_names())
    results = {result.name: result for result in run_model_check(lambda name: True, "bench", fake(1.0))}
    assert list(results) == model_names()
    assert [name for name, result in results.items() if result.status == "fail"] == ["model: Stream, CXL only"]
    assert results["model: Stream, CXL only"].detail == "stream-cxl: the guest stopped answering"
    slow = {result.name: result for result in run_model_check(lambda name: "DRAM only" in name, "bench", fake(0.5))}
    assert list(slow) == ["model: Stream, DRAM only", "model: MLC W2, DRAM only"]
    assert all(result.status == "fail" for result in slow.values())
    assert "published 205.1 GB/s, modelled 102.5 GB/s: -50.0 %" in slow["model: Stream, DRAM only"].detail
    assert list(run_model_check(lambda name: False, "bench", fake(1.0))) == []

# SPDX-License-Identifier: GPL-2.0
"""The timing model beside published figures: what is judged, what is too little to judge, what is worse than known."""

import json
from pathlib import Path
from typing import Any

import pytest

from terrace.__main__ import main
from terrace.bench import loaded_latency, published
from terrace.bench.validate import RUNS, SCHEMA, VERSION, Run, find_runs, is_finished, read_results
from terrace.cli import bench
from terrace.errors import UsageError

MACHINE = {"accesses": [{"from": 0, "to": 0, "latency_ps": 110000}], "window_ps": 20000000, "cores_per_cpu": 10}


def point(misses: int, latency: float, utilisation: float) -> dict[str, Any]:
    prober = {"llc_miss": misses, "memory_stall_ns": misses * latency * 110, "insns": 3 * misses}
    region = {"last_cpu_app": prober, "nodes": {"0": {"utilisation_mean": utilisation}}}
    return {"machine": MACHINE, "region": region}


def stretch(what: str) -> loaded_latency.Stretch:
    return next(one for one in loaded_latency.STRETCHES if one.what.startswith(what))


def test_a_latency_of_twenty_misses_is_not_measured() -> None:
    """curve-3: the prober had 20 misses, and the row was judged by their 0.21 idle latencies."""
    results = {"curve-3": point(20, 0.21, 0.53)}
    look = stretch("40").look(results)
    assert look == loaded_latency.Look("53% not measured: 20 misses of 17,455", "not measured", None)
    results["curve-0"] = point(17_455, 1.14, 0.52)
    look = stretch("40").look(results)
    assert look is not None
    assert (look.verdict, look.off) == ("within", 0)
    assert look.text == "1.14 to 1.14 x idle, at 52% to 52%; 53% not measured: 20 misses of 17,455"
    row = next(row for row in published.validation_table({"curve-3": results["curve-3"]}))
    assert (row.error, row.off, row.worse) == ("not measured", None, False)


@pytest.mark.parametrize(
    ("latency", "utilisation", "off"),
    [(1.0, 0.2, 0.0), (1.3, 0.2, 20.0), (0.5, 0.2, 40.0), (1.9, 0.7, 0.0), (2.5, 0.7, 50.0), (1.5, 0.9, 50.0)],
)
def test_a_point_outside_of_the_curve_is_off_by_its_distance(latency: float, utilisation: float, off: float) -> None:
    looks = [one.look({"curve-0": point(100_000, latency, utilisation)}) for one in loaded_latency.STRETCHES]
    (look,) = [look for look in looks if look]
    assert look.off == pytest.approx(off)
    assert look.verdict == ("outside" if off else "within")


def figure(known: float | None, unit: str = "GB/s") -> published.Published:
    return published.Published("Speed", "m", unit, known, 100, 100, ("run",), lambda results: results["run"]["got"])


@pytest.mark.parametrize(
    ("known", "got", "worse"),
    [(0.0, 102, False), (0.0, 104, True), (0.0, 96, True), (5.0, 107, False), (5.0, 109, True), (None, 200, False)],
)
def test_a_row_is_worse_when_it_is_off_by_more_than_known(known: float | None, got: int, worse: bool) -> None:
    row = figure(known).row({"run": {"got": got}})
    assert row is not None
    assert row.worse is worse
    assert bool(published.worse_lines([row])) is worse
    assert figure(known).row({}) is None


def test_what_is_written_down_as_known_is_what_the_results_give() -> None:
    """Nobody types it: it is set when the results are measured again."""
    rows = published.validation_table(read_results())
    assert rows
    given = {row.what: (row.known, row.off) for row in rows if row.off is not None}
    wrong = {what: pair for what, pair in given.items() if pair[0] is None or abs(pair[0] - pair[1]) > 0.1}
    assert not wrong, "set `known` in src/terrace/bench/published.py and loaded_latency.py to the second of each"


# ---- runs ----


def test_a_run_that_is_not_there_is_named() -> None:
    assert [run.name for run in find_runs(["curve-3", "stream-dram"])] == ["stream-dram", "curve-3"]
    assert find_runs([]) == list(RUNS)
    with pytest.raises(UsageError, match="there is no run 'x'; there are stream-dram"):
        find_runs(["x"])


def write(run: Run, folder: Path, **more: Any) -> Path:
    words = {"name": run.name, "machine": run.machine, "policy": run.policy, "workload": run.workload}
    document = {"schema": SCHEMA, "version": VERSION, "run": {**words, "options": list(run.options)}, **more}
    path = folder / f"{run.name}.json"
    path.write_text(json.dumps(document))
    return path


def test_a_result_of_other_options_is_not_that_of_a_run(tmp_path: Path) -> None:
    (run,) = find_runs(["curve-3"])
    assert not is_finished(run, tmp_path)
    write(run, tmp_path)
    assert is_finished(run, tmp_path)
    write(Run(run.name, run.machine, run.policy, run.workload, ("--size", "1M")), tmp_path)
    assert not is_finished(run, tmp_path)


def test_the_table_is_printed_and_says_by_its_exit_code_what_is_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "validate", "table"]) == 0
    assert capsys.readouterr().out == published.table_text(published.validation_table(read_results()))
    # 3 x 10 x 16 MiB x 10 / 5e6 ns: ten times as fast as published.
    (run,) = find_runs(["stream-dram"])
    write(run, tmp_path, machine=MACHINE, workload={"ops": 3}, region={"modelled_ns": 2.4e6})
    assert main(["bench", "validate", "table", "--results", str(tmp_path)]) == 1
    assert "worse than known: Stream, DRAM only: +" in capsys.readouterr().err
    assert main(["bench", "validate", "table", "stream-dram"]) == 2
    assert main(["bench", "validate", "run", "nobody"]) == 2


def test_validate_needs_no_packages() -> None:
    import argparse

    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    assert not bench.needs_packages(parser.parse_args(["validate", "run", "stream-dram"]))

# SPDX-License-Identifier: GPL-2.0
"""The published results match the files, and the figures match the output of guests and plugin."""

import json
from fractions import Fraction

import pytest
from bench_results import TEXT, document, experiment, full_set

import strict_schema
from terrace.bench import report, scale, store, tables
from terrace.bench.figures import figures_of, printed
from terrace.bench.policies import POLICIES
from terrace.bench.reading import Reading
from terrace.paths import repo_root

ROOT = repo_root()


def test_the_published_page_is_made_of_the_results() -> None:
    found = [(item, store.read_all(item.folder / "results")) for item in report.experiments()]
    assert (ROOT / "docs/results.md").read_text() == report.text(found, report.validation()), (
        "run ./terrace bench report"
    )
    for item, documents in found:
        if report.has_picture(item, documents):
            assert (ROOT / "docs" / report.picture_name(item)).is_file()


def test_published_results_follow_their_schema() -> None:
    schema = json.loads((ROOT / "docs/reference/schema/cell.schema.json").read_text())
    for item in report.experiments():
        for found in store.read_all(item.folder / "results"):
            strict_schema.validate(found, schema)


def test_a_section_has_the_table_what_failed_and_what_is_missing() -> None:
    failed = document("stock-2", 1.0, 2, status=store.FAILED, error="the guest stopped answering\nmore")
    found = [doc for doc in full_set() if doc["cell"] != failed["cell"] and doc["key"]["policy"] != "oracle"]
    page = report.text([(experiment(), [*found, failed])])
    assert "| terrace | 2 | 1.500 | 75.0 |" in page
    assert "- **failed**: `32M-dram1of2-stock-2-seed2`: the guest stopped answering\n" in page
    assert "8 of 10 cells are measured; `./terrace bench run x` measures the rest." in page
    assert "## x" not in report.text([(experiment(), [])])


def test_the_command_for_missing_cells_has_the_sources_of_a_public_program() -> None:
    item = experiment(TEXT.replace('workload = "abench"', 'workload = "xsbench"'))
    assert item.workload == "xsbench"
    assert "`./terrace bench run x --xsbench DIR` measures the rest." in report.text([(item, full_set()[1:])])


def test_the_line_through_costs_by_size() -> None:
    item = experiment(TEXT.replace('["32M"]', '["32M", "64M"]').replace('report = "policies"', ""))
    small = document("terrace", 1.0, scan_insns=1e6, kernel_insns=32e6)
    large = document("terrace", 1.0, scan_insns=4e6, kernel_insns=64e6, cell="64M-dram1of2-terrace-seed1")
    large["key"]["size"] = 64 << 20
    groups = tables.groups(item, [small, large])
    cost = scale.per_gib(groups[0], "terrace", "scan_insns")
    assert cost is not None
    assert cost.value == pytest.approx(32.0)  # 1 M for a 32nd of a GiB
    scan, kernel = (scale.growth(groups, "terrace", name) for name in ("scan_insns", "kernel_insns"))
    assert scan is not None
    assert kernel is not None
    assert (scan.slope, kernel.slope) == pytest.approx((2.0, 1.0))
    lines = scale.scale_text(item, groups)
    assert any("| terrace | scanner | 32.0 | 64.0 | 2.00" in line for line in lines)
    assert not any("| stock-2 |" in line for line in lines)


RESULT = {
    "schema": "terrace.workload",
    "version": 1,
    "elapsed_ns": 3_000_000_000,
    "ops": 7,
    "samples": [[0, 0, 100], [100, 20, 100], [200, 60, 100]],
    "scan_began_ms": 40.0,
    "vmstat": {"pgpromote_success": 60, "pgdemote_kswapd": 4, "pgdemote_direct": 1, "pgmigrate_success": 80},
    "kthreads": [{"name": "kmtierd", "cpu_ns": 5}],
    "shootdowns": 20,
    "latency_ns": {"p50": 1, "p99": 2, "p999": 3, "max": 4},
}
READING = Reading(
    kinds={"app": (1000, 10), "kmtierd": (0, 30), "kswapd": (0, 50), "sampler": (5, 500), "idle": (0, 900)},
    modelled_s=2.0,
    fast_hit_ratio=0.25,
    kernel_seconds={"kmtierd": 0.01, "kswapd": 0.5},
)


def test_figures_are_of_the_load_and_the_kernel_not_of_the_measuring() -> None:
    found = figures_of(POLICIES["terrace"], Fraction(1, 2), printed(RESULT), READING)
    wanted = {
        "modelled_s": 2.0,
        "guest_s": 3.0,
        "clock_ratio": 1.5,
        "scan_began_s": 0.04,
        "to_50_s": 0.1125,  # a quarter of the pages is half of what fits
        "to_90_s": 0.1625,
        "promoted_pages": 60,
        "demoted_pages": 5,
        "moved_pages": 80,
        "ipis_per_page": 0.25,
        "kernel_insns": 90,
        "scan_insns": 30,
        "scan_cpu": 0.005,
        "p999_ns": 3,
        "final_share": 0.6,
    }
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)


def test_nothing_moved_is_nothing_to_divide_by() -> None:
    still = {**RESULT, "vmstat": {}, "samples": [[0, 0, 0]]}
    found = figures_of(POLICIES["stock-0"], None, printed(still), READING)
    assert found["ipis_per_page"] is None
    assert found["to_90_s"] is None
    with pytest.raises(ValueError, match="schema 'terrace.abench/1'"):
        printed({**RESULT, "schema": "terrace.abench/1"})

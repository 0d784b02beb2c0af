# SPDX-License-Identifier: GPL-2.0
"""The demo's measuring, in the guest: pages come to DRAM, and instructions count for those who executed them."""

from pathlib import Path

import pytest

from terrace.demo import cases
from terrace.demo.runner import Outcome, run_cases
from terrace.kernel.build import Kernel
from terrace.lab.plugin import read_symbols

LOAD = cases.Workload(16 << 20, threads=2)
ON = next(case for case in cases.MAIN if case.name == "terrace").knobs


@pytest.fixture(scope="module")
def runs(vmlinux: Path) -> list[Outcome]:
    """The same load twice."""
    if "mtier_burst_thread" not in read_symbols(vmlinux):
        pytest.skip("this kernel has no promotion engine")
    kernel = Kernel(vmlinux, vmlinux, "", "", "terrace", "", "")
    twice = [cases.Case(name, name, "terrace", ON) for name in ("first", "second")]
    return run_cases(twice, LOAD, {"terrace": kernel}, "abench twice")


def test_all_pages_come_to_dram_with_their_contents(runs: list[Outcome]) -> None:
    for run in runs:
        assert run.result["placed_first"]["on_start_node"] == LOAD.pages
        assert run.result["placed_last"]["in_dram"] >= LOAD.pages * 95 // 100
        assert run.figures.promoted_pages >= LOAD.pages * 95 // 100
        assert run.figures.to_95_s is not None
        assert run.result["bad_contents"] == 0


def test_the_applications_instructions_are_those_of_its_loop(runs: list[Outcome]) -> None:
    for run in runs:
        visits = sum(thread["visits"] for thread in run.result["threads"])
        assert run.counts["app"].user == pytest.approx(visits * cases.INSNS_PER_VISIT, rel=0.02)


def test_all_instructions_together_are_the_guests_time(runs: list[Outcome]) -> None:
    for run in runs:
        insns = sum(counts.user + counts.kernel for counts in run.counts.values())
        assert insns / cases.INSNS_PER_S == pytest.approx(run.figures.elapsed_s, rel=0.02)


def test_the_engine_works_in_a_thread_of_its_own(runs: list[Outcome]) -> None:
    for run in runs:
        assert run.figures.hint_faults == 0
        assert run.counts["kmtierd"].kernel > 2000 * LOAD.pages
        assert run.counts["kmtierd"].user == 0
        assert run.counts["app"].kernel < run.counts["kmtierd"].kernel / 2


def test_two_runs_of_one_seed_agree(runs: list[Outcome]) -> None:
    first, second = (run.figures for run in runs)
    assert first.app_insns == pytest.approx(second.app_insns, rel=0.01)
    assert first.elapsed_s == pytest.approx(second.elapsed_s, rel=0.03)

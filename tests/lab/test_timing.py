# SPDX-License-Identifier: GPL-2.0
"""The timing plugin in a guest: accesses are where the pages are, and the same run takes the same modelled time."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import strict_schema
from terrace.bench.clock import clock_ratio, within_tolerance
from terrace.bench.ledger import Ledger, Region, read_ledger
from terrace.lab.plugin import TimingOptions, compile_plugin, read_symbols, timing_argument
from terrace.lab.run import choose_topology, run_in_guest
from terrace.lab.workloads import ARENA, find_workload
from terrace.paths import repo_root

PAGES = (16 << 20) // 4096
# Long enough that a timer interrupt more or less is no part of what is compared.
ITERATIONS = 256
SHIFT = 1


@dataclass(frozen=True)
class Timed:
    result: dict[str, Any]
    ledger: Ledger
    pages: dict[int, int]

    @property
    def region(self) -> Region:
        return self.ledger.region()


def run(vmlinux: Path, folder: Path, *options: str, thread: str = "single", drives: bool = False) -> Timed:
    """abench on 16M."""
    topology = choose_topology("dram-cxl")
    ledger, pages = folder / "ledger.json", folder / "pages"
    words = [str(find_workload("abench").compile()), "--size", "16M", "--threads", "2", "--pin"]
    words += ["--set", "/proc/sys/kernel/numa_balancing=0", "--json", "workload", *options]
    argument = timing_argument(
        compile_plugin("timing"),
        read_symbols(vmlinux),
        topology,
        TimingOptions(ledger, series_ms=1, pages=pages, drives=drives),
        folder / "machine",
    )
    shift = SHIFT if thread == "single" else None
    guest = run_in_guest(vmlinux, topology, words, cwd="/", env={}, icount_shift=shift, plugin=argument, timeout_s=300)
    assert guest.exit_code == 0, guest.explain() or guest.stderr
    schema = json.loads((repo_root() / "docs" / "reference" / "schema" / "ledger.schema.json").read_text())
    strict_schema.validate(json.loads(ledger.read_text()), schema)
    counts = dict(line.split() for line in pages.read_text().splitlines())
    return Timed(json.loads(guest.stdout), read_ledger(ledger), {int(k, 16): int(v) for k, v in counts.items()})


WORK = ("--iterations", str(ITERATIONS), "--write-percent", "0")


@pytest.fixture(scope="module")
def slow(vmlinux: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Timed]:
    """The same twice, bound to the slow node."""
    return [run(vmlinux, tmp_path_factory.mktemp("slow"), "--start-node", "1", *WORK) for _ in range(2)]


@pytest.fixture(scope="module")
def fast(vmlinux: Path, tmp_path_factory: pytest.TempPathFactory) -> Timed:
    """In DRAM, in huge pages."""
    return run(vmlinux, tmp_path_factory.mktemp("fast"), "--start-node", "0", "--thp", *WORK)


def test_every_visit_goes_to_the_node_that_the_pages_are_on(slow: list[Timed], fast: Timed) -> None:
    visits = PAGES * ITERATIONS
    assert slow[0].region.app.user.tiers[1].reads == pytest.approx(visits, rel=0.01)
    assert slow[0].region.fast_hit_ratio(0) == pytest.approx(0, abs=0.01)
    assert fast.region.fast_hit_ratio(0) == pytest.approx(1, abs=0.01)
    assert 1 not in fast.region.app.user.tiers or fast.region.app.user.tiers[1].reads < visits / 100


def test_what_qemu_translates_the_model_can_place(slow: list[Timed]) -> None:
    assert sum(vcpu.untranslated for vcpu in slow[0].region.vcpus) == 0


def test_small_pages_miss_the_tlb_and_huge_ones_do_not(slow: list[Timed], fast: Timed) -> None:
    visits = PAGES * ITERATIONS
    assert slow[0].region.app.user.huge == 0
    assert slow[0].region.app.user.stlb_miss > 0.8 * visits
    assert fast.region.app.user.huge == pytest.approx(visits, rel=0.01)
    assert fast.region.app.user.stlb_miss < 0.01 * visits


def test_slow_memory_takes_longer(slow: list[Timed], fast: Timed) -> None:
    assert slow[0].region.modelled_ns > 1.3 * fast.region.modelled_ns


def test_two_runs_of_one_seed_agree_within_one_percent(slow: list[Timed]) -> None:
    first, second = (timed.region for timed in slow)
    assert first.app.both.time_ns == pytest.approx(second.app.both.time_ns, rel=0.01)
    assert first.app.user.llc_miss == pytest.approx(second.app.user.llc_miss, rel=0.01)


def test_the_pages_are_those_of_the_arena(slow: list[Timed]) -> None:
    inside = {page: n for page, n in slow[0].pages.items() if 0 <= page - ARENA // 4096 < PAGES}
    assert len(inside) == pytest.approx(PAGES, rel=0.01)
    assert sum(inside.values()) == pytest.approx(slow[0].region.app.user.llc_miss, rel=0.01)


def test_the_series_ends_where_the_region_does(slow: list[Timed]) -> None:
    series = slow[0].ledger.series
    assert all(a.t_ms <= b.t_ms and a.app_insns <= b.app_insns for a, b in zip(series, series[1:], strict=False))
    assert series[-1].app_insns <= slow[0].region.app.user.insns
    assert series[-1].app_insns > 0.99 * slow[0].region.app.user.insns


def test_vcpus_in_threads_of_their_own_do_no_harm(vmlinux: Path, tmp_path: Path) -> None:
    timed = run(vmlinux, tmp_path, "--iterations", "8", thread="multi")
    assert timed.result["ok"]
    assert timed.region.app.user.insns > 0


# ---- the model drives the guest's clock ----

# The workload reads the clock before and behind the marks of the region.
BESIDE_NS = 100_000


def is_right(timed: Timed) -> bool:
    modelled = timed.region.modelled_ns + timed.region.all_idle_ns
    return within_tolerance(clock_ratio(timed.result["elapsed_ns"] - BESIDE_NS, modelled))


@pytest.fixture(scope="module")
def driven(vmlinux: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Timed]:
    """On either node."""
    folder = tmp_path_factory.mktemp
    return {node: run(vmlinux, folder("driven"), "--start-node", node, *WORK, drives=True) for node in ("0", "1")}


@pytest.mark.parametrize("node", ["0", "1"])
def test_the_guests_clock_is_the_models_on_fast_memory_and_on_slow(driven: dict[str, Timed], node: str) -> None:
    assert is_right(driven[node])


def test_a_clock_that_counts_instructions_is_not(slow: list[Timed], fast: Timed) -> None:
    assert not (is_right(slow[0]) and is_right(fast))


def test_clocks_of_cpus_that_work_stay_within_two_windows(driven: dict[str, Timed], slow: list[Timed]) -> None:
    for timed in driven.values():
        assert 0 < timed.region.skew_ns <= 2 * timed.ledger.machine["window_ps"] / 1000 + 1000
    assert slow[0].region.skew_ns == 0  # not driven: nobody looks

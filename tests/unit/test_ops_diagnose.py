# SPDX-License-Identifier: GPL-2.0
"""Why nothing moves: each reason from a machine that has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ops_tree import FakeNode, Tree, build, cxl, dram

from terrace.ops import counters, snapshot
from terrace.ops.diagnose import Reason, diagnose, is_moving
from terrace.sysfs import MTIER, KernelFiles


def reasons(tree: Tree, before: snapshot.Snapshot | None = None) -> list[Reason]:
    now = snapshot.take(KernelFiles(tree.root))
    return diagnose(now, snapshot.change(before, now))


def ids(tree: Tree, before: snapshot.Snapshot | None = None) -> list[str]:
    return [reason.id for reason in reasons(tree, before)]


def test_one_node(tmp_path: Path) -> None:
    assert ids(build(tmp_path, [dram()])) == ["one_node"]


def test_one_tier(tmp_path: Path) -> None:
    found = reasons(build(tmp_path, [dram(0), FakeNode(1, 4)]))
    assert [reason.id for reason in found] == ["one_tier"]
    assert "nodes 0-1 are all in one memory tier (memory_tier4)" in found[0].message


def test_no_tiers(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(0), cxl(1)])
    for tier in ("memory_tier4", "memory_tier22"):
        (tmp_path / f"sys/devices/virtual/memory_tiering/{tier}/nodelist").unlink()
    assert ids(tree) == ["no_tiers"]


def test_all_top_tier(tmp_path: Path) -> None:
    assert ids(build(tmp_path, [dram(0), FakeNode(1, 22, cpus="2")])) == ["all_top_tier"]


def test_stock_kernel_says_so_and_names_its_own_promotion(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()], engine=False)
    tree.put("proc/sys/kernel/numa_balancing", "2")
    (reason,) = reasons(tree)
    assert reason.id == "stock_kernel"
    assert "numa_balancing 2" in reason.message


def test_off_names_the_command(tmp_path: Path) -> None:
    (reason,) = reasons(build(tmp_path, [dram(), cxl()], enabled=False))
    assert (reason.id, reason.fix) == ("off", "terrace set enabled 1")


def test_nothing_on_the_slow_node(tmp_path: Path) -> None:
    assert ids(build(tmp_path, [dram(), cxl(movable=0)])) == ["slow_empty"]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, "no_scan"),
        ({"mtier_scan_visits": 5}, "no_access"),
        ({"mtier_scan_visits": 5, "mtier_skip_pinned": 2, "mtier_skip_shared": 1}, "skip_pinned"),
        ({"mtier_scan_visits": 5, "mtier_young_slow": 7, "mtier_records": 0}, "policy"),
        ({"mtier_scan_visits": 5, "mtier_young_slow": 7, "mtier_records": 7}, "not_hot"),
        ({"mtier_scan_visits": 5, "mtier_young_slow": 7, "mtier_queued": 3}, "waiting"),
    ],
)
def test_where_the_way_of_a_page_ends(tmp_path: Path, counts: dict[str, int], expected: str) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.vmstat(**counts)
    assert ids(tree) == [expected]


def test_every_reason_counter_is_told(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    counts = {"mtier_scan_visits": 5, "mtier_young_slow": 70, "mtier_queued": 60}
    for counter in sorted(counters.LOSSES):
        tree.vmstat(**counts, **(dict.fromkeys(counters.LOSSES, 0) | {"mtier_drop_gone": 1, counter: 50}))
        (reason,) = reasons(tree)
        assert reason.id == counter.removeprefix("mtier_")
        assert "of 60 queued since boot, 50 did not move" in reason.message, counter


def test_once_pages_moved_only_the_last_interval_counts(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    moved = {"mtier_scan_visits": 9, "mtier_young_slow": 9, "mtier_queued": 9, "pgpromote_success": 9}
    tree.vmstat(**moved)
    before = snapshot.take(KernelFiles(tmp_path))
    tree.vmstat(**(moved | {"mtier_scan_visits": 10}))
    assert ids(tree, before) == ["no_access"]


def test_moving_means_in_this_interval(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.vmstat(pgpromote_success=5)
    before = snapshot.take(KernelFiles(tmp_path))
    now = snapshot.take(KernelFiles(tmp_path))
    assert is_moving(snapshot.change(before, now)) is False
    tree.vmstat(pgpromote_success=6)
    now = snapshot.take(KernelFiles(tmp_path))
    assert is_moving(snapshot.change(before, now))
    assert is_moving(snapshot.change(None, now)) is None
    assert diagnose(now, snapshot.change(before, now)) == []


@pytest.mark.parametrize(
    ("state", "expected"),
    [("paused_cpu", "scan_cpu_cap"), ("paused_queue", "queue_full"), ("no_slow_tier", "no_slow_tier")],
)
def test_states_of_the_engine(tmp_path: Path, state: str, expected: str) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.put(f"{MTIER}/state", state)
    assert expected in ids(tree)


@pytest.mark.parametrize(
    ("state", "expected"),
    [("throttled", "rate_limit"), ("target_full", "target_full"), ("no_target", "no_target")],
)
def test_states_of_a_slow_node(tmp_path: Path, state: str, expected: str) -> None:
    assert expected in ids(build(tmp_path, [dram(), cxl(engine={"state": state})]))


def test_a_full_target_that_demotes_already_only_needs_time(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl(engine={"state": "target_full"})])
    assert "takes a while" in next(reason.fix for reason in reasons(tree) if reason.id == "target_full")
    tree.put("sys/kernel/mm/numa/demotion_enabled", "false")
    assert "demotion_enabled 1" in next(reason.fix for reason in reasons(tree) if reason.id == "target_full")


def test_full_dram_without_demotion(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(free=10), cxl()])
    tree.put("sys/kernel/mm/numa/demotion_enabled", "false")
    assert "dram_full_no_demotion" in ids(tree)


def test_full_dram_and_full_slow_memory(tmp_path: Path) -> None:
    assert "slow_full" in ids(build(tmp_path, [dram(free=10), cxl(free=5)]))


def test_kswapd_has_given_up(tmp_path: Path) -> None:
    assert "kswapd_gave_up" in ids(build(tmp_path, [dram(gave_up=True), cxl()]))

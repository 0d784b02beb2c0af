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


@pytest.mark.parametrize("word", sorted(set(counters.WHY) - {"rate"}))
def test_why_the_last_burst_moved_no_more(tmp_path: Path, word: str) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.place(why=word)
    (reason,) = reasons(tree)
    assert (reason.id, reason.severity, reason.fix) == (word, "info", counters.WHY[word][1])
    assert reason.message == f"the last burst moved no more pages: {counters.WHY[word][0]}"


def test_without_room_and_demotion_the_switch_is_named(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.place(why="no_victim")
    tree.put("sys/kernel/mm/numa/demotion_enabled", "false")
    (reason,) = reasons(tree)
    assert (reason.id, reason.severity, reason.fix) == ("no_victim", "warn", "terrace set demotion_enabled 1")


def test_full_dram_without_demotion_is_told_once(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(free=10), cxl()])
    tree.place(why="no_victim")
    tree.put("sys/kernel/mm/numa/demotion_enabled", "false")
    assert ids(tree) == ["dram_full_no_demotion"]


def test_a_word_of_a_later_kernel_is_shown_as_it_is(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.place(why="tomorrow")
    (reason,) = reasons(tree)
    assert reason.id == "unknown"
    assert "the engine says 'tomorrow'" in reason.message


def test_before_the_first_burst_has_ended(tmp_path: Path) -> None:
    assert ids(build(tmp_path, [dram(), cxl()])) == ["no_burst"]


@pytest.mark.parametrize(("state", "word"), [("throttled", "alike"), ("resting", "rate"), ("throttled", "rate")])
def test_the_limit_of_the_rate_is_told_also_while_pages_move(tmp_path: Path, state: str, word: str) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.put(f"{MTIER}/state", state)
    tree.place(why=word)
    tree.vmstat(pgpromote_success=5)
    (reason,) = reasons(tree)
    assert (reason.id, reason.severity) == ("rate_limit", "info")
    assert "promote.rate" in reason.fix
    tree.vmstat(pgpromote_success=0)
    assert ids(tree) == ["rate_limit"] + (["alike"] if word == "alike" else [])


def test_while_pages_move_the_word_is_no_reason(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.place(why="alike")
    tree.vmstat(pgpromote_success=5)
    assert ids(tree) == []


def test_every_reason_counter_is_told(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.place(why="alike")
    for counter in sorted(counters.LOSSES):
        tree.vmstat(mtier_taken=60, **(dict.fromkeys(counters.LOSSES, 0) | {"mtier_drop_gone": 1, counter: 50}))
        lost, word = reasons(tree)
        assert (lost.id, word.id) == (counter.removeprefix("mtier_"), "alike")
        assert "of 60 folios selected for promotion since boot, 50 did not move" in lost.message, counter


def test_once_pages_moved_only_the_last_interval_counts(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.place(why="cost")
    moved = {"mtier_taken": 9, "pgpromote_success": 9, "mtier_drop_pinned": 4}
    tree.vmstat(**moved)
    before = snapshot.take(KernelFiles(tmp_path))
    tree.vmstat(**(moved | {"mtier_drop_dirty": 1}))
    assert ids(tree, before) == ["drop_dirty", "cost"]


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


@pytest.mark.parametrize("state", ["idle", "no_slow_tier"])
def test_states_that_say_it_all(tmp_path: Path, state: str) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.place(why="alike")
    tree.put(f"{MTIER}/state", state)
    assert ids(tree) == [state]


@pytest.mark.parametrize("state", ["looking", "moving", "resting"])
def test_states_that_are_no_reason(tmp_path: Path, state: str) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.place(why="alike")
    tree.put(f"{MTIER}/state", state)
    assert ids(tree) == ["alike"]


def test_who_only_observes_is_reminded(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.place(why="alike")
    tree.put(snapshot.OBSERVE, "0")
    assert ids(tree) == ["alike"]
    tree.put(snapshot.OBSERVE, "1")
    (reason,) = reasons(tree)
    assert reason.id == "observe"
    assert f"echo 0 > /{snapshot.OBSERVE}" in reason.fix


def test_full_dram_without_demotion(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(free=10), cxl()])
    tree.put("sys/kernel/mm/numa/demotion_enabled", "false")
    assert "dram_full_no_demotion" in ids(tree)


def test_full_dram_and_full_slow_memory(tmp_path: Path) -> None:
    assert "slow_full" in ids(build(tmp_path, [dram(free=10), cxl(free=5)]))


def test_kswapd_has_given_up(tmp_path: Path) -> None:
    assert "kswapd_gave_up" in ids(build(tmp_path, [dram(gave_up=True), cxl()]))

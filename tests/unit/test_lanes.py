# SPDX-License-Identifier: GPL-2.0
"""Lanes: every item is worked on once, beside the others, and a failure is not lost."""

import multiprocessing
import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrace.errors import TerraceError
from terrace.testing import lanes
from terrace.testing.lanes import deal, lanes_for, run_lanes

# Terminals, sockets, signals: one at a time, after the tests that share the CPUs.
pytestmark = pytest.mark.clock

GIB = 1 << 30


@given(st.lists(st.integers()), st.integers(1, 9))
def test_every_item_is_dealt_once_and_in_order(items: list[int], count: int) -> None:
    hands = deal(items, count)
    assert sorted(item for hand in hands for item in hand) == sorted(items)
    assert len(hands) == min(count, len(items))
    assert all(hands)
    assert max(map(len, hands), default=0) - min(map(len, hands), default=0) <= 1


def test_a_lane_needs_a_core_and_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "cpu_count", lambda: 4)
    monkeypatch.setattr(lanes, "host_memory", lambda: 8 * GIB)
    assert lanes_for(1 * GIB) == 4
    assert lanes_for(3 * GIB) == 2
    assert lanes_for(64 * GIB) == 1
    assert lanes_for(0) == 4


def test_lanes_run_side_by_side() -> None:
    def work(item: int) -> list[tuple[int, int]]:
        # Each waits for the other: one after the other would never end.
        os.write(ends[item][1], b"x")
        assert os.read(ends[1 - item][0], 1) == b"x"
        return [(item, os.getpid())]

    ends = [os.pipe(), os.pipe()]
    results = list(run_lanes(work, [0, 1]))
    assert sorted(item for item, _ in results) == [0, 1]
    assert len({os.getpid(), *(pid for _, pid in results)}) == 3


def test_an_error_in_a_lane_is_raised() -> None:
    def work(item: int) -> list[int]:
        if item:
            raise ValueError("lane 1")
        return [item]

    with pytest.raises(ValueError, match="lane 1"):
        list(run_lanes(work, [0, 1]))


def test_a_killed_lane_is_noticed_while_another_runs() -> None:
    def work(item: int) -> list[int]:
        if item:
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()
        return [item]

    with pytest.raises(TerraceError, match="was killed"):
        list(run_lanes(work, [0, 1]))


def test_no_lane_outlives_its_caller() -> None:
    def work(item: int) -> list[int]:
        if item:
            signal.pause()
        return [os.getpid()]

    results = run_lanes(work, [0, 1])
    next(results)
    children = multiprocessing.active_children()
    assert len(children) >= 1
    results.close()  # type: ignore[attr-defined]
    assert not any(child.is_alive() for child in children)


def test_no_items_are_no_lanes() -> None:
    assert list(run_lanes(lambda item: [item], [])) == []

# SPDX-License-Identifier: GPL-2.0
"""The thread behind terrace top's screen: what was asked for last is what is seen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from test_ops_top import machine

from terrace.live.watch import Lookout
from terrace.ops import look
from terrace.ops.look import Look, Want, Watcher

DEADLINE_S = 60.0


def test_a_look_has_the_rows_and_the_machine(tmp_path: Path) -> None:
    machine(tmp_path)
    lookout = Lookout(tmp_path)
    for kind, first in (("cgroup", "batch"), ("process", "postgres")):
        lookout.ask(Want(kind))
        assert lookout.wait(DEADLINE_S)
        seen = lookout.seen()
        assert seen and seen[0].rows[0].resident.name == first and seen[1].now.engine
        assert lookout.seen() is None
    lookout.ask(None)


def test_an_order_takes_the_place_of_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(tmp_path)
    walks, go = threading.Event(), threading.Event()
    take, stopped = Watcher.take, []

    def slowly(self: Watcher, want: Want, going_on: Callable[[], bool] = lambda: True) -> Look:
        if want.kind == "process":
            walks.set()
            assert go.wait(DEADLINE_S)
            stopped.append(not going_on())
        return take(self, want, going_on)

    monkeypatch.setattr(look.Watcher, "take", slowly)
    lookout = Lookout(tmp_path)
    lookout.ask(Want("process"))
    assert walks.wait(DEADLINE_S)
    # Neither of these waits for the walk.
    assert lookout.seen() is None
    lookout.ask(Want("cgroup"))
    go.set()
    assert lookout.wait(DEADLINE_S)
    seen = lookout.seen()
    assert seen and seen[0].want.kind == "cgroup" and stopped == [True]


def test_what_makes_a_look_fail_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Watcher, want: Want, going_on: object) -> Look:
        raise OSError("no more files")

    monkeypatch.setattr(look.Watcher, "take", fail)
    lookout = Lookout(tmp_path)
    lookout.ask(Want())
    assert lookout.wait(DEADLINE_S)
    with pytest.raises(OSError, match="no more files"):
        lookout.seen()


def test_rates_of_a_group_are_of_the_time_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, clock = machine(tmp_path), [10.0]
    monkeypatch.setattr("terrace.ops.look.time.monotonic", lambda: clock[0])
    watcher = Watcher(tmp_path)
    assert watcher.take(Want()).seconds is None
    tree.put("sys/fs/cgroup/idle/memory.stat", "pgpromote_success 100")
    clock[0] = 14.0
    second = watcher.take(Want())
    speeds = {row.resident.name: row.promoted_per_s for row in second.rows}
    assert (second.seconds, speeds["idle"], speeds["batch"]) == (4.0, 100 * 4096 / 4, None)
    # After a look at something else there is none of this kind to compare with.
    watcher.take(Want("process"))
    assert watcher.take(Want()).seconds is None

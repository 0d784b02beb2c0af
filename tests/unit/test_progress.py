# SPDX-License-Identifier: GPL-2.0
"""Progress of long work: few lines in a pipe, and an estimate that does not jump."""

from __future__ import annotations

import io
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrace.progress import Estimate, Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the progress, in one element."""
    now = [0.0]
    monkeypatch.setattr("terrace.progress.time.monotonic", lambda: now[0])
    return now


def test_a_pipe_gets_a_line_for_each_tenth(clock: list[float]) -> None:
    stream = io.StringIO()
    with Progress("work", 1000, stream) as progress:
        for _ in range(1000):
            clock[0] += 0.3
            progress.step()
    lines = stream.getvalue().splitlines()
    assert [lines[0], lines[-1]] == ["work …", "work: done after 5 min 0 s"]
    assert lines[1:-1] == [
        "work: 10 %, about 4 min 30 s left",
        "work: 20 %, about 4 min 0 s left",
        "work: 30 %, about 3 min 30 s left",
        "work: 40 %, about 3 min 0 s left",
        "work: 50 %, about 2 min 30 s left",
        "work: 60 %, about 2 min 0 s left",
        "work: 70 %, about 1 min 30 s left",
        "work: 80 %, about 1 min 0 s left",
        "work: 90 %, about 30 s left",
    ]


def test_work_of_unknown_amount_has_a_line_a_minute(clock: list[float]) -> None:
    stream = io.StringIO()
    with Progress("work", None, stream) as progress:
        for _ in range(150):
            clock[0] += 1
            progress.step()
    assert stream.getvalue().splitlines() == ["work …", "work: 60", "work: 120", "work: done after 2 min 30 s"]


def test_failed_work_says_so(clock: list[float]) -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError), Progress("work", 10, stream):
        raise ValueError
    assert stream.getvalue().splitlines()[-1] == "work: failed after 0.0 s"


class _Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


def test_a_terminal_shows_the_bar_and_the_step(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrace.progress.os.get_terminal_size", lambda _: type("", (), {"columns": 60}))
    stream = _Screen()
    with Progress("work", 100, stream) as progress:
        clock[0] = 20
        progress.update(50, "CC mm/vmscan.o")
    shown = re.split(r"\r\x1b\[K", stream.getvalue())
    assert shown[2] == "work [##########..........] 50 %, about 20 s left  CC mm/vm"
    assert shown[-1] == "work: done after 20 s\n"


SPEEDS = st.lists(st.floats(0.01, 100), min_size=1, max_size=60)


@given(SPEEDS, st.sampled_from([0.1, 1.0, 10.0, 30.0]))
def test_no_estimate_is_twice_or_half_the_countdown_of_the_last_one(speeds: list[float], interval: float) -> None:
    """Kernel builds showed 2 min, and 9 min in the next line."""
    total = sum(speeds) * interval * 1.01
    estimate, done, spent, before = Estimate(total), 0.0, 0.0, None
    for speed in speeds:
        done, spent = done + speed * interval, spent + interval
        left = estimate.left(done, spent)
        if left is not None and before is not None:
            countdown = max(before - interval, before / 2)
            assert countdown / 2 < left < countdown * 2
        before = left if left is not None else before


@given(st.floats(0.2, 5), st.integers(10, 80))
def test_it_finds_the_new_speed(change: float, percent: int) -> None:
    """The speed changes once: after 15 % more of the work, and a minute, the estimate is that of the new speed."""
    estimate, spent, speed, changed = Estimate(100), 0.0, 0.1, math.inf
    needed = percent / 0.1 + (100 - percent) / (0.1 * change)
    for done in range(1, 100):
        spent += 1 / speed
        left = estimate.left(done, spent)
        if done == percent:
            speed, changed = speed * change, spent
        if left is not None and done > percent + 15 and spent > changed + 60:
            assert left == pytest.approx(needed - spent, rel=0.25), done


@pytest.mark.parametrize(("done", "spent"), [(4, 100), (50, 4), (100, 100)])
def test_there_is_no_estimate_before_there_is_a_speed_nor_after_the_end(done: float, spent: float) -> None:
    assert Estimate(100).left(done, spent) is None

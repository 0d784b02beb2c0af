# SPDX-License-Identifier: GPL-2.0
"""The time left of a group of selftests."""

from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path

import pytest

from terrace import files
from terrace.testing import pace
from terrace.testing.pace import Times, numbered


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("terrace.testing.pace.time.monotonic", lambda: now[0])
    return now


def _times(path: Path, **known: float) -> Times:
    for program, seconds in known.items():
        Times("selftest", path).add(program, seconds)
    return Times("selftest", path)


def test_long_programs_count_for_more_than_short_ones(tmp_path: Path, clock: list[float]) -> None:
    times = _times(tmp_path / "times", long=90, short=10, last=100)
    noted: list[str] = []
    ended = numbered(noted.append, times, ["long", "short", "last"])
    for program, seconds in (("long", 180.0), ("short", 20.0)):
        clock[0] += seconds
        ended(program, program, seconds)
    assert noted == ["long, 1 of 3, about 3 min 40 s left", "short, 2 of 3, about 3 min 20 s left"]


def test_the_last_time_counts_and_another_groups_does_not(tmp_path: Path) -> None:
    path = tmp_path / "times"
    Times("selftest-debug", path).add("one", 500)
    assert _times(path, one=3, two=5).expected(["one"]) == {"one": 3}
    assert _times(path, one=7).expected(["one", "two", "new"]) == {"one": 7, "two": 5, "new": 6}


def test_without_an_earlier_run_each_program_counts_the_same(tmp_path: Path) -> None:
    assert Times("selftest", tmp_path / "times").expected(["one", "two"]) == {"one": 1, "two": 1}


def test_what_cannot_be_read_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "times"
    path.write_bytes(b'["selftest", "one", 2]\n["selftest"]\n["selftest", "two", "x"]\n7\n\xff\n["selftest", "th')
    assert Times("selftest", path).expected(["one", "two", "three"]) == {"one": 2, "two": 2, "three": 2}


def test_a_long_file_is_reduced_to_the_last_time_of_each_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "_MOST_LINES", 3)
    path = tmp_path / "times"
    _times(path, one=1)
    _times(path, two=2)
    for seconds in (3, 4, 5):
        Times("selftest", path).add("one", seconds)
    assert Times("selftest", path).expected(["one", "two"]) == {"one": 5, "two": 2}
    assert len(path.read_text().splitlines()) <= 3


def _forked(work: Callable[[], None]) -> ForkProcess:
    process = get_context("fork").Process(target=work, daemon=True)
    process.start()
    return process


def test_a_line_that_another_run_adds_while_the_file_is_reduced_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "_MOST_LINES", 3)
    path = tmp_path / "times"
    other = Times("selftest", path)
    path.write_text("".join(f'["selftest", "one", {seconds}]\n' for seconds in (1, 2, 3, 4)))
    replacing = get_context("fork").Event()
    replace = files.replace

    def add() -> None:
        if replacing.wait(10):
            other.add("two", 7)

    # Forked before the lock is taken: a child has a copy of the lock's file, which keeps the lock.
    run = _forked(add)

    def replace_late(target: Path, data: bytes) -> None:
        replacing.set()
        run.join(0.3)  # without a lock the other run adds its line to the old file now
        replace(target, data)

    monkeypatch.setattr(files, "replace", replace_late)
    Times("selftest", path)
    run.join(20)
    assert run.exitcode == 0
    assert Times("selftest", path).known == {"one": 4, "two": 7}


def test_runs_at_the_same_time_lose_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_MOST_LINES", 5)
    path = tmp_path / "times"

    def add(program: str) -> None:
        for seconds in range(1, 21):
            Times("selftest", path).add(program, seconds)

    programs = ("one", "two", "three")
    for run in [_forked(partial(add, program)) for program in programs]:
        run.join(30)
        assert run.exitcode == 0
    assert Times("selftest", path).known == dict.fromkeys(programs, 20)


def test_a_run_that_is_unlike_the_next_keeps_no_times(tmp_path: Path) -> None:
    times = Times("selftest", tmp_path / "times")
    numbered(lambda text: None, times, ["one"], keep=False)("one", "one", 30.0)
    assert not times.path.exists()


def test_two_lanes_make_one_estimate(tmp_path: Path, clock: list[float]) -> None:
    times = _times(tmp_path / "times", one=50, two=50, last=100)
    said = tmp_path / "said"

    def note(text: str) -> None:
        with said.open("a") as file:
            file.write(text + "\n")

    ended = numbered(note, times, ["one", "two", "last"])
    clock[0] += 100
    for program in ("one", "two"):
        lane = get_context("fork").Process(target=ended, args=(program, program, 50.0))
        lane.start()
        lane.join()
        assert lane.exitcode == 0
    # By itself the second one would say 1 min 40 s in the same moment.
    assert said.read_text().splitlines() == ["one, 1 of 3, about 5 min 0 s left", "two, 2 of 3, about 5 min 0 s left"]

# SPDX-License-Identifier: GPL-2.0
"""A workload with a second one at the same time, in tests that need no clock, and threads that
place their own memory.

Tests that depend on the order of events in time are in tests/lab.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from terrace.lab.workloads import find_workload

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")

STREAM = ["--size", "3M", "--threads", "2", "--own-touch", "--sample-ms", "10"]
BUILD = "--size 1M --slice 128K --heap 64K --threads 4"


@pytest.fixture(scope="session")
def build() -> Path:
    return find_workload("buildlike").compile()


def run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    program = find_workload("stream").compile()
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def result(*words: str | Path) -> dict[str, Any]:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--iterations", "2", "--burst-ms", "5000", "--burst-words", BUILD], "it goes on when the run is over"),
        (["--iterations", "2", "--burst-words", "--size nothing"], "ended before it was ready"),
        (["--iterations", "2", "--burst-words", "--seed 1 " * 30], "--burst-words: at most 40"),
    ],
)
def test_a_burst_that_does_not_do_its_work_fails_the_run(build: Path, words: list[str], said: str) -> None:
    done = run(*STREAM, "--burst", build, *words)
    assert done.returncode == 1
    assert said in done.stderr


def test_a_program_that_is_not_there_fails_the_run() -> None:
    assert "/nowhere/program: No such file" in run(*STREAM, "--burst", "/nowhere/program").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--burst-words", "x"], "--burst-words: of which --burst?"),
        (["--burst-ms", "3"], "--burst-ms: of which --burst?"),
        (["--own-touch", "--start-node", "0"], "--own-touch: the threads place the memory, so without --start-node"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words: list[str], said: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_threads_that_place_their_memory_compute_the_same() -> None:
    one, other = result(*STREAM, "--iterations", "7"), result("--size", "3M", "--threads", "3", "--iterations", "7")
    assert one["checksum"] == other["checksum"]
    assert len(one["round_ends_ms"]) == 7
    assert one["round_ends_ms"] == sorted(one["round_ends_ms"])
    assert one["near_samples"][0][2] == 128
    assert one["placed_first"]["absent"] == one["placed_last"]["absent"]
    assert other["near_samples"] == []

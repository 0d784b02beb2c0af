# SPDX-License-Identifier: GPL-2.0
"""A workload with a second one at the same time: the first has to take longer, which depends on the
speed of the host.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import strict_schema
from terrace.lab.workloads import find_workload
from terrace.paths import repo_root

LONG = ["--size", "3M", "--threads", "2", "--own-touch", "--sample-ms", "10", "--iterations", "30000"]
BUILD = "--size 1M --slice 128K --heap 64K --threads 4"


@pytest.fixture(scope="session")
def build() -> Path:
    return find_workload("buildlike").compile()


def run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    program = find_workload("stream").compile()
    return subprocess.run([program, *LONG, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


def result(*words: str | Path) -> dict[str, Any]:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_another_workload_works_beside_the_first(build: Path) -> None:
    found = result("--burst", build, "--burst-ms", "20", "--burst-words", BUILD)
    strict_schema.validate(found, json.loads((repo_root() / "docs/reference/schema/workload.schema.json").read_text()))
    burst = found["burst"]
    assert burst["exit_code"] == 0
    assert 20 <= burst["begin_ms"] < burst["end_ms"] < found["elapsed_ns"] / 1e6
    other = burst["result"]
    assert (other["workload"], other["ok"], other["ops"]) == ("buildlike", True, 8)
    assert len(other["threads"]) == 4
    # Its time is that of its work: preparation and checks are outside.
    assert other["elapsed_ns"] / 1e6 <= burst["end_ms"] - burst["begin_ms"]


def test_a_burst_computes_what_it_does_alone(build: Path) -> None:
    beside = result("--burst", build, "--burst-words", BUILD)["burst"]["result"]
    alone = json.loads(subprocess.run([build, *BUILD.split()], capture_output=True, text=True, check=True).stdout)
    assert (beside["checksum"], beside["ops"]) == (alone["checksum"], alone["ops"])


def test_a_burst_whose_work_is_wrong_fails_the_run(build: Path) -> None:
    done = run("--burst", build, "--burst-words", f"{BUILD} --sabotage byte")
    assert done.returncode == 1
    assert "the burst ended with 1" in done.stderr

# SPDX-License-Identifier: GPL-2.0
"""What a shell gets to complete a command with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from terrace import cli
from terrace.ops.knob_table import CGROUP_KNOBS, KNOBS
from terrace.paths import repo_root


def completed(line: str, folder: Path) -> set[str]:
    """As argcomplete's shell function asks for it."""
    answer = folder / "answer"
    answer.unlink(missing_ok=True)
    asked = {"COMP_LINE": line, "COMP_POINT": str(len(line.encode())), "COMP_TYPE": "9", "_ARGCOMPLETE": "1"}
    asked |= {"_ARGCOMPLETE_IFS": "\v", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}
    path = {"PYTHONPATH": str(repo_root() / "src"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "terrace"], env=path | asked, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return {word.strip() for word in answer.read_text().split("\v")}


def test_verbs_and_their_options(tmp_path: Path) -> None:
    assert completed("terrace ", tmp_path) >= {"help", *cli.verbs()}
    assert completed("terrace sta", tmp_path) == {"status"}
    assert completed("terrace help ex", tmp_path) >= {"exec"}
    assert completed("terrace apply --c", tmp_path) == {"--check", "--cgroup"}
    assert completed("terrace kernel build --j", tmp_path) == {"--jobs", "--json"}


def test_knobs_and_cgroups(tmp_path: Path) -> None:
    for group in ("a.slice", "a.slice/b.service", "c.slice"):
        (tmp_path / "sys/fs/cgroup" / group).mkdir(parents=True)
        (tmp_path / "sys/fs/cgroup" / group / "cgroup.procs").touch()
    root = f"--root {tmp_path}"
    assert completed(f"terrace set {root} ", tmp_path) >= {knob.name for knob in KNOBS}
    assert completed(f"terrace set {root} tlb_defer.m", tmp_path) == {"tlb_defer.mode"}
    assert completed(f"terrace set {root} --cgroup a.slice auto", tmp_path) == {
        knob.name for knob in CGROUP_KNOBS if knob.name.startswith("auto")
    }
    # Values, and no names, where a value belongs.
    (mode,) = [knob for knob in KNOBS if knob.name == "tlb_defer.mode"]
    for line, wanted in (
        ("tlb_defer.mode ", {*mode.words, "default"}),
        ("scan.delay_ms ", {"0", "3600000", "default"}),
        ("enabled=1 tlb_defer.m", {"tlb_defer.mode"}),
        ("tlb_defer.mode off ", set()),
        ("--cgroup a.slice migrate_on_fault ", {"0", "3", "default"}),
    ):
        given = completed(f"terrace set {root} {line}", tmp_path)
        assert {word for word in given if word and not word.startswith("-")} == wanted, line
    assert completed(f"terrace set {root} --cgroup ", tmp_path) == {"a.slice", "c.slice"}
    assert completed(f"terrace apply {root} --cgroup a.slice/", tmp_path) == {"a.slice/b.service"}


@pytest.mark.parametrize(
    "line", ["", "terrace", "terrace set --cgroup ../", "terrace nonsense --x ", "terrace set 'a", "terrace set ä"]
)
def test_no_line_makes_it_stumble(line: str, tmp_path: Path) -> None:
    completed(line, tmp_path)


def test_sets_of_exec(tmp_path: Path) -> None:
    cpus = {str(cpu) for cpu in os.sched_getaffinity(0)}
    assert completed("terrace exec -C ", tmp_path) == cpus
    nodes = completed("terrace exec --membind ", tmp_path)
    assert nodes and nodes == completed("terrace exec -N ", tmp_path) == completed("terrace exec -w ", tmp_path)
    assert completed("terrace exec --pref", tmp_path) == {"--preferred", "--preferred-many"}

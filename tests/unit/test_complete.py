# SPDX-License-Identifier: GPL-2.0
"""Completion of a command line in a shell."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from terrace import cli, complete
from terrace.ops import knobs
from terrace.ops.knob_table import CGROUP_KNOBS, KNOBS
from terrace.paths import repo_root
from terrace.sysfs import KernelFiles


def completed(line: str, folder: Path) -> set[str]:
    """Complete a line in the way of the shell function of argcomplete."""
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


VALUES = [
    ("enabled ", {"on", "off"}),
    ("weights.auto ", {"on", "off"}),
    ("tlb_defer.mode ", {"off", "quarantine"}),
    ("thp ", {"whole", "split"}),
    ("promote.thp w", {"whole"}),
    ("numa_balancing ", {"0", "1", "2", "3"}),
    ("numa_balancing.scan_mode s", {"sync", "sliced"}),
    ("promote.target_node ", {"auto", "0", "1", "5"}),
    # A number with a unit, one that there is no list of, and a knob that there is not.
    ("scan.delay_ms ", set()),
    ("promote.rate_mbps 1", set()),
    ("no-such-knob ", set()),
    ("enabled on ", set()),
    ("enabled on o", set()),
    # Lists of NAME=VALUE.
    ("enabled=", {"enabled=on", "enabled=off"}),
    ("enabled=o", {"enabled=on", "enabled=off"}),
    ("enabled=1 tlb_defer.mode=", {"tlb_defer.mode=off", "tlb_defer.mode=quarantine"}),
    ("scan.delay_ms=", set()),
    ("enabled tlb_defer.mode=", set()),
    ("enabled=1 tlb_defer.m", {"tlb_defer.mode="}),
    ("enabled=1 enab", set()),
]


@pytest.mark.parametrize(("line", "words"), VALUES)
def test_values_of_a_knob(tmp_path: Path, line: str, words: set[str]) -> None:
    """Names of knobs were offered for values."""
    (tmp_path / "sys/devices/system/node").mkdir(parents=True)
    (tmp_path / "sys/devices/system/node/online").write_text("0-1,5\n")
    found = {word for word in completed(f"terrace set --root {tmp_path} {line}", tmp_path) if word}
    # Options may stand everywhere.
    assert {word for word in found if not word.startswith("-")} == words


def test_values_of_a_knob_of_a_cgroup(tmp_path: Path) -> None:
    words = completed(f"terrace set --root {tmp_path} --cgroup a.slice auto_migration ", tmp_path)
    assert {word for word in words if not word.startswith("-")} == {"on", "off"}
    words = completed(f"terrace set --root {tmp_path} --cgroup a.slice migrate_on_fault ", tmp_path)
    assert {word for word in words if not word.startswith("-")} == {"0", "1", "2", "3"}


def test_what_is_offered_is_taken() -> None:
    """Every value that is offered for a knob is one that `set` accepts."""
    offered = 0
    for knob in KNOBS:
        for value in complete._values(argparse.Namespace(cgroup=None), KernelFiles(), knob.name):
            knobs.check_range(knob, knobs.parse_value(knob, value))
            offered += 1
    assert offered > 20

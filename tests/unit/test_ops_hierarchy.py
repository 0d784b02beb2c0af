# SPDX-License-Identifier: GPL-2.0
"""Cgroups of every kind of mount: the verbs show the kernel's counts, or the reason why there are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from exporter_tree import samples
from ops_golden import check, run
from ops_tree import Tree
from test_ops_doctor import FakeCalls
from test_ops_top import SCHEMA, machine, shown

import strict_schema
from terrace.errors import MissingError
from terrace.exporter.machine import look
from terrace.live.draw import draw
from terrace.live.state import State, press, see
from terrace.ops import hierarchy, report, residents, snapshot
from terrace.ops.look import Want, Watcher
from terrace.ops.probe import Prober
from terrace.sysfs import KernelFiles

V1 = ("cpu", "cpuset", "memory")


def mountinfo(*mounts: tuple[str, str]) -> str:
    return "\n".join(
        f"3{i} 31 0:2{i} / {place} rw shared:9 - {kind} {kind} rw" for i, (place, kind) in enumerate(mounts)
    )


def version1(root: Path) -> Tree:
    """A machine with cgroup v1, where the memory controller counts pages of one group."""
    tree = machine(root)
    (root / "sys/fs/cgroup").rename(root / "version2")
    for controller in V1:
        for group in ("", "docker/"):
            tree.put(f"sys/fs/cgroup/{controller}/{group}cgroup.procs", "1")
    for group in ("", "docker/"):
        tree.put(f"sys/fs/cgroup/memory/{group}memory.numa_stat", "total=9 N0=9 N1=0\nanon=9 N0=9 N1=0")
    tree.put("proc/self/mountinfo", mountinfo(*((f"/sys/fs/cgroup/{name}", "cgroup") for name in V1)))
    return tree


def hybrid(root: Path) -> Tree:
    tree = version1(root)
    tree.put("sys/fs/cgroup/unified/cgroup.controllers", "")
    tree.put("sys/fs/cgroup/unified/docker/cgroup.procs", "1")
    places = [*((f"/sys/fs/cgroup/{name}", "cgroup") for name in V1), ("/sys/fs/cgroup/unified", "cgroup2")]
    tree.put("proc/self/mountinfo", mountinfo(*places))
    return tree


def none(root: Path) -> Tree:
    tree = machine(root)
    (root / "sys/fs/cgroup").rename(root / "version2")
    tree.put("proc/self/mountinfo", mountinfo(("/proc", "proc")))
    return tree


def not_enabled(root: Path) -> Tree:
    tree = machine(root)
    tree.put("sys/fs/cgroup/cgroup.subtree_control", "cpu pids")
    return tree


def without_memory(root: Path) -> Tree:
    tree = machine(root)
    tree.put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu")
    return tree


CASES = {
    "v1": (version1, "v1", "this machine has cgroup v1 alone"),
    "hybrid": (hybrid, "hybrid", "the memory controller is in cgroup v1, not in cgroup v2 at /sys/fs/cgroup/unified"),
    "none": (none, "none", "no cgroup file system is mounted"),
    "not-enabled": (not_enabled, "v2", "no cgroup has the memory controller"),
    "no-controller": (without_memory, "v2", "cgroup v2 at /sys/fs/cgroup has no memory controller"),
}
cases = pytest.mark.parametrize("name", list(CASES))


@cases
def test_each_kind_is_recognized(tmp_path: Path, name: str) -> None:
    make, version, why = CASES[name]
    make(tmp_path)
    found = hierarchy.find(KernelFiles(tmp_path))
    assert found.version == version and found.problem is not None and why in found.problem
    assert residents.cgroups(KernelFiles(tmp_path), 3) == []


@cases
def test_top_shows_processes_and_the_reason(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`top` used to show each controller of cgroup v1 as a group of 0B."""
    make, _, why = CASES[name]
    make(tmp_path)
    first, *table = shown(tmp_path, capsys).splitlines()
    assert first.startswith(f"Cgroups cannot be shown: {why}")
    assert table[0].startswith("PROCESS") and table[1].startswith("postgres")
    document = json.loads(shown(tmp_path, capsys, "--json"))
    strict_schema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["by"] == "process" and why in document["cgroups_problem"]
    assert [row["name"] for row in document["rows"]] == ["postgres", "sh"]


@cases
def test_cgroups_that_were_asked_for_are_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    make, _, why = CASES[name]
    make(tmp_path)
    with pytest.raises(MissingError, match=f"--by cgroup: .*{why}.*--by process"):
        run("top", "--root", str(tmp_path), "--by", "cgroup", "--interval", "0.001")


def test_processes_that_were_asked_for_come_without_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version1(tmp_path)
    assert "Cgroups" not in shown(tmp_path, capsys, "--by", "process")
    assert json.loads(shown(tmp_path, capsys, "--by", "process", "--json"))["cgroups_problem"] is None


def test_the_table_under_version_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version1(tmp_path)
    check("top-cgroup-v1.txt", shown(tmp_path, capsys))


def screen(root: Path, state: State) -> str:
    look = Watcher(root).take(state.want)
    files = KernelFiles(root)
    state = see(state, look, report.make(snapshot.take(files), None, files.unreadable))
    return "\n".join("".join(text for text, _ in line) for line in draw(state, 120, 24))


@cases
def test_the_screen_has_the_reason(tmp_path: Path, name: str) -> None:
    make, _, why = CASES[name]
    make(tmp_path)
    state = State(Want("process", instead=True), 1.0)
    text = screen(tmp_path, state)
    assert f"Cgroups cannot be shown: {why}" in text and "postgres" in text
    text = screen(tmp_path, press(state, "c"))
    assert f"Cgroups cannot be shown: {why}" in text and "press p for processes" in text
    # Back at processes, which were asked for this time.
    assert "Cgroups cannot" not in screen(tmp_path, press(press(state, "c"), "p"))


@cases
def test_the_exporter_shows_no_group_of_zero_bytes(tmp_path: Path, name: str) -> None:
    make, _, _ = CASES[name]
    make(tmp_path)
    found = samples(tmp_path)
    assert found["terrace_cgroups_readable", ()] == 0 and found["terrace_cgroups_found", ()] == 0
    assert not [key for key in found if key[0] == "terrace_cgroup_memory_bytes"]
    assert "terrace_cgroups_readable" not in look(KernelFiles(tmp_path), 0, 3).families


def test_version_2_is_found_wherever_it_is_mounted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = machine(tmp_path)
    (tmp_path / "mnt").mkdir()
    (tmp_path / "sys/fs/cgroup").rename(tmp_path / "mnt/c groups")
    tree.put("proc/self/mountinfo", mountinfo(("/mnt/c\\040groups", "cgroup2")))
    found = hierarchy.find(KernelFiles(tmp_path))
    assert (found.version, found.folder, found.problem) == ("v2", "mnt/c groups", None)
    names = {row["name"] for row in json.loads(shown(tmp_path, capsys, "--json"))["rows"]}
    assert names == {"system.slice", "system.slice/db.service", "batch", "idle"}
    tree.vmstat(numa_follow_tasks=1)
    tree.put("mnt/c groups/batch/cpuset.auto_migration.effective", "1")
    now = snapshot.take(KernelFiles(tmp_path))
    own = next(one for one in now.capabilities if one.name == "auto_migration")
    assert (own.on, own.cgroups, own.problem) == (True, {"batch": "1"}, None)
    feature = next(one for one in Prober(KernelFiles(tmp_path), FakeCalls()).all() if one.name == "cgroup2")
    assert feature.present and feature.detail.startswith("no cgroup v2 at /sys/fs/cgroup, but at /mnt/c groups")


def test_a_hybrid_machine_whose_version_2_has_memory_shows_its_groups(tmp_path: Path) -> None:
    """As with cgroup_no_v1=memory."""
    tree = hybrid(tmp_path)
    tree.put("sys/fs/cgroup/unified/cgroup.controllers", "memory")
    tree.put("sys/fs/cgroup/unified/docker/memory.numa_stat", "anon N0=4096\nfile N0=0")
    found = residents.cgroups(KernelFiles(tmp_path), 3)
    assert [(one.name, one.total) for one in found] == [("docker", 4096)]


@pytest.mark.parametrize("name", ["v1", "hybrid", "none"])
def test_status_says_why_following_cannot_be_switched_on(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, _, why = CASES[name]
    make(tmp_path).vmstat(numa_follow_tasks=1)
    assert run("status", "--root", str(tmp_path), "--interval", "0") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("auto_migration")]
    assert len(lines) == 1 and f"needs cgroup v2: {why}" in lines[0]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("0::/system.slice/db.service", "system.slice/db.service"),
        ("0::/", ""),
        ("5:memory:/docker/1\n4:cpu,cpuacct:/x\n0::/", "docker/1"),
        ("0::/unified\n5:cpuset,memory:/both", "both"),
        ("1:name=systemd:/init.scope", ""),
        ("5:memory:/with:colon", "with:colon"),
        ("nonsense", ""),
    ],
)
def test_the_cgroup_of_a_process_is_the_one_that_its_memory_is_charged_to(tmp_path: Path, text: str, path: str) -> None:
    Tree(tmp_path).put("proc/7/cgroup", text)
    assert hierarchy.cgroup_of(KernelFiles(tmp_path), 7) == path

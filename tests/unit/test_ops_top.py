# SPDX-License-Identifier: GPL-2.0
"""terrace top: control groups and processes, by the node that their memory is on."""

from __future__ import annotations

import json
from collections.abc import Set
from pathlib import Path

import pytest
from ops_golden import check, run
from ops_tree import MIB, PAGE, Tree, build, cxl, dram

import strict_schema
from terrace.errors import UsageError
from terrace.ops import residents, top
from terrace.ops.processes import Processes
from terrace.ops.residents import Resident
from terrace.sysfs import KernelFiles

SCHEMA = Path(__file__).parents[2] / "docs/reference/schema/top.schema.json"


def group(tree: Tree, name: str, fast: int, slow: int, **stat: int) -> None:
    """A control group with this number of MiB on nodes 0 and 1, a quarter of them file pages."""
    lines = []
    for kind, share in (("anon", 3), ("file", 1), ("file_mapped", 1), ("slab", 1)):
        lines.append(f"{kind} N0={fast * MIB * share // 4} N1={slow * MIB * share // 4}")
    tree.put("sys/fs/cgroup/cgroup.controllers", "cpuset memory")
    tree.put(f"sys/fs/cgroup/{name}/memory.numa_stat", "\n".join(lines))
    tree.put(f"sys/fs/cgroup/{name}/memory.stat", "\n".join(f"{key} {value}" for key, value in stat.items()))


def machine(root: Path) -> Tree:
    tree = build(root, [dram(), cxl()])
    tree.put("etc/passwd", "root:x:0:0:::\npostgres:x:100:100:::")
    group(tree, "system.slice", 100, 40, pgpromote_success=1000, pgdemote_kswapd=10, pgdemote_direct=2)
    group(tree, "system.slice/db.service", 90, 38, pgpromote_success=900, pgdemote_kswapd=0, pgdemote_direct=0)
    group(tree, "batch", 0, 60)
    group(tree, "idle", 8, 0, pgpromote_success=0)
    for pid, name, fast, slow in ((300, "postgres", 500, 1500), (301, "sh", 10, 0)):
        tree.put(f"proc/{pid}/comm", name)
        tree.put(f"proc/{pid}/statm", f"9999 {fast + slow} 1 1 0 1 0")
        tree.put(f"proc/{pid}/status", f"Name:\t{name}\nUid:\t{pid - 200}\t0\t0\t0\nHugetlbPages:\t    2048 kB")
        tree.put(
            f"proc/{pid}/numa_maps",
            f"7f00 default anon={fast + slow} N0={fast} N1={slow} kernelpagesize_kB=4\n"
            "7f80 default file=/x N0=1 kernelpagesize_kB=2048\n7f90 default",
        )
    return tree


def look_at(root: Path, most: int, slow: Set[int] = frozenset({1}), files: KernelFiles | None = None) -> list[Resident]:
    files = files or KernelFiles(root)
    return Processes(files).first(files, most, slow).residents


def shown(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run("top", "--root", str(root), "--interval", "0.001", *words) == 0
    return capsys.readouterr().out


def test_a_groups_own_pages_are_counted_once(tmp_path: Path) -> None:
    machine(tmp_path)
    found = {group.name: group for group in residents.cgroups(KernelFiles(tmp_path), 3)}
    assert set(found) == {"system.slice", "system.slice/db.service", "batch", "idle"}
    assert found["system.slice"].nodes == {0: 100 * MIB, 1: 40 * MIB}
    assert (found["system.slice"].promoted_pages, found["system.slice"].demoted_pages) == (1000, 12)
    assert (found["batch"].promoted_pages, found["batch"].demoted_pages) == (None, None)


def test_depth_limits_the_levels(tmp_path: Path) -> None:
    machine(tmp_path)
    assert {g.name for g in residents.cgroups(KernelFiles(tmp_path), 1)} == {"system.slice", "batch", "idle"}


def test_huge_pages_count_as_what_they_are(tmp_path: Path) -> None:
    machine(tmp_path)
    first, second = look_at(tmp_path, 2)
    assert (first.name, first.pid) == ("postgres", 300)
    assert first.nodes == {0: 500 * PAGE + 2 * MIB, 1: 1500 * PAGE}
    assert second.name == "sh"


def test_only_the_largest_processes_are_walked(tmp_path: Path) -> None:
    machine(tmp_path)
    (tmp_path / "proc/301/numa_maps").unlink()
    (tmp_path / "proc/301/numa_maps").mkdir()
    files = KernelFiles(tmp_path)
    assert [found.pid for found in look_at(tmp_path, 1, {1}, files)] == [300]
    assert not files.unreadable
    # No process has slow memory on a machine without it: then the largest processes are the lines.
    assert [found.pid for found in look_at(tmp_path, 1, set(), files)] == [300]
    assert not files.unreadable


def test_a_small_process_on_slow_memory_comes_before_large_ones_in_dram(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The largest were chosen and then sorted: the process with the most slow memory was not among them."""
    tree = machine(tmp_path)
    for pid, name, fast, slow, huge in ((302, "cache", 9000, 0, 0), (303, "victim", 0, 1600, 0), (304, "db", 1, 0, 9)):
        tree.put(f"proc/{pid}/comm", name)
        tree.put(f"proc/{pid}/statm", f"9999 {fast + slow} 1 1 0 1 0")
        tree.put(f"proc/{pid}/status", f"Name:\t{name}\nHugetlbPages:\t{huge * 2048:8} kB")
        text = f"7f00 default N0={fast} N1={slow} kernelpagesize_kB=4\n"
        tree.put(f"proc/{pid}/numa_maps", text + f"7f80 default N1={huge} kernelpagesize_kB=2048")
    for limit, names in ((1, ["db"]), (2, ["db", "victim"]), (3, ["db", "victim", "postgres"])):
        document = json.loads(shown(tmp_path, capsys, "--by", "process", "--json", "--limit", str(limit)))
        assert [row["name"] for row in document["rows"]] == names


def test_speeds_are_of_what_happened_in_between(tmp_path: Path) -> None:
    before = [residents.Resident("a", None, {0: 1}, 100, 7), residents.Resident("new", None, {}, 0, 0)]
    now = [residents.Resident("a", None, {0: 1}, 300, 7), residents.Resident("b", None, {}, 50, 50)]
    first, second = top.rows(now, before, 2.0)
    assert (first.promoted_per_s, first.demoted_per_s) == (100 * PAGE, 0.0)
    assert (second.promoted_per_s, second.demoted_per_s) == (None, None)


@pytest.mark.parametrize("by", ["cgroup", "process"])
def test_page(tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str) -> None:
    machine(tmp_path)
    check(f"top-{by}.txt", shown(tmp_path, capsys, "--by", by))


def closed(root: Path, pid: int) -> None:
    """Like a process of another user: root, who may read everything, also runs this test."""
    (root / f"proc/{pid}/numa_maps").unlink()
    (root / f"proc/{pid}/numa_maps").mkdir()


def test_processes_of_others_are_shown_with_their_total(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Processes whose nodes may not be read were missing."""
    machine(tmp_path)
    closed(tmp_path, 300)
    check("top-refused.txt", shown(tmp_path, capsys, "--by", "process"))
    document = json.loads(shown(tmp_path, capsys, "--by", "process", "--json"))
    strict_schema.validate(document, json.loads(SCHEMA.read_text()))
    assert [(row["name"], row["user"], row["node_bytes"] is None) for row in document["rows"]] == [
        ("sh", "101", False),
        ("postgres", "postgres", True),
    ]
    assert document["rows"][1]["total_bytes"] == 2000 * PAGE + 2 * MIB
    assert document["nodes_unknown"] == 1
    assert document["unreadable"][0]["path"] == "/proc/300/numa_maps"


def test_a_name_does_not_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A process name may contain escape sequences: they were printed unchanged."""
    machine(tmp_path)
    (tmp_path / "proc/300/comm").write_bytes("\033[2J数\x9b31m\n".encode())
    text = shown(tmp_path, capsys, "--by", "process")
    assert text.splitlines()[1].startswith("?[2J数?31m  300  postgres")
    assert all(char.isprintable() for char in text.replace("\n", ""))
    text = shown(tmp_path, capsys, "--by", "process", "--json")
    assert all(char.isprintable() for char in text.replace("\n", ""))
    assert json.loads(text)["rows"][0]["name"] == "\033[2J数\x9b31m"


def test_json_follows_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine(tmp_path)
    schema = json.loads(SCHEMA.read_text())
    for words in (("--by", "cgroup"), ("--by", "process", "--limit", "1")):
        document = json.loads(shown(tmp_path, capsys, "--json", *words))
        strict_schema.validate(document, schema)
    assert [row["name"] for row in document["rows"]] == ["postgres"]
    lines = shown(tmp_path, capsys, "--json", "--count", "2").splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["top", "top"]


def test_a_machine_without_control_groups_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.put("sys/fs/cgroup/cgroup.controllers", "memory")
    assert "no cgroup whose memory may be read" in shown(tmp_path, capsys)


@pytest.mark.parametrize("words", [("--limit", "0"), ("--depth", "-1"), ("--count", "0"), ("--interval", "0s")])
def test_what_makes_no_sense_is_refused(tmp_path: Path, words: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match=words[0]):
        run("top", "--root", str(tmp_path), *words)


# ---- only some of them ----


def names(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    document = json.loads(shown(root, capsys, "--json", *words))
    strict_schema.validate(document, json.loads(SCHEMA.read_text()))
    return [row["name"] for row in document["rows"]]


def narrowed(root: Path) -> Tree:
    tree = machine(root)
    tree.put("proc/300/cgroup", "0::/system.slice/db.service")
    tree.put("proc/301/cgroup", "0::/batch")
    return tree


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (("-p", "301"), ["sh"]),
        (("--pid", "300,301"), ["postgres", "sh"]),
        (("-u", "postgres"), ["postgres"]),
        (("-u", "100"), ["postgres"]),
        (("--user", "101"), ["sh"]),
        (("-u", "root"), []),
        (("-u", "postgres", "-p", "301"), []),
        (("--by", "process", "--cgroup", "system.slice"), ["postgres"]),
        (("--by", "process", "--cgroup", "/sys/fs/cgroup/system.slice/db.service/"), ["postgres"]),
        (("-p", "300,301", "--cgroup", "batch"), ["sh"]),
        (("--cgroup", "system.slice"), ["system.slice", "system.slice/db.service"]),
        (("--cgroup", "system.slice/db.service", "--depth", "1"), ["system.slice/db.service"]),
        (("--cgroup", "idle"), ["idle"]),
    ],
)
def test_only_what_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], rows: list[str]
) -> None:
    narrowed(tmp_path)
    assert names(tmp_path, capsys, *words) == rows


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-p", "1x"), "--pid 1x: use process numbers"),
        (("-p", "0"), "--pid 0: use process numbers"),
        (("-p", "300,999"), "--pid 300,999: there is no process 999"),
        (("-u", "nobody-here"), "--user nobody-here: there is no user 'nobody-here'"),
        (("--cgroup", "no/where"), "--cgroup no/where: there is no cgroup /sys/fs/cgroup/no/where"),
        (("--cgroup", "../x"), "--cgroup ../x: there is no cgroup"),
        (("-p", "300", "--by", "cgroup"), "--pid is of processes"),
        (("-u", "root", "--by", "cgroup"), "--user is of processes"),
        (("-d", "x"), "--interval x"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    narrowed(tmp_path)
    with pytest.raises(UsageError, match=why):
        run("top", "--root", str(tmp_path), "--interval", "0.001", *words)


def test_other_processes_are_not_walked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    narrowed(tmp_path)
    closed(tmp_path, 300)
    for words in (("-p", "301"), ("-u", "101"), ("--by", "process", "--cgroup", "batch")):
        document = json.loads(shown(tmp_path, capsys, "--json", *words))
        assert document["unreadable"] == [] and document["nodes_unknown"] == 0


def test_the_time_between_two_looks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine(tmp_path)
    assert run("top", "--root", str(tmp_path), "-d", "0.25", "--json") == 0
    assert json.loads(capsys.readouterr().out)["interval_s"] >= 0.25

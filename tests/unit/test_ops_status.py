# SPDX-License-Identifier: GPL-2.0
"""terrace status: golden pages of machines, JSON, watching."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from ops_golden import check, run
from ops_tree import BURST, FakeNode, build, cxl, dram

from terrace.errors import UsageError
from terrace.ops import counters, report, snapshot
from terrace.ops.snapshot import PLACE
from terrace.sysfs import MTIER, KernelFiles

BUSY = {
    "pgpromote_success": 25600,
    "pgdemote_kswapd": 512,
    "mtier_bursts": 40,
    "mtier_looks": 320,
    "mtier_look_ptes": 1_310_720,
    "mtier_taken": 26000,
    "mtier_promoted_folios": 25600,
    "mtier_drop_pinned": 400,
    "mtier_promoted_anon": 25600,
    "mtier_throttle_rate": 2,
}


def status(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run("status", "--root", str(root), "--interval", "0", *words) == 0
    return capsys.readouterr().out


def test_stock_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path, [dram(), cxl(engine={})], engine=False)
    check("status-stock.txt", status(tmp_path, capsys))


def test_one_tier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path, [dram(0), FakeNode(1, 4)])
    check("status-one-tier.txt", status(tmp_path, capsys))


def test_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path, [dram(), cxl()], enabled=False)
    check("status-off.txt", status(tmp_path, capsys))


def test_three_tiers_full_dram(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = build(tmp_path, [dram(0, free=8), cxl(1), cxl(2, tier=40)])
    tree.put("sys/kernel/mm/numa/demotion_enabled", "false")
    tree.place(why="no_victim 0\nalike 1", margin_ppm="0", gain_us="0", taken="0", promoted="0", demoted="0")
    check("status-three-tier-full.txt", status(tmp_path, capsys))


def test_busy_machine_over_two_seconds(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl(engine={"promoted": "25600", "dropped": "400", "demoted": "512"})])
    files = KernelFiles(tmp_path)
    before = replace(snapshot.take(files), monotonic_s=10.0)
    tree.vmstat(**BUSY)
    tree.put(f"{MTIER}/state", "moving")
    tree.place()
    tree.thread(41, "kmtierd", 540_000_000)
    now = replace(snapshot.take(files), monotonic_s=12.0)
    shown = report.make(now, before, files.unreadable)
    check("status-busy.txt", report.as_text(shown) + "\n")
    document = report.as_json(shown)
    check("status-busy.json", json.dumps(document, indent=2) + "\n")
    assert document["moving"] is True
    assert report.cpu_percent(shown, next(d for d in now.daemons if d.name == "kmtierd")) == 2.0


@pytest.mark.parametrize("word", [*counters.WHY, "tomorrow"])
def test_the_word_of_the_last_burst_is_explained(tmp_path: Path, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path, [dram(), cxl()]).place(why=f"{word} 0")
    row = next(line for line in status(tmp_path, capsys).splitlines() if line.startswith("why"))
    meaning = counters.WHY[word][0] if word in counters.WHY else "a word that this tool does not know"
    assert row.split(maxsplit=3)[1:] == [word, "0", meaning]
    document = json.loads(status(tmp_path, capsys, "--json"))
    assert document["engine"]["place"] == {
        name: int(text) if text.isdecimal() else text for name, text in (BURST | {"why": word}).items()
    } | {"targets": [{"nodes": [0], "why": word}]}


def test_each_target_has_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [dram(0), dram(1), cxl(2), cxl(3, tier=40)]
    build(tmp_path, nodes).place(why="no_victim 0\nalike 0-1\nnobody 2")
    rows = [line.split()[1:3] for line in status(tmp_path, capsys).splitlines() if line.startswith("why")]
    assert rows == [["no_victim", "0"], ["alike", "0-1"], ["nobody", "2"]]
    place = json.loads(status(tmp_path, capsys, "--json"))["engine"]["place"]
    assert place["why"] == "no_victim"
    assert [target["nodes"] for target in place["targets"]] == [[0], [0, 1], [2]]


def test_of_a_kernel_without_the_folder_nothing_is_said_of_bursts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, [dram(), cxl()])
    shutil.rmtree(tmp_path / PLACE)
    assert "LAST BURST" not in status(tmp_path, capsys)
    assert json.loads(status(tmp_path, capsys, "--json"))["engine"]["place"] is None


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (None, "-"),
        (0, "0 us"),
        (999, "999 us"),
        (12_500, "12.5 ms"),
        (999_999, "999 ms"),
        (2_000_000, "2 s"),
        (5_000_000_000, "5000 s"),
    ],
)
def test_times_have_the_unit_that_fits(us: int | None, shown: str) -> None:
    assert report._time(us) == shown


def test_unreadable_files_are_shown_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path, [dram(), cxl()])
    (tmp_path / "proc/zoneinfo").unlink()
    (tmp_path / "proc/zoneinfo").mkdir()
    assert "/proc/zoneinfo: Is a directory" in status(tmp_path, capsys)
    document = json.loads(status(tmp_path, capsys, "--json"))
    assert document["unreadable"] == [{"path": "/proc/zoneinfo", "error": "Is a directory"}]


def test_nothing_readable_is_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No page has been promoted since boot." in status(tmp_path, capsys)


def test_nonsense_in_every_file_is_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path, [dram(), cxl()])
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name not in ("has_memory", "nodelist"):
            path.write_bytes(b"\xff: what 1 2,x\nNode x, zone y\n low z\n")
    assert "promoted" in status(tmp_path, capsys)


def test_watch_prints_one_json_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path, [dram(), cxl()])
    assert run("status", "--root", str(tmp_path), "--watch", "--interval", "1ms", "--count", "3", "--json") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["status"] * 3


@pytest.mark.parametrize(
    "words", [["--watch", "--interval", "0"], ["--interval", "soon"], ["--count", "2"], ["--watch", "--count", "0"]]
)
def test_command_lines_that_make_no_sense(words: list[str]) -> None:
    with pytest.raises(UsageError):
        run("status", *words)


def test_ctrl_c_ends_watching_without_a_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, [dram()])

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("terrace.cli.status.time.sleep", interrupt)
    assert run("status", "--root", str(tmp_path), "--watch") == 0


def test_every_capability_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only two of them were, the engine and demotion."""
    tree = build(tmp_path, [dram(), cxl()])
    tree.capabilities()
    off = {item["name"]: item for item in json.loads(status(tmp_path, capsys, "--json"))["capabilities"]}
    assert all(item["present"] for item in off.values())
    assert [name for name, item in off.items() if item["on"]] == ["promotion", "demotion"]
    tree.put("sys/kernel/mm/tlb_defer/mode", "quarantine")
    tree.put("sys/kernel/mm/tlb_defer/limit_ticks", "5")
    tree.put("sys/kernel/mm/mempolicy/weighted_interleave/node0", "3")
    tree.put("proc/sys/kernel/numa_balancing", "1")
    tree.put("proc/sys/kernel/numa_balancing_scan_mode", "async")
    tree.put("proc/sys/vm/mapped_file_policy", "1")
    tree.put("proc/sys/vm/migrate_on_fault_mbps", "64")
    tree.put("sys/fs/cgroup/db/cpuset.auto_migration.effective", "1")
    tree.put("sys/fs/cgroup/db/cpuset.migrate_on_fault.effective", "2")
    tree.put("sys/fs/cgroup/db/old/cpuset.migrate_on_fault.effective", "1")
    for group in ("db/old", "db/old/er"):
        tree.put(f"sys/fs/cgroup/{group}/cpuset.numa_balancing.effective", "0")
    tree.vmstat(numa_follow_tasks=3, numa_follow_moved=256, numa_follow_pulled=256, tlb_defer_pages=1024)
    check("status-capabilities.txt", status(tmp_path, capsys))
    on = {item["name"]: item for item in json.loads(status(tmp_path, capsys, "--json"))["capabilities"]}
    assert all(item["on"] for item in on.values())
    assert on["tlb_defer"]["settings"] == {"tlb_defer.mode": "quarantine", "tlb_defer.limit_ticks": "5"}
    assert on["migrate_on_fault"]["cgroups"] == {"db": "2", "db/old": "1"}
    assert on["auto_migration"]["pages"] == 512
    assert on["numa_balancing"]["cgroups"] == {"db/old": "0"}
    assert off["numa_balancing"]["cgroups"] == {}

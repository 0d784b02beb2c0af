# SPDX-License-Identifier: GPL-2.0
"""terrace status: golden pages of machines, JSON, watching."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from ops_golden import check, run
from ops_tree import FakeNode, build, cxl, dram

from terrace.errors import UsageError
from terrace.ops import report, snapshot
from terrace.sysfs import KernelFiles

BUSY = {
    "pgpromote_success": 25600,
    "pgdemote_kswapd": 512,
    "mtier_scan_visits": 40,
    "mtier_young_slow": 51200,
    "mtier_queued": 26000,
    "mtier_drop_pinned": 300,
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
    tree = build(tmp_path, [dram(0, free=8), cxl(1, engine={"state": "target_full"}), cxl(2, tier=40)])
    tree.put("sys/kernel/mm/numa/demotion_enabled", "false")
    check("status-three-tier-full.txt", status(tmp_path, capsys))


def test_busy_machine_over_two_seconds(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl(engine={"state": "migrating", "queued": "88", "promoted": "25600"})])
    files = KernelFiles(tmp_path)
    before = replace(snapshot.take(files), monotonic_s=10.0)
    tree.vmstat(**BUSY)
    tree.thread(41, "kmmscand", 540_000_000)
    now = replace(snapshot.take(files), monotonic_s=12.0)
    shown = report.make(now, before, files.unreadable)
    check("status-busy.txt", report.as_text(shown) + "\n")
    document = report.as_json(shown)
    check("status-busy.json", json.dumps(document, indent=2) + "\n")
    assert document["moving"] is True
    assert report.cpu_percent(shown, next(d for d in now.daemons if d.name == "kmmscand")) == 2.0


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

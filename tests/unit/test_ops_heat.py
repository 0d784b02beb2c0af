# SPDX-License-Identifier: GPL-2.0
"""terrace status --heat: working sets from the kernel's file, and clear words where there is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_golden import FOLDER, check, run
from ops_tree import Tree, build, cxl, dram

import strict_schema
from terrace.cells import width
from terrace.errors import MissingError, TerraceError, UsageError
from terrace.ops import heat
from terrace.ops.heat import DEBUGFS, HEAT
from terrace.sysfs import MTIER, KernelFiles

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/reference/schema/heat.schema.json").read_text())
HEAD = "page_bytes=4096 fast=0 slow=1 processes=41"
MIB_PAGES = 256


def line(pid: int, in_use: int, comm: str, tier: str = "slow", present: int = 64, **more: int) -> str:
    """A line of the file; sizes are in MiB."""
    given = {"error": 1, "rss": 66} | {name: value for name, value in more.items() if name in ("error", "rss")}
    rest = {"looked": 8192, "ranges": 16, "of": 32, "window_us": 40_000, "age_ms": 1500}
    rest |= {name: value for name, value in more.items() if name in rest}
    sizes = {"rss": given["rss"], "present": present, "in_use": in_use, "error": given["error"]}
    fields = {name: value * MIB_PAGES for name, value in sizes.items()} | rest
    return f"pid={pid} tier={tier} {' '.join(f'{name}={value}' for name, value in fields.items())} comm={comm}"


def machine(root: Path, *lines: str, head: str = HEAD, enabled: bool = True) -> Tree:
    tree = build(root, [dram(), cxl()], enabled=enabled)
    tree.put(HEAT, "\n".join([head, *lines]))
    return tree


def status(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run("status", "--heat", "--root", str(root), *words) == 0
    return capsys.readouterr().out


def document(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """The JSON, which fits its schema."""
    found: dict[str, object] = json.loads(status(root, capsys, "--json", *words))
    strict_schema.validate(found, SCHEMA)
    return found


def test_working_sets_by_process_and_tier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine(
        tmp_path,
        line(900, 3, "small", rss=70),
        line(901, 20, "my db=1", tier="fast", present=100, rss=170, window_us=12_500),
        line(901, 32, "my db=1", rss=170, error=2, age_ms=61_000),
        line(902, 0, "idle"),
    )
    check("heat.txt", status(tmp_path, capsys))
    found = document(tmp_path, capsys)
    check("heat.json", json.dumps(found, indent=2) + "\n")
    processes = found["processes"]
    assert isinstance(processes, list)
    assert [one["pid"] for one in processes] == [901, 900, 902]
    assert processes[0]["in_use_bytes"] == 52 << 20
    assert [tier["tier"] for tier in processes[0]["tiers"]] == ["fast", "slow"]
    assert found["known_processes"] == 41 and found["problem"] is None


def test_the_page_in_the_documents_is_what_the_command_prints() -> None:
    page = (ROOT / "docs/how-to/find-working-sets.md").read_text()
    assert (FOLDER / "heat.txt").read_text() in page
    rows = (FOLDER / "report-heat.txt").read_text().splitlines()
    first = next(index for index, row in enumerate(rows) if row.startswith("PROCESS"))
    assert "\n".join(rows[first : first + 3]) in page


def test_pages_that_were_looked_at_are_not_taken_for_pages_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(tmp_path, line(902, 0, "idle", looked=8192))
    row = next(text for text in status(tmp_path, capsys).splitlines() if text.startswith("idle"))
    assert row.split()[3:6] == ["slow", "64M", "0B"] and " 0 % " in row and " 8192 " in row


def test_an_estimate_has_the_ranges_that_it_rests_on(tmp_path: Path) -> None:
    machine(tmp_path, line(901, 20, "db", ranges=16, of=36))
    [process] = heat.read(KernelFiles(tmp_path)).processes
    assert [(tier.ranges, tier.all_ranges) for tier in process.tiers] == [(16, 36)]


def test_300_processes_are_a_short_table_that_says_how_many_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(tmp_path, *(line(1000 + number, number % 60, f"p{number}") for number in range(300)))
    text = status(tmp_path, capsys)
    rows = [row for row in text.splitlines() if row.startswith("p")]
    assert len(rows) == 20 and "… and 280 more processes (--limit N)" in text
    assert len(text.splitlines()) < 40
    assert len([row for row in status(tmp_path, capsys, "--limit", "3").splitlines() if row.startswith("p")]) == 3
    found = document(tmp_path, capsys)
    assert isinstance(found["processes"], list) and len(found["processes"]) == 300 and found["left_out_processes"] == 0
    found = document(tmp_path, capsys, "--limit", "3")
    assert isinstance(found["processes"], list) and len(found["processes"]) == 3 and found["left_out_processes"] == 297


def test_only_the_processes_that_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine(tmp_path, line(900, 3, "one"), line(901, 4, "two"), line(902, 5, "three"))
    text = status(tmp_path, capsys, "-p", "900,902")
    assert "one" in text and "three" in text and "two" not in text
    assert "no sample of PID 77: there is no such process" in status(tmp_path, capsys, "--pid", "77")
    assert document(tmp_path, capsys, "--pid", "77")["processes"] == []


def test_an_engine_that_is_off_has_no_working_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine(tmp_path, enabled=False)
    text = status(tmp_path, capsys)
    assert "promotion is off, and no memory is sampled: sudo terrace set enabled 1" in text and "PROCESS" not in text
    found = document(tmp_path, capsys)
    assert found["enabled"] is False and "promotion is off" in str(found["problem"])


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("looking", "no sample has ended yet"),
        ("idle", "no memory of a process is on a slow node"),
        ("no_slow_tier", "this machine has no slow tier"),
    ],
)
def test_nothing_was_sampled_yet(state: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine(tmp_path).put(f"{MTIER}/state", state)
    assert words in status(tmp_path, capsys)


def test_a_kernel_without_the_engine_or_without_the_file(tmp_path: Path) -> None:
    build(tmp_path, [dram(), cxl(engine={})], engine=False)
    with pytest.raises(MissingError, match="has no promotion engine"):
        heat.read(KernelFiles(tmp_path))
    machine(tmp_path / "b")
    (tmp_path / "b" / HEAT).unlink()
    (tmp_path / "b" / DEBUGFS / "mtier/bursts").write_text("")
    with pytest.raises(MissingError, match=r"has no /sys/kernel/debug/mtier/heat: it is an older one of Terrace"):
        heat.read(KernelFiles(tmp_path / "b"))


def test_debugfs_that_is_not_mounted(tmp_path: Path) -> None:
    machine(tmp_path)
    shutil.rmtree(tmp_path / DEBUGFS)
    (tmp_path / DEBUGFS).mkdir()
    with pytest.raises(MissingError, match="mount -t debugfs debugfs /sys/kernel/debug"):
        heat.read(KernelFiles(tmp_path))


def test_a_file_that_may_not_be_read_is_for_root(tmp_path: Path) -> None:
    machine(tmp_path)
    (tmp_path / HEAT).unlink()
    (tmp_path / HEAT).mkdir()
    with pytest.raises(TerraceError, match=r"working sets are for root: sudo terrace status --heat"):
        heat.read(KernelFiles(tmp_path))


def test_lines_with_another_form_are_counted_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = line(900, 3, "good")
    machine(tmp_path, good, "", "pid=1", good.replace("in_use=768", "in_use=-768"), good.replace("slow", "warm"))
    text = status(tmp_path, capsys)
    assert "4 lines have another form than this tool knows" in text and "good" in text
    assert document(tmp_path, capsys)["strange_lines"] == 4


@given(st.text(max_size=300))
def test_no_content_of_the_file_is_too_strange(text: str) -> None:
    lines, strange = heat._processes(text.splitlines(), 4096)
    assert len(lines) + strange <= len(text.splitlines())


def test_control_characters_of_a_name_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(tmp_path, line(900, 3, "a\x1b[31mb"), line(901, 2, "x" * 60))
    text = status(tmp_path, capsys)
    assert "\x1b" not in text and max(map(width, text.splitlines())) <= 120


def test_heat_is_shown_again_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine(tmp_path, line(900, 3, "one"))
    text = status(tmp_path, capsys, "--watch", "--interval", "1ms", "--count", "3", "--json")
    documents = [json.loads(row) for row in text.splitlines()]
    assert len(documents) == 3
    for one in documents:
        strict_schema.validate(one, SCHEMA)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--heat", "--limit", "0"], "--limit 0: use a whole number of 1 or more"),
        (["--heat", "-p", "x"], "--pid x: use process numbers"),
        (["-p", "1"], "--heat"),
        (["--limit", "5"], "--heat"),
    ],
)
def test_words_that_make_no_sense(words: list[str], said: str, tmp_path: Path) -> None:
    machine(tmp_path)
    with pytest.raises(UsageError, match=said):
        run("status", "--root", str(tmp_path), *words)

# SPDX-License-Identifier: GPL-2.0
"""Recordings and reports of some processes, or of the processes of a cgroup."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path

import pytest
import trace_fake
from ops_golden import run
from test_record import SCHEMA as RECORD_SCHEMA
from test_record import root as root
from test_report import SCHEMA

import strict_schema
from terrace.errors import UsageError
from terrace.trace.only import Only, kept
from terrace.trace.store import Recording, read
from terrace.trace.summary import summarize


def report(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert run("report", "--json", *words) == 0
    document = json.loads(capsys.readouterr().out)
    strict_schema.validate(document, SCHEMA)
    assert isinstance(document, dict)
    return document


def pages_up(document: dict[str, object]) -> dict[int, int]:
    processes = document["processes"]
    assert isinstance(processes, list)
    return {one["pid"]: one["up_pages"] for one in processes}


def test_minus_i_is_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(trace_fake.write(tmp_path / "a"))
    assert report(capsys, "-i", file) == report(capsys, "--input", file) == report(capsys, file)
    with pytest.raises(UsageError, match="-i .*: give one of them"):
        run("report", file, "-i", file)
    with pytest.raises(UsageError, match="there is no such file"):
        run("report", "-i", str(tmp_path / "none"))


def test_a_report_of_one_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(trace_fake.write(tmp_path / "a"))
    whole, one = report(capsys, file), report(capsys, file, "-p", "901")
    assert pages_up(one) == {901: pages_up(whole)[901]} == {901: 5 * 128 + 5 * 16}
    moved = {row["what"]: row for row in one["moved"]}  # type: ignore[attr-defined]
    assert moved["promoted by the engine"]["pages"] == 720 and moved["promoted by the engine"]["tried"] is None
    assert moved["demoted by the engine"]["pages"] == 0 and moved["promoted by others (counted)"]["pages"] == 0
    assert (one["pids"], one["checks"], one["cgroups"], one["scans"]) == ([901], [], [], [])
    assert sum(one["rates"]["up"]) == 720  # type: ignore[index]
    both = pages_up(report(capsys, file, "--pid", "900,901"))
    assert both == {pid: pages_up(whole)[pid] for pid in (900, 901)}


def test_threads_are_of_their_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = report(capsys, str(trace_fake.write(tmp_path / "a")), "-p", "911")
    moved = {row["what"]: row["pages"] for row in one["moved"]}  # type: ignore[attr-defined]
    assert moved["followed their task"] == 48 and one["scans"][0]["count"] == 2  # type: ignore[index]
    assert {(row["group"], row["reason"]) for row in one["reasons"]} == {  # type: ignore[attr-defined]
        ("follow", "shared"),
        ("follow", "busy"),
        ("follow", "rate"),
    }


def test_a_report_of_a_cgroup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(trace_fake.write(tmp_path / "a"))
    assert set(pages_up(report(capsys, file, "--cgroup", "system.slice"))) == {900}
    assert pages_up(report(capsys, file, "--cgroup", "system")) == {}
    found = report(capsys, file, "--cgroup", "/sys/fs/cgroup/db")
    assert [one["name"] for one in found["cgroups"]] == ["db"]  # type: ignore[attr-defined]
    assert run("report", file, "--cgroup", "db", "-p", "900") == 0
    assert "only PID 900, cgroup /db: by events alone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"),
    [(("-p", "x"), "--pid x: use process numbers"), (("--cgroup", "/"), "--cgroup /: the root cgroup")],
)
def test_bad_words_of_a_report(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        run("report", str(trace_fake.write(tmp_path / "a")), *words)


def test_the_parts_are_the_whole() -> None:
    """Each page moved is in the report of one process, and in no other."""
    recording = Recording(trace_fake.head(), trace_fake.events())
    whole = summarize(recording)
    parts = [summarize(recording, Only(frozenset({one.pid}))) for one in whole.processes]
    assert [part.processes for part in parts] == [[one] for one in whole.processes]


def test_batches_are_kept_with_all_of_their_owners() -> None:
    events = trace_fake.events()
    found = list(kept(events, {901}.__contains__))
    owners = [event.number("pid") for event in found if event.name == "mtier_owner"]
    assert sorted(set(owners)) == [900, 901] and owners.count(900) == owners.count(901) == 10
    assert [event.name for event in found].count("mtier_migrate") == 10 and len(found) == 30
    assert list(kept(events, lambda _: False)) == []


# ---- record ----


@pytest.fixture
def process(root: Path) -> Path:
    """Process 901 of the trace, on the machine of files."""
    (root / "proc/901/task/901").mkdir(parents=True)
    for name, text in (("status", "Tgid:\t901"), ("comm", "web"), ("cgroup", "0::/web")):
        (root / "proc/901" / name).write_text(f"{text}\n")
        (root / "proc/901/task/901" / name).write_text(f"{text}\n")
    return root / "proc/901"


@pytest.mark.usefixtures("process")
def test_a_recording_of_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("record", "-p", "901", "--time", "0.1", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    strict_schema.validate(document, RECORD_SCHEMA)
    assert document["pids"] == [901]
    recording = read(Path("terrace.data"))
    assert recording.head.pids == [901] and len(recording.events) == 30
    assert recording.head.tasks["901"].name == "web"
    assert {one.pid: one.up_pages for one in summarize(recording).processes} == {901: 720}


def test_it_ends_when_the_process_has_ended(root: Path, process: Path) -> None:
    """Without --time: the machine of files loses the process once the trace is on."""

    def end() -> None:
        while not list((root / "sys/kernel/tracing/instances").glob("*/tracing_on")):
            time.sleep(0.01)
        shutil.rmtree(process)

    thread = threading.Thread(target=end, daemon=True)
    thread.start()
    assert run("record", "--pid", "901") == 0
    thread.join()
    recording = read(Path("terrace.data"))
    # It was seen while it ran: its name is known.
    assert recording.head.tasks["901"].cgroup == "web" and len(recording.events) == 30


@pytest.mark.usefixtures("root")
def test_minus_a_is_the_whole_machine() -> None:
    assert run("record", "-a", "--time", "0.1") == 0
    assert read(Path("terrace.data")).head.pids == []
    assert len(read(Path("terrace.data")).events) == len(trace_fake.events())


@pytest.mark.usefixtures("root")
def test_what_record_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="--pid 901: there is no process 901"):
        run("record", "-p", "901")
    with pytest.raises(UsageError, match="--pid a: use process numbers"):
        run("record", "-p", "a")
    with pytest.raises(SystemExit):
        run("record", "-a", "-p", "1")
    assert "not allowed with argument -a/--all" in capsys.readouterr().err

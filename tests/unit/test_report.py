# SPDX-License-Identifier: GPL-2.0
"""terrace report: a file in, a page out; what is wrong with a file is said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import trace_fake
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from ops_golden import check, run

import strict_schema
from terrace.errors import TerraceError, UsageError
from terrace.ops.diagnose import Reason
from terrace.trace import words
from terrace.trace.document import as_json
from terrace.trace.lines import EVENTS, Event, Reader
from terrace.trace.moves import Mover, quantile, split
from terrace.trace.page import COLUMNS, as_text, bar, time_text
from terrace.trace.store import Recording, read
from terrace.trace.summary import PARTS, WAIT_STEPS, summarize

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/reference/schema/report.schema.json").read_text())


# ---- the page ----


def test_the_page_of_a_busy_minute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("report", str(trace_fake.write(tmp_path / "a"))) == 0
    text = capsys.readouterr().out
    check("report-busy.txt", text)
    lines = text.splitlines()
    assert len(lines) <= 66 and max(map(len, lines)) <= COLUMNS


def test_the_page_of_a_quiet_minute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counters = dict.fromkeys(trace_fake.GROWN, 1000)
    file = trace_fake.write(
        tmp_path / "a",
        [],
        command=None,
        exit_code=None,
        counters_after=counters,
        reasons_before=[trace_fake.OFF],
        reasons_after=[trace_fake.OFF, _GAVE_UP],
        cgroups_before=[],
        cgroups_after=[],
    )
    assert run("report", str(file)) == 0
    check("report-quiet.txt", capsys.readouterr().out)


_GAVE_UP = Reason(
    "kswapd_gave_up",
    "error",
    "kswapd has given up on node 0 after 16 failures in a row: it demotes nothing until another task reclaims there",
    "terrace set demotion_enabled 1; then wake it: echo 1M > /sys/fs/cgroup/memory.reclaim. It gives up when nothing "
    "can be demoted, swapped or dropped: demotion off and no swap, slow nodes full, or all memory locked",
)


def test_the_reasons_of_both_ends_are_told_apart() -> None:
    full = Reason("slow_full", "warn", "the slow nodes are full as well", "free memory")
    newer = Reason("rate_limit", "info", "newer", "")
    head = trace_fake.head(reasons_before=[trace_fake.OFF, trace_fake.RATE], reasons_after=[full, newer])
    summary = summarize(Recording(head, []))
    found = summary.diagnosis or []
    assert [(one.id, one.at_start, one.at_end) for one in found] == [
        ("slow_full", False, True),
        ("rate_limit", True, True),
        ("off", True, False),
    ]
    assert found[1].message == "newer"
    text = as_text(summary)
    assert "warn   at the end: the slow nodes are full" in text and "info   newer" in text
    assert "error  at the start: promotion is off\n       -> terrace set enabled 1" in text


def test_a_report_in_which_nothing_moved_says_why_or_that_no_reason_is_known() -> None:
    head = trace_fake.head(reasons_before=[], reasons_after=[], counters_before={}, counters_after={})
    text = as_text(summarize(Recording(head, [])))
    assert "DIAGNOSIS" in text and "none: promotion was on" in text
    text = as_text(summarize(Recording(trace_fake.head(reasons_before=[], reasons_after=[]), trace_fake.events())))
    assert "DIAGNOSIS" not in text


def test_a_recording_of_an_older_tool_has_no_diagnosis(tmp_path: Path) -> None:
    file = trace_fake.write(tmp_path / "a")
    first, *others = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    head = json.loads(first)
    del head["reasons_before"], head["reasons_after"]
    file.write_bytes(gzip.compress(json.dumps(head).encode() + b"\n" + b"".join(others)))
    summary = summarize(read(file))
    assert summary.diagnosis is None and "DIAGNOSIS" not in as_text(summary)
    strict_schema.validate(json.loads(json.dumps(as_json(summary))), SCHEMA)


@pytest.mark.parametrize(
    "reasons", [1, [1], [{}], [{"id": "off", "severity": "fatal", "message": "m", "fix": ""}], [{"id": 1}]]
)
def test_reasons_that_are_none_are_refused(reasons: object, tmp_path: Path) -> None:
    file = trace_fake.write(tmp_path / "a", [])
    head = json.loads(gzip.decompress(file.read_bytes()))
    file.write_bytes(gzip.compress(json.dumps(head | {"reasons_after": reasons}).encode() + b"\n"))
    with pytest.raises(TerraceError, match="the head is not as `terrace record` writes it"):
        read(file)


def test_a_page_without_cgroups_has_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = trace_fake.write(tmp_path / "a", cgroups_before=[], cgroups_after=[], cgroups_problem="cgroup v1 alone")
    assert run("report", str(file)) == 0
    assert "Cgroups were not counted: cgroup v1 alone\n" in capsys.readouterr().out
    assert run("report", str(file), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    strict_schema.validate(document, SCHEMA)
    assert document["cgroups_problem"] == "cgroup v1 alone"


def test_lost_events_are_said_and_the_difference_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for number, line in enumerate(trace_fake.trace()) if number % 2]
    assert run("report", str(trace_fake.write(tmp_path / "a", lines, lost=1234, strange=2))) == 0
    text = capsys.readouterr().out
    assert "AND 1234 LOST" in text and "--buffer" in text
    assert "the trace differs: promoted by the engine" in text and "the kernel counted 11776" in text
    assert "2 events have another form" in text


def test_json_follows_its_schema_and_has_the_same_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = trace_fake.write(tmp_path / "a")
    assert run("report", str(file), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    strict_schema.validate(document, SCHEMA)
    moved = {one["what"]: one for one in document["moved"]}
    assert moved["promoted by the engine"]["pages"] == 11_520
    assert moved["demoted by the engine"]["pages"] == 500
    assert moved["followed their task"]["pages"] == 32 + 16 + 4
    assert moved["promoted by others (counted)"]["pages"] == 200
    assert sum(document["rates"]["up"]) == 11_520 and len(document["rates"]["up"]) == PARTS
    assert [check["agree"] for check in document["checks"]] == [True, True, True]
    owners = {one["pid"]: one for one in document["processes"]}
    assert owners[900]["up_pages"] + owners[901]["up_pages"] == 11_520
    assert owners[900]["shared"] and owners[901]["up_pages"] == 5 * 128 + 5 * 16
    assert (owners[911]["followed_pages"], owners[911]["balanced_pages"], owners[911]["name"]) == (48, 0, "crawler")
    assert owners[920]["balanced_pages"] == 200
    assert owners[900]["name"] == "my db=1" and owners[900]["node_bytes_after"]["0"] == 48 * trace_fake.MIB
    waits = {one["what"]: one for one in document["waits"]}
    assert waits["promoted"]["max_ns"] == 60_000_000 and waits["promoted"]["pages"] == 11_520
    assert (waits["followed"]["p50_ns"], waits["followed"]["max_ns"]) == (250_000_000, 1_000_000_000)
    reasons = {(one["group"], one["reason"]): one["count"] for one in document["reasons"]}
    assert reasons["engine", "fail_busy"] == 33 and reasons["bursts", "alike"] == 3
    assert reasons["follow", "shared"] == 7 and reasons["tasks", "policy"] == 1
    assert reasons["not deferred", "write"] == 4 and ("tasks", "lazy") not in reasons
    assert document["flushes"] == {
        "waited_pages": 513,
        "no_need_pages": 20,
        "joined_pages": 62,
        "refused_pages": 4,
        "flushes": 1,
        "interrupted_cpus": 3,
    }
    assert document["scans"][0]["p50_ns"] == 2_500_000
    assert [one["name"] for one in document["cgroups"]] == ["db", "idle"]


def test_a_kernel_without_owners_and_times_is_told_of_as_far_as_it_tells() -> None:
    lines = [trace_fake.line(101, "mtier_migrate", "source=1 target=0 tried=5 moved=5 outcome=moved")]
    summary = summarize(Recording(trace_fake.head(), trace_fake.events(lines)))
    assert summary.waits == [] and summary.processes == [] and summary.moved[0].pages == 5


def test_owners_of_another_batch_are_not_taken_for_those_of_this() -> None:
    lines = [
        trace_fake.line(101, "mtier_owner", "pid=1 source=0 target=1 down=1 folios=5 comm=lost"),
        trace_fake.line(101, "mtier_owner", "pid=2 source=1 target=0 down=0 folios=5 comm=right"),
        trace_fake.line(101, "mtier_migrate", "source=1 target=0 tried=5 moved=5 outcome=moved waited_ns=1"),
    ]
    (move,) = Mover({}).moves(trace_fake.events(lines))
    assert [(share.pid, share.pages) for share in move.shares] == [(2, 5)]


def test_what_a_process_calls_itself_moves_no_cursor() -> None:
    fields = "pid=9 source=1 target=0 down=0 folios=1 comm=\033[2Jx"
    lines = [
        trace_fake.line(101, "mtier_owner", fields),
        trace_fake.line(101, "mtier_migrate", "source=1 target=0 tried=1 moved=1 outcome=moved waited_ns=1"),
    ]
    summary = summarize(Recording(trace_fake.head(tasks={}), trace_fake.events(lines)))
    text = as_text(summary)
    assert "?[2Jx" in text and "\033" not in text


def test_a_terminal_of_ascii_has_a_page_too() -> None:
    text = as_text(summarize(Recording(trace_fake.head(), trace_fake.events())), "ascii")
    assert text.isascii() and "up       |" in text


def test_every_word_of_the_events_has_a_meaning() -> None:
    """As the kernel's headers have them."""
    headers = ROOT / "linux/include/trace/events"
    for name, known in (
        ("numa_follow.h", {*words.FOLLOW, *words.TASKS}),
        ("tlb_defer.h", {*words.REFUSALS, *words.FLUSHES}),
        ("mtier.h", set(words.OUTCOMES)),
    ):
        text = (headers / name).read_text()
        assert sorted(word for word in known if f'"{word}"' not in text) == []
        for event in EVENTS:
            system, _, short = event.partition(":")
            if name == f"{system}.h":
                assert short in text


# ---- the file ----


def test_events_come_back_as_they_were(tmp_path: Path) -> None:
    recording = read(trace_fake.write(tmp_path / "a"))
    first = trace_fake.events()[0]
    assert recording.events[0] == Event(first.at_ns - trace_fake.SINCE_NS, 77, "kmtierd", first.name, first.fields)
    assert recording.head == trace_fake.head(events=len(recording.events))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the file is empty"),
        (b"hello", "this is no file of `terrace record`"),
        (b"\x17\x08Dtracing6", "this is a file of trace-cmd"),
        (gzip.compress(b"hello\n", mtime=0), "its first line does not say terrace.trace"),
        (gzip.compress(b"[1]\n", mtime=0), "its first line does not say terrace.trace"),
        (gzip.compress(b'{"format":"terrace.trace","version":99}\n', mtime=0), "version 99, and this program reads 1"),
        (gzip.compress(b'{"format":"terrace.trace","version":1}\n', mtime=0), "the head is not as .*command"),
        (gzip.compress(b"[" * 100_000, mtime=0), "its first line does not say"),
        (b"\x1f\x8bgarbage and more of it", "damaged"),
    ],
)
def test_what_is_wrong_with_a_foreign_file_is_said(content: bytes, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(content)
    with pytest.raises(TerraceError, match=f"a(:1)?: .*{problem}"):
        read(file)


def test_a_file_that_is_not_there_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no such file; `terrace record -o .*` makes one"):
        read(tmp_path / "none")
    with pytest.raises(UsageError, match="this is a folder; name a regular file"):
        read(tmp_path)


def test_a_file_cut_off_anywhere_is_no_recording(tmp_path: Path) -> None:
    whole = trace_fake.write(tmp_path / "a").read_bytes()
    cut = tmp_path / "b"
    for end in range(0, len(whole), 97):
        cut.write_bytes(whole[:end])
        with pytest.raises(TerraceError):
            read(cut)


@pytest.mark.parametrize(
    "bad", [b"7", b'[1,2,"x","mtier_migrate",{}]', b'[1,2,"x",["y"],{}]', b"{", b'[true,2,"x","y",{}]']
)
def test_a_line_that_is_no_event_is_named(bad: bytes, tmp_path: Path) -> None:
    file = trace_fake.write(tmp_path / "a")
    lines = gzip.decompress(file.read_bytes()).splitlines()
    lines[3] = bad
    file.write_bytes(gzip.compress(b"\n".join(lines)))
    with pytest.raises(TerraceError, match=r"a:4: this line is no event"):
        read(file)


@pytest.mark.parametrize("field", ["seconds", "events", "tasks", "processes_before", "counters_after", "command"])
@pytest.mark.parametrize("value", [{}, [7], "x", 1e400, -1])
def test_a_head_of_another_kind_is_refused(field: str, value: object, tmp_path: Path) -> None:
    file = trace_fake.write(tmp_path / "a", [])
    given = json.loads(gzip.decompress(file.read_bytes()))
    if (field, value) in (("tasks", {}), ("counters_after", {})):
        return
    given[field] = value
    file.write_bytes(gzip.compress(json.dumps(given).encode()))
    with pytest.raises(TerraceError, match="the head is not as|the file is cut off"):
        read(file)


@pytest.mark.parametrize("count", [1, 2**31, 2**63 - 2, 2**63 - 1, 2**63])
def test_a_head_with_more_events_than_there_are_says_so(count: int, tmp_path: Path) -> None:
    file = trace_fake.write(tmp_path / "a", [])
    given = json.loads(gzip.decompress(file.read_bytes()))
    given["events"] = count
    file.write_bytes(gzip.compress(json.dumps(given).encode()))
    with pytest.raises(TerraceError, match=f"it has 0 events, and {count} were recorded"):
        read(file)


# ---- lines ----


def test_dropped_events_and_strange_lines_are_counted() -> None:
    reader = Reader()
    lines = [
        "CPU:1 [42 EVENTS DROPPED]\n",
        "CPU:0 [EVENTS DROPPED]\n",
        trace_fake.line(1, "mtier_migrate", "[FAILED TO PARSE] source=1"),
        trace_fake.line(1, "sched_switch", "prev=1"),
        "version = 6\n",
        "",
    ]
    assert list(reader.read(lines)) == []
    assert (reader.lost, reader.strange) == (43, 1) and "FAILED" in reader.example


def test_lines_of_an_instance_and_of_odd_names() -> None:
    fields = "pid=911 mode=async"
    lines = [
        trace_fake.line(7.5, "numa_scan_begin", fields, "kworker/u4:2-ev", 12, "terrace-77: "),
        trace_fake.line(7.5, "numa_scan_begin", fields, "a-1 [000] b: c", 12),
        trace_fake.line(7.5, "numa_scan:numa_scan_begin", fields, "", 12),
    ]
    found = list(Reader().read(lines))
    assert [(event.comm, event.pid, event.at_ns) for event in found] == [
        ("kworker/u4:2-ev", 12, 7_500_000_000),
        ("a-1 [000] b: c", 12, 7_500_000_000),
        ("", 12, 7_500_000_000),
    ]


@given(
    st.integers(0, 10**6),
    st.integers(0, 999_999_999),
    st.integers(0, 2**22),
    st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=15),
    st.integers(0, 2**63),
)
def test_a_line_is_read_as_it_was_meant(seconds: int, ns: int, pid: int, comm: str, moved: int) -> None:
    fields = f"pid={pid} source=1 target=0 down=0 folios={moved} comm={comm}"
    (event,) = Reader().read([f"{comm:>16s}-{pid:<5d} [003] {seconds}.{ns:09d}: mtier_owner: {fields}\n"])
    assert (event.at_ns, event.pid, event.number("folios")) == (seconds * 10**9 + ns, pid, moved)
    assert event.comm == comm.strip() and event.word("comm") == comm


@given(
    st.lists(
        st.text(max_size=80)
        | st.sampled_from(trace_fake.trace()).flatmap(lambda s: st.integers(0, len(s)).map(lambda n: s[:n]))
    )
)
def test_no_text_breaks_the_reader(lines: list[str]) -> None:
    for event in Reader().read(lines):
        assert event.name in {name.partition(":")[2] for name in EVENTS}


@examples(100)
@given(st.lists(st.sampled_from(trace_fake.events()), max_size=40))
def test_events_in_any_order_make_a_page(events: list[Event]) -> None:
    summary = summarize(Recording(trace_fake.head(events=len(events)), events))
    as_text(summary)
    strict_schema.validate(json.loads(json.dumps(as_json(summary))), SCHEMA)
    up = sum(e.number("moved") for e in events if e.name == "mtier_migrate")
    assert sum(summary.rates.up) == up == sum(one.pages for one in summary.routes if one.way == "up")
    assert sum(one.up_pages for one in summary.processes) <= up
    for wait in summary.waits:
        assert wait.p50_ns <= wait.p90_ns <= wait.p99_ns <= wait.max_ns
        assert len(wait.distribution) <= WAIT_STEPS + 1
        assert sum(pages for _, pages in wait.distribution) == wait.pages


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**6), max_size=20))
def test_shares_add_up(pages: int, weights: list[int]) -> None:
    parts = split(pages, weights)
    assert len(parts) == len(weights) and min(parts, default=0) >= 0
    assert sum(parts) == (pages if sum(weights) else 0)


@given(st.lists(st.integers(0, 1000), min_size=1), st.floats(0.01, 1))
def test_quantiles_are_of_the_values(values: list[int], share: float) -> None:
    found = quantile([(value, 1) for value in sorted(values)], share)
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6
    assert sum(value < found for value in values) <= share * len(values) + 1e-6


def test_bars_and_times() -> None:
    assert bar([0, 1, 50, 100], 100) == " ▁▄█" and bar([0, 0], 0) == "  "
    assert [time_text(ns) for ns in (0, 850, 12_345, 4_560_000, 7_890_000_000, 999_999, 2_000_000_000_000)] == [
        "0 ns",
        "850 ns",
        "12.3 us",
        "4.56 ms",
        "7.89 s",
        "1e+03 us",
        "2000 s",
    ]


# ---- the picture ----


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_picture_is_drawn_and_is_the_same_again(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = trace_fake.write(tmp_path / "a")
    pictures = [tmp_path / f"{name}.{suffix}" for name in "pq"]
    for picture in pictures:
        assert run("report", str(file), "--plot", str(picture)) == 0
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    quiet = trace_fake.write(tmp_path / "b", [], counters_after={})
    assert run("report", str(quiet), "--plot", str(pictures[0])) == 0


def test_a_picture_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--plot x.gif: the name has to end in one of .svg, .png, .pdf"):
        run("report", "--plot", "x.gif")
    with pytest.raises(UsageError, match="there is no folder"):
        run("report", "--plot", str(tmp_path / "no" / "x.svg"))

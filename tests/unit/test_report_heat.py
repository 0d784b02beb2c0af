# SPDX-License-Identifier: GPL-2.0
"""terrace report --heat: working sets by process and tier over the recorded time."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import trace_fake
from ops_golden import check, run

import strict_schema
from terrace.errors import UsageError
from terrace.trace import heat_page
from terrace.trace.facts import WorkingSet
from terrace.trace.lines import EVENTS, Event, Reader
from terrace.trace.page import COLUMNS, as_text
from terrace.trace.store import Recording
from terrace.trace.summary import summarize
from terrace.trace.working import PARTS

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/reference/schema/report.schema.json").read_text())
MIB_PAGES = 256


def line(
    at_s: float, pid: int, in_use: int, comm: str, tier: str = "slow", present: int = 64, looked: int = 4096
) -> str:
    """An event; sizes are in MiB."""
    sizes = f"present={present * MIB_PAGES} in_use={in_use * MIB_PAGES} error={MIB_PAGES} rss={96 * MIB_PAGES}"
    fields = f"pid={pid} tier={tier} ranges=8 of=32 looked={looked} used=100 window_ns=40000000 {sizes} comm={comm}"
    return trace_fake.line(at_s, "mtier_heat", fields)


def sets(lines: list[str], **more: object) -> list[WorkingSet]:
    return summarize(Recording(trace_fake.head(**more), list(relative(lines)))).working_sets


def relative(lines: list[str]) -> list[Event]:
    """Events as a recording has them: since its beginning."""
    return [
        Event(event.at_ns - trace_fake.SINCE_NS, event.pid, event.comm, event.name, event.fields)
        for event in Reader().read(lines)
    ]


def minute() -> list[str]:
    """A database that grows into a working set of two tiers, a crawler in bursts, an idle process."""
    lines = []
    for second in range(60):
        at = 100.5 + second
        lines.append(line(at, 900, min(48, second), "my db=1"))
        lines.append(line(at + 0.1, 900, 20, "my db=1", tier="fast", present=32))
        if 20 <= second < 40:
            lines.append(line(at + 0.2, 911, 8 * (second % 2), "crawl er"))
        if second % 5 == 0:
            lines.append(line(at + 0.3, 902, 0, "idle", looked=512))
    return sorted(lines, key=lambda text: float(text.split("]")[1].split(":")[0]))


def test_the_page_of_working_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = trace_fake.write(tmp_path / "a", minute())
    assert run("report", str(file), "--heat") == 0
    text = capsys.readouterr().out
    check("report-heat.txt", text)
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert run("report", str(file)) == 0
    assert "working sets of 3 processes are recorded: terrace report --heat" in capsys.readouterr().out


def test_the_percentiles_are_of_the_time_not_of_the_samples(tmp_path: Path) -> None:
    """Many samples in a short time do not outweigh few in a long one."""
    lines = [line(100 + number / 100, 5, 40, "a") for number in range(100)]
    lines += [line(101 + number * 10, 5, 10, "a") for number in range(6)]
    (one,) = sets(lines)
    assert one.samples == 106 and one.looked_pages == 106 * 4096
    assert (one.p25_bytes, one.p50_bytes, one.p75_bytes) == (10 << 20,) * 3
    assert (one.min_bytes, one.max_bytes) == (10 << 20, 40 << 20)


def test_percentiles_are_in_order_and_within_the_samples() -> None:
    """Property, for any samples at any times."""
    rng = random.Random(7)
    for _ in range(100):
        times = sorted(rng.uniform(100, 160) for _ in range(rng.randint(1, 30)))
        values = [rng.choice([0, 1, 5, 64, 3000]) for _ in times]
        (one,) = sets([line(at, 5, value, "a") for at, value in zip(times, values, strict=True)])
        order = [one.min_bytes, one.p25_bytes, one.p50_bytes, one.p75_bytes, one.max_bytes]
        assert order == sorted(order) and order[0] == min(values) << 20 and order[-1] == max(values) << 20
        shown = [used for used in one.over_time if used is not None]
        assert len(one.over_time) == PARTS and shown and {used >> 20 for used in shown} <= set(values)


def test_a_process_is_shown_only_while_it_was_sampled() -> None:
    (one,) = sets([line(120 + number, 5, 7, "a") for number in range(10)])
    sampled = [index for index, used in enumerate(one.over_time) if used is not None]
    assert sampled == list(range(20, 30))
    # It has lived for less than a part of the time.
    (one,) = sets([line(130.2, 5, 7, "a")])
    assert [index for index, used in enumerate(one.over_time) if used is not None] == [30]


def test_exec_begins_a_row_and_address_spaces_without_a_process_have_none() -> None:
    found = sets(
        [line(101, 5, 40, "sh"), line(102, 5, 2, "worker"), line(103, 0, 50, ""), line(104, 6, 0, "x", present=0)]
    )
    assert [(one.pid, one.name, one.p50_bytes >> 20) for one in found] == [(5, "sh", 40), (5, "worker", 2)]


def test_looked_at_is_not_in_use() -> None:
    (one,) = sets([line(101 + number, 5, 0, "idle") for number in range(5)])
    assert one.max_bytes == 0 and one.looked_pages == 5 * 4096 and one.present_bytes == 64 << 20


def test_the_json_has_all_and_fits_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line(101 + number / 10, 1000 + number, number % 50, f"p{number}") for number in range(300)]
    file = trace_fake.write(tmp_path / "a", lines)
    assert run("report", str(file), "--heat", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    strict_schema.validate(document, SCHEMA)
    assert len(document["working_sets"]) == 300 and document["working_sets_problem"] is None
    assert run("report", str(file), "--heat") == 0
    text = capsys.readouterr().out
    assert len([row for row in text.splitlines() if row.startswith("p")]) == 20
    assert "… and 280 more processes (--limit N, --json has all)" in text
    assert run("report", str(file), "--heat", "--limit", "300") == 0
    assert "more processes" not in capsys.readouterr().out


def test_the_page_is_narrowed_to_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = trace_fake.write(tmp_path / "a", minute())
    assert run("report", str(file), "--heat", "-p", "902") == 0
    text = capsys.readouterr().out
    assert "idle" in text and "my db" not in text
    assert run("report", str(file), "--heat", "-p", "77") == 0
    assert "nothing was sampled in this time" in capsys.readouterr().out


def test_a_recording_of_an_older_tool_says_that_it_has_none() -> None:
    enabled = [name for name in EVENTS if name != "mtier:mtier_heat"]
    summary = summarize(Recording(trace_fake.head(enabled=enabled), []))
    assert "the recording does not have them" in heat_page.as_text(summary, 20)
    assert "working sets" not in as_text(summary)
    summary = summarize(Recording(trace_fake.head(), []))
    assert "nothing was sampled in this time" in heat_page.as_text(summary, 20)


def test_only_a_page_with_the_fast_tier_says_nothing_of_why_it_is_not_there() -> None:
    without, both = minute(), minute()
    without = [text for text in without if "tier=fast" not in text]
    for lines, said in ((without, True), (both, False)):
        summary = summarize(Recording(trace_fake.head(), relative(lines)))
        assert ("The fast tier is not sampled" in heat_page.as_text(summary, 20)) == said


def test_encodings_without_bars(tmp_path: Path) -> None:
    summary = summarize(Recording(trace_fake.head(), relative(minute())))
    assert heat_page.as_text(summary, 2, "ascii").isascii()


@pytest.mark.parametrize("words", [["--limit", "5"], ["--heat", "--limit", "0"]])
def test_words_that_make_no_sense(words: list[str], tmp_path: Path) -> None:
    file = trace_fake.write(tmp_path / "a", minute())
    with pytest.raises(UsageError, match="--limit"):
        run("report", str(file), *words)


def test_the_picture_of_working_sets(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = trace_fake.write(tmp_path / "a", [*minute(), line(150, 77, 5, "odd $name\x1b")])
    quiet = trace_fake.write(tmp_path / "quiet", [])
    for suffix in (".svg", ".png"):
        picture = tmp_path / f"a{suffix}"
        assert run("report", str(file), "--heat", "--plot", str(picture)) == 0
        assert picture.stat().st_size > 5000
    assert run("report", str(quiet), "--heat", "--plot", str(tmp_path / "quiet.svg")) == 0

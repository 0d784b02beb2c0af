# SPDX-License-Identifier: GPL-2.0
"""The live view of terrace top without a terminal: what keys do, and what is drawn, at every size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from ops_tree import build, cxl, dram

from terrace.live import spans
from terrace.live import state as states
from terrace.live.columns import columns, that_fit
from terrace.live.draw import draw, layout
from terrace.live.screen import _STYLES
from terrace.live.state import State, fit, press, see, wanted
from terrace.ops import report, snapshot
from terrace.ops.look import Look, Want
from terrace.ops.order import Order
from terrace.ops.residents import Resident
from terrace.ops.top import Row
from terrace.ops.topology import Node
from terrace.sysfs import KernelFiles

GIB = 1 << 30
NODES = [Node(0, "0-1", rank=0, top=True, total_bytes=8 * GIB, free_bytes=GIB)]
NODES += [Node(1, "", rank=1, top=False, total_bytes=32 * GIB, free_bytes=8 * GIB)]


def group(name: str, fast: int, slow: int, up: float | None = None) -> Row:
    return Row(Resident(name, None, {0: fast, 1: slow}), up, None)


def process(name: str, pid: int, slow: int | None) -> Row:
    nodes = None if slow is None else {0: 1, 1: slow}
    return Row(Resident(name, pid, nodes, user="alice", size=7), None, None)


GROUPS = [group("a", 1, 9), group("a/x", 1, 3), group("a/x/deep", 0, 2), group("b", 5, 8, 2.0), group("c/y", 0, 5)]


def seen(rows: Iterable[Row], kind: str = "cgroup", count: int | None = None, nodes: list[Node] | None = None) -> State:
    rows = list(rows)
    state = fit(State(Want(kind), 2.0, least=5), 3)
    return see(state, Look(state.want, rows, nodes or NODES, len(rows) if count is None else count), None)


def keys(state: State, *pressed: str) -> State:
    for key in pressed:
        state = press(state, key)
    return state


def names(state: State) -> list[str]:
    return [line.row.resident.name for line in state.shown]


def chosen(state: State) -> str:
    return names(state)[state.selected]


def text(state: State, width: int = 100, height: int = 30, encoding: str = "utf-8") -> list[str]:
    return ["".join(part for part, _ in line) for line in draw(state, width, height, encoding)]


def test_the_selection_moves_and_stays_in_the_list() -> None:
    state = seen(GROUPS)
    assert names(state) == ["a", "b", "c/y", "a/x", "a/x/deep"]
    assert chosen(keys(state, "down", "down")) == "c/y"
    assert (keys(state, "up").selected, keys(state, "end").selected) == (0, 4)
    assert (keys(state, "end").offset, keys(state, "end", "up").offset, keys(state, "end", "home").offset) == (2, 2, 0)
    assert chosen(keys(state, "pgdn")) == "a/x"
    assert chosen(keys(state, "end", "pgup")) == "b"


def test_the_selection_stays_with_its_line() -> None:
    state = keys(seen(GROUPS), "down")
    grown = [replace(row, resident=Resident("new", None, {1: 99})) for row in GROUPS[:1]] + GROUPS
    assert chosen(see(state, Look(state.want, grown, NODES, 6), None)) == "b"
    # At the top it stays at the top.
    assert chosen(see(seen(GROUPS), Look(state.want, grown, NODES, 6), None)) == "new"


def test_columns_to_sort_by() -> None:
    state = seen(GROUPS)
    assert [column.key for column in state.columns()] == [
        "total",
        "node0",
        "slow",
        "fast",
        "promoted",
        "demoted",
        "name",
    ]
    assert keys(state, "<").want.order == Order("node0")
    assert names(keys(state, "<")) == ["b", "a", "a/x", "c/y", "a/x/deep"]
    assert keys(state, ">", ">", ">", ">", ">", ">").want.order == Order("name")
    assert names(keys(state, "I")) == ["a/x/deep", "a/x", "c/y", "b", "a"]
    assert names(keys(state, ">", ">"))[0] == "b"
    picked = keys(state, "f6", "up", "up", "enter")
    assert (picked.want.order, picked.mode) == (Order("total"), "")
    assert keys(state, "f6", "up", "esc").want.order == Order()
    assert "Sort by" in "\n".join(text(keys(state, "f6")))


def test_a_tree_of_control_groups() -> None:
    state = keys(seen(GROUPS), "t")
    assert [(line.row.resident.name, line.level) for line in state.shown] == [
        ("a", 0),
        ("a/x", 1),
        ("a/x/deep", 2),
        ("b", 0),
        ("c/y", 0),
    ]
    assert [line for line in text(state) if line.rstrip().endswith("    deep")]
    assert names(keys(state, "f5")) == names(seen(GROUPS))
    assert "control groups" in keys(seen([process("p", 1, 2)], "process"), "t").message


def test_search_selects_and_filter_leaves_out() -> None:
    state = keys(seen(GROUPS), "/", "X")
    assert (chosen(state), state.mode) == ("a/x", "search")
    assert chosen(keys(state, "f3")) == "a/x/deep"
    assert chosen(keys(state, "f3", "f3")) == "a/x"
    assert "Nothing here" in keys(state, "q").message and not keys(state, "q").ended
    filtered = keys(seen(GROUPS), "\\", "x", "enter")
    assert names(filtered) == ["a/x", "a/x/deep"]
    assert "Filter: x" in "\n".join(text(replace(filtered, report=machine_report(NODES))))
    assert names(keys(filtered, "f4", "backspace", "b")) == ["b"]
    assert names(keys(filtered, "f4", "esc")) == names(seen(GROUPS))


def test_kinds_change_and_keep_no_lines_of_the_other() -> None:
    state = keys(seen(GROUPS), "<", "down", "p")
    assert (state.want.kind, state.shown, state.selected) == ("process", (), 0)
    assert state.want.order == Order("node0")
    assert keys(seen(GROUPS), ">", ">", "p").want.order == Order()
    assert keys(state, "c").want.kind == keys(state, "tab").want.kind == "cgroup"
    late = Look(Want("cgroup"), GROUPS, NODES, 5)
    assert see(state, late, None) is state


def test_intervals_refresh_help_and_the_end() -> None:
    state = seen(GROUPS)
    assert [keys(state, "+").interval_s, keys(state, "-").interval_s] == [5.0, 1.0]
    assert keys(state, *["-"] * 20).interval_s == 0.2
    assert keys(replace(state, interval_s=90.0), "+").interval_s == 90.0
    assert keys(state, " ").asked == state.asked + 1
    for key in ("h", "?", "f1"):
        helped = keys(state, key)
        assert "invert the order" in "\n".join(text(helped))
        assert keys(helped, "q") == state
    assert all(keys(state, key).ended for key in ("q", "f10", "ctrl-c"))
    assert keys(state, "f1", "f10").ended


def test_no_more_processes_are_wanted_than_are_shown() -> None:
    rows = [process("p", pid, 9 - pid) for pid in range(6)]
    state = seen(rows, "process", count=90)
    assert wanted(state).most == 5
    assert not states.outdated(state, wanted(state))
    # Below the end of the screen there may be more: another screen of them is looked at.
    deeper = keys(state, "end")
    assert wanted(deeper).most == 3 + 3 + 3
    assert states.outdated(deeper, wanted(state))
    assert not states.outdated(
        replace(deeper, look=replace(state.look, count=6) if state.look else None), wanted(state)
    )
    for key in ("I", ">"):
        assert states.outdated(keys(state, key), wanted(state))
    assert states.outdated(keys(state, "c"), wanted(state))
    assert not states.outdated(keys(seen(GROUPS), "I"), wanted(seen(GROUPS)))


def test_what_may_not_be_read_is_said_and_comes_last() -> None:
    rows = [process("theirs", 1, None), process("mine", 2, 3)]
    state = seen(rows, "process")
    assert state.look
    state = replace(state, look=replace(state.look, refused=1))
    assert names(state) == ["mine", "theirs"]
    lines = text(state, 100, 12)
    assert any("Nodes of 1 process may not be read (-)" in line for line in lines)
    line = next(line for line in lines if "theirs" in line)
    assert line.split() == ["1", "alice", "7B", "-", "-", "-", "theirs"]


def test_a_name_never_controls_the_terminal() -> None:
    row = process("\033[2J\x9bx数\n", 1, 5)
    assert any(line.endswith("?[2J??x数?") or "?[2J?x数?" in line for line in text(seen([row], "process")))
    everything = "".join(text(seen([row], "process"), encoding="ascii"))
    assert everything.isascii() and everything.isprintable()


def machine_report(nodes: list[Node]) -> report.Report:
    now = snapshot.Snapshot(1.0, "6.12", True, True, "looking", 3, 0, True, nodes, [], {"pgpromote_success": 100})
    before = replace(now, monotonic_s=0.0, counters={"pgpromote_success": 0})
    return report.make(now, before, {})


def test_the_header_says_what_is_used_and_what_moves(tmp_path: Path) -> None:
    build(tmp_path, [dram(size=1024, free=256), cxl(size=4096, free=4096)])
    files = KernelFiles(tmp_path)
    state = replace(seen(GROUPS), report=report.make(snapshot.take(files), None, {}))
    lines = text(state, 100, 30)
    assert "Node 0 top" in lines[0] and "768M/1G]" in lines[0] and "Promotion engine: on, looking" in lines[0]
    inside = lines[0].partition("[")[2].partition("]")[0]
    bar = next(part for part, style in draw(state, 100, 30)[0] if style == "top")
    assert len(bar) == round(0.75 * len(inside))
    assert "0B/4G" in lines[1] and "|" not in lines[1]
    assert "Promoted: -  Demoted: -" in lines[1]
    moving = text(replace(state, report=machine_report(NODES)), 100, 30)
    assert "Promoted: 400K/s  Demoted: 0B/s" in moving[1]
    # In one column, where there is no room for two.
    assert [line.split("[")[0].strip() for line in text(state, 60, 30)[:2]] == ["Node 0 top", "Node 1 slow"]


def test_the_name_is_the_last_column_to_go() -> None:
    every = columns("cgroup", NODES)
    assert [column.key for column in that_fit(every, 200)] == [column.key for column in every]
    assert [column.key for column in that_fit(every, 32)] == ["total", "slow", "name"]
    assert [column.key for column in that_fit(every, 20)] == ["slow", "name"]
    assert [column.key for column in that_fit(every, 3)] == ["name"]


def test_of_a_long_path_the_end_is_shown() -> None:
    state = seen([group("system.slice/postgresql.service/main", 1, 2)])
    ends = {width: text(state, width, 12)[1].split()[-1] for width in (90, 78, 60)}
    assert ends == {90: "system.slice/postgresql.service/main", 78: "../postgresql.service/main", 60: "../main"}


def test_more_slow_nodes_have_a_column_of_their_sum() -> None:
    nodes = [*NODES, Node(2, "", rank=1, top=False)]
    row = Row(Resident("a", None, {0: 1, 1: 2, 2: 3}), None, None)
    assert text(seen([row], nodes=nodes), 100, 12)[0].split()[:6] == ["TOTAL", "NODE0", "NODE1", "NODE2", "SLOW", "v"]


PRESSES = st.sampled_from((*states._KEYS, "enter", "esc", "backspace", "resize", "f2", "x", "数", "\0", "\x1f", "f10"))
SIZES = st.tuples(st.integers(0, 140), st.integers(0, 40))
NAMES = st.text(max_size=9)
SIZES_B = st.integers(0, 1 << 50)


@st.composite
def looks(draw_: st.DrawFn) -> Look:
    numbers = draw_(st.lists(st.integers(0, 40), max_size=9, unique=True))
    some = st.one_of(st.none(), SIZES_B)
    nodes = [
        Node(n, "", rank=n % 3, top=draw_(st.booleans()), total_bytes=draw_(some), free_bytes=draw_(some))
        for n in numbers
    ]
    kind = draw_(st.sampled_from(("cgroup", "process")))
    size = st.dictionaries(st.sampled_from(numbers or [0]), SIZES_B)
    rows = []
    for pid, name in enumerate(draw_(st.lists(NAMES, max_size=9, unique=True))):
        held = draw_(st.one_of(st.none(), size) if kind == "process" else size)
        speed = draw_(st.one_of(st.none(), st.floats(0, 1e12)))
        rows.append(
            Row(Resident(name, pid if kind == "process" else None, held, user=draw_(NAMES), size=9), speed, speed)
        )
    return Look(Want(kind), rows, nodes, len(rows) + draw_(st.integers(0, 99)), draw_(st.integers(0, 3)))


STEPS = st.lists(st.one_of(PRESSES, SIZES, looks()), max_size=25)


@examples(400)
@given(STEPS, st.sampled_from(("utf-8", "ascii")))
def test_no_key_look_or_size_breaks_the_screen(steps: list[str | tuple[int, int] | Look], encoding: str) -> None:
    state, (width, height) = State(Want(), 2.0, least=20), (80, 24)
    for step in steps:
        if isinstance(step, str):
            state = press(state, step)
        elif isinstance(step, Look):
            state = see(state, step, machine_report(step.nodes))
        else:
            width, height = step
            state = fit(state, layout(state, width, height)[1])
        lines = draw(state, width, height, encoding)
        assert len(lines) <= height
        for line in lines:
            assert spans.width(line) <= width
            for part, style in line:
                assert style in _STYLES and part.isprintable() and (encoding == "utf-8" or part.isascii())
        assert 0 <= state.selected < max(1, len(state.shown))
        assert 0 <= state.offset <= state.selected < state.offset + state.body
        assert wanted(state).most >= min(len(state.shown), state.offset + state.body)


@pytest.mark.parametrize(("width", "height"), [(20, 5), (80, 24), (10, 3), (1, 1), (200, 60)])
@pytest.mark.parametrize("pressed", ["", "h", "f6", "/"])
def test_small_screens_show_the_selected_line(width: int, height: int, pressed: str) -> None:
    state = keys(replace(seen(GROUPS), report=machine_report(NODES)), "end", *([pressed] if pressed else []))
    state = fit(state, layout(state, width, height)[1])
    lines = draw(state, width, height)
    assert len(lines) == height or pressed == "h"
    if height >= 2 and pressed != "h":
        assert any(style == "selected" for line in lines for _, style in line)

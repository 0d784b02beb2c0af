# SPDX-License-Identifier: GPL-2.0
"""Tables fit the terminal, lose no text, and have numbers to the right."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections import Counter
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from test_ops_top import machine

from terrace import cells, output
from terrace.output import format_table
from terrace.paths import repo_root

#: Words of any width: ASCII, characters of two cells, marks on the character before them, and blanks.
TEXT = st.text(st.sampled_from("abc/.,-_ 数据é\u0301\u0323 "), max_size=90).map(str.strip)
CELL = TEXT | st.integers(0, 10**9) | st.sampled_from(["9.8M", "40 %", "-", "12.3 ms", "0B"])


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[object]], list[str]]:
    count = draw(st.integers(1, 9))
    kinds = [draw(st.sampled_from([TEXT, CELL, st.integers(0, 10**9)])) for _ in range(count)]
    rows = draw(st.lists(st.tuples(*kinds), min_size=1, max_size=6))
    return [list(row) for row in rows], [draw(st.text("ABC ", max_size=12)).strip() for _ in range(count)]


def characters(*texts: object) -> Counter[str]:
    return Counter(char for text in texts for char in str(text) if not char.isspace())


@examples(400)
@given(tables(), st.integers(40, 200))
def test_no_line_is_longer_than_the_terminal_and_no_text_is_lost(
    table: tuple[list[list[object]], list[str]], limit: int
) -> None:
    rows, headers = table
    text = format_table(rows, headers, limit)
    assert all(cells.width(line) <= limit for line in text.splitlines())
    wanted, found = characters(*(cell for row in rows for cell in row)), characters(text)
    # In blocks headers stand before each cell; there is no fewer of any character.
    assert not wanted - found
    whole = format_table(rows, headers, None)
    if max(map(cells.width, whole.splitlines()), default=0) <= limit:
        assert text == whole
    elif "\n\n" not in text and len(rows) > 1:
        assert found == wanted + characters(*headers)


@given(TEXT, st.integers(2, 60))
def test_a_folded_cell_is_its_text(text: str, room: int) -> None:
    lines = cells.fold(text, room)
    assert all(cells.width(line) <= room for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    # A mark stays with its character, unless that is a blank.
    assert " " in text or not any(line[:1] in ("\u0301", "\u0323") for line in lines[1:])


def test_long_cells_are_folded_at_blanks() -> None:
    rows = [("promote.rate", 5, "how many MiB go up in a second at most"), ("x", 12000, "short")]
    assert format_table(rows, ("KNOB", "NOW", "WHAT IT IS"), 44).splitlines() == [
        "KNOB            NOW  WHAT IT IS",
        "promote.rate      5  how many MiB go up in a",
        "                     second at most",
        "x             12000  short",
    ]


def test_what_has_no_room_as_a_table_becomes_blocks() -> None:
    rows = [("a" * 30, *range(100_000_000, 100_000_008))]
    text = format_table(rows, ("NAME", *(f"N{i}" for i in range(8))), 40)
    assert text.splitlines()[:2] == [f"NAME: {'a' * 30}", "N0: 100000000"]


@pytest.mark.parametrize(
    ("column", "right"),
    [
        ([1, 22], True),
        (["9.8M", "0B", "-"], True),
        (["40 %", "100 %"], True),
        (["1.1M/s", "?"], True),
        (["894 us", "12.3 ms"], True),
        (["512M (50 %)", "1.5G (100 %)"], True),
        ([7, "-"], True),
        (["-", "-"], False),
        (["0", "1"], False),
        (["0,2-3", "1"], False),
        (["true", "5 %"], False),
        ([True, 1], False),
    ],
)
def test_numbers_are_at_the_right(column: list[object], right: bool) -> None:
    lines = format_table([(cell, "|") for cell in column], ("A LONG HEADER", "")).splitlines()
    ends = {line.index("|") - len(line[: line.index("|")].rstrip()) for line in lines[1:]}
    assert (ends == {2}) is right


@pytest.mark.parametrize(
    ("given_columns", "size", "wide"), [("", 61, 61), ("77", 61, 77), ("x", 50, 50), ("0", 44, 44)]
)
def test_the_width_is_that_of_the_terminal(tmp_path: Path, given_columns: str, size: int, wide: int) -> None:
    """$COLUMNS comes first, then the size of the terminal."""
    code = "from terrace import output; print(output.columns())"
    assert asked(code, given_columns, size).strip() == str(wide)


def asked(code: str, given_columns: str, size: int) -> str:
    """Run a program on a terminal of `size` columns, and return its output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, size, 0, 0))
    env = {**os.environ, "PYTHONPATH": str(repo_root() / "src"), "COLUMNS": given_columns, "TERM": "dumb"}
    with subprocess.Popen([sys.executable, "-c", code], stdin=theirs, stdout=theirs, env=env) as child:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
        assert child.wait() == 0
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_a_pipe_has_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert output.columns() is None


VERBS = (
    ["set", "--list"],
    ["top", "--by", "process", "--interval", "0.01", "--count", "1"],
    ["status", "--interval", "0"],
)


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_the_tables_of_the_verbs_fit(tmp_path: Path, words: list[str]) -> None:
    tree = machine(tmp_path)
    tree.put("proc/300/comm", "数据库数据库")
    code = f"import sys; from terrace.__main__ import main; sys.exit(main({[*words, '--root', str(tmp_path)]!r}))"
    lines = asked(code, "", 72).splitlines()
    tables = [line for line in lines if not line.startswith(("Linux", "    ->", "  warning", "  note", "  stopped"))]
    assert len(tables) > 3 and max(map(cells.width, tables)) <= 72

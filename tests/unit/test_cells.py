# SPDX-License-Identifier: GPL-2.0
"""Names from elsewhere never reach a terminal as anything but marks in so many cells."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrace import cells
from terrace.output import format_table


@settings(max_examples=500)
@given(st.text())
def test_a_terminal_agrees_on_the_width_and_does_nothing_else(text: str) -> None:
    shown = cells.printable(text)
    screen = pyte.Screen(3 * len(text) + 3, 2)
    pyte.Stream(screen).feed(shown)
    assert (screen.cursor.x, screen.cursor.y) == (cells.width(shown), 0)
    assert screen.display[0].rstrip() == shown.rstrip()


@given(st.text(), st.integers(0, 30))
def test_what_is_clipped_fits_and_is_a_beginning(text: str, room: int) -> None:
    text = cells.printable(text)
    shown = cells.clip(text, room)
    assert text.startswith(shown) and cells.width(shown) <= room
    # The next one does not fit.
    assert shown == text or cells.width(text[: len(shown) + 1]) > room
    for padded in (cells.left(text, room), cells.right(text, room)):
        assert cells.width(padded) == room


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("postgres", "postgres"),
        ("\033[2J\033]0;x\007", "?[2J?]0;x?"),
        ("a\nb\tc\r", "a?b?c?"),
        ("\x9b31m", "?31m"),
        ("\u202eevil", "?evil"),
        ("e\u0301", "é"),
        ("x\u0301", "x?"),
        ("数据库", "数据库"),
        ("🚀up", "?up"),
        ("\ufffd", "\ufffd"),
    ],
    ids=ascii,
)
def test_what_is_shown_of_a_name(name: str, shown: str) -> None:
    assert cells.printable(name) == shown


def test_a_terminal_without_the_character_gets_a_question_mark() -> None:
    assert cells.printable("é数", "latin-1") == "é?"
    assert cells.printable("é", "ANSI_X3.4-1968") == "?"


def test_tables_are_aligned_behind_wide_characters() -> None:
    assert format_table([("数据库", "x"), ("sh", "y")], ("NAME", "B")) == "NAME    B\n数据库  x\nsh      y"

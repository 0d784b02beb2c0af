# SPDX-License-Identifier: GPL-2.0
"""The terminal emulator of the tests: what each sequence displays, and that it fails on what it does not know."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from emulator import Emulator, UnknownSequenceError
from pty_screen import Terminal

FIVE = b"1\r\n2\r\n3\r\n4\r\n5"


def shown(data: bytes, columns: int = 10, lines: int = 5) -> list[str]:
    """The lines that are displayed."""
    emulator = Emulator(columns, lines)
    emulator.feed(data)
    emulator.end()
    return [line.rstrip() for line in emulator.screen.display]


@pytest.mark.parametrize(
    "sent, lines",
    [
        (FIVE + b"\033[2S", ["3", "4", "5", "", ""]),
        (FIVE + b"\033[S!", ["2", "3", "4", "5", " !"]),
        (FIVE + b"\033[2T", ["", "", "1", "2", "3"]),
        (FIVE + b"\033[2;4r\033[S", ["1", "3", "4", "", "5"]),
        (FIVE + b"\033[2;4r\033[9T", ["1", "", "", "", "5"]),
        (FIVE + b"\033[2;4r\033[S\033[r\033[T", ["", "1", "3", "4", ""]),
        # The cursor's line has nothing to do with it.
        (FIVE + b"\033[2;4r\033[5H\033[S!", ["1", "3", "4", "", "!"]),
        (b"ab-\033[4b|", ["ab-----|", "", "", "", ""]),
        (b"=\033[10b", ["==========", "=", "", "", ""]),
        (b"\033[1;10H\033[Zx", ["        x", "", "", "", ""]),
        (b"\033[1;10H\033[9Zx", ["x", "", "", "", ""]),
        (b"ab\033Ec", ["ab", "c", "", "", ""]),
        # An empty line moves as any other.
        (b"1\r\n\r\n3\033[H\033[M", ["", "3", "", "", ""]),
        # What was shifted over the edge does not come back.
        (b"0123456789\033[H\033[2@\033[2P", ["01234567", "", "", "", ""]),
        # Outside of the region the cursor is not held by it.
        (b"\033[2;4r\033[5H\033[Aa\033[5H\033[Bb", ["", "", "", "a", "b"]),
        (b"\033[3;4r\033[1H\033[Aa\033[Bb", ["a", " b", "", "", ""]),
        # The second screen begins empty; the first one comes back, and the cursor with it.
        (b"ab\033[?1049h\033[Hx\033[?1049lc", ["abc", "", "", "", ""]),
        # In the last column the next character waits; a movement begins there.
        (b"0123456789\033[K", ["012345678", "", "", "", ""]),
        (b"0123456789\033[Ax", ["012345678x", "", "", "", ""]),
        # Half of a wide character is none.
        ("日本日\033[1;2Hx\033[1;5Hy".encode(), [" x本y", "", "", "", ""]),
        # Alternate characters, as vt100 draws lines with them.
        (b"\033(0qx\033(Bqx \033)0\016q\017q", ["─│qx ─q", "", "", "", ""]),
        (b"\033]2;a title\007\033]0;another\033\\x\0", ["x", "", "", "", ""]),
    ],
)
def test_what_is_displayed(sent: bytes, lines: list[str]) -> None:
    assert shown(sent) == lines


def test_it_does_not_matter_in_which_pieces_it_comes() -> None:
    sent = FIVE + "\033[2S\033[1;38;5;12mä\033]2;日本\033\\\033[2;4r\033(B".encode()
    whole, pieces = Emulator(10, 5), Emulator(10, 5)
    whole.feed(sent)
    for byte in sent:
        pieces.feed(bytes([byte]))
    pieces.end()
    assert whole.screen.display == pieces.screen.display
    assert whole.screen.margins == pieces.screen.margins


def test_a_wider_screen_has_more_tab_stops() -> None:
    emulator = Emulator(10, 2)
    emulator.screen.resize(2, 30)
    emulator.feed(b"\t\t\tx")
    assert emulator.screen.display[0].rstrip() == " " * 24 + "x"


@pytest.mark.parametrize(
    "sent",
    [
        *(b"\033[2X"[:-1] + bytes([final]) for final in b"Wcijklnopqstuvwxyz"),
        *(b"\033[!p", b"\033[>4;1m", b"\033[1$r", b"\033[?5J", b"\033[5 q", b"\033[=c"),
        *(b"\033[?47h", b"\033[?9999l", b"\033[9h", b"\033[8m", b"\033[66m"),
        *(b"\033Q", b"\033(A", b"\033#8", b"\033%G", b"\033]8;;x\007", b"\005", "\x9c".encode(), b"\033[3b"),
    ],
)
def test_what_it_does_not_know_fails(sent: bytes) -> None:
    with pytest.raises(UnknownSequenceError):
        shown(sent)


@pytest.mark.parametrize("sent", [b"\033", b"\033[3", b"\033]2;title", b"\033("])
def test_a_sequence_without_its_end_fails_with_the_program(sent: bytes) -> None:
    with pytest.raises(UnknownSequenceError, match="not complete"):
        shown(b"x" + sent)


# Draws pictures, each a change of the one before: lines move up and down (ncurses scrolls) or are shifted (it inserts
# and deletes); characters are repeated; colours change. After each picture the program writes what ncurses believes is
# displayed to a file, and the picture's number into the title, which follows the picture on the same stream.
# There are no wide characters: ncurses 6.4 itself begins one in the second half of another.
DRAW = """
import curses, json, os, random, sys

def line(dice, columns):
    kind = dice.randrange(5)
    if kind == 0:
        return ""
    if kind == 1:
        return dice.choice("-=#") * dice.randrange(columns)
    words = dice.choices(["node", "0", "éß", "-----", " " * 17, "mem.max", "x" * 12], k=dice.randrange(1, 9))
    return " ".join(words)[: columns // 2]

def change(dice, lines, columns):
    count, by = len(lines), dice.randrange(1, 5)
    kind, at = dice.randrange(6), dice.randrange(count)
    if kind == 0:
        return lines[by:] + [line(dice, columns) for _ in range(by)]
    if kind == 1:
        return [line(dice, columns) for _ in range(by)] + lines[:-by]
    if kind == 2:
        return lines[:at] + lines[at + by :] + [""] * min(by, count - at)
    if kind == 3:
        return (lines[:at] + [line(dice, columns) for _ in range(by)] + lines[at:])[:count]
    if kind == 4:
        return [dice.choice([text, text[by:], "+" * by + text]) for text in lines]
    return [line(dice, columns) for _ in range(count)]

def main(screen):
    dice = random.Random(64)
    screen.idlok(True)
    curses.curs_set(0) if curses.tigetstr("civis") else None
    colours = curses.has_colors()
    if colours:
        curses.start_color()
        curses.init_pair(1, curses.COLOR_WHITE, curses.COLOR_BLUE)
    rows, columns = screen.getmaxyx()
    lines = [""] * rows
    for number in range(int(sys.argv[2])):
        lines = change(dice, lines, columns)
        screen.erase()
        screen.bkgdset(" ", curses.color_pair(1) if colours and number % 3 == 0 else 0)
        for y, text in enumerate(lines):
            style = dice.choice([0, 0, curses.A_REVERSE, curses.A_BOLD])
            screen.insstr(y, 0, text, style)
        screen.move(dice.randrange(rows), dice.randrange(columns))
        screen.refresh()
        believed = [screen.instr(y, 0).decode().rstrip() for y in range(rows)]
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(believed, file)
        os.write(1, f"\\033]2;{number}\\007".encode())
        screen.getch()

curses.wrapper(main)
"""
ROUNDS = 150


@pytest.mark.parametrize("kind", ["xterm-256color", "vt100", "linux", "screen"])
def test_shows_what_ncurses_believes_is_displayed(kind: str, tmp_path: Path) -> None:
    """The terminals that test_top_screen.py uses."""
    command = [sys.executable, "-c", DRAW, str(tmp_path / "believed"), str(ROUNDS)]
    terminal = Terminal(command, columns=60, lines=24, TERM=kind)
    for number in range(ROUNDS):
        terminal.until(lambda number=number: terminal.screen.title == str(number), f"picture {number}")  # type: ignore[misc]
        believed = json.loads((tmp_path / "believed").read_text(encoding="utf-8"))
        assert [line.rstrip() for line in terminal.screen.display] == believed, f"picture {number}"
        terminal.press(" ")
    assert terminal.end() == 0
    terminal.close()
    # The pictures do scroll, in the way that this terminal has.
    wanted = {"xterm-256color": "ST", "screen": "ST", "linux": "LM", "vt100": "r"}[kind]
    used = {found[1].decode() for found in re.finditer(rb"\033\[[0-9;]*([@-~])", terminal.sent)}
    assert set(wanted) <= used, sorted(used)

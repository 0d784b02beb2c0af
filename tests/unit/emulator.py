# SPDX-License-Identifier: GPL-2.0
"""A terminal emulator for tests that fails on what it does not know.

pyte 0.8.2 has the screen. It ignores each sequence that it does not know, such as CSI S, with which ncurses scrolls;
a test then fails long afterwards or passes by chance. This module raises `UnknownSequenceError` instead, and corrects
the screen where it differs from xterm. test_emulator.py compares it with what ncurses believes is displayed.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

import pyte
from pyte.screens import Margins
from wcwidth import wcwidth


class UnknownSequenceError(Exception):
    """The program sent a sequence that this emulator does not implement."""


# One control sequence, or text up to the next one. The last alternative is a sequence that has not arrived in full.
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])"
    r"|(?:\x1b\[|\x9b)(?P<params>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b\](?:(?P<osc>[0-9]+)(?:;(?P<words>[^\x07\x1b]*))?(?:\x07|\x1b\\)|P[0-9a-fA-F]{7}|R)"
    r"|\x1b(?P<escape>[ -/]*[0-OQ-WYZ\\`-~])"
    r"|(?P<incomplete>(?:\x1b|\x9b)[^\x1b]*\x1b?\Z)"
)
# Sequences of xterm, vt100, linux and screen that change no character on the screen: modes of the cursor keys, of the
# blinking cursor, of the meta key and of pasting; the shape of the cursor; the keypad; title and palette.
_NO_PICTURE_PRIVATE = {1, 12, 1034, 2004}
_NO_PICTURE_MODES = {34}
_NO_PICTURE_ESCAPES = {"=", ">", "\\"}
_NO_PICTURE_OSC = {0, 1, 2, 4, 104}
_PRIVATE_MODES = {5, 6, 7, 25}
_MODES = {4, 20}
_ALTERNATE = 1049
_SGR = {0, 1, 2, 3, 4, 5, 7, 9, 10, 22, 23, 24, 25, 27, 29, *range(30, 50), *range(90, 98), *range(100, 108)}
_CHARSETS = {"(B", "(0", ")B", ")0"}
_ESCAPES = {"7": "save_cursor", "8": "restore_cursor", "D": "index", "E": "next_line", "M": "reverse_index"}
_ESCAPES |= {"H": "set_tab_stop", "c": "reset"}
_CONTROLS = {"\a": "bell", "\b": "backspace", "\t": "tab", "\n": "linefeed", "\v": "linefeed", "\f": "linefeed"}
_CONTROLS |= {"\r": "carriage_return", "\x0e": "shift_out", "\x0f": "shift_in"}
_IGNORED_CONTROLS = {"\x00", "\x7f"}
# The functions without a question mark; an answer to the program (c, n) is not implemented.
_CSI = {final: name for final, name in pyte.Stream.csi.items() if final not in "cnhlm"}
_CSI |= {"S": "scroll_up", "T": "scroll_down", "b": "repeat", "Z": "back_tab"}


class Screen(pyte.Screen):
    """pyte's screen, with the functions that it lacks, and as xterm where it differs."""

    def __init__(self, columns: int, lines: int) -> None:
        self._last = ""
        self._primary: tuple[Any, Any] | None = None
        super().__init__(columns, lines)

    def _region(self) -> Margins:
        return self.margins or Margins(0, self.lines - 1)

    @property
    def display(self) -> list[str]:
        """The lines; half of a wide character, of which the other half was drawn over, is empty."""
        return [self._line(y) for y in range(self.lines)]

    def _line(self, y: int) -> str:
        cells = [self.buffer[y][x].data for x in range(self.columns)] + [" "]
        shown, x = "", 0
        while x < self.columns:
            wide = cells[x] != "" and wcwidth(cells[x][0]) == 2
            whole = not wide or (cells[x + 1] == "" and x + 1 < self.columns)
            shown += cells[x] if cells[x] and whole else " "
            x += 2 if wide and whole else 1
        return shown

    # ---- functions that pyte does not know ----

    def scroll_up(self, count: int = 0) -> None:
        """SU: move the lines of the region up; the cursor stays."""
        self._at_top(self.delete_lines, count)

    def scroll_down(self, count: int = 0) -> None:
        """SD: move the lines of the region down; the cursor stays."""
        self._at_top(self.insert_lines, count)

    def _at_top(self, change: Any, count: int) -> None:
        x, y = self.cursor.x, self.cursor.y
        self.cursor.y = self._region().top
        change(count)
        self.cursor.x, self.cursor.y = x, y

    def repeat(self, count: int = 0) -> None:
        """REP: draw the last character `count` times more."""
        if not self._last:
            raise UnknownSequenceError("CSI b without a character before it")
        self.draw(self._last * (count or 1))

    def back_tab(self, count: int = 0) -> None:
        """CBT: move the cursor back by `count` tab stops."""
        for _ in range(count or 1):
            self.cursor.x = max((stop for stop in self.tabstops if stop < self.cursor.x), default=0)

    def next_line(self) -> None:
        """NEL: begin the next line; pyte keeps the column."""
        self.carriage_return()
        self.index()

    def alternate(self, on: bool) -> None:
        """Private mode 1049: show a second, empty screen; then the first one again, with its cursor."""
        if on and self._primary is None:
            self._primary = (dict(self.buffer), (self.cursor.x, self.cursor.y))
            self.buffer.clear()
        elif not on and self._primary is not None:
            lines, (x, y) = self._primary
            self._primary = None
            self.buffer.clear()
            self.buffer.update(lines)
            self.cursor.x, self.cursor.y = min(x, self.columns - 1), min(y, self.lines - 1)

    # ---- functions in which pyte differs from xterm ----

    def reset(self) -> None:
        super().reset()
        self._last, self._primary = "", None

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        super().resize(lines, columns)
        self.tabstops |= set(range(8, self.columns, 8))

    def draw(self, data: str) -> None:
        if strange := [char for char in data if wcwidth(char) < 0]:
            raise UnknownSequenceError(f"characters that cannot be printed: {strange}")
        super().draw(data)
        self._last = data[-1:] or self._last

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        super().set_margins(top, bottom)
        self.cursor_position()

    def delete_lines(self, count: int | None = None) -> None:
        # pyte does not move an empty line that has no entry yet.
        for y in range(self.lines):
            self.buffer[y]
        super().delete_lines(count)

    def insert_characters(self, count: int | None = None) -> None:
        super().insert_characters(count)
        # Characters that left the line at its end do not come back when others are deleted.
        self.buffer[self.cursor.y].pop(self.columns, None)

    def cursor_up(self, count: int | None = None) -> None:
        top = self._region().top
        self.cursor.y = max(self.cursor.y - (count or 1), top if self.cursor.y >= top else 0)

    def cursor_down(self, count: int | None = None) -> None:
        bottom = self._region().bottom
        self.cursor.y = min(self.cursor.y + (count or 1), bottom if self.cursor.y <= bottom else self.lines - 1)


class Emulator:
    """Decodes the output of a program for a UTF-8 terminal; `screen` has the characters that are displayed."""

    def __init__(self, columns: int, lines: int) -> None:
        self.screen = Screen(columns, lines)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> None:
        """Display `data`, which may end inside a sequence. Raises UnknownSequenceError, which names it."""
        text = self._rest + self._decoder.decode(data)
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if not found:
                raise UnknownSequenceError(f"{text[at : at + 20]!r}")
            if found["incomplete"]:
                break
            self._token(found)
            at = found.end()
        self._rest = text[at:]

    def end(self) -> None:
        """The program has ended. Raises UnknownSequenceError for a sequence that is not complete."""
        if self._rest:
            raise UnknownSequenceError(f"not complete: {self._rest!r}")

    def _token(self, found: re.Match[str]) -> None:
        known = True
        if found["text"]:
            self.screen.draw(found["text"])
        elif found["control"]:
            known = self._call(_CONTROLS, found["control"]) or found["control"] in _IGNORED_CONTROLS
        elif found["final"]:
            known = not found["between"] and self._csi(found["params"], found["final"])
        elif found["osc"]:
            known = self._title(int(found["osc"]), found["words"] or "")
        elif found["escape"]:
            known = self._escape(found["escape"])
        if not known:
            raise UnknownSequenceError(f"{found[0]!r}")

    def _call(self, table: dict[str, str], key: str, *params: int) -> bool:
        if key not in table:
            return False
        getattr(self.screen, table[key])(*params)
        return True

    def _escape(self, word: str) -> bool:
        if word in _CHARSETS:
            self.screen.define_charset(word[1], word[0])
            return True
        return self._call(_ESCAPES, word) or word in _NO_PICTURE_ESCAPES

    def _title(self, number: int, words: str) -> bool:
        if number in (0, 2):
            self.screen.set_title(words)
        return number in _NO_PICTURE_OSC

    def _csi(self, text: str, final: str) -> bool:
        private = text.startswith("?")
        words = text[private:].split(";")
        if not all(word.isdecimal() or not word for word in words):
            return False
        params = [int(word or 0) for word in words]
        if final in "hl":
            known = [self._mode(mode, private, final == "h") for mode in params]
            return all(known)
        if private:
            # The cursor's shape on a Linux console.
            return final == "c"
        if final == "m":
            return self._colours(params)
        if final == "t":
            # xterm keeps and restores its title.
            return params in ([22, 0, 0], [23, 0, 0])
        # A character in the last column waits with the next line until another one follows.
        self.screen.cursor.x = min(self.screen.cursor.x, self.screen.columns - 1)
        return self._call(_CSI, final, *params)

    def _mode(self, mode: int, private: bool, on: bool) -> bool:
        if private and mode == _ALTERNATE:
            self.screen.alternate(on)
        elif mode in (_PRIVATE_MODES if private else _MODES):
            (self.screen.set_mode if on else self.screen.reset_mode)(mode, private=private)
        else:
            return mode in (_NO_PICTURE_PRIVATE if private else _NO_PICTURE_MODES)
        return True

    def _colours(self, params: list[int]) -> bool:
        plain = params[: next((at for at, word in enumerate(params) if word in (38, 48)), len(params))]
        self.screen.select_graphic_rendition(*params)
        return set(plain) <= _SGR

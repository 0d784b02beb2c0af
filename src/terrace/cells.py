# SPDX-License-Identifier: GPL-2.0
"""Show text from outside in the cells of a terminal: replace unsafe characters, measure, clip, pad and fold.

A process names itself, and may take escape sequences, line ends or characters of two cells for it. What `printable`
returns moves no cursor, changes no colour, and takes `width` cells on every terminal.
"""

from __future__ import annotations

import unicodedata

#: Signs whose width differs by version of Unicode (trigrams and hexagrams, wide since 16), and fillers of Hangul.
_UNSURE = ((0x2630, 0x2637), (0x268A, 0x268F), (0x3164, 0x3164), (0x31E4, 0x31E5), (0x4DC0, 0x4DFF), (0xFFA0, 0xFFA0))
#: Stands for each character that is not shown.
HIDDEN = "?"


def printable(text: str, encoding: str = "utf-8") -> str:
    """`text` with HIDDEN for each character that is no mark on paper, of no sure width, or not in `encoding`."""
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(char if _is_sure(char) else HIDDEN for char in unicodedata.normalize("NFC", text))
    return shown.encode(encoding, "replace").decode(encoding)


def _is_sure(char: str) -> bool:
    """Whether terminals agree on its width; marks, emoji and parts of Hangul may join the one before."""
    code = ord(char)
    if not char.isprintable() or code > 0xFFFF or 0x1160 <= code <= 0x11FF or 0xD7B0 <= code <= 0xD7FF:
        return False
    if any(first <= code <= last for first, last in _UNSURE):
        return False
    return unicodedata.category(char) not in ("Mn", "Me", "Mc")


def width(text: str) -> int:
    """Cells that text takes: two for each wide character of East Asia, none for a mark on the character before it."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(char) for char in text)


def _cells_of(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, cells: int) -> str:
    """Cut `text` to its longest beginning that fits."""
    if text.isascii():
        return text[: max(0, cells)]
    taken = 0
    for index, char in enumerate(text):
        taken += width(char)
        if taken > cells:
            return text[:index]
    return text


def left(text: str, cells: int) -> str:
    """Cut or pad `text` to `cells` cells, at the left."""
    shown = clip(text, cells)
    return shown + " " * (cells - width(shown))


def right(text: str, cells: int) -> str:
    """Cut or pad `text` to `cells` cells, at the right."""
    shown = clip(text, cells)
    return " " * (cells - width(shown)) + shown


def fold(text: str, cells: int) -> list[str]:
    """`text` as lines of at most `cells` cells, which are two or more; a word that is longer is cut.

    Blanks at the end of a line are left out, and nothing else. Lines have the indentation of the first where that
    leaves half of the room.
    """
    lines: list[str] = []
    for part in text.split("\n"):
        indent = part[: len(part) - len(part.lstrip(" "))]
        indent = indent if len(indent) <= cells // 2 - 1 else ""
        rest = part.strip(" ")
        while width(indent + rest) > cells:
            taken = _first_line(rest, cells - width(indent))
            lines.append(indent + taken.rstrip(" "))
            rest = rest[len(taken) :].lstrip(" ")
        lines.append(indent + rest)
    return lines


def _first_line(text: str, cells: int) -> str:
    """Cut `text` at the last blank that fits, or at the last cell if there is none; one character at least."""
    fitting = clip(text, cells)
    if text[len(fitting) :].startswith(" "):
        return fitting
    head, blank, _ = fitting.rpartition(" ")
    return head if blank and head.strip(" ") else fitting or text[:1]

# SPDX-License-Identifier: GPL-2.0
"""Text from elsewhere in the cells of a terminal: what may be shown of it, and how wide it is.

A process names itself, and may take escape sequences, line ends or characters of two cells for it. What `printable`
returns moves no cursor, changes no colour, and is as wide on every terminal as `width` says.
"""

from __future__ import annotations

import unicodedata

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
    return unicodedata.category(char) not in ("Mn", "Me", "Mc")


def width(text: str) -> int:
    """Cells that printable text takes: two for each wide character of East Asia."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def clip(text: str, cells: int) -> str:
    """As much of the beginning of `text` as fits."""
    if text.isascii():
        return text[: max(0, cells)]
    taken = 0
    for index, char in enumerate(text):
        taken += width(char)
        if taken > cells:
            return text[:index]
    return text


def left(text: str, cells: int) -> str:
    """`text` in just so many cells, at the left."""
    shown = clip(text, cells)
    return shown + " " * (cells - width(shown))


def right(text: str, cells: int) -> str:
    """`text` in just so many cells, at the right."""
    shown = clip(text, cells)
    return " " * (cells - width(shown)) + shown

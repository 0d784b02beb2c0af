# SPDX-License-Identifier: GPL-2.0
"""Lines of a screen: pieces of text, each with the name of a style."""

from __future__ import annotations

from terrace import cells

#: A piece of text, and one of the styles that `terrace.live.screen` knows.
Span = tuple[str, str]
Line = list[Span]


def width(line: Line) -> int:
    """Cells that the line takes."""
    return sum(cells.width(text) for text, _ in line)


def clipped(line: Line, most: int) -> Line:
    """As much of the line as fits into so many cells."""
    kept: Line = []
    for text, style in line:
        shown = cells.clip(text, most)
        if shown:
            kept.append((shown, style))
        most -= cells.width(shown)
        if shown != text:
            break
    return kept


def padded(line: Line, most: int) -> Line:
    """The line in just so many cells."""
    kept = clipped(line, most)
    return [*kept, (" " * (most - width(kept)), "plain")]

# SPDX-License-Identifier: GPL-2.0
"""Lines of a screen, as pieces of text with a style each."""

from __future__ import annotations

from terrace import cells

#: A piece of text, and one of the styles of `terrace.live.screen`.
Span = tuple[str, str]
Line = list[Span]


def width(line: Line) -> int:
    """Get the number of cells of a line."""
    return sum(cells.width(text) for text, _ in line)


def clipped(line: Line, most: int) -> Line:
    """Cut a line to a number of cells."""
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
    """Cut or pad a line to exactly this number of cells."""
    kept = clipped(line, most)
    return [*kept, (" " * (most - width(kept)), "plain")]

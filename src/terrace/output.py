# SPDX-License-Identifier: GPL-2.0
"""Output for people and programs: results on stdout (tables, JSON), messages about the work on stderr."""

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, Literal, TextIO

from terrace import cells

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
#: Those that JSON leaves as they are: DEL, and what starts an escape sequence in one character.
_CONTROLS = re.compile("[\x7f-\x9f]")
#: Between two columns of a table.
_GAP = "  "
#: A terminal is never taken to be narrower, nor is a column that is folded.
_LEAST_CELLS = 20
_LEAST_COLUMN = 10
#: A number with a unit: 9.8M, 1.1M/s, 40 %, 12.3 ms, 512M (50 %), 3.1x; and what stands for one that is not known.
_MEASURE = re.compile(
    r"[-+~]?\d+(?:\.\d+)?(?: ?(?:[BKMGT](?:/s)?|[KMGT]?i?B(?:/s)?|%|ns|us|ms|s|min|h|x|/s))(?: \(\d+(?:\.\d+)? ?%\))?"
)
_UNKNOWN = ("-", "?", "")
_SURROGATES = re.compile("[\ud800-\udfff]")


#: Signs in our texts that not every encoding has.
_PLAIN = {"…": "...", "–": "-", "—": "-", "→": "->", "×": "x", "≥": ">=", "≤": "<=", "±": "+-", "µ": "u", "·": "."}


def _in_plain_signs(error: UnicodeError) -> tuple[str, int]:
    """Replace what an encoding does not have, for `str.encode` and streams."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(char, "?") for char in text), error.end


codecs.register_error("terrace", _in_plain_signs)


def print_anything(stream: TextIO) -> None:
    """Have `stream` replace characters that its encoding lacks: text of ours, and names of files and processes."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="terrace")


def colour_wanted(stream: TextIO) -> bool:
    """True when `stream` is a terminal and the user did not set NO_COLOR."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def style(text: str, name: str, stream: TextIO | None = None) -> str:
    """`text` in a colour or weight (bold dim red green yellow blue) where `stream` (default stdout) shows it."""
    if not colour_wanted(stream or sys.stdout):
        return text
    return f"\033[{_CODES[name]}m{text}\033[0m"


def say(text: str) -> None:
    """A line about the work in progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """A line about something that is not as it should be, on stderr."""
    say(f"{style('terrace: warning:', 'yellow', sys.stderr)} {text}")


def emit_json(obj: Any) -> None:
    """Print `obj` as indented JSON on stdout. Keys keep their order; no character is a terminal's control."""
    # Other encodings lack characters, and none has half of a surrogate pair, as in a name that is not UTF-8.
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(obj, indent=2, ensure_ascii=not unicode)
    text = _SURROGATES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    print(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def columns(stream: TextIO | None = None) -> int | None:
    """Cells of a line of `stream` (default stdout): $COLUMNS or the terminal's; None where it is no terminal."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    if re.fullmatch(r"[0-9]{1,5}", given) and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def format_table(
    rows: Sequence[Sequence[object]], headers: Sequence[str] = (), limit: int | Literal["terminal"] | None = "terminal"
) -> str:
    """Format rows as aligned columns, numbers to the right; rows may be shorter than the header. No trailing newline.

    No line is longer than `limit` cells, which are by default those of the terminal, and unlimited elsewhere: cells are
    folded, the widest columns first. Where that leaves too little room for a column, each row becomes a block of lines,
    one for each cell, with the header before it.
    """
    lines = [[str(cell) for cell in row] for row in rows]
    every = ([list(headers)] if headers else []) + lines
    if not every:
        return ""
    limit = columns() if limit == "terminal" else limit
    count = max(len(row) for row in every)
    widths = [max((cells.width(row[i]) for row in every if i < len(row)), default=0) for i in range(count)]
    right = [_is_numeric([row[i] for row in rows if i < len(row)]) for i in range(count)]
    text = "\n".join(_line(row, widths, right) for row in every)
    if limit is None or all(cells.width(line) <= limit for line in text.splitlines()):
        return text
    limit = max(limit, _LEAST_CELLS)
    narrowed = _narrowed(widths, right, limit - len(_GAP) * (count - 1))
    if narrowed is None:
        return "\n\n".join(_block(row, headers, limit) for row in lines or every)
    return "\n".join(_line(row, narrowed, right) for row in every)


def _is_numeric(column: Sequence[object]) -> bool:
    """Whether all cells of a column are numbers, sizes, times, or stand for one that is not known."""
    numbers = [isinstance(cell, int | float) and not isinstance(cell, bool) for cell in column]
    measured = [isinstance(cell, str) and _MEASURE.fullmatch(cell.strip()) is not None for cell in column]
    unknown = [isinstance(cell, str) and cell.strip() in _UNKNOWN for cell in column]
    some = any(numbers) or any(measured)
    return some and all(any(kinds) for kinds in zip(numbers, measured, unknown, strict=True))


def _narrowed(widths: Sequence[int], right: Sequence[bool], room: int) -> list[int] | None:
    """Widths that are `room` together: text columns as wide as the widest may be; None when that is too narrow."""
    fixed = sum(wide for wide, number in zip(widths, right, strict=True) if number)
    texts = sorted(wide for wide, number in zip(widths, right, strict=True) if not number)
    left = room - fixed
    for place, wide in enumerate(texts):
        share = left // (len(texts) - place)
        if wide > share:
            if share < _LEAST_COLUMN:
                return None
            return [min(own, share) if not number else own for own, number in zip(widths, right, strict=True)]
        left -= wide
    return None


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """A row, on as many lines as its longest cell takes."""
    folded = [
        cells.fold(cell, wide) if cells.width(cell) > wide else [cell]
        for cell, wide in zip(row, widths[: len(row)], strict=True)
    ]
    lines = []
    for number in range(max((len(parts) for parts in folded), default=1)):
        texts = [parts[number] if number < len(parts) else "" for parts in folded]
        padded = [
            cells.right(text, widths[i]) if right[i] else cells.left(text, widths[i]) for i, text in enumerate(texts)
        ]
        lines.append(_GAP.join(padded).rstrip())
    return "\n".join(lines)


def _block(row: Sequence[str], headers: Sequence[str], limit: int) -> str:
    """A row as lines of `HEADER: cell`, those of a folded cell indented."""
    lines = []
    for i, cell in enumerate(row):
        title = f"{headers[i]}: " if i < len(headers) and headers[i] else ""
        first, *more = cells.fold(title + cell.strip(), limit)
        lines.append(first)
        lines += [f"  {line}" for part in more for line in cells.fold(part, limit - 2)]
    return "\n".join(lines)


def table(rows: Sequence[Sequence[object]], headers: Sequence[str] = ()) -> None:
    """Print rows as `format_table` makes them on stdout; the header is bold on a terminal."""
    text = format_table(rows, headers)
    if headers and text and not text.startswith(f"{headers[0]}: "):
        head, _, rest = text.partition("\n")
        text = style(head, "bold") + (f"\n{rest}" if rest else "")
    if text:
        print(text)


def format_duration(seconds: float) -> str:
    """Format seconds for people: 0.8 s, 12 s, 5 min 30 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

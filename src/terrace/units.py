# SPDX-License-Identifier: GPL-2.0
"""Parse and format sizes, times and node sets."""

import math
import re
from collections.abc import Callable, Iterable

from terrace.errors import UsageError

_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_TIME_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_SIZE = re.compile(_NUMBER + r"\s*([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
_TIME = re.compile(_NUMBER + r"\s*(ns|us|ms|s|min|h)", re.ASCII)
#: The largest number of bytes or nanoseconds, as for the kernel.
_MOST = (1 << 63) - 1
#: More digits after the point cannot change a whole number of bytes or nanoseconds.
_FRACTION_DIGITS = 60
#: Most characters of an invalid value in a message.
_SHOWN = 60
_INTERVAL_MAX_S = 24 * 3600.0
_SIZE_STEPS = ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


def clipped(text: str) -> str:
    """Shorten a value for a message to one line."""
    shown = "".join(char if char.isprintable() else "?" for char in text[:_SHOWN])
    return shown if len(text) <= _SHOWN else f"{shown}… ({len(text)} characters)"


def to_whole(text: str, low: int, high: int) -> int | None:
    """Parse `text` as a whole number in decimal digits of ASCII; None if it is none, or not from
    `low` to `high`.

    `high` has at most 20 digits. All numbers from outside are parsed here, or by functions based on
    this one: `int` accepts other scripts and underscores, and rejects 5,000 digits with another
    error.
    """
    found = re.fullmatch(r"(-?)0*([0-9]{1,20})", text)
    value = int(found[1] + found[2]) if found else None
    return value if value is not None and low <= value <= high else None


def _scaled(number: str, unit: int) -> int | None:
    """Multiply `number` (decimal digits, optionally a fraction) by `unit`, exactly; a fraction of
    the result is cut off.

    None if it is above `_MOST`.
    """
    whole, _, fraction = number.partition(".")
    if to_whole(whole, 0, _MOST) is None:
        return None
    fraction = fraction[:_FRACTION_DIGITS]
    scale: int = 10 ** len(fraction)
    value = int(whole.lstrip("0") + fraction or "0") * unit // scale
    return value if value <= _MOST else None


def parse_size(text: str) -> int:
    """Parse bytes of `4096`, `4K`, `1.5G`, `64MiB` (powers of 1024).

    Raises UsageError if `text` is none of these.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise UsageError(f"size '{clipped(text)}' is not a number with one of the units K, M, G, T (example: 1.5G)")
    if (size := _scaled(match[1], _SIZE_UNITS[match[2].upper()])) is None:
        raise UsageError(f"size '{clipped(text)}' is too large: use less than {1 << 23}T")
    return size


def whole_number(option: str, low: int, high: int) -> Callable[[str], int]:
    """Create a parser of the value of `option`, for argparse: a whole number from `low` to `high`.

    It raises UsageError with the option, the value and the allowed range.
    """

    def read(text: str) -> int:
        value = to_whole(text, low, high)
        if value is None:
            raise UsageError(f"{option} {clipped(text)}: use a whole number from {low} to {high}")
        return value

    return read


def parse_pids(option: str, text: str) -> frozenset[int]:
    """Parse process numbers of the value of `option`, `1234` or `1234,5678`. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,9}", part, re.ASCII) and int(part) for part in parts):
        raise UsageError(f"{option} {text}: use process numbers with commas between (1234,5678)")
    return frozenset(int(part) for part in parts)


def factor(option: str) -> Callable[[str], float]:
    """Like `whole_number`, for a factor above 0."""

    def read(text: str) -> float:
        if not re.fullmatch(_NUMBER, text) or not 0 < float(text) < 1e9:
            raise UsageError(f"{option} {clipped(text)}: use a number above 0 (0.5 halves, 2 doubles)")
        return float(text)

    return read


def format_size(count: int) -> str:
    """Format bytes with the largest unit that keeps the number at 1 or more, and one decimal: 0B,
    512B, 4K, 1.5G, 2T.
    """
    for unit, name in _SIZE_STEPS:
        tenths = (abs(count) * 10 + unit // 2) // unit
        if abs(count) >= unit:
            sign = "-" if count < 0 else ""
            number = f"{tenths // 10}" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}"
            return f"{sign}{number}{name}"
    return f"{count}B"


def parse_time_ns(text: str) -> int:
    """Parse nanoseconds of `5ms`, `1.5s`, `200us`, `2min`, `1h`.

    Raises UsageError if `text` is none of these; a number without a unit is invalid.
    """
    match = _TIME.fullmatch(text.strip())
    shown = clipped(text)
    if not match:
        raise UsageError(f"time '{shown}' is not a number with one of the units ns, us, ms, s, min, h (example: 5ms)")
    if (time := _scaled(match[1], _TIME_UNITS_NS[match[2]])) is None:
        raise UsageError(f"time '{shown}' is too long: use less than {_MOST // _TIME_UNITS_NS['h']}h")
    return time


def parse_interval_s(text: str) -> float:
    """Parse seconds of the value of --interval: `500ms`, `2min`, or seconds without a unit, as for
    vmstat and top.

    Raises UsageError if it is none of these, or more than a day.
    """
    word = text.strip()
    try:
        seconds = parse_time_ns(f"{word}s" if re.fullmatch(_NUMBER, word) else word) / 1e9
    except UsageError:
        seconds = math.inf
    if seconds > _INTERVAL_MAX_S:
        raise UsageError(
            f"--interval {clipped(text)}: use seconds (5), or a time with its unit (500ms, 2min), of 24h at most"
        )
    return seconds


def parse_nodes(text: str, known: Iterable[int], whose: str = "this machine has") -> list[int]:
    """Parse node numbers of a set in numactl's syntax: see `parse_set`."""
    return parse_set(text, known, "node", whose)


def parse_set(text: str, known: Iterable[int], noun: str, whose: str) -> list[int]:
    """Parse a set in numactl's syntax: `0,2-3`, `all`, `!1` (all but 1), `+0-1` (the first two),
    `!+0`.

    `known` are the existing numbers; the result is a sorted subset, without repeats. Both ends of a
    range must exist, numbers between them need not. `noun` and `whose` name `known` in a message.
    Raises UsageError for invalid syntax, an unknown number, or an empty result.
    """
    every = sorted(set(known))
    body = text.strip()
    inverted = body.startswith("!")
    body = body.removeprefix("!")
    relative = body.startswith("+")
    body = body.removeprefix("+")
    try:
        chosen = set(every) if body == "all" else _parse_ranges(body, every, relative)
    except ValueError as error:
        raise UsageError(f"{noun} set '{clipped(text)}': {error}; {whose} {format_nodes(every)}") from None
    result = sorted(set(every) - chosen) if inverted else sorted(chosen)
    if not result:
        raise UsageError(f"{noun} set '{clipped(text)}' leaves no {noun}; {whose} {format_nodes(every)}")
    return result


def _parse_ranges(body: str, known: list[int], relative: bool) -> set[int]:
    """Parse numbers of `0,2-3`; relative ones are places in `known`. Raises ValueError."""
    chosen: set[int] = set()
    for part in body.split(","):
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip(), re.ASCII)
        if not match:
            raise ValueError("it is not of the form 0,2-3 or all or !1 or +0-1")
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first:
            raise ValueError(f"the range {part.strip()} runs backwards")
        if relative:
            if last >= len(known):
                raise ValueError(f"there is no +{last} after +{len(known) - 1}")
            chosen.update(known[first : last + 1])
            continue
        if missing := [number for number in (first, last) if number not in known]:
            raise ValueError(f"there is no {format_nodes(missing)}")
        chosen.update(number for number in known if first <= number <= last)
    return chosen


def format_nodes(nodes: Iterable[int]) -> str:
    """Format node numbers as `parse_nodes` reads them: 0,2-3; 'none' for an empty set."""
    ranges: list[list[int]] = []
    for node in sorted(set(nodes)):
        if ranges and node == ranges[-1][1] + 1:
            ranges[-1][1] = node
        else:
            ranges.append([node, node])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges) or "none"

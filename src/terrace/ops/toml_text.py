# SPDX-License-Identifier: GPL-2.0
"""The lines of a TOML file: find the line of a key, and replace its value with all other text kept.

Python's `tomllib` does not report lines. Each statement of TOML is a valid document, and no
part of one is: so statements are found by adding lines until tomllib accepts them, and their parts
in a line by removing text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from terrace import files
from terrace.errors import TerraceError

#: The names from the root of the document to a value or a table.
Key = tuple[str, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Statement:
    """A table header, or a key with its value; lines are counted from 1, ``last`` is the last line of it."""

    first: int
    last: int
    #: The table that a header opens, or that contains the key.
    table: Key
    #: The values it sets, by their full keys: none for a header, several for an inline table.
    values: Mapping[Key, Any]
    #: Start of a header: one bracket, or two for one of several tables.
    header: str = ""


def statements(text: str) -> list[Statement]:
    """Get all statements of ``text``, a whole document, in order.

    Raises tomllib.TOMLDecodeError if it is not TOML.
    """
    files.parse_toml(text)
    found: list[Statement] = []
    table: Key = ()
    lines = text.split("\n")
    first = 0
    for last in range(len(lines)):
        # With the line end: a carriage return is valid TOML only before a line feed.
        chunk = "\n".join([*lines[first : last + 1], ""])
        parsed = _parse(chunk)
        if parsed is None:
            continue
        if header := "".join(re.findall(r"^\s*(\[\[?)", chunk)):
            table = _opened(parsed)
            found.append(Statement(first + 1, last + 1, table, {}, header))
        elif parsed:
            found.append(Statement(first + 1, last + 1, table, dict(flatten(parsed, table))))
        first = last + 1
    return found


def _parse(text: str) -> dict[str, Any] | None:
    try:
        return files.parse_toml(text)
    except tomllib.TOMLDecodeError:
        return None


def _opened(parsed: Any) -> Key:
    """Get the only table in the result of a header; an array of tables has a list on its path."""
    key: Key = ()
    while parsed:
        if isinstance(parsed, list):
            parsed = parsed[0]
            continue
        ((name, parsed),) = parsed.items()
        key = (*key, name)
    return key


def flatten(table: Mapping[str, Any], above: Key = ()) -> Iterator[tuple[Key, Any]]:
    """Get the values in a table and its nested tables, by their full keys; an empty table counts as a value."""
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from flatten(value, (*above, name))
        else:
            yield (*above, name), value


def quote(key: Key) -> str:
    """Format a key in TOML."""
    return ".".join(name if _BARE.fullmatch(name) else string(name) for name in key)


def string(text: str) -> str:
    """Format a string in TOML, in one line."""
    escaped = "".join(
        f"\\{char}" if char in '"\\' else char if char.isprintable() else f"\\U{ord(char):08x}" for char in text
    )
    return f'"{escaped}"'


def put(text: str, key: Key, value: str, old: Key | None = None, section: Key = ()) -> str:
    """Set ``key`` to ``value`` (in TOML) in ``text``.

    ``old``: the key in ``text`` whose value is replaced, if there is one; the rest of the line is
    kept. Otherwise a line is added: after the line in which the key is a comment, or at the end of
    its table. If the table ``section`` has no statement yet, it is added at the end. Raises
    TerraceError if a person must edit the text, for instance within braces.
    """
    wanted = {**dict(flatten(files.parse_toml(text))), old or key: files.parse_toml(f"x = {value}")["x"]}
    wanted = {name: kept for name, kept in wanted.items() if name == (old or key) or kept != {}}
    if section and not old and not any(name[: len(section)] == section for name, _ in flatten(files.parse_toml(text))):
        text = f"{text.rstrip()}\n\n[{quote(section)}]\n".lstrip("\n")
    new = _replaced(text, old, value) if old else _added(text, key, value)
    parsed = _parse(new)
    # An empty table is no value, and may have got its first one.
    if parsed is None or {name: kept for name, kept in flatten(parsed) if kept != {}} != wanted:
        raise TerraceError(f"only by hand can this be written into it: {quote(old or key)} = {value}")
    return new


def comment_out(text: str, key: Key) -> str:
    """Make the line of ``key`` in ``text`` a comment. Raises TerraceError if a person must edit it."""
    lines = text.split("\n")
    for statement in statements(text):
        if [*statement.values] == [key] and statement.first == statement.last:
            lines[statement.first - 1] = f"#{lines[statement.first - 1]}"
            return "\n".join(lines)
    raise TerraceError(f"only by hand can this be taken out of it: {quote(key)}")


def _replaced(text: str, key: Key, value: str) -> str:
    lines = text.split("\n")
    for statement in statements(text):
        if key in statement.values and statement.first == statement.last:
            line = lines[statement.first - 1]
            lines[statement.first - 1] = _with_value(line, value)
    return "\n".join(lines)


def _with_value(line: str, value: str) -> str:
    """Replace the value of a line `KEY = VALUE # COMMENT`."""
    ended = line.endswith("\r")
    line = line.removesuffix("\r")
    given = _parse(line)
    equals = next(at for at, char in enumerate(line) if char == "=" and _parse(f"{line[:at]}= 0") is not None)
    head = line[: equals + 1] + " " * (line[equals + 1 : equals + 2] == " ")
    hashes = [at for at, char in enumerate(line) if char == "#" and at > equals and _parse(line[:at]) == given]
    comment = line[len(line[: hashes[0]].rstrip()) :] if hashes else ""
    return head + value + comment + "\r" * ended


def _added(text: str, key: Key, value: str) -> str:
    """Add a line, in the innermost table with a header, or before all headers."""
    found = statements(text)
    tables = [one.table for one in found if one.header and one.table == key[: len(one.table)]]
    table = max(tables, key=len, default=())
    lines = text.split("\n")
    heads = [one for one in found if one.header]
    own = next((one for one in heads if one.table == table), None)
    begin = own.last if own else 0
    end = next((one.first - 1 for one in heads if one.first > begin), len(lines))
    line = f"{quote(key[len(table) :])} = {value}"
    if lines and lines[0].endswith("\r"):
        line += "\r"
    at = _place(lines, begin, end, quote(key[len(table) :]), [one.last for one in found if begin < one.last <= end])
    lines[at:at] = [line] if at < len(lines) else [line, ""]
    return "\n".join(lines)


def _place(lines: list[str], begin: int, end: int, name: str, values: list[int]) -> int:
    """Find the line among ``begin`` to ``end`` after which to add one: that of its comment,
    otherwise the last value.
    """
    as_comment = re.compile(rf"\s*#\s*{re.escape(name)}\s*=")
    for at in range(begin, end):
        if as_comment.match(lines[at]):
            return at + 1
    if values:
        return values[-1]
    # After the comment at the head of the file, which ends with an empty line, and after a header.
    blank = next((at for at in range(begin, end) if not lines[at].strip()), end)
    return blank if begin else min(blank, end)

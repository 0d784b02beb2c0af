# SPDX-License-Identifier: GPL-2.0
"""The file of settings, /etc/terrace/terrace.toml: requested values of knobs.

Its keys are the names of `terrace set`, with `engine.` before those of promotion; cgroups have
tables of their own.
"""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terrace.errors import TerraceError, UsageError
from terrace.files import read_regular
from terrace.ops import knobs, toml_text
from terrace.ops.knob_table import CGROUP_KNOBS, KNOBS, NODE_WEIGHT, Knob
from terrace.ops.toml_text import Key
from terrace.sysfs import KernelFiles

#: Path below the root of the machine.
DEFAULT = "etc/terrace/terrace.toml"
#: A larger file is rejected.
MOST_BYTES = 64 << 10

_CGROUP = "cgroup"
#: These switches are written after all limits, so that nothing runs without its limits; promotion
#: is the last one.
_SWITCHES = ("tlb_defer.mode", "numa_balancing", "file_policy", "enabled")
_NODE_WEIGHT = re.compile(r"weights\.node\d+")
_WORDS_OF_CGROUPS = {word for knob in CGROUP_KNOBS for word in (knob.name, *knob.aliases)}
_WORDS_OF_BOTH = _WORDS_OF_CGROUPS & {knob.name for knob in KNOBS}


@dataclass(frozen=True)
class Setting:
    """A knob of the file, and the value to write; ``cgroup`` is the path below /sys/fs/cgroup for a
    knob of a cgroup.
    """

    knob: Knob
    value: str
    #: Line in the file, from 1.
    line: int
    #: Key in the file.
    key: Key
    cgroup: str | None = None


def read(path: Path) -> str:
    """Read the text of a file of settings. Raises UsageError if there is none, or it is invalid; TerraceError."""
    try:
        data = read_regular(path, MOST_BYTES)
    except FileNotFoundError:
        raise UsageError(f"there is no {path}: `terrace apply --example` prints one to begin with") from None
    except OSError as error:
        raise TerraceError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path} has more than {MOST_BYTES >> 10} KiB: is it a file of settings?")
    if data.startswith(codecs.BOM_UTF8):
        raise UsageError(f"{path}, line 1: begins with a byte order mark, which TOML forbids; save it as UTF-8 without")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f"{path}, line 1: this is UTF-16; save it as UTF-8")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}, line {line}: not UTF-8, as TOML has to be") from None


def parse(text: str, path: Path) -> list[Setting]:
    """Parse the settings in ``text``, in the order in which they must be written.

    Raises UsageError with ``path`` and line for all errors, one per line.
    """
    try:
        found = toml_text.statements(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {_lower(str(error))}") from None
    given: list[Setting] = []
    wrong: list[str] = []
    for statement in found:
        if statement.header == "[[":
            wrong.append(f"{path}, line {statement.first}: a table here has single brackets, and is there once")
        for key, value in statement.values.items():
            try:
                # An empty table sets nothing.
                if value != {}:
                    given.append(_setting(key, value, statement.first))
            except UsageError as error:
                wrong.append(f"{path}, line {statement.first}: {error}")
    wrong += [f"{path}, {said}" for said in _contradictions(given)]
    if wrong:
        raise UsageError("\n".join(wrong))
    return sorted(given, key=_turn)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _setting(key: Key, value: Any, line: int) -> Setting:
    if key[0] == _CGROUP:
        return _of_cgroup(key, value, line)
    name = ".".join(key)
    if name in _WORDS_OF_CGROUPS - _WORDS_OF_BOTH:
        raise UsageError(f"'{name}' is set for each cgroup: write it below [cgroup.\"system.slice\"] or another")
    knob = knobs.find(name)
    return Setting(knob, _value(knob, value), line, key)


def _of_cgroup(key: Key, value: Any, line: int) -> Setting:
    if len(key) < 3:
        raise UsageError('a cgroup has a table of its own, [cgroup."PATH"], such as [cgroup."system.slice"]')
    if len(key) > 3 and key[2:] not in {tuple(word.split(".")) for word in _WORDS_OF_CGROUPS}:
        raise UsageError(f'put quotes around the whole path of the cgroup, as in [cgroup."{".".join(key[1:-1])}"]')
    path = knobs.below_cgroups(key[1])
    knob = knobs.find_in_cgroup(".".join(key[2:]), path)
    return Setting(knob, _value(knob, value), line, key, path)


def _value(knob: Knob, value: Any) -> str:
    """Convert a value of TOML to the value to write. Raises UsageError."""
    if not isinstance(value, (bool, int, float, str)):
        raise UsageError(f"{knob.name} takes one value: a number, true, false or a string; allowed: {knob.allowed}")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    written = knobs.parse_value(knob, text)
    knobs.check_range(knob, written)
    return written


def _contradictions(given: Sequence[Setting]) -> list[str]:
    """Find pairs of which only one can be in force."""
    said = []
    first: dict[str, Setting] = {}
    for one in given:
        if (before := first.setdefault(one.knob.path, one)) is not one:
            said.append(f"line {one.line}: {one.knob.name} has a value in line {before.line} already")
    auto = next((one for one in given if one.knob.name == "weights.auto" and one.value in ("1", "true")), None)
    for one in given:
        if auto and _NODE_WEIGHT.fullmatch(one.knob.name):
            said.append(f"line {one.line}: {one.knob.name} ends weights.auto, which line {auto.line} switches on")
    return said


def _turn(one: Setting) -> int:
    if one.knob.name not in _SWITCHES:
        return 0
    if one.value in ("0", "off", "false"):
        return -1
    return 1 + _SWITCHES.index(one.knob.name)


def as_toml(knob: Knob, value: str) -> str:
    """Convert a value of the kernel to TOML."""
    if value in ("true", "false"):
        return value
    if value.isascii() and value.isdecimal():
        return {"0": "false", "1": "true"}[value] if knob.high == 1 else value
    return toml_text.string(value)


def key_of(knob: Knob, cgroup: str | None) -> Key:
    """Get the key in the file."""
    return tuple(knob.key.split(".")) if cgroup is None else (_CGROUP, cgroup, knob.name)


def line_of(knob: Knob, value: str, cgroup: str | None) -> str:
    """Get a line with which the file would set a knob, at any place."""
    return f"{toml_text.quote(key_of(knob, cgroup))} = {as_toml(knob, value)}"


def with_value(text: str, path: Path, knob: Knob, value: str, cgroup: str | None = None) -> str:
    """Set ``knob`` to ``value`` in ``text``, a file of settings; `in_cgroup` gave the knob for a
    cgroup.

    All other contents are kept; if weights.auto and the weight of a node contradict each other, the
    older one is removed. Raises UsageError if ``text`` is invalid, TerraceError if a person must
    edit it.
    """
    there = {one.knob.path: one for one in parse(text, path)}
    old = there.get(knob.path)
    try:
        if knob.name == "weights.auto" and value in ("1", "true"):
            for one in there.values():
                if _NODE_WEIGHT.fullmatch(one.knob.name):
                    text = toml_text.comment_out(text, one.key)
        auto = next((one for one in there.values() if one.knob.name == "weights.auto"), None)
        if auto and _NODE_WEIGHT.fullmatch(knob.name):
            text = toml_text.put(text, auto.key, "false", auto.key)
        section = () if cgroup is None else (_CGROUP, cgroup)
        text = toml_text.put(text, key_of(knob, cgroup), as_toml(knob, value), old.key if old else None, section)
    except TerraceError as error:
        raise TerraceError(f"{path}: {error}") from None
    parse(text, path)
    return text


def kept(files: KernelFiles, found: Sequence[Setting], known: Sequence[Knob]) -> list[tuple[Knob, str]]:
    """Get those of the knobs ``known``, with present values, that differ from their defaults or are
    in the file, ``found``.
    """
    named = {one.knob.path for one in found}
    values = {knob: value for knob in known if (value := knobs.current(files, knob)) is not None}
    auto = any(knob.name == "weights.auto" and value in ("1", "true") for knob, value in values.items())
    return [
        (knob, value)
        for knob, value in values.items()
        if (knob.path in named or not (" or " in knob.default or knobs.same(value, knob.default)))
        and not (auto and _NODE_WEIGHT.fullmatch(knob.name))
    ]


def example() -> str:
    """Create a file that sets nothing and has every knob as a comment, with its default and its allowed values."""
    lines = [
        "# Settings after boot. `terrace apply` applies them, `terrace apply --check` finds mistakes.",
        "# A knob without a line stays as the kernel has it. Values are in the knob's unit, or carry one of their own:",
        '# engine.promote.rate_mbps = "500M/s". Description of the knobs: docs/reference/knobs.md.',
        "",
    ]
    for knob in KNOBS:
        lines += _commented(knob, knob.key)
        if knob.name == "weights.auto":
            lines += _commented(NODE_WEIGHT, "weights.node0")
    lines += [
        "# Of a cgroup, a path below /sys/fs/cgroup. One that is not there is passed over.",
        '# [cgroup."system.slice"]',
    ]
    for knob in CGROUP_KNOBS:
        lines += _commented(knob, knob.name)
    return "\n".join(lines)


def _commented(knob: Knob, key: str) -> list[str]:
    value = as_toml(knob, knob.default) if " or " not in knob.default else knob.default.partition(" ")[0]
    allowed = "false, true" if knob.high == 1 or "true" in knob.words else knob.allowed
    return [f"# {knob.summary}; {allowed}", f"#{key} = {value}", ""]

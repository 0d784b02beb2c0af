# SPDX-License-Identifier: GPL-2.0
"""What our calls in Linux's own functions cost while nobody asks for them: a nop each, read from the machine code.

A static key that is off leaves a nop where it is asked about. The table of those places is part of vmlinux: entries of
16 bytes, two offsets of 32 bits and one of 64, each relative to where it stands itself (include/linux/jump_label.h);
the first is of the place, the last of the key, whose two lowest bits mean something else.
"""

from __future__ import annotations

import re
import struct
import subprocess
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import BuildError
from terrace.host import clean_env
from terrace.output import format_table

_ENTRY = struct.Struct("<iiq")
_KEY_AT = 8
_DEFINED = re.compile(r"^(?:static )?DEFINE_STATIC_KEY(?:_DEFERRED)?_FALSE(?:_RO)?\((\w+)[,)]", re.MULTILINE)
# Address, offset in the file and size of what has contents there.
_SECTION = re.compile(r"\] \S+ +PROGBITS +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+) ")
_BOUNDS = ("__start___jump_table", "__stop___jump_table")
_CODE = re.compile(r"^ *[0-9a-f]+:\t(?:[0-9a-f]{2} )+ *\t(.*?) *$", re.MULTILINE)
# What the disassembler calls nops of five and two bytes.
_NOP = re.compile(r"nop|xchg +%ax,%ax$")


@dataclass(frozen=True)
class Site:
    """A place where a function asks about a static key of ours, and the instruction there."""

    function: str
    key: str
    instruction: str

    @property
    def is_nop(self) -> bool:
        """True if it costs nothing but to be passed over."""
        return _NOP.match(self.instruction) is not None


def keys(texts: Iterable[str]) -> list[str]:
    """The static keys, off at first, that source files define."""
    return sorted({name for text in texts for name in _DEFINED.findall(text)})


def sites(vmlinux: Path, ours: Collection[str]) -> list[Site]:
    """Where functions of a kernel ask about these keys, in order of functions.

    Raises BuildError if it has no such table: without CONFIG_JUMP_LABEL a key is a variable.
    """
    symbols = _symbols(_said("nm", "-n", str(vmlinux)))
    address, end = (next((where for where, _, name in symbols if name == bound), 0) for bound in _BOUNDS)
    if not address:
        raise BuildError(f"{vmlinux}: no {_BOUNDS[0]}, so no static keys: built without CONFIG_JUMP_LABEL?")
    table = _contents(vmlinux, address, end)
    named = {where: name for where, kind, name in symbols if name in ours and kind in "bBdD"}
    functions = [(where, name) for where, kind, name in symbols if kind in "tTwW"]
    return sorted(
        (
            Site(_function(functions, code), named[key], _instruction(vmlinux, code))
            for code, key in entries(table, address)
            if key in named
        ),
        key=lambda site: (site.key, site.function),
    )


def entries(table: bytes, address: int) -> Iterator[tuple[int, int]]:
    """The place and the key of each entry of a table, as addresses; `address` is that of its first byte."""
    for start in range(0, len(table) - len(table) % _ENTRY.size, _ENTRY.size):
        code, _, key = _ENTRY.unpack_from(table, start)
        yield address + start + code, address + start + _KEY_AT + (key & ~3)


def table(found: Sequence[Site]) -> str:
    """Lines for a person; "" when nothing was looked for."""
    if not found:
        return ""
    rows = [
        (site.function, site.key, f"{count} x {site.instruction}" if count > 1 else site.instruction)
        for site, count in Counter(found).items()
    ]
    return format_table(rows, ("function", "asks about", "while that is off"))


def problems(found: Sequence[Site]) -> list[str]:
    """What is wrong, a line each: something else than a nop, or nothing that asks at all."""
    if not found:
        return ["no function asks about a static key of ours"]
    return [f"{site.function}: {site.instruction} where {site.key} is off" for site in found if not site.is_nop]


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_env())
    if done.returncode != 0:
        raise BuildError(f"{command[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _contents(vmlinux: Path, start: int, end: int) -> bytes:
    """What the file has for these addresses."""
    for match in _SECTION.finditer(_said("readelf", "-SW", str(vmlinux))):
        address, offset, size = (int(word, 16) for word in match.groups())
        if address <= start < address + size:
            with vmlinux.open("rb") as file:
                file.seek(offset + start - address)
                return file.read(end - start)
    raise BuildError(f"{vmlinux}: nothing at {start:#x}")


def _symbols(said: str) -> list[tuple[int, str, str]]:
    """Address, kind and name of each symbol, as nm says."""
    lines = (line.split() for line in said.splitlines())
    return [(int(words[0], 16), words[1], words[2]) for words in lines if len(words) == 3]


def _function(functions: Sequence[tuple[int, str]], address: int) -> str:
    """The one that an address is in; `functions` are in order of addresses."""
    at = bisect_right(functions, address, key=lambda function: function[0])
    return functions[at - 1][1] if at else "?"


def _instruction(vmlinux: Path, address: int) -> str:
    said = _said("objdump", "-d", f"--start-address={address:#x}", f"--stop-address={address + 8:#x}", str(vmlinux))
    match = _CODE.search(said)
    return match[1] if match else "?"

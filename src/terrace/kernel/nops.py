# SPDX-License-Identifier: GPL-2.0
"""Check in the machine code that the hooks cost one nop each while their feature is off.

A static key that is off leaves a nop at each place that tests it. The table of these places is part
of vmlinux: entries of 16 bytes, with two offsets of 32 bits and one of 64, each relative to its own
address (include/linux/jump_label.h). The first one is the place, the last one the key; the two
lowest bits of the key are flags.
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
# Address, offset in the file and size of a section with contents.
_SECTION = re.compile(r"\] \S+ +PROGBITS +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+) ")
_BOUNDS = ("__start___jump_table", "__stop___jump_table")
_CODE = re.compile(r"^ *[0-9a-f]+:\t(?:[0-9a-f]{2} )+ *\t(.*?) *$", re.MULTILINE)
# Disassembly of nops of five and two bytes.
_NOP = re.compile(r"nop|xchg +%ax,%ax$")


@dataclass(frozen=True)
class Site:
    """A place where a function tests a static key of the overlay, and the instruction there."""

    function: str
    key: str
    instruction: str

    @property
    def is_nop(self) -> bool:
        """Whether the instruction is a nop."""
        return _NOP.match(self.instruction) is not None


def keys(texts: Iterable[str]) -> list[str]:
    """Find the static keys, initially off, that source files define."""
    return sorted({name for text in texts for name in _DEFINED.findall(text)})


def sites(vmlinux: Path, ours: Collection[str]) -> list[Site]:
    """Find the places in a kernel that test these keys, in order of functions.

    Raises BuildError if the kernel has no such table: without CONFIG_JUMP_LABEL a key is a
    variable.
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
    """Parse a table: the address of the place and of the key of each entry; `address` is that of
    the first byte.
    """
    for start in range(0, len(table) - len(table) % _ENTRY.size, _ENTRY.size):
        code, _, key = _ENTRY.unpack_from(table, start)
        yield address + start + code, address + start + _KEY_AT + (key & ~3)


def table(found: Sequence[Site]) -> str:
    """Format the result; "" if nothing was searched."""
    if not found:
        return ""
    rows = [
        (site.function, site.key, f"{count} x {site.instruction}" if count > 1 else site.instruction)
        for site, count in Counter(found).items()
    ]
    return format_table(rows, ("function", "asks about", "while that is off"))


def problems(found: Sequence[Site]) -> list[str]:
    """List the errors, one per line: an instruction other than a nop, or a key that is never
    tested.
    """
    if not found:
        return ["no function tests a static key of the overlay"]
    return [f"{site.function}: {site.instruction} where {site.key} is off" for site in found if not site.is_nop]


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_env())
    if done.returncode != 0:
        raise BuildError(f"{command[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _contents(vmlinux: Path, start: int, end: int) -> bytes:
    """Read the contents of the file at these addresses."""
    for match in _SECTION.finditer(_said("readelf", "-SW", str(vmlinux))):
        address, offset, size = (int(word, 16) for word in match.groups())
        if address <= start < address + size:
            with vmlinux.open("rb") as file:
                file.seek(offset + start - address)
                return file.read(end - start)
    raise BuildError(f"{vmlinux}: nothing at {start:#x}")


def _symbols(said: str) -> list[tuple[int, str, str]]:
    """Read address, kind and name of each symbol, from nm."""
    lines = (line.split() for line in said.splitlines())
    return [(int(words[0], 16), words[1], words[2]) for words in lines if len(words) == 3]


def _function(functions: Sequence[tuple[int, str]], address: int) -> str:
    """Find the function that contains an address; `functions` are in order of addresses."""
    at = bisect_right(functions, address, key=lambda function: function[0])
    return functions[at - 1][1] if at else "?"


def _instruction(vmlinux: Path, address: int) -> str:
    said = _said("objdump", "-d", f"--start-address={address:#x}", f"--stop-address={address + 8:#x}", str(vmlinux))
    match = _CODE.search(said)
    return match[1] if match else "?"

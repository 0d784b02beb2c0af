# SPDX-License-Identifier: GPL-2.0
"""Check that a file is a whole vmlinux: QEMU boots a part of one, and the guest then prints nothing."""

import struct
from pathlib import Path

from terrace.errors import UsageError
from terrace.files import open_regular

#: The header of a 64-bit little-endian ELF file, and one entry of its table of program headers.
_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_X86_64 = 62


def check_vmlinux(option: str, path: Path) -> None:
    """Raise UsageError if ``path``, the value of ``option``, is no vmlinux for x86-64, or a part of one."""
    try:
        with open_regular(path) as file:
            problem = _problem(file.read(1 << 16), path.stat().st_size)
    except FileNotFoundError:
        raise UsageError(f"{option} {path}: no such file") from None
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from error
    if problem:
        raise UsageError(f"{option} {path}: {problem}")


def _problem(head: bytes, size: int) -> str:
    if not head.startswith(b"\x7fELF"):
        return "no vmlinux, which is an ELF file (a bzImage or vmlinuz is a compressed one)"
    if len(head) < _HEADER.size:
        return f"cut off: it has {size} bytes"
    _, bits, order, _, machine, _, _, programs, sections, _, _, each, count, section_bytes, section_count, _ = (
        _HEADER.unpack_from(head)
    )
    if (bits, order, machine) != (2, 1, _X86_64):
        return "no kernel for x86-64"
    ends = [programs + each * count, sections + section_bytes * section_count]
    for place in range(count):
        at = programs + place * each
        if each == _PROGRAM.size and at + each <= len(head):
            _, _, offset, _, _, stored, _, _ = _PROGRAM.unpack_from(head, at)
            ends.append(offset + stored)
    return f"cut off: it has {size} bytes of {max(ends)}" if max(ends) > size else ""

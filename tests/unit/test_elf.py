# SPDX-License-Identifier: GPL-2.0
"""--vmlinux: a file that is no kernel, or a part of one, is refused before a guest is started."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrace.cli.lab import find_vmlinux
from terrace.errors import UsageError
from terrace.kernel import elf


def vmlinux(machine: int = 62) -> bytes:
    """One program header, one page of code, and a table of two sections at the end."""
    header = elf._HEADER.pack(b"\x7fELF", 2, 1, 2, machine, 1, 0, 64, 4096 + 100, 0, 64, 56, 1, 64, 2, 1)
    program = elf._PROGRAM.pack(1, 5, 4096, 0, 0, 100, 100, 4096)
    return (header + program).ljust(4096, b"\0") + bytes(100 + 2 * 64)


def test_a_whole_one_is_taken_and_each_part_is_not(tmp_path: Path) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(vmlinux())
    assert find_vmlinux("terrace", path) == path
    for size in (0, 3, 4, 63, 64, 100, 4096, 4196, len(vmlinux()) - 1):
        path.write_bytes(vmlinux()[:size])
        with pytest.raises(UsageError, match="cut off: it has|no vmlinux"):
            find_vmlinux("terrace", path)


@pytest.mark.parametrize(
    ("data", "why"), [(b"MZ" + bytes(5000), "no vmlinux"), (vmlinux(machine=3), "no kernel for x86-64")]
)
def test_what_is_none_is_named(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(UsageError, match=f"--vmlinux {tmp_path}/x: {why}"):
        find_vmlinux("terrace", tmp_path / "x")


def test_neither_a_pipe_nor_nothing_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="this is a pipe"):
        find_vmlinux("terrace", tmp_path / "pipe")
    with pytest.raises(UsageError, match="no such file"):
        find_vmlinux("terrace", tmp_path / "none")


@given(st.binary(max_size=60), st.integers(0, 63))
def test_no_header_makes_it_stumble(change: bytes, place: int) -> None:
    data = vmlinux()
    elf._problem(data[:place] + change + data[place + len(change) :], len(data))
    assert struct.calcsize("<4sBB10xHHIQQQIHHHHHH") == elf._HEADER.size == 64

# SPDX-License-Identifier: GPL-2.0
"""Markers for the lab's QEMU plugins from Python, like TG_MARK() of guest/terrace_guest.h in C.

A marker is a no-op instruction with a message in its displacement. It has no effect without a
plugin and outside of QEMU. On a machine that is not x86_64, or forbids writable executable memory,
nothing is executed at all.
"""

import ctypes
import functools
import mmap
import platform
from collections.abc import Callable

_MAGIC = 0x5454
_TASK = 1
_REGION = 2
APP = 1


def region(number: int) -> None:
    """Mark a boundary: an odd number 2K-1 begins region K, the even number 2K ends it."""
    _mark(_REGION, number)


def task(number: int) -> None:
    """Mark the calling thread as of this kind from here on: APP, or another WL_KIND of guest/wl.h."""
    _mark(_TASK, number)


def marker_bytes(kind: int, number: int) -> bytes:
    """Encode the instruction: nopl disp32(%rax,%rax,1). Raises ValueError for a number that does not fit."""
    if not 0 <= number <= 255:
        raise ValueError(f"a marker's number is 0 to 255, not {number}")
    return bytes((0x0F, 0x1F, 0x84, 0x00)) + (_MAGIC << 16 | kind << 8 | number).to_bytes(4, "little")


def _mark(kind: int, number: int) -> None:
    run = _function(marker_bytes(kind, number))
    if run:
        run()


@functools.cache
def _function(code: bytes) -> Callable[[], None] | None:
    """Create a function of the instruction and a return; cached forever."""
    if platform.machine() != "x86_64":
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    page.write(code + b"\xc3")
    _pages.append(page)
    return ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))


_pages: list[mmap.mmap] = []

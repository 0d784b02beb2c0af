#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A service whose memory starts on node 1 and is used all the time."""

import ctypes
import mmap

PAGES = 4096
SET_MEMPOLICY, BIND = 238, 2
libc = ctypes.CDLL(None, use_errno=True)


def policy(mode: int, nodes: int) -> None:
    """The memory policy of this process; nodes are bits."""
    mask = ctypes.c_ulong(nodes)
    if libc.syscall(SET_MEMPOLICY, mode, ctypes.byref(mask) if nodes else None, 64 if nodes else 0) != 0:
        raise OSError(ctypes.get_errno(), "set_mempolicy")


policy(BIND, 1 << 1)
memory = mmap.mmap(-1, PAGES * mmap.PAGESIZE)
for page in range(PAGES):
    memory[page * mmap.PAGESIZE] = 1
policy(0, 0)
while True:
    memory[:: mmap.PAGESIZE]  # a byte of each page, at the speed of C

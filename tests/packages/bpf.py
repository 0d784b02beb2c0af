#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Load a program of two instructions for sockets, as any program that uses BPF begins; say so."""

import ctypes
import struct

BPF, PROG_LOAD, SOCKET_FILTER = 321, 5, 1
libc = ctypes.CDLL(None, use_errno=True)
# r0 = 0; exit
program = ctypes.create_string_buffer(struct.pack("<BBhi", 0xB7, 0, 0, 0) + struct.pack("<BBhi", 0x95, 0, 0, 0))
licence = ctypes.create_string_buffer(b"GPL")
attributes = struct.pack("<IIQQ", SOCKET_FILTER, 2, ctypes.addressof(program), ctypes.addressof(licence))
buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
if libc.syscall(BPF, PROG_LOAD, buffer, 128) < 0:
    raise OSError(ctypes.get_errno(), "bpf(BPF_PROG_LOAD)")
print("loaded")

# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest, with memory on node 1: `terrace top` as root, as nobody, on a terminal; prints what was seen."""

import ctypes
import json
import mmap
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from ops_golden import run
from pty_screen import Terminal, terrace

from terrace.cli import top

MPOL_BIND, SET_MEMPOLICY = 2, 238
BYTES = 64 << 20


def fill_slow_memory() -> mmap.mmap:
    """Memory of node 1."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    nodes = ctypes.c_ulong(1 << 1)
    assert call(SET_MEMPOLICY, MPOL_BIND, ctypes.byref(nodes), 64) == 0
    memory = mmap.mmap(-1, BYTES)
    for start in range(0, BYTES, mmap.PAGESIZE):
        memory[start] = 1
    assert call(SET_MEMPOLICY, 0, None, 0) == 0
    return memory


def printed(user: int) -> object:
    """The document that this user gets, from what is imported by now: the folders of Python may be closed to them."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setuid(user)
        os.dup2(writes, sys.stdout.fileno())
        code = run(top.__name__.rpartition(".")[2], "--by", "process", "--interval", "10ms", "--json")
        sys.stdout.flush()
        os._exit(code)
    os.close(writes)
    with open(reads) as answer:
        document: object = json.load(answer)
    assert os.waitpid(child, 0)[1] == 0
    return document


def on_screen() -> dict[str, object]:
    """Lines of the screen, and how it ended."""
    terminal = Terminal(terrace("top", "--by", "process", "--interval", "200ms"))
    terminal.wait("Node 0 top", "Node 1 slow", "slowdb", "F10Quit")
    line = terminal.line("slowdb")
    terminal.press("f4", "n", "o", "n", "e")
    terminal.wait("no process is called so")
    terminal.press("esc")
    terminal.wait("slowdb")
    terminal.press("q")
    return {"line": line.split(), "code": terminal.end()}


memory = fill_slow_memory()
Path("/proc/self/comm").write_text("\033[2Jslowdb")
print(json.dumps({"pid": os.getpid(), "root": printed(0), "nobody": printed(65534), "screen": on_screen()}))

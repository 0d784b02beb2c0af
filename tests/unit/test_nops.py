# SPDX-License-Identifier: GPL-2.0
"""The cost of static keys that are off, read from machine code."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from terrace.errors import BuildError
from terrace.kernel import nops
from terrace.kernel.nops import Site

NOP5, NOP2 = "nopl   0x0(%rax,%rax,1)", "xchg   %ax,%ax"

# Two functions of a kernel: one tests two keys, the other one key, at which there is a jump.
ASSEMBLY = """
	.text
	.globl asks, jumps
asks:
	push %rbx
1:	.byte 0x0f, 0x1f, 0x44, 0x00, 0x00
2:	.byte 0x66, 0x90
	ret
jumps:
3:	.byte 0xe9, 0x00, 0x00, 0x00, 0x00
	ret
	.data
	.globl our_key, other_key
	.balign 8
our_key:
	.quad 0, 0
other_key:
	.quad 0, 0
	.globl __start___jump_table, __stop___jump_table
	.section .rodata
	.quad 0
__start___jump_table:
	.long 1b - ., 0
	.quad our_key + 2 - .
	.long 2b - ., 0
	.quad other_key - .
	.long 3b - ., 0
	.quad our_key - .
__stop___jump_table:
"""


def test_keys_are_those_that_are_defined() -> None:
    texts = (
        "DEFINE_STATIC_KEY_FALSE(b_key);\nstatic DEFINE_STATIC_KEY_FALSE_RO(c_key);\n",
        "DECLARE_STATIC_KEY_FALSE(d_key);\n	if (static_branch_unlikely(&e_key))\nDEFINE_STATIC_KEY_TRUE(f_key);",
        "/* see DEFINE_STATIC_KEY_FALSE(g_key) */\nDEFINE_STATIC_KEY_FALSE(a_key);",
        "DEFINE_STATIC_KEY_DEFERRED_FALSE(h_key, HZ);\nDEFINE_STATIC_KEY_DEFERRED_TRUE(i_key, HZ);",
    )
    assert nops.keys(texts) == ["a_key", "b_key", "c_key", "h_key"]
    assert nops.keys(()) == []


@pytest.mark.parametrize("address", [0, 0x1000, 0xFFFFFFFF82000000])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_entries_are_relative_to_themselves(address: int, count: int) -> None:
    table, expected = b"", []
    for n in range(count):
        code, key = address + 5000 + 3 * n, address + 90000 + 16 * n
        at = address + len(table)
        table += struct.pack("<iiq", code - at, 0, key - (at + 8) + n % 4)
        expected.append((code, key))
    assert list(nops.entries(table + b"\0" * 7, address)) == expected


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    source, out = tmp_path / "a.s", tmp_path / "vmlinux"
    source.write_text(ASSEMBLY)
    subprocess.run(["gcc", "-nostdlib", "-static", "-Wl,-e,asks", "-o", out, source], check=True)
    return out


def test_places_are_found_with_what_is_there(linked: Path) -> None:
    jump = "jmp    "
    found = nops.sites(linked, ["our_key"])
    assert [(site.function, site.key) for site in found] == [("asks", "our_key"), ("jumps", "our_key")]
    assert found[0].instruction == NOP5 and found[0].is_nop
    assert found[1].instruction.startswith(jump) and not found[1].is_nop
    (other,) = nops.sites(linked, ["other_key", "no_key"])
    assert other == Site("asks", "other_key", NOP2) and other.is_nop
    assert nops.problems(found) == [f"jumps: {found[1].instruction} where our_key is off"]
    assert nops.problems([other]) == []


def test_a_kernel_without_static_keys_is_refused(tmp_path: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    (tmp_path / "a.c").write_text("int f(void) { return 0; }\n")
    subprocess.run(["gcc", "-c", "-o", tmp_path / "a.o", tmp_path / "a.c"], check=True)
    with pytest.raises(BuildError, match="no __start___jump_table"):
        nops.sites(tmp_path / "a.o", ["our_key"])
    with pytest.raises(BuildError, match="nm"):
        nops.sites(tmp_path / "none", ["our_key"])


def test_nobody_asking_is_wrong() -> None:
    assert nops.problems([]) == ["no function tests a static key of the overlay"]
    assert nops.table([]) == ""


def test_the_table_counts_what_is_the_same() -> None:
    twice = Site("do_numa_page", "numa_follow_marks", NOP5)
    once = Site("sched_tick", "numa_follow_tasks", NOP2)
    assert nops.table([twice, twice, once]).splitlines() == [
        "function      asks about         while that is off",
        f"do_numa_page  numa_follow_marks  2 x {NOP5}",
        f"sched_tick    numa_follow_tasks  {NOP2}",
    ]

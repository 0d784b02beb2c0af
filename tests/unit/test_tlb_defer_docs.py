# SPDX-License-Identifier: GPL-2.0
"""Deferred TLB flushes: every way to break them has a test that notices, and the documents say which."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "linux/mm/tlb_defer/tlb_defer.h"
EVENTS = ROOT / "hooks/0028-vmstat-tlb-defer-events.patch"
SELFTESTS = ROOT / "linux/tools/testing/selftests/terrace"
REFERENCE = ROOT / "docs/reference/tlb-defer.md"
ADMIN = ROOT / "linux/Documentation/admin-guide/mm/tlb_defer.rst"
ABI = ROOT / "linux/Documentation/ABI/testing/sysfs-kernel-mm-tlb_defer"
BEGIN, END = "<!-- sabotage: begin -->\n", "<!-- sabotage: end -->\n"


def bits() -> dict[str, str]:
    """The bits of debugfs tlb_defer/sabotage in order, each with what it breaks."""
    return dict(re.findall(r"^\tTLB_DEFER_SAB_(\w+),\t/\* (.*) \*/$", HEADER.read_text(), re.MULTILINE))


def noticed() -> list[tuple[str, str, str]]:
    """(bit, program, check) for every check that names a bit."""
    found = []
    for path in sorted(SELFTESTS.glob("tlb_defer_*.c")):
        for name, bit in re.findall(r'\{\s*"([^"]+)",\s*\w+,\s*TD_SAB_(\w+)\s*\}', path.read_text()):
            if bit != "NONE":
                found.append((bit, path.stem, name))
    return found


def table() -> str:
    """The table of the reference page."""
    lines = ["| Bit | Breaks | Noticed by |", "| --- | --- | --- |"]
    for number, (bit, what) in enumerate(bits().items()):
        tests = "; ".join(f"`{program}`: {name}" for found, program, name in noticed() if found == bit)
        lines.append(f"| {number} | {what} | {tests} |")
    return "\n".join(lines) + "\n"


def test_a_test_notices_each_sabotage() -> None:
    assert set(bits()) - {found for found, _, _ in noticed()} == set()


def test_kernel_and_selftests_number_the_bits_alike() -> None:
    ours = re.findall(r"^\tTD_SAB_(\w+),$", (SELFTESTS / "tlb_defer_util.h").read_text(), re.MULTILINE)
    assert ours == ["NONE", *bits()]


def test_the_table_of_sabotage_is_in_the_reference() -> None:
    text = REFERENCE.read_text()
    head, _, rest = text.partition(BEGIN)
    found, _, tail = rest.partition(END)
    if os.environ.get("TERRACE_ACCEPT") and found != table():
        REFERENCE.write_text(head + BEGIN + table() + END + tail)
        return
    assert found == table(), "if the code is right: TERRACE_ACCEPT=1 and run this test again"


def test_every_counter_is_documented() -> None:
    names = re.findall(r'^\+\t"(tlb_defer_\w+)",$', EVENTS.read_text(), re.MULTILINE)
    admin = ADMIN.read_text()
    assert len(names) > 20
    for name in names:
        family, _, last = name.rpartition("_")
        assert f"``{name}``" in admin or (f"``{family}_" in admin and f"``_{last}``" in admin), name


def test_every_file_is_in_the_abi_and_in_the_guide() -> None:
    source = (ROOT / "linux/mm/tlb_defer/sysfs.c").read_text()
    names = re.findall(r"^static struct tlb_defer_knob (\w+)_knob =", source, re.MULTILINE)
    names += re.findall(r"^static struct kobj_attribute (\w+)_attr =", source, re.MULTILINE)
    assert len(names) == 6
    for name in names:
        assert f"What:\t\t/sys/kernel/mm/tlb_defer/{name}\n" in ABI.read_text()
        assert f"``{name}``" in ADMIN.read_text()

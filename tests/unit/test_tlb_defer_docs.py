# SPDX-License-Identifier: GPL-2.0
"""Deferred TLB flushes: every rule has a mutant, and the documents name the checks that detect it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from terrace.testing.mutants.read import Mutant, load_mutants

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "hooks/0028-vmstat-tlb-defer-events.patch"
REFERENCE = ROOT / "docs/reference/tlb-defer.md"
ADMIN = ROOT / "linux/Documentation/admin-guide/mm/tlb_defer.rst"
ABI = ROOT / "linux/Documentation/ABI/testing/sysfs-kernel-mm-tlb_defer"
BEGIN, END = "<!-- mutants: begin -->\n", "<!-- mutants: end -->\n"
#: The rules of Documentation/mm/tlb_defer.rst whose violation a test can detect; the reference
#: lists the others.
RULES = ("A1", "A2", "A4", "A5", "B1", "B2", "B3", "C", "D1", "D2", "D4", "D7")


def mutants() -> list[Mutant]:
    """The mutants of deferred flushes, by name."""
    return [mutant for mutant in load_mutants() if mutant.capability == "tlb_defer"]


def table() -> str:
    """The table of the reference page: the mutants that break a rule."""
    lines = ["| Mutant | Breaks | Noticed by |", "| --- | --- | --- |"]
    for mutant in sorted(mutants(), key=lambda mutant: mutant.breaks):
        if rules(mutant):
            checks = "; ".join(f"`{target.unit}`: {target.check}" for target in mutant.caught_by)
            lines.append(f"| `{mutant.name}` | {mutant.breaks} | {checks} |")
    return "\n".join(lines) + "\n"


def rules(mutant: Mutant) -> list[str]:
    """The rules that a mutant breaks, from the first words of its description."""
    names, colon, _ = mutant.breaks.partition(":")
    return [name for name in names.split(", ") if name in RULES] if colon else []


def test_every_rule_has_a_mutant() -> None:
    assert {rule for mutant in mutants() for rule in rules(mutant)} == set(RULES)


def test_the_table_of_mutants_is_in_the_reference() -> None:
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

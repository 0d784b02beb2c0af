# SPDX-License-Identifier: GPL-2.0
"""The table of capabilities in docs/reference/test.md names checks that exist, where they are, and all selftests."""

import fnmatch
import re

from terrace.cli import test as verb
from terrace.paths import repo_root
from terrace.testing.groups import GROUPS
from terrace.testing.programs import find_programs

_HEAD = "| Capability | Gate | Suite |"
_NAME = re.compile(r"`([^`]+)`")


def _rows() -> list[tuple[str, list[str], list[str]]]:
    """Capability, names of its column Gate, names of its column Suite."""
    text = (repo_root() / "docs/reference/test.md").read_text()
    lines = text[text.index(_HEAD) :].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[: lines.index("")]]
    return [(row[0], _NAME.findall(row[1]), _NAME.findall(row[2])) for row in rows]


def test_the_table_has_rows_and_each_row_names_a_check() -> None:
    rows = _rows()
    assert len(rows) > 15
    assert [capability for capability, gate, suite in rows if not gate and not suite] == []


def test_each_name_is_a_group_or_a_program_and_in_the_column_where_it_runs() -> None:
    programs = [program.name for program in find_programs()]
    in_gate = verb._gate().selftests
    wrong = []
    for capability, gate, suite in _rows():
        for name in gate:
            group = GROUPS.get(name)
            if not (group.in_gate if group else name in in_gate):
                wrong.append(f"{capability}: {name} is not in the gate")
        for name in suite:
            group = GROUPS.get(name)
            found = set(fnmatch.filter(programs, name))
            if group.in_gate if group else not found - in_gate:
                wrong.append(f"{capability}: {name} is not in the suite alone")
    assert wrong == []


def test_every_selftest_is_in_the_table() -> None:
    names = [name for _, gate, suite in _rows() for name in (*gate, *suite)]
    missing = [p.name for p in find_programs() if not any(fnmatch.fnmatch(p.name, name) for name in names)]
    assert missing == []

# SPDX-License-Identifier: GPL-2.0
"""tests/gate.toml: what it takes, and that a mistake in it is named."""

import datetime
from pathlib import Path

import pytest

from terrace.errors import UsageError
from terrace.testing.gate import load_gate

GROUPS = ("unit", "kunit", "selftest")
PROGRAMS = ("a", "b")
LEFT = '[[left]]\nname = "unit/x.py::y"\ndate = 2026-11-23\nagain = 2026-12-01\nseen = "1 of 50"\n'


def test_programs_and_what_has_left(tmp_path: Path) -> None:
    file = tmp_path / "gate.toml"
    file.write_text(f'selftests = ["b"]\n{LEFT}{LEFT.replace("unit/x.py::y", "selftest/b:z")}')
    gate = load_gate(GROUPS, PROGRAMS, file)
    assert gate.selftests == {"b"}
    assert not gate.counts("unit/x.py::y")
    assert gate.counts("unit/x.py::z")
    assert gate.left_of("unit") == ["x.py::y"]
    assert gate.left_of("selftest") == ["b:z"]
    assert gate.due(datetime.date(2026, 11, 30)) == []
    assert gate.due(datetime.date(2026, 12, 1)) == ["selftest/b:z", "unit/x.py::y"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("selftests = [", "Invalid value"),
        ("gone = 1", "'gone': only selftests and [[left]] are known"),
        ('selftests = "a"', "selftests: has to be a list of names"),
        ('selftests = ["a", "c"]', "selftests: there is no program c"),
        ('left = ["unit/x"]', "[[left]]: has to have name, date, again and seen, and nothing else"),
        (LEFT + 'why = "x"', "[[left]]: has to have name, date, again and seen, and nothing else"),
        (
            LEFT.replace("unit/", "lab/"),
            "name 'lab/x.py::y': use GROUP/NAME with one of the groups unit, kunit, selftest",
        ),
        (LEFT.replace("unit/x.py::y", "unit"), "name 'unit': use GROUP/NAME"),
        (LEFT.replace("unit/x.py::y", "unit/pytest"), "unit/pytest: stands for crashes and reports"),
        (LEFT.replace("unit/x.py::y", "kunit/kernel"), "kunit/kernel: stands for crashes and reports"),
        ('selftests = ["a"]\n' + LEFT.replace("unit/x.py::y", "selftest/a"), "selftest/a: use selftest/PROGRAM:CHECK"),
        ('selftests = ["a"]\n' + LEFT.replace("unit/x.py::y", "selftest/b:c"), "selftest/b:c: use selftest/PROGRAM"),
        ("[left]\nx = 1", "left: write [[left]], once for each check"),
        (LEFT.replace("2026-11-23", '"today"'), "unit/x.py::y: date has to be a date (2026-11-23)"),
        (LEFT.replace("2026-12-01", "2026-12-01T10:00:00"), "unit/x.py::y: again has to be a date (2026-11-23)"),
        (LEFT.replace("2026-12-01", "2026-11-23"), "unit/x.py::y: again has to be a day after date"),
        (LEFT.replace("again = 2026-12-01\n", ""), "[[left]]: has to have name, date, again and seen"),
        (LEFT.replace("1 of 50", " "), "unit/x.py::y: seen has to say what was seen"),
    ],
)
def test_a_mistake_is_named(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "gate.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_gate(GROUPS, PROGRAMS, file)
    assert str(caught.value).startswith(f"{file}: ")
    assert problem in str(caught.value)


def test_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gate\.toml"):
        load_gate(GROUPS, PROGRAMS, tmp_path / "gate.toml")

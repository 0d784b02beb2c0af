# SPDX-License-Identifier: GPL-2.0
"""The one place that touches files of the kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from terrace.sysfs import KernelFileError, KernelFiles, Write, parse_nodes, parse_table, to_int


def test_a_missing_file_is_none_and_no_complaint(tmp_path: Path) -> None:
    files = KernelFiles(tmp_path)
    assert files.get("sys/none") is None
    assert files.get_int("sys/none") is None
    assert files.names("sys/none") == []
    assert files.unreadable == {}


def test_an_unreadable_file_is_none_and_noted(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    files = KernelFiles(tmp_path)
    assert files.get("sys") is None
    assert files.unreadable == {"/sys": os.strerror(21)}


def test_read_says_which_file_and_why(tmp_path: Path) -> None:
    with pytest.raises(KernelFileError, match="cannot read /sys/none: No such file"):
        KernelFiles(tmp_path).read("sys/none")


def test_a_write_replaces_the_value_and_is_noted(tmp_path: Path) -> None:
    (tmp_path / "knob").write_text("12345\n")
    files = KernelFiles(tmp_path)
    files.write("knob", "6")
    assert files.read("knob") == "6"
    assert files.log == [Write("/knob", "6")]


def test_a_dry_run_notes_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "knob").write_text("12345\n")
    files = KernelFiles(tmp_path, dry_run=True)
    files.write("knob", "6")
    assert files.read("knob") == "12345"
    assert files.log == [Write("/knob", "6")]


def test_a_refused_write_has_the_kernels_errno(tmp_path: Path) -> None:
    with pytest.raises(KernelFileError) as caught:
        KernelFiles(tmp_path).write("none", "1")
    assert caught.value.errno == 2
    assert caught.value.path == "/none"


@pytest.mark.parametrize(
    ("text", "nodes"),
    [(None, []), ("0,2-3\n", [0, 2, 3]), ("nonsense", []), ("1-x,5", [5])],
)
def test_lists_of_nodes(text: str | None, nodes: list[int]) -> None:
    assert parse_nodes(text) == nodes


def test_tables_skip_what_is_no_counter() -> None:
    assert parse_table("a 1\nb two\nc 3 4\n\nd -5") == {"a": 1, "d": -5}
    assert parse_table(None) == {}


def test_integers() -> None:
    assert (to_int("7\n"), to_int("x"), to_int(None)) == (7, None, None)

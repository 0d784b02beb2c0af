# SPDX-License-Identifier: GPL-2.0
"""Public test suites: how their results are read and judged, without a guest."""

from pathlib import Path

import pytest

from terrace.kernel import arch
from terrace.lab.run import GuestResult
from terrace.testing import suites
from terrace.testing.suites import _judge, _Ran, _taken_apart


def guest(stdout: str, console: str = "") -> GuestResult:
    return GuestResult(0, stdout.encode(), b"", console, "ok")


def test_output_is_taken_apart_by_test() -> None:
    text = "@m start a\none\n\n@m end 0\n@m start b\ntwo\n@m end 3\n@m start c\nhalf a li"
    ran = _taken_apart(guest(text), "@m", {"a": "", "b": "", "c": "", "d": ""})
    assert ran["a"] == _Ran(0, ("one",))
    assert ran["b"] == _Ran(3, ("two",))
    assert ran["c"].code is None
    assert ran["d"].code is None


def test_a_report_of_the_kernel_fails_every_test() -> None:
    text = "@m start a\n@m end 0\n"
    console = "[    1.000000] WARNING: CPU: 0 PID: 1 at mm/mempolicy.c:1 f+0x1/0x2\n"
    assert _taken_apart(guest(text, console), "@m", {"a": ""})["a"].code is None


@pytest.mark.parametrize(
    ("ours", "stock", "status"),
    [(0, 1, "pass"), (1, 1, "skip"), (1, 2, "fail"), (77, 0, "fail"), (None, None, "fail")],
)
def test_what_fails_on_both_kernels_says_nothing(ours: int | None, stock: int | None, status: str) -> None:
    result = _judge("numactl/x", _Ran(ours, ("last words",)), {"stock": _Ran(stock)})
    assert result.status == status
    if status == "fail":
        assert "stock:" in result.detail
        assert "last words" in result.detail


def test_every_name_belongs_to_a_suite() -> None:
    assert all(name.partition("/")[0] in ("numactl", "stress-ng") for name in suites.suite_names())


def test_calls_that_a_table_lacks_are_named(tmp_path: Path) -> None:
    (tmp_path / "table.h").write_text("__SYSCALL(960, sys_set_mempolicy2)\n__SYSCALL(961, sys_ni_syscall)\n")
    (tmp_path / "list.h").write_text("#define __NR_set_mempolicy2 960\n#define __NR_mbind2 963\n")
    assert arch._missing_in_table(tmp_path, "table.h") == [
        "table.h does not have get_mempolicy2 as 961",
        "table.h does not have mbind2 as 962",
    ]
    assert len(arch._missing_in_table(tmp_path, "list.h")) == 2

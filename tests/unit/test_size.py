# SPDX-License-Identifier: GPL-2.0
"""The table of sizes of our own code, and its limits."""

from pathlib import Path

import pytest
from ops_golden import run

from terrace.kernel import check, size, tree
from terrace.kernel.check import Check, Measured, Result
from terrace.kernel.size import ELSEWHERE, Size
from terrace.kernel.source import Source

SAID = """\
   text\t   data\t    bss\t    dec\t    hex\tfilename
    509\t      0\t      0\t    509\t    1fd\tmm/follow/decide.o (ex mm/follow/built-in.a)
   6728\t   2544\t      8\t   9280\t   2440\tmm/follow/tick.o (ex mm/follow/built-in.a)
  10368\t   1048\t      0\t  11416\t   2c98\tmm/follow/tests/decide_kunit.o (ex mm/follow/built-in.a)
   2400\t     16\t      0\t   2416\t    970\tfile_policy.o (ex mm/file_policy/built-in.a)
   2577\t   2548\t      8\t   5133\t   140d\tkernel/cgroup/numa_follow.o
"""
SOURCE = Source(Path("linux.tar.xz"), "6.12.1", "c0ffee")
SIZES = [Size("mm/file_policy", 2400, 16, 0), Size("mm/follow", 9814, 5092, 16)]
TABLE = """\
bytes of         text  data  bss
mm/file_policy   2400    16    0
mm/follow        9814  5092   16
total           12214  5108   16"""


def test_objects_are_summed_up_by_folder_without_tests() -> None:
    assert size.parse(SAID) == SIZES
    assert size.parse("") == []
    assert size.parse(SAID.splitlines()[0]) == []


def test_the_table_has_a_total() -> None:
    assert size.table(SIZES) == TABLE
    assert size.table([]) == ""


@pytest.mark.parametrize("limits", [{}, {"mm/follow": 9814}, {"mm/gone": 1}])
def test_what_is_within_its_limit_or_has_none_passes(limits: dict[str, int]) -> None:
    assert size.problems(SIZES, limits) == []


def test_a_folder_above_its_limit_is_named_with_both_figures() -> None:
    limits = {"mm/follow": 9813, "mm/file_policy": 2500}
    assert size.problems(SIZES, limits) == ["linux/mm/follow: 9814 bytes of text, the budget is 9813"]


def test_the_check_asks_for_each_folder_and_object_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[list[str]] = []
    cgroup = ["kernel/cgroup/numa_balancing.c", "kernel/cgroup/numa_follow.c"]
    ours = ["mm/follow/Makefile", "mm/follow/tick.c", *cgroup, "tools/testing/x/Makefile"]
    monkeypatch.setattr(tree, "overlay_files", lambda: ours)
    assert check._compiled() == ["mm/follow/", *ELSEWHERE]
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks/budget.toml").write_text('[text_bytes]\n"mm/follow" = 9000\n')
    monkeypatch.setattr(check, "repo_root", lambda: tmp_path)
    monkeypatch.setattr(check, "_terrace_out", lambda source: tmp_path)
    monkeypatch.setattr(check, "_compile_ours", lambda out: "")

    def said(command: list[str], root: Path) -> object:
        asked.append(command)
        return type("Done", (), {"returncode": 0, "stdout": SAID, "stderr": ""})

    monkeypatch.setattr(check, "_run", said)
    measured = check._check_size(SOURCE)
    assert measured == Measured(["linux/mm/follow: 9814 bytes of text, the budget is 9000"], SIZES)
    assert asked == [["size", "mm/follow/built-in.a", "kernel/cgroup/numa_balancing.o", "kernel/cgroup/numa_follow.o"]]
    result = check._timed(Check("size", "", lambda source: measured), SOURCE)
    assert (result.passed, result.sizes) == (False, tuple(SIZES))
    (tmp_path / "hooks/budget.toml").write_text("hooks = 1\n")
    assert check._check_size(SOURCE).problems == []


@pytest.mark.parametrize("problems", [(), ("linux/mm/follow: grows",)])
def test_the_table_is_shown_to_people(
    problems: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checked = [Result("hooks", (), 0.5), Result("size", problems, 1.5, tuple(SIZES))]
    monkeypatch.setattr("terrace.kernel.check.run_checks", lambda names, **_: checked)
    assert run("kernel", "check") == len(problems)
    head = ["ok     hooks (0.5 s)", f"{'FAILED' if problems else 'ok    '} size (1.5 s)"]
    indented = [f"    {line}" for line in (*TABLE.splitlines(), *problems)]
    assert capsys.readouterr().out.splitlines() == [*head, *indented]

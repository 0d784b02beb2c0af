# SPDX-License-Identifier: GPL-2.0
"""Mutants as files: what is wrong in one is told with its line, and a diff has one place or none."""

from pathlib import Path

import pytest

from terrace.errors import UsageError
from terrace.paths import repo_root
from terrace.testing.capability import CAPABILITIES
from terrace.testing.mutants import read
from terrace.testing.mutants.batch import batches
from terrace.testing.mutants.diff import DiffError, apply_diff, parse_diff
from terrace.testing.mutants.read import Assembled, Known, Mutant, Target, load_mutants, parse_mutant
from terrace.testing.selftest import STATE_CHECK

TEXT = "int a;\nint b;\n\nint c(void)\n{\n\treturn a;\n}\n"
DIFF = "--- a/mm/x.c\n+++ b/mm/x.c\n@@ -5,2 +5,2 @@\n {\n-\treturn a;\n+\treturn b;\n"
HEAD = "# SPDX-License-Identifier: GPL-2.0\n"
FIELDS = "breaks: c() returns the other one\nkind: effect\ncaught-by: selftest/promote_kinds\n"


def mutant_of(name: str, *targets: Target, path: str = "mm/x.c") -> Mutant:
    files = parse_diff(DIFF.replace("mm/x.c", path).rstrip("\n").split("\n"))
    return Mutant(name, name, "it", "leak", targets or (Target("selftest", name),), files)


def applied(diff: str, text: str = TEXT) -> str:
    (change,) = parse_diff(diff.rstrip("\n").split("\n"))
    return apply_diff(change, text)


def test_a_diff_goes_where_its_lines_are_now() -> None:
    moved = "int before;\n" * 40 + TEXT
    assert applied(DIFF, moved) == moved.replace("return a", "return b")


def test_lines_that_are_there_no_more_or_twice_have_no_place() -> None:
    with pytest.raises(DiffError, match="no such lines any more") as gone:
        applied(DIFF, TEXT.replace("return a", "return 0"))
    assert gone.value.line == 3
    with pytest.raises(DiffError, match="has these lines 2 times; add a line of context"):
        applied(DIFF, TEXT + TEXT)


def test_hunks_follow_each_other() -> None:
    second = "@@ -1 +1 @@\n-int a;\n+long a;\n"
    with pytest.raises(DiffError, match="no such lines"):
        applied(DIFF + second)
    first, rest = DIFF.split("@@ -5", 1)
    assert applied(f"{first}{second}@@ -5{rest}") == TEXT.replace("int a", "long a").replace("return a", "return b")


@pytest.mark.parametrize(
    ("diff", "problem"),
    [
        ("--- a/x\n+++ b/y\n@@ @@\n-a\n", "the same path"),
        ("--- a/x\n+++ b/x\n", "nothing changes in x"),
        ("--- a/x\n+++ b/x\n@@ @@\n a\n", "this hunk changes nothing"),
        ("--- a/x\n+++ b/x\n@@ @@\n+a\n", "no line that says where it belongs"),
        ("--- a/x\n+++ b/x\n@@ @@\n-a\n?b\n", "begins with none of"),
        (f"{DIFF}{DIFF}", "stands here twice"),
    ],
)
def test_what_is_no_diff_is_refused(diff: str, problem: str) -> None:
    with pytest.raises(DiffError, match=problem):
        parse_diff(diff.rstrip("\n").split("\n"))


def test_a_mutant_is_read() -> None:
    text = f"{HEAD}{FIELDS}caught-by: kunit/mtier_look.a_plan_takes_whole_folios\n{DIFF}"
    mutant = parse_mutant("mtier/other", text, Known())
    assert (mutant.capability, mutant.kind, mutant.in_guest) == ("mtier", "effect", True)
    assert [str(target) for target in mutant.caught_by] == [
        "selftest/promote_kinds",
        "kunit/mtier_look.a_plan_takes_whole_folios",
    ]
    for check in ("A10 shme", STATE_CHECK):
        text = f"{HEAD}{FIELDS}{DIFF}".replace("promote_kinds", f"promote_kinds:{check}")
        assert parse_mutant("mtier/other", text, Known()).caught_by[0].check == check


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (HEAD, "", "1: the first line is not '# SPDX"),
        ("kind: effect", "kind: bad", "3: kind 'bad': the kinds are leak, count"),
        ("kind: effect", "Kind: effect", "1: there is no 'kind:'"),
        ("kind: effect", "kind: effect\nkind: leak", "4: 'kind:' stands here twice"),
        ("promote_kinds", "promote_what", "4: no program of selftest is called promote_what"),
        ("promote_kinds", "promote_kinds:A99", "4: the program promote_kinds has no check 'A99'"),
        ("selftest/promote_kinds", "kunit/mtier_nothing", "4: no KUnit suite is called mtier_nothing"),
        (
            "selftest/promote_kinds",
            "policy/mtier_policy.nothing",
            "4: the KUnit suite mtier_policy has no case nothing",
        ),
        ("selftest/promote_kinds", "unit/tests/unit/test_mutants.py::test_x", "4: .* has no test test_x"),
        ("selftest/promote_kinds", "promote_kinds", "4: 'promote_kinds' is not GROUP/NAME, of selftest"),
        (DIFF, "", "4: there is no diff"),
        ("-\treturn a;\n+\treturn b;\n", "", "7: this hunk"),
    ],
)
def test_what_is_wrong_has_file_and_line(old: str, new: str, problem: str) -> None:
    text = f"{HEAD}{FIELDS}{DIFF}"
    assert old in text
    with pytest.raises(UsageError, match=f"tests/mutants/mtier/other.patch:{problem}"):
        parse_mutant("mtier/other", text.replace(old, new), Known())


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    for name, text in (("mtier/a", "nothing"), ("elsewhere/b", f"{HEAD}{FIELDS}{DIFF}")):
        path = tmp_path / f"{name}.patch"
        path.parent.mkdir()
        path.write_text(text)
    (tmp_path / "mtier" / "c.diff").write_text("")
    with pytest.raises(UsageError) as wrong:
        load_mutants(tmp_path)
    told = str(wrong.value).splitlines()
    assert [line.partition(":")[0] for line in told if "mtier/a" not in line] == [
        "tests/mutants/elsewhere/b.patch",
        "tests/mutants/mtier/c.diff",
    ]
    assert sum("mtier/a.patch" in line for line in told) >= 4


def test_a_mutant_changes_nothing_but_ours(tmp_path: Path) -> None:
    (tmp_path / "mm").mkdir()
    (tmp_path / "mm/x.c").write_text(TEXT)
    with pytest.raises(UsageError, match=r"tests/mutants/mtier/other.patch:3: mm/x.c is not ours"):
        Assembled(tmp_path, ["mm/y.c"]).changed([mutant_of("mtier/other")])
    assert Assembled(tmp_path, ["mm/x.c"]).changed([mutant_of("mtier/other")]) == {
        "mm/x.c": TEXT.replace("return a", "return b")
    }


def test_a_batch_has_nothing_twice() -> None:
    a, b, c = (Target("selftest", name) for name in "abc")
    policy = Target("policy", "mtier_policy")
    one = mutant_of("mtier/one", a, path="1")
    two = mutant_of("mtier/two", b, path="2")
    same_program = mutant_of("numa_scan/three", b, a, path="3")
    same_file = mutant_of("tlb_defer/four", c, path="1")
    host = mutant_of("mempolicy2/five", policy, path="5")
    free = mutant_of("file_policy/six", c, path="6")
    assert batches([one, two, same_program, same_file, host, free]) == [
        [host],
        [one, free],
        [two, same_file],
        [same_program],
    ]


def test_the_mutants_that_there_are_can_be_read() -> None:
    """Their place in the tree is a check of the group patches, which has the tree."""
    found = load_mutants()
    assert {mutant.capability for mutant in found} == set(CAPABILITIES)
    assert all((repo_root() / read.FOLDER / f"{mutant.name}.patch").is_file() for mutant in found)

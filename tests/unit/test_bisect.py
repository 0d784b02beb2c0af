# SPDX-License-Identifier: GPL-2.0
"""Building every patch of the series: what was built before is not built again, and nothing else is left out."""

from pathlib import Path

import pytest

from terrace.errors import BuildError
from terrace.kernel import bisect, build, patches, series, tree
from terrace.kernel.series import Patch, Series
from terrace.kernel.source import Source

DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def _series(diff: str = DIFF) -> Series:
    hook = patches.parse_hook("0001-x.patch", f"From: A <a@b>\nSubject: [PATCH] mm: call\n\nWhy.\n---\n{diff}")
    first = Patch("mm: add", "Text.", ("mm/a.c", "Documentation/a.rst"), ())
    return Series("mm: tier", "All.", (first, Patch("mm: call", "Why.", (), (hook,))))


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was built; the tree, its reset and make are left out."""
    calls: list[str] = []
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tree, "repo_root", lambda: tmp_path)
    monkeypatch.setattr(bisect, "trees_dir", lambda: tmp_path)
    monkeypatch.setattr(bisect, "_reset", lambda *_: None)
    monkeypatch.setattr(build, "tools", lambda: ("gcc 12", "ld 2"))
    monkeypatch.setattr(series, "apply_entry", lambda patch, _: calls.append(patch.title))
    monkeypatch.setattr(bisect, "_build", lambda _, kind, complete: calls.append(f"{kind}{' all' * complete}"))
    for name in ("mm/a.c", "Documentation/a.rst"):
        path = tmp_path / "linux" / name
        path.parent.mkdir(parents=True)
        path.write_text("one\n")
    return calls


SOURCE = Source(Path("/nonesuch"), "6.12.1", "abc")
ALL = ["mm: add", "off", "terrace", "mm: call", "off all", "terrace all"]
NONE = ["mm: add", "mm: call"]


def _again(built: list[str], whole: Series) -> list[str]:
    built.clear()
    assert bisect.build_each(whole, SOURCE) == []
    return list(built)


def test_what_was_built_is_not_built_again(built: list[str]) -> None:
    assert _again(built, _series()) == ALL
    assert _again(built, _series()) == NONE


def test_a_change_costs_itself_and_what_is_behind_it(built: list[str], tmp_path: Path) -> None:
    _again(built, _series())
    assert _again(built, _series(DIFF.replace("+b", "+c"))) == ["mm: add", "mm: call", "off all", "terrace all"]
    (tmp_path / "linux/mm/a.c").write_text("two\n")
    assert _again(built, _series()) == ALL


def test_what_is_not_compiled_costs_nothing(built: list[str], tmp_path: Path) -> None:
    _again(built, _series())
    (tmp_path / "linux/Documentation/a.rst").write_text("two\n")
    assert _again(built, _series()) == NONE


def test_another_compiler_builds_all(built: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _again(built, _series())
    monkeypatch.setattr(build, "tools", lambda: ("gcc 13", "ld 2"))
    assert _again(built, _series()) == ALL


def test_a_failure_is_named_and_not_remembered(built: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path, kind: str, *, complete: bool) -> None:
        built.append(kind)
        if kind == "terrace" and not complete:
            raise BuildError("mm/a.c:1: error: no")

    monkeypatch.setattr(bisect, "_build", fail)
    problem = ["patch 1 of 2, our options terrace: mm: add", "mm/a.c:1: error: no"]
    assert bisect.build_each(_series(), SOURCE) == problem
    built.clear()
    assert bisect.build_each(_series(), SOURCE) == problem
    assert built == ["mm: add", "terrace", "mm: call"]

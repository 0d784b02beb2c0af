# SPDX-License-Identifier: GPL-2.0
"""`make` for the decision code: the objects of another checkout in the same cache, and mutants that fit the code."""

import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

from terrace.paths import repo_root

PARTS = ("linux/tools/testing/mtier", "linux/mm/mtier", "linux/mm/mempolicy2")


def _checkout(folder: Path) -> Path:
    for part in PARTS:
        shutil.copytree(repo_root() / part, folder / part)
    return folder / PARTS[0]


def _objects(folder: Path, cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "-s", "-j2", "-C", str(folder), "objects", "SANITIZE=", "CFLAGS=-O0", *words],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_checkout_builds_when_one_that_built_before_it_is_gone(tmp_path: Path) -> None:
    """Its objects depend on files that are no more: CI, in a fresh clone each time, met this."""
    first = _checkout(tmp_path / "the first")
    before = sorted((tmp_path / "the first").rglob("*"))
    done = _objects(first, tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    # Nothing is built in the source folder.
    assert sorted((tmp_path / "the first").rglob("*")) == before
    shutil.rmtree(tmp_path / "the first")
    done = _objects(_checkout(tmp_path / "the second"), tmp_path / "cache")
    assert done.returncode == 0, done.stderr


def test_a_cache_with_a_space_is_refused_by_name_and_another_folder_serves(tmp_path: Path) -> None:
    folder = _checkout(tmp_path / "here")
    done = _objects(folder, tmp_path / "a cache")
    assert done.returncode == 2
    assert "a cache/terrace/policy" in done.stderr and "make O=DIR" in done.stderr
    assert _objects(folder, tmp_path / "a cache", f"O={tmp_path}/out").returncode == 0
    assert not (tmp_path / "a").exists()


def test_each_mutant_fits_one_place_of_the_code() -> None:
    """`make mutants` takes minutes and runs in the suite only: the gate checks that its edits have a place."""
    folder = repo_root() / PARTS[0]
    files = re.findall(r"^[A-Z_]+ \?= \$\((MTIER|MEMPOLICY2)\)/(\w+\.c)$", (folder / "Makefile").read_text(), re.M)
    paths = [repo_root() / "linux/mm" / part.lower() / name for part, name in files]
    assert {path.name for path in paths} >= {"place.c", "pace.c", "bandwidth.c"}
    sources = {path: path.read_text() for path in paths}
    module = runpy.run_path(str(folder / "mutants.py"))
    wrong = {mutant.name: nr for mutant in module["MUTANTS"] if (nr := module["places"](mutant, sources)) != 1}
    names = [mutant.name for mutant in module["MUTANTS"]]
    # The report has a result for each name.
    assert len(set(names)) == len(names)
    assert not wrong, f"mutants that fit no place, or more than one: {wrong}"

# SPDX-License-Identifier: GPL-2.0
"""libterrace builds, exports what its map says, installs, and passes its tests on this kernel."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from terrace.paths import repo_root

FOLDER = repo_root() / "libterrace"

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here")


def make(out: Path, *words: str) -> str:
    command = ["make", "-s", "-C", str(FOLDER), f"O={out}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("libterrace")
    make(out, "all")
    return out


def declared() -> set[str]:
    text = (FOLDER / "include/terrace/policy.h").read_text()
    return set(re.findall(r"\b(terrace_\w+)\(", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)))


def test_exports_are_the_header(built: Path) -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(built / "libterrace.so")], capture_output=True, text=True, check=True
    ).stdout
    exported = {line.split()[-1] for line in listed.splitlines() if " T " in line}
    assert exported == {f"{name}@@TERRACE_0.1" for name in declared()}


def test_library_keeps_and_prints_nothing(built: Path) -> None:
    listed = subprocess.run(["nm", str(built / "libterrace.a")], capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in listed.splitlines() if len(line.split()) >= 2]
    assert not [word for word in words if word[-2] in "BbDdC"], "a variable"
    assert not {word[-1] for word in words} & {"printf", "fprintf", "puts", "perror", "stderr", "stdout"}


def test_its_tests_pass_here(built: Path) -> None:
    output = make(built, "check")
    assert "not ok" not in output
    assert re.search(r"^1\.\.\d+$", output, re.MULTILINE)


def test_it_installs(built: Path, tmp_path: Path) -> None:
    make(built, "install", f"DESTDIR={tmp_path}", "PREFIX=/usr")
    for name in (
        "lib/libterrace.so.0.1",
        "lib/libterrace.so",
        "lib/pkgconfig/libterrace.pc",
        "include/terrace/policy.h",
        "share/man/man2/set_mempolicy2.2",
        "share/man/man2/get_mempolicy2.2",
        "share/man/man2/mbind2.2",
        "share/man/man3/terrace_policy.3",
        "share/doc/libterrace/examples/two_threads.c",
    ):
        assert (tmp_path / "usr" / name).exists(), name
    assert "prefix=/usr\n" in (built / "libterrace.pc").read_text().replace("/usr/local", "/usr")

# SPDX-License-Identifier: GPL-2.0
"""Compiling the selftests: what they share is compiled once, and who is wrong is told."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from terrace.errors import BuildError
from terrace.testing import compile as compiling
from terrace.testing.programs import Program, find_programs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiling, "build_dir", lambda: tmp_path / "build")
    (tmp_path / "build").mkdir()
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "help.h").write_text("int help(void);\n")
    (sources / "help.c").write_text('#include "help.h"\nint help(void) { return 7; }\n')
    for name in ("one", "two"):
        (sources / f"{name}.c").write_text('#include "help.h"\nint main(void)\n{ return help(); }\n')
    return sources


def made(programs: list[Program]) -> dict[str, Path | BuildError]:
    return {program.name: file for program, file in compiling.compile_programs(programs)}


def calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that gcc got."""
    seen: list[str] = []
    real = subprocess.run

    def run(words: list[str], **options: object) -> "subprocess.CompletedProcess[str]":
        seen.append(next(Path(word).name for word in words if word.endswith(".c")))
        return real(words, **options)  # type: ignore[call-overload, no-any-return]

    # Not the module's own: threads of other tests may call that at the same time.
    monkeypatch.setattr(compiling, "subprocess", SimpleNamespace(run=run))
    made(find_programs(folder))
    return sorted(seen)


def test_programs_run_with_their_helper_which_is_compiled_once_and_again_only_when_it_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        assert calls(folder, patch) == ["help.c", "one.c", "two.c"]
    with monkeypatch.context() as patch:
        assert calls(folder, patch) == []
    found = made(find_programs(folder))
    assert [subprocess.run([str(found[name])], check=False).returncode for name in ("one", "two")] == [7, 7]
    (folder / "help.c").write_text('#include "help.h"\nint help(void) { return 8; }\n')
    with monkeypatch.context() as patch:
        assert calls(folder, patch) == ["help.c", "one.c", "two.c"]
    assert subprocess.run([str(made(find_programs(folder))["one"])], check=False).returncode == 8


def test_a_program_that_does_not_compile_fails_alone(folder: Path) -> None:
    (folder / "one.c").write_text("int main(void)\n{ return nothing; }\n")
    found = made(find_programs(folder))
    assert isinstance(found["one"], BuildError) and "one.c does not compile" in str(found["one"])
    assert isinstance(found["two"], Path)


def test_a_helper_that_does_not_compile_fails_all(folder: Path) -> None:
    (folder / "help.c").write_text("nothing\n")
    found = made(find_programs(folder))
    assert all(isinstance(file, BuildError) and "help.c does not compile" in str(file) for file in found.values())

# SPDX-License-Identifier: GPL-2.0
"""A disk that is full, a quota that is used up and a cache that cannot be used are named, and what was there stays."""

from __future__ import annotations

import argparse
import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from terrace import __main__ as door
from terrace import files, paths, pictures
from terrace.cli import answer
from terrace.errors import BuildError, MissingError, TerraceError, UsageError

FULL = Path("/dev/full")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file that is made anew is on a device without room."""
    made = tempfile.mkstemp

    def mkstemp(*words: object, **more: object) -> tuple[int, str]:
        number, name = made(*words, **more)  # type: ignore[call-overload]
        os.close(number)
        return os.open(FULL, os.O_WRONLY), name

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)


@pytest.mark.usefixtures("full_disk")
def test_a_file_is_as_it_was_and_the_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text("old")
    with pytest.raises(TerraceError, match=f"^-o {path}: no space left in {tmp_path}$"):
        answer.give(argparse.Namespace(json=False, json_file=path), {"a": "b"})
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


class _Figure:
    def savefig(self, data: object, **_: object) -> None:
        data.write(b"<svg/>")  # type: ignore[attr-defined]


@pytest.mark.usefixtures("full_disk")
def test_a_picture_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    path.write_text("old")
    with pytest.raises(TerraceError, match=f"^--plot {path}: no space left in {tmp_path}$"):
        pictures.save(_Figure(), path, "--plot")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_picture_is_written(tmp_path: Path) -> None:
    pictures.save(_Figure(), tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == "<svg/>"


def test_a_quota_is_told_from_a_full_disk(tmp_path: Path) -> None:
    error = OSError(errno.EDQUOT, "Disk quota exceeded")
    assert files.why(error, tmp_path / "x") == f"the disk quota in {tmp_path} is used up"
    assert files.why(OSError(errno.EIO, "Input/output error"), tmp_path / "x") == "Input/output error"


def test_the_disk_of_a_link_is_named(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    error = OSError(errno.ENOSPC, "No space left on device")
    assert files.why(error, tmp_path / "link") == f"no space left in {tmp_path / 'there'}"


class _State:
    """As statvfs gives it."""

    def __init__(self, blocks: int, inodes: int) -> None:
        self.f_bavail, self.f_files, self.f_favail = blocks, 100, inodes


@pytest.mark.parametrize(("blocks", "inodes", "word"), [(0, 9, "space"), (9, 0, "inodes")])
def test_a_disk_without_inodes_is_full_too(
    blocks: int, inodes: int, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: _State(blocks, inodes))
    assert files.full_folders(tmp_path)[0] == tmp_path
    error = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "x"))
    assert files.why(error) == f"no {word} left in {tmp_path}"


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.replace(pipe, b"data")
    assert os.read(reader, 9) == b"data" and pipe.is_fifo()
    os.close(reader)
    files.replace(Path("/dev/null"), b"data")
    assert Path("/dev/null").is_char_device()


# ---- what the front door makes of it ----


def _outcome(monkeypatch: pytest.MonkeyPatch, error: Exception) -> int:
    def fail(words: list[str]) -> int:
        raise error

    monkeypatch.setattr(door, "_run", fail)
    return door._outcome([])


def test_an_error_without_a_name_names_what_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "full_folders", lambda *_: [tmp_path])
    assert _outcome(monkeypatch, OSError(errno.ENOSPC, "No space left on device")) == 1
    assert capsys.readouterr().err == f"terrace: no space left in {tmp_path}\n"


@pytest.mark.parametrize(("error", "named"), [(BuildError, True), (MissingError, True), (UsageError, False)])
def test_a_program_that_failed_for_a_full_disk_is_explained(
    error: type[TerraceError],
    named: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(files, "full_folders", lambda *_: [tmp_path])
    _outcome(monkeypatch, error("cc1: fatal error"))
    assert (f"there is no space left in {tmp_path}" in capsys.readouterr().err) is named


def _as_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_as_file, "File exists"),
        (lambda folder: _as_file(folder) / "cache", "Not a directory"),
        (lambda folder: folder / ("a" * 300), "File name too long"),
    ],
)
def test_a_cache_that_cannot_be_used_is_named(make: Callable[[Path], Path], why: str, tmp_path: Path) -> None:
    """`terrace test --list` prints it; run in a new process."""
    cache = make(tmp_path)
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", _CALL, source],
        env={**os.environ, "TERRACE_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    said = f"terrace: the cache {cache} cannot be used ({why}): name another with TERRACE_CACHE=/some/path\n"
    assert done.stderr == said


_CALL = """
import sys
sys.path.insert(0, sys.argv[1])
from terrace import __main__ as door, paths
door._run = lambda words: paths.cache_dir()
sys.exit(door.main([]))
"""


def test_a_cache_closed_to_this_user_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path))
    for name in (tmp_path, tmp_path / "packages" / "x", tmp_path.parent):
        assert _outcome(monkeypatch, PermissionError(errno.EACCES, "Permission denied", str(name))) == 1
        assert f"the cache {tmp_path} cannot be used (Permission denied): name another" in capsys.readouterr().err
    assert _outcome(monkeypatch, PermissionError(errno.EACCES, "Permission denied", "/elsewhere")) == 1
    assert "cache" not in capsys.readouterr().err


def test_a_user_without_a_home_is_told_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TERRACE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    with pytest.raises(UsageError, match="no home folder: name a cache folder with TERRACE_CACHE"):
        paths.cache_dir()
    assert all("build" in str(path) for path in paths.written_folders())


def test_a_cache_that_nobody_can_look_at_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a cache can be in another user's home. A name that is too long is an error for root also."""
    monkeypatch.setenv("TERRACE_CACHE", f"/{'x' * 300}/terrace")
    assert all("build" in str(path) for path in paths.written_folders())
    assert isinstance(files.full_folders(), list)


def test_without_a_temporary_folder_the_others_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((1,) * 4 + (0,) + (1,) * 6))
    assert tmp_path in files.full_folders(tmp_path)


def test_an_error_is_told_though_the_cache_cannot_be_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERRACE_CACHE", f"/{'x' * 300}/terrace")

    def missing(_: list[str]) -> int:
        raise MissingError("there is none")

    monkeypatch.setattr(door, "_run", missing)
    assert door._outcome([]) == MissingError.exit_code
    assert "there is none" in capsys.readouterr().err

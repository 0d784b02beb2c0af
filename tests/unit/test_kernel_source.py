# SPDX-License-Identifier: GPL-2.0
"""--linux: a folder, a tarball or Debian's package is found, unpacked, or refused with what is allowed."""

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from terrace import __main__ as door
from terrace.errors import MissingError, UsageError
from terrace.kernel import source

MAKEFILE = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 57\nEXTRAVERSION =\n"
FILES = {
    "linux-6.12.57/Documentation/Makefile": "VERSION = 1\n",
    "linux-6.12.57/Makefile": MAKEFILE,
    "linux-6.12.57/mm/Kconfig": "config NUMA\n",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(source.VARIABLE, raising=False)
    (tmp_path / "cache").mkdir()


def tarball(path: Path, files: Mapping[str, str] = FILES) -> Path:
    with tarfile.open(path, "w:xz" if path.suffix == ".xz" else "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def package(folder: Path, name: str = "usr/src/linux-source-6.12.tar.xz") -> Path:
    """Make a binary package as Debian's, with a tarball in it."""
    root = folder / "root"
    (root / name).parent.mkdir(parents=True)
    (root / "DEBIAN").mkdir()
    tarball(root / name)
    control = "Package: linux-source-6.12\nVersion: 6.12.57-1\nArchitecture: all\nMaintainer: T <t@example.org>\n"
    (root / "DEBIAN/control").write_text(control + "Description: source\n")
    made = folder / "linux-source-6.12_6.12.57-1_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, made], check=True, capture_output=True)
    return made


@pytest.mark.parametrize("name", ["linux-6.12.57.tar.xz", "linux-6.12.57.tar.gz", "linux_6.12.57.orig.tar"])
def test_a_tarball_is_a_source(tmp_path: Path, name: str) -> None:
    found = source.find(tarball(tmp_path / name))
    assert found.version == "6.12.57"
    assert not found.is_debian
    source.unpack(found, tmp_path / "trees" / "linux")
    assert (tmp_path / "trees/linux/Makefile").read_text() == MAKEFILE
    assert (tmp_path / "trees/linux/mm/Kconfig").is_file()


def test_debians_package_is_a_source_and_copied_once(tmp_path: Path) -> None:
    given = package(tmp_path)
    found = source.find(given)
    assert found.version == "6.12.57"
    assert found.path.is_relative_to(tmp_path / "cache")
    before = found.path.stat().st_mtime_ns
    assert source.find(given).path.stat().st_mtime_ns == before
    source.unpack(found, tmp_path / "trees" / "linux")
    assert (tmp_path / "trees/linux/Makefile").read_text() == MAKEFILE


def test_the_same_tarball_is_the_same_source_wherever_it_comes_from(tmp_path: Path) -> None:
    """Kernels built from it are found in the cache."""
    inside = source.find(package(tmp_path))
    copy = tmp_path / "copy.tar.xz"
    copy.write_bytes(inside.path.read_bytes())
    assert source.find(copy).sha == inside.sha


def test_what_is_no_linux_is_refused(tmp_path: Path) -> None:
    old = tarball(tmp_path / "old.tar", {"linux-6.1/Makefile": "VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 9\n"})
    with pytest.raises(UsageError, match=r"old\.tar: is Linux 6\.1\.9; the hooks are for 6\.12\.y"):
        source.find(old)
    with pytest.raises(UsageError, match=r"other\.tar: no Linux source in it"):
        source.find(tarball(tmp_path / "other.tar", {"thing-1/Makefile": "all:\n", "thing-1/a": "b"}))
    with pytest.raises(UsageError, match=r"nowhere: no such file or folder; allowed are a folder or a tarball"):
        source.find(tmp_path / "nowhere")
    text = tmp_path / "readme.txt"
    text.write_text("no archive\n" * 1000)
    with pytest.raises(UsageError, match=r"readme\.txt: cannot be read as an archive"):
        source.find(text)
    with pytest.raises(UsageError, match=r"linux-source-6\.12\.tar\.xz in this package"):
        source.find(package(tmp_path, "usr/src/linux-source-6.1.tar.xz"))
    broken = tmp_path / "broken.deb"
    broken.write_text("no package\n")
    with pytest.raises(UsageError, match=r"broken\.deb: "):
        source.find(broken)


@pytest.mark.parametrize("part", [0.02, 0.3, 0.9])
def test_a_download_that_was_cut_off_is_refused_and_nothing_is_kept(tmp_path: Path, part: float) -> None:
    """The Makefile may be in the part that is there: then the failure comes when the tarball is unpacked."""
    noise = {f"linux-6.12.57/a{number}": os.urandom(4096).hex() for number in range(50)}
    for path in (tarball(tmp_path / "cut.tar.xz", {**noise, **FILES}), package(tmp_path)):
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * part)])
        with pytest.raises(UsageError, match="--linux .*cut|--linux .*deb"):
            source.find(path)
    assert not list((tmp_path / "cache").glob("sources/*"))


def test_a_package_of_another_distribution_names_where_the_source_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise MissingError("no such package")

    monkeypatch.setattr(source, "_TARBALL", tmp_path / "none.tar.xz")
    monkeypatch.setattr(source, "require_packages", refuse)
    with pytest.raises(
        MissingError, match=r"(?s)no such package.*--linux FILE.*export TERRACE_LINUX=FILE.*kernel\.org"
    ):
        source.find()


@pytest.mark.parametrize(
    "words",
    [
        ["demo", "--check", "--linux"],
        ["test", "--list", "--linux"],
        ["lab", "run", "--linux"],
        ["lab", "debian", "--linux"],
        ["bench", "run", "kvzipf", "--linux"],
        ["bench", "validate", "run", "--linux"],
        ["kernel", "build", "--linux"],
        ["deb", "kernel", "--linux"],
    ],
)
def test_all_verbs_that_build_kernels_take_it(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("nowhere", ""):
        with pytest.raises(SystemExit) as ended:
            door._run([*words, path])
        assert ended.value.code == 2
        assert f"--linux {path}: no such file or folder" in capsys.readouterr().err
    assert source.VARIABLE not in os.environ
    (tmp_path / "here").mkdir()
    with pytest.raises(SystemExit):
        door._run([*words, "here", "--no-such-option"])
    assert os.environ.pop(source.VARIABLE) == str(tmp_path / "here")
    capsys.readouterr()


def test_children_and_other_folders_use_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(source.VARIABLE, str(tarball(tmp_path / "linux.tar")))
    assert source.find().version == "6.12.57"
    monkeypatch.setenv(source.VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(UsageError, match="--linux .*gone: no such file"):
        source.find()

# SPDX-License-Identifier: GPL-2.0
"""The pristine Linux source: Debian's linux-source package, or a tree the user names."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from terrace import stored
from terrace.errors import BuildError, MissingError, UsageError
from terrace.host import clean_env, require_packages
from terrace.output import Progress
from terrace.paths import cache_dir

SERIES = "6.12"
PACKAGE = f"linux-source-{SERIES}"
_TARBALL = Path(f"/usr/src/{PACKAGE}.tar.xz")
# What a tree that somebody builds in holds besides its source.
_NOT_SOURCE = (".git", "out", "build", "debian")


@dataclass(frozen=True)
class Source:
    """A pristine source: `path` is a tarball or a folder, `sha` identifies its content, `version` is like 6.12.117."""

    path: Path
    version: str
    sha: str

    @property
    def is_debian(self) -> bool:
        """True for the Debian package's tarball."""
        return self.path == _TARBALL

    @property
    def tag(self) -> str:
        """A part for folder names that keeps trees of different sources apart; empty for Debian's."""
        return "" if self.is_debian else "-" + hashlib.sha256(str(self.path).encode()).hexdigest()[:8]


def find(linux: Path | None = None) -> Source:
    """The source to use: the folder `linux`, or Debian's package (installed when missing).

    Raises UsageError when `linux` is not a 6.12 tree, MissingError when the package cannot be had.
    """
    if linux is not None:
        return _find_folder(linux)
    if not _TARBALL.is_file():
        try:
            require_packages([PACKAGE], "build a kernel")
        except MissingError as error:
            raise MissingError(
                f"{error}\n  Debian 12 has it in its security and backports archives."
                f" Any other {SERIES}.y tree serves too: --linux PATH"
            ) from None
    if not _TARBALL.is_file():
        raise MissingError(f"{_TARBALL} is missing: install Debian's {PACKAGE}, or name a tree with --linux PATH")
    sha = _tarball_sha(_TARBALL)
    return Source(_TARBALL, _tarball_version(_TARBALL, sha), sha)


def _find_folder(linux: Path) -> Source:
    path = linux.expanduser().resolve()
    if not (path / "Makefile").is_file() or not (path / "mm" / "Kconfig").is_file():
        raise UsageError(f"--linux {linux}: not a Linux source tree (no Makefile and mm/Kconfig in it)")
    version = _makefile_version((path / "Makefile").read_text())
    if not version.startswith(SERIES + ".") and version != SERIES:
        raise UsageError(f"--linux {linux}: is Linux {version}; the hooks are for {SERIES}.y")
    return Source(path, version, _folder_sha(path))


def unpack(source: Source, target: Path) -> None:
    """Put the pristine source into the new folder `target`; nothing is left behind when it fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
        fresh = Path(scratch) / "tree"
        fresh.mkdir()
        with Progress(f"Linux {source.version} source into {target.parent.name}/{target.name}"):
            if source.path.is_dir():
                _copy_folder(source.path, fresh)
            else:
                _untar(source.path, fresh)
        # A crash must not leave a tree of empty files under this name.
        stored.sync_folder(fresh)
        fresh.rename(target)


def _untar(tarball: Path, target: Path) -> None:
    done = subprocess.run(
        ["tar", "-xf", str(tarball), "--strip-components=1", "-C", str(target), "--no-same-owner"],
        env=clean_env({"XZ_OPT": "-T0"}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"{tarball} could not be unpacked: {done.stderr.strip()[-300:]}")


def _copy_folder(origin: Path, target: Path) -> None:
    for path in _source_files(origin):
        relative = path.relative_to(origin)
        copy = target / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy, follow_symlinks=False)


def _source_files(origin: Path) -> Iterator[Path]:
    """The source files of a tree: what git tracks there, or all but known products of a build."""
    if (origin / ".git").exists():
        words = ["git", "-C", str(origin), "ls-files", "-z"]
        listed = subprocess.run(words, capture_output=True, check=False, env=clean_env())
        if listed.returncode == 0:
            for name in listed.stdout.decode().split("\0"):
                path = origin / name
                if name and (path.is_file() or path.is_symlink()):
                    yield path
            return
    if (origin / ".config").exists():
        raise UsageError(f"--linux {origin}: a kernel was built in this folder; give a clean one (make mrproper)")
    for folder, folders, files in os.walk(origin):
        if Path(folder) == origin:
            folders[:] = [name for name in folders if name not in _NOT_SOURCE and not name.startswith("out-")]
        folders.sort()
        # os.walk lists links to folders among the folders and does not enter them.
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in sorted(files) + links:
            yield Path(folder) / name


def _folder_sha(path: Path) -> str:
    """A hash over names, sizes and times: reading 80,000 files on every call would take too long."""
    digest = hashlib.sha256()
    for file in _source_files(path):
        state = file.lstat()
        digest.update(f"{file.relative_to(path)}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _makefile_version(text: str) -> str:
    values = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL)\s*=\s*(\d+)\s*$", text, re.MULTILINE))
    return ".".join(values[key] for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL") if key in values)


def _remembered(tarball: Path, sha: str | None) -> tuple[Path, dict[str, str]]:
    """The note about a tarball (file, content); it is void when the tarball changed."""
    note = cache_dir() / "source.json"
    try:
        content = dict(json.loads(note.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        content = {}
    content = {name: value for name, value in content.items() if isinstance(value, str)}
    state = tarball.stat()
    key = f"{tarball} {state.st_size} {state.st_mtime_ns}"
    if content.get("key") != key or (sha and content.get("sha") != sha):
        content = {"key": key}
    return note, content


def _remember(note: Path, content: dict[str, str]) -> None:
    scratch = note.with_name(f"{note.name}.{os.getpid()}")
    scratch.write_text(json.dumps(content))
    scratch.replace(note)


def _tarball_sha(tarball: Path) -> str:
    note, content = _remembered(tarball, None)
    if "sha" not in content:
        with tarball.open("rb") as stream:
            content["sha"] = hashlib.file_digest(stream, "sha256").hexdigest()
        _remember(note, content)
    return content["sha"]


def _tarball_version(tarball: Path, sha: str) -> str:
    """The version inside the tarball: dpkg knows it at once, else the Makefile near its beginning does."""
    note, content = _remembered(tarball, sha)
    if "version" not in content:
        asked = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", PACKAGE], capture_output=True, text=True, check=False
        )
        match = re.match(r"\d+\.\d+\.\d+", asked.stdout)
        if asked.returncode != 0 or not match:
            raise MissingError(
                f"dpkg does not know the version of {PACKAGE}; reinstall it: apt-get install --reinstall {PACKAGE}"
            )
        content["version"] = match[0]
        _remember(note, content)
    return content["version"]

# SPDX-License-Identifier: GPL-2.0
"""The pristine Linux source: the linux-source package of Debian, or what the user names with --linux."""

import contextlib
import errno
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from terrace import stored
from terrace.errors import BuildError, MissingError, UsageError
from terrace.host import clean_env, require_packages
from terrace.paths import cache_dir, make_cache_dir
from terrace.progress import Progress

SERIES = "6.12"
PACKAGE = f"linux-source-{SERIES}"
_TARBALL = Path(f"/usr/src/{PACKAGE}.tar.xz")
# Files that a build adds to a source tree.
_NOT_SOURCE = (".git", "out", "build", "debian")
#: Names the source of every command, as --linux does.
VARIABLE = "TERRACE_LINUX"
_ALLOWED = f"allowed are a folder or a tarball of Linux {SERIES}.y, and Debian's package {PACKAGE}_{SERIES}.N-1_all.deb"
#: For distributions without the package.
WHERE_ELSE = f"""\
  Debian 13 has it, and Debian 12 in its security and backports archives. Elsewhere download one of these, and name it
  with --linux FILE, or in the environment: export {VARIABLE}=FILE
    https://packages.debian.org/trixie/{PACKAGE}   (the .deb)
    https://www.kernel.org   (linux-{SERIES}.N.tar.xz)
  docs/how-to/other-distributions.md says more."""


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
    """Return the source to use: `linux`, or $TERRACE_LINUX, or Debian's package (installed when missing).

    The first two name a folder, a tarball (``linux-6.12.9.tar.xz``, ``linux_6.12.9.orig.tar.xz``) or Debian's binary
    package (``linux-source-6.12_6.12.9-1_all.deb``).

    Raises UsageError when what is named is no Linux 6.12.y, MissingError when the package cannot be installed.
    """
    named = linux or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is not None:
        return _find_named(named)
    if not _TARBALL.is_file():
        try:
            require_packages([PACKAGE], "build a kernel")
        except MissingError as error:
            raise MissingError(f"{error}\n{WHERE_ELSE}") from None
    if not _TARBALL.is_file():
        raise MissingError(f"{_TARBALL} is missing: reinstall {PACKAGE}.\n{WHERE_ELSE}")
    sha = _tarball_sha(_TARBALL)
    return Source(_TARBALL, _package_version(_TARBALL, sha), sha)


def _find_named(linux: Path) -> Source:
    path = linux.resolve()
    if path.is_dir():
        return _find_folder(linux, path)
    if not path.is_file():
        raise UsageError(f"--linux {linux}: no such file or folder; {_ALLOWED}")
    with _readable(linux):
        if path.suffix == ".deb":
            return _find_tarball(linux, _from_package(linux, path))
        return _find_tarball(linux, path)


@contextlib.contextmanager
def _readable(linux: Path) -> Iterator[None]:
    """Turn errors of a file that is no archive, or a damaged one, into UsageError."""
    try:
        yield
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UsageError(f"--linux {linux}: cannot be read as an archive ({error}); {_ALLOWED}") from error


def _find_folder(linux: Path, path: Path) -> Source:
    if not (path / "Makefile").is_file() or not (path / "mm" / "Kconfig").is_file():
        raise UsageError(f"--linux {linux}: not a Linux source tree (no Makefile and mm/Kconfig in it)")
    version = _require_series(linux, _makefile_version((path / "Makefile").read_text(errors="replace")))
    return Source(path, version, _folder_sha(path))


def _find_tarball(linux: Path, path: Path) -> Source:
    sha = _tarball_sha(path)
    return Source(path, _require_series(linux, _tarball_version(path, sha)), sha)


def _require_series(linux: Path, version: str) -> str:
    if not version:
        raise UsageError(f"--linux {linux}: no Linux source in it (no Makefile with a VERSION at its top)")
    if not version.startswith(SERIES + ".") and version != SERIES:
        raise UsageError(f"--linux {linux}: is Linux {version}; the hooks are for {SERIES}.y")
    return version


def _from_package(linux: Path, package: Path) -> Path:
    """Return the tarball in Debian's binary package, copied into the cache once."""
    if shutil.which("dpkg-deb") is None:
        raise MissingError(f"--linux {linux}: needs dpkg-deb to be unpacked; {_ALLOWED}")
    with package.open("rb") as stream:
        sha = hashlib.file_digest(stream, "sha256").hexdigest()
    target = make_cache_dir() / "sources" / sha[:24] / _TARBALL.name
    if target.is_file():
        return target
    target.parent.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent.parent, prefix=".new-") as scratch:
        fresh = Path(scratch) / "new"
        fresh.mkdir()
        words = ["dpkg-deb", "--fsys-tarfile", str(package)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_env()) as unpacker:
            assert unpacker.stdout
            if not _copy_member(unpacker.stdout, f"usr/src/{_TARBALL.name}", fresh / _TARBALL.name):
                raise UsageError(f"--linux {linux}: no usr/src/{_TARBALL.name} in this package; {_ALLOWED}")
            unpacker.stdout.read()
        if unpacker.returncode:
            raise UsageError(f"--linux {linux}: dpkg-deb cannot unpack it (exit code {unpacker.returncode})")
        stored.sync_folder(fresh)
        shutil.rmtree(target.parent, ignore_errors=True)
        fresh.rename(target.parent)
    return target


def _copy_member(archive: IO[bytes], name: str, target: Path) -> bool:
    """Copy one file of a tar stream; False when the stream has no such file."""
    with tarfile.open(fileobj=archive, mode="r|") as members:
        for member in members:
            if member.isfile() and member.name.removeprefix("./") == name:
                content = members.extractfile(member)
                assert content
                with target.open("wb") as copy:
                    shutil.copyfileobj(content, copy)
                return True
    return False


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


def _package_version(tarball: Path, sha: str) -> str:
    """Return the version inside the tarball of Debian's package: dpkg has it at once."""
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


def _tarball_version(tarball: Path, sha: str) -> str:
    """Return the version of the Makefile at the top of a tarball; empty when there is none."""
    note, content = _remembered(tarball, sha)
    if "version" not in content:
        content["version"] = _version_inside(tarball)
        _remember(note, content)
    return content["version"]


def _version_inside(tarball: Path) -> str:
    with tarfile.open(tarball, mode="r|*") as members:
        for member in members:
            if member.isfile() and re.fullmatch(r"(?:\./)?[^/]+/Makefile", member.name):
                content = members.extractfile(member)
                assert content
                return _makefile_version(content.read(1 << 20).decode(errors="replace"))
    return ""

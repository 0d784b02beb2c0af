# SPDX-License-Identifier: GPL-2.0
"""Paths: the files of the lab, the build folder, and the cache that all checkouts share.

The tool is installed in one of three ways, and `installation` returns which:

- a checkout: everything is there, may be edited, and is built in its build/;
- installed from a checkout (pipx, uv, pip): the folders that pyproject.toml names came along in the package. They are
  read, and never written, whoever could: what is built goes into the cache, and what works on a checkout is refused;
- Debian's package: the verbs of a tiered machine, and none of those folders.
"""

import contextlib
import hashlib
import os
import re
import stat
from enum import StrEnum
from pathlib import Path

from terrace.errors import MissingError, UsageError

_VAR_TMP = Path("/var/tmp")


class Installation(StrEnum):
    """How this tool is installed, in words."""

    CHECKOUT = "checkout"
    WHEEL = "installed from a checkout"
    DEBIAN = "Debian package"


def installation() -> Installation:
    """Return how this tool is installed."""
    if _came_along().is_dir():
        return Installation.WHEEL
    return Installation.CHECKOUT if (repo_root() / "hooks").is_dir() else Installation.DEBIAN


def in_checkout() -> bool:
    """Whether files may be edited here, as git has them."""
    return installation() is Installation.CHECKOUT


def has_lab() -> bool:
    """Whether linux/, hooks/, docs/, … are here; all that Debian's package lacks."""
    return installation() is not Installation.DEBIAN


def require_checkout(what: str) -> None:
    """Raise UsageError where `what`, a command, has no checkout to work on."""
    if not in_checkout():
        raise UsageError(
            f"{what} works on a checkout, and this is the installed tool (in {package_dir()}): get a clone of Terrace, "
            f"and say ./{what} there"
        )


def package_dir() -> Path:
    """The folder of this package, which is called terrace too."""
    return Path(__file__).resolve().parent


def _came_along() -> Path:
    return package_dir() / "_checkout"


def repo_root() -> Path:
    """The folder that has linux/, hooks/, docs/, … below it: the checkout's, or the one that came along."""
    return _came_along() if _came_along().is_dir() else package_dir().parents[1]


def front_door() -> Path:
    """The program that people, and systemd, call."""
    if in_checkout():
        return repo_root() / "terrace"
    return _installed_program() if has_lab() else Path("/usr/bin/terrace")


def _installed_program() -> Path:
    """The program that the installer has recorded. The interpreter's folder can be that of a verb's environment."""
    # Only here: it takes longer than all else that most verbs do.
    from importlib.metadata import distributions

    for found in distributions(name="terrace", path=[str(package_dir().parent)]):
        for path in found.files or ():
            if path.name == "terrace" and path.parent.name == "bin":
                return Path(os.path.normpath(str(found.locate_file(path))))
    raise MissingError(
        f"{package_dir()}: its installer has not noted where the program terrace is; install it with pipx, uv or pip"
    )


def command() -> str:
    """The command that starts this program."""
    return "./terrace" if in_checkout() else "terrace"


def document(name: str) -> str:
    """The path of `name`, a file below docs/, for messages."""
    if in_checkout():
        return f"docs/{name}"
    return str(repo_root() / "docs" / name) if has_lab() else f"/usr/share/doc/terrace-tools/{name}"


def build_dir() -> Path:
    """The folder of this checkout for all builds; made when missing.

    Git ignores it. If the checkout is read-only, or the tool is installed, it is a folder in the cache.
    """
    path = repo_root() / "build"
    if installation() is not Installation.WHEEL:
        with contextlib.suppress(OSError):
            path.mkdir(exist_ok=True)
            # os.access() also finds a file system that is mounted read-only; the mode bits do not.
            if os.access(path, os.W_OK):
                return path
    path = cache_dir() / "checkouts" / _own_name()
    path.mkdir(parents=True, exist_ok=True)
    return path


def writable(folder: Path) -> Path:
    """`folder`; for one that came along with an installed tool, its counterpart in `build_dir`."""
    if installation() is Installation.WHEEL and folder.is_relative_to(repo_root()):
        return build_dir() / folder.relative_to(repo_root())
    return folder


def measured(folder: Path) -> Path:
    """The results of `folder`: those written on this machine, or those of the package."""
    own = writable(folder)
    return own if own.is_dir() else folder


def trees_dir() -> Path:
    """The folder of kernel trees: `build_dir`, or `make_dir` if make cannot build in its path."""
    path = build_dir()
    return path if _fit_for_make(path) else make_dir("trees")


def make_dir(kind: str) -> Path:
    """A folder of this checkout's own for one kind of thing that make builds; made when missing."""
    path = make_cache_dir() / kind / _own_name()
    path.mkdir(parents=True, exist_ok=True)
    return path


def make_cache_dir() -> Path:
    """The cache of what make builds: `cache_dir`, or a folder below /var/tmp where that has a space in its path.

    Raises UsageError when that folder is somebody else's.
    """
    path = cache_dir()
    if _fit_for_make(path):
        return path
    plain = _VAR_TMP / f"terrace-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        plain.mkdir(mode=0o700)
    # Anybody may make a folder there, and programs from it are run.
    found = plain.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise UsageError(
            f"{path}: make cannot build in a path with a space or a colon, and {plain}, used instead, is not a folder "
            "that you alone can write to; name a cache folder with TERRACE_CACHE=/some/path"
        )
    return plain


def _fit_for_make(path: Path) -> bool:
    """Make takes a path with a space in it for two; the kernel's Makefile refuses it, and one with a colon."""
    return not re.search(r"[\s:]", str(path))


def _own_name() -> str:
    """A folder's name that no other checkout has."""
    return hashlib.sha256(str(repo_root()).encode()).hexdigest()[:12]


def written_folders() -> list[Path]:
    """The folders in which the tool keeps files, as far as they are there: no folder is made."""
    found = [repo_root() / "build"]
    with contextlib.suppress(UsageError):
        found.append(cache_path())
    return [path for path in found if _is_folder(path)]


def _is_folder(path: Path) -> bool:
    """False also where nobody can look: Path.is_dir() raises an error for a folder in another user's home."""
    try:
        return path.is_dir()
    except OSError:
        return False


def cache_dir() -> Path:
    """The cache: $TERRACE_CACHE, or terrace/ in the user's cache folder if that is not set; made when missing."""
    path = cache_path()
    path.mkdir(parents=True, exist_ok=True)
    return path


def cache_path() -> Path:
    """The folder that `cache_dir` makes. Raises UsageError when this user has no home folder, and names none."""
    given = os.environ.get("TERRACE_CACHE")
    if given:
        return Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):
        return Path(base) / "terrace"
    try:
        return Path.home() / ".cache" / "terrace"
    except RuntimeError as error:
        raise UsageError("this user has no home folder: name a cache folder with TERRACE_CACHE=/some/path") from error

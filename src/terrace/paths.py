# SPDX-License-Identifier: GPL-2.0
"""Where things are: the repository, its build folder, and the cache shared by all checkouts."""

import contextlib
import hashlib
import os
import re
import stat
from pathlib import Path

from terrace.errors import UsageError

_VAR_TMP = Path("/var/tmp")


def repo_root() -> Path:
    """The folder of the checkout this package runs from."""
    return Path(__file__).resolve().parents[2]


def in_checkout() -> bool:
    """Whether this is a checkout. Installed from a package, the tool has the verbs of a tiered machine alone."""
    return (repo_root() / "hooks").is_dir()


def front_door() -> Path:
    """The program that people, and systemd, call."""
    return repo_root() / "terrace" if in_checkout() else Path("/usr/bin/terrace")


def document(name: str) -> str:
    """Where a person finds `name`, a path below docs/."""
    return f"docs/{name}" if in_checkout() else f"/usr/share/doc/terrace-tools/{name}"


def build_dir() -> Path:
    """The one folder of this checkout for everything built; made when missing.

    It is ignored by git. Where the checkout is read-only it is a folder of this checkout's own in the cache.
    """
    path = repo_root() / "build"
    with contextlib.suppress(OSError):
        path.mkdir(exist_ok=True)
        # Not by the permissions alone: those say nothing of a file system that is mounted read-only.
        if os.access(path, os.W_OK):
            return path
    path = cache_dir() / "checkouts" / _own_name()
    path.mkdir(parents=True, exist_ok=True)
    return path


def trees_dir() -> Path:
    """Where kernel trees are: `build_dir`, or a folder of this checkout's own where make can have it."""
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


def cache_dir() -> Path:
    """What checkouts share: $TERRACE_CACHE, else terrace/ in the user's cache folder; made when missing."""
    given = os.environ.get("TERRACE_CACHE")
    if given:
        path = Path(given).absolute()
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        path = (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "terrace"
    path.mkdir(parents=True, exist_ok=True)
    return path

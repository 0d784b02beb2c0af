# SPDX-License-Identifier: GPL-2.0
"""Where things are: the repository, its build folder, and the cache shared by all checkouts."""

import contextlib
import hashlib
import os
from pathlib import Path


def repo_root() -> Path:
    """The folder of the checkout this package runs from."""
    return Path(__file__).resolve().parents[2]


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
    """Where kernel trees are: `build_dir`, or a folder of this checkout's own in the cache.

    The kernel's Makefile refuses a path with a space or a colon in it.
    """
    path = build_dir()
    if " " not in str(path) and ":" not in str(path):
        return path
    path = cache_dir() / "trees" / _own_name()
    path.mkdir(parents=True, exist_ok=True)
    return path


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

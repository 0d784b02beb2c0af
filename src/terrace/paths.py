# SPDX-License-Identifier: GPL-2.0
"""Where things are: the repository, its build folder, and the cache shared by all checkouts."""

import hashlib
import os
from pathlib import Path


def repo_root() -> Path:
    """The folder of the checkout this package runs from."""
    return Path(__file__).resolve().parents[2]


def build_dir() -> Path:
    """The checkout's one ignored folder for everything built; made when missing."""
    path = repo_root() / "build"
    path.mkdir(exist_ok=True)
    return path


def trees_dir() -> Path:
    """Where kernel trees are: `build_dir`, or a folder of this checkout's own in the cache.

    The kernel's Makefile refuses a path with a space or a colon in it.
    """
    path = build_dir()
    if " " not in str(path) and ":" not in str(path):
        return path
    path = cache_dir() / "trees" / hashlib.sha256(str(path).encode()).hexdigest()[:12]
    path.mkdir(parents=True, exist_ok=True)
    return path


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

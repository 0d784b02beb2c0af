# SPDX-License-Identifier: GPL-2.0
"""A file for node_exporter's textfile collector: complete at any moment, and readable for its user."""

from __future__ import annotations

import os
from pathlib import Path

from terrace import files
from terrace.errors import TerraceError, UsageError

_MODE = 0o644


def check(path: Path) -> None:
    """Raise UsageError if ``path`` cannot be such a file."""
    if path.suffix != ".prom":
        raise UsageError(f"--textfile {path}: node_exporter reads only names that end in .prom; - is stdout")
    if path.is_dir():
        raise UsageError(f"--textfile {path}: this is a folder; name a file in it that ends in .prom")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"--textfile {path}: there is no folder {folder}; make it first or name another")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--textfile {path}: you may not write in {folder}; name another folder, or run as its owner")


def write(path: Path, text: bytes) -> None:
    """Replace the file by ``text`` in one step, mode 0644. Raises TerraceError; the old file is then unchanged."""
    try:
        files.replace(path, text, _MODE)
    except OSError as error:
        raise TerraceError(f"--textfile {path}: {files.why(error, path)}") from error

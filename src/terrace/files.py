# SPDX-License-Identifier: GPL-2.0
"""A file replaced in one step: who reads it sees the old one or the new one, and after a crash one of them is there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def replace(path: Path, data: bytes, mode: int | None = None) -> None:
    """Put ``data`` in the place of the file ``path``; of a symbolic link, in that of the file it names.

    Mode and owner stay, for a new file 0644; ``mode`` given, it is that. Raises OSError; the old file is then there.
    """
    path = path.resolve()
    # No name that ends as the file's own does: others may take in every such file of the folder.
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with open(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(number, 0o644 if mode is None else mode)
            if mode is None:
                with contextlib.suppress(FileNotFoundError):
                    old = path.stat()
                    os.fchown(number, old.st_uid, old.st_gid)
                    os.fchmod(number, old.st_mode & 0o7777)
            # Else a crash may leave an empty file of the right name.
            os.fsync(number)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise

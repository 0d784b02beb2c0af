# SPDX-License-Identifier: GPL-2.0
"""Disks of ext4, made from folders and read without a mount, so that a user without root can do both."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from terrace.errors import BuildError, MissingError
from terrace.host import clean_env, require_packages
from terrace.lab.topology import MIB

PACKAGES = ("e2fsprogs", "fdisk")
# The first partition begins here; a boot loader fits before it.
_FIRST_BYTES = MIB


def with_label(folder: Path, disk: Path, size_bytes: int, label: str) -> None:
    """Make ``disk``, without partitions, with the files of ``folder``. Raises BuildError, MissingError."""
    require_packages(PACKAGES, "make disks")
    _empty(disk, size_bytes)
    run([*_MKE2FS, "-L", label, "-d", str(folder), str(disk)])


def to_boot_from(folder: Path, disk: Path, size_bytes: int, uuid: str, prefix: Sequence[str] = ()) -> None:
    """Make ``disk`` with one partition, its file system ``uuid`` with the files of ``folder``.

    ``prefix`` are words before the command, where the files belong to users that only exist behind it. Raises
    BuildError, MissingError.
    """
    require_packages(PACKAGES, "make disks")
    _empty(disk, size_bytes)
    run(["sfdisk", "--quiet", str(disk)], text=f"start={_FIRST_BYTES // 512}, type=83, bootable\n")
    blocks = (size_bytes - _FIRST_BYTES) // 1024
    run([*prefix, *_MKE2FS, "-U", uuid, "-E", f"offset={_FIRST_BYTES}", "-d", str(folder), str(disk), str(blocks)])


def read(disk: Path, name: str) -> bytes | None:
    """A file of a disk of `with_label`; None if it is not there."""
    if not run(["debugfs", "-R", f'stat "{name}"', str(disk)]):
        return None
    return run(["debugfs", "-R", f'cat "{name}"', str(disk)])


def copy_out(disk: Path, name: str, target: Path) -> None:
    """Copy the folder ``name`` of a disk of `with_label` into the folder ``target``."""
    run(["debugfs", "-R", f'rdump "{name}" "{target}"', str(disk)])


_MKE2FS = ("mke2fs", "-q", "-t", "ext4")


def _empty(disk: Path, size_bytes: int) -> None:
    disk.unlink(missing_ok=True)
    with disk.open("wb") as file:
        file.truncate(size_bytes)


def run(words: Sequence[str], text: str = "") -> bytes:
    """Return the output of a command of the system's administrator. Raises BuildError, MissingError."""
    # A user's PATH need not have their folders.
    environment = clean_env()
    environment["PATH"] = f"{environment.get('PATH', '')}:/usr/sbin:/sbin"
    try:
        done = subprocess.run(words, input=text.encode(), capture_output=True, check=False, env=environment)
    except FileNotFoundError as error:
        raise MissingError(f"there is no program {words[0]}") from error
    if done.returncode:
        raise BuildError(f"{' '.join(words)}: {done.stderr.decode(errors='replace').strip()[-2000:]}")
    return done.stdout

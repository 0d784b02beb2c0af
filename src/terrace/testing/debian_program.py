# SPDX-License-Identifier: GPL-2.0
"""A program of a Debian package without its installation: for a package that would also start a service."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from terrace.errors import MissingError
from terrace.host import clean_env
from terrace.paths import cache_dir
from terrace.progress import Progress


def search_path(package: str, *programs: str) -> str:
    """A PATH with these programs of a package, unpacked into the cache unless they are installed.

    On a machine without apt the PATH is that of this process. Raises MissingError when the package cannot be had.
    """
    path = os.environ.get("PATH", os.defpath)
    if all(shutil.which(name) for name in programs) or not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return path
    folder = cache_dir() / "programs" / package
    folder.parent.mkdir(exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [name for name in programs if not (folder / name).exists()]
        if missing:
            with Progress(f"{' and '.join(missing)} of the Debian package {package}"):
                _unpack(package, missing, folder)
    return f"{folder}{os.pathsep}{path}"


def _unpack(package: str, programs: Sequence[str], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        # Without the sandbox user of apt, who may not write there.
        _run(["apt-get", "-q", "-o", "APT::Sandbox::User=", "download", package], Path(scratch))
        (file,) = Path(scratch).glob("*.deb")
        _run(["dpkg-deb", "--extract", str(file), "unpacked"], Path(scratch))
        for name in programs:
            found = Path(scratch) / "unpacked/usr/bin" / name
            if not found.is_file():
                raise MissingError(f"the Debian package {package} has no /usr/bin/{name}")
            folder.mkdir(exist_ok=True)
            found.rename(folder / name)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=clean_env())
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise MissingError(f"{' '.join(command)}: {said[-1] if said else done.returncode}")

# SPDX-License-Identifier: GPL-2.0
"""Use a program of a Debian package without installing the package, which would also start a service."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from terrace.errors import MissingError
from terrace.host import clean_env
from terrace.paths import cache_dir
from terrace.progress import Progress


def search_path(program: str, *packages: str) -> str:
    """Get a PATH with a program of the first of these packages that apt knows, unpacked into the
    cache unless installed.

    A program can be in another package in another release: promtool is in prometheus of Debian 12,
    and in promtool of Debian 13. On a machine without apt the PATH is that of this process. Raises
    MissingError if the package is not available.
    """
    path = os.environ.get("PATH", os.defpath)
    if shutil.which(program) or not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return path
    parent = cache_dir() / "programs"
    parent.mkdir(exist_ok=True)
    with open(parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cached = next((name for name in packages if (parent / name / program).exists()), None)
        package = cached or next((name for name in packages[:-1] if _is_known(name)), packages[-1])
        folder = parent / package
        if not cached:
            with Progress(f"{program} of the Debian package {package}"):
                _unpack(package, program, folder)
    return f"{folder}{os.pathsep}{path}"


def _is_known(package: str) -> bool:
    """Whether apt has a package of this name to download."""
    words = ["apt-cache", "show", "--no-all-versions", package]
    return subprocess.run(words, capture_output=True, check=False, env=clean_env()).returncode == 0


def _unpack(package: str, program: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        # Without apt's sandbox user, who may not write there.
        _run(["apt-get", "-q", "-o", "APT::Sandbox::User=", "download", package], Path(scratch))
        (file,) = Path(scratch).glob("*.deb")
        _run(["dpkg-deb", "--extract", str(file), "unpacked"], Path(scratch))
        found = Path(scratch) / "unpacked/usr/bin" / program
        if not found.is_file():
            raise MissingError(f"the Debian package {package} has no /usr/bin/{program}")
        folder.mkdir(exist_ok=True)
        found.rename(folder / program)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=clean_env())
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise MissingError(f"{' '.join(command)}: {said[-1] if said else done.returncode}")

# SPDX-License-Identifier: GPL-2.0
"""Virtual environments with the pinned Python packages of a verb, kept in the cache and made once."""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from terrace import stored
from terrace.errors import MissingError
from terrace.host import require_packages
from terrace.paths import cache_dir, package_dir, repo_root
from terrace.progress import Progress

_KEEP = 6
# As in the front door: the package comes first, the current folder is no place to import from. Where the
# tool is installed other packages may be beside it, and those of the verb come before them.
_ENTRY = """
import sys
own, others = sys.argv.pop(1), [entry for entry in sys.path if entry]
sys.path[:] = [own, *others]
from terrace import paths
if not paths.in_checkout():
    sys.path[:] = [*others, own]
from terrace.__main__ import main
sys.exit(main())"""


def location(needs: str) -> Path:
    """The folder of the environment for requirements/`needs`.txt and the running Python; it may not exist yet."""
    wanted = (repo_root() / "requirements" / f"{needs}.txt").read_bytes()
    # Not the patch level: an environment outlives an update of its interpreter, which python3-venv may bring along.
    base = f"{sys.base_prefix} {sys.implementation.cache_tag} {sys.abiflags}".encode()
    return cache_dir() / "venv" / f"{needs}-{hashlib.sha256(wanted + base).hexdigest()[:12]}"


def enter(needs: str, words: Sequence[str]) -> None:
    """Go on in the environment of `needs`, made first if missing: replaces this process unless it runs there already.

    `words` is the command line to run again. Raises MissingError when the packages cannot be had.
    """
    folder = location(needs)
    if is_entered(needs):
        return
    if not _is_complete(folder):
        _make(needs, folder)
    os.utime(folder / "complete")
    python = str(folder / "bin" / "python3")
    sys.stdout.flush()
    os.execv(python, [python, "-c", _ENTRY, str(package_dir().parent), *words])


def is_entered(needs: str) -> bool:
    """Whether this process runs in the environment of `needs`."""
    return Path(sys.prefix) == location(needs)


def is_there(needs: str) -> bool:
    """Whether `enter` has nothing to make."""
    return _is_complete(location(needs))


def _is_complete(folder: Path) -> bool:
    """Whether the environment was made to its end, and has its interpreter yet, which is a link to another one."""
    if not (folder / "complete").exists():
        return False
    if (folder / "bin" / "python3").exists() and (folder / "pyvenv.cfg").exists():
        return True
    stored.report(folder, "its interpreter is gone")
    (folder / "complete").unlink()
    return False


def _make(needs: str, folder: Path) -> None:
    if importlib.util.find_spec("ensurepip") is None:
        require_packages(["python3-venv"], "make a Python environment")
    folder.parent.mkdir(exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "complete").exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        requirements = repo_root() / "requirements" / f"{needs}.txt"
        with Progress(f"Python packages for '{needs}'"):
            _call([sys.executable, "-m", "venv", str(folder)], needs)
            pip = [str(folder / "bin" / "python3"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
            _call([*pip, "install", "--no-input", "--only-binary=:all:", "--requirement", str(requirements)], needs)
        stored.sync_folder(folder)
        (folder / "complete").touch()
        _prune(folder.parent)


def _call(command: Sequence[str], needs: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        said = next((line for line in lines if line.startswith("ERROR")), lines[-1] if lines else "nothing")
        raise MissingError(
            f"the Python packages in requirements/{needs}.txt could not be installed: {said}\n"
            "  pip gets them from the Python package index: is the network, or a mirror in pip's settings, there?\n"
            "  Verbs that need only Python itself still work: kernel, lab, status, set, features, doctor."
        )


def _prune(parent: Path) -> None:
    """Forget the environments used longest ago."""
    complete = sorted(parent.glob("*/complete"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in complete[_KEEP:]:
        shutil.rmtree(path.parent, ignore_errors=True)

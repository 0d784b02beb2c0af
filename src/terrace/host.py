# SPDX-License-Identifier: GPL-2.0
"""Debian packages that the host needs: checked fast, and installed when the user agrees."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from terrace.errors import MissingError
from terrace.output import say, warn
from terrace.paths import cache_dir

_DPKG_STATUS = Path("/var/lib/dpkg/status")
_APT_LISTS = Path("/var/lib/apt/lists")
_LISTS_FRESH_S = 24 * 3600.0
# `git rev-parse --local-env-vars`: git sets them for its hooks, and they overrule the folder in which git is called.
_GIT_REPOSITORY = (
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_DIR", "GIT_GRAFT_FILE"),
    *("GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS"),
    *("GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE"),
)
_warned_no_dpkg = False


def assume_yes() -> bool:
    """True with `--yes`: no questions. It sets TERRACE_YES for this process and its children."""
    return bool(os.environ.get("TERRACE_YES"))


def cpu_count() -> int:
    """CPUs this process may run on."""
    return len(os.sched_getaffinity(0))


def clean_env(extra: Mapping[str, str] = {}) -> dict[str, str]:
    """The environment for tools whose messages are read by this program: English, plus `extra`.

    It names no git repository: otherwise a command in a git hook would work on the repository of the hook.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in _GIT_REPOSITORY}
    return {**inherited, "LC_ALL": "C.UTF-8", **extra}


def require_packages(packages: Sequence[str], why: str) -> None:
    """Make sure that Debian packages are installed; `why` completes "needed to …".

    Asks before it installs, unless there is `--yes`: with neither that nor a terminal nothing is installed. Uses sudo
    when not root.
    Raises MissingError, naming the packages and the command that installs them, when they cannot be installed.
    """
    if shutil.which("dpkg-query") is None:
        _warn_no_dpkg(packages, why)
        return
    stamp = cache_dir() / "packages" / hashlib.sha256(" ".join(sorted(packages)).encode()).hexdigest()[:16]
    state = str(_DPKG_STATUS.stat().st_mtime_ns)
    if stamp.is_file() and stamp.read_bytes() == state.encode():
        return
    missing = missing_packages(packages)
    if missing:
        stamp.parent.mkdir(exist_ok=True)
        # Processes of ours that start guests side by side may all find the same package missing.
        with open(stamp.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            missing = missing_packages(packages)
            if missing:
                _install(missing, why)
                missing = missing_packages(packages)
        if missing:
            raise _missing_error(missing, why, "they are still not installed after apt-get install")
        state = str(_DPKG_STATUS.stat().st_mtime_ns)
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(state)


def missing_packages(packages: Sequence[str]) -> list[str]:
    """Those of `packages` that dpkg does not know as installed, in the same order."""
    query = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", *packages],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
        env=clean_env(),
    )
    installed = {line.split()[1] for line in query.stdout.splitlines() if line.startswith("installed ")}
    return [name for name in packages if name not in installed]


def _warn_no_dpkg(packages: Sequence[str], why: str) -> None:
    global _warned_no_dpkg
    if not _warned_no_dpkg:
        _warned_no_dpkg = True
        warn(f"no dpkg here; needed to {why}: Debian's packages {' '.join(packages)}")


def _missing_error(missing: Sequence[str], why: str, problem: str) -> MissingError:
    names = " ".join(missing)
    return MissingError(f"needed to {why}: the Debian packages {names}; {problem}.\n  As root: apt-get install {names}")


def _root_prefix(missing: Sequence[str], why: str) -> list[str]:
    """The words that make a command run as root: none, or sudo."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        raise _missing_error(missing, why, "this user is not root and there is no sudo")
    if sys.stdin.isatty():
        return ["sudo"]
    probe = subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if probe.returncode != 0:
        raise _missing_error(missing, why, "sudo wants a password and there is no terminal to ask for it")
    return ["sudo", "-n"]


def _install(missing: Sequence[str], why: str) -> None:
    terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if not assume_yes() and not terminal:
        raise _missing_error(missing, why, "no terminal to ask on, and no --yes, which installs without asking")
    prefix = _root_prefix(missing, why)
    command = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    # Somebody else's apt-get, such as the daily one, is waited for.
    options = ["install", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", *missing]
    say(f"terrace: needed to {why}, not installed yet: {' '.join(missing)}")
    say(f"terrace: runs: {' '.join([*prefix, 'apt-get', *options])}")
    if not assume_yes():
        print("Go on? [Y/n] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if answer.strip().lower() not in ("", "y", "yes") or not answer:
            raise _missing_error(missing, why, "their installation was declined")
    if not _lists_fresh():
        _apt([*command, "update"])
    failure = _apt([*command, *options])
    if failure and _lists_fresh():
        # Fresh lists may still name a version that the archive has replaced since.
        _apt([*command, "update"])
        failure = _apt([*command, *options])
    if failure:
        raise _missing_error(missing, why, f"apt-get says: {failure}")


def _lists_fresh() -> bool:
    known = _APT_LISTS.is_dir() and any(_APT_LISTS.glob("*_Packages*"))
    return known and time.time() - _APT_LISTS.stat().st_mtime < _LISTS_FRESH_S


def _apt(command: Sequence[str]) -> str:
    """Run apt-get; empty on success, else its last error line."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=clean_env()
    )
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")]
    return "; ".join(errors[:3]) or (lines[-1] if lines else f"exit code {done.returncode}")

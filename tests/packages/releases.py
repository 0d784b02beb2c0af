# SPDX-License-Identifier: GPL-2.0
"""The supported releases of Debian: made by mmdebstrap, with a clone of this checkout; their newest Linux source."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from terrace.host import clean_env, require_packages
from terrace.kernel.source import PACKAGE
from terrace.paths import repo_root

RELEASES = ("bookworm", "trixie")
#: The packages that a user installs before the clone.
FIRST_PACKAGES = ("ca-certificates", "git", "python3")
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
#: A hook of mmdebstrap: a host behind a proxy needs the proxy's certificates.
CERTIFICATES_HOOK = f'if [ -f "{_CERTIFICATES}" ]; then cp -- "{_CERTIFICATES}" "$1{_CERTIFICATES}"; fi'
#: The words before a program that such a Debian runs.
INSIDE = f'chroot "$1" env -i HOME=/root PATH="$PATH" PIP_CERT={_CERTIFICATES}'


def run(words: Sequence[object]) -> str:
    """Run a program and return its output; a failure fails the test with the end of that."""
    done = subprocess.run(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=clean_env(),
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def clone(target: Path) -> None:
    """Clone this checkout, with its uncommitted changes as one more commit."""
    run(["git", "clone", "--quiet", repo_root(), target])
    words = ["git", "-C", repo_root(), "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
    for name in filter(None, run(words).split("\0")):
        (target / name).unlink(missing_ok=True)
        if (repo_root() / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repo_root() / name, target / name)
    git = ["git", "-C", target, "-c", "user.name=Terrace", "-c", "user.email=terrace@localhost"]
    run([*git, "add", "--all"])
    run([*git, "commit", "--quiet", "--allow-empty", "--message", "uncommitted"])


def mmdebstrap(release: str, target: str | Path, *options: str) -> str:
    """Make a Debian; return what mmdebstrap and its hooks printed."""
    require_packages(["mmdebstrap"], "make a Debian of another release")
    # Mounts of root's mmdebstrap end with it, however it ends.
    root = os.geteuid() == 0
    begin = ["unshare", "--mount"] if root else []
    return run([*begin, "mmdebstrap", f"--mode={'root' if root else 'unshare'}", *options, release, target])


def newest_source(release: str, root: Path) -> Path:
    """Unpack the newest package linux-source of a release to `root`, without configuring it; return its tarball."""
    mmdebstrap(release, root, "--variant=extract", "--format=directory", f"--include={PACKAGE}")
    return root / "usr/src" / f"{PACKAGE}.tar.xz"

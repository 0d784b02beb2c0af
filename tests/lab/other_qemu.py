# SPDX-License-Identifier: GPL-2.0
"""QEMUs of Debian's releases: unpacked from their packages into the cache, not installed."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from terrace import stored
from terrace.host import clean_env, require_packages
from terrace.lab.machine import QEMU
from terrace.paths import make_cache_dir

#: Releases of Debian, and the versions of QEMU that they have.
RELEASES = {"bookworm": (7, 2), "trixie": (10, 0), "trixie-backports": (11, 1)}
_ARCH = "x86_64-linux-gnu"
_PACKAGE = "qemu-system-x86"
# The loader of the same release runs it: its libraries are not those of this host.
_PROGRAM = """#!/bin/sh
root=$(dirname -- "$(readlink -f -- "$0")")/../root
export QEMU_MODULE_DIR="$root/usr/lib/{arch}/qemu"
exec "$root/{loader}" --library-path "$root/usr/lib/{arch}:$root/lib/{arch}" "$root/usr/bin/{name}" \\
    -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" -L "$root/usr/lib/ipxe/qemu" "$@"
"""


def folder_of(release: str) -> Path:
    """The folder with the qemu-system-x86_64 of a release, for the front of the PATH; made when it is not there.

    Raises MissingError when mmdebstrap cannot be installed, and CalledProcessError with its words.
    """
    target = make_cache_dir() / "qemu" / release
    if (target / "bin" / QEMU).is_file():
        return target / "bin"
    require_packages(["mmdebstrap"], "unpack a QEMU of another release of Debian")
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{release}-", dir=target.parent) as name:
        work = Path(name)
        _unpack(release, work / "root")
        loader = next(path for path in ("usr/lib64", "lib64") if (work / "root" / path / _loader()).is_file())
        (work / "bin").mkdir()
        program = work / "bin" / QEMU
        program.write_text(_PROGRAM.format(arch=_ARCH, loader=f"{loader}/{_loader()}", name=QEMU))
        program.chmod(0o755)
        stored.sync_folder(work)
        shutil.rmtree(target, ignore_errors=True)
        (work / "root").chmod(0o755)
        target.mkdir()
        for part in ("root", "bin"):
            (work / part).rename(target / part)
    return target / "bin"


def _loader() -> str:
    return "ld-linux-x86-64.so.2"


def _unpack(release: str, root: Path) -> None:
    """Unpack the packages: nothing of them is configured or run."""
    suite, _, backports = release.partition("-")
    words = ["mmdebstrap", "--variant=extract", "--format=directory", f"--include={_PACKAGE}"]
    if backports:
        line = f"s/ {suite} / {release} /"
        words += [
            f'--setup-hook=sed -n "{line}p" "$1/etc/apt/sources.list" > "$1/etc/apt/sources.list.d/more.list"',
            f'--aptopt=APT::Default-Release "{release}"',
        ]
    # As for `lab debian`: mounts of root's mmdebstrap end with it, however it ends.
    words = ["unshare", "--mount", *words, "--mode=root"] if os.geteuid() == 0 else [*words, "--mode=unshare"]
    subprocess.run([*words, suite, str(root)], check=True, capture_output=True, text=True, env=clean_env())

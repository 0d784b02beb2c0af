# SPDX-License-Identifier: GPL-2.0
"""README's two commands, from a clone, in a fresh Debian of each supported release."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from terrace.host import require_packages
from terrace.paths import build_dir, repo_root

RELEASES = ("bookworm", "trixie")
#: The packages that a user installs before the clone.
PACKAGES = ("ca-certificates", "git", "python3")
_INSIDE = "/root/terrace/tests/packages/in_fresh.sh"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
#: Folders of the cache that the next run of the same release starts with. Each release has another compiler, so the
#: kernels of one are not those of another.
_SHARED = ("ccache", "kernels")


def run(words: Sequence[object]) -> str:
    """Run a program and return its output; a failure fails the test with the end of that."""
    done = subprocess.run(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
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


def make(release: str, work: Path, kept: Path) -> None:
    """Make a Debian, run the commands there, and keep their output."""
    clone(work / "terrace")
    cache = kept.with_name(f"{release}-cache")
    cache.mkdir(exist_ok=True)
    inside = '"$1/root/.cache/terrace"'
    shared = " ".join(f'"$1/root/.cache/terrace/{name}"' for name in _SHARED)
    hooks = [
        f'cp -a -- "{work}/terrace" "$1/root/"',
        f'mkdir -p {inside} && cp -a --reflink=auto -- "{cache}/." {inside}',
        # A host behind a proxy needs the proxy's certificates.
        f'if [ -f "{_CERTIFICATES}" ]; then cp -- "{_CERTIFICATES}" "$1{_CERTIFICATES}"; fi',
        f'chroot "$1" env -i HOME=/root PATH="$PATH" PIP_CERT={_CERTIFICATES} sh {_INSIDE}',
        f'cp -a -- "$1/root/kept/." "{kept}/"',
        f'for folder in {shared}; do if [ -d "$folder" ]; then rm -rf -- "{cache}/${{folder##*/}}"'
        f' && cp -a --reflink=auto -- "$folder" "{cache}/"; fi; done',
    ]
    words: list[object] = ["mmdebstrap", "--variant=important", f"--include={','.join(PACKAGES)}"]
    words += [f"--customize-hook={hook}" for hook in hooks]
    # Mounts of root's mmdebstrap end with it, however it ends.
    words = ["unshare", "--mount", *words, "--mode=root"] if os.geteuid() == 0 else [*words, "--mode=unshare"]
    (kept / "mmdebstrap.log").write_text(run([*words, release, "/dev/null"]))


@pytest.fixture(scope="module", params=RELEASES)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the output, build/packages/fresh/RELEASE, where it stays."""
    require_packages(["mmdebstrap"], "make a fresh Debian")
    folder = build_dir() / "packages" / "fresh" / str(request.param)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make(str(request.param), tmp_path_factory.mktemp("fresh"), folder)
    return folder


def ended(kept: Path, name: str) -> tuple[int, str]:
    """Return the exit code of a command, and its output."""
    codes = dict(line.split()[:2] for line in (kept / "ended").read_text().splitlines())
    return int(codes[name]), (kept / f"{name}.log").read_text(errors="replace")


def test_the_demo_ends_with_its_table_and_picture(kept: Path) -> None:
    code, printed = ended(kept, "demo")
    assert code == 0, printed[-6000:]
    assert "unknown" not in printed
    assert "terrace" in (kept / "demo.svg").read_text()


def test_the_gate_passes(kept: Path) -> None:
    code, printed = ended(kept, "test")
    assert code == 0, printed[-6000:]
    last = re.fullmatch(r"(\d+) passed, 0 failed, \d+ skipped", printed.splitlines()[-1])
    assert last and int(last[1]) > 2000
    groups = {result["group"] for result in json.loads((kept / "test.json").read_text())["tests"]}
    assert groups == {"lint", "unit", "policy", "patches", "kunit", "selftest"}

# SPDX-License-Identifier: GPL-2.0
"""README's two commands, from a clone, in a fresh Debian of each supported release."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from releases import CERTIFICATES_HOOK, FIRST_PACKAGES, INSIDE, RELEASES, clone, mmdebstrap

from terrace.paths import build_dir

_SCRIPT = "/root/terrace/tests/packages/in_fresh.sh"
#: Folders of the cache that the next run of the same release starts with. Each release has another compiler, so the
#: kernels of one are not those of another.
_SHARED = ("ccache", "kernels")


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
        CERTIFICATES_HOOK,
        f"{INSIDE} sh {_SCRIPT}",
        f'cp -a -- "$1/root/kept/." "{kept}/"',
        f'for folder in {shared}; do if [ -d "$folder" ]; then rm -rf -- "{cache}/${{folder##*/}}"'
        f' && cp -a --reflink=auto -- "$folder" "{cache}/"; fi; done',
    ]
    options = ["--variant=important", f"--include={','.join(FIRST_PACKAGES)}"]
    said = mmdebstrap(release, "/dev/null", *options, *(f"--customize-hook={hook}" for hook in hooks))
    (kept / "mmdebstrap.log").write_text(said)


@pytest.fixture(scope="module", params=RELEASES)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the output, build/packages/fresh/RELEASE, where it stays."""
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

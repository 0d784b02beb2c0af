# SPDX-License-Identifier: GPL-2.0
"""The packages of the tools: as Debian wants them, and of use on a machine that has neither checkout nor compiler."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from terrace.host import require_packages
from terrace.packages import tools
from terrace.paths import repo_root

SCRIPT = repo_root() / "tests/packages/in_chroot.sh"


@pytest.fixture(scope="module")
def packages() -> list[Path]:
    require_packages(["lintian", "mmdebstrap"], "look at the packages, and install them into a Debian of their own")
    return tools.make()


def run(words: Sequence[object]) -> str:
    """What it prints; fails the test with all of it when it fails."""
    done = subprocess.run(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def test_there_are_three_and_the_symbols_to_debug_with(packages: list[Path]) -> None:
    names = sorted(path.name.partition("_")[0] for path in packages)
    assert names == ["libterrace-dev", "libterrace0", "libterrace0-dbgsym", "terrace-tools"]


def test_lintian_has_nothing_to_say(packages: list[Path]) -> None:
    """Not even of the kinds that it keeps to itself."""
    done = subprocess.run(
        ["lintian", "--display-info", "--pedantic", "--fail-on", "error,warning,info,pedantic", *map(str, packages)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_they_install_work_and_leave_in_a_bare_debian(packages: list[Path]) -> None:
    """`tests/packages/in_chroot.sh` says what is done there."""
    script = SCRIPT.read_text()
    hooks = ["mkdir -p $1/debs", f"cp -- {' '.join(map(str, packages))} $1/debs", f'cp -- {SCRIPT} "$1/debs/run"']
    words = [f"--customize-hook={hook}" for hook in hooks]
    words.append('--customize-hook=chroot "$1" sh /debs/run')
    said = run(["mmdebstrap", "--variant=apt", *words, "bookworm", "/dev/null"])
    assert "nothing wrong" in said and "set -eux" in script

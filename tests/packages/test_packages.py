# SPDX-License-Identifier: GPL-2.0
"""The packages of the tools: as Debian wants them, and of use on a machine that has neither checkout nor compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from terrace.host import require_packages
from terrace.packages import tools
from terrace.paths import repo_root

SCRIPTS = repo_root() / "tests/packages"
#: Releases of Debian, each with the tags that its lintian knows and later ones have dropped: an override of such a tag
#: would be an error there (alien-tag). The services are for systemd alone; `terrace apply` does without.
RELEASES = {"bookworm": "package-supports-alternative-init-but-no-init.d-script", "trixie": ""}
EXAMPLE = "usr/share/doc/terrace-tools/examples/terrace.toml"


@pytest.fixture(scope="module")
def packages() -> list[Path]:
    require_packages(["mmdebstrap"], "look at the packages, and install them into a Debian of their own")
    return tools.make()


def run(words: Sequence[object]) -> str:
    """Run a program and return its output; a failure fails the test with the end of that."""
    done = subprocess.run(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def in_debian(release: str, files: Path, command: str, *options: str) -> str:
    """Make a bare Debian with the folder `files` as /debs, run a command there, and return all that was printed."""
    words = [f"--customize-hook=copy-in {files} /", f'--customize-hook=chroot "$1" {command}']
    return run(["mmdebstrap", "--variant=apt", *options, *words, release, "/dev/null"])


@pytest.fixture
def debs(tmp_path: Path) -> Path:
    folder = tmp_path / "debs"
    folder.mkdir()
    return folder


def repacked(package: Path, target: Path, version: str, *, conffile: str = "", example: str = "") -> None:
    """The same package of another version; with settings as a conffile, or with more text in the example."""
    tree = target.parents[2] / "trees" / version
    tree.parent.mkdir(exist_ok=True)
    target.parent.mkdir(parents=True)
    run(["dpkg-deb", "--raw-extract", package, tree])
    control = tree / "DEBIAN/control"
    control.write_text(re.sub("^Version: .*", f"Version: {version}", control.read_text(), flags=re.MULTILINE))
    if conffile:
        settings = tree / "etc/terrace/terrace.toml"
        settings.parent.mkdir(parents=True)
        (tree / EXAMPLE).rename(settings)
        settings.write_text(conffile + settings.read_text())
        (tree / "DEBIAN/conffiles").write_text("/etc/terrace/terrace.toml\n")
        # Packages of that time had no code about it.
        for name in ("preinst", "postinst", "postrm"):
            (tree / "DEBIAN" / name).unlink()
    if example:
        (tree / EXAMPLE).write_text(example + (tree / EXAMPLE).read_text())
    run(["dpkg-deb", "--root-owner-group", "--build", tree, target])


def test_there_are_three_and_the_symbols_to_debug_with(packages: list[Path]) -> None:
    names = sorted(path.name.partition("_")[0] for path in packages)
    assert names == ["libterrace-dev", "libterrace0", "libterrace0-dbgsym", "terrace-tools"]


@pytest.mark.parametrize("release", RELEASES)
def test_lintian_has_nothing_to_say(packages: list[Path], debs: Path, release: str) -> None:
    """Not even of the kinds that it keeps to itself."""
    for path in packages:
        shutil.copy(path, debs)
    words = "lintian --allow-root --display-info --pedantic --fail-on error,warning,info,pedantic"
    if RELEASES[release]:
        words += f" --suppress-tags {RELEASES[release]}"
    printed = in_debian(
        release, debs, f"sh -c '{words} /debs/*.deb && echo lintian ended with 0'", "--include=lintian"
    ).splitlines()
    assert "lintian ended with 0" in printed
    assert [line for line in printed if re.match("[EWIPXON]: (terrace|libterrace)", line)] == []


def test_they_install_work_and_leave_in_a_bare_debian(packages: list[Path], debs: Path) -> None:
    """The steps are in `tests/packages/in_chroot.sh`."""
    for path in [*packages, SCRIPTS / "in_chroot.sh"]:
        shutil.copy(path, debs)
    said = in_debian("bookworm", debs, "sh /debs/in_chroot.sh")
    assert "nothing wrong" in said and "set -eux" in (SCRIPTS / "in_chroot.sh").read_text()


def test_an_upgrade_asks_nothing_after_settings_were_saved(packages: list[Path], debs: Path) -> None:
    """The upgrades are in `tests/packages/in_upgrade.sh`."""
    package = next(path for path in packages if path.name.startswith("terrace-tools_"))
    number = package.name.split("_")[1]
    repacked(package, debs / "older/tools.deb", "0.1~1", conffile="# The first text.\n")
    repacked(package, debs / "old/tools.deb", "0.1~2", conffile="# The second text.\n")
    repacked(package, debs / "new/tools.deb", number)
    repacked(package, debs / "newer/tools.deb", f"{number}.newer", example="# A changed example.\n")
    (debs / "library").mkdir()
    shutil.copy(next(path for path in packages if path.name.startswith("libterrace0_")), debs / "library")
    shutil.copy(SCRIPTS / "in_upgrade.sh", debs)
    assert "\nevery upgrade went through\n" in in_debian("bookworm", debs, "sh /debs/in_upgrade.sh")

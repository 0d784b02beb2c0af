# SPDX-License-Identifier: GPL-2.0
"""The packages of the tools: as Debian wants them, and of use on a machine that has neither checkout nor compiler."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from releases import CERTIFICATES_HOOK, FIRST_PACKAGES, INSIDE, RELEASES, clone, mmdebstrap, run

from terrace.paths import repo_root

SCRIPTS = repo_root() / "tests/packages"
#: The tags that lintian of a release knows and later ones have dropped: an override of such a tag would be an error
#: there (alien-tag). The services are for systemd alone; `terrace apply` does without.
TAGS = {"bookworm": "package-supports-alternative-init-but-no-init.d-script"}
EXAMPLE = "usr/share/doc/terrace-tools/examples/terrace.toml"


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def packages(release: str, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The packages, made by `terrace deb tools` of a clone in a fresh Debian of the release."""
    work = tmp_path_factory.mktemp(release)
    clone(work / "terrace")
    hooks = [
        f'cp -a -- "{work}/terrace" "$1/root/"',
        CERTIFICATES_HOOK,
        f"{INSIDE} sh -c 'cd /root/terrace && ./terrace --yes deb tools'",
        f'cp -- "$1"/root/terrace/build/deb/*.deb "{work}/"',
    ]
    options = [f"--include={','.join(FIRST_PACKAGES)}", *(f"--customize-hook={hook}" for hook in hooks)]
    mmdebstrap(release, "/dev/null", "--variant=important", *options)
    return sorted(work.glob("*.deb"))


def in_debian(release: str, files: Path, command: str, *options: str) -> str:
    """Make a bare Debian with the folder `files` as /debs, run a command there, and return all that was printed."""
    hooks = [f'cp -RT -- "{files}" "$1/debs"', f'chroot "$1" {command}']
    return mmdebstrap(release, "/dev/null", "--variant=apt", *options, *(f"--customize-hook={hook}" for hook in hooks))


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


def test_lintian_has_nothing_to_say(release: str, packages: list[Path], debs: Path) -> None:
    """Not even of the kinds that it keeps to itself."""
    for path in packages:
        shutil.copy(path, debs)
    words = "lintian --allow-root --display-info --pedantic --fail-on error,warning,info,pedantic"
    if release in TAGS:
        words += f" --suppress-tags {TAGS[release]}"
    printed = in_debian(
        release, debs, f"sh -c '{words} /debs/*.deb && echo lintian ended with 0'", "--include=lintian"
    ).splitlines()
    assert "lintian ended with 0" in printed
    assert [line for line in printed if re.match("[EWIPXON]: (terrace|libterrace)", line)] == []


def test_they_install_work_and_leave_in_a_bare_debian(release: str, packages: list[Path], debs: Path) -> None:
    """The steps are in `tests/packages/in_chroot.sh`."""
    for path in [*packages, SCRIPTS / "in_chroot.sh"]:
        shutil.copy(path, debs)
    said = in_debian(release, debs, "sh /debs/in_chroot.sh")
    assert "nothing wrong" in said and "set -eux" in (SCRIPTS / "in_chroot.sh").read_text()


def test_an_upgrade_asks_nothing_after_settings_were_saved(release: str, packages: list[Path], debs: Path) -> None:
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
    assert "\nevery upgrade went through\n" in in_debian(release, debs, "sh /debs/in_upgrade.sh")

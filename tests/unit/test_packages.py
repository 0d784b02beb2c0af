# SPDX-License-Identifier: GPL-2.0
"""What is packaged: the tools without the checkout, and versions that grow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from debian_generate import TOOLS, copy

from terrace import cli
from terrace.cli import deb
from terrace.errors import BuildError
from terrace.files import replace
from terrace.ops import settings
from terrace.packages import tools
from terrace.paths import repo_root

#: Of a checkout alone.
LAB = {"demo", "test", "bench", "sim", "lab", "kernel", "deb"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules of terrace-tools, as debian/generate.py takes them."""
    folder = tmp_path_factory.mktemp("share")
    for name in TOOLS:
        copy(repo_root() / "src/terrace" / name, folder / "terrace" / name)
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from terrace.__main__ import main; sys.exit(main())"
    # -S: without the packages of this environment.
    command = [sys.executable, "-I", "-S", "-c", code, str(folder), *words]
    env = {"PATH": os.environ["PATH"]}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=env)


def test_every_verb_of_a_tiered_machine_is_there_and_no_other(installed: Path) -> None:
    listed = [line.split()[0] for line in run(installed, "--help").stdout.splitlines() if line.startswith("  ")]
    assert listed == [name for name in cli.verbs() if name not in LAB]
    for name in listed:
        done = run(installed, name, "--help")
        assert done.stdout.startswith(f"usage: terrace {name}"), done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "status --interval 0",
        "set --list",
        "features",
        "spread 1M",
        "top --count 1 --interval 0.1",
        "apply --example",
        "exporter --json",
        "exporter --dashboard",
    ],
)
def test_they_work_without_a_checkout(installed: Path, words: str) -> None:
    done = run(installed, *words.split())
    assert (done.returncode, done.stderr) == (0, "") and done.stdout


def test_what_is_said_fits_an_installed_tool(installed: Path) -> None:
    assert 'ExecStart="/usr/bin/terrace" apply' in run(installed, "apply", "--unit").stdout
    assert "Documentation=man:" in run(installed, "apply", "--unit").stdout
    done = run(installed, "doctor", "--for", "lab")
    assert done.returncode == 2 and "the lab runs from a checkout" in done.stderr
    assert "docs/" not in run(installed, "doctor").stdout.replace("/usr/share/doc", "")
    done = run(installed, "exec", "--weighted-interleave", "0=1", "--", "true")
    assert done.returncode == 3 and "apt-get install libterrace0" in done.stderr
    done = run(installed, "exporter", "--textfile", "-")
    assert done.returncode == 3 and "apt-get install python3-prometheus-client" in done.stderr
    done = run(installed, "report", "--plot", "/tmp/x.png")
    assert done.returncode == 3 and "apt-get install python3-matplotlib" in done.stderr
    done = run(installed, "demo")
    assert done.returncode == 2 and "there is no subcommand 'demo'" in done.stderr


def test_versions_grow_with_commits(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_COMMITTER_DATE": "1700000000 +0500"}
        who = ["-c", "user.name=x", "-c", "user.email=x@y"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, env=env)

    (tmp_path / "debian").mkdir()
    (tmp_path / "debian/changelog").write_text((repo_root() / "debian/changelog").read_text())
    plain, seconds = tools.version(tmp_path)
    assert (plain, seconds) == ("0.1", 1795845600)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "x")
    number, seconds = tools.version(tmp_path)
    # In UTC, wherever the commit was made.
    assert number.startswith("0.1+git20231114221320.") and seconds == 1700000000
    (tmp_path / "new").touch()
    changed, _ = tools.version(tmp_path)
    assert changed == f"{number}.changed"
    for older, newer in ((plain, number), (number, changed)):
        subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=True)
    (tmp_path / "debian/changelog").write_text("other (1)\n")
    with pytest.raises(BuildError, match="does not begin with 'terrace"):
        tools.version(tmp_path)


def test_the_changelog_tells_what_was_built(tmp_path: Path) -> None:
    changelog = tmp_path / "changelog"
    text = (repo_root() / "debian/changelog").read_text()
    changelog.write_text(text)
    tools._enter(changelog, "0.1+git1.abc", 1700000000)
    assert changelog.read_text().startswith("terrace (0.1+git1.abc) UNRELEASED; urgency=medium\n\n  * ")
    assert changelog.read_text().endswith(text)
    done = subprocess.run(
        ["dpkg-parsechangelog", "-l", str(changelog), "-S", "Timestamp"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1700000000\n"
    changelog.write_text(text)
    tools._enter(changelog, "0.1", 1)
    assert changelog.read_text() == text


def test_build_depends_are_what_is_installed_to_build(tmp_path: Path) -> None:
    control = (repo_root() / "debian/control").read_text()
    line = next(line for line in control.splitlines() if line.startswith("Build-Depends: "))
    wanted = {word.split(" ")[0].partition(":")[0] for word in line.removeprefix("Build-Depends: ").split(", ")}
    assert wanted - {"debhelper-compat", "python3"} <= set(tools.PACKAGES)


def test_words_that_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    from terrace import __main__ as door

    for words, message in (
        (["rpm"], "there is no package 'rpm' to make; there are tools, kernel"),
        (["tools", "--only-loaded"], "--only-loaded is about the kernel, and only tools is to be made"),
    ):
        assert door.main(["deb", *words]) == 2
        assert message in capsys.readouterr().err
    assert set(deb.WHAT) == {"tools", "kernel"}


SETTINGS = "etc/terrace/terrace.toml"


def scripted(root: Path, script: str, *words: str) -> None:
    """Run a maintainer script of the package on a system below `root`, as dpkg does for a foreign root."""
    path = repo_root() / "debian" / f"terrace-tools.{script}"
    env = {"PATH": os.environ["PATH"], "DPKG_ROOT": str(root), "DPKG_MAINTSCRIPT_PACKAGE": "terrace-tools"}
    subprocess.run(["sh", str(path), *words], check=True, env=env)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    (tmp_path / "etc/terrace").mkdir(parents=True)
    return tmp_path


def test_no_settings_are_shipped_and_old_ones_are_no_conffile_any_more() -> None:
    debian = repo_root() / "debian"
    shipped = [path for path in debian.glob("*.install") if re.search(r"(^|\s)/?etc\b", path.read_text(), re.MULTILINE)]
    assert shipped == []
    assert "build/debian/terrace.toml\n" in (debian / "terrace-tools.examples").read_text()
    (line,) = [one for one in (debian / "terrace-tools.maintscript").read_text().splitlines() if one[0] != "#"]
    command, path, version, package = line.split()
    assert (command, path, package) == ("rm_conffile", f"/{settings.DEFAULT}", "terrace-tools")
    # Each upgrade from a package that had the conffile comes by.
    subprocess.run(["dpkg", "--compare-versions", "0.1+git20261128174837.abc8702e", "le", version], check=True)


def test_an_upgrade_gives_edited_settings_back(system: Path) -> None:
    path = system / SETTINGS
    aside = path.with_name("terrace.toml.dpkg-backup")
    aside.write_text("demotion_enabled = 1\n")
    aside.chmod(0o640)
    path.with_name("terrace.toml.dpkg-new").touch()
    scripted(system, "postinst", "configure", "0.1")
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert path.read_text() == "demotion_enabled = 1\n" and path.stat().st_mode & 0o777 == 0o640


def test_an_upgrade_overwrites_no_newer_settings(system: Path) -> None:
    path = system / SETTINGS
    path.write_text("numa_balancing = 0\n")
    path.with_name("terrace.toml.dpkg-backup").write_text("demotion_enabled = 1\n")
    scripted(system, "postinst", "configure", "0.1")
    assert path.read_text() == "numa_balancing = 0\n"
    assert path.with_name("terrace.toml.dpkg-backup").exists()


def test_an_upgrade_leaves_no_empty_folder_and_a_link_alone(system: Path) -> None:
    scripted(system, "postinst", "configure", "0.1")
    assert not (system / "etc/terrace").exists()
    (system / "elsewhere").mkdir()
    (system / "etc/terrace").symlink_to("../elsewhere")
    scripted(system, "postinst", "configure", "0.1")
    scripted(system, "postrm", "purge")
    assert (system / "elsewhere").is_dir() and (system / "etc/terrace").is_symlink()


@pytest.mark.parametrize("others", [(), ("mine",)])
def test_purge_removes_what_the_tool_wrote_and_nothing_else(system: Path, others: tuple[str, ...]) -> None:
    folder = system / "etc/terrace"
    replace(folder / "terrace.toml", b"demotion_enabled = 1\n")
    for name in ("terrace.toml.dpkg-old", "terrace.toml.dpkg-dist", ".terrace.toml.x1y2.new", *others):
        (folder / name).touch()
    scripted(system, "postrm", "remove")
    assert (folder / "terrace.toml").exists()
    scripted(system, "postrm", "purge")
    assert sorted(path.name for path in folder.iterdir()) == ["mine"] if others else not folder.exists()
    scripted(system, "postrm", "purge")

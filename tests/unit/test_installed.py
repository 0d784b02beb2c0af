# SPDX-License-Identifier: GPL-2.0
"""The tool installed from a wheel: its files, its program, its build folder, and the commands that it rejects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from terrace import paths
from terrace.errors import MissingError
from terrace.kernel import series
from terrace.paths import Installation, repo_root

#: Files that these tests need; the suite tests all of them (tests/packages/test_wheel.py).
CARRIED = ("configs", "hooks", "requirements", "topologies", "bench/smoke", "docs/reference/settings.md")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as installed by pip, in a separate environment."""
    site = tmp_path_factory.mktemp("env") / "lib/python3/site-packages"
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(repo_root() / "src/terrace", site / "terrace", ignore=unwanted)
    for name in CARRIED:
        source, target = repo_root() / name, site / "terrace/_checkout" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=unwanted)
        else:
            shutil.copy(source, target)
    program = site.parents[2] / "bin/terrace"
    program.parent.mkdir()
    # Later versions of importlib.metadata skip missing files.
    program.touch()
    notes = site / "terrace-0.1.dist-info"
    notes.mkdir()
    (notes / "METADATA").write_text("Metadata-Version: 2.1\nName: terrace\nVersion: 0.1\n")
    (notes / "RECORD").write_text("../../../bin/terrace,,\nterrace/__init__.py,,\nterrace/_checkout/bin/terrace.c,,\n")
    return site


@pytest.fixture
def wheel(site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make this process behave as the installed tool."""
    monkeypatch.setattr(paths, "package_dir", lambda: site / "terrace")
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path / "cache"))
    return site


def run(site: Path, cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from terrace.__main__ import main; sys.exit(main())"
    # -S: without the packages of this environment.
    command = [sys.executable, "-B", "-I", "-S", "-c", code, str(site), *words]
    env = {"PATH": os.environ["PATH"], "TERRACE_CACHE": str(cache)}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=env)


def test_a_checkout_is_one() -> None:
    assert paths.installation() is Installation.CHECKOUT and paths.in_checkout() and paths.has_lab()
    assert paths.front_door() == repo_root() / "terrace" and paths.command() == "./terrace"
    assert paths.document("x.md") == "docs/x.md"
    assert paths.writable(repo_root() / "bench/x") == repo_root() / "bench/x"
    paths.require_checkout("terrace anything")


def test_a_debian_package_has_no_lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "package_dir", lambda: tmp_path / "terrace-tools/terrace")
    assert paths.installation() is Installation.DEBIAN and not paths.in_checkout() and not paths.has_lab()
    assert paths.front_door() == Path("/usr/bin/terrace")
    assert paths.document("x.md").startswith("/usr/share/doc/")


def test_a_wheel_has_the_lab_and_is_no_checkout(wheel: Path) -> None:
    assert paths.installation() is Installation.WHEEL and paths.has_lab() and not paths.in_checkout()
    assert paths.repo_root() == wheel / "terrace/_checkout"
    assert paths.command() == "terrace"
    assert Path(paths.document("reference/settings.md")).is_file()


def test_the_program_is_the_one_that_the_installer_made(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the one next to the interpreter, which may belong to the environment of a subcommand."""
    assert paths.front_door() == wheel.parents[2] / "bin/terrace"
    monkeypatch.setattr(paths, "package_dir", lambda: wheel / "elsewhere/terrace")
    monkeypatch.setattr(paths, "has_lab", lambda: True)
    with pytest.raises(MissingError, match="install it with pipx, uv or pip"):
        paths.front_door()


def test_a_wheel_builds_and_measures_in_the_cache(wheel: Path, tmp_path: Path) -> None:
    """Although its folder is writable."""
    assert paths.build_dir().parent == tmp_path / "cache/checkouts"
    assert paths.trees_dir() == paths.build_dir()
    assert not (paths.repo_root() / "build").exists()
    came_along = paths.repo_root() / "bench/smoke/results"
    own = paths.build_dir() / "bench/smoke/results"
    assert paths.writable(came_along) == own
    assert paths.writable(tmp_path / "mine") == tmp_path / "mine"
    assert paths.measured(came_along) == came_along
    own.mkdir(parents=True)
    assert paths.measured(came_along) == own


def test_a_repository_around_a_wheel_gives_its_patches_no_date(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    around = wheel.parents[2]
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "somebody's"]):
        subprocess.run(["git", "-C", str(around), *words], check=True)
    monkeypatch.setattr(series, "repo_root", paths.repo_root)
    try:
        assert series._identity().date == "2000-01-01T00:00:00Z"
    finally:
        shutil.rmtree(around / ".git")


@pytest.mark.parametrize(
    "words",
    [
        "test --list",
        "deb",
        "deb tools",
        "kernel tree",
        "kernel save",
        "kernel refresh",
        "bench report",
    ],
)
def test_what_works_on_a_checkout_is_refused(site: Path, words: str, tmp_path: Path) -> None:
    done = run(site, tmp_path, *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert "works on a checkout, and this is the installed tool" in done.stderr


def test_the_other_verbs_work(site: Path, tmp_path: Path) -> None:
    said = run(site, tmp_path, "--version").stdout
    assert said == f"terrace 0.1 (installed from a checkout: {site}/terrace)\n"
    for words in ("lab list", "bench list", "kernel check --list", "features", "set --list", "doctor --for machine"):
        done = run(site, tmp_path, *words.split())
        assert done.returncode in ((0, 3) if "doctor" in words else (0,)), done.stderr
        assert done.stdout
    unit = run(site, tmp_path, "apply", "--unit").stdout
    assert f'ExecStart="{site.parents[2]}/bin/terrace" apply' in unit
    assert f"Documentation=file:{site}/terrace/_checkout/docs/reference/settings.md" in unit
    assert not list(site.rglob("build"))


def test_uv_builds_again_what_a_wheel_has_when_it_changes() -> None:
    tools = tomllib.loads((repo_root() / "pyproject.toml").read_text())["tool"]
    wheel = tools["hatch"]["build"]["targets"]["wheel"]
    keys = {entry["file"] for entry in tools["uv"]["cache-keys"]}
    assert keys == {"pyproject.toml", *(f"{name}/**" for name in wheel["only-include"])}
    assert wheel["sources"] == {
        name: "terrace" if name == "src/terrace" else f"terrace/_checkout/{name}" for name in wheel["only-include"]
    }

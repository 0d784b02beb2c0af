# SPDX-License-Identifier: GPL-2.0
"""The tool installed from a checkout by pip, pipx and uv: the whole lab works, without the checkout."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from terrace.kernel import tree
from terrace.kernel.build import find_built
from terrace.paths import build_dir, cache_dir, repo_root

_DATA = "terrace/_checkout/"


@dataclass
class Tool:
    """An installed `terrace`, its home folder, and the command that uninstalls it."""

    name: str
    folder: Path
    program: Path
    uninstall: Sequence[object]
    env: dict[str, str]
    #: Hashes of every installed file, before its use.
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        return Path(self.env["TERRACE_CACHE"])

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self.program), *words],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env=self.env,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, done.stdout[-2000:] + done.stderr[-4000:]
        return done


def run(words: Sequence[object], **env: object) -> str:
    """Get the output of a command; a failure fails the test with the output."""
    done = subprocess.run(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, **{name: str(value) for name, value in env.items()}},
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def listed(*folders: str) -> list[str]:
    """List the files of git, including new ones."""
    words = ["git", "-C", repo_root(), "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders]
    return sorted(name for name in run(words).split("\0") if name and (repo_root() / name).is_file())


def carried() -> list[str]:
    """List the folders that the wheel must have."""
    config = tomllib.loads((repo_root() / "pyproject.toml").read_text())
    names: list[str] = config["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    return names


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout like a fresh clone."""
    folder = tmp_path_factory.mktemp("clone") / "terrace"
    for name in listed():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(repo_root() / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with pip, pipx and uv."""
    folder = tmp_path_factory.mktemp("installers")
    run([sys.executable, "-m", "venv", folder])
    run([folder / "bin/pip", "--quiet", "install", "pipx", "uv"])
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(copy: Path, installers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run([installers / "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", folder, copy])
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module", params=["pip", "pipx", "uv"])
def tool(
    request: pytest.FixtureRequest, copy: Path, installers: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tool]:
    """Installed from a copy that is deleted afterwards, with the kernels that were built before."""
    base = tmp_path_factory.mktemp(request.param)
    mine = base / "checkout"
    shutil.copytree(copy, mine)
    place, programs = base / "place", base / "bin"
    if request.param == "pip":
        run([sys.executable, "-m", "venv", place])
        run([place / "bin/pip", "--quiet", "install", mine])
        program = place / "bin/terrace"
        uninstall = [str(place / "bin/pip"), "uninstall", "--yes", "terrace"]
    else:
        called = [str(installers / "pipx")] if request.param == "pipx" else [str(installers / "uv"), "tool"]
        words = ["env", f"PIPX_HOME={place}", f"PIPX_BIN_DIR={programs}", *called]
        words[1:1] = [f"UV_TOOL_DIR={place}", f"UV_TOOL_BIN_DIR={programs}", f"UV_CACHE_DIR={base}/uv"]
        # The present interpreter: uv would install another one.
        run([*words, "install", "--python", Path(sys.base_prefix) / "bin/python3", mine])
        program = programs / "terrace"
        uninstall = [*words, "uninstall", "terrace"]
    shutil.rmtree(mine)
    home, cache = base / "home", base / "cache"
    home.mkdir()
    cache.mkdir()
    for name in ("kernels", "source.json"):
        if (cache_dir() / name).exists():
            (cache / name).symlink_to(cache_dir() / name)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(home), "TERRACE_CACHE": str(cache)}
    # One cache for all of them.
    env["PIP_CACHE_DIR"] = str(tmp_path_factory.getbasetemp() / "pip")
    found = Tool(request.param, place, program, uninstall, env)
    found.digests = digests(place)
    for path in [place, *place.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    yield found
    for path in [place, *place.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)
    run(uninstall)
    # Only files that it created in its cache are left; pipx and uv keep separate notes.
    assert not program.exists()
    assert not [path for path in place.rglob("*") if "terrace" in path.relative_to(place).parts]
    # The kernel build calls rustc, and that of rustup creates a folder.
    assert not [path for path in home.iterdir() if path.name != ".rustup"]


def digests(folder: Path) -> dict[str, str]:
    """Hash every file except Python's compiled modules."""
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_wheel_has_what_git_has_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {entry.filename: entry for entry in archive.infolist()}
        wanted = {
            f"terrace/{name.removeprefix('src/terrace/')}" if name.startswith("src/") else _DATA + name: repo_root()
            / name
            for name in listed(*carried())
        }
        notes = {name for name in packed if name.split("/")[0].endswith(".dist-info")}
        assert sorted(set(packed) - notes) == sorted(wanted)
        assert {name.rpartition("/")[2] for name in notes} >= {"METADATA", "RECORD", "GPL-2.0.txt", "LGPL-2.1.txt"}
        for name, path in wanted.items():
            assert archive.read(name) == path.read_bytes(), name
            executable = bool(packed[name].external_attr >> 16 & stat.S_IXUSR)
            assert executable == os.access(path, os.X_OK), name


def test_a_wheel_has_no_place_for_symbolic_links() -> None:
    assert not [name for name in listed(*carried()) if (repo_root() / name).is_symlink()]


def test_leftovers_of_a_checkout_are_not_packed(copy: Path, installers: Path, tmp_path: Path) -> None:
    mine = tmp_path / "checkout"
    shutil.copytree(copy, mine)
    for name in (
        "build/big",
        "linux/mm/mtier/place.o",
        "guest/__pycache__/a.pyc",
        "hooks/0001-x.patch.orig",
        "docs/a~",
    ):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("left over")
    run([installers / "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", tmp_path, mine])
    (made,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(made) as archive:
        names = [name.removeprefix(_DATA) for name in archive.namelist() if name.startswith(_DATA)]
    assert sorted(names) == listed(*[name for name in carried() if name != "src/terrace"])


def test_it_says_what_it_is(tool: Tool) -> None:
    said = tool("--version").stdout
    assert said.startswith("terrace 0.1 (installed from a checkout: ") and str(tool.folder) in said
    assert "usage: terrace [--yes] VERB" in tool("--help").stdout
    unit = tool("apply", "--unit").stdout
    program = unit.partition('ExecStart="')[2].partition('"')[0]
    assert run([program, "--version"]) == said
    page = unit.partition("Documentation=file:")[2].splitlines()[0]
    assert page.endswith("/settings.md") and Path(page).is_file()


@pytest.mark.parametrize(
    "words", ["lab list --json", "kernel check --list --json", "set --list --json", "lab run --dry-run -- true"]
)
def test_it_answers_as_the_checkout_does(tool: Tool, words: str) -> None:
    here = subprocess.run([str(repo_root() / "terrace"), *words.split()], capture_output=True, text=True, check=True)
    said = re.sub(rf"{re.escape(str(tool.cache))}/checkouts/\w+/", f"{build_dir()}/", tool(*words.split()).stdout)
    assert said.replace(str(tool.cache), str(cache_dir())) == here.stdout


def test_verbs_that_look_at_a_machine_work(tool: Tool) -> None:
    for words in ("features", "status --interval 0", "top --count 1 --interval 0.1", "bench list"):
        assert tool(*words.split()).stdout
    assert "use --for machine" not in tool("doctor", "--for", "lab").stderr


def test_what_works_on_a_checkout_is_refused(tool: Tool) -> None:
    for words in ("deb tools", "test", "kernel save", "bench report"):
        said = tool(*words.split(), code=2).stderr
        assert f"terrace {words} works on a checkout, and this is the installed tool" in said


def test_a_verb_with_packages_of_its_own_gets_them(tool: Tool) -> None:
    """Into an environment in the cache, from the included list; the decision code is compiled there too."""
    words = ["sim", "--hosts", "L", "--dram", "1/2", "--loads", "zipf0.99", "--policies", "static", "--json"]
    assert json.loads(tool(*words).stdout)["kind"]
    (made,) = (tool.cache / "venv").glob("plot-*")
    # It outlives the tool: created from the base interpreter.
    assert str(tool.folder) not in (made / "bin/python3").resolve().as_posix()


def test_its_kernel_is_the_checkouts_and_boots(tool: Tool) -> None:
    """Not built again: the overlay and the hooks have one hash, with git and without."""
    words = "import sys; from terrace.kernel import tree; print(tree.content_hash())"
    python = [tool.program.resolve().parent / "python", "-c", words]
    assert run(python, TERRACE_CACHE=tool.cache).strip() == tree.content_hash()
    if find_built("terrace") is None:
        pytest.skip("the terrace kernel is not built: ./terrace kernel build terrace")
    assert tool("lab", "run", "--", "uname", "-r").stdout.strip().endswith("-terrace")
    assert "terrace 0.1" in tool("lab", "run", "--", "terrace", "--version").stdout
    assert not list((tool.cache / "checkouts").glob("*/linux-*"))


def test_nothing_was_written_where_it_is_installed(tool: Tool) -> None:
    """Not even by root, for whom no folder is read-only. The last of the tests that use it."""
    assert digests(tool.folder) == tool.digests

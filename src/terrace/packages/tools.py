# SPDX-License-Identifier: GPL-2.0
"""terrace-tools, libterrace0 and libterrace-dev, made by debhelper from the files that git has."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from terrace.errors import BuildError, MissingError
from terrace.host import clean_env, require_packages
from terrace.paths import build_dir, repo_root
from terrace.progress import Progress

#: The packages that build them; debian/control has the same as Build-Depends.
PACKAGES = (
    "debhelper",
    "dh-python",
    "dpkg-dev",
    "fakeroot",
    "gcc",
    "help2man",
    "libc6-dev",
    "make",
    "python3-argcomplete",
)


def version(folder: Path) -> tuple[str, int]:
    """The version of the packages, and the time of what they are made from in seconds since 1970.

    That of debian/changelog, and behind it the commit and its time, such that later commits have higher versions; a
    tree that differs from its commit says so. Without git the one in the changelog. Raises MissingError when git fails.
    """
    head = (folder / "debian" / "changelog").read_text(encoding="utf-8")
    match = re.match(r"terrace \(([0-9.]+)\) ", head)
    if match is None:
        raise BuildError(f"{folder}/debian/changelog does not begin with 'terrace (VERSION) '")
    if not (folder / ".git").exists():
        return match[1], int(_run(["dpkg-parsechangelog", "-STimestamp"], folder))
    commit, seconds, date = _run(
        ["git", "log", "-1", "--format=%h %ct %cd", "--date=format-local:%Y%m%d%H%M%S", "--abbrev=8"], folder
    ).split()
    changed = ".changed" if _run(["git", "status", "--porcelain"], folder) else ""
    return f"{match[1]}+git{date}.{commit}{changed}", int(seconds)


def make() -> list[Path]:
    """Build the packages into build/deb, older ones of them replaced, and return their paths.

    Raises BuildError with the end of the log, MissingError.
    """
    require_packages(PACKAGES, "make Debian packages of the tools")
    folder = build_dir() / "deb"
    tree = folder / "tree" / "terrace"
    shutil.rmtree(tree.parent, ignore_errors=True)
    tree.mkdir(parents=True)
    number, seconds = version(repo_root())
    _copy(repo_root(), tree)
    _enter(tree / "debian" / "changelog", number, seconds)
    log = folder / "tools.log"
    with Progress("Debian packages of the tools"), log.open("w") as out:
        done = subprocess.run(
            ["dpkg-buildpackage", "--build=binary", "--no-sign", "--no-check-builddeps"],
            cwd=tree,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
            env=clean_env({"SOURCE_DATE_EPOCH": str(seconds)}),
        )
    if done.returncode:
        end = log.read_text(errors="replace").strip()[-1500:]
        raise BuildError(f"the packages could not be built; the log, {log}, ends:\n{end}")
    made = sorted(tree.parent.glob("*.deb"))
    for path in made:
        for old in folder.glob(f"{path.name.split('_')[0]}_*"):
            old.unlink()
    return [Path(shutil.move(str(path), folder / path.name)) for path in made]


def _copy(origin: Path, target: Path) -> None:
    """The files that git has, or would have, as they are now; all files of a tree that is not git's."""
    if not (origin / ".git").exists():
        shutil.copytree(origin, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
        return
    listed = _run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], origin)
    for name in filter(None, listed.split("\0")):
        # The list also has removed files whose removal is not committed.
        if (origin / name).is_symlink() or (origin / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(origin / name, target / name, follow_symlinks=False)


def _enter(changelog: Path, number: str, seconds: int) -> None:
    """Begin the changelog with what is built."""
    text = changelog.read_text(encoding="utf-8")
    who = re.search(r"^ -- (.+>)  ", text, re.MULTILINE)
    if text.startswith(f"terrace ({number}) ") or who is None:
        return
    date = _run(["date", "--utc", "--rfc-email", f"--date=@{seconds}"], changelog.parent)
    entry = f"terrace ({number}) UNRELEASED; urgency=medium\n\n  * Built from this commit.\n\n -- {who[1]}  {date}\n\n"
    changelog.write_text(entry + text, encoding="utf-8")


def _run(words: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, check=False, env=clean_env({"TZ": "UTC"})
        )
    except FileNotFoundError as error:
        raise MissingError(f"there is no program {words[0]}, which says what the packages are made of") from error
    if done.returncode:
        raise BuildError(f"{' '.join(words)} in {folder}: {done.stderr.strip()}")
    return done.stdout.strip()

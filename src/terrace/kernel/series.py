# SPDX-License-Identifier: GPL-2.0
"""The patch series for submission: hooks/series.toml assigns overlay files and hooks to patches.

Every overlay file and every hook is used exactly once. The patches applied to the pristine source
give, byte for byte, the tree that is built and tested.
"""

import fnmatch
import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terrace.errors import BuildError, UsageError
from terrace.files import parse_toml
from terrace.host import clean_env
from terrace.kernel import patches, tree
from terrace.kernel.patches import Hook, git
from terrace.kernel.source import Source
from terrace.paths import repo_root

FILE = "hooks/series.toml"


@dataclass(frozen=True)
class Patch:
    """One patch of the series: its message, the overlay files it adds, the hooks it applies (in this order)."""

    title: str
    body: str
    overlay: tuple[str, ...]
    hooks: tuple[Hook, ...]


@dataclass(frozen=True)
class Series:
    """The whole series; `title` and `body` are the cover letter's."""

    title: str
    body: str
    patches: tuple[Patch, ...]


@dataclass(frozen=True)
class _Identity:
    """Author of the patches, and the date of the commit that they are made of."""

    name: str
    email: str
    date: str

    def env(self) -> dict[str, str]:
        return clean_env(
            {
                "GIT_AUTHOR_NAME": self.name,
                "GIT_AUTHOR_EMAIL": self.email,
                "GIT_AUTHOR_DATE": self.date,
                "GIT_COMMITTER_NAME": self.name,
                "GIT_COMMITTER_EMAIL": self.email,
                "GIT_COMMITTER_DATE": self.date,
                "GIT_CONFIG_GLOBAL": "/dev/null",
            }
        )


def load() -> Series:
    """Load the series of the repository, checked against overlay and hooks. Raises UsageError for errors."""
    path = repo_root() / FILE
    if not path.is_file():
        raise UsageError(f"{FILE} does not exist: it says which overlay files and hooks make which patch")
    try:
        raw = parse_toml(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{FILE}: {error}") from None
    return resolve(raw, tree.overlay_files(), patches.hooks())


def resolve(raw: Mapping[str, Any], overlay: Sequence[str], stack: Sequence[Hook]) -> Series:
    """Get the series that `raw` describes, with its patterns expanded.

    Raises UsageError for unknown keys, a pattern without a match, and files used twice or not at
    all.
    """
    _only_keys(raw, ("title", "body", "patch"), "")
    by_name = {hook.name: hook for hook in stack}
    used: dict[str, str] = {}
    entries = []
    # A file named in full belongs there, and a pattern of another patch does not take it.
    exact = {name for entry in _list(raw, "patch", "") if isinstance(entry, dict) for name in entry.get("overlay", [])}
    for number, entry in enumerate(_list(raw, "patch", ""), 1):
        where = f"patch {number}"
        if not isinstance(entry, dict):
            raise UsageError(f"{FILE}: {where} is not a table")
        _only_keys(entry, ("title", "body", "overlay", "hooks"), where)
        files = [
            name for pattern in _list(entry, "overlay", where) for name in _matching(pattern, overlay, exact, where)
        ]
        names = [_known_hook(name, by_name, where) for name in _list(entry, "hooks", where)]
        for name in [*(f"linux/{file}" for file in files), *(f"hooks/{name}" for name in names)]:
            if name in used:
                raise UsageError(f"{FILE}: {name} is in {used[name]} and in {where}")
            used[name] = where
        entries.append(_patch(entry, files, [by_name[name] for name in names], where))
    every = [*(f"linux/{name}" for name in overlay), *(f"hooks/{hook.name}" for hook in stack)]
    if left := [name for name in every if name not in used]:
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        raise UsageError(f"{FILE}: in no patch: {', '.join(left[:5])}{more}")
    return Series(_text(raw, "title", "the file"), _text(raw, "body", "the file"), tuple(entries))


def generate(series: Series, source: Source, out: Path, *, version: int = 1, rfc: bool = False) -> list[Path]:
    """Write the patches and their cover letter into `out` (emptied of *.patch first) and return
    their paths, in order.

    Raises BuildError if the patches do not give the tree that is built.
    """
    assembled = tree.assemble(source)
    pristine = _pristine(assembled, series)
    who = _identity()
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.patch"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="terrace-series-") as scratch:
        repo = Path(scratch) / "repo"
        _start_repo(repo, pristine, assembled, who)
        for patch in series.patches:
            apply_entry(patch, repo)
            _commit(repo, _full_message(patch, who), who)
        files = _format(repo, out, series, source, who, version=version, rfc=rfc)
        back = Path(scratch) / "back"
        _start_repo(back, pristine, assembled, who)
        _git_env(back, who, "am", "-q", *[str(path.resolve()) for path in files[1:]])
        _compare(back, assembled)
    return files


def apply_entry(patch: Patch, folder: Path) -> None:
    """Add one patch's overlay files to the tree in `folder` and apply its hooks. Raises BuildError."""
    for name in patch.overlay:
        origin = tree.overlay_dir() / name
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(origin.read_bytes())
        target.chmod(0o755 if origin.stat().st_mode & 0o100 else 0o644)
    for hook in patch.hooks:
        patches.apply_patch(f"hooks/{hook.name}", hook.diff, folder)


def _pristine(assembled: Path, series: Series) -> dict[str, bytes]:
    return tree.pristine_of(assembled, [hook for patch in series.patches for hook in patch.hooks])


def _patch(entry: Mapping[str, Any], files: Sequence[str], stack: Sequence[Hook], where: str) -> Patch:
    """A patch of a single hook may use the hook's message."""
    if "title" not in entry and len(stack) == 1:
        title, body = patches.message(stack[0])
    else:
        title, body = _text(entry, "title", where), _text(entry, "body", where)
    if len(title) > 75:
        raise UsageError(f"{FILE}: {where}: the title has {len(title)} characters, 75 are allowed: {title}")
    return Patch(title, body.strip(), tuple(files), tuple(stack))


def _only_keys(table: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    for key in table:
        if key not in allowed:
            raise UsageError(f"{FILE}: {where or 'the file'}: unknown key '{key}'; allowed are {', '.join(allowed)}")


def _list(table: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise UsageError(f"{FILE}: {where or 'the file'}: '{key}' is not a list")
    return value


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{FILE}: {where}: '{key}' is missing or empty")
    return value.strip()


def _matching(pattern: object, overlay: Sequence[str], exact: Container[object], where: str) -> list[str]:
    if pattern in overlay:
        return [str(pattern)]
    found = [name for name in overlay if fnmatch.fnmatchcase(name, str(pattern)) and name not in exact]
    if not found:
        raise UsageError(f"{FILE}: {where}: no overlay file matches '{pattern}' (paths are those in the Linux tree)")
    return found


def _known_hook(name: object, known: Mapping[str, Hook], where: str) -> str:
    if name not in known:
        raise UsageError(f"{FILE}: {where}: there is no hook '{name}'; there are {', '.join(known) or 'none'}")
    return str(name)


def _identity() -> _Identity:
    """Get the user's git identity in this repository, or the developers'; and the date of the last
    commit.

    Outside of a repository, the user's identity and no date: an enclosing repository is another
    project.
    """

    env = clean_env() if (repo_root() / ".git").exists() else clean_env({"GIT_DIR": os.devnull})

    def ask(*words: str) -> str:
        command = ["git", "-C", str(repo_root()), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        return done.stdout.strip()

    name, email = ask("config", "user.name"), ask("config", "user.email")
    if not name or not email:
        match = re.fullmatch(r"(.*) <(.*)>", patches.AUTHOR)
        assert match is not None
        name, email = match[1], match[2]
    return _Identity(name, email, ask("log", "-1", "--format=%cI") or "2000-01-01T00:00:00Z")


def _start_repo(repo: Path, pristine: Mapping[str, bytes], assembled: Path, who: _Identity) -> None:
    """Create a repository with only the files that hooks change: a patch needs no more of Linux.

    Hooks do not change execute bits, so those of the `assembled` tree are those of the pristine
    one.
    """
    patches.write_files(repo, pristine)
    for name in pristine:
        (repo / name).chmod(0o755 if os.access(assembled / name, os.X_OK) else 0o644)
    _git_env(repo, who, "init", "-q", "-b", "series")
    _commit(repo, "base", who)


def _commit(repo: Path, text: str, who: _Identity) -> None:
    _git_env(repo, who, "add", "-A", "-f")
    # git's default cleanup of a message would remove lines that begin with #.
    _git_env(repo, who, "commit", "-q", "--allow-empty", "--cleanup=whitespace", "-m", text)


def _git_env(repo: Path, who: _Identity, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(repo), *words], capture_output=True, text=True, check=False, env=who.env())
    if done.returncode != 0:
        raise BuildError(f"git {words[0]} for the series: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _full_message(patch: Patch, who: _Identity) -> str:
    signed = f"Signed-off-by: {who.name} <{who.email}>"
    body = patch.body if signed in patch.body else f"{patch.body}\n\n{signed}"
    return f"{patch.title}\n\n{body}\n"


def _format(
    repo: Path, out: Path, series: Series, source: Source, who: _Identity, *, version: int, rfc: bool
) -> list[Path]:
    prefix = "RFC PATCH" if rfc else "PATCH"
    words = ["format-patch", "--cover-letter", "-o", str(out.resolve()), "--diff-algorithm=myers", "--abbrev=12"]
    if version > 1:
        words.append(f"-v{version}")
    words += [f"--subject-prefix={prefix}", "--root", "--no-signature", f"HEAD~{len(series.patches)}..HEAD"]
    files = [Path(line) for line in _git_env(repo, who, *words).splitlines()]
    cover = files[0].read_text()
    applies = f"Applies to Linux {source.version}{' as in Debian' if source.is_debian else ''}."
    cover = cover.replace("*** SUBJECT HERE ***", series.title)
    cover = cover.replace("*** BLURB HERE ***", f"{series.body}\n\n{applies}")
    files[0].write_text(cover)
    return files


def _compare(back: Path, assembled: Path) -> None:
    """Fail unless the files in `back` are all added and changed files, byte for byte, with the same execute bits."""
    listed = set(git(back, "ls-files", "-z").split("\0")) - {""}
    wanted = {*tree.overlay_files(), *(path for hook in patches.hooks() for path in hook.paths)}
    if listed != wanted:
        odd = sorted(listed ^ wanted)[0]
        raise BuildError(f"the series does not give our tree: {odd} is {'missing' if odd in wanted else 'left over'}")
    for name in sorted(wanted):
        same = (back / name).read_bytes() == (assembled / name).read_bytes()
        if not same or os.access(back / name, os.X_OK) != os.access(assembled / name, os.X_OK):
            raise BuildError(f"the series does not give our tree: {name} differs")

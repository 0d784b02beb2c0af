# SPDX-License-Identifier: GPL-2.0
"""Hooks: small patches in mail format to existing Linux files. Reading, applying and writing them."""

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import BuildError
from terrace.host import clean_env
from terrace.paths import repo_root

_DIFF_START = re.compile(r"^(?:diff --git |--- a/)", re.MULTILINE)
_DIFF_PATH = re.compile(r"^(?:---|\+\+\+) [ab]/(\S+)", re.MULTILINE)
_HEADER = re.compile(r"^(From|Date|Subject): ?((?:.|\n[ \t])*)$", re.MULTILINE)
AUTHOR = "Terrace developers <terrace@localhost>"
# One format of diffs whatever the user's own git settings are.
_DIFF_OPTIONS = ("--no-color", "--no-ext-diff", "--no-renames", "--diff-algorithm=myers", "--abbrev=12")


@dataclass(frozen=True)
class Hook:
    """One patch to existing files: `paths` are the files it changes, `diff` is the patch without its message."""

    name: str
    text: str
    diff: str
    paths: tuple[str, ...]


def parse_hook(name: str, text: str) -> Hook:
    """A mail-format patch. Raises BuildError when it has no diff, or makes or removes a file."""
    match = _DIFF_START.search(text)
    if not match:
        raise BuildError(f"hooks/{name}: has no diff")
    # git's mail format ends with its version below a "-- " line.
    diff = re.sub(r"\n-- ?\n[^\n]*\n*\Z", "\n", text[match.start() :])
    if re.search(r"^(?:---|\+\+\+) /dev/null", diff, re.MULTILINE):
        raise BuildError(f"hooks/{name}: makes or removes a file; a new file belongs into the overlay, linux/")
    return Hook(name, text, diff, tuple(sorted(set(_DIFF_PATH.findall(diff)))))


def hooks() -> list[Hook]:
    """All hooks of the repository, in the order in which they apply."""
    return [parse_hook(path.name, path.read_text()) for path in sorted((repo_root() / "hooks").glob("*.patch"))]


def new_hook(name: str) -> Hook:
    """A hook called `name` that changes nothing yet, with a message for its author to write."""
    what = name.removesuffix(".patch").lstrip("0123456789-").replace("-", " ")
    text = f"From: {AUTHOR}\nSubject: [PATCH] {what}\n\nSay why this call has to be here.\n\nSigned-off-by: {AUTHOR}\n"
    return Hook(name, text, "", ())


def message(hook: Hook) -> tuple[str, str]:
    """Subject and body of a hook's message, without "[PATCH]" and without what follows "---"."""
    head, _, rest = _message_text(hook).partition("\n\n")
    fields = {match[1]: " ".join(match[2].split()) for match in _HEADER.finditer(head)}
    title = re.sub(r"^\[PATCH[^\]]*\]\s*", "", fields.get("Subject", hook.name.removesuffix(".patch")))
    return title, rest.strip()


def subject(hook: Hook) -> str:
    """The first line of a hook's message."""
    return message(hook)[0]


def apply_patch(name: str, diff: str, folder: Path) -> None:
    """Apply one patch, without fuzz, to the files in `folder`; BuildError names the patch and has the output of git."""
    if not diff:
        return
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        input=diff.encode(),
        cwd=folder,
        env=_outside_git(folder),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise BuildError(f"{name} does not apply:\n  " + "\n  ".join(said))


def stack_states(pristine: Mapping[str, bytes], stack: Sequence[Hook]) -> list[dict[str, bytes]]:
    """The content of all files of `pristine` after 0, 1, … all hooks of `stack`.

    `pristine` has to hold every file the hooks change. Raises BuildError for the first hook that does not apply.
    """
    with tempfile.TemporaryDirectory(prefix="terrace-hooks-") as scratch:
        folder = Path(scratch) / "files"
        write_files(folder, pristine)
        content = dict(pristine)
        states = [dict(content)]
        for hook in stack:
            apply_patch(f"hooks/{hook.name}", hook.diff, folder)
            content.update({name: (folder / name).read_bytes() for name in hook.paths})
            states.append(dict(content))
    return states


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files, given by their path below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def rendered(hook: Hook, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str | None:
    """The text of `hook` with its message and the diff from `before` to `after`; None when they are the same."""
    changed = [name for name in sorted(after) if before[name] != after[name]]
    if not changed:
        return None
    with tempfile.TemporaryDirectory(prefix="terrace-diff-") as scratch:
        folder = Path(scratch)
        write_files(folder / "a", {name: before[name] for name in changed})
        write_files(folder / "b", {name: after[name] for name in changed})
        stat = _diff(folder, "--stat=72")
        diff = _diff(folder)
    # Without an index git takes a/x and b/x for two files, and the table shows both.
    stat = re.sub(r"^ \{a => b\}/|^ a/\S+ => b/", " ", stat, flags=re.MULTILINE)
    return f"{_message_text(hook).rstrip()}\n---\n{stat}\n{diff}"


def lines_by_file(diff: str) -> dict[str, list[str]]:
    """The places in each file at which a diff changes it, as its hunks name them."""
    return {name: re.findall(r"^@@ -\S+", part, re.MULTILINE) for name, part in _parts(diff)}


def written_for(pristine: Mapping[str, bytes], stack: Sequence[Hook]) -> set[str]:
    """The files whose first hook was written for this very content: the hook has its hash in the `index` line.

    Another 6.12.y moves lines, and the hooks apply to it all the same.
    """
    first: dict[str, str] = {}
    for hook in stack:
        for name, part in _parts(hook.diff):
            first.setdefault(name, part)
    found = set()
    for name, part in first.items():
        blob = hashlib.sha1(b"blob %d\0" % len(pristine[name]) + pristine[name], usedforsecurity=False).hexdigest()
        noted = re.search(r"^index ([0-9a-f]{7,})\.\.", part, re.MULTILINE)
        if noted and blob.startswith(noted[1]):
            found.add(name)
    return found


def _parts(diff: str) -> list[tuple[str, str]]:
    """A diff by file: the path of each, and the part of the diff that changes it."""
    parts = re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE)
    named = ((_DIFF_PATH.search(part), part) for part in parts)
    return [(path[1], part) for path, part in named if path]


def changes_something_else(hook: Hook, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bool:
    """True when `hook`, as it is, does not lead from `before` to `after`."""
    try:
        reached = stack_states({name: before[name] for name in before}, [hook])[-1]
    except BuildError:
        return True
    return reached != dict(after)


def git(folder: Path, *words: str) -> str:
    """Run git in `folder` and return its output. Raises BuildError with its error message."""
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=False, env=clean_env())
    if done.returncode != 0:
        raise BuildError(f"git {words[0]} in {folder}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="surrogateescape")


def _message_text(hook: Hook) -> str:
    """All of a hook before "---" and the diff."""
    match = _DIFF_START.search(hook.text)
    text = hook.text[: match.start()] if match else hook.text
    return re.split(r"^---\s*$", text, maxsplit=1, flags=re.MULTILINE)[0]


def _diff(folder: Path, *options: str) -> str:
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-prefix", *_DIFF_OPTIONS, *options, "a", "b"],
        cwd=folder,
        env=_outside_git(folder),
        capture_output=True,
        check=False,
    )
    if done.returncode > 1:
        raise BuildError(f"git diff: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode()


def _outside_git(folder: Path) -> dict[str, str]:
    # Inside a work tree git would look at the paths from that tree's root, and do nothing.
    env = clean_env({"GIT_CEILING_DIRECTORIES": str(folder.parent.resolve()), "GIT_CONFIG_GLOBAL": "/dev/null"})
    env["GIT_CONFIG_NOSYSTEM"] = "1"
    env.pop("GIT_DIR", None)
    env.pop("GIT_WORK_TREE", None)
    return env

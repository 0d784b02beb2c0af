# SPDX-License-Identifier: GPL-2.0
"""The editable git tree: made from the pristine source, overlay and hooks; edits go back to where they belong.

A new file is the overlay's. A change of a file of Linux belongs to the hook that made the lines around it; it is folded
into that hook, and through the later ones, by three-way merges, so that the stack again ends at the edited file.
"""

import difflib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from terrace.errors import BuildError, TerraceError, UsageError
from terrace.files import replace
from terrace.host import clean_env
from terrace.kernel import patches, tree
from terrace.kernel import source as linux_source
from terrace.kernel.patches import Hook, git
from terrace.kernel.source import Source
from terrace.paths import repo_root, trees_dir
from terrace.progress import Progress

_BASE = "terrace-base"
_START = "terrace-start"
# The part of the kernel's own .gitignore that matters here; Debian's ignores every file.
_PRODUCTS = ("out-*/", "*.o", "*.ko", "*.a", "*.cmd", "*.orig", "*.rej", "*~", "*.swp", ".config*", "vmlinux*", "tags")


@dataclass
class Saved:
    """The result of `save`: paths in the repository, by kind."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Edit:
    """One hunk of an edit, as line ranges: lines `first`:`last` of the assembled file become `lines`."""

    first: int
    last: int
    lines: tuple[bytes, ...]


def default_dir() -> Path:
    """The default place of the editable tree."""
    return trees_dir() / "linux-edit"


def make(source: Source, folder: Path, *, force: bool = False) -> None:
    """Make the editable tree in `folder`, or bring an unedited one up to date with overlay and hooks.

    The tree's history: Linux, the overlay, one commit for each hook. Raises UsageError when there are edits that
    were not saved (`force` throws them away), or `folder` is something else.
    """
    if folder.exists() and not _is_ours(folder):
        raise UsageError(f"{folder} exists and is not an editable tree of terrace")
    if folder.exists() and not force and (changed := _changes(folder)):
        raise UsageError(
            f"{folder} has edits that are not saved, e.g. {sorted(changed)[0]}:"
            " `terrace kernel save` keeps them, --force throws them away"
        )
    if folder.exists() and _note(folder).get("source") != source.sha:
        shutil.rmtree(folder)
    if not folder.exists():
        linux_source.unpack(source, folder)
        _baseline(folder, source)
    else:
        git(folder, "checkout", "-q", "-f", "-B", "terrace", _BASE)
        for name in _untracked(folder):
            (folder / name).unlink()
    _replay(folder)
    state = {"source": source.sha, "hooks": _hook_texts()}
    _write_note(folder, state)


def save(folder: Path, hook: str | None = None) -> Saved:
    """Bring the edits in `folder` back into overlay and hooks; the tree is the new starting point afterwards.

    `hook` is the file name in hooks/ for changes of files that no hook touches yet, and overrides the choice for the
    others. Raises UsageError when a change has no owner, TerraceError when the repository changed in the meantime.
    """
    if not _is_ours(folder):
        raise UsageError(f"{folder} is not an editable tree; `terrace kernel tree` makes one")
    if not _note(folder):
        raise TerraceError(f"{folder}/.git/terrace.json is damaged; copy your edits, then: terrace kernel tree --force")
    if _note(folder).get("hooks") != _hook_texts():
        raise TerraceError(f"hooks/ changed since {folder} was made; commit your edits there, then start a new tree")
    saved = Saved()
    changes = _changes(folder)
    known = set(git(folder, "ls-tree", "-r", "--name-only", "-z", _BASE).split("\0"))
    linux = {name for name in changes if name in known}
    gone = sorted(name for name in linux if changes[name] == "D")
    if gone:
        raise UsageError(f"{gone[0]} was removed: a hook changes files of Linux, it does not remove them")
    for name in sorted(set(changes) - linux):
        _check_unmoved(folder, name)
    stack = _folded(folder, sorted(linux), hook) if linux else None
    for name in sorted(set(changes) - linux):
        _save_overlay(folder, name, changes[name], saved)
    if stack is not None:
        _write_hooks(stack, saved)
    if changes:
        _restart(folder)
    return saved


def refresh(source: Source) -> Saved:
    """Write every hook anew as it applies now: right line numbers, one diff format. Raises BuildError."""
    stack = patches.hooks()
    saved = Saved()
    states = patches.stack_states(tree.pristine_of(tree.assemble(source), stack), stack)
    for hook, before, after in zip(stack, states, states[1:], strict=False):
        text = patches.rendered(hook, before, after)
        if text is not None and text != hook.text:
            (repo_root() / "hooks" / hook.name).write_text(text)
            saved.written.append(f"hooks/{hook.name}")
    return saved


def _baseline(folder: Path, source: Source) -> None:
    with Progress("git baseline"):
        git(folder, "init", "-q", "-b", "terrace")
        git(folder, "config", "user.name", "Terrace developers")
        git(folder, "config", "user.email", "terrace@localhost")
        git(folder, "config", "gc.auto", "0")
        # Debian's .gitignore ignores every file; without -f git would silently add none.
        git(folder, "add", "-A", "-f")
        git(folder, "commit", "-q", "-m", f"Linux {source.version}")
        git(folder, "tag", "-f", _BASE)


def _replay(folder: Path) -> None:
    """On top of the pristine commit: one for the overlay, one for each hook."""
    names = tree.overlay_files()
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree.overlay_dir() / name, target)
        shutil.copymode(tree.overlay_dir() / name, target)
    _commit(folder, names, "overlay: all files of linux/")
    for hook in patches.hooks():
        patches.apply_patch(f"hooks/{hook.name}", hook.diff, folder)
        _commit(folder, hook.paths, patches.subject(hook))
    git(folder, "tag", "-f", _START)


def _commit(folder: Path, names: Sequence[str], message: str) -> None:
    for start in range(0, len(names), 500):
        git(folder, "add", "-f", "--", *names[start : start + 500])
    git(folder, "commit", "-q", "--allow-empty", "-m", message)


def _restart(folder: Path) -> None:
    """Make what the tree holds now, edits saved, the new starting point."""
    note = _note(folder)
    git(folder, "checkout", "-q", "-f", "-B", "terrace", _BASE)
    for name in _untracked(folder):
        (folder / name).unlink()
    _replay(folder)
    _write_note(folder, {**note, "hooks": _hook_texts()})


def _is_ours(folder: Path) -> bool:
    return (folder / ".git" / "terrace.json").is_file()


def _note(folder: Path) -> Mapping[str, object]:
    """The note on the tree; empty if the note was cut off."""
    try:
        note = json.loads((folder / ".git" / "terrace.json").read_bytes())
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def _write_note(folder: Path, note: Mapping[str, object]) -> None:
    replace(folder / ".git" / "terrace.json", json.dumps(note).encode())


def _hook_texts() -> dict[str, str]:
    return {hook.name: hook.text for hook in patches.hooks()}


def _changes(folder: Path) -> dict[str, str]:
    """Paths that differ from the starting point, committed or not, with git's letter (A, M, D)."""
    listed = git(folder, "diff", "--name-status", "--no-renames", "-z", _START, "--").split("\0")
    changes = {name: letter for letter, name in zip(listed[0::2], listed[1::2], strict=False) if name}
    return {**changes, **dict.fromkeys(_untracked(folder), "A")}


def _untracked(folder: Path) -> list[str]:
    excludes = [word for pattern in _PRODUCTS for word in ("-x", pattern)]
    return [name for name in git(folder, "ls-files", "--others", "-z", *excludes).split("\0") if name]


def _at(folder: Path, revision: str, name: str) -> bytes | None:
    """A file's content in a commit of the tree; None when it is not there."""
    shown = subprocess.run(
        ["git", "-C", str(folder), "show", f"{revision}:{name}"], capture_output=True, check=False, env=clean_env()
    )
    return shown.stdout if shown.returncode == 0 else None


def _check_unmoved(folder: Path, name: str) -> None:
    """Refuse to overwrite an overlay file that changed in the repository since the tree was made."""
    ours = tree.overlay_dir() / name
    now = ours.read_bytes() if ours.is_file() else None
    edited = (folder / name).read_bytes() if (folder / name).is_file() else None
    if now not in (_at(folder, _START, name), edited):
        raise TerraceError(f"linux/{name} changed in the repository and in {folder}: bring them together by hand")


def _save_overlay(folder: Path, name: str, letter: str, saved: Saved) -> None:
    target = tree.overlay_dir() / name
    if letter == "D":
        target.unlink(missing_ok=True)
        saved.removed.append(f"linux/{name}")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / name, target)
    shutil.copymode(folder / name, target)
    saved.written.append(f"linux/{name}")


@dataclass
class _Stack:
    """The hooks and the content of every file they touch after 0, 1, … of them."""

    hooks: list[Hook]
    states: list[dict[str, bytes]]


def _folded(folder: Path, names: Sequence[str], choice: str | None) -> _Stack:
    """The stack of hooks with the edits of the files `names` in it."""
    stack = patches.hooks()
    if choice is not None and choice not in [hook.name for hook in stack]:
        if not choice.endswith(".patch") or "/" in choice:
            raise UsageError(f"--hook {choice}: a hook is a file name in hooks/ that ends in .patch")
        stack = sorted([*stack, patches.new_hook(choice)], key=lambda hook: hook.name)
    touched = sorted({*names, *(path for hook in stack for path in hook.paths)})
    pristine = {name: _at(folder, _BASE, name) or b"" for name in touched}
    states = patches.stack_states(pristine, stack)
    for name in names:
        _fold_file(name, (folder / name).read_bytes(), _Stack(stack, states), choice)
    return _Stack(stack, states)


def _fold_file(name: str, edited: bytes, stack: _Stack, choice: str | None) -> None:
    """Fold the edits of one file into the states of `stack`."""
    versions = [state[name] for state in stack.states]
    final = versions[-1]
    owners = [i for i, hook in enumerate(stack.hooks, 1) if name in hook.paths]
    chosen = next((i for i, hook in enumerate(stack.hooks, 1) if hook.name == choice), None)
    if chosen is None and not owners:
        raise UsageError(f"{name}: no hook changes this file yet; say which shall with --hook NAME.patch")
    edits = _edits(final, edited)
    owner_of = [chosen or _owner(edit, versions, owners) for edit in edits]
    for i in range(1, len(versions)):
        part = [edit for edit, owner in zip(edits, owner_of, strict=True) if owner <= i]
        if part:
            stack.states[i][name] = _merged(name, versions[i], final, _with_edits(final, part))
    if stack.states[-1][name] != edited:
        raise BuildError(f"{name}: the hooks would not end at the edited file; edit hooks/ by hand")


def _edits(old: bytes, new: bytes) -> list[_Edit]:
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [_Edit(a, b, tuple(after[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def _with_edits(old: bytes, edits: Sequence[_Edit]) -> bytes:
    lines = old.splitlines(keepends=True)
    for edit in reversed(edits):
        lines[edit.first : edit.last] = edit.lines
    return b"".join(lines)


def _owner(edit: _Edit, versions: Sequence[bytes], owners: Sequence[int]) -> int:
    """The hook (1 is the first) whose lines in the assembled file are nearest to the edit; the last one wins a tie."""

    def distance(owner: int) -> int:
        best = len(versions[-1])
        for first, last in _lines_of(owner, versions):
            # A range that ends where the edit begins touches it.
            gap = max(first - edit.last, edit.first - last, 0)
            best = min(best, gap)
        return best

    return min(reversed(owners), key=distance)


def _lines_of(owner: int, versions: Sequence[bytes]) -> list[tuple[int, int]]:
    """Line ranges in the assembled file that hook `owner` made; an empty range is where it only removed lines."""
    ranges = [(edit.first, edit.last) for edit in _edits(versions[owner], versions[owner - 1])]
    for i in range(owner, len(versions) - 1):
        before = versions[i].splitlines(keepends=True)
        after = versions[i + 1].splitlines(keepends=True)
        blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        ranges = [(_moved(first, blocks), _moved(last, blocks)) for first, last in ranges]
    return ranges


def _moved(line: int, blocks: Sequence[tuple[str, int, int, int, int]]) -> int:
    for tag, a, b, c, d in blocks:
        if a <= line < b:
            return c + (line - a) if tag == "equal" else min(c + (line - a), d)
    return blocks[-1][4] if blocks else line


def _merged(name: str, ours: bytes, base: bytes, theirs: bytes) -> bytes:
    """`ours` with the change from `base` to `theirs`. Raises BuildError when they collide."""
    if ours == base:
        return theirs
    with tempfile.TemporaryDirectory(prefix="terrace-merge-") as scratch:
        for label, content in (("ours", ours), ("base", base), ("theirs", theirs)):
            (Path(scratch) / label).write_bytes(content)
        done = subprocess.run(
            ["git", "merge-file", "-p", "-q", "ours", "base", "theirs"],
            cwd=scratch,
            capture_output=True,
            check=False,
            env=clean_env(),
        )
    if done.returncode != 0:
        raise BuildError(f"{name}: an edit overlaps lines of several hooks; choose one with --hook, or edit by hand")
    return done.stdout


def _write_hooks(stack: _Stack, saved: Saved) -> None:
    folder = repo_root() / "hooks"
    for i, hook in enumerate(stack.hooks):
        before, after = stack.states[i], stack.states[i + 1]
        text = patches.rendered(hook, before, after)
        path = folder / hook.name
        if text is None:
            path.unlink(missing_ok=True)
            saved.removed.append(f"hooks/{hook.name}")
        elif patches.changes_something_else(hook, before, after):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            saved.written.append(f"hooks/{hook.name}")

# SPDX-License-Identifier: GPL-2.0
"""Our Linux tree: the pristine source, the overlay's files copied in, the hooks applied in the order of their names.

A file is written only when its bytes differ, so that an unchanged file keeps its time and make leaves it alone.
Hooked files are computed from saved pristine copies outside the tree; the tree never sees a half-applied hook.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from terrace.errors import BuildError
from terrace.files import replace
from terrace.host import clean_env
from terrace.kernel import source as linux_source
from terrace.kernel.patches import Hook, hooks, stack_states
from terrace.kernel.source import Source
from terrace.paths import repo_root, trees_dir

NOTES = ".terrace"
# Leftovers of editors and of user-space builds inside the overlay, for checkouts without git.
_IGNORED = re.compile(r"(.*~|\..*|.*\.(o|a|so|d|ko|cmd|orig|rej|swp|pyc)|__pycache__)")


@dataclass
class _State:
    """The contents of the tree, noted by the last assembly."""

    source: str = ""
    overlay: list[str] = field(default_factory=list)
    hooked: dict[str, str] = field(default_factory=dict)
    hooks: str = ""


def overlay_dir() -> Path:
    """The overlay: strip this and you have the path in the Linux tree."""
    return repo_root() / "linux"


def overlay_files() -> list[str]:
    """Paths in the Linux tree of all overlay files, sorted."""
    root = overlay_dir()
    if not root.is_dir():
        return []
    if (repo_root() / ".git").exists():
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."],
            capture_output=True,
            check=False,
            env=clean_env(),
        )
        if listed.returncode == 0:
            names = {name for name in listed.stdout.decode().split("\0") if name}
            return sorted(name for name in names if (root / name).is_file())
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not _IGNORED.fullmatch(name)]
        found += [str((Path(folder) / name).relative_to(root)) for name in files if not _IGNORED.fullmatch(name)]
    return sorted(found)


def content_hash(skip: Sequence[str] = ()) -> str:
    """A hash of all that our tree adds to the pristine source, but for overlay paths that start with one of `skip`."""
    digest = hashlib.sha256()
    add_content(digest, overlay_files(), hooks(), skip)
    return digest.hexdigest()


def add_content(digest: "hashlib._Hash", overlay: Sequence[str], stack: Sequence[Hook], skip: Sequence[str]) -> None:
    """Add these overlay files, without those that start with one of `skip`, and these hooks to a hash.

    Of a hook its diff: the message is in no tree.
    """
    for name in overlay:
        if not name.startswith(tuple(skip)):
            digest.update(f"{name}\0{_sha(overlay_dir() / name)}\n".encode())
    for hook in stack:
        digest.update(hook.diff.encode() + b"\0")


def stock(source: Source) -> Path:
    """The pristine tree in build/, unpacked when missing or of another source."""
    tree = trees_dir() / f"linux-stock{source.tag}"
    _ensure_unpacked(tree, source)
    return tree


def assemble(source: Source, folder: str = "linux-terrace") -> Path:
    """Our tree in build/, brought up to date with the overlay and the hooks, or another one in `folder`.

    Raises BuildError when a hook does not apply, or an overlay file exists in the pristine source.
    """
    tree = trees_dir() / f"{folder}{source.tag}"
    _ensure_unpacked(tree, source)
    state = _read_state(tree)
    names = overlay_files()
    for name in names:
        if name not in state.overlay and (tree / name).exists() and not _left_by_us(tree, name):
            raise BuildError(f"linux/{name}: this file is part of Linux {source.version}; change it with a hook")
    for name in set(state.overlay) - set(names):
        (tree / name).unlink(missing_ok=True)
    # Noted before the copies, so that an interrupted run never takes a copy for a file of Linux.
    _write_state(tree, _State(state.source, sorted({*names, *state.overlay}), state.hooked, state.hooks))
    for name in names:
        _write_if_different(tree / name, (overlay_dir() / name).read_bytes(), (overlay_dir() / name).stat().st_mode)
    try:
        hooked, mark = _apply_hooks(tree, state, set(names))
    except BuildError as error:
        raise BuildError(f"{error}\n(Linux {source.version} of {source.path})") from None
    _write_state(tree, _State(state.source, names, hooked, mark))
    return tree


def pristine_bytes(tree: Path, name: str) -> bytes:
    """The pristine content of a file of an assembled tree. Raises FileNotFoundError when Linux has no such file."""
    saved = tree / NOTES / "pristine" / name
    return saved.read_bytes() if saved.exists() else (tree / name).read_bytes()


def pristine_of(tree: Path, stack: Sequence[Hook]) -> dict[str, bytes]:
    """The pristine content of every file the hooks change. Raises BuildError for a file Linux does not have."""
    content: dict[str, bytes] = {}
    for hook in stack:
        for name in hook.paths:
            try:
                content[name] = pristine_bytes(tree, name)
            except FileNotFoundError:
                raise BuildError(f"hooks/{hook.name}: changes {name}, which this Linux does not have") from None
    return content


def _apply_hooks(tree: Path, state: _State, overlay: set[str]) -> tuple[dict[str, str], str]:
    stack = hooks()
    mark = hashlib.sha256("\0".join(f"{hook.name}\0{hook.diff}" for hook in stack).encode()).hexdigest()
    intact = all((tree / name).is_file() and _sha(tree / name) == sha for name, sha in state.hooked.items())
    if mark == state.hooks and intact:
        return state.hooked, mark
    for hook in stack:
        if own := overlay.intersection(hook.paths):
            raise BuildError(f"hooks/{hook.name}: changes {sorted(own)[0]}, a file of the overlay; change it there")
        for name in hook.paths:
            saved = tree / NOTES / "pristine" / name
            if not saved.exists() and (tree / name).is_file():
                saved.parent.mkdir(parents=True, exist_ok=True)
                # By its name it is taken for pristine: it must not be a part of the file.
                replace(saved, (tree / name).read_bytes(), (tree / name).stat().st_mode & 0o7777)
    final = stack_states(pristine_of(tree, stack), stack)[-1]
    for name in set(state.hooked) - set(final):
        _write_if_different(tree / name, pristine_bytes(tree, name))
    for name, content in final.items():
        _write_if_different(tree / name, content)
    return {name: hashlib.sha256(content).hexdigest() for name, content in final.items()}, mark


def _ensure_unpacked(tree: Path, source: Source) -> None:
    if tree.is_dir() and _read_state(tree).source == source.sha:
        return
    if tree.exists():
        shutil.rmtree(tree)
    linux_source.unpack(source, tree)
    (tree / NOTES).mkdir()
    _write_state(tree, _State(source.sha))


def _left_by_us(tree: Path, name: str) -> bool:
    """True when the file in the tree is the overlay's own, byte for byte (its note was lost)."""
    return (tree / name).is_file() and _sha(tree / name) == _sha(overlay_dir() / name)


def _read_state(tree: Path) -> _State:
    try:
        raw: Mapping[str, object] = json.loads((tree / NOTES / "state.json").read_text())
        return _State(**raw)  # type: ignore[arg-type]
    except (OSError, ValueError, TypeError):
        return _State()


def _write_state(tree: Path, state: _State) -> None:
    path = tree / NOTES / "state.json"
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(state.__dict__))
    scratch.replace(path)


def _write_if_different(path: Path, content: bytes, mode: int | None = None) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if mode is not None:
        path.chmod(mode & 0o777)


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

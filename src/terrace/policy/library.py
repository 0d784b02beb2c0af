# SPDX-License-Identifier: GPL-2.0
"""libterrace for this program: built from its sources on first use, or installed; its functions with their types."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from terrace import stored
from terrace.errors import BuildError, MissingError
from terrace.paths import build_dir, cache_dir, has_lab, repo_root

SONAME = "libterrace.so.0"
_CFLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-Iinclude")
_MAP = "libterrace.map"

_policy = ctypes.c_void_p
_uint = ctypes.c_uint
_out = ctypes.POINTER(_policy)
_result = ctypes.POINTER(ctypes.c_int)
#: Return type and argument types of each function; <terrace/policy.h> documents them.
FUNCTIONS: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "terrace_supported": (ctypes.c_int, ()),
    "terrace_policy_new": (ctypes.c_int, (_out, ctypes.c_int)),
    "terrace_policy_free": (None, (_policy,)),
    "terrace_policy_set_node": (ctypes.c_int, (_policy, _uint, _uint)),
    "terrace_policy_mode": (ctypes.c_int, (_policy,)),
    "terrace_policy_has_node": (ctypes.c_int, (_policy, _uint)),
    "terrace_policy_weight": (_uint, (_policy, _uint)),
    "terrace_policy_nodes": (_uint, (_policy,)),
    "terrace_policy_apply_thread": (ctypes.c_int, (_policy, _uint, _result)),
    "terrace_policy_apply_range": (ctypes.c_int, (_policy, ctypes.c_void_p, ctypes.c_size_t, _uint, _result)),
    "terrace_policy_read_thread": (ctypes.c_int, (_out, _uint)),
}


def load() -> ctypes.CDLL:
    """Load the library: from the sources, or the one that is installed on this machine.

    Raises MissingError without a library and a compiler to build it, BuildError with the compiler's
    messages.
    """
    try:
        library = _of_sources() if has_lab() else ctypes.CDLL(SONAME)
        for name, (returns, takes) in FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = returns, takes
    except (OSError, AttributeError) as error:
        if not has_lab():
            raise MissingError(f"libterrace is not installed ({error}); apt-get install libterrace0") from error
        raise MissingError(
            f"libterrace is not built, there is no compiler to build it, and none is installed ({error}); "
            "apt-get install gcc libc6-dev, or make -C libterrace install where there is a compiler"
        ) from error
    return library


def _of_sources() -> ctypes.CDLL:
    path = build()
    return ctypes.CDLL(str(path)) if path else _load_without_a_place()


def build() -> Path | None:
    """Build the library if its sources have changed; None without a compiler, or a folder for it.

    Raises BuildError with the compiler's messages.
    """
    name = f"libterrace-{_digest()}.so"
    folders = list(_folders())
    for folder in folders:
        if stored.is_kept(folder / name):
            return folder / name
    if shutil.which("gcc") is None:
        return None
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return _compile(folder / name)
        except OSError:
            # Read-only, like the host's files in a guest
            continue
    return None


def _folders() -> Iterator[Path]:
    """List folders for the library, as far as they exist: none in a guest that only has the host's files."""
    for place in (build_dir, cache_dir):
        with contextlib.suppress(OSError):
            yield place() / "libterrace"


def _load_without_a_place() -> ctypes.CDLL:
    """Compile for this process alone, or use the installed one. Raises OSError without either."""
    if shutil.which("gcc") is None:
        return ctypes.CDLL(SONAME)
    with tempfile.TemporaryDirectory(prefix="libterrace-") as scratch:
        return ctypes.CDLL(str(_compile(Path(scratch) / SONAME)))


def _sources() -> list[Path]:
    folder = repo_root() / "libterrace"
    return sorted([*folder.glob("src/*.[ch]"), *folder.glob("include/terrace/*.h"), folder / _MAP])


def _digest() -> str:
    digest = hashlib.sha256(" ".join((*_CFLAGS, os.uname().machine)).encode())
    for path in _sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(target: Path) -> Path:
    """Compile to a file that gets its name only when it is complete."""
    folder = repo_root() / "libterrace"
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        fresh = Path(scratch) / target.name
        words = ["gcc", *_CFLAGS, f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={_MAP}", "-o", str(fresh)]
        words += [str(path.relative_to(folder)) for path in _sources() if path.suffix == ".c"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"libterrace does not compile:\n{done.stderr.strip()}")
        stored.keep(fresh, target)
    return target

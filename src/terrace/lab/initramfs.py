# SPDX-License-Identifier: GPL-2.0
"""The small guest's initramfs: its init, compiled here, and the configuration of one run."""

import hashlib
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace import stored
from terrace.errors import BuildError
from terrace.host import require_packages
from terrace.paths import build_dir, repo_root
from terrace.policy import library

_CFLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")
#: Debian packages that compile programs of the guest.
COMPILER = ("gcc", "libc6-dev")
_LDFLAGS = ("-static", "-s")
# Warnings in public sources are not ours to repair.
_OUTSIDE_CFLAGS = ("-std=gnu99", "-O2", "-w")


@dataclass(frozen=True)
class Outside:
    """Sources of a public program that are compiled into a program of guest/; they stay where they are.

    `folder` has the C files `sources` and their headers, which the program of guest/ may include. `flags` are for
    these sources only: they replace names such as malloc by those of the program.
    """

    folder: Path
    sources: tuple[str, ...]
    flags: tuple[str, ...] = ()

    def digest(self) -> str:
        """Hash the sources, the headers and the flags. Raises BuildError for a file that cannot be read."""
        digest = hashlib.sha256(" ".join((*_OUTSIDE_CFLAGS, *self.flags)).encode())
        try:
            for path in [*(self.folder / name for name in self.sources), *sorted(self.folder.glob("*.h"))]:
                digest.update(path.read_bytes())
        except OSError as error:
            raise BuildError(f"{error.filename}: {error.strerror}") from error
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class GuestConfig:
    """Configuration of init (guest/init.c has the meaning of each field).

    `root` is ro (the host's files, read-only) or overlay (writable, changes are lost); `tty` is
    ROWSxCOLUMNS or None; `beat_ms` is the heartbeat's period in guest time; `scratch` is a tmpfs
    size (512m, 50%); `out` is the limit in bytes for files that the guest returns, None: it has no
    folder for them.
    """

    argv: Sequence[str]
    cwd: str = "/"
    env: Mapping[str, str] | None = None
    root: str = "ro"
    scratch: str = "50%"
    sysctl: Sequence[str] = ()
    tty: str | None = None
    beat_ms: int = 1000
    out: int | None = None


def encode_config(config: GuestConfig) -> bytes:
    """Encode /terrace.conf."""
    records = [("arg", word) for word in config.argv]
    records += [("env", f"{name}={value}") for name, value in (config.env or {}).items()]
    records += [("sysctl", setting) for setting in config.sysctl]
    records += [("cwd", config.cwd), ("root", config.root), ("scratch", config.scratch), ("beat", str(config.beat_ms))]
    if config.tty:
        records.append(("tty", config.tty))
    if config.out is not None:
        records.append(("out", str(config.out)))
    return b"".join(os.fsencode(f"{key}={value}") + b"\0" for key, value in records)


def compile_static(name: str, *sources: str, outside: Outside | None = None) -> Path:
    """Compile C files of guest/ (default: NAME.c) into a static program in build/, unless it is up
    to date.

    `outside` are sources that are compiled into it. Raises MissingError without a compiler, and BuildError with the
    compiler's messages.
    """
    folder = repo_root() / "guest"
    paths = [folder / source for source in sources or (f"{name}.c",)]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(_digest(path).encode())
    if outside:
        digest.update(outside.digest().encode())
    target = build_dir() / "guest" / f"{name}-{digest.hexdigest()[:16]}"
    if not stored.is_kept(target):
        require_packages(COMPILER, f"compile {name} for the guest")
        if outside:
            _compile_with(target, paths, outside)
        else:
            _gcc(target, [*_LDFLAGS, *map(str, map(_compile_object, paths))])
    return target


def _compile_with(target: Path, paths: Sequence[Path], outside: Outside) -> None:
    """Compile a program with sources from elsewhere; only the first file of guest/ sees their headers."""
    first, *others = paths
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = [Path(scratch) / f"{Path(name).stem}-outside.o" for name in outside.sources]
        for name, target_object in zip(outside.sources, made, strict=True):
            words = [*_OUTSIDE_CFLAGS, *outside.flags, "-c", str(outside.folder / name)]
            _gcc(target_object, words)
        own = Path(scratch) / f"{first.stem}.o"
        _gcc(own, [*_CFLAGS, "-I", str(outside.folder), "-c", str(first)])
        _gcc(target, [*_LDFLAGS, *map(str, [own, *made, *map(_compile_object, others)]), "-lm"])


def copy_script(name: str) -> Path:
    """Copy a script of guest/ to build/, named by its contents."""
    source = repo_root() / "guest" / name
    text = source.read_bytes()
    target = build_dir() / "guest" / f"{source.stem}-{hashlib.sha256(text).hexdigest()[:16]}{source.suffix}"
    if not stored.is_kept(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            fresh = Path(scratch) / target.name
            fresh.write_bytes(text)
            stored.keep(fresh, target)
    return target


def _digest(path: Path) -> str:
    """Hash a source file, all headers next to it and the compiler flags."""
    digest = hashlib.sha256(" ".join((*_CFLAGS, *_LDFLAGS)).encode())
    for part in [path, *sorted(path.parent.glob("*.h"))]:
        digest.update(part.read_bytes())
    return digest.hexdigest()[:16]


def _compile_object(path: Path) -> Path:
    """Compile one source file; an object that several programs use is compiled once."""
    target = build_dir() / "guest" / "objects" / f"{path.stem}-{_digest(path)}.o"
    if not stored.is_kept(target):
        _gcc(target, [*_CFLAGS, "-c", str(path)])
    return target


def _gcc(target: Path, words: Sequence[str]) -> None:
    """Run the compiler; the result gets its name only when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        fresh = Path(scratch) / target.name
        done = subprocess.run(["gcc", *words, "-o", str(fresh)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"guest: {target.name} does not compile:\n{done.stderr.strip()}")
        stored.keep(fresh, target)


def write_initramfs(path: Path, config: GuestConfig) -> None:
    """Write the archive that the kernel unpacks: init, the configuration, and a console for its messages."""
    init = compile_static("init", "init.c", "init_files.c", "init_out.c")
    # The tool in the guest finds the library and does not compile it there.
    library.build()
    path.write_bytes(
        cpio_archive(
            [
                CpioEntry("dev", stat.S_IFDIR | 0o755),
                CpioEntry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1)),
                CpioEntry("init", stat.S_IFREG | 0o755, init.read_bytes()),
                CpioEntry("terrace.conf", stat.S_IFREG | 0o644, encode_config(config)),
            ]
        )
    )


@dataclass(frozen=True)
class CpioEntry:
    """One member: path without leading slash, mode with file type, contents, device number of a node."""

    path: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def cpio_archive(entries: Iterable[CpioEntry]) -> bytes:
    """Create a cpio archive in the "newc" format, owned by root, with all times zero."""
    members = [_cpio_member(number, entry) for number, entry in enumerate(entries, start=1)]
    return b"".join([*members, _cpio_member(0, CpioEntry("TRAILER!!!", 0))])


def _cpio_member(number: int, entry: CpioEntry) -> bytes:
    name = os.fsencode(entry.path) + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)

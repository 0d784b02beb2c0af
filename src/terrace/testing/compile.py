# SPDX-License-Identifier: GPL-2.0
"""Compile the selftest programs for the guest: shared parts once, all programs in parallel."""

import hashlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from terrace import stored
from terrace.errors import BuildError
from terrace.host import cpu_count, require_packages
from terrace.paths import build_dir
from terrace.testing.programs import Program, has_main

_CFLAGS = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-static", "-pthread")
_LIBS = ("-lm",)
# Programs for another ABI than the guest's own use neither a C library nor the helpers, which need
# one.
_ABI_CFLAGS = {"i386": ("-m32",), "x32": ("-mx32",)}
_ALONE_CFLAGS = ("-ffreestanding", "-fno-stack-protector", "-fno-pie", "-no-pie", "-nostdlib")


def compile_programs(
    programs: Sequence[Program], includes: Sequence[Path] = ()
) -> Iterator[tuple[Program, Path | BuildError]]:
    """Get each program with its executable for the guest, or with the compiler's messages; in
    order.

    Compiles only changed sources. Raises MissingError if there is no compiler.
    """
    if any(program.source.suffix == ".c" for program in programs):
        require_packages(["gcc", "libc6-dev"], "compile selftests for the guest")
    with ThreadPoolExecutor(cpu_count()) as pool:
        folders = sorted({program.source.parent for program in programs if _has_helpers(program)})
        parts = [path for folder in folders for path in _helpers(folder)]
        # All shared parts before any program, so that none is compiled twice at the same time.
        made = list(pool.map(lambda path: _tried(partial(_object, path, includes)), parts))
        objects = {
            folder: [file for path, file in zip(parts, made, strict=True) if path.parent == folder]
            for folder in folders
        }
        work = partial(_program, includes=includes, objects=objects)
        yield from zip(programs, pool.map(lambda program: _tried(partial(work, program)), programs), strict=True)


def _tried(work: "partial[Path]") -> Path | BuildError:
    try:
        return work()
    except BuildError as error:
        return error


def _has_helpers(program: Program) -> bool:
    return program.source.suffix == ".c" and not program.abi


def _helpers(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.c")) if not has_main(path)]


def _program(program: Program, includes: Sequence[Path], objects: dict[Path, list[Path | BuildError]]) -> Path:
    if program.source.suffix == ".sh":
        if not program.source.stat().st_mode & 0o100:
            raise BuildError(f"{program.source} is not executable (chmod +x)")
        return program.source.resolve()
    if program.abi:
        words = [word for word in _CFLAGS if word != "-pthread"]
        return _compile(program.name, program.source, [*words, *_ABI_CFLAGS[program.abi], *_ALONE_CFLAGS])
    parts = []
    for part in objects[program.source.parent]:
        if isinstance(part, BuildError):
            raise part
        parts.append(part)
    return _compile(program.name, program.source, [*_CFLAGS, *_include_words(includes)], parts, _LIBS)


def _object(source: Path, includes: Sequence[Path]) -> Path:
    return _compile(source.stem, source, [*_CFLAGS, *_include_words(includes), "-c"], suffix=".o")


def _include_words(includes: Sequence[Path]) -> list[str]:
    return [f"-isystem{path}" for path in includes]


def _compile(
    name: str,
    source: Path,
    words: Sequence[str],
    parts: Sequence[Path] = (),
    libs: Sequence[str] = (),
    suffix: str = "",
) -> Path:
    """Compile `source` and `parts`, and keep the result under a digest of all inputs."""
    folder = source.parent
    words = [*words, f"-I{folder}"]
    digest = hashlib.sha256("\0".join([name, suffix, *words, *libs, *(part.name for part in parts)]).encode())
    for path in [source, *sorted(folder.glob("*.h"))]:
        digest.update(path.read_bytes())
    target = build_dir() / "selftests" / f"{name}-{digest.hexdigest()[:16]}{suffix}"
    if stored.is_kept(target):
        return target
    target.parent.mkdir(exist_ok=True)
    # A unique name: another run in this checkout may compile the same program.
    fresh = target.with_name(f"{target.name}.{os.getpid()}.new")
    command = ["gcc", *words, "-o", str(fresh), str(source), *map(str, parts), *libs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{source} does not compile:\n{done.stderr.strip()}")
    stored.keep(fresh, target)
    return target

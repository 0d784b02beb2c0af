# SPDX-License-Identifier: GPL-2.0
"""Build kernels: out folders inside the tree, finished kernels in the cache by the hash of all
inputs.

A kernel whose inputs were built before, here or by another checkout, is taken from the cache and
needs no make.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from terrace import stored
from terrace.errors import BuildError
from terrace.host import clean_env, cpu_count, require_packages
from terrace.kernel import config, patches, tree
from terrace.kernel import source as linux_source
from terrace.kernel.config import Flavour, Wish
from terrace.kernel.source import Source
from terrace.output import say
from terrace.paths import build_dir, cache_dir
from terrace.progress import Progress
from terrace.sysfs import to_int

PACKAGES = (
    "build-essential",
    "flex",
    "bison",
    "bc",
    "libelf-dev",
    "libssl-dev",
    "xz-utils",
    "ccache",
    "python3",
    "git",
)
_KEEP_KERNELS = 12
# Objects compiled and linked for a whole kernel, to estimate the first build; later builds use
# their own count.
_USUAL_STEPS = 2060
# No kernel contains these, so a change of them needs no new kernel.
NOT_BUILT = ("Documentation/", "tools/testing/")
# The same bytes from every build of the same source, for bloat-o-meter, ccache and the cache of
# kernels.
_FIXED = {
    "KBUILD_BUILD_USER": "terrace",
    "KBUILD_BUILD_HOST": "localhost",
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_VERSION": "1",
}


@dataclass(frozen=True)
class Kernel:
    """A finished kernel: `vmlinux` boots through PVH, `config` is its full configuration, `version` as in 6.12.117.

    `config_hash` identifies the configuration and `content_hash` everything that went in (12 hex digits each);
    `source_hash` leaves out the compiler and the linker, so that it is the same on every distribution.
    """

    vmlinux: Path
    config: Path
    version: str
    config_hash: str
    flavour: str
    content_hash: str
    source_hash: str


@dataclass(frozen=True)
class _Plan:
    """One build: its inputs, the hash of all of them, and of all but the tools."""

    flavour: Flavour
    source: Source
    wishes: dict[str, Wish]
    key: str
    source_key: str

    @property
    def cached(self) -> Path:
        return cache_dir() / "kernels" / self.key


def build(flavour: str, *, jobs: int | None = None) -> Kernel:
    """Get the kernel of `flavour`, from the cache if nothing has changed, otherwise newly built.

    `jobs` defaults to the number of CPUs. Raises UsageError (no such flavour), MissingError
    (packages), BuildError (with the compiler's messages).
    """
    chosen = config.flavour(flavour)
    require_packages(PACKAGES, "build a kernel")
    plan = _plan(chosen, linux_source.find())
    kernel = _from_cache(plan)
    if kernel is None:
        # Another checkout may be about to build the same kernel.
        with _locked(plan.cached.parent / f".{plan.key}.lock", "builds this kernel"), _tree_lock(chosen):
            kernel = _from_cache(plan)
            if kernel is None:
                _report_damage(plan)
                kernel = _build(plan, jobs or cpu_count())
    return kernel


def find_built(flavour: str) -> Kernel | None:
    """Get the kernel of `flavour` as `build` would return it, or None if the cache lacks it."""
    # The compiler is part of what identifies a kernel: without it none is found.
    require_packages(PACKAGES, "build a kernel")
    return _from_cache(_plan(config.flavour(flavour), linux_source.find()))


def content_key(flavour: str) -> str:
    """Hash all inputs of the kernel of `flavour`, including the tools."""
    require_packages(PACKAGES, "build a kernel")
    return _plan(config.flavour(flavour), linux_source.find()).key


def source_hash(flavour: str) -> str:
    """Get the `source_hash` of the kernel of `flavour` as built from this checkout; builds nothing."""
    chosen = config.flavour(flavour)
    return _source_key(chosen, linux_source.find(), config.wishes_of(chosen.fragments))


@contextmanager
def changed(flavour: str, changes: Mapping[str, bytes]) -> Iterator[Path]:
    """Get the vmlinux of `flavour` with other contents of some files, by their path in the Linux
    tree.

    It is built in a separate tree, locked against other builds of this kind until the caller has
    finished with it, and is not cached. Raises BuildError with the compiler's messages.
    """
    chosen = config.flavour(flavour)
    require_packages(PACKAGES, "build a kernel")
    plan = _plan(chosen, linux_source.find())
    with _locked(build_dir() / "changed.lock", "has a changed kernel"):
        root = tree.assemble(plan.source, "linux-changed")
        patches.write_files(root, changes)
        out = root / f"out-{flavour}"
        out.mkdir(exist_ok=True)
        _configure(plan, root, out)
        run_make(out, ["vmlinux"], f"changed {flavour} kernel", cpu_count())
        yield out / "vmlinux"


def make_command(out: Path, *words: str, localversion: str | None = None) -> list[str]:
    """Get the make command for the out folder `out`, through ccache if it is installed."""
    # Outside the configuration: there it would be in a header that every file includes, and ccache would miss.
    suffix = localversion if localversion is not None else f"-{out.name.removeprefix('out-')}"
    command = ["make", "-C", str(out.parent), f"O={out.name}", f"LOCALVERSION={suffix}"]
    if shutil.which("ccache"):
        command += ["CC=ccache gcc", "HOSTCC=ccache gcc"]
    return [*command, *words]


def make_env() -> dict[str, str]:
    """The environment of every make call: reproducible, quiet, our own ccache folder."""
    env = clean_env({**_FIXED, "CCACHE_DIR": str(cache_dir() / "ccache"), "CCACHE_NOHASHDIR": "1"})
    # Uses the compiler's list of headers: preprocessing each file first makes a build from scratch
    # a quarter longer.
    env["CCACHE_DEPEND"] = "1"
    env.setdefault("CCACHE_MAXSIZE", "5G")
    for name in (
        "MAKEFLAGS",
        "MFLAGS",
        "MAKELEVEL",
        "KCONFIG_CONFIG",
        "ARCH",
        "CROSS_COMPILE",
        "KBUILD_OUTPUT",
        "LOCALVERSION",
    ):
        env.pop(name, None)
    return env


def _plan(chosen: Flavour, source: Source) -> _Plan:
    wishes = config.wishes_of(chosen.fragments)
    digest = hashlib.sha256()
    # The name is in the kernel (uname -r).
    for part in (chosen.name, source.sha, config.render(wishes), *tools()):
        digest.update(part.encode() + b"\0")
    if chosen.patched:
        digest.update(tree.content_hash(NOT_BUILT).encode())
    return _Plan(chosen, source, wishes, digest.hexdigest()[:24], _source_key(chosen, source, wishes))


def _source_key(chosen: Flavour, source: Source, wishes: Mapping[str, Wish]) -> str:
    parts = [chosen.name, source.sha, config.render(wishes)]
    parts += [tree.content_hash(NOT_BUILT)] if chosen.patched else []
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def tools() -> tuple[str, ...]:
    """The compiler and the linker, each with its version."""
    return _tool_version("gcc"), _tool_version("ld")


def _tool_version(tool: str) -> str:
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False, env=clean_env())
    return done.stdout.partition("\n")[0]


def _from_cache(plan: _Plan) -> Kernel | None:
    """Get the kernel from the cache, None if it has none or a damaged one."""
    folder = plan.cached
    try:
        note = json.loads((folder / "kernel.json").read_bytes())
        version, config_hash = note["version"], note["config_hash"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if stored.damage(folder):
        return None
    # Recently used kernels are kept.
    with suppress(OSError):
        os.utime(folder)
    return Kernel(
        vmlinux=folder / "vmlinux",
        config=folder / "config",
        version=version,
        config_hash=config_hash,
        flavour=plan.flavour.name,
        content_hash=plan.key[:12],
        source_hash=plan.source_key,
    )


def _report_damage(plan: _Plan) -> None:
    """Print why a kernel of the cache is not used."""
    if plan.cached.is_dir():
        stored.report(plan.cached, stored.damage(plan.cached) or "kernel.json cannot be read")


def _build(plan: _Plan, jobs: int) -> Kernel:
    out = _prepared(plan)
    run_make(out, ["vmlinux"], f"{plan.flavour.name} kernel", jobs)
    _into_cache(plan, out)
    kernel = _from_cache(plan)
    assert kernel is not None
    return kernel


def prepare(flavour: str) -> Path:
    """Prepare the out folder of `flavour`, with its tree up to date and its configuration made, without a build."""
    chosen = config.flavour(flavour)
    require_packages(PACKAGES, "build a kernel")
    with _tree_lock(chosen):
        return _prepared(_plan(chosen, linux_source.find()))


def prepare_all(flavours: Iterable[str]) -> None:
    """Prepare the trees and configurations of those kernels that the cache lacks, without a build.

    With several kernels to build, a hook that does not apply to the last one is reported in
    seconds, and not after the minutes of the other builds. Raises the exceptions of `build`.
    """
    for flavour in [name for name in flavours if find_built(name) is None]:
        prepare(flavour)


def _prepared(plan: _Plan) -> Path:
    root = tree.assemble(plan.source) if plan.flavour.patched else tree.stock(plan.source)
    out = root / f"out-{plan.flavour.name}"
    out.mkdir(exist_ok=True)
    _configure(plan, root, out)
    return out


def _configure(plan: _Plan, root: Path, out: Path) -> None:
    text = config.render(plan.wishes)
    digest = hashlib.sha256(text.encode())
    # Only files called Kconfig can change the answer; the pristine ones are covered by the source's hash.
    digest.update(plan.source.sha.encode())
    if plan.flavour.patched:
        digest.update(_kconfig_hash(root).encode())
    mark = out / ".terrace-config"
    if (out / ".config").exists() and mark.exists() and mark.read_text() == digest.hexdigest():
        return
    mark.unlink(missing_ok=True)
    wanted = out / ".terrace-wishes"
    wanted.write_text(text)
    done = subprocess.run(
        make_command(out, "-s", "allnoconfig"),
        env={**make_env(), "KCONFIG_ALLCONFIG": str(wanted)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"the kernel could not be configured:\n{excerpt(done.stdout + done.stderr)}")
    config.verify(plan.wishes, out / ".config", root)
    mark.write_text(digest.hexdigest())


def _kconfig_hash(root: Path) -> str:
    digest = hashlib.sha256()
    names = {name for hook in patches.hooks() for name in hook.paths} | set(tree.overlay_files())
    for name in sorted(names):
        if Path(name).name.startswith("Kconfig"):
            digest.update(name.encode() + (root / name).read_bytes())
    return digest.hexdigest()


def run_make(
    out: Path,
    words: Sequence[str],
    label: str,
    jobs: int,
    localversion: str | None = None,
    usual_steps: float | None = _USUAL_STEPS,
) -> None:
    """Run make with progress; its whole output goes to `out`/build.log.

    The kernel's name ends with `localversion`, or with the out folder's. `usual_steps` is what a first build in `out`
    takes about, None if nobody knows.

    Raises BuildError with the part of the output that belongs to the first failing file.
    """
    counted = out / ".terrace-steps"
    fresh = not (out / "vmlinux.o").exists()
    total = _steps(counted) or usual_steps
    command = [*make_command(out, *words, localversion=localversion), f"-j{jobs}", "-Otarget"]
    steps = 0
    log = out / "build.log"
    with log.open("w") as sink, Progress(label, total if fresh else None) as progress:
        process = subprocess.Popen(
            command, env=make_env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                sink.write(line)
                if _is_step(line):
                    steps += 1
                    progress.step(note=line.strip())
        except BaseException:
            process.terminate()
            raise
        finally:
            code = process.wait()
        if code != 0:
            sink.flush()
            raise BuildError(f"{label}: the build failed:\n{excerpt(log.read_text())}\n  whole log: {log}")
    if fresh:
        counted.write_text(str(steps))


def _steps(counted: Path) -> float | None:
    """Get the steps of the last build; None if there was none, or its note was cut off."""
    try:
        return float(to_int(counted.read_text(errors="replace")) or 0) or None
    except OSError:
        return None


def _is_step(line: str) -> bool:
    """Whether this is a line of make like "  CC      mm/vmscan.o"."""
    return re.match(r"  [A-Z]\S* +\S", line) is not None


def excerpt(log: str) -> str:
    """Get the lines of the first failing target in the output of a build."""
    lines = log.splitlines()
    stars = next((i for i, line in enumerate(lines) if re.match(r"make(\[\d+\])?: \*\*\* ", line)), len(lines))
    start = stars
    while start > 0 and not _is_step(lines[start - 1]) and not lines[start - 1].startswith("make"):
        start -= 1
    block = [line for line in lines[start : stars + 1] if line.strip()]
    if len(block) > 40:
        errors = [i for i, line in enumerate(block) if "error" in line.lower() or "undefined" in line]
        first = errors[0] if errors else 0
        block = block[max(0, first - 4) : first + 30]
    return "\n".join(f"  {line}" for line in block)


def _into_cache(plan: _Plan, out: Path) -> None:
    parent = plan.cached.parent
    parent.mkdir(exist_ok=True)
    scratch = parent / f".{plan.key}.{os.getpid()}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    shutil.copy2(out / "vmlinux", scratch / "vmlinux")
    shutil.copy2(out / ".config", scratch / "config")
    shutil.copy2(out / "System.map", scratch / "System.map")
    note = {
        "version": plan.source.version,
        "config_hash": hashlib.sha256((out / ".config").read_bytes()).hexdigest()[:12],
        "flavour": plan.flavour.name,
    }
    (scratch / "kernel.json").write_text(json.dumps(note))
    stored.seal(scratch)
    shutil.rmtree(plan.cached, ignore_errors=True)
    scratch.rename(plan.cached)
    kept = sorted(parent.glob("[!.]*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in kept[_KEEP_KERNELS:]:
        shutil.rmtree(path, ignore_errors=True)
        (parent / f".{path.name}.lock").unlink(missing_ok=True)


@contextmanager
def _locked(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file `path`; print a message if another process has to finish `what` first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waits for another process that {what}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tree_lock(chosen: Flavour) -> AbstractContextManager[None]:
    """One build at a time in each tree of this checkout."""
    return _locked(build_dir() / f"{'terrace' if chosen.patched else 'stock'}.lock", "builds in this tree")

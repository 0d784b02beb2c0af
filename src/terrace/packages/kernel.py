# SPDX-License-Identifier: GPL-2.0
"""Build a Debian package of the Terrace kernel for a real machine, from its running configuration or a given one."""

import contextlib
import gzip
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from terrace import __version__, stored
from terrace.errors import BuildError, MissingError
from terrace.host import cpu_count, require_packages
from terrace.kernel import build, config, tree
from terrace.kernel.config import Wish
from terrace.kernel.source import Source
from terrace.packages import tools
from terrace.paths import build_dir, cache_dir, in_checkout, repo_root

# dwarves creates the type data (BTF) for bpftrace and others, if the configuration enables it.
PACKAGES = (*build.PACKAGES, "cpio", "dwarves", "kmod", "rsync", "debhelper", "dpkg-dev")
# A distribution's key files are not in its source package.
_LOCAL = {
    "CONFIG_SYSTEM_TRUSTED_KEYS": '""',
    "CONFIG_SYSTEM_REVOCATION_KEYS": '""',
    "CONFIG_LOCALVERSION": '""',
}
# Debian's boot menu starts the highest version by the order of package versions: 6.12.117+terrace
# is above Debian's own 6.12.117+deb12-amd64, which is above 6.12.117-terrace.
LOCALVERSION = "+terrace"
# The package with debugger data, of some hundred megabytes, is not built.
_PROFILE = "pkg.linux-upstream.nokerneldbg"
# Number of kernels whose packages stay in the cache.
_KEEP = 3


def running_config() -> tuple[str, str]:
    """Get the running kernel's configuration, and its file. Raises MissingError if there is none."""
    release = os.uname().release
    boot = Path(f"/boot/config-{release}")
    if boot.is_file():
        return boot.read_text(), str(boot)
    proc = Path("/proc/config.gz")
    if proc.is_file():
        return gzip.decompress(proc.read_bytes()).decode(), str(proc)
    raise MissingError(
        f"the configuration of the running kernel {release} is neither {boot} nor /proc/config.gz;"
        " name one with --config PATH"
    )


@dataclass(frozen=True)
class Base:
    """The base of a configuration: a kernel's (`text`), with Terrace's options on top.

    `origin` is its name for messages. `modules` lists those to keep, as lsmod prints them, of this
    machine or another; None: all.
    """

    text: str
    origin: str
    modules: str | None = None


def make(source: Source, base: Base, *, jobs: int | None = None) -> list[Path]:
    """Build linux-image (and headers) packages into build/deb, replacing older ones, and return
    their paths.

    Raises BuildError, MissingError.
    """
    require_packages(PACKAGES, "make Debian packages of the kernel")
    root = tree.assemble(source)
    out = root / "out-deb"
    out.mkdir(exist_ok=True)
    _configure(out, base, _ours())
    # Later commits have higher versions; two configurations of one commit have different ones.
    mark = hashlib.sha256((out / ".config").read_bytes()).hexdigest()[:4]
    ours = tools.version(repo_root())[0] if in_checkout() else __version__
    number = f"{source.version}-{ours}.{mark}"
    for old in root.glob("linux-*.deb"):
        old.unlink()
    words = ["bindeb-pkg", f"KDEB_PKGVERSION={number}", "KDEB_CHANGELOG_DIST=unstable", f"DPKG_FLAGS=-P{_PROFILE}"]
    label = "Debian packages of the kernel"
    build.run_make(out, words, label, jobs or cpu_count(), localversion=LOCALVERSION, usual_steps=None)
    target = build_dir() / "deb"
    target.mkdir(exist_ok=True)
    made = sorted(path for path in root.glob("linux-*.deb") if not path.name.startswith("linux-libc-dev"))
    for path in root.glob("linux-upstream_*"):
        path.unlink()
    for path in root.glob("linux-libc-dev_*.deb"):
        path.unlink()
    if not made:
        raise BuildError(f"bindeb-pkg made no package; its log: {out / 'build.log'}")
    # apt install takes all files that ./linux-image-*.deb matches.
    for old in target.glob("linux-*.deb"):
        old.unlink()
    return [Path(shutil.move(str(path), target / path.name)) for path in made]


def make_once(source: Source, base: Base, *, jobs: int | None = None) -> list[Path]:
    """Get the packages of `make`, from the cache if the same kernel was packed before: they may
    then have the version of an earlier commit.

    Raises BuildError, MissingError.
    """
    require_packages(PACKAGES, "make Debian packages of the kernel")
    digest = hashlib.sha256(tree.content_hash(build.NOT_BUILT).encode())
    for part in (source.sha, base.text, base.modules or "", config.render(_ours()), *build.tools()):
        digest.update(part.encode() + b"\0")
    folder = cache_dir() / "kernel-packages" / digest.hexdigest()[:16]
    if folder.is_dir() and (problem := stored.damage(folder)):
        stored.report(folder, problem)
        shutil.rmtree(folder, ignore_errors=True)
    if not folder.is_dir():
        made = make(source, base, jobs=jobs)
        scratch = folder.with_name(f".{folder.name}.{os.getpid()}")
        scratch.mkdir(parents=True)
        for path in made:
            shutil.copy2(path, scratch)
        stored.seal(scratch)
        # Another process may have been as fast.
        with contextlib.suppress(OSError):
            scratch.rename(folder)
        shutil.rmtree(scratch, ignore_errors=True)
        older = sorted(folder.parent.glob("[!.]*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in older[_KEEP:]:
            shutil.rmtree(path, ignore_errors=True)
    os.utime(folder)
    return sorted(folder.glob("*.deb"))


def _ours() -> dict[str, Wish]:
    """Get the options of configs/terrace.config without those for tests, which a real machine does not need."""
    merged = config.parse_fragment(config.fragment_text("terrace"), "configs/terrace.config")
    return {option: wish for option, wish in merged.items() if not re.search(r"KUNIT|_DEBUG$|LOCALVERSION", option)}


def combined(base: str, wishes: Mapping[str, Wish]) -> str:
    """Combine the configuration `base` with options for a build outside of its distribution, and `wishes` on top."""
    dropped = tuple(f"{option}=" for option in (*_LOCAL, *wishes))
    lines = [line for line in base.splitlines() if not line.startswith(dropped)]
    if "CONFIG_DEBUG_INFO_BTF=y" not in lines:
        # The type data is created from debugger data, which is useless here without it, and slow to
        # build.
        lines = [line for line in lines if not re.match(r"CONFIG_DEBUG_INFO(_\w+)?=", line)]
        lines.append("CONFIG_DEBUG_INFO_NONE=y")
    lines += [f"{option}={value}" for option, value in _LOCAL.items()]
    return "\n".join(lines) + "\n" + config.render(wishes)


def _configure(out: Path, base: Base, wishes: Mapping[str, Wish]) -> None:
    (out / ".config").write_text(combined(base.text, wishes))
    environment = build.make_env()
    targets = ["olddefconfig"]
    if base.modules is not None:
        (out / "lsmod").write_text(base.modules)
        environment["LSMOD"] = str(out / "lsmod")
        # The script selects any of several options that enable a module: the same one each time.
        environment["PERL_HASH_SEED"] = "0"
        targets.insert(0, "localmodconfig")
    for target in targets:
        done = subprocess.run(
            build.make_command(out, target),
            env=environment,
            # New questions get their default answer.
            input="\n" * 2000,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BuildError(f"{base.origin} could not be used:\n{(done.stdout + done.stderr).strip()[-1500:]}")
    config.verify(wishes, out / ".config", out.parent)

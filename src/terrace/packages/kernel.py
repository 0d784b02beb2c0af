# SPDX-License-Identifier: GPL-2.0
"""A Debian package of our kernel for a real machine, from the configuration it runs now or a given one."""

import gzip
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from terrace.errors import BuildError, MissingError
from terrace.host import cpu_count, require_packages
from terrace.kernel import build, config, tree
from terrace.kernel.config import Wish
from terrace.kernel.source import Source
from terrace.paths import build_dir

PACKAGES = (*build.PACKAGES, "cpio", "kmod", "rsync", "debhelper", "dpkg-dev")
# A distribution's key files are not in its source package, and its type data needs a tool and much memory.
_LOCAL = {
    "CONFIG_SYSTEM_TRUSTED_KEYS": '""',
    "CONFIG_SYSTEM_REVOCATION_KEYS": '""',
    "CONFIG_DEBUG_INFO_NONE": "y",
    "CONFIG_LOCALVERSION": '""',
}


def running_config() -> tuple[str, str]:
    """The running kernel's configuration, and where it was found. Raises MissingError when nothing holds it."""
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


def make(source: Source, base: str, origin: str, *, only_loaded: bool = False, jobs: int | None = None) -> list[Path]:
    """Build linux-image (and headers) packages into build/deb and return their paths.

    `base` is the configuration to start from, `origin` its name for messages; ours goes on top. `only_loaded` leaves
    out the modules that this machine has not loaded. Raises BuildError, MissingError.
    """
    require_packages(PACKAGES, "make Debian packages of the kernel")
    root = tree.assemble(source)
    out = root / "out-deb"
    out.mkdir(exist_ok=True)
    wishes = _ours()
    _configure(out, base, origin, wishes, only_loaded)
    mark = hashlib.sha256((tree.content_hash() + (out / ".config").read_text()).encode()).hexdigest()[:8]
    for old in root.glob("linux-*.deb"):
        old.unlink()
    words = ["bindeb-pkg", f"KDEB_PKGVERSION={source.version}-terrace.{mark}", "KDEB_CHANGELOG_DIST=unstable"]
    build.run_make(out, words, "Debian packages", jobs or cpu_count(), localversion="-terrace")
    target = build_dir() / "deb"
    target.mkdir(exist_ok=True)
    made = sorted(path for path in root.glob("linux-*.deb") if not path.name.startswith("linux-libc-dev"))
    for path in root.glob("linux-upstream_*"):
        path.unlink()
    for path in root.glob("linux-libc-dev_*.deb"):
        path.unlink()
    if not made:
        raise BuildError(f"bindeb-pkg made no package; its log: {out / 'build.log'}")
    return [Path(shutil.move(str(path), target / path.name)) for path in made]


def _ours() -> dict[str, Wish]:
    """The options of configs/terrace.config, but for tests: a real machine has no use for those."""
    merged = config.parse_fragment(config.fragment_text("terrace"), "configs/terrace.config")
    return {option: wish for option, wish in merged.items() if not re.search(r"KUNIT|_DEBUG$|LOCALVERSION", option)}


def combined(base: str, wishes: Mapping[str, Wish]) -> str:
    """The configuration `base` with what a build outside its distribution needs, and `wishes` on top."""
    dropped = tuple(f"{option}=" for option in (*_LOCAL, *wishes))
    lines = [line for line in base.splitlines() if not line.startswith(dropped)]
    lines = [line for line in lines if not re.match(r"CONFIG_DEBUG_INFO(_\w+)?=", line)]
    lines += [f"{option}={value}" for option, value in _LOCAL.items()]
    return "\n".join(lines) + "\n" + config.render(wishes)


def _configure(out: Path, base: str, origin: str, wishes: Mapping[str, Wish], only_loaded: bool) -> None:
    (out / ".config").write_text(combined(base, wishes))
    for target in (["localmodconfig"] if only_loaded else []) + ["olddefconfig"]:
        done = subprocess.run(
            build.make_command(out, target),
            env=build.make_env(),
            # New questions get their default answer.
            input="\n" * 2000,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BuildError(f"{origin} could not be used:\n{(done.stdout + done.stderr).strip()[-1500:]}")
    config.verify(wishes, out / ".config", out.parent)

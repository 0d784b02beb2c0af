# SPDX-License-Identifier: GPL-2.0
"""Compile other configurations than the lab's: with single options of Linux or the overlay off, and
one with modules.

Each variant compiles mm and the other objects that hooks change, and links nothing; a warning is an
error. The modular variant is linked, and its modules go through modpost, like those of a
distribution.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import BuildError
from terrace.host import cpu_count
from terrace.kernel import build, config, tree
from terrace.kernel.config import Wish
from terrace.kernel.source import Source

_FRAGMENTS = ("series", "terrace")
#: Objects that a variant compiles, and the option that each object needs.
_OBJECTS = (
    ("mm/", ""),
    ("kernel/sched/", ""),
    ("kernel/fork.o", ""),
    ("kernel/sys.o", ""),
    ("kernel/time/timer.o", ""),
    ("fs/inode.o", ""),
    ("fs/open.o", ""),
    ("kernel/cgroup/cpuset.o", "CPUSETS"),
    ("kernel/cgroup/numa_balancing.o", "NUMA_SCAN_CPUSET"),
    ("kernel/cgroup/numa_follow.o", "NUMA_FOLLOW"),
    ("fs/proc/task_mmu.o", "PROC_PAGE_MONITOR"),
    ("drivers/base/node.o", "NUMA"),
)
_OURS = (
    "MTIER",
    "MEMPOLICY2",
    "TLB_DEFER",
    "NUMA_SCAN_MODES",
    "NUMA_FOLLOW",
    "MAPPED_FILE_POLICY",
)
#: Modules that call functions changed by hooks in headers: get_write_access() is in overlayfs and
#: nfsd.
_MODULAR = (
    "MODULES=y",
    "NET=y",
    "INET=y",
    "INOTIFY_USER=y",
    "NETWORK_FILESYSTEMS=y",
    "BLK_DEV=y",
    "OVERLAY_FS=m",
    "NFSD=m",
    "EXT4_FS=m",
    "FUSE_FS=m",
    "BLK_DEV_LOOP=m",
)
MODULAR = "modular"


def _only(*kept: str) -> tuple[str, ...]:
    return tuple(f"{option}=n" for option in _OURS if option not in kept)


#: Options that differ from the fragments, by name.
VARIANTS: dict[str, tuple[str, ...]] = {
    "no-balancing": ("NUMA_BALANCING=n",),
    "no-numa": ("NUMA=n",),
    "no-smp": ("SMP=n", "NUMA=n"),
    "jump-label": ("JUMP_LABEL=y",),
    "no-huge-pages": ("TRANSPARENT_HUGEPAGE=n", "HUGETLBFS=n"),
    "no-swap": ("SWAP=n",),
    "no-memcg": ("MEMCG=n",),
    "no-debugfs": ("DEBUG_FS=n",),
    "preempt": ("PREEMPT=y",),
    "only-mtier": _only("MTIER"),
    "only-mempolicy2": _only("MEMPOLICY2"),
    "only-tlb-defer": _only("TLB_DEFER"),
    "only-scan-modes": _only("NUMA_SCAN_MODES"),
    "only-follow": _only("NUMA_FOLLOW", "MEMPOLICY2"),
    "only-file-policy": _only("MAPPED_FILE_POLICY"),
}


@dataclass(frozen=True)
class _Asked:
    """A configuration: all requested options, and those that Kconfig must accept."""

    wishes: dict[str, Wish]
    needed: dict[str, Wish]


def names() -> list[str]:
    """Names of all variants; the modular one last, since it takes longest."""
    return [*VARIANTS, MODULAR]


def check(name: str, source: Source) -> list[str]:
    """Check one configuration, and return a line for each error."""
    root = tree.assemble(source)
    try:
        if name == MODULAR:
            _link(root)
        else:
            _compile(root, name)
    except BuildError as error:
        return str(error).splitlines()
    return []


def asked(name: str) -> _Asked:
    """Get the options of one configuration."""
    changed = _MODULAR if name == MODULAR else VARIANTS[name]
    needed = {}
    for text in changed:
        option, _, value = text.partition("=")
        needed[f"CONFIG_{option}"] = Wish(None if value == "n" else value, f"kernel/matrix.py: {name}")
    return _Asked({**config.wishes_of(_FRAGMENTS), **needed}, needed)


def _configure(root: Path, out: Path, name: str) -> None:
    out.mkdir(exist_ok=True)
    what = asked(name)
    wanted = out / ".terrace-wishes"
    wanted.write_text(config.render(what.wishes))
    _make(out, "allnoconfig", allconfig=wanted)
    # Options that depend on a disabled one are disabled with it; the listed options must be as
    # requested.
    config.verify(what.needed, out / ".config", root)


def _compile(root: Path, name: str) -> None:
    out = root / "out-matrix"
    _configure(root, out, name)
    chosen = (out / ".config").read_text()
    targets = [path for path, option in _OBJECTS if not option or f"CONFIG_{option}=y\n" in chosen]
    _make(out, "prepare", *targets)


def _link(root: Path) -> None:
    out = root / f"out-{MODULAR}"
    _configure(root, out, MODULAR)
    build.run_make(out, ["vmlinux", "modules"], "kernel with modules", cpu_count())


def _make(out: Path, *targets: str, allconfig: Path | None = None) -> None:
    env = build.make_env()
    if allconfig is not None:
        env["KCONFIG_ALLCONFIG"] = str(allconfig)
    done = subprocess.run(
        [*build.make_command(out, "-s", *targets), f"-j{cpu_count()}", "-Otarget"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"make {' '.join(targets)}:\n{_told(done.stdout)}")
    if allconfig is None and (warning := re.search(r"^.*\bwarning: .*$", done.stdout, re.MULTILINE)):
        raise BuildError(warning[0])


def _told(log: str) -> str:
    """Get the compiler's own messages: with -s, make prints no lines around them."""
    errors = [line for line in log.splitlines() if re.search(r"\berror\b|undefined|\*\*\*", line, re.IGNORECASE)]
    return "\n".join(f"  {line}" for line in (errors or log.splitlines())[:30])

# SPDX-License-Identifier: GPL-2.0
"""Other architectures than the lab's: compile the overlay's objects, and check the tables of system
calls.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import BuildError
from terrace.host import cpu_count
from terrace.kernel import build, config, tree
from terrace.kernel.source import Source

#: System calls that every table must have.
_CALLS = ("set_mempolicy2", "get_mempolicy2", "mbind2")
#: Folders of the overlay that support every architecture, and the objects that they change.
_OURS = ("mempolicy2", "follow", "file_policy")
_OBJECTS = (
    *(f"mm/{name}/" for name in _OURS),
    *(
        f"mm/{name}.o"
        for name in ("mempolicy", "memory", "huge_memory", "filemap", "readahead", "memcontrol", "vmstat")
    ),
    *("kernel/sched/core.o", "kernel/sched/fair.o", "kernel/cgroup/cpuset.o"),
    *("kernel/cgroup/numa_balancing.o", "kernel/cgroup/numa_follow.o"),
    *("fs/inode.o", "fs/proc/task_mmu.o", "drivers/base/node.o"),
)
#: Options that compile the overlay.
_OPTIONS = (
    "MEMPOLICY2",
    "NUMA_FOLLOW",
    "MAPPED_FILE_POLICY",
    "NUMA_SCAN_MODES",
)


@dataclass(frozen=True)
class Arch:
    """One architecture; without `package`, the cross compiler, only its tables are built."""

    name: str
    prefix: str = ""
    package: str = ""
    tables: tuple[str, ...] = ()
    #: Objects of the tables, and the prefix of calls in each.
    table_objects: tuple[tuple[str, str], ...] = ()


ARCHES = (
    Arch(
        "arm64",
        "aarch64-linux-gnu-",
        "gcc-aarch64-linux-gnu",
        ("asm/syscall_table_64.h", "asm/syscall_table_32.h", "asm/unistd_32.h", "uapi/asm/unistd_64.h"),
        (("arch/arm64/kernel/sys.o", "__arm64_sys_"), ("arch/arm64/kernel/sys32.o", "__arm64_sys_")),
    ),
    Arch(
        "riscv",
        "riscv64-linux-gnu-",
        "gcc-riscv64-linux-gnu",
        ("asm/syscall_table_64.h", "asm/syscall_table_32.h", "uapi/asm/unistd_64.h", "uapi/asm/unistd_32.h"),
        (("arch/riscv/kernel/syscall_table.o", "__riscv_sys_"),),
    ),
    # Debian's stable release has no compiler for it.
    Arch("loongarch", tables=("asm/syscall_table_64.h", "uapi/asm/unistd_64.h")),
)


#: The packages of all cross compilers.
PACKAGES = tuple(arch.package for arch in ARCHES if arch.package)


def check_all(source: Source) -> list[str]:
    """Check all architectures, and return a line for each error."""
    root = tree.assemble(source)
    return [f"{arch.name}: {problem}" for arch in ARCHES for problem in _check(arch, root)]


def _check(arch: Arch, root: Path) -> list[str]:
    out = root / f"out-{arch.name}"
    out.mkdir(exist_ok=True)
    wanted = out / ".terrace-wishes"
    wanted.write_text(config.fragment_text("arch"))
    _make(arch, out, "allnoconfig", env={"KCONFIG_ALLCONFIG": str(wanted)})
    chosen = (out / ".config").read_text()
    if refused := [option for option in _OPTIONS if f"CONFIG_{option}=y" not in chosen]:
        return [f"the kernel does not take CONFIG_{option}=y" for option in refused]
    # Without a compiler, Kconfig's checks of the compiler do not matter: tables are text.
    _make(arch, out, "syncconfig")
    _make(arch, out, "asm-generic")
    problems = [
        line for name in arch.tables for line in _missing_in_table(out / f"arch/{arch.name}/include/generated", name)
    ]
    if arch.package:
        objects = [name for name, _ in arch.table_objects]
        _make(arch, out, "prepare", *_OBJECTS, *objects)
        for name, prefix in arch.table_objects:
            problems += _missing_in_object(arch, out / name, prefix)
    return problems


def _missing_in_table(folder: Path, name: str) -> list[str]:
    """List what a table (__SYSCALL(960, sys_set_mempolicy2)) or a list (#define __NR_set_mempolicy2
    960) lacks.
    """
    text = (folder / name).read_text()
    return [
        f"{name} does not have {call} as {number}"
        for number, call in enumerate(_CALLS, 960)
        if not re.search(rf"^(?:__SYSCALL\w*\({number}, sys_{call}|#define __NR_{call} {number}$)", text, re.MULTILINE)
    ]


def _missing_in_object(arch: Arch, path: Path, prefix: str) -> list[str]:
    done = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=False)
    names = set(done.stdout.split())
    return [f"{path.name} does not call {prefix}{call}" for call in _CALLS if f"{prefix}{call}" not in names]


def _make(arch: Arch, out: Path, *targets: str, env: dict[str, str] | None = None) -> None:
    command = ["make", "-s", "-C", str(out.parent), f"O={out.name}", f"ARCH={arch.name}", f"-j{cpu_count()}"]
    command += [f"CROSS_COMPILE={arch.prefix}", *targets]
    done = subprocess.run(
        command,
        env={**build.make_env(), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"make ARCH={arch.name} {' '.join(targets)}:\n{build.excerpt(done.stdout)}")
    if warning := re.search(r"^.*\bwarning: .*$", done.stdout, re.MULTILINE):
        raise BuildError(f"make ARCH={arch.name}: {warning[0]}")

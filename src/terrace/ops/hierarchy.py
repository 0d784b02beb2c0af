# SPDX-License-Identifier: GPL-2.0
"""Find the mount point of cgroup v2, and the reason why cgroups cannot be shown on a machine without it.

systemd mounts cgroup v2 at /sys/fs/cgroup ("unified"), cgroup v1 at /sys/fs/cgroup/CONTROLLER ("legacy"), or both with
v2 at /sys/fs/cgroup/unified ("hybrid"). In hybrid mode the memory controller belongs to v1. Without systemd v2 can be
mounted anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from terrace.ops.knob_table import CGROUPS
from terrace.sysfs import KernelFiles

Version = Literal["v2", "hybrid", "v1", "none"]
_MOUNTS = "proc/self/mountinfo"
_ESCAPE = re.compile(r"\\([0-7]{3})")
#: Parameters of the kernel and of systemd that select cgroup v2.
_TO_V2 = "boot with systemd.unified_cgroup_hierarchy=1 (without systemd: cgroup_no_v1=all, and mount cgroup2)"


@dataclass(frozen=True)
class Hierarchy:
    """The cgroups of a machine."""

    version: Version
    #: Mount point of cgroup v2, as a path of KernelFiles; None if it is not mounted.
    folder: str | None
    #: Controllers of cgroup v2.
    controllers: tuple[str, ...] = ()
    #: The reason why the memory of cgroups cannot be shown; None if it can.
    problem: str | None = None


def find(files: KernelFiles) -> Hierarchy:
    """Find the cgroups below the root folder of ``files``."""
    if files.exists(f"{CGROUPS}/cgroup.controllers"):
        return _version2(files, CGROUPS, mixed=False)
    mounted = _mounts(files)
    mixed = "cgroup" in mounted.values() or files.exists(f"{CGROUPS}/memory/cgroup.procs")
    for folder in (f"{CGROUPS}/unified", *(place for place, kind in mounted.items() if kind == "cgroup2")):
        if files.exists(f"{folder}/cgroup.controllers"):
            return _version2(files, folder, mixed)
    if mixed:
        return Hierarchy("v1", None, problem=f"this machine has cgroup v1 alone; {_TO_V2}")
    return Hierarchy("none", None, problem=f"no cgroup file system is mounted; mount -t cgroup2 none /{CGROUPS}")


def _version2(files: KernelFiles, folder: str, mixed: bool) -> Hierarchy:
    controllers = tuple((files.get(f"{folder}/cgroup.controllers") or "").split())
    version: Version = "hybrid" if mixed else "v2"
    return Hierarchy(version, folder, controllers, _problem(files, folder, controllers, mixed))


def _problem(files: KernelFiles, folder: str, controllers: tuple[str, ...], mixed: bool) -> str | None:
    if "memory" not in controllers:
        if mixed:
            return f"the memory controller is in cgroup v1, not in cgroup v2 at /{folder}; {_TO_V2}"
        return f"cgroup v2 at /{folder} has no memory controller; boot without cgroup_disable=memory (CONFIG_MEMCG)"
    enabled = files.get(f"{folder}/cgroup.subtree_control")
    if enabled is not None and "memory" not in enabled.split():
        return f"no cgroup has the memory controller; echo +memory >/{folder}/cgroup.subtree_control"
    return None


def _mounts(files: KernelFiles) -> dict[str, str]:
    """Read file system types (cgroup, cgroup2) by mount point, as paths of KernelFiles."""
    found: dict[str, str] = {}
    for line in (files.get(_MOUNTS) or "").splitlines():
        mount, _, source = line.partition(" - ")
        words, kind = mount.split(" "), source.partition(" ")[0]
        if kind in ("cgroup", "cgroup2") and len(words) > 4:
            found[_ESCAPE.sub(lambda code: chr(int(code[1], 8)), words[4]).lstrip("/")] = kind
    return found


def cgroup_of(files: KernelFiles, task: int) -> str:
    """Get the cgroup that is charged for the memory of a task, without the leading slash; empty for
    the root.

    It is of cgroup v1 if that has the memory controller, otherwise of cgroup v2.
    """
    found = ""
    for line in (files.get(f"proc/{task}/cgroup") or "").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if "memory" in controllers.split(","):
            return path.removeprefix("/")
        if not controllers and line.startswith("0::"):
            found = path.removeprefix("/")
    return found


def is_below(name: str, top: str) -> bool:
    """Whether a cgroup is ``top`` or below it; every cgroup is below the root, which is empty."""
    return not top or name == top or name.startswith(f"{top}/")


def folders(files: KernelFiles, folder: str) -> list[str]:
    """List the folders inside a folder: the children of a cgroup."""
    return [name for name in files.names(folder) if files.real_path(f"{folder}/{name}").is_dir()]

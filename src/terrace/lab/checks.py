# SPDX-License-Identifier: GPL-2.0
"""Checks of a host that builds kernels and boots them in QEMU, each with its fix."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from terrace.host import missing_packages
from terrace.kernel.build import PACKAGES
from terrace.kernel.source import VARIABLE
from terrace.ops.checks import Check, Status
from terrace.sysfs import KernelFiles
from terrace.units import format_size

GIB = 1 << 30
#: Space for the source trees and four built kernels, and for a minimal start.
DISK_GOOD, DISK_LEAST = 12 * GIB, 5 * GIB
MEMORY_GOOD, MEMORY_LEAST = 4 * GIB, 2 * GIB


def lab_checks(files: KernelFiles, folder: Path) -> list[Check]:
    """Check whether this host can build kernels in ``folder`` and boot them in QEMU."""
    return [
        _python(),
        _qemu(),
        _tools(),
        _kernel_source(files),
        _disk(folder),
        _memory(files),
        _cpus(),
        _kvm(files),
    ]


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        return _to_install("python", f"python3 {version} cannot make virtual environments", "python3-venv")
    return Check("python", "lab", "ok", f"python3 {version}")


def _to_install(name: str, message: str, packages: str) -> Check:
    """List missing Debian packages: terrace installs them itself if it can."""
    command = f"apt-get install {packages}"
    able = shutil.which("apt-get") and (os.geteuid() == 0 or shutil.which("sudo"))
    if able:
        fix = f"terrace asks and installs it when first needed (--yes: unasked); or now, as root: {command}"
        return Check(name, "lab", "warn", message, fix)
    return Check(name, "lab", "fail", message, f"as root: {command} (or the name on your system)")


def _qemu() -> Check:
    path = shutil.which("qemu-system-x86_64")
    if path is None:
        return _to_install("qemu", "there is no qemu-system-x86_64", "qemu-system-x86")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"version (\d+)\.(\d+)\S*", done.stdout)
    if done.returncode != 0 or match is None:
        return Check("qemu", "lab", "fail", f"{path} --version does not work", "reinstall qemu-system-x86")
    number = (int(match[1]), int(match[2]))
    if number < (7, 2):
        return Check("qemu", "lab", "fail", f"QEMU is {number[0]}.{number[1]}", "needed is 7.2 or later")
    return Check("qemu", "lab", "ok", f"QEMU {match[0].removeprefix('version ')}")


#: Programs to look for on a host without dpkg: a kernel build needs them.
BUILD_PROGRAMS = ("gcc", "make", "flex", "bison", "bc", "perl", "patch", "git")


def _tools() -> Check:
    if shutil.which("dpkg-query") is None:
        missing = [program for program in BUILD_PROGRAMS if shutil.which(program) is None]
    else:
        missing = missing_packages(PACKAGES)
    if missing:
        return _to_install("build-tools", f"missing to build kernels: {', '.join(missing)}", " ".join(missing))
    return Check("build-tools", "lab", "ok", "compiler and build tools are there")


def _kernel_source(files: KernelFiles) -> Check:
    if named := os.environ.get(VARIABLE):
        status: Status = "ok" if Path(named).exists() else "fail"
        return Check("kernel-source", "lab", status, f"${VARIABLE}: {named}", "" if status == "ok" else "no such file")
    found = [name for name in files.names("usr/src") if re.fullmatch(r"linux-source-6\.12(\.tar\.\w+)?", name)]
    if found:
        return Check("kernel-source", "lab", "ok", f"/usr/src/{found[-1]}")
    return _to_install(
        "kernel-source",
        "linux-source-6.12 is not installed (or name a Linux 6.12.y: --linux PATH)",
        "linux-source-6.12",
    )


def _disk(folder: Path) -> Check:
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    message = f"{format_size(free)} free for {folder}"
    return _amount("disk", free, DISK_GOOD, DISK_LEAST, message, "free some, or check out on a larger file system")


def _memory(files: KernelFiles) -> Check:
    match = re.search(r"^MemAvailable:\s+(\d+) kB", files.get("proc/meminfo") or "", re.MULTILINE)
    if match is None:
        return Check("memory", "lab", "warn", "free memory cannot be read (/proc/meminfo)")
    free = int(match[1]) * 1024
    return _amount(
        "memory", free, MEMORY_GOOD, MEMORY_LEAST, f"{format_size(free)} of memory available", "end programs"
    )


def _amount(name: str, have: int, good: int, least: int, message: str, fix: str) -> Check:
    if have >= good:
        return Check(name, "lab", "ok", message)
    status: Status = "warn" if have >= least else "fail"
    return Check(
        name, "lab", status, f"{message}; {format_size(good)} is comfortable, {format_size(least)} the least", fix
    )


def _cpus() -> Check:
    count = len(os.sched_getaffinity(0))
    if count < 2:
        return Check("cpus", "lab", "warn", "1 CPU: a first kernel build takes about 10 min", "")
    return Check("cpus", "lab", "ok", f"{count} CPUs")


def _kvm(files: KernelFiles) -> Check:
    if not files.exists("dev/kvm"):
        return Check("kvm", "lab", "ok", "no /dev/kvm: QEMU emulates (TCG), which the lab uses in any case")
    return Check("kvm", "lab", "ok", "/dev/kvm is there; it is used with --accel kvm once a probe guest has booted")

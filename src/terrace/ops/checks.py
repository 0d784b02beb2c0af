# SPDX-License-Identifier: GPL-2.0
"""Checks of a machine that runs the kernel, and of a host that runs the lab, each with its fix."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from terrace.host import missing_packages
from terrace.kernel.build import PACKAGES
from terrace.ops import counters
from terrace.ops.daemons import ENGINE
from terrace.ops.diagnose import HOW_TO_KERNEL, Reason, diagnose
from terrace.ops.probe import Feature, Prober
from terrace.ops.snapshot import Snapshot, change
from terrace.sysfs import KernelFiles
from terrace.units import format_size

Status = Literal["ok", "warn", "fail"]

GIB = 1 << 30
#: Room of the source trees and four built kernels, and of a small start.
DISK_GOOD, DISK_LEAST = 12 * GIB, 5 * GIB
MEMORY_GOOD, MEMORY_LEAST = 4 * GIB, 2 * GIB


@dataclass(frozen=True)
class Check:
    """One thing looked at. ``role``: ``machine`` (runs the kernel) or ``lab`` (runs QEMU)."""

    id: str
    role: str
    status: Status
    message: str
    fix: str = ""


def machine_checks(files: KernelFiles, prober: Prober, now: Snapshot) -> list[Check]:
    """Is this machine fit to promote, and is it set up for it?"""
    grown = change(None, now)
    reasons = {reason.id: reason for reason in diagnose(now, grown)}
    checks = [_kernel(now), _tiers(now, reasons)]
    features = {feature.name: feature for feature in prober.all()}
    if now.engine:
        checks.append(_enabled(now))
        checks += _engine_parts(now, features)
        checks.append(_balancing(now))
    if now.slow_nodes:
        checks.append(_demotion(now))
        checks.append(_hmat(features["hmat"]))
        checks += [_from_reason(reasons[name]) for name in ("kswapd_gave_up", "slow_full") if name in reasons]
    checks.append(_root())
    return checks


def _kernel(now: Snapshot) -> Check:
    if now.engine:
        return Check("kernel", "machine", "ok", f"Linux {now.release} has the promotion engine")
    return Check(
        "kernel",
        "machine",
        "fail",
        f"Linux {now.release} is not a Terrace kernel (CONFIG_MTIER); needed is 6.12 LTS with our changes",
        f"build a Debian package of it with `./terrace kernel deb` and install it: {HOW_TO_KERNEL}",
    )


def _tiers(now: Snapshot, reasons: dict[str, Reason]) -> Check:
    for name in ("one_node", "no_tiers", "one_tier", "all_top_tier"):
        if name in reasons:
            return _from_reason(reasons[name], "tiers")
    nodes = ", ".join(f"node {node.node} ({node.tier})" for node in now.slow_nodes)
    return Check("tiers", "machine", "ok", f"slow memory: {nodes}")


def _from_reason(reason: Reason, name: str = "") -> Check:
    status: dict[str, Status] = {"error": "fail", "warn": "warn", "info": "ok"}
    return Check(name or reason.id, "machine", status[reason.severity], reason.message, reason.fix)


def _enabled(now: Snapshot) -> Check:
    if now.enabled is None:
        return Check("enabled", "machine", "warn", "whether the engine is on cannot be read", "run as root")
    if now.enabled:
        return Check("enabled", "machine", "ok", f"the engine is on, its state is {now.state or 'unreadable'}")
    return Check("enabled", "machine", "warn", "the engine is off", "terrace set enabled 1")


def _engine_parts(now: Snapshot, features: dict[str, Feature]) -> Iterator[Check]:
    for name in ("mtier-prctl", "mtier-tracepoints"):
        feature = features[name]
        if feature.present:
            yield Check(name, "machine", "ok", feature.detail)
        else:
            yield Check(name, "machine", "warn", feature.detail, f"needed to {feature.purpose}")
    named = {daemon.name for daemon in now.daemons}
    if now.enabled and any(name.startswith("kswapd") for name in named) and ENGINE not in named:
        yield Check(
            ENGINE,
            "machine",
            "warn" if not now.slow_nodes else "fail",
            f"the engine is on, but no {ENGINE} thread runs",
            "see the kernel log (dmesg); switch off and on: terrace set enabled 0; terrace set enabled 1",
        )
    lost = counters.unaccounted(now.counters)
    if lost is not None:
        yield _balance(now.counters["mtier_taken"], lost)


def _balance(taken: int, lost: int) -> Check:
    """Does every folio that was to go up have its one end? A batch may be under way while counters are read."""
    if abs(lost) <= counters.BATCH_FOLIOS:
        return Check("balance", "machine", "ok", f"each of the {taken} folios that were to go up has its counted end")
    message = f"{taken} folios were to go up, and {taken - lost} ends are counted (promoted, drop and fail)"
    return Check("balance", "machine", "warn", message, "a bug of the kernel: report it with terrace status --json")


def _balancing(now: Snapshot) -> Check:
    mode = now.numa_balancing or 0
    if mode & 2 and now.enabled:
        return Check(
            "numa_balancing",
            "machine",
            "warn",
            f"numa_balancing is {mode}: its hint faults cost what faults cost, and promote nothing beside the engine",
            f"terrace set numa_balancing {mode & 1}",
        )
    if mode & 2:
        return Check("numa_balancing", "machine", "ok", f"numa_balancing is {mode}: hint faults promote hot pages")
    return Check(
        "numa_balancing", "machine", "ok", "no hint faults for promotion: the engine looks for hot pages alone"
    )


def _demotion(now: Snapshot) -> Check:
    if now.demotion_enabled:
        return Check("demotion", "machine", "ok", "demotion is on: reclaim makes room in fast memory")
    return Check(
        "demotion",
        "machine",
        "warn",
        "demotion is off: once fast memory is full, promotion stops",
        "terrace set demotion_enabled 1",
    )


def _hmat(feature: Feature) -> Check:
    if feature.present:
        return Check("hmat", "machine", "ok", feature.detail)
    return Check(
        "hmat",
        "machine",
        "warn",
        "the kernel knows no latency or bandwidth of the nodes; tiers come from defaults",
        "a firmware that describes them (ACPI HMAT, CXL CDAT) and CONFIG_ACPI_HMAT",
    )


def _root() -> Check:
    if os.geteuid() == 0:
        return Check("root", "machine", "ok", "running as root: knobs can be set")
    return Check("root", "machine", "warn", "not running as root: knobs cannot be set, some files not read", "sudo")


def lab_checks(files: KernelFiles, folder: Path) -> list[Check]:
    """Can this host build kernels into ``folder`` and boot them in QEMU?"""
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
    """Missing Debian packages: terrace gets them itself where it can."""
    command = f"apt-get install {packages}"
    able = shutil.which("apt-get") and (os.geteuid() == 0 or shutil.which("sudo"))
    if able:
        fix = f"terrace asks and installs it when first needed (--yes: unasked); or now, as root: {command}"
        return Check(name, "lab", "warn", message, fix)
    return Check(name, "lab", "fail", message, f"as root: {command} (or what your system calls it)")


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


#: Looked for where there is no dpkg: what building a kernel takes.
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
    found = [name for name in files.names("usr/src") if re.fullmatch(r"linux-source-6\.12(\.tar\.\w+)?", name)]
    if found:
        return Check("kernel-source", "lab", "ok", f"/usr/src/{found[-1]}")
    return _to_install(
        "kernel-source", "linux-source-6.12 is not installed (or give a 6.12.y tree: --linux PATH)", "linux-source-6.12"
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
        return Check("kvm", "lab", "ok", "no /dev/kvm: QEMU emulates (TCG), which is what the lab uses anyway")
    return Check("kvm", "lab", "ok", "/dev/kvm is there; it is used with --accel kvm once a probe guest has booted")

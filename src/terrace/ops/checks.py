# SPDX-License-Identifier: GPL-2.0
"""Checks of a machine that runs the kernel, each with its fix."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from terrace.ops import counters
from terrace.ops.daemons import ENGINE
from terrace.ops.devices import AUTO_ONLINE
from terrace.ops.diagnose import HOW_TO_KERNEL, Reason, diagnose
from terrace.ops.probe import Feature, Prober
from terrace.ops.snapshot import Snapshot, change
from terrace.paths import document
from terrace.sysfs import KernelFiles

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """One check. ``role``: ``machine`` (runs the kernel) or ``lab`` (runs QEMU)."""

    id: str
    role: str
    status: Status
    message: str
    fix: str = ""


def machine_checks(files: KernelFiles, prober: Prober, now: Snapshot) -> list[Check]:
    """Check whether this machine can promote, and is set up for it."""
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
    checks += _devices(now, reasons)
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
        f"make a package of it with `./terrace deb kernel` in a checkout, and install it: {document(HOW_TO_KERNEL)}",
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
        return Check("enabled", "machine", "warn", "the state of promotion cannot be read", "run as root")
    if now.enabled:
        return Check("enabled", "machine", "ok", f"promotion is on, its state is {now.state or 'unreadable'}")
    return Check("enabled", "machine", "warn", "promotion is off", "terrace set enabled 1")


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
            f"promotion is on, but no {ENGINE} thread runs",
            "see the kernel log (dmesg); switch off and on: terrace set enabled 0; terrace set enabled 1",
        )
    lost = counters.unaccounted(now.counters)
    if lost is not None:
        yield _balance(now.counters["mtier_taken"], lost)


def _balance(taken: int, lost: int) -> Check:
    """Check that every selected folio has one result. A batch may be in progress while counters are read."""
    if abs(lost) <= counters.BATCH_FOLIOS:
        return Check("balance", "machine", "ok", f"each of the {taken} selected folios has its counted result")
    message = f"{taken} folios were selected, and {taken - lost} results are counted (promoted, drop and fail)"
    return Check("balance", "machine", "warn", message, "a bug of the kernel: report it with terrace status --json")


def _balancing(now: Snapshot) -> Check:
    mode = now.numa_balancing or 0
    if mode & 2 and now.enabled:
        return Check(
            "numa_balancing",
            "machine",
            "warn",
            f"numa_balancing is {mode}: its hint faults have a cost, and promote nothing while mm/mtier runs",
            f"terrace set numa_balancing {mode & 1}",
        )
    if mode & 2:
        return Check("numa_balancing", "machine", "ok", f"numa_balancing is {mode}: hint faults promote hot pages")
    return Check("numa_balancing", "machine", "ok", "no hint faults for promotion: only scans find hot pages")


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


def _devices(now: Snapshot, reasons: dict[str, Reason]) -> Iterator[Check]:
    """List the devices of nodes and the zones of their memory, then their problems."""
    zones = {one.node: one for one in now.devices.zones}
    for node in now.devices.nodes:
        names = ", ".join(one.title for one in now.devices.of_node(node))
        where = f"; its blocks: {zones[node].text}" if node in zones else ""
        yield Check("devices", "machine", "ok", f"memory of node {node} is from {names}{where}")
    if now.devices.dax and now.devices.auto_online is not None:
        message = f"memory that is added later: {now.devices.auto_online} (/{AUTO_ONLINE})"
        yield Check("auto_online", "machine", "ok", message)
    for name in ("dax_not_memory", "memory_offline", "memory_not_movable", "cxl_no_region"):
        if name in reasons:
            yield _from_reason(reasons[name])


def _hmat(feature: Feature) -> Check:
    if feature.present:
        return Check("hmat", "machine", "ok", feature.detail)
    return Check(
        "hmat",
        "machine",
        "warn",
        "the kernel has no latency or bandwidth of the nodes; tiers use defaults",
        "a firmware that describes them (ACPI HMAT, CXL CDAT) and CONFIG_ACPI_HMAT",
    )


def _root() -> Check:
    if os.geteuid() == 0:
        return Check("root", "machine", "ok", "running as root: knobs can be set")
    return Check("root", "machine", "warn", "not running as root: knobs cannot be set, some files not read", "sudo")

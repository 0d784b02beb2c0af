# SPDX-License-Identifier: GPL-2.0
"""Detect features of the running kernel at run time."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass

from terrace.ops import hierarchy, kconfig
from terrace.ops.calls import Calls
from terrace.ops.knob_table import CGROUPS, KNOBS
from terrace.ops.topology import Node, read_nodes
from terrace.sysfs import MTIER, KernelFiles, parse_table
from terrace.units import format_nodes

#: Tracepoints of promotion.
TRACEPOINTS = ("mtier_burst", "mtier_heat", "mtier_migrate", "mtier_demote", "mtier_owner")


@dataclass(frozen=True)
class Feature:
    """One feature; ``present`` is None if it could not be determined."""

    name: str
    group: str
    present: bool | None
    detail: str
    purpose: str


class Prober:
    """Detects features; ``files`` and ``calls`` stand for the kernel."""

    def __init__(self, files: KernelFiles, calls: Calls) -> None:
        self.files = files
        self.calls = calls
        self.config, self.config_from = kconfig.read(files)
        self.nodes, self.tiers = read_nodes(files)

    def all(self) -> list[Feature]:
        """Get every feature, in display order."""
        return [*self._engine(), *self._tiers(), *self._movers(), *self._watching(), *self._placing()]

    def _engine(self) -> Iterator[Feature]:
        group = "promotion engine"
        here = self.files.exists(MTIER)
        yield Feature("mtier", group, here, self._option("CONFIG_MTIER"), "hot pages go to faster memory")
        knobs = sum(knob.path.startswith(MTIER) and self.files.exists(knob.path) for knob in KNOBS)
        detail = f"{knobs} knobs below /{MTIER}" if here else f"no /{MTIER}"
        yield Feature("mtier-sysfs", group, here, detail, "terrace status, terrace set")
        yield self._prctl(group)
        yield self._tracepoints(group)
        charge = self.files.get(f"{MTIER}/charge")
        detail = f"no /{MTIER}/charge" if charge is None else f"charge: {charge}"
        yield Feature("back-charge", group, charge is not None, detail, "its CPU time charged to whom it serves")

    def _prctl(self, group: str) -> Feature:
        purpose = "scan scale per process (terrace exec)"
        try:
            return Feature(
                "mtier-prctl", group, True, f"scan scale of this process: {self.calls.scan_scale()}", purpose
            )
        except OSError as error:
            answer = errno.errorcode.get(error.errno or 0, str(error.errno))
            return Feature("mtier-prctl", group, False, f"prctl answers {answer}", purpose)

    def _tracepoints(self, group: str) -> Feature:
        purpose = "follow bursts and moves"
        for base in ("sys/kernel/tracing", "sys/kernel/debug/tracing"):
            if self.files.names(f"{base}/events"):
                found = [name for name in TRACEPOINTS if self.files.exists(f"{base}/events/mtier/{name}")]
                detail = f"{len(found)} of {len(TRACEPOINTS)} below /{base}/events/mtier"
                return Feature("mtier-tracepoints", group, len(found) == len(TRACEPOINTS), detail, purpose)
        if any(path.startswith(("/sys/kernel/tracing", "/sys/kernel/debug")) for path in self.files.unreadable):
            return Feature("mtier-tracepoints", group, None, "tracefs is closed to this user (run as root)", purpose)
        return Feature("mtier-tracepoints", group, False, "tracefs is not mounted at /sys/kernel/tracing", purpose)

    def _tiers(self) -> Iterator[Feature]:
        group = "memory tiers"
        numbers = format_nodes([node.node for node in self.nodes])
        several = len(self.nodes) > 1
        yield Feature("numa-nodes", group, several, f"memory nodes: {numbers}", "tiers are nodes")
        shown = "; ".join(f"{'top' if t.top else 'slow'}: {format_nodes(t.nodes)}" for t in self.tiers)
        slow = any(not tier.top for tier in self.tiers)
        yield Feature("slow-tier", group, slow, shown or "no memory tiers", "something to promote from")
        yield self._hmat(group)
        demotion = self.files.get("sys/kernel/mm/numa/demotion_enabled")
        detail = "no /sys/kernel/mm/numa/demotion_enabled" if demotion is None else f"demotion_enabled: {demotion}"
        yield Feature("demotion", group, demotion is not None, detail, "makes room in fast memory")

    def _hmat(self, group: str) -> Feature:
        purpose = "speed of each node from the firmware"
        told = [node for node in self.nodes if node.read_latency_ns or node.read_bandwidth_mib_s]
        if told:
            return Feature("hmat", group, True, "; ".join(_speed(node) for node in told), purpose)
        table = "table present, " if self.files.exists("sys/firmware/acpi/tables/HMAT") else "no ACPI HMAT table, "
        return Feature(
            "hmat", group, False, f"{table}no node{{N}}/access0/initiators; {self._option('CONFIG_ACPI_HMAT')}", purpose
        )

    def _movers(self) -> Iterator[Feature]:
        group = "movers"
        mode = self.files.get("proc/sys/kernel/numa_balancing")
        detail = self._option("CONFIG_NUMA_BALANCING") if mode is None else f"numa_balancing: {mode}"
        yield Feature("numa-balancing", group, mode is not None, detail, "hint-fault promotion (mode 2)")
        scan = self.files.get("proc/sys/kernel/numa_balancing_scan_mode")
        detail = self._option("CONFIG_NUMA_SCAN_MODES") if scan is None else f"numa_balancing_scan_mode: {scan}"
        yield Feature("numa-scan-modes", group, scan is not None, detail, "scans for hint faults in threads")
        counters = parse_table(self.files.get("proc/vmstat"))
        out = "numa_scan_opted_out" in counters
        detail = "cgroups have cpuset.numa_balancing" if out else self._option("CONFIG_NUMA_SCAN_CPUSET")
        yield Feature("numa-opt-out", group, out, detail, "processes without scans for hint faults")
        yield self._folder(
            "damon", group, "sys/kernel/mm/damon/admin", "CONFIG_DAMON_SYSFS", "migrate_hot, migrate_cold schemes"
        )
        mode = self.files.get("sys/kernel/mm/tlb_defer/mode")
        detail = self._option("CONFIG_TLB_DEFER") if mode is None else f"tlb_defer/mode: {mode}"
        yield Feature("tlb-defer", group, mode is not None, detail, "read-only pages move without interrupts")
        lazy = "numa_follow_marked" in counters
        detail = "mbind takes MPOL_MF_LAZY" if lazy else self._option("CONFIG_NUMA_FOLLOW")
        yield Feature("lazy-migrate", group, lazy, detail, "pages move when they are used next")
        auto = "numa_follow_tasks" in counters
        detail = "cgroups have cpuset.auto_migration" if auto else self._option("CONFIG_NUMA_FOLLOW")
        yield Feature("auto-migrate", group, auto, detail, "memory follows its task to another node")
        fault = "numa_follow_faulted_anon" in counters
        detail = "cgroups have cpuset.migrate_on_fault" if fault else self._option("CONFIG_NUMA_FOLLOW")
        yield Feature("fault-migrate", group, fault, detail, "unmapped pages move when they are mapped")
        file_policy = self.files.get("proc/sys/vm/mapped_file_policy")
        detail = (
            self._option("CONFIG_MAPPED_FILE_POLICY")
            if file_policy is None
            else f"vm.mapped_file_policy: {file_policy}"
        )
        yield Feature("file-policy", group, file_policy is not None, detail, "mapped files have memory policies")
        lru = self.files.get("sys/kernel/mm/lru_gen/enabled")
        detail = self._option("CONFIG_LRU_GEN") if lru is None else f"lru_gen/enabled: {lru}"
        yield Feature("mglru", group, lru is not None, detail, "multi-generational LRU")
        thp = self.files.get("sys/kernel/mm/transparent_hugepage/enabled")
        detail = self._option("CONFIG_TRANSPARENT_HUGEPAGE") if thp is None else thp
        yield Feature("thp", group, thp is not None, detail, "huge pages")

    def _watching(self) -> Iterator[Feature]:
        group = "watching"
        yield self._folder(
            "idle-page-tracking",
            group,
            "sys/kernel/mm/page_idle",
            "CONFIG_IDLE_PAGE_TRACKING",
            "idle bits per page frame",
        )
        psi = self.files.exists("proc/pressure/memory")
        yield Feature("psi", group, psi, self._option("CONFIG_PSI"), "time lost to memory pressure")
        where = "not given" if self.config_from is None else self.config_from
        yield Feature("kernel-config", group, self.config_from is not None, where, "options of this kernel")

    def _placing(self) -> Iterator[Feature]:
        group = "placing"
        try:
            self.calls.get_mempolicy()
            yield Feature("mempolicy", group, True, "get_mempolicy works", "numactl, mbind")
        except OSError as error:
            answer = errno.errorcode.get(error.errno or 0, str(error.errno))
            yield Feature("mempolicy", group, False, f"get_mempolicy answers {answer}", "numactl, mbind")
        yield self._folder(
            "weighted-interleave", group, "sys/kernel/mm/mempolicy/weighted_interleave", "", "weights per node"
        )
        auto = self.files.get("sys/kernel/mm/mempolicy/weighted_interleave/auto")
        detail = self._option("CONFIG_MEMPOLICY2") if auto is None else f"weighted_interleave/auto: {auto}"
        yield Feature("mempolicy2", group, auto is not None, detail, "weights per process and per range")
        cgroups = hierarchy.find(self.files)
        useful = {"memory", "cpuset"} <= set(cgroups.controllers)
        detail = f"controllers: {' '.join(cgroups.controllers) or 'none'}"
        if cgroups.folder != CGROUPS:
            detail = f"no cgroup v2 at /{CGROUPS}" + (f", but at /{cgroups.folder}; {detail}" if cgroups.folder else "")
        yield Feature("cgroup2", group, useful, detail, "memory and cpuset controllers")

    def _folder(self, name: str, group: str, path: str, option: str, purpose: str) -> Feature:
        here = self.files.exists(path)
        detail = f"/{path}" if here else " ".join(filter(None, (f"no /{path}", option and f"({self._option(option)})")))
        return Feature(name, group, here, detail, purpose)

    def _option(self, option: str) -> str:
        if self.config_from is None:
            return f"{option}: kernel configuration not readable"
        return f"{option}={self.config[option]}" if option in self.config else f"{option} is not set"


def _speed(node: Node) -> str:
    return f"node {node.node}: {node.read_latency_ns or '?'} ns, {node.read_bandwidth_mib_s or '?'} MiB/s"

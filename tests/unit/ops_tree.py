# SPDX-License-Identifier: GPL-2.0
"""Small copies of /proc and /sys, written file by file, for the tests of the operator's subcommands."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from terrace.ops.knob_table import CGROUP_KNOBS, CGROUPS, KNOBS, WEIGHTS
from terrace.ops.snapshot import PLACE, PLACE_NUMBERS
from terrace.sysfs import MTIER

MIB = 1 << 20
PAGE = 4096


@dataclass
class FakeNode:
    """One node: MiB of memory, free and on the LRU lists; the number of its memory tier."""

    number: int
    tier: int
    cpus: str = ""
    size: int = 1024
    free: int = 512
    movable: int = 256
    promo: int = 16
    gave_up: bool = False
    latency_ns: int = 0
    bandwidth_mbps: int = 0
    engine: dict[str, str] = field(default_factory=dict)


def dram(number: int = 0, **more: object) -> FakeNode:
    """A node of DRAM with CPUs."""
    return FakeNode(number, 4, cpus="0-1", latency_ns=100, bandwidth_mbps=20480, **more)  # type: ignore[arg-type]


def cxl(number: int = 1, tier: int = 22, **more: object) -> FakeNode:
    """A slow node without CPUs."""
    engine = {"promoted": "0", "dropped": "0", "demoted": "0", "target": "0"}
    given = more.pop("engine", {})
    assert isinstance(given, dict)
    return FakeNode(number, tier, latency_ns=400, bandwidth_mbps=5120, engine=engine | given, **more)  # type: ignore[arg-type]


#: Contents of place/ before the first burst, and after one that migrated pages until slow and fast
#: ones were equal.
NO_BURST = {"why": "none"} | dict.fromkeys(PLACE_NUMBERS, "0")
BURST = {
    "why": "alike 0",
    "tau_us": "12500",
    "share_ppm": "30000",
    "margin_ppm": "401000",
    "trust_percent": "87",
    "gain_us": "5200",
    "cost_us": "640",
    "taken": "26000",
    "promoted": "25600",
    "demoted": "512",
}


class Tree:
    """A folder with the layout of a machine's root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, text: str) -> None:
        """One file with a trailing newline."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def vmstat(self, **counters: int) -> None:
        """/proc/vmstat with these counters and the ones every kernel has."""
        table = {"nr_free_pages": 1000, "pgpromote_success": 0, "pgdemote_kswapd": 0, "pgdemote_direct": 0}
        table |= counters
        self.put("proc/vmstat", "\n".join(f"{name} {value}" for name, value in table.items()))

    def thread(self, pid: int, name: str, nanoseconds: int) -> None:
        """A kernel thread and its CPU time."""
        self.put(f"proc/{pid}/comm", name)
        self.put(f"proc/{pid}/schedstat", f"{nanoseconds} 0 1")

    def capabilities(self) -> None:
        """All capabilities other than promotion, as after boot, and a control group with a child."""
        for knob in KNOBS:
            if knob.option and not knob.path.startswith(MTIER):
                self.put(knob.path, knob.default)
        self.vmstat(numa_follow_tasks=0, numa_scan_opted_out=0)
        self.put(f"{CGROUPS}/cgroup.controllers", "cpuset memory")
        for group in ("db", "db/old"):
            self.put(f"{CGROUPS}/{group}/cgroup.procs", "")
            for knob in CGROUP_KNOBS:
                self.put(f"{CGROUPS}/{group}/{knob.path}", knob.default)
                self.put(f"{CGROUPS}/{group}/{knob.path}.effective", knob.default)

    def dax(self, name: str, driver: str, node: int, below: str = "platform/hmem.0", size: int = 1024 * MIB) -> None:
        """A dax device with a driver ("" for none), at a place in the tree of devices."""
        place = f"sys/devices/{below}/{name}"
        self.put(f"{place}/target_node", str(node))
        self.put(f"{place}/size", str(size))
        if driver:
            (self.root / place / "driver").symlink_to(f"/sys/bus/dax/drivers/{driver}")
        self.bus("dax", name, place)

    def bus(self, bus: str, name: str, place: str) -> None:
        """A device of a bus: a link to its place in the tree of devices."""
        link = self.root / f"sys/bus/{bus}/devices/{name}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../../../{place}")

    def blocks(self, node: int, *states: str, size: int = 256 * MIB) -> None:
        """Memory blocks of a node, each by its zone; offline: it could get into two."""
        self.put("sys/devices/system/memory/block_size_bytes", f"{size:x}")
        for number, zone in enumerate(states, start=100 * node):
            block = f"sys/devices/system/memory/memory{number}"
            self.put(f"{block}/state", "offline" if zone == "offline" else "online")
            self.put(f"{block}/valid_zones", "Normal Movable" if zone == "offline" else zone)
            (self.root / f"sys/devices/system/node/node{node}/memory{number}").symlink_to(
                f"../../memory/memory{number}"
            )

    def cxl_region(self, name: str, decoders: dict[str, str], size: int = 1024 * MIB) -> str:
        """A CXL region of endpoint decoders (decoder2.0), each of a memory device (mem0); its place."""
        place = f"sys/devices/platform/ACPI0017:00/root0/decoder0.0/{name}"
        self.put(f"{place}/size", f"{size:#x}")
        self.bus("cxl", name, place)
        for number, (decoder, memory) in enumerate(decoders.items()):
            self.put(f"{place}/target{number}", decoder)
            endpoint = f"endpoint{decoder.removeprefix('decoder').partition('.')[0]}"
            above = f"sys/devices/platform/ACPI0017:00/root0/port1/{endpoint}"
            self.put(f"{above}/{decoder}/mode", "ram")
            (self.root / above / "uport").symlink_to(f"../../../../../pci0000:0c/{memory}")
            self.bus("cxl", endpoint, above)
            self.bus("cxl", decoder, f"{above}/{decoder}")
        return place.removeprefix("sys/devices/")

    def cxl_memory(self, name: str, volatile: int = 1024 * MIB) -> None:
        """A CXL memory device."""
        place = f"sys/devices/pci0000:0c/{name}"
        self.put(f"{place}/ram/size", f"{volatile:#x}")
        self.bus("cxl", name, place)

    def place(self, **values: str) -> None:
        """The results of the last burst: BURST, with these changes."""
        for name, text in (BURST | values).items():
            self.put(f"{PLACE}/{name}", text)


def build(root: Path, nodes: list[FakeNode], *, engine: bool = True, enabled: bool = True, release: str = "") -> Tree:
    """A machine with these nodes, with or without the Terrace kernel."""
    tree = Tree(root)
    tree.put("proc/sys/kernel/osrelease", release or ("6.12.117-terrace" if engine else "6.12.117"))
    tree.put("proc/sys/kernel/numa_balancing", "0")
    if engine:
        tree.put("proc/sys/kernel/numa_balancing_scan_mode", "sync")
        tree.put("proc/sys/kernel/numa_balancing_scan_windows", "0")
    tree.put("proc/sys/kernel/numa_balancing_promote_rate_limit_MBps", "65536")
    tree.put("sys/kernel/mm/numa/demotion_enabled", "true")
    for node in nodes:
        tree.put(f"{WEIGHTS}/node{node.number}", "1")
    tree.put("proc/2/comm", "kthreadd")
    tree.put("proc/2/task/2/children", "40 41")
    tree.thread(40, "kswapd0", 2_000_000)
    numbers = ",".join(str(node.number) for node in nodes)
    tree.put("sys/devices/system/node/has_memory", numbers)
    tree.put("sys/devices/system/node/online", numbers)
    tree.put("sys/devices/system/node/has_cpu", ",".join(str(n.number) for n in nodes if n.cpus))
    tree.put("proc/zoneinfo", "\n".join(_zone(node) for node in nodes))
    for node in nodes:
        _node(tree, node, nodes)
    for tier in {node.tier for node in nodes}:
        members = ",".join(str(node.number) for node in nodes if node.tier == tier)
        tree.put(f"sys/devices/virtual/memory_tiering/memory_tier{tier}/nodelist", members)
    tree.vmstat()
    if engine:
        _engine(tree, nodes, enabled)
    return tree


def _node(tree: Tree, node: FakeNode, nodes: list[FakeNode]) -> None:
    base = f"sys/devices/system/node/node{node.number}"
    tree.put(f"{base}/cpulist", node.cpus)
    lines = {"MemTotal": node.size, "MemFree": node.free, "Active": node.movable, "Inactive": 0}
    tree.put(f"{base}/meminfo", "\n".join(f"Node {node.number} {k}: {v * 1024} kB" for k, v in lines.items()))
    distances = ["10" if other is node else str(10 + 10 * abs(other.number - node.number)) for other in nodes]
    tree.put(f"{base}/distance", " ".join(distances))
    if node.latency_ns:
        tree.put(f"{base}/access0/initiators/read_latency", str(node.latency_ns))
        tree.put(f"{base}/access0/initiators/read_bandwidth", str(node.bandwidth_mbps))


def _zone(node: FakeNode) -> str:
    promo = node.promo * MIB // PAGE
    return "\n".join(
        [
            f"Node {node.number}, zone   Normal",
            "  per-node stats",
            "      nr_inactive_anon 7",
            f"  pages free     {node.free * MIB // PAGE}",
            "        min      512",
            f"        low      {promo // 2}",
            "        high     1536",
            f"        promo    {promo}",
            "        managed  1",
            f"  node_unreclaimable:  {int(node.gave_up)}",
            "  start_pfn:           1",
        ]
    )


def _engine(tree: Tree, nodes: list[FakeNode], enabled: bool) -> None:
    for knob in KNOBS:
        if knob.path.startswith(MTIER):
            tree.put(knob.path, knob.default)
    tree.put(f"{MTIER}/enabled", str(int(enabled)))
    tree.put(f"{MTIER}/state", "looking" if enabled else "off")
    tree.put(f"{MTIER}/mms", "57" if enabled else "0")
    tree.place(**NO_BURST)
    for node in nodes:
        for name, text in node.engine.items() if enabled else ():
            tree.put(f"{MTIER}/node{node.number}/{name}", text)
    if enabled:
        tree.thread(41, "kmtierd", 500_000_000)

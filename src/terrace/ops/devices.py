# SPDX-License-Identifier: GPL-2.0
"""Devices behind memory nodes: dax devices, the CXL devices below them, and the memory blocks of such nodes."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace

from terrace.sysfs import KernelFiles, to_int
from terrace.units import format_size

DAX = "sys/bus/dax/devices"
CXL = "sys/bus/cxl/devices"
BLOCKS = "sys/devices/system/memory"
NODES = "sys/devices/system/node"
#: The kernel's policy for memory that is added later; memhp_default_state= on the command line sets
#: it too.
AUTO_ONLINE = f"{BLOCKS}/auto_online_blocks"

_MODES = {"kmem": "system-ram", "device_dax": "devdax"}
_BLOCK = re.compile(r"memory\d+")
_REGION = re.compile(r"region\d+")
_MEMORY = re.compile(r"mem\d+")


@dataclass(frozen=True)
class DaxDevice:
    """A device of /sys/bus/dax.

    ``mode`` is daxctl's word: system-ram (its memory is a node's) or devdax (programs map it). It is none without
    a driver, and the driver's name for any other driver. ``node``: where its memory is, or would be.
    """

    name: str
    mode: str
    node: int | None
    size_bytes: int | None
    #: The CXL region that it consists of.
    region: str | None

    @property
    def title(self) -> str:
        """Get its name, and the devices that it consists of."""
        return f"{self.name} (CXL {self.region})" if self.region else self.name


@dataclass(frozen=True)
class CxlRegion:
    """A CXL region, and the memory devices that it is made from."""

    name: str
    size_bytes: int | None
    memory: list[str]


@dataclass(frozen=True)
class CxlMemory:
    """A CXL memory device, and its capacity that can be system RAM."""

    name: str
    volatile_bytes: int | None


@dataclass(frozen=True)
class Zones:
    """Memory blocks of a node, in bytes: in zone Movable, in zones of the kernel (Normal and others), offline."""

    node: int
    movable_bytes: int
    kernel_bytes: int
    offline_bytes: int

    @property
    def text(self) -> str:
        """Format the parts that are not 0."""
        parts = (
            ("Movable", self.movable_bytes),
            ("kernel zones", self.kernel_bytes),
            ("offline", self.offline_bytes),
        )
        return ", ".join(f"{name} {format_size(count)}" for name, count in parts if count) or "-"


@dataclass(frozen=True)
class Devices:
    """Everything found; empty on a machine without such devices."""

    #: offline, online, online_kernel or online_movable; None: not in this kernel.
    auto_online: str | None = None
    dax: list[DaxDevice] = field(default_factory=list)
    regions: list[CxlRegion] = field(default_factory=list)
    memory: list[CxlMemory] = field(default_factory=list)
    #: Of nodes that dax devices in the mode system-ram have memory on.
    zones: list[Zones] = field(default_factory=list)

    @property
    def idle_memory(self) -> list[CxlMemory]:
        """Get CXL memory devices with volatile capacity that is not part of any region."""
        used = {name for region in self.regions for name in region.memory}
        return [one for one in self.memory if one.volatile_bytes and one.name not in used]

    @property
    def nodes(self) -> list[int]:
        """Get the numbers of the nodes with memory of dax devices."""
        return sorted({one.node for one in self.dax if one.node is not None and one.mode == "system-ram"})

    def of_node(self, node: int) -> list[DaxDevice]:
        """Get the devices in the mode system-ram with memory on a node."""
        return [one for one in self.dax if one.node == node and one.mode == "system-ram"]

    def as_json(self) -> dict[str, object]:
        """As documented in docs/reference/schema/status.schema.json."""
        return {
            "auto_online_blocks": self.auto_online,
            "dax": [asdict(one) for one in self.dax],
            "cxl_regions": [asdict(one) for one in self.regions],
            "cxl_memory": [asdict(one) for one in self.memory],
            "zones": [asdict(one) for one in self.zones],
        }


def read_devices(files: KernelFiles) -> Devices:
    """Read sysfs. Missing parts are left out."""
    names = files.names(CXL)
    regions = [_read_region(files, name) for name in names if _REGION.fullmatch(name)]
    known = {region.name for region in regions}
    dax = [_read_dax(files, name, known) for name in files.names(DAX)]
    found = Devices(
        auto_online=files.get(AUTO_ONLINE),
        dax=dax,
        regions=regions,
        memory=[_read_memory(files, name) for name in names if _MEMORY.fullmatch(name)],
    )
    zones = [_read_zones(files, node) for node in found.nodes]
    return replace(found, zones=[one for one in zones if one is not None])


def _read_dax(files: KernelFiles, name: str, regions: set[str]) -> DaxDevice:
    driver = _last(files.link(f"{DAX}/{name}/driver"))
    # The device's place in the tree of devices has the region's name; that of a PMEM region may be the same word.
    place = (files.link(f"{DAX}/{name}") or "").split("/")
    found = [part for part in place if part in regions] if not any(part.startswith("ndbus") for part in place) else []
    node = files.get_int(f"{DAX}/{name}/target_node")
    return DaxDevice(
        name=name,
        mode=_MODES.get(driver, driver) if driver else "none",
        node=node if node is not None and node >= 0 else None,
        size_bytes=_number(files.get(f"{DAX}/{name}/size")),
        region=found[-1] if found else None,
    )


def _read_region(files: KernelFiles, name: str) -> CxlRegion:
    folder = f"{CXL}/{name}"
    targets = [one for one in files.names(folder) if re.fullmatch(r"target\d+", one)]
    devices = {_memory_of(files, files.get(f"{folder}/{target}") or "") for target in targets}
    return CxlRegion(name, _number(files.get(f"{folder}/size")), sorted(device for device in devices if device))


def _memory_of(files: KernelFiles, decoder: str) -> str:
    """Get the memory device of an endpoint decoder: uport of the endpoint above the decoder."""
    if not decoder or "/" in decoder:
        return ""
    place = (files.link(f"{CXL}/{decoder}") or "").split("/")
    endpoint = next((part for part in reversed(place) if re.fullmatch(r"endpoint\d+", part)), "")
    return _last(files.link(f"{CXL}/{endpoint}/uport")) if endpoint else ""


def _read_memory(files: KernelFiles, name: str) -> CxlMemory:
    return CxlMemory(name, _number(files.get(f"{CXL}/{name}/ram/size")))


def _read_zones(files: KernelFiles, node: int) -> Zones | None:
    """A block's valid_zones is the one zone that it is in, once it is online."""
    size = _number(files.get(f"{BLOCKS}/block_size_bytes"), base=16)
    blocks = [name for name in files.names(f"{NODES}/node{node}") if _BLOCK.fullmatch(name)]
    if size is None or not blocks:
        return None
    movable = kernel = offline = 0
    for name in blocks:
        if files.get(f"{BLOCKS}/{name}/state") != "online":
            offline += size
        elif (files.get(f"{BLOCKS}/{name}/valid_zones") or "").split() == ["Movable"]:
            movable += size
        else:
            kernel += size
    return Zones(node, movable, kernel, offline)


def _last(path: str | None) -> str:
    return (path or "").rpartition("/")[2]


def _number(text: str | None, base: int = 10) -> int | None:
    """A number of sysfs: decimal, or hexadecimal if it begins with 0x or ``base`` is 16."""
    text = (text or "").strip()
    if not text.startswith("0x") and base == 10:
        return to_int(text)
    return int(text, 16) if re.fullmatch(r"(0x)?[0-9a-fA-F]{1,16}", text) else None

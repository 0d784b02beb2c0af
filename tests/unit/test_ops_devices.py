# SPDX-License-Identifier: GPL-2.0
"""The devices behind memory nodes, how their memory is online, and what to do about it."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import jsonschema
import pytest
from ops_golden import check, run
from ops_tree import MIB, Tree, build, cxl, dram

from terrace.live.watch import Lookout
from terrace.ops import snapshot
from terrace.ops.devices import CxlMemory, CxlRegion, DaxDevice, Devices, Zones, read_devices
from terrace.ops.diagnose import Reason, diagnose
from terrace.ops.look import Want
from terrace.paths import repo_root
from terrace.sysfs import KernelFiles

AUTO = "sys/devices/system/memory/auto_online_blocks"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A machine whose slow node is a CXL region of two devices."""
    tree = build(tmp_path, [dram(), cxl()])
    tree.vmstat(pgpromote_success=7)
    tree.put(AUTO, "online")
    tree.cxl_memory("mem0")
    tree.cxl_memory("mem1")
    place = tree.cxl_region("region0", {"decoder3.0": "mem0", "decoder4.1": "mem1"})
    tree.dax("dax0.0", "kmem", 1, f"{place}/dax_region0")
    tree.blocks(1, "Movable", "Movable", "Normal", "offline")
    return tree


def reasons(tree: Tree) -> dict[str, Reason]:
    now = snapshot.take(KernelFiles(tree.root))
    return {reason.id: reason for reason in diagnose(now, snapshot.change(None, now))}


def test_a_node_is_traced_to_its_devices(tree: Tree) -> None:
    found = read_devices(KernelFiles(tree.root))
    assert found.dax == [DaxDevice("dax0.0", "system-ram", 1, 1024 * MIB, "region0")]
    assert found.regions == [CxlRegion("region0", 1024 * MIB, ["mem0", "mem1"])]
    assert found.memory == [CxlMemory("mem0", 1024 * MIB), CxlMemory("mem1", 1024 * MIB)]
    assert found.zones == [Zones(1, 512 * MIB, 256 * MIB, 256 * MIB)]
    assert found.auto_online == "online" and found.idle_memory == []


def test_a_machine_without_such_devices_has_none(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    assert read_devices(KernelFiles(tree.root)) == Devices()
    assert read_devices(KernelFiles(tmp_path / "nowhere")) == Devices()
    assert not {"dax_not_memory", "memory_offline", "memory_not_movable", "cxl_no_region"} & set(reasons(tree))


def test_blocks_in_zones_of_the_kernel_and_offline_ones(tree: Tree) -> None:
    found = reasons(tree)
    assert found["memory_not_movable"].message.startswith(
        "node 1 (dax0.0 (CXL region0)) has 256M in zones of the kernel"
    )
    assert found["memory_not_movable"].fix.startswith(
        "daxctl offline-memory dax0.0; daxctl online-memory dax0.0 (zone Movable); for memory that is added later: "
        f"echo online_movable > /{AUTO} (now online; "
    )
    assert found["memory_offline"].message.startswith("node 1 (dax0.0 (CXL region0)) has 256M offline")
    assert found["memory_offline"].fix.startswith("daxctl online-memory dax0.0; for memory")
    tree.put(AUTO, "online_movable")
    assert reasons(tree)["memory_offline"].fix == "daxctl online-memory dax0.0"
    for number in (102, 103):
        tree.put(f"sys/devices/system/memory/memory{number}/state", "online")
        tree.put(f"sys/devices/system/memory/memory{number}/valid_zones", "Movable")
    assert not {"memory_offline", "memory_not_movable"} & set(reasons(tree))


@pytest.mark.parametrize(
    ("driver", "says"),
    [("device_dax", "is in mode devdax"), ("", "is without a driver"), ("other", "is in mode other")],
)
def test_a_dax_device_that_is_no_memory(tree: Tree, driver: str, says: str) -> None:
    tree.dax("dax1.0", driver, 2, size=64 << 30)
    tree.dax("dax2.0", "device_dax", -1)
    found = reasons(tree)["dax_not_memory"]
    assert found.message.startswith(f"dax1.0 {says}, 64G for node 2; dax2.0 is in mode devdax, 1G: the kernel uses it")
    assert found.fix == "daxctl reconfigure-device --mode=system-ram dax1.0 dax2.0"


def test_cxl_memory_without_a_region(tree: Tree) -> None:
    tree.cxl_memory("mem2", 256 << 30)
    # A device without volatile capacity makes no system RAM.
    tree.cxl_memory("mem3", 0)
    found = reasons(tree)["cxl_no_region"]
    assert "CXL memory mem2 (256G) is in no region" in found.message
    assert found.fix.startswith("cxl create-region -t ram -d DECODER mem2 (")


def test_the_region_of_a_pmem_namespace_is_no_cxl_region(tree: Tree) -> None:
    tree.dax("dax5.0", "kmem", 1, "LNXSYSTM:00/ACPI0012:00/ndbus0/region0/dax5.0")
    found = {one.name: one.region for one in read_devices(KernelFiles(tree.root)).dax}
    assert found == {"dax0.0": "region0", "dax5.0": None}


def test_broken_files_break_nothing(tree: Tree) -> None:
    """Files with any text, and links to anywhere."""
    chance = random.Random(1)
    texts = ["", "-1", "x", "0x", "9" * 5000, "decoder9.9", "../../etc", "\udcff", "0xffffffffffffffffff", "none"]
    files = [path for path in tree.root.joinpath("sys").rglob("*") if path.is_file() or path.is_symlink()]
    files = [path for path in files if "/cxl" in str(path) or "/dax" in str(path) or "/memory" in str(path)]
    for _ in range(100):
        path = chance.choice(files)
        path.unlink(missing_ok=True)
        if chance.random() < 0.3:
            path.symlink_to(chance.choice(["loop", path.name, "../..", "/nowhere"]))
        elif chance.random() < 0.8:
            path.write_bytes(os.fsencode(chance.choice(texts)))
        now = snapshot.take(KernelFiles(tree.root))
        diagnose(now, snapshot.change(None, now))


def test_status_shows_them(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    tree.dax("dax1.0", "device_dax", 2)
    assert run("status", "--root", str(tree.root), "--interval", "0") == 0
    check("status-devices.txt", capsys.readouterr().out)
    assert run("status", "--root", str(tree.root), "--interval", "0", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((repo_root() / "docs/reference/schema/status.schema.json").read_text())
    jsonschema.validate(document, schema)
    assert document["memory_devices"] == {
        "auto_online_blocks": "online",
        "dax": [
            {"name": "dax0.0", "mode": "system-ram", "node": 1, "size_bytes": 1 << 30, "region": "region0"},
            {"name": "dax1.0", "mode": "devdax", "node": 2, "size_bytes": 1 << 30, "region": None},
        ],
        "cxl_regions": [{"name": "region0", "size_bytes": 1 << 30, "memory": ["mem0", "mem1"]}],
        "cxl_memory": [
            {"name": "mem0", "volatile_bytes": 1 << 30},
            {"name": "mem1", "volatile_bytes": 1 << 30},
        ],
        "zones": [{"node": 1, "movable_bytes": 512 * MIB, "kernel_bytes": 256 * MIB, "offline_bytes": 256 * MIB}],
    }


def test_doctor_names_the_device_and_the_command(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    tree.dax("dax1.0", "device_dax", 2)
    run("doctor", "--root", str(tree.root), "--for", "machine", "--json")
    found = {one["id"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert found["devices"]["message"] == (
        "memory of node 1 is from dax0.0 (CXL region0); its blocks: Movable 512M, kernel zones 256M, offline 256M"
    )
    assert found["auto_online"]["message"] == f"memory that is added later: online (/{AUTO})"
    for name in ("dax_not_memory", "memory_offline", "memory_not_movable"):
        assert found[name]["status"] == "warn" and "daxctl" in found[name]["fix"]


def test_the_live_view_reads_the_devices_once_a_minute(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files for each memory block of a dax device: too many for each picture."""
    reads: list[KernelFiles] = []

    def counted(files: KernelFiles) -> object:
        reads.append(files)
        return read_devices(files)

    monkeypatch.setattr("terrace.ops.snapshot.read_devices", counted)
    lookout = Lookout(tree.root)
    for _ in range(3):
        lookout.ask(Want("process"))
        assert lookout.wait(60.0)
        assert lookout.seen() is not None
    assert len(reads) == 1
    monkeypatch.setattr("terrace.live.watch._DEVICES_S", -1.0)
    lookout._devices_until_s = 0.0
    lookout.ask(Want("process"))
    assert lookout.wait(60.0)
    assert len(reads) == 2

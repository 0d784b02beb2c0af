# SPDX-License-Identifier: GPL-2.0
"""Nodes, tiers, demotion targets."""

from __future__ import annotations

from pathlib import Path

from ops_tree import MIB, FakeNode, build, cxl, dram

from terrace.ops.topology import parse_zoneinfo, read_nodes
from terrace.sysfs import KernelFiles


def test_dram_and_cxl(tmp_path: Path) -> None:
    build(tmp_path, [dram(), cxl(engine={"target": "0", "demoted": "12"})])
    nodes, tiers = read_nodes(KernelFiles(tmp_path))
    assert [(tier.name, tier.rank, tier.top, tier.nodes) for tier in tiers] == [
        ("memory_tier4", 0, True, [0]),
        ("memory_tier22", 1, False, [1]),
    ]
    fast, slow = nodes
    assert (fast.promoted, fast.dropped, fast.demoted) == (None, None, None)
    assert (fast.top, fast.demotes_to, fast.cpus) == (True, [1], "0-1")
    assert (slow.top, slow.demotes_to, slow.cpus) == (False, [], "")
    assert (slow.promotes_to, slow.promoted, slow.dropped, slow.demoted) == ([0], 0, 0, 12)
    assert (slow.total_bytes, slow.read_latency_ns, slow.read_bandwidth_mib_s) == (1024 * MIB, 400, 5120)
    assert slow.promo_bytes == 16 * MIB


def test_two_sockets_demote_to_the_nearer_slow_node(tmp_path: Path) -> None:
    build(tmp_path, [dram(0), dram(1), cxl(2), cxl(3)])
    nodes, _ = read_nodes(KernelFiles(tmp_path))
    assert [node.demotes_to for node in nodes] == [[2], [2], [], []]


def test_three_tiers_demote_one_step_at_a_time(tmp_path: Path) -> None:
    build(tmp_path, [dram(0), cxl(1), cxl(2, tier=40)])
    nodes, tiers = read_nodes(KernelFiles(tmp_path))
    assert [tier.top for tier in tiers] == [True, False, False]
    assert [node.demotes_to for node in nodes] == [[1], [2], []]


def test_a_tier_with_cpus_below_makes_all_above_top(tmp_path: Path) -> None:
    build(tmp_path, [dram(0), FakeNode(1, 22, cpus="2-3")])
    nodes, tiers = read_nodes(KernelFiles(tmp_path))
    assert [tier.top for tier in tiers] == [True, True]
    assert all(node.top for node in nodes)


def test_a_kernel_without_numa_is_one_node(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1024 kB\nMemFree: 512 kB\n")
    nodes, tiers = read_nodes(KernelFiles(tmp_path))
    assert [(node.node, node.total_bytes, node.free_bytes) for node in nodes] == [(0, 1 << 20, 1 << 19)]
    assert tiers == []


def test_nothing_readable_is_no_node(tmp_path: Path) -> None:
    assert read_nodes(KernelFiles(tmp_path)) == ([], [])


def test_zoneinfo_sums_the_zones_of_a_node() -> None:
    text = "Node 0, zone DMA\n low 1\n promo 2\n node_unreclaimable: 0\nNode 0, zone Normal\n low 10\n promo 20\n"
    sums = parse_zoneinfo(text + " node_unreclaimable: 1", 4096)
    assert (sums[0].low_bytes, sums[0].promo_bytes, sums[0].gave_up) == (11 * 4096, 22 * 4096, True)

# SPDX-License-Identifier: GPL-2.0
import re

import pytest

from terrace.errors import UsageError
from terrace.lab.qemu import require_host_memory
from terrace.lab.topology import Topology, load_topology, parse_topology, topology_names

GOOD = """
description = "a machine"
[[node]]
memory = "1G"
cpus = 2
[[node]]
memory = "2G"
[[access]]
from = 0
to = 0
distance = 10
latency = "80ns"
bandwidth = "64G"
[[access]]
from = 0
to = 1
distance = 20
latency = "250ns"
bandwidth = "20G"
"""


def parse(text: str) -> Topology:
    return parse_topology("t", text, "t.toml")


def test_ours_are_good_and_slow_nodes_are_slower() -> None:
    for name in topology_names():
        machine = load_topology(name)
        for cpu in machine.cpu_nodes:
            own = machine.access(cpu, cpu)
            assert own is not None, name
            for target in range(len(machine.nodes)):
                way = machine.access(cpu, target)
                assert way is not None, (name, target)
                slower = way.latency_ns > own.latency_ns and way.bandwidth < own.bandwidth
                assert target == cpu or slower, (name, target)


def test_small_dram_is_a_quarter_of_the_slow_node() -> None:
    nodes = load_topology("dram-cxl-small-dram").nodes
    assert nodes[0].memory * 4 == nodes[1].memory


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cpus = 2", "cpu = 2", r"t\.toml: unknown key 'node\[0\]\.cpu'"),
        ('description = "a machine"', 'descr = "a"', r"t\.toml: unknown key 'descr'"),
        ('latency = "250ns"', 'latency = "250"', r"t\.toml: access\[1\]\.latency: time '250'"),
        ('memory = "2G"', 'memory = "2 apples"', r"t\.toml: node\[1\]\.memory: size '2 apples'"),
        ('memory = "2G"', 'memory = "1M"', r"node\[1\]\.memory: 1M is not"),
        ("cpus = 2", "", "no .*has cpus"),
        ("to = 1", "to = 2", r"access\[1\]\.to: needs a whole number from 0 to 1, not 2"),
        ("to = 1", "to = 0", r"access\[1\]\.to: a second"),
        ("distance = 20", "distance = 10", r"access\[1\]\.distance: 10 is a node's distance to itself"),
        ("distance = 20", "distance = true", r"access\[1\]\.distance: needs a whole number"),
        ('bandwidth = "20G"', 'bandwidth = "20"', r"access\[1\]\.bandwidth: per second"),
        ("[[node]]", "[[nodes]]", "unknown key 'nodes'"),
        ("[[access]]", "[[access", r"t\.toml: "),
    ],
)
def test_errors_name_file_and_key(old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(GOOD.replace(old, new))


def test_sets_and_counts_stand_for_many() -> None:
    text = GOOD.replace('memory = "2G"', 'memory = "2G"\ncount = 3').replace("to = 1", 'to = "1-3"')
    machine = parse(text)
    assert len(machine.nodes) == 4
    assert machine.distance(0, 3) == 20
    with pytest.raises(UsageError, match=r"access\[1\]\.to: node set '1-4': there is no 4"):
        parse(text.replace("1-3", "1-4"))
    with pytest.raises(UsageError, match="count: needs a whole number from 1 to 64, not 65"):
        parse(text.replace("count = 3", "count = 65"))


def test_every_cpu_node_needs_a_way_to_every_node() -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        parse(GOOD[: GOOD.rindex("[[access]]")])


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(UsageError, match="dram-cxl, dram-cxl-small-dram"):
        load_topology("nonesuch")
    with pytest.raises(UsageError, match=re.escape("/nonesuch/x.toml")):
        load_topology("/nonesuch/x.toml")


def test_distances_that_are_not_given_go_by_the_cpu_node() -> None:
    machine = load_topology("three-tier")
    assert machine.distance(0, 2) == machine.distance(2, 0) == 40
    assert machine.distance(1, 2) == 20 + 40 - 10
    assert machine.distance(1, 1) == 10


def test_nearest_cpu_node() -> None:
    machine = load_topology("two-socket-cxl")
    assert [machine.nearest_cpu_node(node) for node in range(3)] == [0, 1, 0]


def test_cpus_and_memory_can_be_changed() -> None:
    machine = load_topology("two-socket-cxl").with_cpus(5).with_memory_scale(0.5)
    assert [node.cpus for node in machine.nodes] == [3, 2, 0]
    assert [node.memory >> 20 for node in machine.nodes] == [512, 512, 1024]
    with pytest.raises(UsageError, match="needs a CPU for each"):
        machine.with_cpus(1)
    with pytest.raises(UsageError, match="64M is the least"):
        machine.with_memory_scale(0.01)


def test_machine_larger_than_the_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrace.lab.qemu.host_memory", lambda: 4 << 30)
    with pytest.raises(UsageError, match="this host has 4G; make the machine smaller"):
        require_host_memory(load_topology("dram-cxl"))
    require_host_memory(load_topology("dram-cxl").with_memory_scale(0.5))

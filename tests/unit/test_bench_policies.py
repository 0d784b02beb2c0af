# SPDX-License-Identifier: GPL-2.0
"""Policies: the settings are fair, and DAMON's name the machine's memory; the oracle's placement."""

from dataclasses import replace

import pytest

from terrace.bench import placement
from terrace.bench.physical import node_ranges
from terrace.bench.policies import COLOURS, POLICIES, RATE_MBPS, TIERS
from terrace.lab.topology import MIB, Topology, load_topology

GIB = 1 << 30


def _machine(*sizes: int) -> Topology:
    base = load_topology("dram-cxl")
    nodes = tuple(replace(node, memory=size) for node, size in zip(base.nodes, sizes, strict=True))
    return replace(base, nodes=nodes, _by_pair={})


def test_a_small_machine_has_all_memory_below_the_hole() -> None:
    assert node_ranges(_machine(256 * MIB, GIB)) == [[(0, 256 * MIB)], [(256 * MIB, 256 * MIB + GIB)]]


def test_a_large_machine_goes_on_above_4g() -> None:
    assert node_ranges(_machine(2 * GIB, 2 * GIB)) == [[(0, 2 * GIB)], [(4 * GIB, 6 * GIB)]]
    assert node_ranges(_machine(GIB, 3 * GIB)) == [[(0, GIB)], [(GIB, 2 * GIB), (4 * GIB, 6 * GIB)]]


@pytest.mark.parametrize("name", ["stock-2", "terrace", "damon"])
def test_competitors_have_the_same_limit_and_demotion(name: str) -> None:
    settings = POLICIES[name].settings(_machine(GIB, GIB))
    assert ("/sys/kernel/mm/numa/demotion_enabled", "1") in settings
    assert any(value in (str(RATE_MBPS), str(RATE_MBPS * MIB)) for _, value in settings)


def test_policies_for_machines_with_slow_memory_have_a_colour_each() -> None:
    """A picture of a policy without one ended in a traceback."""
    assert {name for name, policy in POLICIES.items() if TIERS in policy.machines} <= set(COLOURS)
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_terrace_promotes_alone() -> None:
    assert dict(POLICIES["terrace"].settings(_machine(GIB, GIB)))["/proc/sys/kernel/numa_balancing"] == "0"


def test_what_starts_an_engine_comes_last() -> None:
    machine = _machine(GIB, GIB)
    assert POLICIES["terrace"].settings(machine)[-1] == ("/sys/kernel/mm/mtier/enabled", "1")
    assert POLICIES["stock-2"].settings(machine)[-1] == ("/proc/sys/kernel/numa_balancing", "2")
    assert [value for _, value in POLICIES["damon"].settings(machine)[-2:]] == ["on", "on"]


def test_damon_watches_every_range_of_both_nodes() -> None:
    settings = dict(POLICIES["damon"].settings(_machine(GIB, 3 * GIB)))
    regions = "/sys/kernel/mm/damon/admin/kdamonds/1/contexts/0/targets/0/regions"
    assert settings[f"{regions}/nr_regions"] == "2"
    assert settings[f"{regions}/1/start"] == str(4 * GIB)
    assert settings[f"{regions}/1/end"] == str(6 * GIB)


def test_the_oracle_takes_the_pages_most_accessed() -> None:
    assert placement.choose([(3, 9), (1, 5), (2, 5)], 5, 2) == {3, 1}
    assert placement.choose([(3, 9)], 5, 3) == {3, 0, 1}
    assert placement.choose([(9, 9)], 5, 9) == {0, 1, 2, 3, 4}


def test_a_placement_is_written_in_runs() -> None:
    found = placement.runs({1, 2, 4}, 6)
    assert found == [(0, 1, 1), (1, 2, 0), (3, 1, 1), (4, 1, 0), (5, 1, 1)]
    assert sum(count for _, count, _ in found) == 6
    assert placement.as_text(found[:2]) == "0 1 1\n1 2 0\n"

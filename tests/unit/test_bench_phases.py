# SPDX-License-Identifier: GPL-2.0
"""Machines whose every node has CPUs, and runs with a burst in the middle: what may be asked, what comes of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from bench_results import document
from bench_results import experiment as parse_text

from terrace.bench import experiment, loads, phases, report, tables
from terrace.bench.ledger import Kind, Ledger, Mode, Region, Tier, Vcpu
from terrace.bench.policies import CGROUP, EVEN, FOLLOW_INTERVAL_S, POLICIES, TIERS, machine_kind
from terrace.errors import UsageError
from terrace.lab.topology import MIB, load_topology

TEXT = """
purpose = "why"
expected = "what"
workload = "stream"
sizes = ["8M"]
seeds = [1, 2]
policies = ["stock-0", "lazy"]
topology = "seed-004-rx8620"
start = "first-touch"
pin = false
report = "follow"
threads = 4
[burst]
workload = "buildlike"
size = "4M"
threads = 8
at_ms = 50
options = { on-disk = true, iterations = 2 }
"""


def _vcpu(near: int, far: int, node: int) -> Vcpu:
    tiers = ((node, Tier(read_misses=near)), ((node + 1) % 4, Tier(write_misses=far)))
    app = Kind(user=Mode(tier=tiers), kernel=Mode(insns=5, busy_ns=1e9))
    sampler = Kind(kernel=Mode(insns=1000, busy_ns=1e9))
    other = Kind(user=Mode(busy_ns=2e9, stall_ns=1e9), kernel=Mode(insns=2, stall_ns=1e9))
    return Vcpu(0.0, 0.0, 0, {"app": app, "sampler": sampler, "other": other, "idle": sampler})


def _region(number: int, far: int) -> Region:
    vcpus = tuple(_vcpu(3, far, node) for node in range(4))
    return Region(number, number * 1e9, 0, 0.0, 0.0, 0, 0, 0.0, {}, vcpus)


def _ledger() -> Ledger:
    return Ledger({}, (_region(0, 9), _region(1, 9), _region(2, 0), _region(3, 9), _region(4, 1)), ())


RESULT: dict[str, Any] = {
    "round_ends_ms": [10.0, 20.0, 31.0, 71.0, 105.0, 117.0, 131.0],
    "near_samples": [[0.0, 8, 8], [50.0, 2, 8], [110.0, 6, 8], [120.0, 8, 8], [125.0, 0, 0]],
    "burst": {"begin_ms": 25.0, "end_ms": 100.0, "exit_code": 0, "result": {"elapsed_ns": 74_000_000, "ops": 32}},
}


def test_a_machine_is_of_tiers_or_has_cpus_everywhere_or_is_neither() -> None:
    kinds = {name: machine_kind(load_topology(name)) for name in ("dram-cxl", "seed-004-rx8620", "three-tier")}
    assert kinds == {"dram-cxl": TIERS, "seed-004-rx8620": EVEN, "three-tier": ""}


def test_near_is_what_a_cpu_fetches_from_its_own_node() -> None:
    found = phases.phases_of(_ledger(), load_topology("seed-004-rx8620"))
    assert {name: phase.near_ratio for name, phase in found.items()} == {"before": 1.0, "during": 0.25, "after": 0.75}
    assert phases.near_ratio(Region(2, 1e9, 0, 0.0, 0.0, 0, 0, 0.0, {}, ()), []) is None


def test_a_phases_system_time_is_everybodys_but_the_samplers() -> None:
    found = phases.phases_of(_ledger(), load_topology("seed-004-rx8620"))["during"]
    assert found.kernel_insns == 4 * 7
    assert (found.kernel_s, found.burst_user_s, found.modelled_s) == pytest.approx((4 * 2.0, 4 * 3.0, 3.0))


def test_a_run_without_a_burst_has_no_phases() -> None:
    assert phases.phases_of(Ledger({}, (_region(0, 0), _region(1, 0)), ()), load_topology("seed-004-rx8620")) == {}


def test_a_round_belongs_to_a_phase_when_all_of_it_lies_there() -> None:
    found = phases.figures(RESULT, phases.phases_of(_ledger(), load_topology("seed-004-rx8620")))
    rounds = {name: (found[name]["rounds"], found[name]["round_ms"]) for name in phases.REGIONS}
    # The third round was under way when the burst began, the fifth when it ended.
    assert rounds == {"before": (2, 10.0), "during": (1, 40.0), "after": (2, 13.0)}
    assert {name: found[name]["near_page_ratio"] for name in phases.REGIONS} == {
        "before": 1.0,
        "during": 0.25,
        "after": 0.875,
    }
    assert (found["burst_s"], found["burst_ops"]) == pytest.approx((0.074, 32))
    # The sample at 120 ms is the first behind the burst with all of them near; rounds ended at 105 and 117.
    assert found["rounds_to_near"] == 2
    never = {**RESULT, "near_samples": RESULT["near_samples"][:3]}
    assert phases.figures(never, {})["rounds_to_near"] is None


def test_the_load_runs_unpinned_in_a_group_with_the_other_beside() -> None:
    cell = parse_text(TEXT).cells()[1]
    assert (cell.policy, cell.pin, cell.flavour) == ("lazy", False, "terrace")
    words = loads.words(cell, loads.Programs(Path("/b/stream"), None, burst=Path("/b/buildlike")))
    assert "--pin" not in words
    assert words[words.index("--cgroup") + 1] == CGROUP
    # From the first touch on: the scheduler may move a thread before the measured part begins.
    assert f"/sys/fs/cgroup/{CGROUP}/cpuset.auto_migration=1" in words
    assert "--set-late" not in words
    assert words[words.index("--burst") :][:4] == ["--burst", "/b/buildlike", "--burst-ms", "50"]
    told = words[words.index("--burst-words") + 1]
    assert told == f"--size {4 * MIB} --threads 8 --seed 1 --sample-ms 60000 --on-disk --iterations 2"
    assert words[words.index("--start-node") + 1] == "-1"
    assert "--burst buildlike" in loads.describe(words, (Path("/b"),))


def test_cells_of_other_experiments_are_what_they_were() -> None:
    plain, mine = parse_text().cells()[0], parse_text(TEXT).cells()[0]
    assert not {"pin", "burst"} & set(plain.key())
    assert "--cgroup" not in loads.words(plain, loads.Programs(Path("/b/abench"), None))
    key = mine.key()
    assert key["pin"] is False
    assert key["burst"]["options"] == {"on-disk": None, "iterations": "2"}
    json.dumps(key)


@pytest.mark.parametrize(
    ("name", "lazy", "level"), [("direct", 0, 0), ("lazy", 1, 0), ("lazy-fault-1", 1, 1), ("lazy-fault-3", 1, 3)]
)
def test_what_follows_is_switched_on_last(name: str, lazy: int, level: int) -> None:
    settings = POLICIES[name].settings(load_topology("seed-004-rx8620"))
    folder = f"/sys/fs/cgroup/{CGROUP}/cpuset."
    assert settings[-1] == (f"{folder}auto_migration", "1")
    found = dict(settings)
    assert found[f"{folder}auto_migrate_lazy"] == str(lazy)
    assert found[f"{folder}migrate_on_fault"] == str(level)
    assert found[f"{folder}auto_migrate_interval"] == str(FOLLOW_INTERVAL_S)
    assert found["/proc/sys/kernel/numa_balancing"] == "0"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"lazy"', '"terrace"', "policies: 'terrace' makes no sense on machines like 'seed-004-rx8620'"),
        ('topology = "seed-004-rx8620"', "", "policies: 'lazy' makes no sense on machines like 'bench-dram-cxl'"),
        ('start = "first-touch"', "", "start: 'seed-004-rx8620' has no slow memory"),
        ("pin = false", 'dram = ["1/2"]', "dram: 'seed-004-rx8620' has no slow memory"),
        ("pin = false", "pin = 0", "pin: 0 is neither true nor false"),
        ('workload = "stream"', 'workload = "chase"', "report: 'follow' is of the workload stream and a [burst]"),
        ('workload = "stream"', 'workload = "pyheap"', "burst: pyheap has nobody work beside it"),
        ("at_ms = 50", "", "burst: 'at_ms' is missing or unknown"),
        ("at_ms = 50", "at_ms = 50\nat = 3", "burst: 'at' is missing or unknown"),
        ("at_ms = 50", "at_ms = -1", "burst.at_ms: -1"),
        ('size = "4M"', 'size = "4 elephants"', "burst.size: size '4 elephants'"),
        ('workload = "buildlike"', 'workload = "pyheap"', "burst.workload: 'pyheap' is not one of"),
        ("options = { on-disk = true, iterations = 2 }", "options = 3", "burst.options: write it as a table"),
    ],
)
def test_a_mistake_in_the_file_is_named(old: str, new: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_text(TEXT.replace(old, new))
    assert said in str(caught.value)


def _document(policy: str, burst_s: float, seed: int = 1) -> dict[str, Any]:
    phase = {
        "modelled_s": 1.0,
        "rounds": 3,
        "round_ms": 20.0,
        "near_hit_ratio": 0.9,
        "near_page_ratio": 0.8,
        "kernel_insns": 3_000_000,
        "kernel_s": 0.5,
        "burst_user_s": 0.25,
    }
    found = document(policy, 2.0, seed, cell=f"8M-spare-{policy}-seed{seed}", fast_hit_ratio=None)
    found["key"].update(size=8 << 20, dram="spare")
    found["phases"] = {"burst_s": burst_s, "burst_ops": 3, "rounds_to_near": 7, **dict.fromkeys(phases.REGIONS, phase)}
    return found


def test_the_table_compares_a_build_with_that_of_the_same_seed_where_nothing_follows() -> None:
    found = [_document("stock-0", 2.0), _document("lazy", 1.5), _document("stock-0", 4.0, 2), _document("lazy", 3.0, 2)]
    ((title, rows, head),) = tables.plain(parse_text(TEXT), found)
    assert title == "8M"
    row = rows[[row[0] for row in rows].index("lazy")]
    assert row[head.index("burst, of stock-0's %")] == "75.0"
    assert row[head.index("near hits %, before")] == "90.0"
    page = report.text([(parse_text(TEXT), found)])
    assert "from 50 ms on `buildlike --size 4M --threads 8 --on-disk --iterations 2` beside it" in page
    assert not report.has_picture(parse_text(TEXT), found)


def test_the_follow_experiment_of_this_repository_is_the_seeds() -> None:
    item = experiment.load("follow")
    machine = load_topology(item.topology)
    assert item.threads == machine.cpus
    assert item.burst
    # "32-job [2 x # cpus] parallel kernel build"
    assert item.burst.threads == 2 * machine.cpus
    assert set(item.policies) == {"stock-0", "stock-1", "direct", "lazy", "lazy-fault-1", "lazy-fault-3"}

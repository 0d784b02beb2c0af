# SPDX-License-Identifier: GPL-2.0
"""A policy without effect gives no result: the proof of each policy, and that all committed results have it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from terrace.bench import experiment, loads, store
from terrace.bench.cells import Cell
from terrace.bench.figures import printed
from terrace.bench.policies import POLICIES
from terrace.bench.proof import EARLY_S, PROOFS, Evidence, require_acted
from terrace.errors import TerraceError
from terrace.lab.topology import load_topology

FIGURES: dict[str, float | None] = {
    "scan_began_s": 0.2,
    "final_share": 0.5,
    "scan_insns": 9.0,
    "near_hit_ratio": 0.25,
}
# Counters and figures of each policy when it acts.
ACTED: dict[str, tuple[dict[str, int], dict[str, float | None]]] = {
    "all-dram": ({}, {"final_share": 1.0}),
    "oracle": ({}, {}),
    "stock-0": ({}, {}),
    "stock-1": ({"numa_pte_updates": 1}, {}),
    "stock-2": ({"numa_pte_updates": 1}, {}),
    "stock-2-early": ({"numa_pte_updates": 1}, {}),
    "stock-2-tuned": ({"numa_pte_updates": 1}, {}),
    "damon": ({}, {}),
    "terrace": ({"mtier_looks": 1}, {}),
    "stock-2-tuned-defer": ({"numa_pte_updates": 1, "tlb_defer_refused_write": 1}, {}),
    "terrace-defer": ({"mtier_looks": 1, "tlb_defer_pages": 1}, {}),
    "all-slow": ({}, {"final_share": 0.0}),
    "even": ({}, {}),
    "copies": ({}, {"near_hit_ratio": 0.98}),
    "direct": ({"numa_follow_tasks": 1}, {}),
    "lazy": ({"numa_follow_tasks": 1, "numa_follow_marked": 1}, {}),
    "lazy-fault-1": ({"numa_follow_tasks": 1, "numa_follow_marked": 1}, {}),
    "lazy-fault-3": ({"numa_follow_tasks": 1, "numa_follow_marked": 1}, {}),
}
# Cases that have to fail: counters, figures, pages by node, words of the error.
DID_NOT: list[tuple[str, dict[str, int], dict[str, float | None], tuple[int, ...], str]] = [
    ("all-dram", {}, {"final_share": 0.9}, (), "only 90.0% of the pages are on fast memory"),
    ("all-slow", {}, {"final_share": 0.02}, (), "2.0% of the pages are on fast memory"),
    ("oracle", {}, {"final_share": 0.0}, (), "no page is on fast memory"),
    ("oracle", {"pgpromote_success": 7}, {}, (), "pgpromote_success is 7, and nothing was to be"),
    ("stock-0", {"numa_pte_updates": 3}, {}, (), "numa_pte_updates is 3"),
    ("stock-1", {}, {}, (), r"scanned no page \(numa_pte_updates 0\)"),
    ("stock-2", {}, {}, (), "scanned no page"),
    ("stock-2-early", {"numa_pte_updates": 1}, {"scan_began_s": None}, (), "came not within the first second"),
    ("stock-2-early", {"numa_pte_updates": 1}, {"scan_began_s": EARLY_S + 0.01}, (), "came after 0.51 s"),
    ("stock-2-early", {}, {}, (), "scanned no page"),
    ("stock-2-tuned", {"numa_pte_updates": 1}, {"scan_began_s": EARLY_S + 0.01}, (), "came after 0.51 s"),
    ("damon", {}, {"scan_insns": 0.0}, (), "kdamond did not run"),
    ("terrace", {}, {}, (), "promotion scanned nothing"),
    ("stock-2-tuned-defer", {"tlb_defer_pages": 1}, {}, (), "scanned no page"),
    (
        "stock-2-tuned-defer",
        {"numa_pte_updates": 1, "tlb_defer_folios": 1},
        {},
        (),
        "of no migrated page was it judged",
    ),
    ("terrace-defer", {"mtier_looks": 1}, {}, (), "of no migrated page was it judged"),
    ("even", {}, {}, (9, 9, 9, 1), "not on all nodes alike"),
    ("even", {}, {}, (), "not on all nodes alike"),
    ("copies", {}, {}, (), "only 25.0% of the accesses"),
    ("direct", {}, {}, (), "no memory followed"),
    ("lazy", {"numa_follow_tasks": 1}, {}, (), "no page was marked"),
    ("lazy-fault-3", {"numa_follow_marked": 1}, {}, (), "no memory followed"),
]


def evidence(vmstat: Mapping[str, int], figures: Mapping[str, float | None], pages: tuple[int, ...]) -> Evidence:
    return Evidence(vmstat, {**FIGURES, **figures}, pages)


def test_every_policy_has_a_proof_and_both_kinds_of_example() -> None:
    assert set(PROOFS) == set(POLICIES) == set(ACTED) == {name for name, *_ in DID_NOT} | {"lazy-fault-1"}


@pytest.mark.parametrize("name", sorted(ACTED))
def test_a_policy_that_acted_passes(name: str) -> None:
    require_acted(name, evidence(*ACTED[name], (4, 4, 4, 4)))


@pytest.mark.parametrize(("name", "vmstat", "figures", "pages", "words"), DID_NOT)
def test_a_policy_that_did_not_act_fails_with_what_was_counted(
    name: str, vmstat: dict[str, int], figures: dict[str, float | None], pages: tuple[int, ...], words: str
) -> None:
    with pytest.raises(TerraceError, match=f"{name} \\(.*\\) did not act: .*{words}"):
        require_acted(name, evidence(vmstat, figures, pages))


def committed() -> Iterator[dict[str, Any]]:
    for name in experiment.names():
        for document in store.read_all(experiment.load(name).folder / "results"):
            if document["status"] == store.OK:
                yield document


def test_every_committed_result_has_its_proof() -> None:
    """Older results lack the time of the first scan; every other part of the proof is checked."""
    seen = 0
    for document in committed():
        name = document["key"]["policy"]
        figures = {"scan_began_s": 0.0, "near_hit_ratio": None, **document["figures"]}
        by_node = document["workload"]["placed_last"]["by_node"]
        pages = [int(by_node.get(str(node), 0)) for node in range(len(document["machine"]["memory"]))]
        require_acted(name, Evidence(document["vmstat"], figures, pages))
        seen += 1
    assert seen > 400


def _cell(policy: str) -> Cell:
    for name in experiment.names():
        for cell in experiment.load(name).cells():
            if cell.policy == policy:
                return cell
    raise AssertionError(f"no experiment has {policy}")


def test_what_a_task_copies_at_its_fork_is_written_before_the_load_exists() -> None:
    cell = _cell("stock-2-early")
    words = loads.words(cell, loads.compile_for(cell))
    before, load = words[: words.index("--")], words[words.index("--") + 1 :]
    assert Path(before[0]).name.startswith("preset-")
    assert before[1:] == ["/sys/kernel/debug/sched/numa_balancing/scan_delay_ms=100"]
    assert not any("scan_delay_ms" in word for word in load)
    assert any(word == "/proc/sys/kernel/numa_balancing=2" for word in load)


def test_other_policies_need_no_program_before_theirs() -> None:
    cell = _cell("stock-2")
    programs = loads.compile_for(cell)
    assert programs.preset is None
    assert not Path(loads.words(cell, programs)[0]).name.startswith("preset-")


def test_early_is_earlier_than_stock() -> None:
    machine = load_topology("bench-dram-cxl")
    assert POLICIES["stock-2-early"].settings(machine) == POLICIES["stock-2"].settings(machine)
    ((path, value),) = POLICIES["stock-2-early"].before(machine)
    assert path.endswith("scan_delay_ms")
    assert int(value) / 1e3 < EARLY_S < 1.0


def test_tuned_settings_are_those_of_a_tenth_of_a_second() -> None:
    machine = load_topology("bench-dram-cxl")
    before = {Path(path).name: value for path, value in POLICIES["stock-2-tuned"].before(machine)}
    assert before == {
        "scan_delay_ms": "1",
        "scan_period_min_ms": "100",
        "scan_period_max_ms": "100",
        "hot_threshold_ms": "100",
    }


def test_a_result_without_the_time_of_its_first_scan_is_refused() -> None:
    result = {"schema": "terrace.workload", "version": 1, "elapsed_ns": 1, "samples": [], "vmstat": {}, "shootdowns": 0}
    with pytest.raises(KeyError, match="scan_began_ms"):
        printed(result)

# SPDX-License-Identifier: GPL-2.0
"""Interrupts of TLB flushes for each migrated page, and the time that they would take at other costs."""

from typing import Any

import pytest
from bench_results import TEXT, document, experiment

from terrace.bench import deferral, tables
from terrace.bench.deferral import Cost

VMSTAT = {
    "tlb_defer_pages": 300,
    "tlb_defer_folios": 290,
    "tlb_defer_refused_write": 600,
    "tlb_defer_joined": 100,
    "tlb_defer_tick_flush": 40,
    "tlb_defer_batch_clean": 3,
    "tlb_defer_batch_flushed": 1,
}
LEDGER: dict[str, Any] = {
    "vcpu_ns": [[2e9, 0.0], [2e9, 1e9]],
    "shootdowns": 100,
    "shootdowns_received": 300,
    "shootdown_ns": 500_000.0,
    "kinds": {
        "app": {"user": {"dtlb_miss": 7}, "kernel": {"shootdowns_sent": 60}},
        "kswapd": {"kernel": {"shootdowns_sent": 40}},
    },
}


def deferring(**changes: Any) -> dict[str, Any]:
    return document("terrace", 1.0, moved_pages=1000, vmstat=VMSTAT, ledger=LEDGER, **changes)


def test_interrupts_are_counted_for_each_migrated_page_and_by_sender() -> None:
    found = deferring()
    assert deferral.per_page(found, deferral.sent(found)) == 0.1
    assert deferral.per_page(found, deferral.received(found)) == 0.3
    assert deferral.per_page(document("terrace", 1.0), 5) is None
    assert [deferral.sent_by(found, who) for who in deferral.SENDERS] == [60, 0, 40, 0]
    assert deferral.flushes(found) == 340


def test_the_share_that_waited_is_of_all_that_were_judged() -> None:
    found = deferring()
    assert deferral.share(found, "pages") == 0.3
    assert deferral.share(found, "refused_write") == 0.6
    assert deferral.share(found, "refused_pending") == 0.0
    assert deferral.clean_batches(found) == 0.75
    still = document("stock-2", 1.0)
    assert [deferral.share(still, name) for name in ("pages", "joined")] == [None, None]
    assert deferral.clean_batches(still) is None


@pytest.mark.parametrize(
    ("cost", "cores", "microseconds"),
    [
        (Cost("free", 0, 0, 0), 1, 0),
        (Cost("send", 2, 0, 0), 1, 200),
        (Cost("receive", 0, 0, 1), 4, 300),
        (Cost("each", 0, 0.5, 0), 4, 600),
    ],
)
def test_time_is_calculated_for_another_cost(cost: Cost, cores: float, microseconds: float) -> None:
    found = deferring()
    found["machine"] = {**found["machine"], "cores_per_cpu": cores}
    # Two CPUs were busy for 3 s in all, of which requests to flush took 500 us.
    assert deferral.time_with(found, cost) == pytest.approx((3 - 500e-6 + microseconds / 1e6) / 2)


def test_the_same_cost_gives_the_same_time() -> None:
    found = deferring()
    same = Cost("as it was", 2, 0, 1)
    assert deferral.time_with(found, same) == pytest.approx(tables.time_of(found))


def test_a_table_for_each_number_of_cpus() -> None:
    text = TEXT.replace("seeds = [1, 2]", "seeds = [1]\nreport = 'deferral'\ncpus = [4, 8]")
    found = []
    for cpus, moved in ((4, 1000), (8, 2000)):
        cell = deferring()
        cell["key"] = {**cell["key"], "cpus": cpus}
        cell["cell"] = f"32M-dram1of2-{cpus}cpus-terrace-seed1"
        cell["figures"] = {**cell["figures"], "moved_pages": moved}
        found.append(cell)
    shown = tables.plain(experiment(text), found)
    assert [title for title, _, _ in shown] == [f"{cpus} CPUs, 32M, DRAM for 1/2 of it" for cpus in (4, 8)]
    by_head = [dict(zip(head, rows[0], strict=True)) for _, rows, head in shown]
    assert [row["sent /1000"] for row in by_head] == ["100.0", "50.0"]
    assert [row["waited %"] for row in by_head] == ["30.0", "30.0"]
    assert by_head[0]["sent by faults /1000"] == "60.0"

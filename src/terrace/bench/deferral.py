# SPDX-License-Identifier: GPL-2.0
"""TLB flushes of migrated pages in results: interrupts by sender, and the share of pages that waited. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]

#: Each migrated page is counted in one of these counters of /proc/vmstat, whether or not its flush waits.
JUDGED = tuple(
    f"tlb_defer_{name}"
    for name in (
        *("pages", "joined", "no_need", "refused_write", "refused_pending", "refused_file", "refused_open"),
        *("refused_kind", "refused_full", "refused_pressure", "refused_backoff"),
    )
)
#: Names of those who send requests to flush, and their kind and mode in the ledger.
SENDERS = {"faults": "app", "hint scan": "numa_scan", "kswapd": "kswapd", "kmtierd": "kmtierd"}


@dataclass(frozen=True)
class Cost:
    """Microseconds of a request to flush: of its sender, of its sender for each receiving core, of each receiver."""

    name: str
    send: float
    each: float
    receive: float


#: Costs for which the run time is calculated again (docs/reference/bench.md). The machine of the seed has bare metal's.
COSTS = (
    Cost("free", 0.0, 0.0, 0.0),
    Cost("2+1 us", 2.0, 0.0, 1.0),
    Cost("4 x bare metal", 4.0, 0.4, 1.6),
)


def sent(document: Document) -> int:
    """Get the number of requests to flush, one for each flush that interrupted another CPU."""
    return int(document["ledger"]["shootdowns"])


def received(document: Document) -> int:
    """Get the number of requests that CPUs received from others."""
    return int(document["ledger"]["shootdowns_received"])


def sent_by(document: Document, who: str) -> int:
    """Get the number of requests of one of SENDERS."""
    kind = document["ledger"]["kinds"].get(SENDERS[who], {})
    return sum(int(mode.get("shootdowns_sent", 0)) for mode in kind.values())


def flushes(document: Document) -> int:
    """Get the number of flushes on a CPU for another one: requests received, and what waited for a timer tick."""
    return received(document) + count(document, "tlb_defer_tick_flush")


def count(document: Document, name: str) -> int:
    """Get the growth of a counter of /proc/vmstat in the measured part; 0 if it did not grow."""
    return int(document["vmstat"].get(name, 0))


def per_page(document: Document, amount: float) -> float | None:
    """Divide by the number of migrated pages; None if no page migrated."""
    moved = document["figures"]["moved_pages"]
    return amount / moved if moved else None


def judged(vmstat: Mapping[str, int]) -> int:
    """Sum the counters of JUDGED, the number of migrated pages."""
    return sum(int(vmstat.get(name, 0)) for name in JUDGED)


def share(document: Document, name: str) -> float | None:
    """Get the share of migrated pages in one of JUDGED, without `tlb_defer_`; None if there is no page in any."""
    pages = judged(document["vmstat"])
    return count(document, f"tlb_defer_{name}") / pages if pages else None


def clean_batches(document: Document) -> float | None:
    """Get the share of batches of migrated pages that sent no request; None without batches."""
    clean, flushed = (count(document, f"tlb_defer_batch_{how}") for how in ("clean", "flushed"))
    return clean / (clean + flushed) if clean + flushed else None


def app_misses(document: Document, level: str) -> int:
    """Get the misses of the load's own code in a TLB, `dtlb` or `stlb`."""
    return int(document["ledger"]["kinds"]["app"]["user"].get(f"{level}_miss", 0))


def time_with(document: Document, cost: Cost) -> float:
    """Calculate the run time in seconds if requests to flush had another cost.

    The time of all CPUs is divided by their number, as in `tables.time_of`. The run itself is not repeated: what
    policies would do at another time because of it is not in this figure.
    """
    ledger = document["ledger"]
    cores = float(document["machine"].get("cores_per_cpu", 1.0))
    own = sent(document) * cost.send + received(document) * (cost.each * cores + cost.receive)
    busy_ns = sum(clock - idle for clock, idle in ledger["vcpu_ns"])
    return float(busy_ns - ledger["shootdown_ns"] + own * 1e3) / len(ledger["vcpu_ns"]) / 1e9

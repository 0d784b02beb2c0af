# SPDX-License-Identifier: GPL-2.0
"""Tables of results: one table for each size and amount of DRAM, one row per policy. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

from terrace.bench import deferral
from terrace.bench.cells import SPARE
from terrace.bench.experiment import EVEN_REPORTS, Experiment
from terrace.bench.policies import POLICIES
from terrace.bench.stats import Mean, gap_closed, mean
from terrace.bench.store import OK
from terrace.units import format_size

Document = Mapping[str, Any]
Figures = Mapping[str, Any]


@dataclass
class Group:
    """All results of one size and amount of DRAM; bounds without a limit of DRAM belong to every group."""

    size: int
    dram: str
    cpus: int = 0
    by_policy: dict[str, list[Document]] = field(default_factory=dict)
    tiers: bool = True

    @property
    def title(self) -> str:
        """Format the parameters common to its results."""
        size = format_size(self.size)
        if self.cpus:
            size = f"{self.cpus} CPUs, {size}"
        if not self.tiers:
            return size
        spare = "DRAM to spare" if self.dram == SPARE else f"DRAM for {self.dram} of it"
        return f"{size}, {spare}"

    def good(self, policy: str) -> list[Document]:
        """Get its measured cells."""
        return [document for document in self.by_policy.get(policy, []) if document["status"] == OK]

    def bad(self) -> list[Document]:
        """Get the cells that failed."""
        return [doc for documents in self.by_policy.values() for doc in documents if doc["status"] != OK]

    def twin(self, policy: str, document: Document) -> Document | None:
        """Get the result of that policy with the seed and repetition of `document`."""
        for other in self.good(policy):
            if all(other["key"][name] == document["key"][name] for name in ("seed", "repetition")):
                return other
        return None


def figures(document: Document) -> Figures:
    """Get a document's figures."""
    found: Figures = document["figures"]
    return found


def time_of(document: Document) -> float:
    """Get the run's time: the sum of the CPUs' modelled busy seconds, divided by their number.

    This is the time of the work if it is spread evenly. The time of the slowest CPU (modelled_s)
    depends on which thread shares its CPU with a daemon.
    """
    cpus = document["ledger"]["vcpu_ns"]
    return float(sum(clock - idle for clock, idle in cpus)) / len(cpus) / 1e9


def groups(experiment: Experiment, documents: Sequence[Document]) -> list[Group]:
    """Get the results of an experiment in the order of its bench.toml, without cells that it does not list."""
    known = {cell.name for cell in experiment.cells()}
    mine = [document for document in documents if document["cell"] in known]
    found = []
    for cpus, size in product(experiment.cpus or (0,), sorted(experiment.sizes)):
        for dram in (SPARE if part is None else str(part) for part in experiment.dram):
            group = Group(size, dram, cpus, tiers=experiment.report not in EVEN_REPORTS)
            for policy in experiment.policies:
                wanted = SPARE if _is_bound(policy) else dram
                group.by_policy[policy] = [
                    document
                    for document in mine
                    if (
                        *(document["key"][name] for name in ("size", "dram", "policy")),
                        document["key"].get("cpus", 0),
                    )
                    == (size, wanted, policy, cpus)
                ]
            own = [policy for policy, cells in group.by_policy.items() if cells and not _is_bound(policy)]
            if own or (dram == SPARE and any(group.by_policy.values())):
                found.append(group)
    return found


def _is_bound(policy: str) -> bool:
    """Whether it is measured once for all amounts of DRAM."""
    return POLICIES[policy].limit in ("fast", "slow")


def gap_of(group: Group, document: Document) -> float | None:
    """Get the gap that a cell closed, against the bounds of its own seed; None without both."""
    slow, fast = group.twin("all-slow", document), group.twin("all-dram", document)
    if slow is None or fast is None:
        return None
    return gap_closed(time_of(slow), time_of(document), time_of(fast))


def hits_of(group: Group, document: Document) -> float | None:
    """Get the share of accesses that fast memory served, relative to the oracle's; None without one."""
    other, mine = group.twin("oracle", document), figures(document)["fast_hit_ratio"]
    best = other and figures(other)["fast_hit_ratio"]
    return None if not best or mine is None else float(mine / best)


def time_of_still(group: Group, document: Document) -> float | None:
    """Get a cell's time relative to a run without migration, on the stock kernel and with the same
    seed; None without one.
    """
    other = group.twin("stock-0", document)
    return None if other is None else time_of(document) / time_of(other)


def late_hits(document: Document) -> float | None:
    """Get the share of accesses that fast memory served in the second half of the measured time;
    None without any.

    This is the quality of a policy after it has adapted: `series_ms_fast_slow` has the end of each
    step in ms, and the accesses that each tier served in it.
    """
    series: Sequence[tuple[float, int, int]] = document["series_ms_fast_slow"]
    late = [step for step in series if step[0] > series[-1][0] / 2]
    fast, slow = sum(step[1] for step in late), sum(step[2] for step in late)
    return fast / (fast + slow) if fast + slow else None


def late_hits_of(group: Group, document: Document) -> float | None:
    """Get the same relative to the oracle's, which is static: it uses the accesses of the whole run."""
    other, mine = group.twin("oracle", document), late_hits(document)
    best = other and late_hits(other)
    return None if not best or mine is None else mine / best


def _tail_of(document: Document) -> float | None:
    """Get p99.9 in ns; None if the CPUs' clocks differed by as much: the guest cannot measure shorter times."""
    found = figures(document)
    tail = found.get("p999_ns")
    return tail if tail is not None and tail > (found["skew_us"] or 0.0) * 1000 else None


def average(values: Sequence[float | None]) -> Mean | None:
    """Get the mean of the existing values."""
    return mean([value for value in values if value is not None])


def figure(documents: Sequence[Document], name: str) -> Mean | None:
    """Get the mean of one figure."""
    return average([figures(document).get(name) for document in documents])


def show(value: Mean | None, form: str, scale: float = 1.0, of: int | None = None) -> str:
    """Format a mean with its interval; `of` is the possible number of values."""
    if value is None:
        return "-"
    text = format(value.value * scale, form)
    if value.half is not None and float(format(value.half * scale, form).replace(",", "")):
        text += f" ± {format(value.half * scale, form)}"
    return text if of is None or value.n == of else f"{text} ({value.n} of {of})"


@dataclass(frozen=True)
class Column:
    """One column: its head, and a function that formats a policy's cells in a group."""

    head: str
    cell: Callable[[Group, list[Document]], str]


def _plain(head: str, name: str, form: str, scale: float = 1.0) -> Column:
    return Column(head, lambda group, docs: show(figure(docs, name), form, scale, len(docs)))


COLUMNS = (
    Column("n", lambda group, docs: str(len(docs))),
    Column("time s", lambda group, docs: show(average([time_of(doc) for doc in docs]), ".3f")),
    Column("gap closed %", lambda group, docs: show(average([gap_of(group, doc) for doc in docs]), ".1f", 100)),
    Column(
        "time, of stock-0's %",
        lambda group, docs: show(average([time_of_still(group, doc) for doc in docs]), ".1f", 100),
    ),
    _plain("to 90 % s", "to_90_s", ".2f"),
    _plain("fast hits %", "fast_hit_ratio", ".1f", 100),
    Column("of oracle's %", lambda group, docs: show(average([hits_of(group, doc) for doc in docs]), ".1f", 100)),
    Column("late hits %", lambda group, docs: show(average([late_hits(doc) for doc in docs]), ".1f", 100)),
    Column(
        "late, of oracle's %", lambda group, docs: show(average([late_hits_of(group, doc) for doc in docs]), ".1f", 100)
    ),
    _plain("promoted", "promoted_pages", ",.0f"),
    _plain("demoted", "demoted_pages", ",.0f"),
    _plain("moved", "moved_pages", ",.0f"),
    _plain("IPIs/page", "ipis_per_page", ".3f"),
    _plain("kernel M insns", "kernel_insns", ",.0f", 1e-6),
    _plain("scan M insns", "scan_insns", ",.1f", 1e-6),
    _plain("scan CPU %", "scan_cpu", ".2f", 100),
    Column("p99.9 us", lambda group, docs: show(average([_tail_of(doc) for doc in docs]), ",.1f", 1e-3, len(docs))),
    _plain("clock", "clock_ratio", ".2f"),
)


def _phase(head: str, phase: str, name: str, form: str, scale: float = 1.0) -> Column:
    """Get a figure of one phase of a run with a burst."""

    def cell(group: Group, docs: list[Document]) -> str:
        return show(average([doc["phases"][phase][name] for doc in docs]), form, scale, len(docs))

    return Column(head, cell)


def burst_of_still(group: Group, document: Document) -> float | None:
    """Get the time of a burst relative to a run without migration, with the same seed; None without one."""
    other = group.twin("stock-0", document)
    return None if other is None else float(document["phases"]["burst_s"] / other["phases"]["burst_s"])


FOLLOW_COLUMNS = (
    Column("n", lambda group, docs: str(len(docs))),
    Column("burst s", lambda group, docs: show(average([doc["phases"]["burst_s"] for doc in docs]), ".3f")),
    Column(
        "burst, of stock-0's %",
        lambda group, docs: show(average([burst_of_still(group, doc) for doc in docs]), ".1f", 100),
    ),
    _phase("its user s", "during", "burst_user_s", ".3f"),
    _phase("system s, during", "during", "kernel_s", ".3f"),
    _phase("round ms, before", "before", "round_ms", ".1f"),
    _phase("during", "during", "round_ms", ".1f"),
    _phase("after", "after", "round_ms", ".1f"),
    _phase("near hits %, before", "before", "near_hit_ratio", ".1f", 100),
    _phase("during", "during", "near_hit_ratio", ".1f", 100),
    _phase("after", "after", "near_hit_ratio", ".1f", 100),
    _phase("near pages %, after", "after", "near_page_ratio", ".1f", 100),
    Column(
        "rounds to near",
        lambda group, docs: show(average([doc["phases"]["rounds_to_near"] for doc in docs]), ".0f", of=len(docs)),
    ),
    _plain("moved", "moved_pages", ",.0f"),
    _plain("kernel M insns", "kernel_insns", ",.0f", 1e-6),
    _phase("during", "during", "kernel_insns", ",.0f", 1e-6),
    _plain("clock", "clock_ratio", ".2f"),
)


def saved_of_copies(group: Group, document: Document) -> float | None:
    """Get the time saved compared with all pages on one node, relative to the saving of a copy on
    each; None without both.
    """
    still, best = group.twin("stock-0", document), group.twin("copies", document)
    if still is None or best is None:
        return None
    return gap_closed(time_of(still), time_of(document), time_of(best))


NODES_COLUMNS = (
    Column("n", lambda group, docs: str(len(docs))),
    Column("time s", lambda group, docs: show(average([time_of(doc) for doc in docs]), ".3f")),
    Column(
        "time, of stock-0's %",
        lambda group, docs: show(average([time_of_still(group, doc) for doc in docs]), ".1f", 100),
    ),
    Column(
        "of what copies save %",
        lambda group, docs: show(average([saved_of_copies(group, doc) for doc in docs]), ".1f", 100),
    ),
    _plain("user s", "app_user_s", ".3f"),
    _plain("near hits %", "near_hit_ratio", ".1f", 100),
    _plain("moved", "moved_pages", ",.0f"),
    _plain("kernel M insns", "kernel_insns", ",.0f", 1e-6),
    _plain("clock", "clock_ratio", ".2f"),
)


def _computed(head: str, compute: Callable[[Document], float | None], form: str, scale: float = 1.0) -> Column:
    return Column(head, lambda group, docs: show(average([compute(doc) for doc in docs]), form, scale, len(docs)))


def _per_page(head: str, amount: Callable[[Document], float]) -> Column:
    """Get a number for a thousand migrated pages."""
    return _computed(head, lambda doc: deferral.per_page(doc, amount(doc)), ",.1f", 1000)


DEFERRAL_COLUMNS = (
    Column("n", lambda group, docs: str(len(docs))),
    _computed("time s", time_of, ".3f"),
    _plain("moved", "moved_pages", ",.0f"),
    _per_page("sent /1000", deferral.sent),
    _per_page("received /1000", deferral.received),
    _per_page("flushes /1000", deferral.flushes),
    *(_per_page(f"sent by {who} /1000", partial(deferral.sent_by, who=who)) for who in deferral.SENDERS),
    _computed("waited %", partial(deferral.share, name="pages"), ".1f", 100),
    _computed("writable %", partial(deferral.share, name="refused_write"), ".1f", 100),
    _computed("pending %", partial(deferral.share, name="refused_pending"), ".1f", 100),
    _computed("clean batches %", deferral.clean_batches, ".1f", 100),
    _computed("dTLB misses M", partial(deferral.app_misses, level="dtlb"), ",.1f", 1e-6),
    _computed("STLB misses M", partial(deferral.app_misses, level="stlb"), ",.1f", 1e-6),
    _plain("kernel M insns", "kernel_insns", ",.0f", 1e-6),
    *(_computed(f"time s, {cost.name}", partial(deferral.time_with, cost=cost), ".3f") for cost in deferral.COSTS),
)
# Columns by the report of bench.toml.
BY_REPORT = {
    "policies": COLUMNS,
    "scale": COLUMNS,
    "deferral": DEFERRAL_COLUMNS,
    "follow": FOLLOW_COLUMNS,
    "nodes": NODES_COLUMNS,
}


def rows(group: Group, columns: Sequence[Column] = COLUMNS) -> list[list[str]]:
    """Get one row for each measured policy."""
    found = []
    for policy, documents in group.by_policy.items():
        good = group.good(policy)
        if good:
            found.append([policy, *(column.cell(group, good) for column in columns)])
        elif documents:
            found.append([policy, f"failed: {documents[0]['error'].splitlines()[0][:80]}"])
    return found


def head(columns: Sequence[Column] = COLUMNS) -> list[str]:
    """Get the head of `rows`."""
    return ["policy", *(column.head for column in columns)]


def plain(experiment: Experiment, documents: Sequence[Document]) -> list[tuple[str, list[list[str]], list[str]]]:
    """Get title, rows and head of each table; columns that are empty in all rows are left out."""
    columns = BY_REPORT[experiment.report]
    return [
        (group.title, *without_empty(rows(group, columns), head(columns))) for group in groups(experiment, documents)
    ]


def markdown(table: Sequence[Sequence[str]], names: Sequence[str]) -> list[str]:
    """Format a table in Markdown; short rows (a failure) are padded."""
    rows = [names, ["---"] * len(names), *([*row, *[""] * (len(names) - len(row))] for row in table)]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]


def without_empty(table: list[list[str]], names: list[str]) -> tuple[list[list[str]], list[str]]:
    """Drop columns without contents."""
    kept = [
        place
        for place in range(len(names))
        if any(place < len(row) and row[place] != "-" for row in table if len(row) == len(names)) or place < 2
    ]
    short = [[row[place] for place in kept] if len(row) == len(names) else row for row in table]
    return short, [names[place] for place in kept]

# SPDX-License-Identifier: GPL-2.0
"""How far the results go, and where Terrace is behind: a block of README and tutorial, made from the results.

The block is between two marks. `bench report` replaces it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from terrace.bench import store, tables
from terrace.bench.blocks import with_block
from terrace.bench.experiment import Experiment
from terrace.bench.policies import POLICIES
from terrace.bench.stats import Mean, difference, mean
from terrace.bench.tables import Document, Group
from terrace.lab.topology import load_topology
from terrace.paths import repo_root

OURS = "terrace"
PAGES = ("README.md", "docs/tutorial.md")
BEGIN = "<!-- behind: `./terrace bench report` writes this from the results -->"
END = "<!-- end of behind -->"
# The columns of a table that the block shows: quality and cost. Columns that the table lacks are left out.
_COLUMNS = ("policy", "n", "time s", "gap closed %", "fast hits %", "promoted", "kernel M insns")


class Verdict(Enum):
    """Outcome of a table, by the 95 % interval of the difference between Terrace and the best other policy."""

    AHEAD = "ahead"
    UNCLEAR = "unclear"
    BEHIND = "behind"
    #: Terrace or the other policy was measured with a single seed, so there is no interval.
    ONE_SEED = "one seed"


@dataclass(frozen=True)
class Compared:
    """A table with Terrace and at least one other policy that is no bound: the gaps that both close, by seed."""

    item: Experiment
    group: Group
    rival: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def by(self) -> float:
        """Mean share of the gap that Terrace closes beyond the rival; negative where Terrace is behind."""
        return sum(self.ours) / len(self.ours) - sum(self.theirs) / len(self.theirs)

    @property
    def verdict(self) -> Verdict:
        """The outcome of this table."""
        found = difference(self.ours, self.theirs)
        if found is None:
            return Verdict.ONE_SEED
        if abs(found.value) <= (found.half or 0.0):
            return Verdict.UNCLEAR
        return Verdict.AHEAD if found.value > 0 else Verdict.BEHIND

    @property
    def name(self) -> str:
        """Experiment and table."""
        return f"{self.item.name}, {self.group.title}"


def compare(found: Iterable[tuple[Experiment, Sequence[Document]]]) -> list[Compared]:
    """Every table in which Terrace can be compared; smoke tests, which have a tolerance, are none."""
    compared = []
    for item, documents in found:
        for group in tables.groups(item, documents) if not item.tolerance else ():
            gaps = {name: _gaps(group, name) for name in group.by_policy if not POLICIES[name].limit}
            ours = gaps.pop(OURS, ())
            rivals = {name: values for name, values in gaps.items() if values}
            if ours and rivals:
                rival = max(rivals, key=lambda name: sum(rivals[name]) / len(rivals[name]))
                compared.append(Compared(item, group, rival, ours, rivals[rival]))
    return compared


def _gaps(group: Group, policy: str) -> tuple[float, ...]:
    found = (tables.gap_of(group, document) for document in group.good(policy))
    return tuple(gap for gap in found if gap is not None)


def text(found: Iterable[tuple[Experiment, Sequence[Document]]], docs: str) -> str:
    """The block without its marks; `docs` is the way to the folder of the pages it points to."""
    compared = compare(found)
    links = f"[What each column means]({docs}reference/bench.md#columns), [all results]({docs}results.md)."
    behind = sorted(
        (one for one in compared if one.by < 0), key=lambda one: (one.verdict is not Verdict.BEHIND, one.by)
    )
    lines = [*_reach(compared, docs), ""]
    if not behind:
        return "\n".join(
            [*lines, f"On average of its seeds no other policy closes more of the gap in any table. {links}", ""]
        )
    worst = behind[0]
    cpus = load_topology(worst.item.topology).cpus
    lines += [
        f"On average of the seeds another policy closes more of the gap in {_count(behind)}:",
        "",
        *(f"- {_line(one)}" for one in behind),
        "",
        f"The first of these, with {worst.item.threads} threads on {cpus} CPUs:",
        "",
        *_rows(worst),
        "",
        f"Times are of a model; ± is half of the 95 % interval. {links}",
    ]
    return "\n".join(lines) + "\n"


def _reach(compared: Sequence[Compared], docs: str) -> list[str]:
    """Sum up the outcomes of all tables and the data below them."""
    verdicts = [one.verdict for one in compared]
    single = verdicts.count(Verdict.ONE_SEED)
    ours = [document for one in compared for document in one.group.good(OURS)]
    builds = len({document["kernel"]["content_hash"] for document in ours})
    return [
        f"**How far the results go.** Terrace is compared with the best other policy in {_count(compared)}, by the gap",
        "that each closes between all memory slow (0 %) and all of it DRAM (100 %).",
        "",
        f"- {single} of them rest on one seed of Terrace or of the other policy, and decide nothing.",
        f"- In the other {len(compared) - single} the 95 % interval of the difference gives: ahead in "
        f"{verdicts.count(Verdict.AHEAD)}, behind in {verdicts.count(Verdict.BEHIND)}, unclear in "
        f"{verdicts.count(Verdict.UNCLEAR)}.",
        f"- They were measured {store.measured(ours)}, with {builds} build{'' if builds == 1 else 's'} of the Terrace "
        "kernel.",
        f"- The other policies run with the settings that [bench]({docs}reference/bench.md#policies) lists; only "
        "stock-2-tuned is tuned.",
    ]


def _count(items: Sequence[Compared]) -> str:
    return f"{len(items)} table{'' if len(items) == 1 else 's'}"


def _line(one: Compared) -> str:
    sure = {Verdict.BEHIND: "clearly behind", Verdict.ONE_SEED: "one seed"}.get(one.verdict, "unclear")
    return f"{one.name}: {one.rival} {_percent(mean(one.theirs))}, Terrace {_percent(mean(one.ours))} ({sure})"


def _rows(one: Compared) -> list[str]:
    rows, head = tables.without_empty(tables.rows(one.group), tables.head())
    kept = [place for place, name in enumerate(head) if name in _COLUMNS]
    return tables.markdown(
        [[row[place] for place in kept if place < len(row)] for row in rows], [head[place] for place in kept]
    )


def _percent(gap: Mean | None) -> str:
    return f"{tables.show(gap, '.1f', 100)} %"


def pages(found: Sequence[tuple[Experiment, Sequence[Document]]]) -> dict[Path, str]:
    """The new texts of README and tutorial, by path."""
    wanted = {}
    for name in PAGES:
        path = repo_root() / name
        docs = "docs/" if path.parent == repo_root() else ""
        wanted[path] = with_block(path.read_text(encoding="utf-8"), text(found, docs), name, (BEGIN, END))
    return wanted

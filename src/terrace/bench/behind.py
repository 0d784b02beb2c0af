# SPDX-License-Identifier: GPL-2.0
"""Where Terrace is behind: the table that README and tutorial show beside the demo, from the results alone.

Both have the block between two marks; `bench report` writes it again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace.bench import tables
from terrace.bench.blocks import with_block
from terrace.bench.experiment import Experiment
from terrace.bench.policies import POLICIES
from terrace.bench.stats import Mean
from terrace.bench.tables import Document, Group
from terrace.lab.topology import load_topology
from terrace.paths import repo_root

OURS = "terrace"
PAGES = ("README.md", "docs/tutorial.md")
BEGIN = "<!-- behind: `./terrace bench report` writes this from the results -->"
END = "<!-- end of behind -->"
# Of a table's columns, those that say how good it was and what it cost; what a table has not is left out.
_COLUMNS = ("policy", "n", "time s", "gap closed %", "fast hits %", "promoted", "kernel M insns")


@dataclass(frozen=True)
class Behind:
    """A table in which a rival closes more of the gap between slow and fast memory: `by` is how much more."""

    item: Experiment
    group: Group
    rival: str
    ours: Mean
    theirs: Mean

    @property
    def by(self) -> float:
        """The difference, as a part of the gap."""
        return self.theirs.value - self.ours.value

    @property
    def clear(self) -> bool:
        """Is it more than both intervals together? Of one seed there is none, and nothing is clear."""
        halves = (self.ours.half, self.theirs.half)
        return None not in halves and self.by > sum(half or 0.0 for half in halves)

    @property
    def name(self) -> str:
        """Experiment and table."""
        return f"{self.item.name}, {self.group.title}"


def places(found: Iterable[tuple[Experiment, Sequence[Document]]]) -> tuple[list[Behind], int]:
    """The tables in which a rival is ahead, the worst that is clear first, and how many have Terrace and a rival."""
    behind, compared = [], 0
    for item, documents in found:
        for group in tables.groups(item, documents) if not item.tolerance else ():
            gaps = {name: _gap(group, name) for name in group.by_policy if not POLICIES[name].limit}
            known = {name: gap for name, gap in gaps.items() if gap}
            ours = known.get(OURS)
            rivals = {name: gap for name, gap in known.items() if name != OURS}
            if ours is None or not rivals:
                continue
            compared += 1
            rival = max(rivals, key=lambda name: rivals[name].value)
            theirs = rivals[rival]
            if theirs.value > ours.value:
                behind.append(Behind(item, group, rival, ours, theirs))
    return sorted(behind, key=lambda one: (not one.clear, -one.by)), compared


def _gap(group: Group, policy: str) -> Mean | None:
    return tables.average([tables.gap_of(group, document) for document in group.good(policy)])


def text(found: Iterable[tuple[Experiment, Sequence[Document]]], docs: str) -> str:
    """The block without its marks; `docs` is the way to the folder of the pages it points to."""
    behind, compared = places(found)
    more = f"[What each column means]({docs}reference/bench.md#columns), [all results]({docs}results.md)."
    if not behind:
        return (
            f"Of {compared} tables there is none in which another policy closes more of the gap than Terrace, on "
            f"average of the seeds measured; how many these are is said in each row (n). {more}\n"
        )
    worst = behind[0]
    clear = sum(one.clear for one in behind) or "none"
    rows, head = tables.without_empty(tables.rows(worst.group), tables.head())
    kept = [place for place, name in enumerate(head) if name in _COLUMNS]
    lines = [
        f"**Where Terrace is behind.** In {len(behind)} of {compared} tables another policy closes more of the gap "
        f"between all memory slow (0) and all of it DRAM (100), in {clear} of them by more than both intervals. "
        f"Most so in {worst.name}, with {worst.item.threads} threads on {load_topology(worst.item.topology).cpus} "
        f"CPUs: {worst.rival} closes {_percent(worst.theirs)} of it, Terrace {_percent(worst.ours)}.",
        "",
        *tables.markdown(
            [[row[place] for place in kept if place < len(row)] for row in rows], [head[place] for place in kept]
        ),
        "",
        "Times are of a model, ± is half of the 95 % interval. "
        + (f"Behind, too: {'; '.join(map(_short, behind[1:]))}. " if behind[1:] else "")
        + more,
    ]
    return "\n".join(lines) + "\n"


def _short(one: Behind) -> str:
    return f"{one.name} ({one.rival})"


def _percent(gap: Mean) -> str:
    return f"{tables.show(gap, '.1f', 100)} %"


def pages(found: Sequence[tuple[Experiment, Sequence[Document]]]) -> dict[Path, str]:
    """What README and tutorial have to say, by their paths."""
    wanted = {}
    for name in PAGES:
        path = repo_root() / name
        docs = "docs/" if path.parent == repo_root() else ""
        wanted[path] = with_block(path.read_text(encoding="utf-8"), text(found, docs), name, (BEGIN, END))
    return wanted

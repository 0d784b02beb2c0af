# SPDX-License-Identifier: GPL-2.0
"""The default cells, and the tables of their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from statistics import fmean

from terrace.sim.loads import LOADS
from terrace.sim.runs import Cell, Figures
from terrace.sim.world import HOSTS

Results = Mapping[Cell, Figures]
#: Loads of each host: 64 GiB take long, so S has only loads that depend on size, D and E only those that
#: change. Loads with contiguous hot pages run only on request.
USUAL = {
    "L": tuple(name for name in LOADS if name not in ("blocks", "nook")),
    "S": ("uniform", "zipf0.99", "phase25", "drift", "stream", "short", "light"),
    "D": ("uniform", "zipf0.99", "phase25", "phase10", "drift", "log"),
    "E": ("uniform", "zipf0.99", "phase25", "phase10", "drift", "log"),
}
DRAM = (0.125, 0.25, 0.5)
POLICIES = ("static", "informed", "place")
HEADERS = ("host", "load", "DRAM", "policy", "gap", "hits", "moved/s", "looks", "moves", "found")
MEANING = """\
gap: of the way from all-slow to all-DRAM, in run time, with the CPU time of looks and moves charged to it.
hits: accesses that found DRAM, by those that would have with the best placement of the moment.
moved/s: pages moved a second, as a share of all. looks, moves: share of one CPU, % of it.
found: longest time from a change of the load until hits are at 90 % of the best.
hits and moved/s leave out the first quarter of the run. static: nothing moves. informed: knows all rates and how long
they stay, and pays for moves; the bound. place: mm/mtier/place.c."""


@dataclass(frozen=True)
class Row:
    """The mean of a cell's figures over all seeds."""

    host: str
    load: str
    dram: float
    policy: str
    figures: Figures

    def words(self) -> tuple[str, ...]:
        """Format for a table with HEADERS."""
        found = self.figures
        return (
            self.host,
            self.load,
            str(Fraction(self.dram).limit_denominator(64)),
            self.policy,
            f"{found.gap:.3f}",
            f"{found.hits:.3f}",
            f"{found.moved_s:.0e}" if found.moved_s else "0",
            f"{100 * found.looks:.2f}",
            f"{100 * found.moves:.2f}",
            "" if found.found_s is None else f"{found.found_s:.2g} s",
        )


def rows(results: Results) -> list[Row]:
    """Get one row for all seeds of a cell, in the order of the results."""
    groups: dict[tuple[str, str, float, str], list[Figures]] = {}
    for cell, found in results.items():
        groups.setdefault((cell.host, cell.load, cell.dram, cell.policy), []).append(found)
    return [Row(*key, _mean(found)) for key, found in groups.items()]


def _mean(found: Sequence[Figures]) -> Figures:
    means: dict[str, float | None] = {}
    for field in fields(Figures):
        values = [getattr(one, field.name) for one in found]
        means[field.name] = None if None in values else fmean(values)
    return Figures(**means)  # type: ignore[arg-type]


def markdown(results: Results, command: str, picture: str) -> str:
    """Format the page of the documentation: the runs, the loads, all rows, the plot."""
    lines = [
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        f"<!-- Written by `{command}`; do not edit. -->",
        "# Placement, simulated",
        "",
        "What [`mm/mtier/place.c`](../../linux/mm/mtier/place.c) decides on simulated loads; how it decides is",
        "[another page](placement.md). These figures judge the decision alone, apart from any kernel that follows",
        "it: accesses are Poisson processes, heat is spread at random over all pages, Accessed bits are exact, a look",
        "takes 20 ns a page and a move 2.5 µs. What the lab says of a kernel is in the [results](../results.md).",
        "",
        f"![share of accesses that find DRAM, over time]({picture})",
        "",
        *(f"- **{name}**: {text}" for name, (text, _) in LOADS.items() if name in {cell.load for cell in results}),
        "",
        *(
            f"- **{host.name}**: {host.setting.pages * host.scale * 4096 >> 20} MiB, {host.setting.rate:g} accesses a "
            f"second and page, {host.rate_s * host.scale * 4096 / 2**20:.0f} MiB promoted a second at most, "
            f"{host.run_s:g} s; loads that change have changed after {host.setting.turn_s:g} s"
            for host in HOSTS.values()
            if host.name in {cell.host for cell in results}
        ),
        "",
        *MEANING.splitlines(),
        "",
        "| " + " | ".join(HEADERS) + " |",
        "|" + "---|" * len(HEADERS),
        *("| " + " | ".join(row.words()) + " |" for row in rows(results)),
    ]
    return "\n".join(lines) + "\n"

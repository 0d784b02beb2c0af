# SPDX-License-Identifier: GPL-2.0
"""One plot for each experiment: gap closed, placement of pages, fast hits, migrations, latency."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from terrace.bench import tables
from terrace.bench.cells import SPARE
from terrace.bench.experiment import Experiment
from terrace.bench.policies import COLOURS, POLICIES
from terrace.bench.scale import FIGURES, growth, per_gib
from terrace.bench.tables import Document, Group
from terrace.pictures import STYLE, save
from terrace.units import format_size

_PERCENTILES = (("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999), ("max_ns", 1.0))
_Panel = Callable[[Axes, Group], None]


def draw(item: Experiment, documents: Sequence[Document], path: Path) -> None:
    """Write the plot in the format of the suffix of `path`. Raises TerraceError if that is not possible."""
    groups = tables.groups(item, documents)
    shown = _shown(groups)
    panels: list[_Panel] = [_residency, _hits, _flow]
    if any(tables.figure(shown.good(policy), "p999_ns") for policy in shown.by_policy):
        panels.append(_latency)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 7), dpi=120, layout="constrained")
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.05, 1))
        if item.report == "scale":
            _scale(top.subplots(), groups, item)
        else:
            _gaps(top.subplots(), groups)
        bottom.suptitle(shown.title, fontsize=9, color="#666666", x=0.01, ha="left")
        for axes, panel in zip(bottom.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            panel(axes, shown)
            axes.tick_params(labelsize=8)
        save(figure, path)


def _shown(groups: Sequence[Group]) -> Group:
    """Choose the group whose time series is plotted: the largest size with half of the load in
    DRAM, or the last group.
    """
    largest = [group for group in groups if group.size == max(group.size for group in groups)]
    return next((group for group in largest if group.dram == "1/2"), largest[-1])


def _competitors(group: Group) -> list[str]:
    return [policy for policy in group.by_policy if POLICIES[policy].limit in ("", "oracle") and group.good(policy)]


def _gaps(axes: Axes, groups: Sequence[Group]) -> None:
    """Plot bars: the part of the gap from all-slow to all-DRAM that each policy closed."""
    policies = list(dict.fromkeys(policy for group in groups for policy in _competitors(group)))
    width = 0.8 / max(1, len(policies))
    for place, policy in enumerate(policies):
        spots, values, halves = [], [], []
        for number, group in enumerate(groups):
            found = tables.average([tables.gap_of(group, doc) for doc in group.good(policy)])
            if found is not None:
                spots.append(number + (place - (len(policies) - 1) / 2) * width)
                values.append(100 * found.value)
                halves.append(100 * (found.half or 0.0))
        look = {"color": COLOURS[policy], "label": policy, "ecolor": "#666666"}
        axes.bar(spots, values, width * 0.92, yerr=halves, capsize=2, **look)
        for spot, value in zip(spots, values, strict=True):
            offset = (0, 2) if value >= 0 else (0, -9)
            axes.annotate(f"{value:.0f}", (spot, value), offset, textcoords="offset points", ha="center", fontsize=7)
    axes.set_title("Gap closed: 0 % is all memory slow, 100 % all of it DRAM")
    labels = [
        f"{format_size(group.size)}\n{'spare' if group.dram == SPARE else f'DRAM {group.dram}'}" for group in groups
    ]
    axes.set_xticks(range(len(groups)), labels)
    axes.axhline(0, color="#333333", linewidth=0.8)
    axes.axhline(100, color="#bbbbbb", linewidth=0.8, linestyle=(0, (4, 4)))
    axes.set_ylabel("%")
    axes.legend(fontsize=8, ncols=9, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12))


def _scale(axes: Axes, groups: Sequence[Group], item: Experiment) -> None:
    """Plot lines: instructions per GiB of load against the size of the load."""
    for policy in item.policies:
        for (name, who), dash in zip(FIGURES, ("-", "--"), strict=True):
            points = [(group.size / (1 << 20), per_gib(group, policy, name)) for group in groups]
            there = [(size, cost.value) for size, cost in points if cost is not None]
            if there:
                line = growth(groups, policy, name)
                label = f"{policy}, {who}" + (f" (exponent {line.slope:.2f})" if line else "")
                axes.plot(*zip(*there, strict=True), dash, marker="o", color=COLOURS[policy], label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = [group.size / (1 << 20) for group in groups]
    axes.set_xticks(sizes, [format_size(group.size) for group in groups])
    axes.set_title("Cost as the memory grows: millions of instructions per GiB of load")
    axes.legend(fontsize=8, frameon=False)


def _residency(axes: Axes, group: Group) -> None:
    axes.set_title("Pages on fast memory, %", fontsize=9)
    for policy in _competitors(group):
        samples = group.good(policy)[0]["timeline_ms_share"]
        times = [ms / 1e3 for ms, _ in samples]
        axes.plot(times, [100 * share for _, share in samples], color=COLOURS[policy], label=policy, linewidth=1.5)
    axes.set_xlabel("guest time, s", fontsize=8)
    axes.set_ylim(-2, 103)


def _hits(axes: Axes, group: Group) -> None:
    axes.set_title("Misses served by fast memory, %", fontsize=9)
    for policy in _competitors(group):
        series = [step for step in group.good(policy)[0]["series_ms_fast_slow"] if step[1] + step[2]]
        times = [step[0] / 1e3 for step in series]
        shares = [100 * step[1] / (step[1] + step[2]) for step in series]
        axes.plot(times, shares, color=COLOURS[policy], linewidth=1.5)
    axes.set_xlabel("modelled time, s", fontsize=8)
    axes.set_ylim(-2, 103)


def _flow(axes: Axes, group: Group) -> None:
    axes.set_title("1000 pages promoted (up), demoted (down)", fontsize=9)
    policies = [policy for policy in _competitors(group) if POLICIES[policy].limit == ""]
    for place, policy in enumerate(policies):
        up, down, moved = (
            _thousands(group, policy, name) for name in ("promoted_pages", "demoted_pages", "moved_pages")
        )
        axes.bar(place, up, 0.7, color=COLOURS[policy])
        axes.bar(place, -down, 0.7, color=COLOURS[policy], alpha=0.6)
        if not up and not down and moved:
            axes.bar(place, moved, 0.7, fill=False, edgecolor=COLOURS[policy], linestyle="--")
            axes.annotate("either way", (place, moved), (0, 2), textcoords="offset points", ha="center", fontsize=7)
    axes.axhline(0, color="#333333", linewidth=0.8)
    axes.set_xticks(range(len(policies)), policies, rotation=30, ha="right")


def _thousands(group: Group, policy: str, name: str) -> float:
    found = tables.figure(group.good(policy), name)
    return found.value / 1e3 if found else 0.0


def _latency(axes: Axes, group: Group) -> None:
    axes.set_title("Slower than that, share of operations", fontsize=9)
    for policy in group.by_policy:
        points: list[tuple[Any, float]] = []
        for name, share in _PERCENTILES:
            found = tables.figure(group.good(policy), name)
            if found and found.value:
                points.append((found.value / 1e3, max(1 - share, 1e-4)))
        if points:
            axes.plot(*zip(*points, strict=True), marker=".", color=COLOURS[policy], linewidth=1.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_yticks([0.5, 0.01, 0.001, 0.0001], ["50 %", "1 %", "0.1 %", "max"])
    axes.set_xlabel("latency, us of guest time", fontsize=8)

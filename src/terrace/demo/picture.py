# SPDX-License-Identifier: GPL-2.0
"""The picture: the share of the pages in DRAM over guest time, and beside it what a page costs to move."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from terrace.demo.cases import MAIN
from terrace.demo.report import BASE
from terrace.demo.runner import Outcome
from terrace.pictures import STYLE, save

_COLOURS = {"stock-0": "#9a9a9a", "stock-1": "#5b8db8", "stock-2": "#c96a28", "terrace": "#1b7f5c"}


def draw(outcomes: Mapping[str, Outcome], caption: str, path: Path) -> None:
    """Write the picture as PNG, or as what the suffix of `path` says. Raises TerraceError when that is not possible."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 5.0), dpi=150, layout="constrained")
        timeline, cost = figure.subplots(1, 2, width_ratios=(3.4, 1))
        _draw_timeline(timeline, outcomes)
        _draw_cost(cost, outcomes)
        figure.supxlabel(caption, fontsize=7.5, color="#666666", x=0.01, ha="left")
        save(figure, path, "--picture")


def _draw_timeline(axes: Axes, outcomes: Mapping[str, Outcome]) -> None:
    axes.set_title("Pages in DRAM; all start on the slow node")
    end = max(outcomes[case.name].figures.elapsed_s for case in MAIN)
    flat, moving = [], [0.0, end]
    for case in MAIN:
        samples = outcomes[case.name].result["samples"]
        if outcomes[case.name].figures.final_share < 0.005:
            flat.append(case.name)
        times = [sample[0] / 1e3 for sample in samples]
        shares = [100 * sample[1] for sample in samples]
        moving += [time for time, share in zip(times, shares, strict=True) if 0 < share < 12]
        axes.plot(times, shares, color=_COLOURS[case.name], linewidth=2.2, solid_capstyle="round", zorder=3)
        _label_line(axes, case.name, times, shares)
    if flat:
        axes.annotate(
            f"stock, numa_balancing={' and '.join(name.removeprefix('stock-') for name in flat)}: nothing moves",
            (_widest_gap(moving), 0),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            color="#6b7f92",
        )
    axes.axhline(95, color="#bbbbbb", linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
    axes.set_xlim(0, end * 1.01)
    axes.set_ylim(-2, 106)
    axes.set_yticks([0, 25, 50, 75, 95, 100], ["0 %", "25 %", "50 %", "75 %", "95 %", "100 %"])
    axes.set_xlabel("guest time since the threads started, s")
    axes.grid(axis="x", color="#eeeeee", zorder=0)


def _widest_gap(times: Sequence[float]) -> float:
    """The middle of the longest stretch without any of these times in it."""
    ordered = sorted(times)
    width, left = max((b - a, a) for a, b in zip(ordered, ordered[1:], strict=False))
    return left + width / 2


def _label_line(axes: Axes, name: str, times: Sequence[float], shares: Sequence[float]) -> None:
    """The line's name where it passes 60 %, on the side where there is room."""
    for time, share in zip(times, shares, strict=True):
        if share >= 60:
            ours = name == "terrace"
            axes.annotate(
                _label(name),
                (time, share),
                xytext=(-7 if ours else 7, 0),
                textcoords="offset points",
                ha="right" if ours else "left",
                va="center",
                color=_COLOURS[name],
                fontweight="bold",
            )
            return


def _label(name: str) -> str:
    return name.replace("stock-", "stock\nnumab=")


def _draw_cost(axes: Axes, outcomes: Mapping[str, Outcome]) -> None:
    axes.set_title("Kernel instructions\nper page moved")
    base = outcomes[BASE].figures
    bars = [(case.name, outcomes[case.name].figures.per_page(base)) for case in MAIN]
    shown = [(name, cost) for name, cost in bars if cost is not None]
    places = range(len(shown))
    axes.bar(places, [cost for _, cost in shown], color=[_COLOURS[name] for name, _ in shown], width=0.62)
    for place, (_, cost) in zip(places, shown, strict=True):
        axes.annotate(f"{cost:,.0f}", (place, cost), xytext=(0, 3), textcoords="offset points", ha="center")
    axes.set_xticks(list(places), [_label(name) for name, _ in shown])
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.margins(y=0.12)

# SPDX-License-Identifier: GPL-2.0
"""The picture: the share of the pages in DRAM over guest time, and the kernel instructions per page moved."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from terrace.demo.labels import Label, write
from terrace.demo.report import BASE, OURS, PEER, main_cases
from terrace.demo.runner import Outcome
from terrace.pictures import STYLE, save

_COLOURS = {"stock-0": "#9a9a9a", "stock-1": "#5b8db8", "stock-2": "#c96a28", PEER: "#c96a28", "terrace": "#1b7f5c"}
# Below this share at its end a run has moved nothing.
_FLAT = 0.005


def draw(outcomes: Mapping[str, Outcome], caption: str, path: Path) -> None:
    """Write the picture in the format of the suffix of `path`, by default PNG. Raises TerraceError when it cannot."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 5.0), dpi=150, layout="constrained")
        costs = _costs(outcomes)
        if BASE in outcomes:
            timeline, cost = figure.subplots(1, 2, width_ratios=(3.4, max(1.0, 0.55 * len(costs))))
            _draw_cost(cost, costs)
        else:
            timeline = figure.subplots()
        labels = _draw_timeline(timeline, outcomes)
        figure.supxlabel(caption, fontsize=7.5, color="#666666", x=0.01, ha="left")
        write(timeline, labels)
        save(figure, path, "--picture")


def _draw_timeline(axes: Axes, outcomes: Mapping[str, Outcome]) -> list[Label]:
    """Draw all but the labels, which need the final layout, and return these."""
    axes.set_title("Pages in DRAM; all start on the slow node")
    shown = main_cases(outcomes)
    end = max(outcomes[case.name].figures.elapsed_s for case in shown)
    flat, labels, moving = [], [], [0.0, end]
    for case in shown:
        samples = outcomes[case.name].result["samples"]
        times = [sample[0] / 1e3 for sample in samples]
        shares = [100 * sample[1] for sample in samples]
        moving += [time for time, share in zip(times, shares, strict=True) if 0 < share < 12]
        axes.plot(times, shares, color=_COLOURS[case.name], linewidth=2.2, solid_capstyle="round", zorder=3)
        if outcomes[case.name].figures.final_share < _FLAT:
            flat.append(case.name)
        elif samples:
            labels.append(Label(_label(case.name), _middle(times, shares), _COLOURS[case.name], bold=True))
    axes.axhline(95, color="#bbbbbb", linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
    axes.set_xlim(0, end * 1.01)
    axes.set_ylim(-2, 106)
    axes.set_yticks([0, 25, 50, 75, 95, 100], ["0 %", "25 %", "50 %", "75 %", "95 %", "100 %"])
    axes.set_xlabel("guest time since the threads started, s")
    axes.grid(axis="x", color="#eeeeee", zorder=0)
    if flat:
        labels.append(Label(_flat_text(flat), (_widest_gap(moving), 0), "#6b7f92"))
    return labels


def _widest_gap(times: Sequence[float]) -> float:
    """The middle of the longest stretch without any of these times in it."""
    ordered = sorted(times)
    width, left = max((b - a, a) for a, b in zip(ordered, ordered[1:], strict=False))
    return left + width / 2


def _middle(times: Sequence[float], shares: Sequence[float]) -> tuple[float, float]:
    """The point of a line where its name goes: the first sample above 60 % of its maximum."""
    high = 0.6 * max(shares)
    return next((time, share) for time, share in zip(times, shares, strict=True) if share >= high)


def _flat_text(names: Sequence[str]) -> str:
    """The label of the lines that stay at zero."""
    if PEER in names:
        names = ["numa_balancing=2", *(name for name in names if name != PEER)]
        return f"{' and '.join(names)}: nothing moves"
    modes = [name.removeprefix("stock-") for name in names if name != OURS]
    stock = f"stock, numa_balancing={' and '.join(modes)}" if modes else ""
    return f"{' and '.join(filter(None, [stock, OURS if OURS in names else '']))}: nothing moves"


def _label(name: str) -> str:
    return name.replace(PEER, "switched off\nnumab=2").replace("stock-", "stock\nnumab=")


def _costs(outcomes: Mapping[str, Outcome]) -> list[tuple[str, float]]:
    """Kernel instructions per page of each run that moved pages."""
    if BASE not in outcomes:
        return []
    base = outcomes[BASE].figures
    found = [(case.name, outcomes[case.name].figures.per_page(base)) for case in main_cases(outcomes)]
    return [(name, cost) for name, cost in found if cost is not None]


def _draw_cost(axes: Axes, shown: Sequence[tuple[str, float]]) -> None:
    axes.set_title("Kernel instructions\nper page moved")
    places = range(len(shown))
    axes.bar(places, [cost for _, cost in shown], color=[_COLOURS[name] for name, _ in shown], width=0.62)
    for place, (_, cost) in zip(places, shown, strict=True):
        axes.annotate(f"{cost:,.0f}", (place, cost), xytext=(0, 3), textcoords="offset points", ha="center")
    axes.set_xticks(list(places), [_label(name) for name, _ in shown])
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.margins(y=0.12)

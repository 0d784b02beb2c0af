# SPDX-License-Identifier: GPL-2.0
"""The plot of `terrace report --plot`: migrations over time, waiting times, and reasons for pages that stayed."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from terrace.cells import printable
from terrace.pictures import STYLE, save
from terrace.trace.facts import Reason, Summary, Wait
from terrace.trace.page import time_text
from terrace.units import format_size

_COLOURS = {"up": "#1b7f5c", "down": "#c96a28", "followed": "#5b8db8"}
_WAYS = {"promoted": "up", "demoted": "down", "followed": "followed"}
_GREY = "#6b7f92"
_REASONS = 8


def draw(summary: Summary, path: Path) -> None:
    """Write the plot in the format of the suffix of ``path``. Raises TerraceError if that is not possible."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 7), dpi=150, layout="constrained")
        grid = figure.add_gridspec(2, 2, height_ratios=(1.15, 1))
        _draw_rates(figure.add_subplot(grid[0, :]), summary)
        _draw_waits(figure.add_subplot(grid[1, 0]), summary.waits)
        _draw_reasons(figure.add_subplot(grid[1, 1]), summary.reasons)
        figure.supxlabel(caption(summary), fontsize=7.5, color="#666666", x=0.01, ha="left")
        save(figure, path, "--plot")


def caption(summary: Summary) -> str:
    """Format the line below a plot: what was recorded, where and when."""
    lost = f"{summary.lost_events} events lost" if summary.lost_events else "no event lost"
    where = f"{summary.host}, Linux {summary.kernel}, {summary.started}"
    return printable(f"{where}: {summary.seconds:.1f} s, {summary.events} events, {lost}").replace("$", r"\$")


def nothing(axes: Axes, text: str) -> None:
    """Write a text if there is nothing to plot."""
    axes.text(0.5, 0.5, text, ha="center", va="center", color=_GREY, transform=axes.transAxes)
    axes.set_axis_off()
    # Hiding the axes would hide the title.
    axes.title.set_visible(True)


def _draw_rates(axes: Axes, summary: Summary) -> None:
    axes.set_title("What moved: MiB a second")
    rates = summary.rates
    scale = summary.page_bytes / rates.part_s / (1 << 20)
    times = [index * rates.part_s for index in range(len(rates.up) + 1)]
    totals = {one.what: one.bytes for one in summary.moved}
    shown = (
        ("up", rates.up, 1, f"promoted, {format_size(totals.get('promoted by the engine', 0))}"),
        ("down", rates.down, -1, f"demoted, {format_size(totals.get('demoted by the engine', 0))}"),
        ("followed", rates.followed, 1, f"followed, {format_size(totals.get('followed their task', 0))}"),
    )
    base = [0.0] * len(rates.up)
    for name, pages, sign, label in shown:
        if not any(pages):
            continue
        values = [sign * count * scale for count in pages]
        floor = base if sign > 0 else [0.0] * len(pages)
        tops = [low + value for low, value in zip(floor, values, strict=True)]
        axes.stairs(tops, times, baseline=floor, fill=True, color=_COLOURS[name], label=label)
        if sign > 0:
            base = tops
    if not any((*rates.up, *rates.down, *rates.followed)):
        nothing(axes, "no page moved")
        return
    axes.axhline(0, color="#444444", linewidth=0.8)
    axes.set_xlim(0, times[-1])
    axes.margins(y=0.08)
    axes.set_xlabel("s since the recording began", loc="right")
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    axes.grid(axis="y", color="#eeeeee", zorder=0)
    axes.set_axisbelow(True)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, borderaxespad=0.2)


def _draw_waits(axes: Axes, waits: Sequence[Wait]) -> None:
    axes.set_title("How long they waited: share of pages, by time")
    if not waits:
        nothing(axes, "no page moved of which the trace tells")
        return
    spans = []
    for wait in waits:
        times = [max(time, 1) / 1e9 for time, _ in wait.distribution]
        shares, total = [], 0
        for _, pages in wait.distribution:
            total += pages
            shares.append(100 * total / wait.pages)
        spans += [times[0], times[-1]]
        colour = _COLOURS[_WAYS[wait.what]]
        label = f"{wait.what}, p50 {time_text(wait.p50_ns)}"
        axes.plot([times[0], *times], [0, *shares], drawstyle="steps-post", color=colour, linewidth=2, label=label)
    axes.set_xscale("log")
    axes.set_xlim(min(spans) / 2, max(spans) * 2)
    axes.set_ylim(0, 104)
    axes.set_yticks([0, 50, 90, 100], ["0 %", "50 %", "90 %", "100 %"])
    axes.xaxis.set_major_formatter(lambda value, _: time_text(round(value * 1e9)))
    axes.grid(axis="y", color="#eeeeee")
    # The text may be wider than the axes, which must not shrink for it; a label reserves its space.
    axes.set_xlabel(" ")
    below = axes.legend(
        loc="upper left",
        bbox_to_anchor=(-0.08, -0.1),
        ncols=3,
        frameon=False,
        fontsize=9,
        borderaxespad=0,
        handlelength=1.2,
        columnspacing=1.2,
    )
    below.set_in_layout(False)


def _draw_reasons(axes: Axes, reasons: Sequence[Reason]) -> None:
    axes.set_title("Why not, and how often: log scale")
    shown = sorted(reasons, key=lambda one: -one.count)[:_REASONS]
    if not shown:
        nothing(axes, "all that was to move has moved")
        return
    places = list(range(len(shown)))
    axes.barh(places, [one.count for one in shown], color="#9fb3c4", height=0.62)
    axes.set_yticks(places, [textwrap.shorten(f"{one.group}: {one.reason}", 34) for one in shown])
    # From the top, and no bar wider than where there are six.
    axes.set_ylim(max(len(shown), 6) - 0.5, -0.5)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(0, max(one.count for one in shown) * 30)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    for place, one in zip(places, shown, strict=True):
        axes.annotate(
            f"{one.count:,} {one.unit}", (one.count, place), xytext=(4, 0), textcoords="offset points", va="center"
        )

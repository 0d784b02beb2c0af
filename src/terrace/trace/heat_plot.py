# SPDX-License-Identifier: GPL-2.0
"""The plot of `terrace report --heat --plot`: working sets by process and tier, over the recorded time."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from terrace.cells import clip, printable
from terrace.pictures import STYLE, save
from terrace.trace.facts import Summary, WorkingSet
from terrace.trace.plot import caption, nothing
from terrace.units import format_size

#: Lines of the plot: the largest working sets, by their median.
_LINES = 8
_COLOURS = ("#1b7f5c", "#c96a28", "#5b8db8", "#8a5a9e", "#b8a02b", "#6b7f92", "#b04a5a", "#3d6f3d")
_STYLES = {"fast": "-", "slow": "--"}


def draw(summary: Summary, path: Path) -> None:
    """Write the plot in the format of the suffix of ``path``. Raises TerraceError if that is not possible."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 5), dpi=150, layout="constrained")
        axes = figure.add_subplot()
        axes.set_title("Working sets, estimated from samples: MiB in use within a window")
        shown = sorted(summary.working_sets, key=lambda one: -one.p50_bytes)[:_LINES]
        if shown:
            _draw_lines(axes, summary, shown)
        else:
            nothing(axes, summary.working_sets_problem or "")
        figure.supxlabel(caption(summary), fontsize=7.5, color="#666666", x=0.01, ha="left")
        save(figure, path, "--plot")


def _draw_lines(axes: Axes, summary: Summary, shown: list[WorkingSet]) -> None:
    names = list(dict.fromkeys((one.pid, one.name) for one in shown))
    for one in shown:
        step_s = summary.seconds / len(one.over_time)
        times = [(index + 0.5) * step_s for index in range(len(one.over_time))]
        sizes = [float("nan") if used is None else used / (1 << 20) for used in one.over_time]
        name = clip(printable(one.name), 20).replace("$", r"\$")
        label = f"{name} ({one.pid}), {one.tier}: median {format_size(one.p50_bytes)}"
        colour = _COLOURS[names.index((one.pid, one.name)) % len(_COLOURS)]
        style = _STYLES.get(one.tier, ":")
        # A value without neighbours has no line.
        axes.plot(times, sizes, style, drawstyle="steps-mid", color=colour, label=label, marker=".", markersize=2)
    axes.set_xlim(0, summary.seconds)
    axes.set_ylim(bottom=0)
    axes.margins(y=0.08)
    axes.set_xlabel("s since the recording began", loc="right")
    axes.grid(axis="y", color="#eeeeee")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, borderaxespad=0)

# SPDX-License-Identifier: GPL-2.0
"""Plot the share of accesses to DRAM over the time of a run, for the most instructive loads."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from terrace.pictures import STYLE, save
from terrace.sim.loads import LOADS
from terrace.sim.runs import Cell, course

_COLOURS = {"static": "#a33a3a", "informed": "#8a63b8", "place": "#1b7f5c"}
_SHOWN = (("L", "zipf0.99"), ("L", "phase25"), ("L", "drift"), ("S", "phase25"))
_DRAM = 0.25


def draw(path: Path, seed: int) -> None:
    """Write the plot in the format of the suffix of `path`. Raises TerraceError if that is not
    possible.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 6.0), dpi=120, layout="constrained")
        for axes, (host, load) in zip(figure.subplots(2, 2, sharey=True).flat, _SHOWN, strict=True):
            for policy, colour in _COLOURS.items():
                points = course(Cell(host, load, _DRAM, policy, seed))
                axes.plot(*zip(*points, strict=True), color=colour, linewidth=1.6, label=policy)
            axes.set_title(f"{host} {load}: {LOADS[load][0]}", fontsize=9)
            axes.set_ylim(0, 1)
            axes.set_xlabel("s")
            axes.tick_params(labelsize=8)
        figure.axes[0].legend(frameon=False, fontsize=8, loc="lower right")
        figure.supylabel("accesses that find DRAM, DRAM for 1/4", fontsize=9)
        save(figure, path)

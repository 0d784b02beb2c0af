# SPDX-License-Identifier: GPL-2.0
"""Find places for labels inside of axes: no label overlaps another one or the frame, and lines are avoided."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text
from numpy.typing import NDArray

# In points. Fonts differ between viewers, so that a text may be wider than it was measured.
_GAP = 5.0
# Places are tried on a grid of cells of this size, in points.
_CELL = 3.0
# Penalties for a covered cell of a line and of another label, in points of distance from `near`.
_LINE = 8.0
_LABEL = 1e6

_Grid = NDArray[np.float64]


@dataclass(frozen=True)
class Label:
    """A text and the point that it names, in data coordinates."""

    text: str
    near: tuple[float, float]
    colour: str
    bold: bool = False


def write(axes: Axes, labels: Sequence[Label]) -> list[Text]:
    """Write the labels; lines, limits, titles and ticks of the figure are final, since this computes its layout."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    cell = _CELL * figure.dpi / 72
    frame = axes.get_window_extent()
    cost = _lines(axes, cell)
    written = []
    for label in labels:
        text = axes.text(
            *(0.5, 0.5, label.text),
            color=label.colour,
            fontweight="bold" if label.bold else "normal",
            ha="center",
            va="center",
            transform=axes.transAxes,
        )
        text.set_in_layout(False)
        size = text.get_window_extent().padded(_GAP / _CELL * cell).size / cell
        width, height = np.ceil(size).astype(int)
        near = (axes.transData.transform(label.near) - frame.p0) / cell
        left, bottom = _best(cost, width, height, near)
        cost[bottom : bottom + height, left : left + width] += _LABEL
        middle = np.array([left + width / 2, bottom + height / 2]) * cell
        text.set_position(tuple(middle / frame.size))
        written.append(text)
    return written


def _lines(axes: Axes, cell: float) -> _Grid:
    """The cost of each whole cell of the axes, rows from the bottom: that of the lines that pass through."""
    frame = axes.get_window_extent()
    columns, rows = (frame.size / cell).astype(int)
    grid = np.zeros((rows, columns))
    for line in axes.lines:
        ends = (line.get_transform().transform(line.get_path().vertices) - frame.p0) / cell
        for start, end in zip(ends, ends[1:], strict=False):
            points = np.linspace(start, end, 2 + int(2 * np.hypot(*(end - start)))).astype(int)
            x, y = points[((points >= 0) & (points < (columns, rows))).all(axis=1)].T
            grid[y, x] = _LINE
    return grid


def _best(cost: _Grid, width: int, height: int, near: NDArray[np.float64]) -> tuple[int, int]:
    """The left and bottom cell of the cheapest box of that many cells."""
    # Sums from the corner on: four of them give the cost of any box.
    sums = np.pad(cost, ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    boxes = sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]
    bottoms, lefts = np.indices(boxes.shape)
    across = np.abs(lefts + width / 2 - near[0])
    upward = np.abs(bottoms + height / 2 - near[1])
    # Distances from the edge of the box; a label left or right of its point is easier to read than one above.
    away = np.hypot(np.maximum(across - width / 2, 0), 2 * np.maximum(upward - height / 2, 0))
    found = np.unravel_index(np.argmin(boxes + _CELL * (away + 0.1 * upward + 0.05 * across)), boxes.shape)
    return int(found[1]), int(found[0])

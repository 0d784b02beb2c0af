# SPDX-License-Identifier: GPL-2.0
"""The demo's picture: no text of it overlaps another one or an axis, whatever the runs measured."""

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from examples import examples
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from terrace.demo import cases, picture
from terrace.demo.figures import Figures
from terrace.demo.runner import Outcome

_CAPTION = "abench 64M, 8 threads, seed 1; dram-cxl, 2 ns an instruction; Linux 6.12.117 (stock 79e8a7ebf8b0)"

#: Start of the ramp, its length in seconds, the share at its end, kernel instructions.
Run = tuple[float, float, float, int]
_IDLE: Run = (0.0, 0.1, 0.0, 8_000_000)
_RUNS = st.tuples(
    st.floats(0, 5),
    st.floats(0.02, 3),
    st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1)),
    st.integers(9_000_000, 10**11),
)


def _outcome(case: cases.Case, run: Run, elapsed: float) -> Outcome:
    """A run that samples every 20 ms, and whose pages move within one ramp."""
    start, length, top, insns = run
    times = [20.0 * step for step in range(int(elapsed * 50) + 1)]
    shares = [top * min(1.0, max(0.0, (time / 1e3 - start) / length)) for time in times]
    moved = round(16384 * shares[-1])
    figures = Figures(elapsed, None, None, shares[-1], moved, 0, 0, insns, 1, 1, 0.0, 0)
    return Outcome(case, figures, {"samples": [list(pair) for pair in zip(times, shares, strict=True)]}, {}, 1.0)


def _drawn(runs: tuple[Run, ...], elapsed: float, look: Callable[[Figure], None]) -> None:
    """Draw the picture of the demo, or of --quick, and let `look` see it in place of a file."""
    shown = cases.MAIN if len(runs) == len(cases.MAIN) else cases.QUICK
    outcomes = {case.name: _outcome(case, run, elapsed) for case, run in zip(shown, runs, strict=True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picture, "save", lambda figure, *_: look(figure))
        picture.draw(outcomes, _CAPTION, Path("unused.svg"))


def _ticks(axis: Axis) -> Iterator[Text]:
    low, high = sorted(axis.get_view_interval())
    for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True):
        if low <= place <= high:
            yield label


def _texts(figure: Figure) -> list[tuple[str, Bbox]]:
    found = [*figure.texts]
    for axes in figure.axes:
        found += [axes.title, axes._left_title, axes.xaxis.label, *axes.texts]
        found += [*_ticks(axes.xaxis), *_ticks(axes.yaxis)]
    return [(text.get_text(), text.get_window_extent()) for text in found if text.get_text().strip()]


def _overlap(one: Bbox, other: Bbox) -> bool:
    """Touching is no overlap."""
    across = min(one.x1, other.x1) - max(one.x0, other.x0)
    upward = min(one.y1, other.y1) - max(one.y0, other.y0)
    return bool(across > 0.5 and upward > 0.5)


def _inside(axes: Axes, box: Bbox) -> bool:
    frame = axes.get_window_extent()
    return bool((frame.p0 < box.p0).all() and (box.p1 < frame.p1).all())


def _nothing_overlaps(figure: Figure) -> None:
    figure.draw_without_rendering()
    for (one, first), (other, second) in itertools.combinations(_texts(figure), 2):
        assert not _overlap(first, second), f"{one!r} overlaps {other!r}"
    timeline = figure.axes[0]
    for text in timeline.texts:
        assert _inside(timeline, text.get_window_extent()), f"{text.get_text()!r} leaves its axes"


def _each_line_has_one_label(figure: Figure) -> None:
    seen = [text.get_text() for text in figure.axes[0].texts]
    for case in cases.MAIN:
        mode = case.name.removeprefix("stock-")
        named = [text for text in seen if mode in text.replace("numa_balancing", "").replace("numab", "")]
        assert len(named) == 1, f"{case.name}: {seen}"


def _look(figure: Figure) -> None:
    _nothing_overlaps(figure)
    _each_line_has_one_label(figure)


@examples(15)
@given(st.tuples(_RUNS, _RUNS, _RUNS, _RUNS), st.floats(0.5, 12))
# The demo itself: the name of the steep line does not fit between the line and the axis.
@example((_IDLE, _IDLE, (3.75, 0.2, 1.0, 159_000_000), (0.1, 0.4, 1.0, 78_700_000)), 4.7)
# The lines end below 60 %.
@example((_IDLE, _IDLE, (1.0, 0.2, 0.4, 159_000_000), (0.3, 0.27, 0.5, 78_700_000)), 4.7)
# All move at once, at the same cost.
@example((_IDLE, *((1.0, 0.2, 1.0, 80_000_000),) * 3), 2.0)
# No run moves anything.
@example((_IDLE,) * 4, 2.0)
# Terrace alone moves nothing.
@example((_IDLE, _IDLE, (0.5, 0.2, 1.0, 159_000_000), _IDLE), 2.0)
def test_each_line_has_a_label_and_no_text_overlaps_another_one_or_an_axis(
    runs: tuple[Run, Run, Run, Run], elapsed: float
) -> None:
    _drawn(runs, elapsed, _look)


def _look_quick(figure: Figure) -> None:
    _nothing_overlaps(figure)
    seen = " ".join(text.get_text() for text in figure.axes[0].texts)
    assert len(figure.axes) == 1 and "terrace" in seen and re.search("numa(b|_balancing)=2", seen)


@examples(15)
@given(st.tuples(_RUNS, _RUNS), st.floats(0.5, 12))
@example(((3.75, 0.2, 1.0, 159_000_000), (0.1, 0.4, 1.0, 78_700_000)), 4.7)
@example((_IDLE, _IDLE), 2.0)
@example((_IDLE, (0.1, 0.4, 1.0, 78_700_000)), 2.0)
@example(((0.5, 0.2, 1.0, 159_000_000), _IDLE), 2.0)
def test_the_picture_of_quick_has_one_drawing_with_two_labels(runs: tuple[Run, Run], elapsed: float) -> None:
    _drawn(runs, elapsed, _look_quick)

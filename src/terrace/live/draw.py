# SPDX-License-Identifier: GPL-2.0
"""The screen of the live view of `terrace top`, as lines of text and styles; independent of a terminal."""

from __future__ import annotations

from terrace import cells
from terrace.live import header
from terrace.live.columns import Column, that_fit
from terrace.live.spans import Line, clipped
from terrace.live.state import HELP, Shown, State, fit
from terrace.ops import top

_PANEL_CELLS = 12


def draw(state: State, width: int, height: int, encoding: str = "utf-8") -> list[Line]:
    """Format at most ``height`` lines of at most ``width`` cells. Characters missing in ``encoding`` are replaced."""
    if width < 1 or height < 1:
        return []
    if state.mode == "help":
        lines = _help(width, height)
    else:
        above, body, below = layout(state, width, height)
        state = fit(state, body)
        table = _table(state, width, body, encoding)
        lines = [*above, *table, *[[] for _ in range(body + 1 - len(table))], *below]
    return [[(_in(encoding, text), style) for text, style in clipped(line, width)] for line in lines[:height]]


def _in(encoding: str, text: str) -> str:
    return text if text.isascii() else text.encode(encoding, "replace").decode(encoding)


def layout(state: State, width: int, height: int) -> tuple[list[Line], int, list[Line]]:
    """Divide the screen: lines above the table, lines of the table without its head, lines below it."""
    below = [*_notes(state)[: max(0, height - 6)], _footer(state, width)] if height > 2 else []
    room = height - 1 - len(below)
    # The table gets at least half of the screen.
    above = header.lines(state, width)[: max(0, room // 2)]
    if above and len(above) < room // 2:
        above.append([])
    return above, max(1, room - len(above)), below


def _notes(state: State) -> list[Line]:
    look = state.look
    if state.message:
        return [[(cells.printable(state.message), "warn")]]
    if look and look.problem:
        return [[(cells.printable(top.problem_text(look.problem)), "warn")]]
    if look and look.refused:
        return [[(top.refused_text(look.refused), "warn")]]
    return []


def _table(state: State, width: int, body: int, encoding: str) -> list[Line]:
    """Format head and lines; with the list of columns on the left while the sort column is chosen."""
    beside = _PANEL_CELLS + 1 if state.mode == "columns" and width > 2 * _PANEL_CELLS else 0
    fitting = that_fit(state.columns(), width - beside)
    lines = [_head(state, fitting, width - beside)]
    if not state.shown:
        lines.append([(_nothing(state), "dim")])
    for index in range(state.offset, min(state.offset + body, len(state.shown))):
        lines.append(_row(state.shown[index], fitting, width - beside, index == state.selected, encoding))
    if not beside:
        return lines
    lines += [[] for _ in range(body + 1 - len(lines))]
    return [panel + line for panel, line in zip(_panel(state, body), lines, strict=True)]


def _nothing(state: State) -> str:
    what = "control group" if state.want.kind == "cgroup" else "process"
    if state.look is None:
        return "looking …" if state.want.kind == "cgroup" else "walking page tables …"
    if state.look.problem and state.want.kind == "cgroup":
        return "no cgroup can be shown: press p for processes"
    return f"no {what} is called so" if state.want.filter else f"no {what} whose memory may be read"


def _width(column: Column, fitting: list[Column], width: int) -> int:
    """Get the width of the last column, the name: the rest of the line."""
    return column.cells if column is not fitting[-1] else width - sum(other.cells + 1 for other in fitting[:-1])


def _head(state: State, fitting: list[Column], width: int) -> Line:
    line: Line = []
    for column in fitting:
        pad = cells.right if column.numbers else cells.left
        chosen = column.key == state.want.order.column
        # As in htop: the sort column is highlighted, with the direction.
        mark = ("^" if state.want.order.inverted else "v") if chosen else ""
        apart = " " if chosen and len(column.title) + 2 <= column.cells else ""
        title = f"{column.title}{apart}{mark}"
        line.append((pad(title, _width(column, fitting, width)), "sorted" if chosen else "head"))
        line.append((" ", "head"))
    return line[:-1]


def _row(shown: Shown, fitting: list[Column], width: int, selected: bool, encoding: str) -> Line:
    line: Line = []
    for column in fitting:
        text = cells.printable(column.text(shown.row), encoding)
        room = _width(column, fitting, width)
        if column.key == "name":
            text = _name(text, shown, room)
        pad = cells.right if column.numbers else cells.left
        style = "dim" if text in ("-", "0B") else column.style
        line.append((pad(text, room), "selected" if selected else style))
        line.append((" ", "selected" if selected else "plain"))
    return line[:-1]


def _name(text: str, shown: Shown, room: int) -> str:
    """Shorten a long path to its end, which identifies it; in a tree the rest is on the lines above."""
    if shown.level:
        return "  " * shown.level + text.rpartition("/")[2]
    rest = text
    while cells.width(text) > room and "/" in rest:
        rest = rest.partition("/")[2]
        text = f"../{rest}"
    return text


def _panel(state: State, body: int) -> list[Line]:
    every = state.columns()
    picked = max(0, min(state.picked, len(every) - 1))
    first = max(0, picked - body + 1)
    lines: list[Line] = [[(cells.left("Sort by", _PANEL_CELLS), "sorted"), (" ", "plain")]]
    for index in range(first, first + body):
        title = every[index].title if index < len(every) else ""
        style = "selected" if index == picked else "plain"
        lines.append([(cells.left(title, _PANEL_CELLS), style), (" ", "plain")])
    return lines


def _footer(state: State, width: int) -> Line:
    if state.mode in ("search", "filter"):
        keys = [("Enter", "Done"), ("Esc", "Cancel" if state.mode == "search" else "Clear")]
        keys += [("F3", "Next")] if state.mode == "search" else []
        return [
            *_labels(keys),
            (f" {state.mode.capitalize()}: ", "label"),
            (cells.printable(state.typed), "bold"),
            ("_", "bold"),
        ]
    if state.mode == "columns":
        return _filled(_labels([("Enter", "Sort"), ("Esc", "Cancel")]), width)
    other = ("p", "Processes") if state.want.kind == "cgroup" else ("c", "Cgroups")
    keys = [("F1", "Help"), other, ("F3", "Search"), ("F4", "Filter"), ("F5", "List" if state.tree else "Tree")]
    keys += [("F6", "SortBy"), ("I", "Invert"), ("+-", f"{state.interval_s:g}s"), ("F10", "Quit")]
    if width < 40:
        keys = [("h", "Help"), ("q", "Quit")]
    return _filled(_labels(keys), width)


def _labels(keys: list[tuple[str, str]]) -> Line:
    return [
        part for key, label in keys for part in ((key, "key"), (cells.left(label, max(5, len(label) + 1)), "label"))
    ]


def _filled(line: Line, width: int) -> Line:
    """Fill with the colour of the labels up to the edge."""
    return [*line, (" " * max(0, width - sum(cells.width(text) for text, _ in line)), "label")]


def _help(width: int, height: int) -> list[Line]:
    across = max(len(keys) for keys, _ in HELP)
    lines: list[Line] = [[("terrace top: per-process memory by tier", "bold")], []]
    for keys, text in HELP:
        lines.append([(cells.right(keys, across) if width > 2 * across else keys, "keys"), (f"  {text}", "plain")])
    lines += [
        [],
        [("Green is the top tier, yellow is slow memory. UP: pages promoted; DOWN: pages demoted.", "plain")],
        [
            (
                "A process's nodes are known by a walk of its page tables; no more are walked than the lines take.",
                "plain",
            )
        ],
    ]
    return [*lines[: height - 1], [("Press any key to return.", "dim")]]

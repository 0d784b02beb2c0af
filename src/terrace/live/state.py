# SPDX-License-Identifier: GPL-2.0
"""State of the live view of `terrace top`, and the effect of each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from terrace.live.columns import Column, columns
from terrace.ops import top
from terrace.ops.look import Look, Want
from terrace.ops.order import Order
from terrace.ops.report import Report

#: Refresh intervals in seconds, which + and - step through.
INTERVALS_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True)
class Shown:
    """A line of the table; in a tree it is indented by ``level`` steps and shows only the end of its name."""

    row: top.Row
    level: int = 0

    @property
    def key(self) -> tuple[str, int | None]:
        """Get the identity of the line, which is the same after each refresh."""
        return self.row.resident.name, self.row.resident.pid


@dataclass(frozen=True)
class State:
    """All values that determine the screen."""

    want: Want
    interval_s: float
    #: Lines of the table that fit on the screen.
    body: int = 1
    look: Look | None = None
    report: Report | None = None
    shown: tuple[Shown, ...] = ()
    selected: int = 0
    offset: int = 0
    tree: bool = False
    #: Receiver of keys: the table (``""``), ``search``, ``filter``, ``columns`` or ``help``.
    mode: str = ""
    typed: str = ""
    picked: int = 0
    #: A line about the last key.
    message: str = ""
    #: Incremented to request an immediate refresh.
    asked: int = 0
    ended: bool = False
    #: Least number of processes to read, for any size of the screen.
    least: int = field(default=0)

    def columns(self) -> list[Column]:
        """Get the columns of the table for this machine."""
        return columns(self.want.kind, self.look.nodes if self.look else [])


def wanted(state: State) -> Want:
    """Get what the next refresh has to read: the lines up to the end of the screen, and one more
    screen after scrolling.
    """
    ahead = state.body if state.offset or state.selected >= state.body - 1 else 0
    return replace(state.want, most=max(state.least, state.offset + state.body + ahead))


def outdated(state: State, asked: Want) -> bool:
    """Whether a refresh for ``asked`` would lack parts that are wanted now, and can be cancelled."""
    want, look = wanted(state), state.look
    if want.kind == "cgroup" or want.kind != asked.kind:
        return want.kind != asked.kind
    more = want.most > asked.most and (look is None or look.count > len(look.rows))
    return more or (want.order, want.filter) != (asked.order, asked.filter)


def see(state: State, look: Look, report: Report | None) -> State:
    """Update after a refresh; the selection stays with its line, but a selection at the top stays at the top."""
    if look.want.kind != state.want.kind:
        return state
    return _arrange(replace(state, look=look, report=report))


def fit(state: State, body: int) -> State:
    """Update for a screen with this number of table lines."""
    return _bounded(replace(state, body=max(1, body)))


def press(state: State, key: str) -> State:
    """Process a key: one character, or a name such as ``up``, ``pgdn``, ``f6``, ``enter``, ``esc``.
    Other keys do nothing.
    """
    if key in ("ctrl-c", "f10"):
        return replace(state, ended=True)
    state = replace(state, message="")
    if state.mode == "help":
        return replace(state, mode="")
    if state.mode in ("search", "filter"):
        return _typing(state, key)
    if state.mode == "columns":
        return _picking(state, key)
    action = _KEYS.get(key)
    return action(state) if action else state


def _arrange(state: State) -> State:
    """Sort the lines of the last result."""
    look = state.look
    if look is None or look.want.kind != state.want.kind:
        return _bounded(replace(state, look=None, shown=()))
    kept = state.shown[state.selected].key if 0 < state.selected < len(state.shown) else None
    rows = [row for row in look.rows if state.want.names(row.resident.name)]
    rows = top.order(rows, look.nodes, state.want.order)
    shown = _tree(rows) if state.tree and state.want.kind == "cgroup" else tuple(Shown(row) for row in rows)
    places = {line.key: index for index, line in enumerate(shown)}
    selected = state.selected if kept is None else places.get(kept, state.selected)
    return _bounded(replace(state, shown=shown, selected=selected))


def _tree(rows: list[top.Row]) -> tuple[Shown, ...]:
    """Sort each control group below its parent, or the nearest one shown; siblings in the order of rows."""
    names = {row.resident.name for row in rows}
    below: dict[str | None, list[top.Row]] = {}
    for row in rows:
        parts = row.resident.name.split("/")
        above = ("/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
        below.setdefault(next((name for name in above if name in names), None), []).append(row)
    shown: list[Shown] = []
    waiting = [(row, 0) for row in reversed(below.get(None, []))]
    while waiting:
        row, level = waiting.pop()
        shown.append(Shown(row, level))
        waiting += [(child, level + 1) for child in reversed(below.get(row.resident.name, []))]
    return tuple(shown)


def _bounded(state: State) -> State:
    """Limit the selection to the list and the screen."""
    selected = max(0, min(state.selected, len(state.shown) - 1))
    offset = max(0, min(state.offset, len(state.shown) - state.body))
    return replace(state, selected=selected, offset=min(max(offset, selected - state.body + 1), selected))


def _move(lines: Callable[[State], int]) -> Callable[[State], State]:
    return lambda state: _bounded(replace(state, selected=max(0, state.selected + lines(state))))


def _sort(state: State, order: Order) -> State:
    return _arrange(replace(state, want=replace(state.want, order=order)))


def _column(step: int) -> Callable[[State], State]:
    """Select the next column to the right or left."""

    def act(state: State) -> State:
        names = [column.key for column in state.columns()]
        now = names.index(state.want.order.column) if state.want.order.column in names else 0
        return _sort(state, Order(names[max(0, min(now + step, len(names) - 1))]))

    return act


def _kind(kind: str) -> Callable[[State], State]:
    """Switch between control groups and processes."""

    def act(state: State) -> State:
        new = kind or ("process" if state.want.kind == "cgroup" else "cgroup")
        if new == state.want.kind:
            return state
        known = state.want.order.column in {
            column.key for column in columns(new, state.look.nodes if state.look else [])
        }
        want = replace(state.want, kind=new, order=state.want.order if known else Order(), filter="", instead=False)
        return _arrange(replace(state, want=want, selected=0, offset=0))

    return act


def _toggle_tree(state: State) -> State:
    if state.want.kind != "cgroup":
        return replace(state, message="A tree is of control groups: press c.")
    return _arrange(replace(state, tree=not state.tree))


def _interval(step: int) -> Callable[[State], State]:
    def act(state: State) -> State:
        others = [s for s in INTERVALS_S if (s > state.interval_s if step > 0 else s < state.interval_s)]
        new = (min(others) if step > 0 else max(others)) if others else state.interval_s
        return replace(state, interval_s=new, message=f"A refresh every {new:g} s.")

    return act


def _pick(state: State) -> State:
    names = [column.key for column in state.columns()]
    column = state.want.order.column
    return replace(state, mode="columns", picked=names.index(column) if column in names else 0)


def _picking(state: State, key: str) -> State:
    """Process a key in the list of columns."""
    every = state.columns()
    picked = max(0, min(state.picked, len(every) - 1))
    if key in ("up", "down"):
        return replace(state, picked=max(0, min(picked + (1 if key == "down" else -1), len(every) - 1)))
    if key == "enter":
        return _sort(replace(state, mode=""), Order(every[picked].key))
    return replace(state, mode="") if key in ("esc", "f6", "q") else state


def _typing(state: State, key: str) -> State:
    """Process a key of a search or filter word, which takes effect at each key."""
    if key == "esc":
        state = replace(state, typed="")
        return replace(_typed(state), mode="")
    if key == "enter":
        return replace(state, mode="")
    if state.mode == "search" and key in ("f3", "down"):
        return _find(state, state.selected + 1)
    if key == "backspace":
        return _typed(replace(state, typed=state.typed[:-1]))
    return _typed(replace(state, typed=state.typed + key)) if len(key) == 1 and key.isprintable() else state


def _typed(state: State) -> State:
    if state.mode == "search":
        return _find(state, state.selected)
    return _arrange(replace(state, want=replace(state.want, filter=state.typed.lower())))


def _find(state: State, start: int) -> State:
    """Select the first line from ``start`` on, cyclically, whose name contains the typed text."""
    count, word = len(state.shown), state.typed.lower()
    if not word or not count:
        return state
    for index in (place % count for place in range(start, start + count)):
        if word in state.shown[index].row.resident.name.lower():
            return _bounded(replace(state, selected=index))
    return replace(state, message=f"Nothing here is called {state.typed!a}.")


def _begin(mode: str) -> Callable[[State], State]:
    return lambda state: replace(state, mode=mode, typed=state.want.filter if mode == "filter" else "")


def _invert(state: State) -> State:
    return _sort(state, replace(state.want.order, inverted=not state.want.order.inverted))


#: Effect of each key on the table; docs/reference/top.md and the help screen (`HELP`) describe the
#: same keys.
_KEYS: dict[str, Callable[[State], State]] = {
    "up": _move(lambda state: -1),
    "down": _move(lambda state: 1),
    "pgup": _move(lambda state: -state.body),
    "pgdn": _move(lambda state: state.body),
    "home": _move(lambda state: -len(state.shown)),
    "end": _move(lambda state: len(state.shown)),
    "<": _column(-1),
    ">": _column(1),
    "I": _invert,
    "f6": _pick,
    "c": _kind("cgroup"),
    "p": _kind("process"),
    "tab": _kind(""),
    "t": _toggle_tree,
    "f5": _toggle_tree,
    "/": _begin("search"),
    "f3": _begin("search"),
    "\\": _begin("filter"),
    "f4": _begin("filter"),
    "+": _interval(1),
    "-": _interval(-1),
    " ": lambda state: replace(state, asked=state.asked + 1),
    "h": lambda state: replace(state, mode="help"),
    "?": lambda state: replace(state, mode="help"),
    "f1": lambda state: replace(state, mode="help"),
    "q": lambda state: replace(state, ended=True),
}

#: Keys and their descriptions.
HELP = (
    ("Up Down PgUp PgDn Home End", "move the selection"),
    ("c p Tab", "control groups, processes, the other of them"),
    ("< >", "sort by the column to the left, to the right"),
    ("F6", "sort by a column that you pick from a list"),
    ("I", "invert the order"),
    ("t F5", "control groups as a tree, or as a list"),
    ("/ F3", "search a name as you type it; F3 again: the next one"),
    ("\\ F4", "filter: show only names with these characters; Esc shows all again"),
    ("+ -", "longer or shorter time between refreshes"),
    ("Space", "look again now"),
    ("h ? F1", "this page"),
    ("q F10 Ctrl-C", "quit"),
)

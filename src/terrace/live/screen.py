# SPDX-License-Identifier: GPL-2.0
"""The live view of `terrace top` on a terminal, with curses; `state` and `draw` determine its contents."""

from __future__ import annotations

import contextlib
import locale
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from terrace import cells, output
from terrace.live import state as states
from terrace.live.draw import draw, layout
from terrace.live.state import State
from terrace.live.watch import Lookout
from terrace.ops.look import Want

try:
    import curses
except ImportError:  # Some builds of Python do not have curses.
    curses = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from curses import window as Window  # noqa: N812

#: Longest delay of a key, or of a new result.
_POLL_MS = 50

#: Style -> colours of text and background (-1: the terminal's), and attributes with and without
#: colours.
_STYLES: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "plain": ("", "", (), ()),
    "name": ("", "", (), ()),
    "bold": ("", "", ("BOLD",), ("BOLD",)),
    "dim": ("", "", ("DIM",), ("DIM",)),
    "head": ("BLACK", "GREEN", (), ("REVERSE",)),
    "sorted": ("BLACK", "CYAN", (), ("REVERSE", "BOLD")),
    "selected": ("BLACK", "CYAN", (), ("REVERSE",)),
    "label": ("BLACK", "CYAN", (), ("REVERSE",)),
    "key": ("", "", (), ()),
    "keys": ("CYAN", "", ("BOLD",), ("BOLD",)),
    "fact": ("CYAN", "", (), ()),
    "top": ("GREEN", "", (), ()),
    "slow": ("YELLOW", "", (), ("BOLD",)),
    "up": ("GREEN", "", (), ()),
    "down": ("MAGENTA", "", (), ()),
    "on": ("GREEN", "", ("BOLD",), ("BOLD",)),
    "warn": ("YELLOW", "", ("BOLD",), ("BOLD",)),
}

_NAMES = {
    "\n": "enter",
    "\r": "enter",
    "\t": "tab",
    "\x1b": "esc",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x03": "ctrl-c",
    "\x0c": "ctrl-l",
}


def possible() -> bool:
    """Whether input and output are a terminal with a screen."""
    if curses is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    if os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        curses.setupterm()
        return bool(curses.tigetstr("cup"))
    except curses.error:
        return False


def run(root: Path | str, want: Want, interval_s: float) -> int:
    """Show the view until the user quits; the terminal is restored in any case."""
    locale.setlocale(locale.LC_ALL, "")
    lookout = Lookout(root)
    try:
        with _Stops() as stops, _terminal() as window:
            _loop(window, lookout, State(want, interval_s, least=want.most), stops)
    except KeyboardInterrupt:
        pass
    finally:
        lookout.ask(None)
    return 0


class _Stops:
    """Handles Ctrl-Z: notes the signal, and stops between two redraws.

    The library installs its own handler unless there is one before it starts. That handler ignores
    the signal during a redraw, which loses the Ctrl-Z, and redraws in the middle of any other code.
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> _Stops:
        # If the caller had disabled Ctrl-Z, it stays disabled.
        self._ours = signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
        if self._ours:
            signal.signal(signal.SIGTSTP, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._ours:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True

    def obey(self) -> bool:
        """Stop if requested; true after a stop, when everything has to be redrawn."""
        if not self.asked:
            return False
        self.asked = False
        # A parent that stopped first has returned the terminal to the shell, which still gets the
        # message.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        curses.endwin()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # Execution continues here. Only the foreground process was notified of a new size.
        signal.signal(signal.SIGTSTP, self._note)
        curses.reset_prog_mode()
        columns, lines = os.get_terminal_size()
        if curses.is_term_resized(lines, columns):
            curses.resizeterm(lines, columns)
        return True


@contextlib.contextmanager
def _terminal() -> Iterator[Window]:
    """Use the whole screen, without echo and line editing; restored at the end, also after SIGTERM,
    which raises SystemExit.

    The library handles a new size.
    """
    window = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        window.keypad(True)
        window.timeout(_POLL_MS)
        curses.set_escdelay(_POLL_MS)
        with contextlib.suppress(curses.error):
            curses.curs_set(0)
        yield window
    finally:
        with contextlib.suppress(curses.error):
            curses.curs_set(1)
        window.keypad(False)
        curses.nocbreak()
        curses.echo()
        curses.endwin()


def _loop(window: Window, lookout: Lookout, state: State, stops: _Stops) -> None:
    attributes = _attributes()
    drawn: tuple[State, int, int] | None = None
    asked, due = states.wanted(state), 0.0
    lookout.ask(asked)
    waits = True
    while not state.ended:
        if stops.obey():
            drawn = None
        height, width = window.getmaxyx()
        state = states.fit(state, layout(state, width, height)[1])
        if drawn != (state, height, width):
            _paint(window, state, width, height, attributes)
            drawn = state, height, width
        before = state
        for key in _keys(window, stops):
            state = states.press(state, key)
        if seen := lookout.seen():
            state, waits, due = states.see(state, *seen), False, time.monotonic() + state.interval_s
        sooner = state.asked != before.asked or state.interval_s < before.interval_s
        if states.outdated(state, asked) or (not waits and (sooner or time.monotonic() >= due)):
            asked, waits = states.wanted(state), True
            lookout.ask(asked)


def _keys(window: Window, stops: _Stops) -> Iterator[str]:
    """Get the pressed keys: wait for one key, and take the following ones as well."""
    start = time.monotonic()
    key = _key(window)
    if key is None and not stops.asked and time.monotonic() - start < _POLL_MS / 5000:
        # Another signal arrived, or the other end of the terminal is closed.
        if not sys.stdin.isatty():
            yield "ctrl-c"
        time.sleep(_POLL_MS / 1000)
    window.timeout(0)
    while key is not None:
        if key == "ctrl-l":
            window.clear()
        yield key
        key = _key(window)
    window.timeout(_POLL_MS)


def _key(window: Window) -> str | None:
    """Get the name of the next key, as `state.press` expects it."""
    try:
        key = window.get_wch()
    except curses.error:
        return None
    if isinstance(key, str):
        return _NAMES.get(key, key)
    special = {
        curses.KEY_UP: "up",
        curses.KEY_DOWN: "down",
        curses.KEY_PPAGE: "pgup",
        curses.KEY_NPAGE: "pgdn",
        curses.KEY_HOME: "home",
        curses.KEY_END: "end",
        curses.KEY_ENTER: "enter",
        curses.KEY_BACKSPACE: "backspace",
    }
    if curses.KEY_F1 <= key <= curses.KEY_F10:
        return f"f{key - curses.KEY_F0}"
    return special.get(key, "resize")


def _attributes() -> dict[str, int]:
    """Get each style for this terminal."""
    colours = False
    if output.colour_wanted(sys.stdout):
        with contextlib.suppress(curses.error):
            curses.start_color()
            curses.use_default_colors()
            colours = curses.has_colors()
    attributes = {}
    pairs: dict[tuple[str, str], int] = {("", ""): 0}
    for name, (text, ground, with_colours, without) in _STYLES.items():
        attribute = 0
        if colours and (text, ground) not in pairs:
            pairs[text, ground] = len(pairs)
            curses.init_pair(pairs[text, ground], _colour(text), _colour(ground))
        if colours:
            attribute |= curses.color_pair(pairs[text, ground])
        for word in with_colours if colours else without:
            attribute |= getattr(curses, f"A_{word}")
        attributes[name] = attribute
    return attributes


def _colour(name: str) -> int:
    return getattr(curses, f"COLOR_{name}") if name else -1


def _paint(window: Window, state: State, width: int, height: int, attributes: dict[str, int]) -> None:
    window.erase()
    for y, line in enumerate(draw(state, width, height, window.encoding)):
        x = 0
        for text, style in line:
            # The library reports an error for the last cell of the screen, because its cursor
            # cannot move past it.
            with contextlib.suppress(curses.error):
                window.addstr(y, x, text, attributes[style])
            x += cells.width(text)
    window.refresh()

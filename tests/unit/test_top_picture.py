# SPDX-License-Identifier: GPL-2.0
"""docs/images/top.svg is what `terrace top` draws; `TERRACE_ACCEPT=1 … pytest -k top_picture` draws it anew."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from ops_golden import check
from ops_tree import Tree, build, cxl, dram
from test_ops_top import group

from terrace.cells import width
from terrace.live.draw import draw, layout
from terrace.live.spans import Line
from terrace.live.state import State, fit, press, see
from terrace.ops import report, snapshot
from terrace.ops.look import Want, Watcher
from terrace.sysfs import KernelFiles

COLUMNS, LINES = 96, 20
CELL, LINE = 8, 17
COLOURS = {"top": "#3fb950", "slow": "#d29922", "up": "#3fb950", "down": "#bc8cff", "fact": "#39c5cf", "on": "#3fb950"}
COLOURS |= {"dim": "#7d8590", "warn": "#d29922"}
GROUNDS = {"head": "#3fb950", "sorted": "#39c5cf", "selected": "#39c5cf", "label": "#39c5cf"}
GROUPS = (
    ("system.slice", 30100, 40200),
    ("system.slice/postgresql.service", 24000, 38000),
    ("system.slice/redis.service", 5000, 1200),
    ("batch", 1000, 31000),
    ("batch/spark-1", 500, 16000),
    ("batch/spark-2", 500, 15000),
    ("user.slice", 9000, 14000),
    ("user.slice/user-1000.slice", 8000, 13900),
    ("init.scope", 9, 0),
)


def machine(root: Path) -> Tree:
    tree = build(
        root,
        [
            dram(0, size=65536, free=9000),
            dram(1, size=65536, free=21000),
            cxl(2, size=262144, free=140000),
        ],
    )
    moved(tree, 0)
    return tree


def moved(tree: Tree, seconds: int) -> None:
    """Some pages more, each second."""
    for index, (name, fast, slow) in enumerate(GROUPS):
        base = f"sys/fs/cgroup/{name}"
        group(tree, name, fast, slow, pgpromote_success=seconds * fast // 3, pgdemote_kswapd=seconds * index * 31)
        # The slow node is node 2 here.
        tree.put(f"{base}/memory.numa_stat", (tree.root / base / "memory.numa_stat").read_text().replace("N1=", "N2="))
    tree.vmstat(pgpromote_success=seconds * 13000, pgdemote_kswapd=seconds * 400)


def svg(lines: list[Line]) -> str:
    """The screen as a picture, a rectangle for each ground and a text for each piece."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * CELL + 16} {LINES * LINE + 16}" '
        f'font-family="DejaVu Sans Mono, monospace" font-size="13" xml:space="preserve">',
        "<!-- SPDX-License-Identifier: GPL-2.0; drawn by tests/unit/test_top_picture.py -->",
        '<rect width="100%" height="100%" rx="6" fill="#0d1117"/>',
    ]
    for row, line in enumerate(lines):
        column = 0
        for text, style in line:
            x, y, wide = 8 + column * CELL, 8 + row * LINE, width(text) * CELL
            if style in GROUNDS:
                parts.append(f'<rect x="{x}" y="{y}" width="{wide}" height="{LINE}" fill="{GROUNDS[style]}"/>')
            if text.strip():
                colour = "#0d1117" if style in GROUNDS else COLOURS.get(style, "#e6edf3")
                body = f'x="{x}" y="{y + 13}" textLength="{wide}" fill="{colour}"'
                parts.append(f"<text {body}>{escape(text)}</text>")
            column += width(text)
    return "\n".join([*parts, "</svg>", ""])


def test_the_picture_is_what_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, clock = machine(tmp_path), [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    files, watcher, want = KernelFiles(tmp_path), Watcher(tmp_path), Want()
    before = snapshot.take(files)
    watcher.take(want)
    clock[0] += 2
    moved(tree, 2)
    state = see(State(want, 2.0), watcher.take(want), report.make(snapshot.take(files), before, {}))
    state = press(press(state, "t"), "down")
    state = fit(state, layout(state, COLUMNS, LINES)[1])
    check("../../../docs/images/top.svg", svg(draw(state, COLUMNS, LINES)))

# SPDX-License-Identifier: GPL-2.0
"""Blocks of figures in pages that are else written by hand: `bench report` writes them from the results. Pure."""

from collections.abc import Sequence
from pathlib import Path

from terrace.bench import tables
from terrace.bench.experiment import Experiment
from terrace.bench.tables import Document
from terrace.errors import UsageError
from terrace.paths import repo_root

MARKS = ("<!-- tables: `./terrace bench report` writes these from the results -->", "<!-- end of tables -->")
# Which experiments' tables a page shows.
PAGES = {"docs/explanation/replication.md": ("replica", "replica-build")}


def with_block(page: str, block: str, name: str, marks: tuple[str, str]) -> str:
    """The page with its block replaced. Raises UsageError when it has no marks, or not one of each."""
    begin, end = marks
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise UsageError(f"{name}: needs one line '{begin}' and, below, one line '{end}'")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{block}{end}{rest.partition(end)[2]}"


def text(names: Sequence[str], found: Sequence[tuple[Experiment, Sequence[Document]]]) -> str:
    """The tables of these experiments, each below its name."""
    lines = []
    for item, documents in found:
        if item.name not in names:
            continue
        for title, rows, head in tables.plain(item, documents):
            lines += ["", f"`{item.name}`, `{item.workload}` of {title}:", "", *tables.markdown(rows, head)]
    return "\n".join([*lines, "", ""])


def pages(found: Sequence[tuple[Experiment, Sequence[Document]]]) -> dict[Path, str]:
    """What each of PAGES has to say, by its path."""
    wanted = {}
    for name, experiments in PAGES.items():
        path = repo_root() / name
        wanted[path] = with_block(path.read_text(encoding="utf-8"), text(experiments, found), name, MARKS)
    return wanted

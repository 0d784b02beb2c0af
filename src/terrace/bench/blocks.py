# SPDX-License-Identifier: GPL-2.0
"""Blocks of tables inside hand-written pages: `bench report` writes them from the results. Pure."""

from collections.abc import Sequence
from pathlib import Path

from terrace.bench import tables
from terrace.bench.experiment import Experiment
from terrace.bench.tables import Document
from terrace.errors import UsageError
from terrace.paths import repo_root

MARKS = ("<!-- tables: `./terrace bench report` writes these from the results -->", "<!-- end of tables -->")
# Page -> the experiments whose tables it shows.
PAGES = {"docs/explanation/replication.md": ("replica", "replica-build")}


def with_block(page: str, block: str, name: str, marks: tuple[str, str]) -> str:
    """Replace the block of a page. Raises UsageError unless the page has exactly one of each mark."""
    begin, end = marks
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise UsageError(f"{name}: needs one line '{begin}' and, below, one line '{end}'")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{block}{end}{rest.partition(end)[2]}"


def text(names: Sequence[str], found: Sequence[tuple[Experiment, Sequence[Document]]]) -> str:
    """Format the tables of these experiments, each with its name."""
    lines = []
    for item, documents in found:
        if item.name not in names:
            continue
        for title, rows, head in tables.plain(item, documents):
            lines += ["", f"`{item.name}`, `{item.workload}` of {title}:", "", *tables.markdown(rows, head)]
    return "\n".join([*lines, "", ""])


def pages(found: Sequence[tuple[Experiment, Sequence[Document]]]) -> dict[Path, str]:
    """Get the block of each page of PAGES, by path."""
    wanted = {}
    for name, experiments in PAGES.items():
        path = repo_root() / name
        wanted[path] = with_block(path.read_text(encoding="utf-8"), text(experiments, found), name, MARKS)
    return wanted

# SPDX-License-Identifier: GPL-2.0
"""Figures in README and docs that were measured on another Terrace kernel than that of this tree.

A kernel is identified by its source hash (`terrace.kernel.build.source_hash`), which does not depend on the compiler.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from terrace.bench import report, store
from terrace.errors import TerraceError
from terrace.kernel.build import source_hash
from terrace.paths import repo_root

#: The files with figures of a demo, and the line that names its kernels (`terrace.demo.report.caption`).
DEMO_FILES = ("docs/tutorial.md", "docs/images/demo-timeline.svg")
_DEMO_KERNELS = re.compile(r"\babench \S+, \d+ threads, .*; Linux \S+ \((\w[^)]*)\)")
# The kernel that users run. Others, as stock, do not change with this tree.
_FLAVOUR = "terrace"


def print_stale() -> None:
    """Print one line for each kind of stale figures; nothing when all are of this tree's kernel."""
    for line in stale_lines():
        print(f"warning: {line}", flush=True)


def stale_lines() -> list[str]:
    """The lines for this checkout, or one that says why the figures cannot be compared."""
    try:
        current = source_hash(_FLAVOUR)
        documents = [doc for item in report.experiments() for doc in store.read_all(item.folder / "results")]
    except TerraceError as error:
        return [f"the kernels of the figures in README and docs were not compared: {error}"]
    return [*stale_results(documents, current), *stale_demo(_text_of, current)]


def stale_results(documents: Iterable[Mapping[str, Any]], current: str) -> list[str]:
    """The line for the results of `bench`, made from all of them."""
    ours = [doc["kernel"] for doc in documents if doc["status"] == store.OK and doc["kernel"]["flavour"] == _FLAVOUR]
    stale = [kernel for kernel in ours if kernel.get("source_hash") != current]
    if not stale:
        return []
    unknown = sum("source_hash" not in kernel for kernel in stale)
    why = f" ({unknown} do not record their kernel's source)" if unknown else ""
    return [
        f"docs/results.md and the tables of README.md: {len(stale)} of {len(ours)} results of Terrace are not of this "
        f"tree's kernel {current}{why}; ./terrace bench run NAME measures again, then ./terrace bench report"
    ]


def stale_demo(read: Callable[[str], str], current: str) -> list[str]:
    """The line for the demo's table and picture; `read` returns the text of a file of the repository."""
    stale = []
    for name in DEMO_FILES:
        kernels = _DEMO_KERNELS.search(read(name))
        found = dict(pair.split() for pair in kernels[1].split(", ")) if kernels else {}
        if found.get(_FLAVOUR) != current:
            stale.append(f"{name} (kernel {found.get(_FLAVOUR, 'not named')})")
    if not stale:
        return []
    return [f"{', '.join(stale)}: not of this tree's kernel {current}; ./terrace demo measures again"]


def _text_of(name: str) -> str:
    path: Path = repo_root() / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""

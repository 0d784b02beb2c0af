# SPDX-License-Identifier: GPL-2.0
"""Where the engine's instructions go: by kernel function, for each promoted page, by either way of moving them."""

import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from terrace.demo.cases import FUNCTIONS, Case
from terrace.errors import BuildError

# The thread that finds and moves pages.
MOVER = "kmtierd"
_LEAST = 30.0


def read_functions(path: Path, symbols: Mapping[str, int]) -> dict[str, int]:
    """Instructions of the engine's thread in the measured region, by function of the kernel with these `symbols`.

    `path` is what the plugin insn_count wrote for its option `blocks`. Raises BuildError when it wrote nothing.
    """
    starts = sorted((address, name) for name, address in symbols.items())
    addresses = [address for address, _ in starts]
    found: Counter[str] = Counter()
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise BuildError(f"the instruction counter left no profile ({error})") from error
    for line in lines:
        address, kind, count = line.split()
        if kind == MOVER:
            place = bisect.bisect_right(addresses, int(address, 16)) - 1
            found[starts[place][1] if place >= 0 else "?"] += int(count)
    if not found:
        raise BuildError("the instruction counter saw nothing of the engine's thread between its two markers")
    return dict(found)


def functions_headers() -> list[str]:
    """The head of `functions_rows`."""
    return ["instructions for a promoted page", *(case.label for case in FUNCTIONS)]


def functions_rows(
    found: Mapping[str, Mapping[str, int]], pages: Mapping[str, float], cases: Sequence[Case] = FUNCTIONS
) -> list[list[str]]:
    """A row a function, the dearest first, those below thirty instructions in all cases together; then all of them.

    `found`: instructions by function, and `pages`: promoted pages, by the names of the cases.
    """
    per_page = {
        case.name: {name: count / pages[case.name] for name, count in found[case.name].items()} for case in cases
    }
    names = sorted({name for shares in per_page.values() for name in shares})
    dearest = {name: max(shares.get(name, 0.0) for shares in per_page.values()) for name in names}
    shown = sorted((name for name in names if dearest[name] >= _LEAST), key=lambda name: -dearest[name])
    lines = [[name, *(_cell(per_page[case.name].get(name, 0.0)) for case in cases)] for name in shown]
    rest = [sum(count for name, count in per_page[case.name].items() if name not in shown) for case in cases]
    total = [sum(per_page[case.name].values()) for case in cases]
    lines += [["all others", *map(_cell, rest)], ["all", *map(_cell, total)]]
    widths = [max(len(row[column]) for row in [functions_headers(), *lines]) for column in range(1, len(cases) + 1)]
    return [[row[0], *(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True))] for row in lines]


def _cell(count: float) -> str:
    return f"{count:,.0f}"

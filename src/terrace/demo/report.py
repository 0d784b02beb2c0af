# SPDX-License-Identifier: GPL-2.0
"""The demo's table, its comparison with what is expected, and its JSON. Pure but for printing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from terrace.demo.cases import ICOUNT_SHIFT, INSNS_PER_S, MAIN, OFF, QUICK, QUIET, TOPOLOGY, Case, Workload
from terrace.demo.figures import Figures
from terrace.demo.runner import Outcome
from terrace.kernel.build import Kernel
from terrace.units import format_size

KIND = "demo"
VERSION = 1
BASE = "stock-0"
STOCK = "stock-2"
OURS = "terrace"
#: The peer of --quick, in the place of STOCK.
PEER = "numab-2"
UNKNOWN = "unknown"
_COST_GOAL = 1 / 2


@dataclass(frozen=True)
class Verdict:
    """One expectation of Terrace, and what was measured; `met` is None when a figure that it needs is unknown."""

    text: str
    met: bool | None


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"


def millions(value: float | None) -> str:
    """A count of instructions in millions, with as many decimals as it takes to see it."""
    if value is None:
        return UNKNOWN
    return f"{value / 1e6:,.1f} M" if abs(value) >= 1e5 or not value else f"{value / 1e6:.3f} M"


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _or_dash(value: float | None, text: str) -> str:
    return "-" if value == 0 else text


def _per_page(figures: Figures, base: Figures) -> str:
    return _or_dash(figures.promoted_pages, _count(figures.per_page(base)))


def _share(part: float | None, whole: float) -> str:
    return UNKNOWN if part is None else f"{100 * part / whole:.3f} %"


def main_cases(outcomes: Mapping[str, Outcome]) -> list[Case]:
    """The cases that the table and the picture show: those of the demo, or of --quick."""
    return [case for case in (MAIN if STOCK in outcomes else QUICK) if case.name in outcomes]


def rows(outcomes: Mapping[str, Outcome]) -> list[list[str]]:
    """The table of the main cases: one row a figure, one column a case.

    Without the case that moves nothing, as in --quick, the cost of a page is not known and has no row.
    """
    base = outcomes.get(BASE)
    cases = main_cases(outcomes)
    lines: list[tuple[str, Callable[[Figures], str]]] = [
        ("run, guest time", lambda f: _seconds(f.elapsed_s)),
        ("half of the pages in DRAM after", lambda f: _seconds(f.to_50_s)),
        ("95 % of them after", lambda f: _seconds(f.to_95_s)),
        ("in DRAM at the end", lambda f: f"{100 * f.final_share:.1f} %"),
        ("pages promoted", lambda f: _count(f.promoted_pages)),
        ("hint faults in the application", lambda f: _count(f.hint_faults)),
        ("TLB shootdowns", lambda f: _count(f.shootdowns)),
        ("kernel instructions", lambda f: millions(f.kernel_insns)),
        *([("  per page moved", lambda f: _per_page(f, base.figures))] if base else []),
        ("application's threads, user", lambda f: millions(f.app_user_insns)),
        ("application's threads, kernel", lambda f: millions(f.app_kernel_insns)),
        ("kmtierd, CPU time", lambda f: _or_dash(f.mover_cpu_s, _seconds(f.mover_cpu_s))),
        ("kmtierd, instructions", lambda f: _or_dash(f.mover_insns, millions(f.mover_insns))),
    ]
    return _aligned(
        [[name, *(render(outcomes[case.name].figures) for case in cases)] for name, render in lines], headers(outcomes)
    )


def headers(outcomes: Mapping[str, Outcome]) -> list[str]:
    """The head of `rows`."""
    return ["", *(case.name for case in main_cases(outcomes))]


def quiet_rows(outcomes: Mapping[str, Outcome]) -> list[list[str]]:
    """The table of the cost with nothing to promote, and switched off; empty when these cases were not run."""
    found = [outcomes[name].figures for name in quiet_headers()[1:] if name in outcomes]
    if not found:
        return []
    base = outcomes[BASE].figures
    lines: list[tuple[str, Callable[[Figures], str]]] = [
        ("pages promoted", lambda f: _count(f.promoted_pages)),
        ("kmtierd, instructions", lambda f: _count(f.mover_insns)),
        ("kernel instructions above stock-0's", lambda f: millions(f.extra_kernel(base))),
        ("  of all that were executed", lambda f: _share(f.extra_kernel(base), f.elapsed_s * INSNS_PER_S)),
    ]
    return _aligned([[name, *(render(figures) for figures in found)] for name, render in lines], quiet_headers())


def quiet_headers() -> list[str]:
    """The head of `quiet_rows`."""
    return ["", *(case.name for case in QUIET + OFF)]


def _aligned(table: list[list[str]], head: list[str]) -> list[list[str]]:
    """Figures to the right within their columns."""
    widths = [max(len(row[column]) for row in [head, *table]) for column in range(1, len(table[0]))]
    return [[row[0], *(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True))] for row in table]


def verdicts(outcomes: Mapping[str, Outcome]) -> list[Verdict]:
    """The expectations, each met or missed; that of the cost needs the case that moves nothing."""
    peer = STOCK if STOCK in outcomes else PEER
    stock, ours = (outcomes[name].figures for name in (peer, OURS))
    limit = stock.elapsed_s if stock.to_50_s is None else stock.to_50_s / 2
    kind = f"the whole run of {peer}" if stock.to_50_s is None else f"half of {peer}'s time to 50 %"
    found = [
        Verdict(
            f"95 % in DRAM within {limit:.2f} s ({kind}): {_seconds(ours.to_95_s)}",
            ours.to_95_s is not None and ours.to_95_s <= limit,
        ),
        Verdict(
            f"fewer instructions in the application's threads than {peer}: {millions(ours.app_insns)} "
            f"against {millions(stock.app_insns)}",
            None if ours.app_insns is None or stock.app_insns is None else ours.app_insns < stock.app_insns,
        ),
    ]
    if BASE not in outcomes:
        return found
    base = outcomes[BASE].figures
    mine, theirs = ours.per_page(base), stock.per_page(base)
    ratio = UNKNOWN if mine is None or theirs is None else f"x {mine / theirs:.2f}"
    cost = Verdict(
        f"at most half of {peer}'s kernel instructions per page moved: {_count(mine)} "
        f"against {_count(theirs)} ({ratio})",
        None if mine is None or theirs is None else mine <= theirs * _COST_GOAL,
    )
    return [*found, cost]


def doubts(outcomes: Mapping[str, Outcome]) -> list[str]:
    """For each figure that is unknown: the case, and the reason."""
    found = [f"{name}: {outcome.figures.unknown}" for name, outcome in outcomes.items() if outcome.figures.unknown]
    if found or BASE not in outcomes:
        return found
    base = outcomes[BASE].figures
    for name in (STOCK, OURS):
        figures = outcomes[name].figures
        if figures.per_page(base) is None:
            extra = _count(figures.extra_kernel(base))
            pages = f"{figures.promoted_pages:,} pages"
            found.append(f"{name}: {pages} moved with {extra} kernel instructions above {BASE}'s")
    return found


def caption(workload: Workload, kernels: Mapping[str, Kernel]) -> str:
    """In one line what was measured: load, machine, kernels."""
    versions = ", ".join(f"{name} {kernel.source_hash}" for name, kernel in kernels.items())
    version = next(iter(kernels.values())).version
    return (
        f"abench {format_size(workload.size)}, {workload.threads} threads, seed {workload.seed}; {TOPOLOGY}, "
        f"{2**ICOUNT_SHIFT} ns an instruction; Linux {version} ({versions})"
    )


def as_json(workload: Workload, kernels: Mapping[str, Kernel], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Everything measured, with what it takes to measure it again."""
    by_name = {outcome.case.name: outcome for outcome in outcomes}
    base = by_name.get(BASE)
    complete = any(all(case.name in by_name for case in cases) for cases in (MAIN, QUICK))
    return {
        "version": VERSION,
        "kind": KIND,
        "topology": TOPOLOGY,
        "memory_scale": workload.memory_scale,
        "icount_shift": ICOUNT_SHIFT,
        "workload": asdict(workload),
        "kernels": {
            name: {
                "version": k.version,
                "config_hash": k.config_hash,
                "content_hash": k.content_hash,
                "source_hash": k.source_hash,
            }
            for name, k in kernels.items()
        },
        "expected": [asdict(verdict) for verdict in verdicts(by_name)] if complete else [],
        "cases": [_case_json(outcome, base) for outcome in outcomes],
    }


def _case_json(outcome: Outcome, base: Outcome | None) -> dict[str, Any]:
    figures = outcome.figures
    return {
        "name": outcome.case.name,
        "label": outcome.case.label,
        "flavour": outcome.case.flavour,
        "knobs": dict(outcome.case.knobs),
        "start_node": outcome.case.node,
        "figures": {
            **figures.as_json(),
            "kernel_insns_above_base": figures.extra_kernel(base.figures) if base else None,
            "kernel_insns_per_page": figures.per_page(base.figures) if base else None,
        },
        "timeline_ms_share": outcome.result["samples"],
        "vmstat": outcome.result["vmstat"],
        "kthread_cpu_ns": outcome.result["kthread_cpu_ns"],
        "instructions": {name: asdict(counts) for name, counts in outcome.counts.items()},
        "functions": dict(sorted(outcome.functions.items(), key=lambda item: -item[1])),
        "host_s": round(outcome.host_s, 1),
    }

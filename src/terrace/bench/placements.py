# SPDX-License-Identifier: GPL-2.0
"""Compare weighted interleaving with other placements, and automatic weights with other weights.
Pure.

Uses the results of validate.py; published speeds are those of the mempolicy2 series.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from terrace.bench.rates import bus_rate, stream_rate, time_of
from terrace.bench.validate import RUNS, Results
from terrace.lab.run import choose_topology
from terrace.policy.weights import weights_of

PLACEMENTS = {
    "dram": "DRAM only",
    "cxl": "CXL only",
    "interleave": "default interleave",
    "weighted": "global weights",
    "range": "weights of its arrays (mbind2)",
}


@dataclass(frozen=True)
class _Compared:
    """A load whose placements are compared: higher values of `speed` and the `published` figures are better."""

    what: str
    runs: str
    weights: str
    speed: Callable[[Mapping[str, Any]], float]
    published: Mapping[str, float]


# Stream: means of its four kernels in MB/s; MLC: GB/s; XS lookup: lookups per second.
_COMPARED = (
    _Compared("Stream", "stream", "9:1", stream_rate,
              {"dram": 205110.8, "cxl": 23350.4, "interleave": 46694.0, "weighted": 204367.9, "range": 212058.9}),
    _Compared("MLC W2", "mlc-w2", "13:1:1:1:1", bus_rate, {"dram": 298.8, "interleave": 113.04, "weighted": 412.5}),
    _Compared("MLC W5", "mlc-w5", "13:1:1:1:1", bus_rate, {"dram": 273.2, "interleave": 117.23, "weighted": 382.7}),
    _Compared("XS lookup", "xsbench", "3:1", lambda result: 1 / time_of(result),
              {"dram": 4691618, "interleave": 3077293, "weighted": 5809513}),
)  # fmt: skip


def placement_lines(results: Results) -> list[str]:
    """Get the speed of each load under each placement in percent of DRAM only, the published one in parentheses."""
    lines = [f"| Load | Weights | {' | '.join(PLACEMENTS.values())} |", f"| {' | '.join(['---'] * 7)} |"]
    for load in _COMPARED:
        base = results.get(f"{load.runs}-dram")
        if not base:
            continue
        cells = []
        for kind in PLACEMENTS:
            found = results.get(f"{load.runs}-{kind}")
            said = f" ({load.published[kind] / load.published['dram'] * 100:.1f})" if kind in load.published else ""
            cells.append((f"{load.speed(found) / load.speed(base) * 100:.1f}" if found else "-") + said)
        lines.append(f"| {load.what} | {load.weights} | {' | '.join(cells)} |")
    return lines if len(lines) > 2 else []


def automatic_weights(machine: str) -> tuple[int, ...]:
    """Get the weights of `terrace exec --weights firmware` on a machine, from the bandwidths in its HMAT."""
    topology = choose_topology(machine)
    known = {access.target: access.bandwidth for access in topology.accesses if access.source == 0}
    weights = weights_of({node: bandwidth // 1_000_000 for node, bandwidth in known.items()})
    return tuple(weights.get(node, 0) for node in sorted(known))


def sweep_lines(results: Results) -> list[str]:
    """Get Stream's rate by the weights of its arrays, and the distance of the automatic ones from the best."""
    ratios = {run.policy.partition(" ")[2]: run.name for run in RUNS if run.policy.startswith("range")}
    chosen = {text: name for text, name in ratios.items() if name.startswith(("sweep", "stream")) and name in results}
    if len(chosen) < 3:
        return []
    rates = {text: stream_rate(results[name]) for text, name in chosen.items()}
    best = max(rates.values())
    auto = ",".join(map(str, automatic_weights("seed-002-stream")))
    lines = ["| Weights | Stream, GB/s | of the best |", "| --- | --- | --- |"]
    for text, rate in sorted(rates.items(), key=lambda pair: _ratio(pair[0])):
        mark = " (automatic)" if text == auto else ""
        lines.append(f"| {text.replace(',', ':')}{mark} | {rate:.1f} | {rate / best * 100:.1f} % |")
    return lines


def _ratio(text: str) -> float:
    first, second = map(int, text.split(","))
    return first / second

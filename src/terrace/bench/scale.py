# SPDX-License-Identifier: GPL-2.0
"""Cost of scans and migration as the memory grows: instructions per GiB of load, and the line through them. Pure."""

import math
from collections.abc import Sequence

from terrace.bench.experiment import Experiment
from terrace.bench.stats import Line, Mean, fit
from terrace.bench.tables import Group, average, figures, show
from terrace.units import format_size

_GIB = 1 << 30
# Some policies migrate in threads of their own, others in those of the load: only the whole kernel
# is comparable.
FIGURES = (("scan_insns", "scanner"), ("kernel_insns", "kernel"))


def per_gib(group: Group, policy: str, name: str) -> Mean | None:
    """Get millions of instructions for each GiB of the load."""
    found = average([figures(doc).get(name) for doc in group.good(policy)])
    if found is None or not found.value:
        return None
    scale = _GIB / group.size / 1e6
    return Mean(found.value * scale, None if found.half is None else found.half * scale, found.n)


def growth(groups: Sequence[Group], policy: str, name: str) -> Line | None:
    """Fit a line to log(instructions) against log(size): a slope of 1 is work in proportion to memory."""
    points = []
    for group in groups:
        cost = per_gib(group, policy, name)
        if cost is not None:
            points.append((math.log2(group.size), math.log2(cost.value * group.size)))
    return fit(points)


def scale_text(item: Experiment, groups: Sequence[Group]) -> list[str]:
    """Format tables of costs by size, with the exponent of growth."""
    head = ["policy", "who", *(f"{format_size(group.size)}" for group in groups), "exponent"]
    lines = [
        f"### {item.name}: millions of instructions per GiB of load",
        "",
        "The exponent is the slope of the line through log(instructions) against log(size): 1 is in proportion to it.",
        "",
        f"| {' | '.join(head)} |",
        f"| {' | '.join('---' for _ in head)} |",
    ]
    for policy in item.policies:
        for name, who in FIGURES:
            costs = [per_gib(group, policy, name) for group in groups]
            if not any(costs):
                continue
            shown = [show(cost, ",.1f") for cost in costs]
            line = growth(groups, policy, name)
            slope = "-" if line is None else f"{line.slope:.2f} (r² {line.r2:.3f})"
            lines.append(f"| {' | '.join([policy, who, *shown, slope])} |")
    return lines

# SPDX-License-Identifier: GPL-2.0
"""What finding and moving costs as the memory grows: instructions per GiB of load, and the line through them. Pure."""

import math
from collections.abc import Sequence

from terrace.bench.experiment import Experiment
from terrace.bench.policies import POLICIES
from terrace.bench.stats import Line, Mean, fit
from terrace.bench.tables import Group, average, figures, show
from terrace.units import format_size

_GIB = 1 << 30
FIGURES = (("scan_insns", "scanner"), ("move_insns", "migrator"))


def per_gib(group: Group, policy: str, name: str) -> Mean | None:
    """Millions of instructions for each GiB of the load."""
    found = average([figures(doc).get(name) for doc in group.good(policy)])
    if found is None or not found.value:
        return None
    scale = _GIB / group.size / 1e6
    return Mean(found.value * scale, None if found.half is None else found.half * scale, found.n)


def growth(groups: Sequence[Group], policy: str, name: str) -> Line | None:
    """The line through log(instructions) against log(size): a slope of 1 is work in proportion to memory."""
    points = []
    for group in groups:
        cost = per_gib(group, policy, name)
        if cost is not None:
            points.append((math.log2(group.size), math.log2(cost.value * group.size)))
    return fit(points)


def scale_text(item: Experiment, groups: Sequence[Group]) -> list[str]:
    """Tables of costs by size, with the exponent of growth."""
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
            if not (POLICIES[policy].scanners if name == "scan_insns" else POLICIES[policy].movers):
                continue
            costs = [show(per_gib(group, policy, name), ",.1f") for group in groups]
            line = growth(groups, policy, name)
            slope = "-" if line is None else f"{line.slope:.2f} (r² {line.r2:.3f})"
            lines.append(f"| {' | '.join([policy, who, *costs, slope])} |")
    return lines

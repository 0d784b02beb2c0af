# SPDX-License-Identifier: GPL-2.0
"""Interleave weights: as text, those that hold for everybody, and those that follow from bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from terrace.errors import MissingError, UsageError
from terrace.policy.firmware import HMAT, seen_bandwidths
from terrace.sysfs import KernelFiles
from terrace.units import clipped, format_nodes, parse_nodes, to_whole

WEIGHT_MAX = 255
#: As in linux/mm/mempolicy2/bandwidth.c: pages of the longest round, and the part of the bandwidth a round may lose.
_ROUND_MAX = 4096
_LOSS_PARTS = 32
_FILES = "sys/kernel/mm/mempolicy/weighted_interleave"
_NODES = "sys/devices/system/node"


def parse_weights(text: str, known: Iterable[int], whose: str = "this machine has") -> dict[int, int]:
    """Weights by node of `0=9,1=1` or `0-1=3,2`; 0, or no weight, is the one that holds for everybody.

    Raises UsageError naming what is wrong.
    """
    nodes = sorted(set(known))
    if "=" not in text:
        # A node set as a whole, in which ! and + hold for all of its parts.
        return dict.fromkeys(parse_nodes(text, nodes, whose), 0)
    weights: dict[int, int] = {}
    for part in _parts(text):
        names, sign, number = part.partition("=")
        weight = 0
        if sign:
            given = to_whole(number, 0, WEIGHT_MAX)
            if given is None:
                raise UsageError(
                    f"weights '{clipped(text)}': '{clipped(number)}' is not a weight; allowed: 0 to {WEIGHT_MAX}"
                )
            weight = given
        for node in parse_nodes(names, nodes, whose):
            if node in weights:
                raise UsageError(f"weights '{clipped(text)}': node {node} is there twice")
            weights[node] = weight
    return weights


def _parts(text: str) -> list[str]:
    """Split `0,2-3=4,7` at commas, also where a part has no weight."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"weights '{clipped(text)}': write NODE=WEIGHT, with commas between (example: 0=9,1=1)")
    return parts


def format_weights(weights: Mapping[int, int]) -> str:
    """Weights as `parse_weights` reads them."""
    return ",".join(f"{node}={weight}" for node, weight in sorted(weights.items()))


def global_weights(files: KernelFiles, nodes: Iterable[int]) -> dict[int, int] | None:
    """The weights that hold for everybody; None when the kernel has no weighted interleave."""
    if not files.exists(_FILES):
        return None
    return {node: files.get_int(f"{_FILES}/node{node}") or 1 for node in nodes}


@dataclass
class _Round:
    """Weights while pages are dealt one by one, each to the node whose bandwidth per page stays highest."""

    mbps: Sequence[int]
    weights: list[int]

    def add(self) -> bool:
        """Deal one page; False where the next node has the highest weight there is."""
        nodes = [node for node, value in enumerate(self.mbps) if value]
        best = nodes[0]
        for node in nodes[1:]:
            if self.mbps[node] * (self.weights[best] + 1) > self.mbps[best] * (self.weights[node] + 1):
                best = node
        if sum(self.weights) >= _ROUND_MAX or self.weights[best] == WEIGHT_MAX:
            return False
        self.weights[best] += 1
        return True

    def reach(self) -> tuple[int, int]:
        """Bandwidth that this round reaches, as a fraction."""
        used = [node for node, weight in enumerate(self.weights) if weight]
        limit = used[0]
        for node in used[1:]:
            if self.mbps[node] * self.weights[limit] < self.mbps[limit] * self.weights[node]:
                limit = node
        return self.mbps[limit] * sum(self.weights), self.weights[limit]


def shortest_round(mbps: Sequence[int], least: int) -> list[int]:
    """mpol_auto_weights() of linux/mm/mempolicy2/bandwidth.c: weights from bandwidths, 0 for a node without one.

    The shortest round that reaches 31/32 of the summed bandwidth and no less than the fastest node alone. `least` 0
    leaves out a node that is too slow to help.
    """
    dealt = _Round(mbps, [least if value else 0 for value in mbps])
    if not any(mbps):
        return dealt.weights
    if not any(dealt.weights):
        dealt.add()
    best, best_weights = (0, 1), list(dealt.weights)
    while True:
        product, weight = dealt.reach()
        if product * best[1] > best[0] * weight:
            best, best_weights = (product, weight), list(dealt.weights)
        enough = product >= max(mbps) * weight and product * _LOSS_PARTS >= sum(mbps) * (_LOSS_PARTS - 1) * weight
        if enough or not dealt.add():
            return best_weights


def weights_of(mbps: Mapping[int, int]) -> dict[int, int]:
    """Weights by which a program reaches the most bandwidth, without the nodes that are too slow to help."""
    nodes = sorted(mbps)
    found = shortest_round([mbps[node] for node in nodes], least=0)
    return {node: weight for node, weight in zip(nodes, found, strict=True) if weight}


def auto_weights(
    files: KernelFiles,
    nodes: Iterable[int],
    measure: Callable[[list[int]], dict[int, int]] | None = None,
    cpus: Collection[int] | None = None,
) -> dict[int, int]:
    """Weights of `nodes` from firmware's bandwidths, for threads on `cpus`; from `measure` if firmware lacks one.

    `cpus` are by default those that this task may use. Raises MissingError without `measure`.
    """
    wanted = sorted(set(nodes))
    found = seen_bandwidths(files, wanted, cpus)
    if found.unknown and measure is None:
        raise MissingError(
            f"--weights firmware: {_unknown(files, found.unknown)}; use --weights measured, or "
            "--weighted-interleave 0=9,1=1"
        )
    return weights_of(measure(wanted) if found.unknown and measure else found.mbps)


def _unknown(files: KernelFiles, unknown: Mapping[int, list[int]]) -> str:
    """Name what firmware lacks: all nodes without a bandwidth, else the first one seen from elsewhere."""
    bare = [node for node, cpu_nodes in unknown.items() if not cpu_nodes]
    if bare:
        return f"no bandwidth of node {format_nodes(bare)} is known (/{_NODES}/nodeN/access1/initiators)"
    node, cpu_nodes = next(iter(unknown.items()))
    closed = files.unreadable.get(files.shown_path(HMAT))
    why = f"/{HMAT}: {closed}" if closed else f"/{HMAT} has none"
    return f"the bandwidth of node {node} from the CPUs of node {format_nodes(cpu_nodes)} is not known ({why})"

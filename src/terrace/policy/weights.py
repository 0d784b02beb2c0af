# SPDX-License-Identifier: GPL-2.0
"""Interleave weights: as text, those that hold for everybody, and those that follow from bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd

from terrace.errors import MissingError, UsageError
from terrace.sysfs import KernelFiles
from terrace.units import format_nodes, parse_nodes

WEIGHT_MAX = 255
#: Sum of the weights before they are reduced, about; as the kernel's own "auto".
_ROUND = 32
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
            if not number.isdecimal() or int(number) > WEIGHT_MAX:
                raise UsageError(f"weights '{text}': '{number}' is not a weight; allowed: 0 to {WEIGHT_MAX}")
            weight = int(number)
        for node in parse_nodes(names, nodes, whose):
            if node in weights:
                raise UsageError(f"weights '{text}': node {node} is there twice")
            weights[node] = weight
    return weights


def _parts(text: str) -> list[str]:
    """`0,2-3=4,7` apart at commas; parts without a weight stay parts of their own."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"weights '{text}': write NODE=WEIGHT, with commas between (example: 0=9,1=1)")
    return parts


def format_weights(weights: Mapping[int, int]) -> str:
    """Weights as `parse_weights` reads them."""
    return ",".join(f"{node}={weight}" for node, weight in sorted(weights.items()))


def global_weights(files: KernelFiles, nodes: Iterable[int]) -> dict[int, int] | None:
    """The weights that hold for everybody; None when the kernel has no weighted interleave."""
    if not files.exists(_FILES):
        return None
    return {node: files.get_int(f"{_FILES}/node{node}") or 1 for node in nodes}


def bandwidths(files: KernelFiles, nodes: Iterable[int]) -> dict[int, int]:
    """MB/s of each node whose bandwidth firmware tells of (HMAT, CDAT): the smaller one of read and write."""
    found: dict[int, int] = {}
    for node in nodes:
        base = f"{_NODES}/node{node}/access1/initiators"
        values = [files.get_int(f"{base}/{kind}_bandwidth") for kind in ("read", "write")]
        known = [value for value in values if value]
        if known:
            found[node] = min(known)
    return found


def weights_of(mbps: Mapping[int, int]) -> dict[int, int]:
    """Weights in the ratio of bandwidths, as the kernel computes them: parts of 32, at least 1, reduced."""
    total = sum(mbps.values())
    weights = {node: max((_ROUND * value + total // 2) // total, 1) for node, value in mbps.items()}
    divisor = gcd(*weights.values()) if weights else 1
    return {node: weight // divisor for node, weight in weights.items()}


def auto_weights(
    files: KernelFiles, nodes: Iterable[int], measure: Callable[[list[int]], dict[int, int]] | None = None
) -> dict[int, int]:
    """Weights of `nodes` from the bandwidth firmware tells of; from `measure` when it does not tell all.

    Raises MissingError when the bandwidth of some node is not known and there is no `measure`.
    """
    wanted = sorted(set(nodes))
    mbps = bandwidths(files, wanted)
    missing = [node for node in wanted if node not in mbps]
    if missing and measure is None:
        raise MissingError(
            f"--weights firmware: it does not tell the bandwidth of node {format_nodes(missing)} "
            f"(/{_NODES}/nodeN/access1/initiators); use --weights measured, or --weighted-interleave 0=9,1=1"
        )
    return weights_of(measure(wanted) if missing and measure else mbps)

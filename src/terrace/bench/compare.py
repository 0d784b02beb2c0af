# SPDX-License-Identifier: GPL-2.0
"""Compare two sets of results, cell by cell: the same cells of two kernels, or two policies of one experiment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from terrace.bench import experiment, store
from terrace.bench.policies import POLICIES
from terrace.bench.stats import mean
from terrace.bench.tables import figures, show, time_of
from terrace.errors import UsageError
from terrace.paths import measured
from terrace.units import format_size
from terrace.words import did_you_mean

Document = Mapping[str, Any]
_FIELDS = ("workload", "size", "dram", "seed", "repetition", "threads", "options", "start", "topology")


def compare(a: str, b: str) -> tuple[list[list[str]], list[str]]:
    """Get one row for each size, DRAM and policy in both sets: times, their ratio over the seeds,
    migrated pages.

    `a` and `b` are an experiment's name or a folder of results, optionally with `:POLICY`. Raises
    UsageError if they have no cell in common.
    """
    (first, policy_a), (second, policy_b) = _read(a), _read(b)
    if bool(policy_a) != bool(policy_b):
        raise UsageError(f"compare {a} {b}: name a policy on both sides or on none")
    pairs: dict[tuple[str, str, str], list[tuple[Document, Document]]] = {}
    others = {_identity(document, bool(policy_b)): document for document in second}
    for document in first:
        other = others.get(_identity(document, bool(policy_a)))
        if other is not None:
            policy = document["key"]["policy"] if not policy_a else f"{policy_a} / {policy_b}"
            place = (format_size(document["key"]["size"]), document["key"]["dram"], policy)
            pairs.setdefault(place, []).append((document, other))
    if not pairs:
        raise UsageError(f"compare {a} {b}: they have no measured cell in common")
    return [[*place, *_row(found)] for place, found in pairs.items()], _HEAD


_HEAD = ["size", "dram", "policy", "n", "A time s", "B time s", "B/A time", "A moved", "B moved", "B/A kernel insns"]


def _row(pairs: list[tuple[Document, Document]]) -> list[str]:
    both = [(figures(a), figures(b)) for a, b in pairs]
    return [
        str(len(pairs)),
        show(mean([time_of(a) for a, _ in pairs]), ".3f"),
        show(mean([time_of(b) for _, b in pairs]), ".3f"),
        show(mean([time_of(b) / time_of(a) for a, b in pairs]), ".3f"),
        show(mean([a["moved_pages"] for a, _ in both]), ",.0f"),
        show(mean([b["moved_pages"] for _, b in both]), ",.0f"),
        show(mean([b["kernel_insns"] / a["kernel_insns"] for a, b in both if a["kernel_insns"]]), ".3f"),
    ]


def _read(text: str) -> tuple[list[Document], str]:
    name, _, policy = text.partition(":")
    if policy and policy not in POLICIES:
        raise UsageError(
            f"compare {text}: {did_you_mean(policy, POLICIES)}'{policy}' is not one of {', '.join(POLICIES)}"
        )
    folder = Path(name)
    if not folder.is_dir() or (name in experiment.names() and "/" not in name):
        folder = measured(experiment.load(name).folder / "results")
    found = [document for document in store.read_all(folder) if document["status"] == store.OK]
    if policy:
        found = [document for document in found if document["key"]["policy"] == policy]
    if not found:
        raise UsageError(f"compare {text}: there are no measured cells in {folder}")
    return list(found), policy


def _identity(document: Document, any_policy: bool) -> str:
    key = document["key"]
    return repr([key[name] for name in _FIELDS] + ([] if any_policy else [key["policy"]]))

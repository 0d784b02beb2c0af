# SPDX-License-Identifier: GPL-2.0
"""Relations that results must satisfy at any size: an order of policies, and counters that add up. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from terrace.bench.policies import POLICIES
from terrace.bench.store import OK
from terrace.bench.tables import figures, time_of

Document = Mapping[str, Any]
_KINDS = ("mtier_promoted_anon", "mtier_promoted_file", "mtier_promoted_shmem")
_DEMOTED = ("pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "mtier_demoted")
_PAGE = 4096


@dataclass(frozen=True)
class Check:
    """One relation that has to hold."""

    text: str
    met: bool


def check(documents: Sequence[Document], tolerance: float) -> list[Check]:
    """Check these results: no failure, the order of times, the counters."""
    found = [Check(f"{doc['cell']}: measured", doc["status"] == OK) for doc in documents if doc["status"] != OK]
    good = [doc for doc in documents if doc["status"] == OK]

    def load(document: Document) -> tuple[int, int]:
        return document["key"]["size"], document["key"]["seed"]

    for _, same in groupby(sorted(good, key=load), load):
        found += order({doc["cell"]: doc for doc in same}, tolerance)
    for document in good:
        found += counters(document)
    return found or [Check("there are results", False)]


def order(documents: Mapping[str, Document], tolerance: float) -> Iterator[Check]:
    """all-DRAM <= oracle <= any policy <= all-slow in modelled time."""
    by_limit: dict[str, list[tuple[str, float]]] = {}
    for name, document in documents.items():
        limit = POLICIES[document["key"]["policy"]].limit
        by_limit.setdefault(limit, []).append((name, time_of(document)))
    steps = [by_limit.get(limit, []) for limit in ("fast", "oracle", "", "slow")]
    if not steps[0] or not steps[-1]:
        yield Check("all-dram and all-slow are among the results", False)
    for place, lower in enumerate(steps):
        for faster, short in lower:
            for slower, long in (item for upper in steps[place + 1 :] for item in upper):
                text = f"{faster} <= {slower} in time: {short:.4f} s <= {long:.4f} s"
                yield Check(text, short <= long * (1 + tolerance))


def counters(document: Document) -> Iterator[Check]:
    """Compare values that were counted in two ways."""
    name, vmstat, mine = document["cell"], document["vmstat"], figures(document)
    promoted, moved = vmstat.get("pgpromote_success", 0), vmstat.get("pgmigrate_success", 0)
    demoted = sum(vmstat.get(key, 0) for key in _DEMOTED)
    yield Check(f"{name}: promoted {promoted} + demoted {demoted} <= migrated {moved}", promoted + demoted <= moved)
    if POLICIES[document["key"]["policy"]].flavour == "terrace":
        kinds = sum(vmstat.get(key, 0) for key in _KINDS)
        yield Check(f"{name}: promoted {promoted} = anon + file + shmem {kinds}", promoted == kinds)
    shares = [share for _, share in document["timeline_ms_share"]]
    yield Check(f"{name}: shares on fast memory are from 0 to 1", all(0 <= share <= 1 for share in shares))
    if POLICIES[document["key"]["policy"]].limit in ("fast", "slow"):
        yield Check(f"{name}: nothing was promoted or demoted", promoted + demoted == 0)
    if mine["fast_hit_ratio"] is not None:
        yield Check(f"{name}: fast hits {mine['fast_hit_ratio']:.3f}", 0 <= mine["fast_hit_ratio"] <= 1)

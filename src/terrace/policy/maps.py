# SPDX-License-Identifier: GPL-2.0
"""Where pages are, by /proc/PID/numa_maps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from terrace.sysfs import to_int

_ADDRESS = re.compile(r"([0-9a-f]{1,16}) (.*)")
_FIELD = re.compile(r"(?:^| )([A-Za-z_0-9]+)=(\S+)")
_FIRST_FIELD = re.compile(r" (?:file=|heap\b|stack\b|huge\b|[A-Za-z_0-9]+=)")


@dataclass(frozen=True)
class Mapping:
    """One line: pages by node, of ``page_bytes`` each; weights only where the policy has its own."""

    address: int
    policy: str
    pages: dict[int, int]
    page_bytes: int = 4096
    weights: dict[int, int] = field(default_factory=dict)
    what: str = ""


def parse_numa_maps(text: str) -> Iterator[Mapping]:
    """The mappings of numa_maps; lines that are none are left out."""
    for line in text.splitlines():
        found = _ADDRESS.match(line)
        if not found:
            continue
        rest = found[2]
        first = _FIRST_FIELD.search(rest)
        policy = rest[: first.start()] if first else rest
        fields = dict(_FIELD.findall(rest[len(policy) :]))
        what = fields.get("file", next((word for word in ("heap", "stack") if f" {word}" in rest[len(policy) :]), ""))
        yield Mapping(
            int(found[1], 16),
            policy,
            _numbers((name[1:], value) for name, value in fields.items() if re.fullmatch(r"N\d+", name)),
            (to_int(fields.get("kernelpagesize_kB")) or 4) * 1024,
            _weights(fields.get("weights", "")),
            what,
        )


def _weights(text: str) -> dict[int, int]:
    return _numbers((node, weight) for node, _, weight in (part.partition(":") for part in text.split(",")))


def _numbers(pairs: Iterable[tuple[str, str]]) -> dict[int, int]:
    """Those pairs that are numbers."""
    read = ((to_int(name), to_int(value)) for name, value in pairs)
    return {name: value for name, value in read if name is not None and value is not None}


def bytes_by_node(mappings: Iterable[Mapping]) -> dict[int, int]:
    """Bytes on each node, over all mappings."""
    total: dict[int, int] = {}
    for mapping in mappings:
        for node, pages in mapping.pages.items():
            total[node] = total.get(node, 0) + pages * mapping.page_bytes
    return dict(sorted(total.items()))

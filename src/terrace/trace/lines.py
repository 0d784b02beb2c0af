# SPDX-License-Identifier: GPL-2.0
"""Parse events of `trace-cmd report -t`, and select the fields to keep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

#: Fields to keep of each event: numbers, and words.
_FIELDS: dict[str, tuple[str, str]] = {
    "mtier:mtier_burst": ("ranges mms looks tau_ns pairs gain_ns spent_ns", "why"),
    "mtier:mtier_migrate": ("source target tried moved waited_ns", "outcome"),
    "mtier:mtier_demote": ("source target tried moved waited_ns", "outcome"),
    "mtier:mtier_owner": ("pid source target down folios", "comm"),
    "mtier:mtier_heat": ("pid ranges of looked used window_ns present in_use error rss", "tier comm"),
    "numa_follow:numa_follow_walk": ("start end from to marked moved dirty shared nomem busy", "by"),
    "numa_follow:numa_follow_use": ("addr nid neighbour pages", "by verdict"),
    "numa_follow:numa_follow_task": ("pid from to", "action"),
    "numa_follow:numa_follow_fault": ("from to pages", "kind verdict"),
    "tlb_defer:tlb_defer_folio": ("nr_pages entries", "refused"),
    "tlb_defer:tlb_defer_flight": ("pages writable waits", "refused"),
    "tlb_defer:tlb_defer_flush": ("cpus", "why"),
    "numa_scan:numa_scan_begin": ("pid", "mode"),
    "numa_scan:numa_scan_end": ("pid ptes updates skipped ns", "mode"),
    "migrate:mm_migrate_pages": ("nr_succeeded nr_failed", "reason"),
}
#: A number that older Terrace kernels do not print.
_LATER = {"waited_ns"}
#: The last field, which takes the rest of the line: a process name may contain blanks.
_LAST = "comm"

#: Every event to record if the kernel has it, as system:name.
EVENTS = tuple(_FIELDS)
#: The systems of the overlay: without any of them there is nothing to record.
OWN_SYSTEMS = ("mtier", "numa_follow", "tlb_defer", "numa_scan")

_LINE = re.compile(
    r"\s*(?P<comm>\S.{0,14}|)-(?P<pid>[0-9]{1,10})\s+\[[0-9]+\]\s+(?:[^\s\d]\S*\s+)?(?P<seconds>[0-9]{1,12})\.(?P<fraction>[0-9]{6,9}):\s+"
    r"(?:\w+:)?(?P<name>\w+):(?:\s+(?P<fields>.*))?"
)
#: The prefix that trace-cmd prints before the lines of an instance.
_INSTANCE = re.compile(r"\s*terrace-[\d-]+:\s")
_PAIR = re.compile(r"(\w+)=(\S*)")
_NUMBER = re.compile(r"-?[0-9]{1,20}|0x[0-9a-fA-F]{1,16}")
_LOST = re.compile(r"CPU:[0-9]+ \[(?:([0-9]{1,18}) )?EVENTS DROPPED\]")

#: No field of a kernel's event has more bits.
_MOST = 1 << 64

Value = int | str


@dataclass(frozen=True, slots=True)
class Event:
    """One of `EVENTS`: its time in ns of a clock with an arbitrary start, its thread, and the kept fields."""

    at_ns: int
    pid: int
    comm: str
    #: Without the system.
    name: str
    fields: Mapping[str, Value]

    def number(self, field_name: str) -> int:
        """Get a field that is a number; 0 if an older kernel does not print it."""
        value = self.fields.get(field_name, 0)
        assert isinstance(value, int)
        return value

    def word(self, field_name: str) -> str:
        """Get a field that is a word."""
        return str(self.fields[field_name])


@dataclass
class Wanted:
    """The fields of one event."""

    numbers: tuple[str, ...]
    words: tuple[str, ...]


BY_NAME: dict[str, Wanted] = {
    name.partition(":")[2]: Wanted(tuple(numbers.split()), tuple(words.split()))
    for name, (numbers, words) in _FIELDS.items()
}


@dataclass
class Reader:
    """Reads lines, and counts lost events."""

    #: Events that trace-cmd reports as dropped; at least one for each place without a number.
    lost: int = 0
    #: Lines of known events in an unknown format.
    strange: int = 0
    #: The first such line.
    example: str = field(default="")

    def read(self, lines: Iterable[str]) -> Iterator[Event]:
        """Parse all lines, and yield the known events."""
        for line in lines:
            text = line.rstrip("\n")
            if instance := _INSTANCE.match(text):
                text = text[instance.end() :]
            found = _LINE.fullmatch(text)
            if found is None:
                if lost := _LOST.search(line):
                    self.lost += int(lost[1] or 1)
                continue
            if (wanted := BY_NAME.get(found["name"])) is None:
                continue
            fields = kept(wanted, pairs(found["fields"] or ""))
            if fields is None:
                self.strange += 1
                self.example = self.example or line.strip()
                continue
            at_ns = int(found["seconds"]) * 1_000_000_000 + int(found["fraction"].ljust(9, "0"))
            yield Event(at_ns, int(found["pid"]), found["comm"].strip(), found["name"], fields)


def pairs(text: str) -> dict[str, str]:
    """Split the fields of an event: `name=value`, separated by blanks."""
    found: dict[str, str] = {}
    head, mark, rest = text.partition(f"{_LAST}=")
    if mark and (not head or head.endswith(" ")):
        found[_LAST] = rest
        text = head
    found |= dict(_PAIR.findall(text))
    return found


def kept(wanted: Wanted, given: Mapping[str, object]) -> dict[str, Value] | None:
    """Get the kept fields, as numbers and words; None if one is missing or invalid."""
    fields: dict[str, Value] = {}
    for name in wanted.numbers:
        value = given.get(name)
        if value is None and name in _LATER:
            continue
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = int(value, 0) if value.startswith("0x") else int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not -_MOST < value < _MOST:
            return None
        fields[name] = value
    for name in wanted.words:
        value = given.get(name)
        if not isinstance(value, str):
            return None
        fields[name] = value
    return fields

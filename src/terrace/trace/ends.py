# SPDX-License-Identifier: GPL-2.0
"""Results of the TLB flushes of migrated pages: the events of tlb_defer, by the rules of its counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from terrace.trace.lines import Event

WAITED, NO_NEED, JOINED = "waited", "no_need", "joined"
#: Results that are no refusal.
FINE = (WAITED, NO_NEED, JOINED)


def ends(events: Iterable[Event]) -> Counter[str]:
    """Count pages by the result of their flush: one of `FINE`, or the reason why it was not deferred."""
    found: Counter[str] = Counter()
    for event in events:
        if event.name == "tlb_defer_folio":
            found[_folio(event)] += event.number("nr_pages")
        elif event.name == "tlb_defer_flight":
            found += _flight(event)
    return found


def _folio(event: Event) -> str:
    if event.word("refused") != "none":
        return event.word("refused")
    return WAITED if event.number("entries") else NO_NEED


def _flight(event: Event) -> Counter[str]:
    """Count the pages of a flight: each writable page by its reason, the others as merged."""
    pages, writable, why = event.number("pages"), event.number("writable"), event.word("refused")
    if event.number("waits"):
        return Counter({WAITED: pages})
    if why == "none":
        return Counter({NO_NEED: pages})
    return Counter({"write": writable}) + Counter({JOINED if why == "write" else why: pages - writable})

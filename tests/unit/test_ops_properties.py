# SPDX-License-Identifier: GPL-2.0
"""Whatever a person types or a file holds: an answer or a clear error, never a traceback."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrace.errors import UsageError
from terrace.ops import counters, knobs
from terrace.ops.diagnose import diagnose
from terrace.ops.knob_table import KNOBS, Knob
from terrace.ops.snapshot import Change, Place, Snapshot
from terrace.ops.topology import Node, Tier, parse_zoneinfo
from terrace.sysfs import parse_nodes, parse_table
from terrace.units import format_nodes

LINES = st.text(alphabet="0123456789 -,.:xN\n\t²٣pagesfreelowpromoNodezone", max_size=200)


@given(st.sampled_from(KNOBS), st.text() | LINES | st.integers().map(str))
def test_a_value_is_written_as_a_plain_number_or_word_or_refused(knob: Knob, text: str) -> None:
    try:
        value = knobs.parse_value(knob, text)
    except UsageError:
        return
    assert value in knob.words or re.fullmatch(r"-?[0-9]+", value)


@given(st.text() | LINES)
def test_a_name_is_found_or_refused(text: str) -> None:
    try:
        knobs.find(text)
    except UsageError as error:
        assert "--list" in str(error) or "write one of them" in str(error)


@given(LINES | st.text())
def test_files_of_nonsense_are_read(text: str) -> None:
    parse_table(text)
    parse_zoneinfo(text, 4096)
    assert all(0 <= node <= 65536 for node in parse_nodes(text))


@given(st.sets(st.integers(0, 1023), min_size=1))
def test_node_lists_come_back(nodes: set[int]) -> None:
    assert parse_nodes(format_nodes(nodes)) == sorted(nodes)


def test_very_long_numbers_are_refused() -> None:
    with pytest.raises(UsageError):
        knobs.parse_value(knobs.find("enabled"), "9" * 5000)
    assert parse_table("a " + "9" * 5000) == {}


COUNTS = st.dictionaries(
    st.sampled_from(["pgpromote_success", "mtier_bursts", "mtier_taken", "mtier_drop_gone", "mtier_fail_busy"]),
    st.integers(0, 1 << 62),
)


@given(
    st.lists(st.tuples(st.booleans(), st.none() | st.integers(0, 1 << 50)), max_size=5),
    st.booleans(),
    st.none() | st.booleans(),
    st.none() | st.sampled_from(["off", "idle", "looking", "throttled", "new_state"]),
    st.none() | st.booleans(),
    COUNTS,
    st.none() | st.builds(Place, st.none() | st.sampled_from(["none", "new_word", *counters.WHY])),
    st.none() | st.booleans(),
)
def test_every_machine_has_a_diagnosis(
    nodes: list[tuple[bool, int | None]],
    engine: bool,
    enabled: bool | None,
    state: str | None,
    demotion: bool | None,
    counts: dict[str, int],
    place: Place | None,
    observing: bool | None,
) -> None:
    made = [
        Node(number, "", f"memory_tier{int(not top)}", int(not top), top, 1 << 50, free, free, free, free)
        for number, (top, free) in enumerate(nodes)
    ]
    tiers = [
        Tier(f"memory_tier{rank}", rank, rank == 0, [node.node for node in made if node.rank == rank])
        for rank in sorted({node.rank or 0 for node in made})
    ]
    now = Snapshot(
        0.0, "6.12", engine, enabled, state, 1, 0, demotion, made, tiers, counts, place=place, observing=observing
    )
    reasons = diagnose(now, Change(1.0, counts))
    moving = engine and bool(enabled) and counts.get("pgpromote_success", 0) > 0
    assert reasons or moving

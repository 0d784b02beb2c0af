# SPDX-License-Identifier: GPL-2.0
"""Sizes, times and node sets: what people write, and that our own output reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrace import units
from terrace.errors import UsageError

NODES = st.sets(st.integers(0, 63), min_size=1)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096),
        ("4k", 4096),
        ("4KiB", 4096),
        ("1.5G", 3 << 29),
        ("64 MB", 64 << 20),
        ("0.1K", 102),
    ],
)
def test_sizes_are_powers_of_1024(text: str, count: int) -> None:
    assert units.parse_size(text) == count


@pytest.mark.parametrize("text", ["", "-4K", "4 potatoes"])
def test_bad_size_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="size '"):
        units.parse_size(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("5ms", 5_000_000), ("1.5s", 1_500_000_000), ("200 us", 200_000), ("7ns", 7), ("2min", 120 * 10**9)],
)
def test_times(text: str, count: int) -> None:
    assert units.parse_time_ns(text) == count


@pytest.mark.parametrize("text", ["ms", "5", "5 m"])
def test_bad_time_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="time '"):
        units.parse_time_ns(text)


@pytest.mark.parametrize(("text", "seconds"), [(" 0.5 ", 0.5), ("500ms", 0.5), ("24h", 86400.0)])
def test_an_interval_without_a_unit_is_seconds(text: str, seconds: float) -> None:
    assert units.parse_interval_s(text) == seconds


@pytest.mark.parametrize("text", ["-1", "25h", "999999999999h", "٥"])
def test_a_bad_interval_is_named_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UsageError, match=f"--interval {text}: use seconds"):
        units.parse_interval_s(text)


@given(st.integers(0, 1 << 62))
def test_formatted_size_reads_back_within_its_last_digit(count: int) -> None:
    back = units.parse_size(units.format_size(count))
    assert abs(back - count) <= max(1, count // 10)


@pytest.mark.parametrize(
    ("count", "text"),
    [(512, "512B"), (3 << 29, "1.5G"), (-4096, "-4K")],
)
def test_size_texts(count: int, text: str) -> None:
    assert units.format_size(count) == text


@pytest.mark.parametrize(
    ("text", "nodes"),
    [("0,2-3", [0, 2, 3]), ("all", [0, 1, 2, 3]), ("!1", [0, 2, 3]), ("3,0", [0, 3])],
)
def test_node_sets(text: str, nodes: list[int]) -> None:
    assert units.parse_nodes(text, range(4)) == nodes


@pytest.mark.parametrize("text", ["", "4", "2-1", "!all", "!0-3", "0-99999"])
def test_bad_node_set_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="node set '"):
        units.parse_nodes(text, range(4))


@given(NODES, NODES)
def test_node_sets_read_back(known: set[int], more: set[int]) -> None:
    assert units.parse_nodes(units.format_nodes(known), known | more) == sorted(known)


@given(NODES, NODES)
def test_inverted_node_set_is_the_rest(chosen: set[int], rest: set[int]) -> None:
    known = chosen | rest
    if known - chosen:
        assert units.parse_nodes("!" + units.format_nodes(chosen), known) == sorted(known - chosen)

# SPDX-License-Identifier: GPL-2.0
"""Gap closed, intervals, times, slopes: cases computed by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrace.bench import stats


@pytest.mark.parametrize(("here", "gap"), [(1.5, 0.75), (0.8, 1.1), (4.0, -0.5)])
def test_gap_closed_is_the_part_of_the_way_from_slow_to_fast(here: float, gap: float) -> None:
    assert stats.gap_closed(3.0, here, 1.0) == pytest.approx(gap)


@pytest.mark.parametrize("slow", [1.01, 0.9])
def test_there_is_no_gap_to_close_where_slow_is_not_slower(slow: float) -> None:
    assert stats.gap_closed(slow, 1.0, 1.0) is None


def test_the_interval_is_students() -> None:
    # n = 3: mean 2, standard deviation 1, t(0.975, 2) = 4.303: 4.303 / sqrt(3) = 2.4843
    found = stats.mean([1.0, 2.0, 3.0])
    assert found is not None
    assert (found.value, found.n) == (2.0, 3)
    assert found.half == pytest.approx(2.4843, abs=1e-3)
    # n = 2: deviation sqrt(2) / 2 * 2 = 1.4142, t(0.975, 1) = 12.706: 12.706 * 1.4142 / sqrt(2) = 12.706
    two = stats.mean([1.0, 3.0])
    assert two is not None
    assert two.half == pytest.approx(12.706, abs=1e-3)
    many = stats.mean([0.0, 1.0] * 50)
    assert many is not None
    assert many.half == pytest.approx(1.96 * 0.50252 / 10, abs=1e-4)


def test_one_value_has_no_interval_and_none_no_mean() -> None:
    assert stats.mean([4.0]) == stats.Mean(4.0, None, 1)
    assert stats.mean([]) is None


def test_time_to_a_share_lies_between_two_samples() -> None:
    samples = [(0.0, 0.0), (100.0, 0.4), (200.0, 0.8), (300.0, 0.8)]
    assert stats.time_to(samples, 0.6) == pytest.approx(0.15)
    assert stats.time_to(samples, 0.8) == pytest.approx(0.2)
    assert stats.time_to(samples, 0.9) is None
    assert stats.time_to([(5.0, 1.0)], 0.5) == 0.005
    assert stats.time_to([], 0.5) is None
    assert stats.time_to([(0.0, 1.0), (10.0, 1.0)], 0.95) == 0
    assert stats.time_to([(0.0, 0.0), (10.0, 0.3)], 0.5) is None


def test_a_line_is_fitted() -> None:
    line = stats.fit([(0, 1), (1, 3), (2, 5)])
    assert line is not None
    assert (line.slope, line.r2) == pytest.approx((2.0, 1.0))
    # (0,0) (1,2) (2,1): slope 0.5; of a spread of 2 it leaves 1.5
    rough = stats.fit([(0, 0), (1, 2), (2, 1)])
    assert rough is not None
    assert (rough.slope, rough.r2) == pytest.approx((0.5, 0.25))
    assert stats.fit([(1, 2), (1, 3)]) is None


def test_a_thinned_timeline_keeps_its_ends_and_its_changes() -> None:
    samples = [[float(t), 0.0 if t < 500 else min(1.0, (t - 500) / 20)] for t in range(1000)]
    thinned = stats.thin(samples, 60)
    assert thinned[0] == samples[0]
    assert thinned[-1] == samples[-1]
    assert len(thinned) < 80
    assert sum(0 < share < 1 for _, share in thinned) == 19


def test_the_difference_of_two_means_has_welchs_interval() -> None:
    # Variances 1 and 4, three values each: sqrt(1/3 + 4/3) = 1.29099; freedom (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2) = 2.94,
    # rounded down to 2: 4.303 * 1.29099 = 5.5551
    found = stats.difference([1.0, 2.0, 3.0], [1.0, 3.0, 5.0])
    assert found is not None
    assert (found.value, found.n) == (-1.0, 3)
    assert found.half == pytest.approx(5.5551, abs=1e-3)


@pytest.mark.parametrize(("ours", "theirs"), [([1.0], [1.0, 2.0]), ([1.0, 2.0], [3.0]), ([], [])])
def test_one_value_of_either_has_no_difference(ours: list[float], theirs: list[float]) -> None:
    assert stats.difference(ours, theirs) is None


def test_values_that_do_not_vary_differ_for_certain() -> None:
    assert stats.difference([2.0, 2.0], [1.0, 1.0, 1.0]) == stats.Mean(1.0, 0.0, 2)


@settings(max_examples=200)
@given(*[st.lists(st.floats(-10, 10), min_size=2, max_size=40)] * 2)
def test_the_difference_is_the_negative_the_other_way_round(ours: list[float], theirs: list[float]) -> None:
    one, other = stats.difference(ours, theirs), stats.difference(theirs, ours)
    assert one is not None and other is not None
    assert one.value == pytest.approx(-other.value)
    assert one.half == pytest.approx(other.half)

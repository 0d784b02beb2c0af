# SPDX-License-Identifier: GPL-2.0
"""Counts of instructions that cannot be true are found, and true ones are not."""

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrace.bench import measure
from terrace.bench.reading import Reading
from terrace.errors import TerraceError
from terrace.lab.counts import TOLERANCE, do_not_add_up, impossible
from terrace.lab.plugin import KERNEL_THREADS

COUNT = st.integers(0, 1 << 50)
GOOD = {"app": (1000, 10), "idle": (0, 50), "other": (3, 4)}


@given(app=st.integers(1, 1 << 50), kernel=st.dictionaries(st.sampled_from(sorted(KERNEL_THREADS)), COUNT), other=COUNT)
def test_counts_of_tasks_that_are_told_apart_are_possible(app: int, kernel: dict[str, int], other: int) -> None:
    counts = {"app": (app, other), "other": (other, 0), **{name: (0, count) for name, count in kernel.items()}}
    assert impossible(counts, busy="app") == ""
    assert do_not_add_up(counts, sum(map(sum, counts.values()))) == ""


@pytest.mark.parametrize("thread", sorted(KERNEL_THREADS))
def test_a_kernel_thread_has_no_user_code(thread: str) -> None:
    assert impossible({**GOOD, thread: (1, 50)}, busy="app").startswith(f"{thread} has 1 user instructions")


@pytest.mark.parametrize("counts", [{}, {"other": (5, 5)}, {**GOOD, "app": (0, 10)}])
def test_the_measured_tasks_have_user_instructions(counts: dict[str, tuple[int, int]]) -> None:
    assert impossible(counts, busy="app") == "app has no user instructions: tasks are not told apart"


@pytest.mark.parametrize("pair", [(-1, 0), (0, -1)])
def test_a_negative_count_is_impossible(pair: tuple[int, int]) -> None:
    assert impossible({**GOOD, "other": pair}, busy="app") == "other has -1 instructions"


def test_counts_have_to_add_up_to_what_was_executed() -> None:
    counts = {"app": (900, 100)}
    assert not do_not_add_up(counts, 1000 / (1 + TOLERANCE) + 1)
    assert not do_not_add_up(counts, 1000 / (1 - TOLERANCE) - 1)
    assert do_not_add_up(counts, 1000 / (1 + TOLERANCE) - 1)
    assert do_not_add_up(counts, 1000 / (1 - TOLERANCE) + 1)
    assert do_not_add_up(counts, 0) == "1,000 instructions were counted, and QEMU executed 0"


def test_a_cell_with_impossible_counts_has_no_document() -> None:
    reading = Reading(kinds={**GOOD, "idle": (7, 7)}, modelled_s=1.0, fast_hit_ratio=0.5)
    nothing = cast(Any, None)
    with pytest.raises(TerraceError, match="counts: idle has 7 user instructions"):
        measure._document(nothing, nothing, "", {}, reading)
    # With true counts the next step is taken.
    with pytest.raises(AttributeError):
        measure._document(nothing, nothing, "", {}, replace(reading, kinds=GOOD))

# SPDX-License-Identifier: GPL-2.0
"""README and tutorial say where Terrace is behind, and it is what the results say."""

from typing import Any

import pytest
from bench_results import document, experiment

from terrace.bench import behind, report, store
from terrace.bench.blocks import with_block
from terrace.errors import UsageError


def results(terrace: tuple[float, ...], stock: tuple[float, ...]) -> list[dict[str, Any]]:
    """Times of both with as many seeds as there are values, between bounds of 1 and 3 s."""
    found = []
    for policy, times in (("terrace", terrace), ("stock-2", stock)):
        found += [document(policy, time, seed) for seed, time in enumerate(times, 1)]
    for seed in range(1, len(terrace) + 1):
        found += [document("all-dram", 1.0, seed), document("all-slow", 3.0, seed)]
    return found


def test_what_readme_and_tutorial_show_is_made_of_the_results() -> None:
    found = [(item, store.read_all(item.folder / "results")) for item in report.experiments()]
    pages = behind.pages(found)
    assert len(pages) == 2
    for path, wanted in pages.items():
        assert path.read_text() == wanted, "run ./terrace bench report"


def test_the_clearest_case_is_the_one_that_is_shown() -> None:
    item = experiment()
    noisy, clear = results((2.9, 1.1), (1.4, 1.2)), results((2.0, 2.01), (1.5, 1.51))
    found, compared = behind.places([(item, noisy), (item, clear), (item, results((1.2,), (1.5,)))])
    assert compared == 3
    assert [(one.clear, one.rival) for one in found] == [(True, "stock-2"), (False, "stock-2")]
    assert found[0].by == pytest.approx(0.25)
    text = behind.text([(item, noisy), (item, clear)], "docs/")
    assert "In 2 of 2 tables another policy closes more of the gap" in text
    assert (
        "in 1 of them by more than both intervals. Most so in x, 32M, DRAM for 1/2 of it, with 2 threads on 2" in text
    )
    assert "stock-2 closes 74.8 " in text
    assert "Behind, too: x, 32M, DRAM for 1/2 of it (stock-2)." in text
    assert "[all results](docs/results.md)" in text
    assert "| terrace | 2 | 2.005 " in text


def test_one_seed_is_behind_but_not_clearly() -> None:
    (one,), _ = behind.places([(experiment(), results((2.0,), (1.5,)))])
    assert not one.clear


def test_without_a_rival_there_is_nothing_to_compare() -> None:
    both = results((1.4,), (1.5,))
    assert behind.places([(experiment(), both)]) == ([], 1)
    alone = [one for one in both if one["key"]["policy"] != "stock-2"]
    assert behind.places([(experiment(), alone)]) == ([], 0)


def test_nowhere_behind_is_said_too() -> None:
    text = behind.text([(experiment(), results((1.2,), (1.5,)))], "")
    assert text.startswith("Of 1 tables there is none in which another policy closes more of the gap than Terrace, ")


@pytest.mark.parametrize("page", [behind.BEGIN, behind.END, f"{behind.END}\n{behind.BEGIN}\n"])
def test_a_page_without_its_marks_is_named(page: str) -> None:
    with pytest.raises(UsageError, match="README.md: needs one line '<!-- behind"):
        with_block(page, "text", "README.md", (behind.BEGIN, behind.END))


def test_what_is_between_the_marks_is_replaced() -> None:
    marks = (behind.BEGIN, behind.END)
    good = with_block(f"a\n{behind.BEGIN}\nold\n{behind.END}\nz\n", "new\n", "README.md", marks)
    assert good == f"a\n{behind.BEGIN}\nnew\n{behind.END}\nz\n"

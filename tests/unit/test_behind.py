# SPDX-License-Identifier: GPL-2.0
"""The block of README and tutorial on how far the results go agrees with the results."""

from typing import Any

import pytest
from bench_results import document, experiment

from terrace.bench import behind, report, store
from terrace.bench.behind import Verdict
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


def test_the_interval_of_the_difference_decides() -> None:
    item = experiment()
    cases = {
        Verdict.BEHIND: results((2.0, 2.01), (1.5, 1.51)),
        Verdict.AHEAD: results((1.5, 1.51), (2.0, 2.01)),
        Verdict.UNCLEAR: results((2.9, 1.1), (1.4, 1.2)),
        Verdict.ONE_SEED: results((2.0,), (1.5,)),
    }
    compared = behind.compare([(item, documents) for documents in cases.values()])
    assert [one.verdict for one in compared] == list(cases)
    assert [one.rival for one in compared] == ["stock-2"] * 4
    assert compared[0].by == pytest.approx(-0.25)


def test_what_cannot_be_told_is_said_first_and_the_clear_loss_is_shown() -> None:
    item = experiment()
    noisy, clear = results((2.9, 1.1), (1.4, 1.2)), results((2.0, 2.01), (1.5, 1.51))
    text = behind.text([(item, noisy), (item, clear), (item, results((1.2,), (1.5,)))], "docs/")
    assert "with the best other policy in 3 tables" in text
    assert "- 1 of them rest on one seed" in text
    assert "In the other 2 the 95 % interval of the difference gives: ahead in 0, behind in 1, unclear in 1." in text
    assert "They were measured before 2026-11-29, with 1 build of the Terrace kernel." in text
    lines = text.splitlines()
    first = lines.index("- x, 32M, DRAM for 1/2 of it: stock-2 74.8 ± 3.2 %, Terrace 49.8 ± 3.2 % (clearly behind)")
    assert lines[first + 1].endswith("(unclear)")
    assert lines[first + 3] == "The first of these, with 2 threads on 2 CPUs:"
    assert "| terrace | 2 | 2.005 " in text
    assert "[all results](docs/results.md)" in text


def test_a_rival_with_one_seed_decides_nothing() -> None:
    both = results((2.0, 2.01), (1.5, 1.51))
    fewer = [one for one in both if (one["key"]["policy"], one["key"]["seed"]) != ("stock-2", 2)]
    (one,) = behind.compare([(experiment(), fewer)])
    assert (one.verdict, len(one.ours), len(one.theirs)) == (Verdict.ONE_SEED, 2, 1)


def test_without_a_rival_there_is_nothing_to_compare() -> None:
    both = results((1.4,), (1.5,))
    assert len(behind.compare([(experiment(), both)])) == 1
    alone = [one for one in both if one["key"]["policy"] != "stock-2"]
    assert behind.compare([(experiment(), alone)]) == []


def test_nowhere_behind_is_said_too() -> None:
    text = behind.text([(experiment(), results((1.2,), (1.5,)))], "")
    assert "with the best other policy in 1 table," in text
    assert "On average of its seeds no other policy closes more of the gap in any table." in text


@pytest.mark.parametrize("page", [behind.BEGIN, behind.END, f"{behind.END}\n{behind.BEGIN}\n"])
def test_a_page_without_its_marks_is_named(page: str) -> None:
    with pytest.raises(UsageError, match="README.md: needs one line '<!-- behind"):
        with_block(page, "text", "README.md", (behind.BEGIN, behind.END))


def test_what_is_between_the_marks_is_replaced() -> None:
    marks = (behind.BEGIN, behind.END)
    good = with_block(f"a\n{behind.BEGIN}\nold\n{behind.END}\nz\n", "new\n", "README.md", marks)
    assert good == f"a\n{behind.BEGIN}\nnew\n{behind.END}\nz\n"

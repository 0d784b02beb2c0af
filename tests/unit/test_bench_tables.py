# SPDX-License-Identifier: GPL-2.0
"""What becomes of results: tables, comparisons, checks of shape."""

from pathlib import Path

import pytest
from bench_results import TEXT, document, experiment, full_set

from terrace.bench import shape, store, tables
from terrace.bench.compare import compare
from terrace.errors import UsageError


def _row(policy: str, *, found: list[dict[str, object]] | None = None) -> dict[str, str]:
    ((_, rows, head),) = tables.plain(experiment(), found or full_set())
    return dict(zip(head, next(row for row in rows if row[0] == policy), strict=True))


def test_the_gap_is_against_the_bounds_of_the_same_seed() -> None:
    assert _row("terrace")["gap closed %"] == "75.0"
    assert _row("oracle")["gap closed %"] == "90.0"
    assert _row("all-slow")["gap closed %"] == "0.0"
    # Seed 2 is twice as slow all over: the same gap closed, so no interval.
    slow = [doc for doc in full_set() if doc["key"]["seed"] == 1]
    slow += [document(doc["key"]["policy"], 2 * doc["figures"]["modelled_s"], 2) for doc in slow]
    assert _row("terrace", found=slow)["gap closed %"] == "75.0"


def test_time_is_shown_beside_that_of_who_moves_nothing() -> None:
    of_still = "time, of stock-0's %"
    assert of_still not in _row("terrace")
    text = TEXT.replace('"stock-2"', '"stock-0"')
    found = [document("stock-0", 2.0 * doc["figures"]["modelled_s"], doc["key"]["seed"]) for doc in full_set()[:1]]
    found += [doc for doc in full_set() if doc["key"]["policy"] != "stock-2"]
    ((_, rows, head),) = tables.plain(experiment(text), found)
    shown = {row[0]: row[head.index(of_still)] for row in rows}
    # Only seed 1 was measured where nothing moves: the others' seed 2 has nothing to be compared with.
    assert shown == {"all-dram": "50.0", "oracle": "60.0", "stock-0": "100.0", "terrace": "75.0", "all-slow": "150.0"}


def test_hits_are_shown_beside_the_oracles() -> None:
    assert _row("terrace")["fast hits %"] == "72.0"
    assert _row("terrace")["of oracle's %"] == "90.0"


def test_late_hits_are_those_of_the_second_half() -> None:
    series = {
        "terrace": [[100.0, 0, 50], [200.0, 10, 40], [300.0, 36, 14], [400.0, 36, 4]],
        "oracle": [[200.0, 90, 10], [400.0, 160, 40]],
    }
    found = [{**doc, "series_ms_fast_slow": series.get(doc["key"]["policy"], [])} for doc in full_set()]
    row = _row("terrace", found=found)
    assert row["late hits %"] == "80.0"
    assert row["late, of oracle's %"] == "100.0"
    assert _row("oracle", found=found)["late hits %"] == "80.0"
    assert _row("all-slow", found=found)["late hits %"] == "-"


def test_a_failed_cell_is_in_the_table() -> None:
    found = [doc for doc in full_set() if doc["key"]["policy"] != "terrace"]
    found.append(document("terrace", 0.0, status=store.FAILED, error="the guest stopped answering\nmore"))
    ((_, rows, _),) = tables.plain(experiment(), found)
    assert ["terrace", "failed: the guest stopped answering"] in rows


def test_what_the_experiment_no_longer_names_is_left_out() -> None:
    strange = document("terrace", 1.0, cell="64M-spare-terrace-seed9")
    assert tables.plain(experiment(), [strange]) == []


def test_intervals_and_missing_values_are_shown() -> None:
    found = [doc for doc in full_set() if doc["key"]["policy"] != "terrace"]
    found += [document("terrace", 1.4, 1, to_90_s=None), document("terrace", 1.6, 2)]
    row = _row("terrace", found=found)
    assert row["time s"] == "1.500 ± 1.271"
    assert row["to 90 % s"] == "0.20 (1 of 2)"


def test_two_policies_of_one_folder_are_compared(tmp_path: Path) -> None:
    for doc in full_set():
        store.write(tmp_path, doc)
    rows, head = compare(f"{tmp_path}:stock-2", f"{tmp_path}:terrace")
    assert [dict(zip(head, row, strict=True)) for row in rows] == [
        {
            "size": "32M",
            "dram": "1/2",
            "policy": "stock-2 / terrace",
            "n": "2",
            "A time s": "2.000",
            "B time s": "1.500",
            "B/A time": "0.750",
            "A moved": "0",
            "B moved": "0",
            "B/A kernel insns": "1.000",
        }
    ]


def test_the_same_cells_of_two_folders_are_compared(tmp_path: Path) -> None:
    for doc in full_set():
        store.write(tmp_path / "a", doc)
    store.write(tmp_path / "b", document("terrace", 3.0, 2))
    rows, _ = compare(str(tmp_path / "a"), str(tmp_path / "b"))
    assert [row[:7] for row in rows] == [["32M", "1/2", "terrace", "1", "1.500", "3.000", "2.000"]]


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    store.write(tmp_path / "a", document("terrace", 3.0, 2))
    store.write(tmp_path / "b", document("stock-2", 3.0, 2))
    with pytest.raises(UsageError, match="no measured cell in common"):
        compare(str(tmp_path / "a"), str(tmp_path / "b"))
    with pytest.raises(UsageError, match="on both sides or on none"):
        compare(f"{tmp_path / 'a'}:terrace", str(tmp_path / "b"))
    with pytest.raises(UsageError, match="'turbo' is not one of"):
        compare(f"{tmp_path / 'a'}:turbo", f"{tmp_path / 'b'}:turbo")
    with pytest.raises(UsageError, match="there is no experiment 'nowhere'"):
        compare("nowhere", "nowhere")


def _broken(found: list[dict[str, object]], tolerance: float = 0.05) -> list[str]:
    return [check.text for check in shape.check(found, tolerance) if not check.met]


def test_results_of_the_right_shape_pass() -> None:
    assert _broken(full_set()) == []


def test_an_order_that_is_wrong_by_more_than_the_tolerance_is_found() -> None:
    found = [doc for doc in full_set((1,)) if doc["key"]["policy"] != "terrace"]
    assert _broken([*found, document("terrace", 3.1)]) == []
    (problem,) = _broken([*found, document("terrace", 3.3)])
    assert problem == "32M-dram1of2-terrace-seed1 <= 32M-spare-all-slow-seed1 in time: 3.3000 s <= 3.0000 s"
    assert len(_broken([*found, document("terrace", 0.9)])) == 2


def test_counters_that_do_not_add_up_are_found() -> None:
    found = full_set((1,))
    moved = {"pgmigrate_success": 5, "pgpromote_success": 4, "mtier_promoted_anon": 4}
    good = document("terrace", 1.5, vmstat=moved)
    assert _broken([*found[:3], good, found[4]]) == []
    for name, value in (("pgmigrate_success", 3), ("mtier_promoted_anon", 3)):
        bad = document("terrace", 1.5, vmstat={**moved, name: value})
        assert len(_broken([*found[:3], bad, found[4]])) == 1
    bad = document("all-dram", 1.0, vmstat={"pgmigrate_success": 1, "pgdemote_kswapd": 1})
    assert _broken([bad, *found[1:]]) == ["32M-spare-all-dram-seed1: nothing was promoted or demoted"]


def test_failed_cells_missing_bounds_and_no_results_are_no_good_shape() -> None:
    assert _broken([]) == ["there are results"]
    assert _broken([document("terrace", 1.5)]) == ["all-dram and all-slow are among the results"]
    failed = document("terrace", 1.5, status=store.FAILED, error="no")
    assert _broken([*full_set((1,)), failed]) == ["32M-dram1of2-terrace-seed1: measured"]

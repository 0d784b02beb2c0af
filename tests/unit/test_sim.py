# SPDX-License-Identifier: GPL-2.0
"""`terrace sim`: the decision on small simulated loads gains what it should, and less without its parts."""

from __future__ import annotations

import argparse
import functools
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

import strict_schema
from terrace.cli import sim
from terrace.errors import TerraceError, UsageError
from terrace.sim import runs
from terrace.sim.decision import FUNCTIONS, Decision, Machine, library
from terrace.sim.loads import LOADS, Load, Setting, make_load
from terrace.sim.policies import place
from terrace.sim.runs import Cell, Figures, run
from terrace.sim.tables import HEADERS, USUAL, markdown, rows
from terrace.sim.world import HOSTS, Host, World

#: A fourth of L, for a fourth of the time; and as slow as S.
SMALL = replace(HOSTS["L"], name="small", setting=Setting(16384, 400.0, 5.0), run_s=15.0, rate_s=16384.0)
SMALL_4096 = replace(SMALL, setting=Setting(4096, 100.0, 4.0))
SMALL_LOOKS = replace(SMALL, name="small-looks", look_ns=HOSTS["D"].look_ns)
SMALL_FLUSHES = replace(SMALL, name="small-flushes", flush_ns=HOSTS["E"].flush_ns)
NOOK = replace(SMALL_LOOKS, name="nook", setting=Setting(32768, 400.0, 10.0), run_s=30.0, rate_s=32768.0)
BRIEF = replace(SMALL_4096, name="brief", run_s=5.0)
SLOW = replace(HOSTS["S"], name="slow", setting=Setting(16384, 12.0, 50.0), run_s=80.0, rate_s=1024.0)
TESTED = (SMALL, SMALL_LOOKS, SMALL_FLUSHES, BRIEF, NOOK, SLOW)


@pytest.fixture(autouse=True)
def small_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    for host in TESTED:
        monkeypatch.setitem(HOSTS, host.name, host)


def figures(load: str, policy: str = "place", host: str = "small", dram: float = 0.25, seed: int = 1) -> Figures:
    return _figures(Cell(host, load, dram, policy, seed))


@functools.cache
def _figures(cell: Cell) -> Figures:
    """Run a cell once, though several tests use its figures."""
    return run(cell)


@pytest.mark.parametrize("dram", [0.125, 0.25, 0.5])
def test_pages_used_alike_stay(dram: float) -> None:
    found = figures("uniform", dram=dram)
    # A page or two a second, whatever the size.
    assert found.moved_s < 5e-4
    assert found.looks < 0.004
    assert found.gap == pytest.approx(dram, abs=0.005)


def test_pages_used_alike_one_after_the_other_stay() -> None:
    """The pages of a range are used together, so their use in a burst depends on the position of the program."""
    assert figures("pass").moves == 0
    assert figures("pass", "place-ranges").moves > 1e-4


@pytest.mark.parametrize("load", ["zipf0.8", "zipf0.99", "zipf1.2", "multi", "tenants"])
def test_what_is_hot_comes_and_stays(load: str) -> None:
    found = figures(load)
    assert found.hits > 0.95
    # Four times what the worst of these moves.
    assert found.moved_s < 5e-3
    assert found.gap > 0.95 * figures(load, "informed").gap


def test_a_change_is_followed() -> None:
    found, bound, static = (figures("phase25", policy) for policy in ("place", "informed", "static"))
    assert static.gap < 0.3 < 0.9 * bound.gap < found.gap < bound.gap
    assert found.found_s is not None
    assert found.found_s < 1.0
    assert static.found_s is None


def test_a_sweep_does_not_drive_out_what_is_hot() -> None:
    assert figures("stream").hits > 0.99
    assert figures("stream").moved_s < 1e-3


def test_all_fits_into_dram_that_is_large_enough() -> None:
    assert figures("zipf0.99", dram=1.0).hits == pytest.approx(1)


# ---- idle and free memory ----


@pytest.mark.parametrize("dram", [0.125, 0.25, 0.5])
@pytest.mark.parametrize("load", ["idle", "idle-phase", "ample"])
def test_what_is_used_is_found_where_dram_is_idle_or_free(load: str, dram: float) -> None:
    found, bound = (figures(load, policy, dram=dram) for policy in ("place", "informed"))
    assert found.found_s is not None
    assert found.found_s < 1.0
    # 0.96 in the mean of six seeds; a phase lasts 5 s.
    assert found.hits > 0.94
    # Of few accesses, looks take a larger part; and here all is another every 5 s.
    assert found.gap > bound.gap - 0.06
    assert found.looks < 0.02


def test_idle_pages_leave_free_memory_alone() -> None:
    host = HOSTS["small"]
    world = World(host, make_load("ample", host.setting, np.random.default_rng(1)), 0.5, np.random.default_rng(1))
    assert world.free == world.room == 8192
    place(world)
    used = int((world.load.rates(0.0) > 0).sum())
    assert 0.98 * used <= int(world.top.sum()) <= used


def test_idle_memory_is_what_dram_holds_first() -> None:
    for name in ("idle", "idle-phase"):
        load = make_load(name, Setting(4096, 100.0, 4.0), np.random.default_rng(1))
        world = World(SMALL_4096, load, 0.5, np.random.default_rng(1))
        assert world.free == 0
        assert not load.rates(0.0)[world.top].any()


@pytest.mark.parametrize("policy", ["place-dear", "place-cheap"])
@pytest.mark.parametrize("load", ["zipf0.99", "phase25", "ample"])
def test_a_wrong_cost_of_looks_is_put_right(load: str, policy: str) -> None:
    wrong, right = figures(load, policy), figures(load)
    assert wrong.gap == pytest.approx(right.gap, abs=0.02)
    # By seed alone it differs by a third.
    assert right.looks / 2 < wrong.looks < right.looks * 2


# ---- parts taken out ----


def test_one_histogram_for_both_sides_moves_for_ever() -> None:
    assert figures("zipf0.99", "place-sides").moved_s > 0.1


def test_without_a_flush_the_hottest_are_missed() -> None:
    assert figures("zipf0.99", "place-flush").hits < 0.5


def test_unaudited_forecasts_cost_more_than_they_bring() -> None:
    """Heat that lasts a second, on a host where it takes longer to pay."""
    audited, believed = (figures("short", policy, "slow") for policy in ("place", "place-audit"))
    assert believed.moves > 3 * audited.moves
    # The cost of learning that is a larger part of this short run.
    assert audited.gap > figures("short", "static", "slow").gap - 0.03


def test_heat_that_dies_of_use_is_not_chased() -> None:
    """A forecast that is checked at once fails, and such tries end soon."""
    believed = figures("log", "place-audit")
    # Some runs follow it for a short time.
    audited = [figures("log", seed=seed) for seed in range(1, 4)]
    assert believed.moves > 5 * mean(f.moves for f in audited)
    assert mean(f.gap for f in audited) > figures("log", "static").gap - 0.03


def test_what_is_in_use_is_found_beside_much_that_is_not() -> None:
    """One of 64 ranges is in use: a sweep finds it, and few draws from all ranges do."""
    swept, drawn = (figures("nook", policy, "nook") for policy in ("place", "place-sweep"))
    assert swept.found_s is not None
    assert swept.found_s < 0.5
    assert swept.gap > drawn.gap + 0.02
    assert swept.looks < drawn.looks / 2


def test_dear_flushes_make_no_small_bursts() -> None:
    """With the flush in the time of its pages, bursts are small, and find less for nearly the same CPU time."""
    found, fixed = (figures("phase10", policy, "small-flushes") for policy in ("place", "place-fixed"))
    assert found.gap > fixed.gap + 0.05
    assert found.looks < 1.2 * fixed.looks


def test_without_early_looks_heat_is_not_followed_as_long_as_it_pays() -> None:
    """Heat that lives a second, on a host where looks cost more."""
    early, late = (figures("short", policy, "small-looks", 0.5) for policy in ("place", "place-early"))
    assert early.moved_s > 1.3 * late.moved_s
    assert early.gap > late.gap + 0.02


# ---- the simulation itself ----


def test_a_run_is_the_same_each_time() -> None:
    cell = Cell("brief", "drift", 0.25, "place", 1)
    first, second = run(cell), run(cell)
    assert first == second and first.moves > 0


@pytest.mark.parametrize("name", LOADS)
def test_a_load_has_the_accesses_that_it_is_said_to_have(name: str) -> None:
    at = Setting(4096, 100.0, 4.0)
    load = make_load(name, at, np.random.default_rng(1))
    now, total = 0.0, 0.0
    while now < 8.0 - 1e-9:
        end = min(load.change_s(now), now + 1.0)
        total += float(load.accesses(now, end).sum())
        now = end
    # Of so few blocks two are a fourth.
    part = {"light": 0.01, "idle": 0.25, "idle-phase": 0.25, "ample": 0.1, "nook": 0.125}.get(name, 1.0)
    assert total == pytest.approx(8.0 * at.pages * at.rate * part, rel=0.02)


@pytest.mark.parametrize("name", ["phase25", "drift"])
def test_loads_that_change_have_other_hot_pages_afterwards(name: str) -> None:
    load = make_load(name, Setting(4096, 100.0, 4.0), np.random.default_rng(1))

    def hot(now_s: float) -> set[int]:
        rates = load.rates(now_s)
        return set(np.flatnonzero(rates == rates.max()).tolist())

    before = hot(0.0)
    after = hot(4.1)
    assert len(before) == len(after) == 1024
    assert len(before & after) < 512


def test_time_stops_at_the_end_and_dram_is_never_overfull() -> None:
    world = World(SMALL, Load(np.ones(16384)), 0.25, np.random.default_rng(1))
    world.advance(1000.0)
    assert world.over
    assert world.now_s == pytest.approx(SMALL.run_s)
    assert int(world.top.sum()) == world.room == 4096


def test_figures_are_those_of_the_tally() -> None:
    host = Host("x", Setting(512, 1.0, 1.0), 1, 1.0, 10.0)
    world = World(host, Load(np.full(512, 1 / 128)), 0.5, np.random.default_rng(1))
    world.advance(10.0)
    world.tally.looks_ns, world.tally.moves_ns = 150.0, 150.0
    found = runs._figures(world.tally, world, world.load)
    # Half of 40 accesses gain 150 ns each; two of them go into looks and moves.
    assert found.gap == pytest.approx((20 - 2) / 40)
    assert (found.looks, found.moves, found.moved_s, found.hits) == (15e-9, 15e-9, 0, 1)


def test_what_is_called_is_what_place_h_declares() -> None:
    header = (Path(__file__).parents[2] / "linux/mm/mtier/place.h").read_text()
    assert all(f"{name}(" in header for name in FUNCTIONS)
    assert library() is library()
    decision = Decision(Machine(latency_ns=150, move_ns=2500, look_ns=20))
    assert decision.tau_s == 0.01
    assert decision.horizon_s == 30.0
    decision.looked(4096 * 400, 4096, 1)
    assert decision.machine.look_ns == 210


# ---- the command ----


def command(*words: str) -> int:
    """`terrace sim`, in this process."""
    parser = argparse.ArgumentParser()
    sim.add_arguments(parser)
    return sim.main(parser.parse_args(words))


def test_the_command_prints_a_table_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--hosts", "small", "--loads", "uniform,zipf0.99", "--dram", "1/4", "--policies", "static", "--jobs", "1"]
    assert command(*words, "--seeds", "1,2", "-o", str(tmp_path / "sim.json")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == list(HEADERS)
    assert [line.split()[1] for line in lines[1:3]] == ["uniform", "zipf0.99"]
    document = json.loads((tmp_path / "sim.json").read_text())
    schema = Path(__file__).parents[2] / "docs/reference/schema/sim.schema.json"
    strict_schema.validate(document, json.loads(schema.read_text()))
    cells = document["cells"]
    assert [(cell["load"], cell["seed"]) for cell in cells] == [
        ("uniform", 1), ("uniform", 2), ("zipf0.99", 1), ("zipf0.99", 2),
    ]  # fmt: skip


def test_the_page_has_a_row_for_each_cell_of_all_seeds() -> None:
    found = Figures(0.5, 1.0, 0.0, 0.1, 0.2, None)
    results = {Cell("small", "uniform", 0.25, "place", seed): replace(found, gap=seed / 10) for seed in (1, 2, 3)}
    assert [row.figures.gap for row in rows(results)] == [pytest.approx(0.2)]
    page = markdown(results, "./terrace sim", "picture.svg")
    assert "| small | uniform | 1/4 | place | 0.200 | 1.000 | 0 | 10.00 | 20.00 |  |" in page
    assert "- **small**: 64 MiB" in page
    assert "- **L**" not in page


def test_every_host_has_loads_that_there_are() -> None:
    """`--hosts D` without `--loads` ended in a KeyError."""
    assert set(USUAL) == set(HOSTS) - {host.name for host in TESTED}
    assert {load for loads in USUAL.values() for load in loads} <= set(LOADS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hosts", "M"], "no host 'M'; there are L, S"),
        (["--loads", "zipf"], "no load 'zipf'; did you mean zipf.* there are uniform"),
        (["--policies", "place-luck"], "no policy 'place-luck'; .*there are static, informed, place"),
        (["--dram", "2"], "'2' is no part of the load"),
        (["--dram", "1/0"], "'1/0' is no part of the load"),
        (["--seeds", "one"], "--seeds"),
    ],
)
def test_words_that_are_wrong_are_named(words: list[str], message: str) -> None:
    with pytest.raises((UsageError, argparse.ArgumentTypeError), match=message):
        command(*words)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(TerraceError, match="nowhere/sim.json: No such file"):
        command("--hosts", "small", "--loads", "uniform", "--policies", "static", "--jobs", "1",
                "-o", str(tmp_path / "nowhere/sim.json"))  # fmt: skip


def test_what_there_is_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--list") == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in (*LOADS, "informed", "place-jitter", "place-dear"))

# SPDX-License-Identifier: GPL-2.0
"""Reading the timing plugin's ledger, and the guest's clock against modelled time."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import strict_schema
from terrace.bench.clock import TOLERANCE, clock_ratio, require_right_clock, within_tolerance
from terrace.bench.ledger import Ledger, Region, Tier, parse_ledger, read_ledger
from terrace.errors import TerraceError, UsageError
from terrace.paths import repo_root


def _mode(insns: int, **tiers: tuple[int, int]) -> dict[str, Any]:
    names = ("l1_miss", "l2_miss", "llc_miss", "dtlb_miss", "stlb_miss", "walk_reads", "huge")
    counts = dict.fromkeys((*names, "shootdowns_sent", "shootdowns_received"), 0)
    tier = {
        number[1:]: {"reads": 9, "writes": 1, "read_misses": r, "write_misses": w, "stall_ns": 10.0}
        for number, (r, w) in tiers.items()
    }
    return {"insns": insns, "reads": 9, "writes": 1, **counts, "busy_ns": insns / 2, "stall_ns": 10.0, "tier": tier}


def document(insns: int = 1000, modelled_ns: float = 2000.0) -> dict[str, Any]:
    node = {"bytes_read": 64, "bytes_written": 0, "utilisation_mean": 0.1, "latency_factor_mean": 1.0}
    app = {"user": _mode(insns, n0=(3, 0), n1=(5, 2)), "kernel": _mode(10)}
    vcpu = {"clock_ns": modelled_ns, "idle_ns": 0.0, "untranslated": 0}
    kinds = {
        "app": app,
        "idle": {"user": _mode(0), "kernel": _mode(77)},
        "other": {"user": _mode(0), "kernel": _mode(5)},
    }
    region = {
        "number": 1,
        "modelled_ns": modelled_ns,
        "guest_insns": insns,
        "all_idle_ns": 0,
        "skew_ns": 20000.0,
        "host_ns": 1,
        "shootdowns": 0,
        "shootdowns_received": 0,
        "shootdown_ns": 0.0,
        "nodes": {"0": node, "1": node},
        "vcpus": [{**vcpu, "kinds": kinds}, {**vcpu, "kinds": {"app": app}}],
    }
    step = {"t_ms": 1.0, "insns": 1, "app_insns": 1, "kernel_insns": 0, "shootdowns": 0, "app_misses": [1, 2]}
    return {
        "schema": "terrace.ledger",
        "version": 2,
        "abi": 1,
        "clock": "model",
        "machine": {"name": "m"},
        "regions": [region],
        "series": [{**step, "bytes": [64, 128]}],
    }


def ledger(**changes: Any) -> Ledger:
    return parse_ledger(json.dumps(document(**changes)))


def test_the_sums_are_over_vcpus_and_kinds() -> None:
    region = ledger().region()
    assert region.app.user.insns == 2000
    assert region.app.user.tiers[1] == Tier(18, 2, 10, 4, 20.0)
    assert region.app.both.insns == 2020
    assert region.kernel_insns("app") == 20
    assert region.kernel_insns() == 25
    assert region.kind("kswapd").user.insns == 0
    assert region.modelled_s == 2e-6


def test_the_hit_ratio_is_of_accesses_to_memory() -> None:
    region = ledger().region()
    assert region.fast_hit_ratio() == pytest.approx(0.3)
    assert region.fast_hit_ratio([0, 1]) == 1
    empty = Region(1, 0, 0, 0, 0, 0, 0, 0, {}, ())
    assert empty.fast_hit_ratio() is None


def test_the_series_keeps_its_nodes() -> None:
    assert ledger().series[0].app_misses == (1, 2)


def test_what_is_read_is_what_the_schema_says() -> None:
    schema = json.loads((repo_root() / "docs" / "reference" / "schema" / "ledger.schema.json").read_text())
    strict_schema.validate(document(), schema)


def test_a_region_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UsageError, match="no region 2, only 1"):
        ledger().region(2)


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "terrace.ledger", "version": 1}'])
def test_another_schema_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="x.json"):
        parse_ledger(text, "x.json")


def test_a_ledger_with_a_key_missing_is_refused() -> None:
    broken = document()
    del broken["regions"][0]["vcpus"]
    with pytest.raises(UsageError, match="vcpus"):
        parse_ledger(json.dumps(broken))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none.json"):
        read_ledger(tmp_path / "none.json")


# ---- the guest's clock ----


def test_ratios() -> None:
    assert clock_ratio(3.0, 2.0) == 1.5
    assert clock_ratio(1.0, 0.0) == math.inf


@pytest.mark.parametrize("ratio", [TOLERANCE, 1 / TOLERANCE])
def test_a_right_clock_is_one_within_the_tolerance(ratio: float) -> None:
    assert within_tolerance(ratio)
    require_right_clock(ratio)


@pytest.mark.parametrize("ratio", [None, 1.03, 0.97])
def test_a_run_with_another_clock_is_no_result(ratio: float | None) -> None:
    with pytest.raises(TerraceError, match="clock"):
        require_right_clock(ratio)

# SPDX-License-Identifier: GPL-2.0
"""Results made by hand, for tests of what is made of results."""

from typing import Any

from terrace.bench.experiment import Experiment, parse
from terrace.bench.store import OK, SCHEMA, VERSION
from terrace.paths import repo_root

TEXT = """
purpose = "why"
expected = "what"
workload = "abench"
sizes = ["32M"]
seeds = [1, 2]
policies = ["all-dram", "oracle", "stock-2", "terrace", "all-slow"]
dram = ["1/2"]
"""


def experiment(text: str = TEXT) -> Experiment:
    return parse("x", repo_root() / "bench/x/bench.toml", text)


def document(policy: str, seconds: float, seed: int = 1, **changes: Any) -> dict[str, Any]:
    """A result of `experiment()`; `changes` are figures, or whole keys where those are such."""
    dram = "spare" if policy in ("all-dram", "all-slow") else "1/2"
    word = "spare" if dram == "spare" else "dram1of2"
    flavour = "terrace" if policy == "terrace" else "stock"
    figures: dict[str, Any] = {
        "modelled_s": seconds,
        "guest_s": seconds,
        "clock_ratio": 1.0,
        "all_idle_s": 0.0,
        "skew_us": 20.0,
        "to_50_s": 0.1,
        "to_90_s": 0.2,
        "to_95_s": None,
        "final_share": 0.5,
        "fast_hit_ratio": 0.8,
        "near_hit_ratio": None,
        "app_user_s": 1.0,
        "promoted_pages": 0,
        "demoted_pages": 0,
        "moved_pages": 0,
        "shootdowns": 0,
        "ipis_per_page": None,
        "hint_faults": 0,
        "kernel_insns": 2e6,
        "scan_insns": 0,
        "scan_cpu": 0.0,
        "p999_ns": 1500,
    }
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "version": VERSION,
        "experiment": "x",
        "cell": f"32M-{word}-{policy}-seed{seed}",
        "fingerprint": "f",
        "key": {
            "experiment": "x",
            "workload": "abench",
            "size": 32 << 20,
            "dram": dram,
            "policy": policy,
            "seed": seed,
            "repetition": 1,
            "threads": 2,
            "topology": "dram-cxl",
            "start": "slow",
            "options": {},
        },
        "status": OK,
        "kernel": {"flavour": flavour, "version": "6.12", "content_hash": f"hash-{flavour}", "config_hash": "c"},
        "machine": {"topology": "dram-cxl", "memory": [1, 1], "cpus": 2, "qemu": "7.2.22"},
        "figures": figures,
        "timeline_ms_share": [[0.0, 0.0], [100.0, 0.5]],
        "series_ms_fast_slow": [],
        "vmstat": {},
        "ledger": {"vcpu_ns": [[seconds * 1e9, 0.0], [seconds * 1.5e9, seconds * 0.5e9]]},
        "workload": {},
        "host_s": 12.0,
    }
    for name, value in changes.items():
        (figures if name in figures else found)[name] = value
    return found


def full_set(seeds: tuple[int, ...] = (1, 2)) -> list[dict[str, Any]]:
    """A whole experiment: fast 1 s, slow 3 s, terrace closes 75 %, stock-2 50 %, the oracle 90 % of the gap."""
    times = {"all-dram": 1.0, "oracle": 1.2, "stock-2": 2.0, "terrace": 1.5, "all-slow": 3.0}
    hits = {"all-dram": 1.0, "oracle": 0.8, "stock-2": 0.6, "terrace": 0.72, "all-slow": 0.0}
    return [document(policy, times[policy], seed, fast_hit_ratio=hits[policy]) for policy in times for seed in seeds]

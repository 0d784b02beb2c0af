# SPDX-License-Identifier: GPL-2.0
"""Speeds of the loads that validate the timing model, from the result of one run. Pure."""

from collections.abc import Mapping
from typing import Any

from terrace.units import parse_size


def _cores(result: Mapping[str, Any]) -> float:
    return float(result["machine"]["cores_per_cpu"])


def bus_rate(result: Mapping[str, Any]) -> float:
    """Get GB/s of mlc's generators, in time of their own CPUs: the prober, on the last one, ends slightly later."""
    traffic = result["workload"]["traffic"]
    moved = traffic["bytes_read"] + traffic["bytes_written"]
    return float(moved * _cores(result) / max(result["region"]["cpu_app_ns"][:-1]))


def stream_rate(result: Mapping[str, Any]) -> float:
    """Get GB/s as Stream counts them."""
    # The four kernels use 2, 2, 3 and 3 arrays, each a third of the arena; `ops` times.
    options = list(result["run"]["options"])
    arrays = parse_size(options[options.index("--size") + 1]) / 3
    counted = 10 * arrays * int(result["workload"]["ops"])
    return float(counted * _cores(result) / result["region"]["modelled_ns"])


def time_of(result: Mapping[str, Any]) -> float:
    """Get the modelled ns of the measured part."""
    return float(result["region"]["modelled_ns"])

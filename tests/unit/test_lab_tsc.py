# SPDX-License-Identifier: GPL-2.0
import platform

import pytest

from terrace.lab.tsc import clock_arguments, host_tsc_khz


def test_a_guest_whose_clock_is_not_the_hosts_is_told_nothing() -> None:
    assert clock_arguments("tcg", 0) == []
    assert clock_arguments("kvm", None) == []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 has this counter")
def test_the_rate_is_measured_once_and_plausible() -> None:
    rate = host_tsc_khz()
    assert rate is not None
    assert 500_000 < rate < 10_000_000
    assert clock_arguments("tcg", None) == [f"tsc_early_khz={rate}"]
    assert host_tsc_khz.cache_info().misses == 1

# SPDX-License-Identifier: GPL-2.0
"""In its default mode our NUMA scan is that of the stock kernel: the same mappings skipped for the same reasons."""

import json
from pathlib import Path
from typing import Any

import pytest

from terrace.lab.initramfs import compile_static
from terrace.lab.run import run_in_guest

SCANS = 12


def scans(vmlinux: Path) -> dict[str, Any]:
    """What a kernel scans; guest time counts instructions."""
    program = str(compile_static("scantrace"))
    guest = run_in_guest(vmlinux, "dram-cxl", [program, str(SCANS)], icount_shift=3, timeout_s=300)
    assert guest.exit_code == 0, guest.stderr.decode()
    result: dict[str, Any] = json.loads(guest.stdout)
    return result


@pytest.fixture(scope="module")
def both(vmlinux: Path, stock_vmlinux: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same load on the stock kernel and on ours."""
    return scans(stock_vmlinux), scans(vmlinux)


def test_as_much_is_scanned(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    stock, ours = both
    assert stock["updates"] > 1000
    assert ours["updates"] == pytest.approx(stock["updates"], rel=0.05)
    assert ours["faults"] == pytest.approx(stock["faults"], rel=0.05)


def test_the_same_mappings_are_skipped_for_the_same_reasons(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    stock, ours = both
    assert any(stock["skips"].values())
    for name, reasons in stock["skips"].items():
        assert ours["skips"][name] == pytest.approx(reasons, rel=0.1), name

# SPDX-License-Identifier: GPL-2.0
"""The words by which verbs of `terrace lab` are told on which machine they run."""

from __future__ import annotations

import argparse

from terrace.units import factor, whole_number

DEFAULT_TOPOLOGY = "dram-cxl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those that `terrace.lab.run.choose_topology` takes."""
    parser.add_argument(
        "--topology",
        default=DEFAULT_TOPOLOGY,
        metavar="NAME",
        help="a name of `lab list` or a .toml file (%(default)s)",
    )
    parser.add_argument(
        "--cpus", type=whole_number("--cpus", 1, 64), metavar="N", help="CPUs in all, dealt out to the CPU nodes"
    )
    parser.add_argument(
        "--memory-scale",
        type=factor("--memory-scale"),
        default=1.0,
        metavar="F",
        help="times the memory of every node (1)",
    )

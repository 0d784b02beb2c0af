# SPDX-License-Identifier: GPL-2.0
"""The options of `terrace lab` that choose its machine."""

from __future__ import annotations

import argparse

from terrace.lab.run import choose_topology
from terrace.lab.topology import Topology
from terrace.lab.topology_words import from_words
from terrace.units import factor, whole_number

DEFAULT_TOPOLOGY = "dram-cxl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that `choose` reads."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--topology",
        default=DEFAULT_TOPOLOGY,
        metavar="NAME",
        help="a name of `lab list` or a .toml file (%(default)s)",
    )
    which.add_argument(
        "--numa",
        action="append",
        metavar="SPEC",
        help="a node of a machine of your own, SIZE[,cpus=N][,distance=D][,latency=T][,bandwidth=SIZE]; repeat it for "
        "each node, as in --numa 1G,cpus=2 --numa 0,cpus=1 --numa 2G,latency=300ns",
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


def choose(args: argparse.Namespace) -> Topology:
    """Get the machine of the command line. Raises UsageError."""
    topology = from_words(args.numa) if args.numa else args.topology
    return choose_topology(topology, args.cpus, args.memory_scale)

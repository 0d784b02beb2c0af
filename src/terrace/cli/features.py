# SPDX-License-Identifier: GPL-2.0
"""terrace features: list the features of the running kernel."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from terrace.cli import answer
from terrace.ops.calls import Calls
from terrace.ops.probe import Feature, Prober
from terrace.ops.snapshot import kernel_release
from terrace.output import style, table
from terrace.sysfs import KernelFiles

JSON_VERSION = 1

_WORDS = {True: ("yes", "green"), False: ("no", "dim"), None: ("?", "yellow")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    answer.add_arguments(parser)
    parser.add_argument("--root", default="/", metavar="DIR", help="take /proc and /sys from below DIR")


def main(args: argparse.Namespace) -> int:
    """Run the subcommand. Always returns 0: a missing feature is a result; `terrace doctor` judges."""
    files = KernelFiles(args.root)
    found = Prober(files, Calls()).all()
    document = {
        "version": JSON_VERSION,
        "kind": "features",
        "kernel": kernel_release(files),
        "features": [asdict(feature) for feature in found],
        "unreadable": [{"path": path, "error": why} for path, why in sorted(files.unreadable.items())],
    }
    answer.give(args, document, lambda: _print(files, found))
    return 0


def _print(files: KernelFiles, found: list[Feature]) -> None:
    print(f"Linux {kernel_release(files)}")
    width = max(len(feature.name) for feature in found)
    group = ""
    for feature in found:
        if feature.group != group:
            group = feature.group
            print("\n" + style(group, "bold"))
        word, colour = _WORDS[feature.present]
        print(f"  {style(word.ljust(3), colour)}  {feature.name.ljust(width)}  {feature.purpose}: {feature.detail}")
    if files.unreadable:
        print("\nUnreadable here (as root more may be):")
        table([("  " + path, why) for path, why in sorted(files.unreadable.items())])

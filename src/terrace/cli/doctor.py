# SPDX-License-Identifier: GPL-2.0
"""terrace doctor: report missing requirements, and how to install them."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from terrace.cli import answer
from terrace.errors import MissingError, UsageError
from terrace.ops import snapshot
from terrace.ops.calls import Calls
from terrace.ops.checks import Check, machine_checks
from terrace.ops.probe import Prober
from terrace.output import style
from terrace.paths import build_dir, command, has_lab, in_checkout, repo_root
from terrace.sysfs import KernelFiles

JSON_VERSION = 1

_MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}
_TITLES = {"machine": "This machine as a tiered server", "lab": "This machine as a host of the lab"}

EPILOG = """\
There are two roles: 'machine' (runs the Terrace kernel and promotes pages) and 'lab' (builds kernels
and boots them in QEMU, on any Linux machine). Without --for: machine on a Terrace kernel, both on
other kernels. Exit code 3 if a check of these roles fails, 0 otherwise (also with warnings).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("--for", dest="role", choices=("machine", "lab", "all"), help="the role to check")
    answer.add_arguments(parser)
    parser.add_argument("--root", default="/", metavar="DIR", help="take /proc and /sys from below DIR")


def main(args: argparse.Namespace) -> int:
    """Run the subcommand; return 3 if a requirement is missing."""
    files = KernelFiles(args.root)
    now = snapshot.take(files)
    if args.role in ("lab", "all") and not has_lab():
        raise UsageError(
            f"--for {args.role}: the lab runs from a checkout, or installed from one, and this is Debian's package; "
            "use --for machine"
        )
    role = args.role or ("machine" if now.engine or not has_lab() else "all")
    checks: list[Check] = []
    if role in ("machine", "all"):
        checks += machine_checks(files, Prober(files, Calls()), now)
    if role in ("lab", "all"):
        from terrace.lab.checks import lab_checks

        checks += lab_checks(files, repo_root() / "build" if in_checkout() else build_dir())
    failed = [check for check in checks if check.status == "fail"]
    shown = [asdict(check) for check in checks]
    document = {"version": JSON_VERSION, "kind": "doctor", "ok": not failed, "checks": shown}
    answer.give(args, document, lambda: print(_text(checks)))
    return MissingError.exit_code if failed else 0


def _text(checks: list[Check]) -> str:
    lines: list[str] = []
    for role, title in _TITLES.items():
        mine = [check for check in checks if check.role == role]
        if not mine:
            continue
        if lines:
            lines.append("")
        lines.append(style(title, "bold"))
        for check in mine:
            word, colour = _MARKS[check.status]
            lines.append(f"  {style(word.ljust(4), colour)}  {check.id}: {check.message}")
            if check.fix and check.status != "ok":
                lines.append(f"        -> {check.fix}")
        lines.append("  " + _verdict(role, mine))
    return "\n".join(lines)


def _verdict(role: str, checks: list[Check]) -> str:
    failed = [check.id for check in checks if check.status == "fail"]
    if failed:
        return f"Not ready: {', '.join(failed)}."
    if role == "lab":
        return f"Ready: {command()} demo"
    return "Ready: terrace status shows migrations."

# SPDX-License-Identifier: GPL-2.0
"""terrace exporter: export memory tiers to Prometheus, by a web server or a file."""

from __future__ import annotations

import argparse
import importlib.util
import signal
from pathlib import Path
from types import FrameType

from terrace.cli import answer
from terrace.errors import UsageError
from terrace.exporter import server, textfile
from terrace.exporter.machine import look
from terrace.exporter.table import Page
from terrace.ops import hierarchy, top
from terrace.output import say, warn
from terrace.paths import document
from terrace.sysfs import KernelFiles
from terrace.units import whole_number

JSON_VERSION = 1
DASHBOARD = Path(__file__).parents[1] / "exporter" / "dashboard.json"
STDOUT = "-"
EPILOG = f"""\
Without --textfile, --dashboard, --json and -o it serves until SIGTERM or Ctrl-C; each scrape reads /proc
and /sys, which takes milliseconds. With any of these it reads once and ends. Meaning of each metric, and
number of series: {document("reference/metrics.md")}. Setup of Prometheus, node_exporter
and Grafana: {document("how-to/watch-with-prometheus.md")}.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--listen", metavar="ADDR:PORT", help=f"serve there ({server.DEFAULT}); [::1]:PORT, :PORT for all addresses"
    )
    way.add_argument("--textfile", metavar="FILE", help="write FILE.prom for node_exporter, once (-: stdout)")
    way.add_argument("--dashboard", action="store_true", help="print the dashboard for Grafana")
    groups = whole_number("--cgroups", 0, 10_000)
    parser.add_argument(
        "--cgroups", type=groups, default=50, metavar="N", help="those N with the most slow memory (50); 0: none"
    )
    depth = whole_number("--depth", 1, 100)
    parser.add_argument("--depth", type=depth, default=3, metavar="N", help="levels of control groups (3)")
    answer.add_arguments(parser)
    parser.add_argument("--root", default="/", metavar="DIR", help="take /proc and /sys from below DIR")


def check_arguments(args: argparse.Namespace) -> None:
    """Reject options that cannot be served or written. Raises UsageError."""
    if args.listen is not None:
        server.parse_address(args.listen)
        if args.json or args.json_file:
            raise UsageError("--listen serves, --json and -o read once and end: give one of them")
    if args.dashboard and (args.json or args.json_file):
        raise UsageError("--dashboard is JSON of Grafana's own kind: redirect it (terrace exporter --dashboard >FILE)")
    if args.textfile == STDOUT and args.json:
        raise UsageError("--textfile - and --json both print: give one of them, or -o FILE for the JSON")
    if args.textfile is not None and args.textfile != STDOUT:
        textfile.check(Path(args.textfile))
    answer.check_root(args.root)


def needs_packages(args: argparse.Namespace) -> bool:
    """Debian's python3-prometheus-client is sufficient; JSON and the dashboard need neither."""
    text = not args.dashboard and (args.textfile is not None or not args.json)
    return text and importlib.util.find_spec("prometheus_client") is None


def main(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    check_arguments(args)
    if args.dashboard:
        print(DASHBOARD.read_text(encoding="utf-8"), end="")
    elif args.textfile is not None or args.json or args.json_file:
        _once(args)
    else:
        _serve(args)
    return 0


def _look(args: argparse.Namespace) -> Page:
    return look(KernelFiles(args.root), args.cgroups, args.depth)


def _once(args: argparse.Namespace) -> None:
    page = _look(args)
    if args.textfile not in (None, STDOUT):
        textfile.write(Path(args.textfile), _text(page))
        answer.give(args, as_json(page))
    else:
        answer.give(args, as_json(page), lambda: print(_text(page).decode("utf-8"), end=""))


def _text(page: Page) -> bytes:
    from terrace.exporter.collector import as_text

    return as_text(lambda: page)


def as_json(page: Page) -> dict[str, object]:
    """Create the document of --json (docs/reference/json.md)."""
    return {
        "version": JSON_VERSION,
        "kind": "metrics",
        "metrics": [
            {
                "name": family.metric.name,
                "type": family.metric.kind,
                "help": family.metric.help,
                "samples": [
                    {"labels": dict(zip(family.metric.labels, key, strict=True)), "value": float(value)}
                    for key, value in family.samples.items()
                ],
            }
            for family in page.families.values()
        ],
    }


def _serve(args: argparse.Namespace) -> None:
    from terrace.exporter.collector import as_accepted

    def page(accept: str) -> tuple[bytes, str]:
        return as_accepted(lambda: _look(args), accept)

    # Signals are handled from here on: the message below shows that the process can be ended.
    try:
        signal.signal(signal.SIGTERM, _end)
        problem = hierarchy.find(KernelFiles(args.root)).problem if args.cgroups else None
        if problem:
            warn(top.problem_text(problem))
        with server.Server(args.listen or server.DEFAULT, page) as own:
            say(f"terrace: serving {own.url}; SIGTERM or Ctrl-C ends it")
            own.serve_forever()
    except KeyboardInterrupt:
        say("terrace: ended")


def _end(number: int, frame: FrameType | None) -> None:
    """End on a signal without a failure: systemd expects 0. A second signal is no failure either."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt

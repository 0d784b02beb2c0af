# SPDX-License-Identifier: GPL-2.0
"""The subcommands of `terrace`, one module each, imported only when used.

A subcommand module has `add_arguments(parser)` and `main(args) -> int` (the exit code). It may have
`check_arguments(args)`, which rejects invalid arguments before anything is installed. A module with
packages of its requirements can be imported without them, and may have `needs_packages(args) ->
bool`, which returns whether these arguments need them.
"""

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """One subcommand; `needs` names its file in requirements/ (None: Python's standard library
    only).

    `debian` names the package with the same contents, for an installed tool without requirements/.
    """

    name: str
    module: str
    summary: str
    needs: str | None = None
    debian: str = ""


_TABLE = (
    Verb(
        "demo",
        "terrace.cli.demo",
        "promotion compared with the stock kernel: a table and a picture",
        "plot",
    ),
    Verb(
        "test",
        "terrace.cli.test",
        "run the tests: the tool's, the decision code's, KUnit and selftests in the guest",
        "test",
    ),
    Verb("bench", "terrace.cli.bench", "run experiments, report and compare their results", "bench"),
    Verb("sim", "terrace.cli.sim", "the kernel's decision about placement, on simulated loads", "plot"),
    Verb("lab", "terrace.cli.lab", "run programs on a machine with memory tiers (QEMU)"),
    Verb("kernel", "terrace.cli.kernel", "build the kernel, edit it, check it, make patches of it"),
    Verb("deb", "terrace.cli.deb", "Debian packages of the kernel, the tools and the library, for a real machine"),
    Verb("status", "terrace.cli.status", "show tiers, migrations, and the reasons why no pages migrate"),
    Verb("top", "terrace.cli.top", "show per-process memory by tier, live"),
    Verb(
        "exporter",
        "terrace.cli.exporter",
        "the same for Prometheus and Grafana, all the time",
        "exporter",
        "python3-prometheus-client",
    ),
    Verb("record", "terrace.cli.record", "trace migrations for a time or while a program runs"),
    Verb(
        "report",
        "terrace.cli.report",
        "report a recording on one page: migrations, owners, waiting times",
        "plot",
        "python3-matplotlib",
    ),
    Verb("set", "terrace.cli.set", "read and write knobs"),
    Verb("apply", "terrace.cli.apply", "apply the settings of /etc/terrace/terrace.toml"),
    Verb("exec", "terrace.cli.exec", "run a program with a memory policy"),
    Verb("spread", "terrace.cli.spread", "over which nodes memory is spread"),
    Verb("features", "terrace.cli.features", "list the features of this kernel"),
    Verb("doctor", "terrace.cli.doctor", "check this machine, and print fixes"),
)


def verbs() -> dict[str, Verb]:
    """Get the subcommands by name, in the order of the help text."""
    return {verb.name: verb for verb in _TABLE if importlib.util.find_spec(verb.module) is not None}

# SPDX-License-Identifier: GPL-2.0
"""What a shell completes behind `terrace`: asked by argcomplete, which calls the program with _ARGCOMPLETE set."""

from __future__ import annotations

import argparse
import importlib
import os
import pwd
from collections.abc import Callable, Iterable

import argcomplete

from terrace import cli
from terrace.ops import knobs
from terrace.ops.knob_table import CGROUP_KNOBS, CGROUPS
from terrace.sysfs import KernelFiles
from terrace.words import Parser

_MOST_CGROUPS = 2000


def answer() -> None:
    """Print what can stand at the cursor, and end the process."""
    parser = Parser(prog="terrace")
    parser.add_argument("--version", action="store_true")
    below = parser.add_subparsers()
    below.add_parser("help").add_argument("verb", choices=list(cli.verbs()))
    line = os.environ.get("COMP_LINE", "").split()
    for name, verb in cli.verbs().items():
        own = below.add_parser(name, help=verb.summary)
        if name in line:
            # One verb is imported, not all: a key was pressed.
            importlib.import_module(verb.module).add_arguments(own)
            for action in own._actions:
                if complete := COMPLETERS.get((name, action.dest)):
                    setattr(action, "completer", complete)  # noqa: B010 - argcomplete's way of being told
    argcomplete.autocomplete(parser)


def _knobs(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    if parsed_args.cgroup:
        return [knob.name for knob in CGROUP_KNOBS]
    return [knob.name for knob in knobs.present(KernelFiles(parsed_args.root))]


def _cgroups(parsed_args: argparse.Namespace, prefix: str, **_: object) -> list[str]:
    """Those in the folder that the word names so far."""
    root = KernelFiles(getattr(parsed_args, "root", "/"))
    folder = prefix.rpartition("/")[0]
    below = f"{folder}/" if folder else ""
    found = root.names(f"{CGROUPS}/{folder}")[:_MOST_CGROUPS]
    return [f"{below}{name}" for name in found if root.exists(f"{CGROUPS}/{below}{name}/cgroup.procs")]


def _pids(**_: object) -> list[str]:
    return [name for name in KernelFiles().names("proc") if name.isdecimal()]


def _users(**_: object) -> list[str]:
    return sorted({entry.pw_name for entry in pwd.getpwall()})


def _cpus(**_: object) -> Iterable[str]:
    return [str(cpu) for cpu in sorted(os.sched_getaffinity(0))]


def _nodes(**_: object) -> Iterable[str]:
    return [name[4:] for name in KernelFiles().names("sys/devices/system/node") if name[4:].isdecimal()]


#: By verb and name of the option in its code.
COMPLETERS: dict[tuple[str, str], Callable[..., Iterable[str]]] = {
    ("set", "knob"): _knobs,
    ("set", "cgroup"): _cgroups,
    ("apply", "cgroup"): _cgroups,
    ("top", "cgroup"): _cgroups,
    ("top", "pid"): _pids,
    ("top", "user"): _users,
    ("exec", "weighted_interleave"): _nodes,
    ("exec", "interleave"): _nodes,
    ("exec", "membind"): _nodes,
    ("exec", "preferred"): _nodes,
    ("exec", "preferred_many"): _nodes,
    ("exec", "cpunodebind"): _nodes,
    ("exec", "physcpubind"): _cpus,
}

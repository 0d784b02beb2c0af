# SPDX-License-Identifier: GPL-2.0
"""Completion of `terrace` in a shell: argcomplete calls the program with _ARGCOMPLETE set."""

from __future__ import annotations

import argparse
import importlib
import os
import pwd
from collections.abc import Callable, Iterable

import argcomplete

from terrace import cli
from terrace.errors import TerraceError
from terrace.ops import knobs
from terrace.ops.knob_table import CGROUP_KNOBS, CGROUPS
from terrace.sysfs import KernelFiles, parse_nodes
from terrace.words import Parser

_MOST_CGROUPS = 2000
#: A range of so few numbers is a list of modes.
_FEW = 10


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


def _knobs(parsed_args: argparse.Namespace, prefix: str, **_: object) -> list[str]:
    """Names for the first word of `set`, values for the second; NAME=VALUE for each word of a list of these."""
    files = KernelFiles(parsed_args.root)
    before: list[str] = parsed_args.knob or []
    name, sign, _value = prefix.partition("=")
    pairs = all("=" in word for word in before)
    if sign:
        return [f"{name}={value}" for value in _values(parsed_args, files, name)] if pairs else []
    if len(before) == 1 and not pairs:
        return _values(parsed_args, files, before[0])
    if not pairs:
        return []
    known = [knob.name for knob in (CGROUP_KNOBS if parsed_args.cgroup else knobs.present(files))]
    given = {word.partition("=")[0] for word in before}
    return [f"{name}=" for name in known if name not in given] if before else known


def _values(parsed_args: argparse.Namespace, files: KernelFiles, name: str) -> list[str]:
    """The values of a knob that has some by name; none of one that takes a number with a unit."""
    try:
        knob = knobs.find_in_cgroup(name, parsed_args.cgroup) if parsed_args.cgroup else knobs.find(name)
    except TerraceError:
        return []
    if knob.high == 1 or "true" in knob.words:
        return ["on", "off"]
    values = list(knob.words)
    if knob.unit == "node":
        values += _numbers(files, "sys/devices/system/node/online")
    elif knob.low is not None and knob.high is not None and not knob.unit and knob.high - knob.low < _FEW:
        values += [str(value) for value in range(knob.low, knob.high + 1)]
    return values


def _numbers(files: KernelFiles, name: str) -> list[str]:
    return [str(number) for number in parse_nodes(files.get(name))]


def _cgroups(parsed_args: argparse.Namespace, prefix: str, **_: object) -> list[str]:
    """Cgroups in the folder that the word names so far."""
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
    ("record", "pid"): _pids,
    ("spread", "pid"): _pids,
    ("top", "user"): _users,
    ("exec", "weighted_interleave"): _nodes,
    ("exec", "interleave"): _nodes,
    ("exec", "membind"): _nodes,
    ("exec", "preferred"): _nodes,
    ("exec", "preferred_many"): _nodes,
    ("exec", "cpunodebind"): _nodes,
    ("exec", "physcpubind"): _cpus,
}

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
from terrace.ops.knob_table import CGROUP_KNOBS, CGROUPS, Knob
from terrace.sysfs import KernelFiles
from terrace.words import Parser

_MOST_CGROUPS = 2000
#: Options of `set` that a value follows.
_WITH_VALUE = ("--cgroup", "--root", "-o", "--output")


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
    """Names of knobs; behind a name, alone or with a sign of equality, values of that knob."""
    known = CGROUP_KNOBS if parsed_args.cgroup else knobs.present(KernelFiles(parsed_args.root))
    names = {word: knob for knob in known for word in (knob.name, *knob.aliases)}
    name, sign, _value = prefix.partition("=")
    if sign:
        return [f"{name}={value}" for value in _values(names[name])] if name in names else []
    given = _positional(os.environ.get("COMP_LINE", ""), prefix)
    if len(given) == 1 and given[0] in names:
        return _values(names[given[0]])
    if given and not all("=" in word for word in given):
        return []
    return [knob.name for knob in known]


def _values(knob: Knob) -> list[str]:
    """What a knob takes: its words, or else its bounds, and `default`."""
    bounds = [str(bound) for bound in (knob.low, knob.high) if bound is not None]
    return [*(knob.words or bounds), "default"]


def _positional(line: str, prefix: str) -> list[str]:
    """The words behind `set` that are no options, but for the one at the cursor."""
    words = line[: len(line) - len(prefix)].split()
    words = words[words.index("set") + 1 :] if "set" in words else []
    return [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and before not in _WITH_VALUE
    ]


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

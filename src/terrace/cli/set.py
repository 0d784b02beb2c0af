# SPDX-License-Identifier: GPL-2.0
"""terrace set: show and change knobs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from terrace.cli import answer
from terrace.errors import TerraceError, UsageError
from terrace.ops import knobs
from terrace.ops.knob_table import CGROUP_KNOBS, Knob, in_cgroup
from terrace.output import style, table
from terrace.sysfs import MTIER, KernelFiles

JSON_VERSION = 1

EPILOG = """\
The engine's names are those of the files below /sys/kernel/mm/mtier with a dot for the slash; the
unit at the end may be left out, and so may the part before the dot: scan.delay_ms, scan.delay and
delay are one knob. Values are in the knob's unit, or carry one: 500ms 2s 512M 1G/s 20%.
'default' sets the default. Several knobs: terrace set scan.cpu=30% promote.rate=2G/s;
they are set in the order given, and when one is refused those before it are put back.
Nothing outlives a reboot: put the commands into a unit that runs at boot.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "knob", nargs="*", metavar="KNOB [VALUE]", help="one knob and its value, or KNOB=VALUE …; a KNOB alone is shown"
    )
    parser.add_argument("--list", action="store_true", help="all knobs: value, default, what is allowed, what it does")
    parser.add_argument("--cgroup", metavar="PATH", help="the knobs of a cgroup, below /sys/fs/cgroup: system.slice")
    parser.add_argument("--dry-run", action="store_true", help="check and print the writes, do none")
    answer.add_arguments(parser)
    parser.add_argument("--root", default="/", metavar="DIR", help="take /proc and /sys from below DIR")


def main(args: argparse.Namespace) -> int:
    """Run the verb."""
    files = KernelFiles(args.root, dry_run=args.dry_run)
    cgroup = None if args.cgroup is None else knobs.cgroup_path(files, args.cgroup)
    if args.list:
        if args.knob:
            raise UsageError("--list takes no knob; `terrace set KNOB` shows one")
        return _show(args, files, _all(files, cgroup))
    if not args.knob:
        raise UsageError("give a KNOB and a VALUE, or --list to see the knobs")
    wanted = _pairs(args.knob, cgroup)
    if isinstance(wanted, Knob):
        return _show(args, files, [wanted])
    return _change(args, files, wanted)


def _all(files: KernelFiles, cgroup: str | None) -> list[Knob]:
    return knobs.present(files) if cgroup is None else [in_cgroup(knob, cgroup) for knob in CGROUP_KNOBS]


def _pairs(words: list[str], cgroup: str | None) -> Knob | list[tuple[Knob, str]]:
    """The knob to show, or knobs and the values to write."""

    def find(name: str) -> Knob:
        return knobs.find(name) if cgroup is None else knobs.find_in_cgroup(name, cgroup)

    if all("=" in word for word in words):
        split = [word.partition("=") for word in words]
    elif len(words) == 2 and "=" not in words[0]:
        split = [(words[0], "=", words[1])]
    elif len(words) == 1:
        return find(words[0])
    else:
        raise UsageError(f"cannot read '{' '.join(words)}'; write KNOB VALUE or KNOB=VALUE KNOB=VALUE …")
    found = [(find(name), value) for name, _, value in split]
    return [(knob, knobs.parse_value(knob, value)) for knob, value in found]


def _change(args: argparse.Namespace, files: KernelFiles, wanted: list[tuple[Knob, str]]) -> int:
    done: list[tuple[Knob, str | None]] = []
    changes: list[dict[str, object]] = []
    try:
        for knob, value in wanted:
            before = knobs.current(files, knob)
            touched = [(other, knobs.current(files, other)) for other in knobs.affected(files, knob)]
            # Before the write: what it did is undone even if the kernel takes another value than the one asked for.
            done = [*touched, *done]
            after = knobs.apply(files, knob, value)
            changes.append(_record(knob, before, after))
            if not args.json:
                _say(files, knob, before, value, after)
    except (TerraceError, KeyboardInterrupt):
        _put_back(files, done)
        raise
    answer.give(args, {"version": JSON_VERSION, "kind": "set", "dry_run": files.dry_run, "changes": changes})
    return 0


def _put_back(files: KernelFiles, done: list[tuple[Knob, str | None]]) -> None:
    """Give knobs the values they had before a command that failed, in this order: the last one written comes first."""
    for knob, before in done:
        if files.dry_run or before is None or knobs.same(knobs.current(files, knob), before):
            continue
        knobs.apply(files, knob, before)
        print(f"{knob.name}: back at {_with_unit(knob, before)}", file=sys.stderr)


def _say(files: KernelFiles, knob: Knob, before: str | None, value: str, after: str | None) -> None:
    if files.dry_run:
        print(f"would write '{value}' to /{knob.path} (now {before if before is not None else 'unreadable'})")
        return
    was = "" if before is None else f" (was {_with_unit(knob, before)})"
    print(f"{knob.name}: {_with_unit(knob, after if after is not None else value)}{was}")
    if knob.name == "enabled" and value == "1":
        state = files.get(f"{MTIER}/state")
        if state is not None:
            print(f"state: {state}; `terrace status` shows what moves")


def _record(knob: Knob, before: str | None, after: str | None) -> dict[str, object]:
    return {"knob": knob.name, "path": "/" + knob.path, "unit": knob.unit, "before": before, "after": after}


def _show(args: argparse.Namespace, files: KernelFiles, shown: list[Knob]) -> int:
    values = {knob.name: knobs.current(files, knob) for knob in shown}
    described = [_described(files, knob, values[knob.name]) for knob in shown]
    document = {"version": JSON_VERSION, "kind": "knobs", "knobs": described}
    answer.give(args, document, lambda: _print(files, shown, values))
    return 0


def _print(files: KernelFiles, shown: list[Knob], values: Mapping[str, str | None]) -> None:
    rows = [(k.name, _state(files, k, values[k.name]), k.default, k.allowed, k.summary) for k in shown]
    table(rows, ("KNOB", "NOW", "DEFAULT", "ALLOWED", "WHAT IT IS"))
    if not files.exists(MTIER) and any(knob.path.startswith(MTIER) for knob in shown):
        print(style("\n-: this kernel has no promotion engine; `terrace doctor` says what is needed", "dim"))


def _described(files: KernelFiles, knob: Knob, value: str | None) -> dict[str, object]:
    return {
        "knob": knob.name,
        "path": "/" + knob.path,
        "value": value,
        "present": files.exists(knob.path),
        "unit": knob.unit,
        "default": knob.default,
        "min": knob.low,
        "max": knob.high,
        "words": list(knob.words),
        "summary": knob.summary,
    }


def _state(files: KernelFiles, knob: Knob, value: str | None) -> str:
    if value is not None:
        return value
    return "unreadable" if files.exists(knob.path) else "-"


def _with_unit(knob: Knob, value: str) -> str:
    return f"{value} {knob.unit}" if knob.unit and value.isdecimal() else value

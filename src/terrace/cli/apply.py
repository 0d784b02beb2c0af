# SPDX-License-Identifier: GPL-2.0
"""terrace apply: apply a file of settings to the kernel."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from urllib.parse import quote

from terrace.cli import answer
from terrace.errors import UsageError
from terrace.ops import apply, knobs, settings, unit
from terrace.ops.applied import Applied, alone
from terrace.ops.changes import Change
from terrace.ops.knob_table import CGROUPS, Knob
from terrace.ops.settings import Setting
from terrace.output import style, table
from terrace.paths import front_door, has_lab, repo_root
from terrace.sysfs import KernelFiles

JSON_VERSION = 1
#: Path below `repo_root`.
DOCUMENT = "docs/reference/settings.md"

EPILOG = """\
The file is TOML; its keys are the names of `terrace set`, with engine. before those of promotion:
engine.enabled = true, engine.promote.rate_mbps = "500M/s". All values are written, or none after an
error. If a line was removed since the last time, its knob gets its old value back.
`terrace set --save KNOB VALUE` sets a knob and writes it to the file.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="check only the file: on any kernel, without a write")
    what.add_argument("--dry-run", action="store_true", help="print the writes to this kernel without doing them")
    what.add_argument(
        "--undo", action="store_true", help="restore the value that every knob had before the first apply"
    )
    what.add_argument("--example", action="store_true", help="print a file with every knob as a comment")
    what.add_argument("--unit", action="store_true", help=f"print {unit.NAME}, by which systemd applies it at boot")
    parser.add_argument("--file", type=Path, metavar="FILE", help=f"the file of settings (/{settings.DEFAULT})")
    parser.add_argument("--cgroup", metavar="PATH", help="only the settings of this cgroup, such as system.slice")
    answer.add_arguments(parser)
    parser.add_argument("--root", default="/", metavar="DIR", help="take /proc, /sys, /etc and /run from below DIR")


def main(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    if args.example or args.unit:
        return _print_file(args)
    if args.undo and (args.file or args.cgroup):
        raise UsageError("--undo puts everything back that was applied; it takes neither --file nor --cgroup")
    files = KernelFiles(args.root, dry_run=args.dry_run)
    path = args.file or files.real_path(settings.DEFAULT)
    if args.check:
        return _check(args, path)
    with contextlib.nullcontext() if files.dry_run else alone(files):
        return _undo(args, files) if args.undo else _apply(args, files, path)


def _print_file(args: argparse.Namespace) -> int:
    word = "--example" if args.example else "--unit"
    if args.json or args.json_file or args.file or args.cgroup:
        raise UsageError(f"{word} prints a file as it is; no other option goes with it")
    pages = "man:terrace-apply(1) man:terrace.toml(5)"
    documents = f"file:{quote(str(repo_root() / DOCUMENT))}" if has_lab() else pages
    print(settings.example() if args.example else unit.text(front_door(), documents), end="")
    return 0


def _wanted(args: argparse.Namespace, path: Path, cgroup: str | None) -> list[Setting]:
    found = settings.parse(settings.read(path), path)
    return found if cgroup is None else apply.of_cgroup(found, cgroup)


def _check(args: argparse.Namespace, path: Path) -> int:
    found = _wanted(args, path, None if args.cgroup is None else knobs.below_cgroups(args.cgroup))
    entries = [
        {
            "knob": one.knob.name,
            "path": "/" + one.knob.path,
            "unit": one.knob.unit,
            "value": one.value,
            "line": one.line,
        }
        for one in found
    ]
    document = {"version": JSON_VERSION, "kind": "settings", "file": str(path), "settings": entries}
    answer.give(args, document, lambda: _print_settings(path, found))
    return 0


def _print_settings(path: Path, found: list[Setting]) -> None:
    if found:
        rows = [(_label(one.knob), knobs.with_unit(one.knob, one.value), one.line) for one in found]
        table(rows, ("KNOB", "VALUE", "LINE"))
    print(f"{path}: {_count(len(found), 'setting')}, nothing wrong")


def _apply(args: argparse.Namespace, files: KernelFiles, path: Path) -> int:
    cgroup = None if args.cgroup is None else knobs.cgroup_path(files, args.cgroup)
    wanted = _wanted(args, path, cgroup)
    applied = Applied(files)
    planned = apply.plan(files, path, wanted, applied, cgroup)
    changed = apply.carry_out(files, planned, applied, lambda one: _say(args, files, one), _say_back)
    lines = {one.knob.path: one.line for one in planned.differ}
    absent = {one.cgroup: one.line for one in reversed(planned.without_cgroup)}
    document = {
        "version": JSON_VERSION,
        "kind": "apply",
        "dry_run": files.dry_run,
        "file": str(path),
        "settings": len(planned.settings),
        "changes": [{**one.as_json(), "line": lines.get(one.knob.path)} for one in changed],
        "without_cgroup": [{"cgroup": name, "line": line} for name, line in absent.items()],
    }
    for name, line in absent.items():
        print(f"terrace: {path}, line {line}: passed over, there is no cgroup /{CGROUPS}/{name} now", file=sys.stderr)
    answer.give(args, document, lambda: _sum_up(path, planned, files.dry_run))
    return 0


def _undo(args: argparse.Namespace, files: KernelFiles) -> int:
    changed = apply.undo(files, Applied(files), lambda one: _say(args, files, one))
    document = {
        "version": JSON_VERSION,
        "kind": "apply",
        "dry_run": files.dry_run,
        "file": None,
        "settings": 0,
        "changes": [{**one.as_json(), "line": None} for one in changed],
        "without_cgroup": [],
    }
    answer.give(args, document, lambda: None if changed else print("nothing to put back"))
    return 0


def _say(args: argparse.Namespace, files: KernelFiles, one: Change) -> None:
    if args.json:
        return
    now = knobs.with_unit(one.knob, one.after) if one.after is not None else "written, and cannot be read"
    was = "unreadable" if one.before is None else knobs.with_unit(one.knob, one.before)
    if files.dry_run:
        print(f"{_label(one.knob)}: would be {now} (is {was})")
    else:
        print(f"{_label(one.knob)}: {now} (was {was})")


def _say_back(one: Change) -> None:
    print(f"{_label(one.knob)}: back at {knobs.with_unit(one.knob, one.after or '')}", file=sys.stderr)


def _sum_up(path: Path, planned: apply.Plan, dry_run: bool) -> None:
    count = len(planned.writes)
    what = f"{count} to be written" if dry_run else f"{count} written"
    print(
        style(f"{path}: {_count(len(planned.settings), 'setting')}, {what if count else 'all in force already'}", "dim")
    )


def _label(knob: Knob) -> str:
    """Get the knob's name, after that of the cgroup for a knob of a cgroup."""
    folder = knob.path.rpartition("/")[0]
    return f"{folder.removeprefix(CGROUPS + '/')}: {knob.name}" if folder.startswith(CGROUPS) else knob.name


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

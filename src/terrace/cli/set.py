# SPDX-License-Identifier: GPL-2.0
"""terrace set: show and change knobs."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping, Sequence

from terrace.cli import answer
from terrace.errors import TerraceError, UsageError
from terrace.files import replace, why
from terrace.ops import changes, knobs, settings
from terrace.ops.applied import Applied, Entry, alone
from terrace.ops.knob_table import CGROUP_KNOBS, Knob, in_cgroup
from terrace.output import style, table
from terrace.sysfs import MTIER, KernelFiles

JSON_VERSION = 1

EPILOG = """\
The names of promotion are those of the files below /sys/kernel/mm/mtier with a dot for the slash;
the unit at the end may be left out, and so may the part before the dot: scan.delay_ms, scan.delay
and delay are one knob. Values are in the knob's unit, or have a unit: 500ms 2s 512M 1G/s 20%.
'default' sets the default. Several knobs: terrace set scan.cpu=30% promote.rate=2G/s;
they are set in this order, and if one is rejected, those before it are restored.
A reboot resets all knobs. --save writes them to /etc/terrace/terrace.toml: `terrace apply` sets them
again, and the unit that `terrace apply --unit` prints does that at boot.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "knob", nargs="*", metavar="KNOB [VALUE]", help="one knob and its value, or KNOB=VALUE …; a KNOB alone is shown"
    )
    parser.add_argument("--list", action="store_true", help="all knobs: value, default, allowed values, effect")
    parser.add_argument("--cgroup", metavar="PATH", help="the knobs of a cgroup, below /sys/fs/cgroup: system.slice")
    parser.add_argument(
        "--save", action="store_true", help="and write it to the file of settings; without a KNOB: all that is set now"
    )
    parser.add_argument("--dry-run", action="store_true", help="check and print the writes, do none")
    answer.add_arguments(parser)
    parser.add_argument("--root", default="/", metavar="DIR", help="take /proc and /sys from below DIR")


def main(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    files = KernelFiles(args.root, dry_run=args.dry_run)
    cgroup = None if args.cgroup is None else knobs.cgroup_path(files, args.cgroup)
    if args.list:
        if args.knob or args.save:
            raise UsageError("--list takes no knob and no --save; `terrace set KNOB` shows one")
        return _show(args, files, _all(files, cgroup))
    if not args.knob:
        if args.save:
            return _save_all(args, files, cgroup)
        raise UsageError("give a KNOB and a VALUE, or --list to see the knobs")
    wanted = _pairs(args.knob, cgroup)
    if isinstance(wanted, Knob):
        if args.save:
            raise UsageError(
                f"--save {args.knob[0]}: give the value, too, or no knob: then all that is set now is saved"
            )
        return _show(args, files, [wanted])
    return _change(args, files, wanted, cgroup)


def _all(files: KernelFiles, cgroup: str | None) -> list[Knob]:
    return knobs.present(files) if cgroup is None else [in_cgroup(knob, cgroup) for knob in CGROUP_KNOBS]


def _pairs(words: list[str], cgroup: str | None) -> Knob | list[tuple[Knob, str]]:
    """Get the knob to show, or knobs and the values to write."""

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


def _change(args: argparse.Namespace, files: KernelFiles, wanted: list[tuple[Knob, str]], cgroup: str | None) -> int:
    with contextlib.ExitStack() as stack:
        if args.save and not files.dry_run:
            stack.enter_context(alone(files))
        saved = _Saved(files, wanted, cgroup) if args.save else None
        written = changes.write(
            files,
            wanted,
            lambda one: None if args.json else _say(files, one),
            _say_back,
            saved.write if saved else _nothing,
        )
    return _give_changes(args, files, written, saved)


def _save_all(args: argparse.Namespace, files: KernelFiles, cgroup: str | None) -> int:
    """Write the values in force to the file of settings, and nothing to the kernel."""
    with contextlib.nullcontext() if files.dry_run else alone(files):
        saved = _Saved(files, None, cgroup)
        saved.write()
    return _give_changes(args, files, [], saved)


def _give_changes(
    args: argparse.Namespace, files: KernelFiles, written: Sequence[changes.Change], saved: _Saved | None
) -> int:
    document = {
        "version": JSON_VERSION,
        "kind": "set",
        "dry_run": files.dry_run,
        "changes": [one.as_json() for one in written],
        "saved": str(saved.path) if saved else None,
    }
    answer.give(args, document, saved.say if saved else None)
    return 0


class _Saved:
    """Values to write to the file of settings; created, and so checked, before they are written to
    the kernel.

    ``wanted`` None: all values that differ from their defaults, or are in the file already.
    """

    def __init__(self, files: KernelFiles, wanted: list[tuple[Knob, str]] | None, cgroup: str | None) -> None:
        self.path = files.real_path(settings.DEFAULT)
        self._files = files
        text = settings.read(self.path) if self.path.exists() else ""
        if wanted is None:
            wanted = settings.kept(files, settings.parse(text, self.path), _all(files, cgroup))
            self._before = []
        else:
            self._before = changes.touched(files, [knob for knob, _ in wanted])
        self._wanted = wanted
        self._cgroup = cgroup
        for knob, value in wanted:
            text = settings.with_value(text, self.path, knob, value, cgroup)
        self._text = text

    def write(self) -> None:
        """Write the file, and record the values to restore if its lines are removed. Raises
        TerraceError; then neither is done.
        """
        if self._files.dry_run or not self._wanted:
            return
        named = {knob.path for knob, _ in self._wanted}
        applied = Applied(self._files)
        known = applied.entries
        more = [Entry(knob, before, knob.path in named) for knob, before in self._before]
        applied.keep(applied.with_more(more, named))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace(self.path, self._text.encode())
        except OSError as error:
            applied.keep(known)
            raise TerraceError(f"cannot write {self.path}: {why(error, self.path)}") from error

    def say(self) -> None:
        """Print the written values and their files."""
        lines = [settings.line_of(knob, value, self._cgroup) for knob, value in self._wanted]
        if not self._files.dry_run:
            print(f"{self.path}: has it now" if lines else f"{self.path}: nothing to save, all is at its default")
            return
        for line in lines:
            print(f"would save in {self.path}: {line}")


def _nothing() -> None:
    pass


def _say(files: KernelFiles, one: changes.Change) -> None:
    knob, before, value = one.knob, one.before, one.after
    if files.dry_run:
        print(f"would write '{value}' to /{knob.path} (now {before if before is not None else 'unreadable'})")
        return
    was = "" if before is None else f" (was {knobs.with_unit(knob, before)})"
    print(f"{knob.name}: {knobs.with_unit(knob, value) if value is not None else 'written, and cannot be read'}{was}")
    if knob.name == "enabled" and value == "1":
        state = files.get(f"{MTIER}/state")
        if state is not None:
            print(f"state: {state}; `terrace status` shows migrations")


def _say_back(one: changes.Change) -> None:
    print(f"{one.knob.name}: back at {knobs.with_unit(one.knob, one.after or '')}", file=sys.stderr)


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
        print(style("\n-: this kernel has no promotion engine; `terrace doctor` prints the requirements", "dim"))


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

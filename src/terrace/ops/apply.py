# SPDX-License-Identifier: GPL-2.0
"""Apply a file of settings to the kernel, and undo it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import MissingError, TerraceError, UsageError
from terrace.ops import changes, knobs
from terrace.ops.applied import Applied, Entry
from terrace.ops.changes import Change
from terrace.ops.knob_table import CGROUPS, Knob
from terrace.ops.settings import Setting
from terrace.sysfs import KernelFiles


@dataclass(frozen=True)
class Plan:
    """The steps to apply a file; none is done yet."""

    #: All settings that can be in force, in the order in which they are written.
    settings: list[Setting]
    #: Settings whose present value differs.
    differ: list[Setting]
    #: Knobs set by an earlier file, and not by this one: to be restored in this order.
    withdrawn: list[Entry]
    #: Settings of cgroups that do not exist.
    without_cgroup: list[Setting]

    @property
    def writes(self) -> list[tuple[Knob, str]]:
        """Get knobs and values to write: restored values first, since these writes may change other knobs."""
        back = [(entry.knob, entry.before) for entry in self.withdrawn if entry.before is not None]
        return [*back, *((one.knob, one.value) for one in self.differ)]


def of_cgroup(settings: Sequence[Setting], cgroup: str) -> list[Setting]:
    """Get the settings of one cgroup. Raises UsageError with the cgroups that have settings if it has none."""
    own = [one for one in settings if one.cgroup == cgroup]
    if not own:
        others = sorted({one.cgroup for one in settings if one.cgroup is not None})
        raise UsageError(f"--cgroup {cgroup}: the file has nothing of it; it has {', '.join(others) or 'no cgroups'}")
    return own


def plan(
    files: KernelFiles, path: Path, settings: Sequence[Setting], applied: Applied, cgroup: str | None = None
) -> Plan:
    """Plan the steps for ``settings``, from the file ``path``; with ``cgroup`` for that cgroup
    only.

    Raises MissingError, with a line for each, if the kernel lacks knobs.
    """
    gone = [one for one in settings if one.cgroup is not None and not files.exists(f"{CGROUPS}/{one.cgroup}")]
    here = [one for one in settings if one not in gone]
    if missing := [one for one in here if not files.exists(one.knob.path)]:
        missing.sort(key=lambda one: one.line)
        raise MissingError("\n".join(f"{path}, line {one.line}: {knobs.absent(files, one.knob)}" for one in missing))
    return Plan(
        settings=here,
        differ=[one for one in here if not knobs.same(knobs.current(files, one.knob), one.value)],
        withdrawn=_withdrawn(files, here, applied, cgroup),
        without_cgroup=gone,
    )


def _withdrawn(files: KernelFiles, settings: Sequence[Setting], applied: Applied, cgroup: str | None) -> list[Entry]:
    wanted = {one.knob.path for one in settings}
    touched = {knob.path for knob, _ in changes.touched(files, [one.knob for one in settings])}
    return [
        entry
        for entry in applied.entries
        if entry.knob.path not in (wanted if entry.named else touched)
        and (cgroup is None or entry.knob.path.startswith(f"{CGROUPS}/{cgroup}/cpuset."))
        and files.exists(entry.knob.path)
        and entry.before is not None
    ]


def carry_out(
    files: KernelFiles,
    planned: Plan,
    applied: Applied,
    tell: Callable[[Change], None],
    tell_back: Callable[[Change], None],
) -> list[Change]:
    """Carry out the plan; if the kernel rejects a value, everything is restored. Raises the
    exceptions of `knobs.apply`.
    """
    named = {one.knob.path for one in planned.settings}
    more = [
        Entry(knob, before, knob.path in named)
        for knob, before in changes.touched(files, [one.knob for one in planned.differ])
    ]
    later = [entry for entry in applied.with_more(more, named) if entry not in planned.withdrawn]
    if files.dry_run:
        return changes.write(files, planned.writes, tell, tell_back)
    known = applied.entries
    # Written before the knobs, so that the changes can be undone after a crash.
    applied.keep([*planned.withdrawn, *later])
    try:
        return changes.write(files, planned.writes, tell, tell_back, lambda: applied.keep(later))
    except (TerraceError, KeyboardInterrupt):
        applied.keep(known)
        raise


def undo(files: KernelFiles, applied: Applied, tell: Callable[[Change], None]) -> list[Change]:
    """Restore the value that every existing knob had before the first `carry_out`.

    The next call tries knobs that cannot be written again. Raises TerraceError for them, after all
    others.
    """
    done: list[Change] = []

    def note(one: Change) -> None:
        done.append(one)
        tell(one)

    failed = changes.put_back(files, [(entry.knob, entry.before) for entry in applied.entries], note)
    applied.keep([entry for entry in applied.entries if entry.knob.path in failed])
    if failed:
        raise TerraceError("\n".join(map(str, failed.values())))
    return done

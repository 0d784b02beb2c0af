# SPDX-License-Identifier: GPL-2.0
"""Write several knobs as one change: if one is rejected, the earlier ones are restored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from terrace.errors import TerraceError
from terrace.ops import knobs
from terrace.ops.knob_table import Knob
from terrace.sysfs import KernelFiles

#: A knob and its old value.
Before = tuple[Knob, str | None]


@dataclass(frozen=True)
class Change:
    """One write: the old value and the value in force; None if it cannot be read."""

    knob: Knob
    before: str | None
    after: str | None

    def as_json(self) -> dict[str, object]:
        """Get the fields of the document (docs/reference/schema/set.schema.json)."""
        knob = self.knob
        return {
            "knob": knob.name,
            "path": "/" + knob.path,
            "unit": knob.unit,
            "before": self.before,
            "after": self.after,
        }


def touched(files: KernelFiles, wanted: Sequence[Knob]) -> list[Before]:
    """Get every knob that writes to ``wanted`` may change, with its present value, in the order of the restore."""
    found: dict[str, Before] = {}
    for knob in reversed(wanted):
        for other in knobs.affected(files, knob):
            found.setdefault(other.path, (other, knobs.current(files, other)))
    return list(found.values())


def write(
    files: KernelFiles,
    wanted: Sequence[tuple[Knob, str]],
    tell: Callable[[Change], None],
    tell_back: Callable[[Change], None],
    finish: Callable[[], None] = lambda: None,
) -> list[Change]:
    """Write all, in this order, then call ``finish``.

    If a write is rejected, or ``finish`` fails, the written knobs are restored, each reported to
    ``tell_back``, and the error is raised: see `knobs.apply`.
    """
    done: list[Before] = []
    changes: list[Change] = []
    try:
        for knob, value in wanted:
            before = knobs.current(files, knob)
            # Before the write: it is undone even if the kernel has accepted another value than the
            # requested one.
            done = [*touched(files, [knob]), *done]
            changes.append(Change(knob, before, knobs.apply(files, knob, value)))
            tell(changes[-1])
        finish()
    except (TerraceError, KeyboardInterrupt) as error:
        if failed := put_back(files, done, tell_back):
            stays = "\n".join(f"not put back: {other}" for other in failed.values())
            raise TerraceError(f"{error or 'interrupted'}\n{stays}") from error
        raise
    return changes


def put_back(files: KernelFiles, done: Sequence[Before], tell: Callable[[Change], None]) -> dict[str, TerraceError]:
    """Restore knobs, in this order: the last one written comes first.

    Knobs that no longer exist, for instance with their cgroup, and knobs with the old value are
    skipped. Returns errors of the kernel by path of the knob; all other knobs are restored.
    """
    failed: dict[str, TerraceError] = {}
    for knob, before in done:
        now = knobs.current(files, knob)
        if files.dry_run or before is None or not files.exists(knob.path) or knobs.same(now, before):
            continue
        try:
            tell(Change(knob, now, knobs.apply(files, knob, before)))
        except TerraceError as error:
            failed[knob.path] = error
    return failed

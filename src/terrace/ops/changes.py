# SPDX-License-Identifier: GPL-2.0
"""Several knobs written as one: when one is refused, those before it get their values back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from terrace.errors import TerraceError
from terrace.ops import knobs
from terrace.ops.knob_table import Knob
from terrace.sysfs import KernelFiles

#: A knob and the value it had.
Before = tuple[Knob, str | None]


@dataclass(frozen=True)
class Change:
    """One write: the value before and the one in force; None where it cannot be read."""

    knob: Knob
    before: str | None
    after: str | None

    def as_json(self) -> dict[str, object]:
        """As documents have it (docs/reference/schema/set.schema.json)."""
        knob = self.knob
        return {
            "knob": knob.name,
            "path": "/" + knob.path,
            "unit": knob.unit,
            "before": self.before,
            "after": self.after,
        }


def touched(files: KernelFiles, wanted: Sequence[Knob]) -> list[Before]:
    """Every knob that writes to ``wanted`` may change, with its value now, in the order in which they are put back."""
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

    When one is refused, or ``finish`` fails, what was written is put back, each told to ``tell_back``, and the error
    goes on: see `knobs.apply`.
    """
    done: list[Before] = []
    changes: list[Change] = []
    try:
        for knob, value in wanted:
            before = knobs.current(files, knob)
            # Before the write: what it did is undone even if the kernel takes another value than the one asked for.
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
    """Give knobs the values they had, in this order: the last one written comes first.

    Those that are not there any more, as with their cgroup, and those that have that value are passed over. Returns
    what the kernel refused, by the path of the knob: the others have their values all the same.
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

# SPDX-License-Identifier: GPL-2.0
"""What the instruction counter (the QEMU plugin insn_count) found."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terrace.errors import BuildError

_REGION_BEGIN = 1
_REGION_END = 2
APP = "app"


@dataclass(frozen=True)
class Counts:
    """Instructions of one kind of task."""

    user: int = 0
    kernel: int = 0

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(self.user - other.user, self.kernel - other.kernel)


def read_counts(path: Path) -> dict[str, Counts]:
    """Instructions of each kind of task between the program's two region markers.

    Raises BuildError when the plugin wrote no such region: the guest did not run the program to its end.
    """
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BuildError(f"the instruction counter left no report ({error})") from error
    begin = _note(report, _REGION_BEGIN)
    end = _note(report, _REGION_END)
    if begin is None or end is None:
        raise BuildError("the instruction counter saw no measured region: did the program end early?")
    return {name: counts - begin.get(name, Counts()) for name, counts in end.items()}


def _note(report: Mapping[str, Any], region: int) -> dict[str, Counts] | None:
    for note in report["notes"]:
        if note["region"] == region:
            return {name: Counts(c["user"], c["kernel"]) for name, c in note["kinds"].items()}
    return None

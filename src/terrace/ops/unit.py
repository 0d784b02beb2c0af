# SPDX-License-Identifier: GPL-2.0
"""The systemd unit that applies the file of settings at boot."""

from __future__ import annotations

from pathlib import Path

from terrace.errors import UsageError
from terrace.ops.knob_table import KNOBS
from terrace.ops.settings import DEFAULT
from terrace.sysfs import MTIER

NAME = "terrace.service"


def text(program: Path, documents: str) -> str:
    """Create the unit, for the tool at ``program``; ``documents`` are addresses of documentation.

    A kernel without any knob of the overlay skips the unit. If a knob of the file is missing, the
    unit fails with an error. Raises UsageError for a path that systemd does not accept.
    """
    ours = {knob.option: knob.path for knob in reversed(KNOBS) if knob.option} | {"CONFIG_MTIER": MTIER}
    conditions = "".join(f"ConditionPathExists=|/{path}\n" for path in sorted(ours.values()))
    # systemd expands % in the path of a program, and no variables.
    escaped = str(program).replace("%", "%%")
    if not escaped.isprintable() or any(char in escaped for char in "\"'\\"):
        raise UsageError(
            f"systemd starts no program with a quote, a backslash or a line end in its path: {str(program)!r}"
        )
    return f"""\
[Unit]
Description=Settings of tiered memory
Documentation={documents.replace("%", "%%")}
ConditionPathExists=/{DEFAULT}
# One of these is enough: a kernel that has none of them is not ours, and skips the unit.
{conditions}After=systemd-modules-load.service systemd-sysctl.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart="{escaped}" apply
ExecReload="{escaped}" apply
ExecStop="{escaped}" apply --undo

[Install]
WantedBy=multi-user.target
"""

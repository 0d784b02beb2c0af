# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: write valid and invalid values to every knob's file, and print differences
from the documentation.
"""

import errno
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from terrace.ops.counters import WHY
from terrace.ops.knob_table import KNOBS, Knob
from terrace.ops.snapshot import PLACE, PLACE_NUMBERS
from terrace.sysfs import MTIER, KernelFileError, KernelFiles

JUNK = ("", "x", "1 2", "0x", "-1", "1.5", "1e3", "99999999999999999999", "4294967296")


def answer(files: KernelFiles, knob: Knob, value: str) -> str:
    """Get the kernel's result of a write: '' or the name of its error."""
    try:
        files.write(knob.path, value)
    except KernelFileError as error:
        return errno.errorcode[error.errno]
    return ""


def refused(files: KernelFiles, knob: Knob, value: str, expected: tuple[str, ...]) -> list[str]:
    """Get findings if a value is not rejected as documented, or changes something in spite of it."""
    before = files.get(knob.path)
    got = answer(files, knob, value)
    after = files.get(knob.path)
    found = [] if got in expected else [f"{knob.name}: '{value}' is answered with '{got}', not {expected}"]
    if after != before:
        found.append(f"{knob.name}: '{value}' changed it from {before} to {after}")
        answer(files, knob, str(before))
    return found


def taken(files: KernelFiles, knob: Knob, value: str) -> list[str]:
    """Get findings if a value is not accepted, or is not the one that is read back."""
    got, after = answer(files, knob, value), files.get(knob.path)
    answer(files, knob, knob.default)
    return [] if not got and after == value else [f"{knob.name}: '{value}' is answered with '{got}', reads {after}"]


def try_knob(files: KernelFiles, knob: Knob) -> list[str]:
    """Get all differences from the knob's entry in the table."""
    found = []
    if files.get(knob.path) != knob.default:
        found.append(f"{knob.name}: default {files.get(knob.path)}, documented {knob.default}")
    for junk in JUNK:
        found += refused(files, knob, junk, ("EINVAL", "ERANGE"))
    if knob.low is not None and knob.high is not None:
        below = ("ERANGE",) if knob.low > 0 else ("EINVAL",)
        found += refused(files, knob, str(knob.low - 1), below)
        found += refused(files, knob, str(knob.high + 1), ("ERANGE",))
        if not knob.condition:
            found += taken(files, knob, str(knob.low))
            found += taken(files, knob, str(knob.high))
    for word in knob.words:
        found += taken(files, knob, word)
    return found


def undocumented(files: KernelFiles) -> list[str]:
    """Get files of promotion that the tool does not list, and missing ones of a slow node or of place/."""
    known = {knob.path for knob in KNOBS} | {f"{MTIER}/state", f"{MTIER}/mms"}
    names = [f"{MTIER}/{name}" for name in files.names(MTIER) if "." not in name]
    for group in ("scan", "promote", "place"):
        names.remove(f"{MTIER}/{group}")
        names += [f"{MTIER}/{group}/{name}" for name in files.names(f"{MTIER}/{group}")]
    read = {f"{PLACE}/{name}" for name in ("why", *PLACE_NUMBERS)}
    found = [f"{name}: not there" for name in sorted(read - set(names))]
    return found + [f"{name}: not of the tool" for name in names if name not in known | read and "/node" not in name]


def odd_values(files: KernelFiles) -> list[str]:
    """Get files of place/ and of slow nodes with other contents than the tool reads, with promotion on."""
    numbers = [f"{PLACE}/{name}" for name in PLACE_NUMBERS]
    nodes = [name for name in files.names(MTIER) if name.startswith("node")]
    for node in nodes:
        names = files.names(f"{MTIER}/{node}")
        if names != ["demoted", "dropped", "promoted", "target"]:
            return [f"{node} has {names}"]
        numbers += [f"{MTIER}/{node}/{name}" for name in names if name != "target"]
    found = [f"{name}: no number" for name in numbers if files.get_int(name) is None]
    why = files.get(f"{PLACE}/why")
    if why not in ("none", *WHY):
        found.append(f"{PLACE}/why: '{why}'")
    return found if nodes else [*found, f"no node below {MTIER}"]


def main() -> None:
    """Print the findings as a JSON list."""
    files = KernelFiles("/")
    found = undocumented(files)
    for knob in KNOBS:
        if knob.path.startswith(MTIER):
            found += try_knob(files, knob)
    files.write(f"{MTIER}/enabled", "1")
    found += odd_values(files)
    files.write(f"{MTIER}/enabled", "0")
    counters = [line.split()[0] for line in files.read("proc/vmstat").splitlines() if line.startswith("mtier_")]
    print(json.dumps({"findings": found, "counters": counters}))


main()

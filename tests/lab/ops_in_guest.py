# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: tries every knob's file with good and bad values, and prints what was not as documented."""

import errno
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from terrace.ops.knobs import KNOBS, Knob, find
from terrace.sysfs import MTIER, KernelFileError, KernelFiles

JUNK = ("", "x", "1 2", "0x", "-1", "1.5", "1e3", "99999999999999999999", "4294967296")


def answer(files: KernelFiles, knob: Knob, value: str) -> str:
    """What the kernel says to a write: '' or the name of its error."""
    try:
        files.write(knob.path, value)
    except KernelFileError as error:
        return errno.errorcode[error.errno]
    return ""


def refused(files: KernelFiles, knob: Knob, value: str, expected: tuple[str, ...]) -> list[str]:
    """Findings when a value is not refused as it should be, or changes something all the same."""
    before = files.get(knob.path)
    got = answer(files, knob, value)
    after = files.get(knob.path)
    found = [] if got in expected else [f"{knob.name}: '{value}' is answered with '{got}', not {expected}"]
    if after != before:
        found.append(f"{knob.name}: '{value}' changed it from {before} to {after}")
        answer(files, knob, str(before))
    return found


def taken(files: KernelFiles, knob: Knob, value: str) -> list[str]:
    """Findings when a value is not taken, or is not what is read back."""
    place = knob.chain.index(knob.name) if knob.chain else 0
    below, above = ([find(name) for name in names] for names in (knob.chain[:place], knob.chain[place + 1 :]))
    # Three of a kind are ordered: the others make way, the outer ones first, and come back last.
    for other in reversed(above):
        answer(files, other, str(other.high))
    for other in below:
        answer(files, other, str(other.low))
    got, after = answer(files, knob, value), files.get(knob.path)
    for other in (knob, *above, *reversed(below)):
        answer(files, other, other.default)
    return [] if not got and after == value else [f"{knob.name}: '{value}' is answered with '{got}', reads {after}"]


def try_knob(files: KernelFiles, knob: Knob) -> list[str]:
    """Everything that is not as the knob's entry in the table says."""
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
    """Files of the engine that no knob stands for."""
    known = {knob.path for knob in KNOBS} | {
        f"{MTIER}/{name}" for name in ("state", "mms", "records_bytes", "hot/window_now_ms")
    }
    names = [f"{MTIER}/{name}" for name in files.names(MTIER) if "." not in name]
    for group in ("scan", "hot", "promote"):
        names.remove(f"{MTIER}/{group}")
        names += [f"{MTIER}/{group}/{name}" for name in files.names(f"{MTIER}/{group}")]
    return [f"{name}: no knob of the tool" for name in names if name not in known and "/node" not in name]


def main() -> None:
    """Print the findings as a JSON list."""
    files = KernelFiles("/")
    found = undocumented(files)
    for knob in KNOBS:
        if knob.path.startswith(MTIER):
            found += try_knob(files, knob)
    counters = [line.split()[0] for line in files.read("proc/vmstat").splitlines() if line.startswith("mtier_")]
    print(json.dumps({"findings": found, "counters": counters}))


main()

# SPDX-License-Identifier: GPL-2.0
"""Find knobs by name, read and write their values."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from fractions import Fraction

from terrace.errors import MissingError, TerraceError, UsageError
from terrace.ops.knob_table import CGROUP_KNOBS, CGROUPS, KNOBS, WEIGHTS, Knob, in_cgroup, node_weight
from terrace.sysfs import MTIER, KernelFileError, KernelFiles, parse_table
from terrace.units import clipped, parse_size, parse_time_ns
from terrace.words import did_you_mean

_SUFFIX = re.compile(r"_(ms|s|mbps|percent|bp|ticks)$")
_TIME_NS = {"ms": 1_000_000, "s": 1_000_000_000}
_OF_A_PERCENT = {"%": 1, "bp": 100}
#: Counters of a kernel with files of cgroups, by the option that adds them.
_COUNTED = {"CONFIG_NUMA_FOLLOW": "numa_follow_tasks", "CONFIG_NUMA_SCAN_CPUSET": "numa_scan_opted_out"}
_WEIGHT = re.compile(r"(?:weights|weighted_interleave)\.node(\d{1,4})", re.ASCII)


def find(name: str) -> Knob:
    """Find the knob called ``name``: its full name, with ``/`` for ``.``, without its unit, or the
    part after the dot if it is unique.

    Raises UsageError with the most similar names if there is none.
    """
    wanted = name.strip().removeprefix("/" + MTIER).strip("/").replace("/", ".")
    if (bare := wanted.removeprefix("engine.")) != wanted:
        return _find(
            name, bare, [knob for knob in KNOBS if knob.option == "CONFIG_MTIER"], "`terrace set --list` shows all"
        )
    if weight := _WEIGHT.fullmatch(wanted):
        return node_weight(int(weight[1]))
    of_machine = any(wanted in (knob.name, *knob.aliases) for knob in KNOBS)
    if not of_machine and any(wanted in (knob.name, *knob.aliases, *_short_names(knob)) for knob in CGROUP_KNOBS):
        raise UsageError(f"'{name}' is set for each cgroup: say which with --cgroup (--cgroup system.slice {name} …)")
    return _find(name, wanted, KNOBS, "`terrace set --list` shows all")


def find_in_cgroup(name: str, cgroup: str) -> Knob:
    """Find the knob of a cgroup called ``name``, as in `find`; ``cgroup`` is from `cgroup_path`."""
    known = [in_cgroup(knob, cgroup) for knob in CGROUP_KNOBS]
    return _find(name, name.strip(), known, f"a cgroup has {', '.join(knob.name for knob in known)}")


def _find(name: str, wanted: str, among: Sequence[Knob], where: str) -> Knob:
    for knob in among:
        if wanted in (knob.name, *knob.aliases):
            return knob
    short = [knob for knob in among if wanted in _short_names(knob)]
    if len(short) == 1:
        return short[0]
    if short:
        raise UsageError(f"'{name}' could be {' or '.join(knob.name for knob in short)}; write one of them")
    known = {alias: knob.name for knob in among for alias in (knob.name, *_short_names(knob), *knob.aliases)}
    hint = did_you_mean(wanted, known, known)
    raise UsageError(f"there is no knob '{name}'; {hint}{where}")


def cgroup_path(files: KernelFiles, text: str) -> str:
    """Get the cgroup ``text`` as a path below /sys/fs/cgroup; ``text`` is absolute or relative to
    it.

    Raises UsageError if there is none, or it is the root, which has no knobs; MissingError without
    cgroup v2.
    """
    if not files.exists(f"{CGROUPS}/cgroup.controllers"):
        raise MissingError(f"--cgroup {text}: there are no cgroups of version 2 at /{CGROUPS}")
    try:
        path = below_cgroups(text)
    except UsageError as error:
        raise UsageError(f"--cgroup {text}: {error}") from None
    if not files.exists(f"{CGROUPS}/{path}/cgroup.procs"):
        raise UsageError(f"--cgroup {text}: there is no cgroup /{CGROUPS}/{path}")
    return path


def below_cgroups(text: str) -> str:
    """Get the path of a cgroup below /sys/fs/cgroup, existing or not, from an absolute or relative
    one. Raises UsageError.
    """
    path = text.strip().removeprefix(f"/{CGROUPS}").strip("/")
    if not path:
        raise UsageError("the root cgroup has no knobs; name one below it, such as system.slice")
    if not {"", ".", ".."}.isdisjoint(path.split("/")) or "\0" in path:
        raise UsageError(f"there is no cgroup /{CGROUPS}/{path}")
    return path


def present(files: KernelFiles) -> list[Knob]:
    """Get all knobs of the machine, with the weights of the existing nodes."""
    numbers = sorted(int(name[4:]) for name in files.names(WEIGHTS) if re.fullmatch(r"node\d+", name, re.ASCII))
    behind = next(place for place, knob in enumerate(KNOBS, 1) if knob.name == "weights.auto")
    return [*KNOBS[:behind], *map(node_weight, numbers), *KNOBS[behind:]]


def affected(files: KernelFiles, knob: Knob) -> list[Knob]:
    """Get the knobs that a write to this one may change, in the order that restores all of them."""
    if not knob.path.startswith(WEIGHTS):
        return [knob]
    # Any weight switches auto off, and auto sets all weights.
    weights = [other for other in present(files) if other.path.startswith(WEIGHTS)]
    return sorted(weights, key=lambda other: other.name == "weights.auto")


def _short_names(knob: Knob) -> set[str]:
    bare = _SUFFIX.sub("", knob.name)
    names = {bare}
    if knob.path.startswith(MTIER):
        names |= {bare.rpartition(".")[2], knob.name.rpartition(".")[2]}
    return names


def parse_value(knob: Knob, text: str) -> str:
    """Convert ``text`` to the value to write into the knob's file.

    Numbers are in the knob's unit; other units are converted: ``5ms``, ``1.5G/s``, ``20%``, ``2G``.
    ``default`` stands for the default. Raises UsageError if ``text`` is no value of this knob; the
    kernel checks ranges.
    """
    word = text.strip()
    if word == "default":
        word = knob.default
        if " or " in word:
            raise UsageError(f"the default of {knob.name} is chosen when the kernel is built ({word}): give a number")
    if word in ("on", "off") and "true" in knob.words:
        word = "true" if word == "on" else "false"
    if word in knob.words:
        return word
    if knob.low is None or len(word) > 32 or not word.isascii():
        raise _bad(knob, text)
    if knob.high == 1 and word in ("on", "off", "true", "false", "yes", "no"):
        return "1" if word in ("on", "true", "yes") else "0"
    if re.fullmatch(r"-?\d+", word):
        return str(int(word))
    amount = _amount(knob, word)
    if amount.denominator != 1:
        raise UsageError(f"{knob.name} takes a whole number of {knob.unit}; '{text}' is {float(amount):g}")
    return str(amount.numerator)


def _amount(knob: Knob, word: str) -> Fraction:
    """Convert ``word``, which has a unit, to the knob's unit. Raises UsageError."""
    try:
        if knob.unit in _TIME_NS:
            return Fraction(parse_time_ns(word), _TIME_NS[knob.unit])
        if knob.unit == "MiB/s":
            return Fraction(parse_size(word.removesuffix("/s")), 1 << 20)
    except UsageError:
        raise _bad(knob, word) from None
    percent = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", word, re.ASCII)
    if knob.unit in _OF_A_PERCENT and percent:
        return Fraction(percent[1]) * _OF_A_PERCENT[knob.unit]
    raise _bad(knob, word)


def _bad(knob: Knob, text: str) -> UsageError:
    return UsageError(f"{knob.name} cannot be '{clipped(text)}'; allowed: {knob.allowed} (/{knob.path})")


def current(files: KernelFiles, knob: Knob) -> str | None:
    """Get the value in force, or None if the file is missing or unreadable."""
    return files.get(knob.path)


def same(left: str | None, right: str) -> bool:
    """Whether two texts are the same value (``true`` is ``1``)."""
    truth = {"true": "1", "false": "0"}
    return left is not None and truth.get(left, left) == truth.get(right, right)


def apply(files: KernelFiles, knob: Knob, value: str) -> str | None:
    """Write ``value`` and return the value in force afterwards (None: cannot be read back).

    Raises MissingError if the kernel has no such knob or the CPUs do not support it, UsageError if
    the kernel rejects the value, TerraceError for anything else, and if the value in force is
    another one.
    """
    if not files.exists(knob.path):
        raise MissingError(absent(files, knob))
    if files.dry_run or not knob.path.startswith(MTIER):
        check_range(knob, value)
    try:
        files.write(knob.path, value)
    except KernelFileError as error:
        raise explain(files, knob, value, error.errno) from error
    if files.dry_run:
        return value
    after = current(files, knob)
    if after is not None and not same(after, value):
        raise TerraceError(f"{knob.name}: the kernel has '{after}' after '{value}' was written to /{knob.path}")
    return after


def with_unit(knob: Knob, value: str) -> str:
    """Format a value with its unit."""
    return f"{value} {knob.unit}" if knob.unit and value.isdecimal() else value


def check_range(knob: Knob, value: str) -> None:
    """Raise UsageError if ``value`` is outside of the documented range.

    For a dry run, and for knobs of the stock kernel, some of which silently accept invalid values.
    """
    if knob.low is None or knob.high is None or value in knob.words:
        return
    if not knob.low <= int(value) <= knob.high:
        raise _bad(knob, value)


def absent(files: KernelFiles, knob: Knob) -> str:
    """Explain why a knob's file is missing, with the fix."""
    if knob.path.startswith(MTIER) and not files.exists(MTIER):
        return f"this kernel has no /{knob.path}: it has no promotion engine. `terrace doctor` says what is needed"
    if knob.path.startswith(CGROUPS) and _COUNTED[knob.option] in parse_table(files.get("proc/vmstat")):
        folder, _, file = knob.path.rpartition("/")
        above = folder.rpartition("/")[0]
        return (
            f"/{folder} has no {file}: it has no cpuset controller. Where systemd runs give its unit "
            f"AllowedMemoryNodes=, elsewhere: echo +cpuset > /{above}/cgroup.subtree_control"
        )
    if knob.path.startswith(WEIGHTS) and files.exists(WEIGHTS) and knob.name != "weights.auto":
        return f"there is no /{knob.path}: no node of that number has memory"
    built = f": it was built without {knob.option}" if knob.option else ""
    so = f"so that {knob.name} cannot be set; `terrace features` shows what it has"
    return f"this kernel has no /{knob.path}{built}, {so}"


def _words(knob: Knob) -> str:
    """Get the arguments of `terrace set` for it."""
    if not knob.path.startswith(CGROUPS):
        return knob.name
    return f"--cgroup {knob.path.removeprefix(CGROUPS).rpartition('/')[0].strip('/')} {knob.name}"


def explain(files: KernelFiles, knob: Knob, value: str, number: int) -> TerraceError:
    """Convert the kernel's error of a write into an error with a fix."""
    what = f"'{value}' to /{knob.path}"
    if number in (errno.EINVAL, errno.ERANGE):
        kept = current(files, knob) or "what it was"
        return UsageError(
            f"the kernel refuses {what} ({errno.errorcode[number]}); allowed: {knob.allowed}. It stays at {kept}"
        )
    if number in (errno.EACCES, errno.EPERM):
        return TerraceError(f"may not write {what}: run as root (sudo terrace set {_words(knob)} {value})")
    if number == errno.ENOMEM:
        return TerraceError(f"cannot write {what}: the kernel has not enough memory for it; it stays as it was")
    if number == errno.EOPNOTSUPP:
        return MissingError(
            f"cannot write {what}: the CPUs of this machine do not set Accessed bits by themselves, which is all that "
            "the engine looks at"
        )
    if number == errno.EROFS:
        return TerraceError(f"cannot write {what}: the file system is read-only (a container?); run it on the host")
    return TerraceError(f"cannot write {what}: {errno.errorcode.get(number, number)}")

# SPDX-License-Identifier: GPL-2.0
"""The knobs: name, file, unit, default, range, and how to read and write their values.

This table is the source of `terrace set --list` and is checked against docs/reference/knobs.md.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from fractions import Fraction

from terrace.errors import MissingError, TerraceError, UsageError
from terrace.sysfs import MTIER, KernelFileError, KernelFiles
from terrace.units import parse_size, parse_time_ns
from terrace.words import did_you_mean


@dataclass(frozen=True)
class Knob:
    """One knob. ``low`` and ``high`` bound a number in ``unit``; ``words`` are further values."""

    name: str
    path: str
    unit: str
    default: str
    summary: str
    low: int | None = None
    high: int | None = None
    words: tuple[str, ...] = ()
    #: What else a number has to be.
    condition: str = ""
    #: Other names people know it by.
    aliases: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """What may be written, for people: ``0-3600000 ms``, ``whole, split``."""
        parts = list(self.words)
        if self.low is not None:
            unit = f" {self.unit}" if self.unit else ""
            parts.append(f"{self.low}-{self.high}{unit}{self.condition and f' ({self.condition})'}")
        return ", ".join(parts)


def _mtier(name: str, unit: str, default: object, low: int, high: int, summary: str) -> Knob:
    return Knob(name, f"{MTIER}/{name.replace('.', '/')}", unit, str(default), summary, low, high)


KNOBS: tuple[Knob, ...] = (
    _mtier("enabled", "", 0, 0, 1, "the engine: look at pages, and move them"),
    _mtier("charge", "", 0, 0, 1, "charge the CPU time of looks and moves to the processes whose pages they are"),
    _mtier("scan.delay_ms", "ms", 100, 0, 3_600_000, "how long a new address space is left alone"),
    _mtier("scan.cpu_percent", "%", 25, 1, 100, "most CPU time that looks may take, of one CPU"),
    _mtier("promote.rate_mbps", "MiB/s", 1024, 1, 1 << 20, "most promotion into each target node"),
    Knob(
        "promote.target_node",
        f"{MTIER}/promote/target_node",
        "node",
        "auto",
        "where pages go: by who uses them, or always one node of the top tier",
        0,
        1023,
        words=("auto",),
        condition="online, top tier",
    ),
    Knob(
        "promote.thp",
        f"{MTIER}/promote/thp",
        "",
        "whole",
        "a huge page when the target has no free huge page: wait, or split it",
        words=("whole", "split"),
    ),
    _mtier("promote.move_fast", "", 1, 0, 1, "private anonymous pages move by address space, not one by one"),
    Knob(
        "numa_balancing",
        "proc/sys/kernel/numa_balancing",
        "",
        "0 or 1",
        "stock NUMA balancing: 1 between sockets, 2 promotion by hint faults, 3 both",
        0,
        3,
        aliases=("kernel.numa_balancing",),
    ),
    Knob(
        "numa_balancing.scan_mode",
        "proc/sys/kernel/numa_balancing_scan_mode",
        "",
        "sync",
        "stock NUMA balancing scans in the task at once, in the task in slices, or beside it",
        words=("sync", "async", "sliced"),
        aliases=("kernel.numa_balancing_scan_mode",),
    ),
    Knob(
        "numa_balancing.scan_windows",
        "proc/sys/kernel/numa_balancing_scan_windows",
        "",
        "0",
        "stock NUMA balancing scans only where memory was used lately",
        0,
        1,
        aliases=("kernel.numa_balancing_scan_windows",),
    ),
    Knob(
        "numa_balancing.rate_mbps",
        "proc/sys/kernel/numa_balancing_promote_rate_limit_MBps",
        "MiB/s",
        "65536",
        "most promotion by stock NUMA balancing into each node",
        0,
        2_147_483_647,
        aliases=("kernel.numa_balancing_promote_rate_limit_MBps", "numa_balancing_promote_rate_limit_MBps"),
    ),
    Knob(
        "demotion_enabled",
        "sys/kernel/mm/numa/demotion_enabled",
        "",
        "false",
        "reclaim moves cold pages to a slower node instead of dropping or swapping them",
        words=("true", "false", "1", "0"),
        aliases=("demotion", "numa.demotion_enabled"),
    ),
)

_SUFFIX = re.compile(r"_(ms|mbps|percent)$")


def find(name: str) -> Knob:
    """The knob called ``name``: its full name, with ``/`` for ``.``, without its unit, or the
    part after the dot where no other knob has the same.

    Raises UsageError with the nearest names when there is none.
    """
    wanted = name.strip().removeprefix("/" + MTIER).strip("/").replace("/", ".")
    for knob in KNOBS:
        if wanted in (knob.name, *knob.aliases):
            return knob
    short = [knob for knob in KNOBS if wanted in _short_names(knob)]
    if len(short) == 1:
        return short[0]
    if short:
        raise UsageError(f"'{name}' could be {' or '.join(knob.name for knob in short)}; write one of them")
    known = {alias: knob.name for knob in KNOBS for alias in (knob.name, *_short_names(knob), *knob.aliases)}
    hint = did_you_mean(wanted, known, known)
    raise UsageError(f"there is no knob '{name}'; {hint}`terrace set --list` shows all")


def _short_names(knob: Knob) -> set[str]:
    bare = _SUFFIX.sub("", knob.name)
    names = {bare}
    if knob.path.startswith(MTIER):
        names |= {bare.rpartition(".")[2], knob.name.rpartition(".")[2]}
    return names


def parse_value(knob: Knob, text: str) -> str:
    """What to write into the knob's file for ``text`` as a person gives it.

    Numbers are in the knob's unit; a unit may be given and is converted: ``5ms``, ``1.5G/s``,
    ``20%``, ``2G``. ``default`` stands for the default. Raises UsageError when ``text`` cannot
    be read as a value of this knob; ranges are for the kernel to judge.
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
    amount = _with_unit(knob, word)
    if amount.denominator != 1:
        raise UsageError(f"{knob.name} takes a whole number of {knob.unit}; '{text}' is {float(amount):g}")
    return str(amount.numerator)


def _with_unit(knob: Knob, word: str) -> Fraction:
    """``word``, which carries a unit, in the knob's unit. Raises UsageError."""
    try:
        if knob.unit == "ms":
            return Fraction(parse_time_ns(word), 1_000_000)
        if knob.unit == "MiB/s":
            return Fraction(parse_size(word.removesuffix("/s")), 1 << 20)
    except UsageError:
        raise _bad(knob, word) from None
    number = word.removesuffix("%").strip()
    if knob.unit == "%" and number.isdecimal():
        return Fraction(int(number))
    raise _bad(knob, word)


def _bad(knob: Knob, text: str) -> UsageError:
    return UsageError(f"{knob.name} cannot be '{text}'; allowed: {knob.allowed} (/{knob.path})")


def current(files: KernelFiles, knob: Knob) -> str | None:
    """The value in force, or None when the file is missing or unreadable."""
    return files.get(knob.path)


def same(left: str | None, right: str) -> bool:
    """Whether two texts are one value (``true`` is ``1``)."""
    truth = {"true": "1", "false": "0"}
    return left is not None and truth.get(left, left) == truth.get(right, right)


def apply(files: KernelFiles, knob: Knob, value: str) -> str | None:
    """Write ``value`` and return what is in force afterwards (None: cannot be read back).

    Raises MissingError when the kernel has no such knob or the CPUs cannot do it, UsageError when it refuses the value,
    TerraceError for anything else, and when what it took is not what was asked.
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


def check_range(knob: Knob, value: str) -> None:
    """Raise UsageError when ``value`` is outside what the knob is documented to take.

    For a dry run, and for knobs of the stock kernel, some of which take nonsense in silence.
    """
    if knob.low is None or knob.high is None or value in knob.words:
        return
    if not knob.low <= int(value) <= knob.high:
        raise _bad(knob, value)


def absent(files: KernelFiles, knob: Knob) -> str:
    """Why a knob's file is not there, and what to do."""
    if knob.path.startswith(MTIER) and not files.exists(MTIER):
        return f"this kernel has no /{knob.path}: it has no promotion engine. `terrace doctor` says what is needed"
    return f"this kernel has no /{knob.path}, so that {knob.name} cannot be set; `terrace features` shows what it has"


def explain(files: KernelFiles, knob: Knob, value: str, number: int) -> TerraceError:
    """The kernel's answer to a write, as an error a person can act on."""
    what = f"'{value}' to /{knob.path}"
    if number in (errno.EINVAL, errno.ERANGE):
        kept = current(files, knob) or "what it was"
        return UsageError(
            f"the kernel refuses {what} ({errno.errorcode[number]}); allowed: {knob.allowed}. It stays at {kept}"
        )
    if number in (errno.EACCES, errno.EPERM):
        return TerraceError(f"may not write {what}: run as root (sudo terrace set {knob.name} {value})")
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

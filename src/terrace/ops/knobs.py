# SPDX-License-Identifier: GPL-2.0
"""The knobs: name, file, unit, default, range, and how to read and write their values.

This table is the source of `terrace set --list` and is checked against docs/reference/knobs.md.
"""

from __future__ import annotations

import difflib
import errno
import re
from dataclasses import dataclass
from fractions import Fraction

from terrace.errors import MissingError, TerraceError, UsageError
from terrace.sysfs import MTIER, KernelFileError, KernelFiles
from terrace.units import parse_size, parse_time_ns


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
    #: Knobs of one ascending chain, in order: min <= start <= max.
    chain: tuple[str, ...] = ()
    #: Other names people know it by.
    aliases: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """What may be written, for people: ``10-3600000 ms``, ``whole, split``."""
        parts = list(self.words)
        if self.low is not None:
            unit = f" {self.unit}" if self.unit else ""
            parts.append(f"{self.low}-{self.high}{unit}{self.condition and f' ({self.condition})'}")
        return ", ".join(parts)


def _mtier(
    name: str, unit: str, default: object, low: int, high: int, summary: str, chain: tuple[str, ...] = ()
) -> Knob:
    return Knob(name, f"{MTIER}/{name.replace('.', '/')}", unit, str(default), summary, low, high, chain=chain)


_PERIOD = ("scan.period_min_ms", "scan.period_start_ms", "scan.period_max_ms")
_SIZE = ("scan.size_min_mb", "scan.size_start_mb", "scan.size_max_mb")
_HOUR_MS = 3_600_000
_TIB_MB = 1 << 20

KNOBS: tuple[Knob, ...] = (
    Knob("enabled", f"{MTIER}/enabled", "", "0", "the engine: scan, record and promote", 0, 1),
    _mtier("charge", "", 0, 0, 1, "charge the CPU time of scanner and migrators to the processes they work for"),
    _mtier("scan.delay_ms", "ms", 1000, 0, _HOUR_MS, "how long a new process is left alone"),
    _mtier("scan.period_min_ms", "ms", 400, 10, _HOUR_MS, "shortest time between two scans of a process", _PERIOD),
    _mtier("scan.period_start_ms", "ms", 2000, 10, _HOUR_MS, "that time for a new process", _PERIOD),
    _mtier("scan.period_max_ms", "ms", 5000, 10, _HOUR_MS, "longest time between two scans of a process", _PERIOD),
    _mtier("scan.size_min_mb", "MiB", 256, 1, _TIB_MB, "least mapped memory looked at in one scan", _SIZE),
    _mtier("scan.size_start_mb", "MiB", 1024, 1, _TIB_MB, "that amount for a new process", _SIZE),
    _mtier("scan.size_max_mb", "MiB", 4096, 1, _TIB_MB, "most mapped memory looked at in one scan", _SIZE),
    _mtier("scan.cpu_percent", "%", 20, 1, 100, "most CPU time of the scanner, of one CPU"),
    _mtier("scan.slice_us", "us", 1000, 50, 100_000, "longest hold of a process's mmap_lock"),
    _mtier("scan.flush_tlb", "", 1, 0, 1, "flush the TLB in scans that cleared Accessed bits"),
    _mtier("hot.window_ms", "ms", 10_000, 100, 600_000, "time in which accesses count together"),
    _mtier("hot.accesses", "", 2, 1, 15, "accesses in the window that make a page hot when DRAM is contended"),
    _mtier("hot.room_percent", "%", 6, 0, 100, "free share of a node that is ample: the first access is enough then"),
    _mtier("hot.cold_looks", "", 3, 0, 15, "looks without an access in a row: a page of a full node gives way; 0: no"),
    _mtier("promote.rate_mbps", "MiB/s", 1024, 1, _TIB_MB, "most promotion into each target node"),
    _mtier("promote.batch_pages", "pages", 512, 1, 4096, "pages moved by one call"),
    _mtier("promote.queue_pages", "pages", 65_536, 1024, 16_777_216, "how many pages of each slow node may wait"),
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

_SUFFIX = re.compile(r"_(ms|us|mb|mbps|percent|pages)$")


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
    near = dict.fromkeys(known[hit] for hit in difflib.get_close_matches(wanted, known, 3))
    hint = f"did you mean {' or '.join(near)}? " if near else ""
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
        if knob.unit in ("ms", "us"):
            return Fraction(parse_time_ns(word), {"ms": 1_000_000, "us": 1_000}[knob.unit])
        if knob.unit in ("MiB", "MiB/s"):
            size = word.removesuffix("/s") if knob.unit == "MiB/s" else word
            return Fraction(parse_size(size), 1 << 20)
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

    Raises MissingError when the kernel has no such knob, UsageError when it refuses the value,
    TerraceError for anything else, and when what it took is not what was asked.
    """
    if not files.exists(knob.path):
        raise MissingError(absent(files, knob))
    if files.dry_run or not knob.path.startswith(MTIER):
        check_range(files, knob, value)
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


def check_range(files: KernelFiles, knob: Knob, value: str) -> None:
    """Raise UsageError when ``value`` is outside what the knob is documented to take.

    For a dry run, and for knobs of the stock kernel, some of which take nonsense in silence.
    """
    if knob.low is None or knob.high is None or value in knob.words:
        return
    broken = _breaks_chain(files, knob, int(value))
    if broken or not knob.low <= int(value) <= knob.high:
        allowed = f"{knob.allowed}, {broken}" if broken else knob.allowed
        raise UsageError(f"{knob.name} cannot be '{value}'; allowed: {allowed} (/{knob.path})")


def absent(files: KernelFiles, knob: Knob) -> str:
    """Why a knob's file is not there, and what to do."""
    if knob.path.startswith(MTIER) and not files.exists(MTIER):
        return f"this kernel has no /{knob.path}: it has no promotion engine. `terrace doctor` says what is needed"
    return f"this kernel has no /{knob.path}, so that {knob.name} cannot be set; `terrace features` shows what it has"


def explain(files: KernelFiles, knob: Knob, value: str, number: int) -> TerraceError:
    """The kernel's answer to a write, as an error a person can act on."""
    what = f"'{value}' to /{knob.path}"
    if number in (errno.EINVAL, errno.ERANGE):
        rule = f"allowed: {knob.allowed}"
        broken = _breaks_chain(files, knob, int(value)) if re.fullmatch(r"-?\d+", value) else ""
        if broken:
            rule += f", {broken}"
        name = errno.errorcode[number]
        return UsageError(
            f"the kernel refuses {what} ({name}); {rule}. It stays at {current(files, knob) or 'what it was'}"
        )
    if number in (errno.EACCES, errno.EPERM):
        return TerraceError(f"may not write {what}: run as root (sudo terrace set {knob.name} {value})")
    if number == errno.ENOMEM:
        return TerraceError(f"cannot write {what}: the kernel has not enough memory for it; it stays as it was")
    if number == errno.EROFS:
        return TerraceError(f"cannot write {what}: the file system is read-only (a container?); run it on the host")
    return TerraceError(f"cannot write {what}: {errno.errorcode.get(number, number)}")


def _breaks_chain(files: KernelFiles, knob: Knob, value: int) -> str:
    """The neighbour in min <= start <= max that ``value`` passes, in words; '' when none."""
    if knob.name not in knob.chain:
        return ""
    place = knob.chain.index(knob.name)
    for index, other_name in enumerate(knob.chain):
        other = files.get_int(find(other_name).path)
        if other is None:
            continue
        if index < place and value < other:
            return f"not below {other_name} (now {other} {knob.unit})"
        if index > place and value > other:
            return f"not above {other_name} (now {other} {knob.unit})"
    return ""

# SPDX-License-Identifier: GPL-2.0
"""Read and check bench.toml: an experiment is a matrix of cells, each of which is one guest."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

from terrace.bench import loads
from terrace.bench.cells import SPARE, Beside, Burst, Cell, Options, dram_text
from terrace.bench.policies import EVEN, POLICIES, machine_kind
from terrace.errors import UsageError
from terrace.files import parse_toml
from terrace.lab.qemu import require_host_memory
from terrace.lab.topology import MAX_CPUS, MIB, Topology, load_topology
from terrace.lab.workloads import WORKLOADS, find_workload
from terrace.paths import repo_root
from terrace.units import format_size, parse_size
from terrace.words import did_you_mean

STARTS = ("slow", "first-touch")
# Reports for machines on which every node has CPUs.
EVEN_REPORTS = ("follow", "nodes")
REPORTS = ("policies", "scale", "deferral", *EVEN_REPORTS)
# `threads` of bench.toml: as many as the cell has CPUs.
EACH_CPU = "cpus"
# "" is the flavour of each policy; the other kernel can run all policies.
KERNELS = ("", "terrace")
_NEEDED = ("purpose", "expected", "workload", "sizes", "policies", "seeds")
_DEFAULTS: dict[str, Any] = {
    "found": "",
    "dram": [SPARE],
    "threads": 2,
    "cpus": [],
    "repetitions": 1,
    "topology": "bench-dram-cxl",
    "start": "slow",
    "options": {},
    "report": "policies",
    "tolerance": 0.0,
    "kernel": "",
    "pin": True,
    "burst": {},
    "beside": {},
}
# The same defaults as in guest/crowd.c.
_BESIDE: dict[str, Any] = {
    "idle": 0,
    "ranges": 40,
    "busy": 0,
    "busy_size": "256K",
    "busy_ms": 100,
    "page_cache": False,
}
_MOST_BESIDE = 10_000
_BURST_KEYS = ("workload", "size", "threads", "at_ms", "options")
_KEYS = (*_NEEDED, *_DEFAULTS)


@dataclass(frozen=True)
class Experiment:
    """One bench.toml, checked. `threads` is 0 for as many as a cell has CPUs; `cpus` is empty for the machine's own."""

    name: str
    folder: Path
    purpose: str
    expected: str
    found: str
    workload: str
    sizes: tuple[int, ...]
    dram: tuple[Fraction | None, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    repetitions: int
    threads: int
    topology: str
    start: str
    options: tuple[tuple[str, Any], ...]
    report: str
    tolerance: float
    kernel: str = ""
    pin: bool = True
    burst: Burst | None = None
    beside: Beside | None = None
    cpus: tuple[int, ...] = ()

    @property
    def file(self) -> Path:
        """Its bench.toml."""
        return self.folder / "bench.toml"

    def cells(self) -> list[Cell]:
        """Get all cells, the small sizes and the first seeds first.

        A bound without a limit of fast memory (all-dram, all-slow) is one cell for all of `dram`.
        """
        found = []
        for repetition, seed, cpus in product(range(1, self.repetitions + 1), self.seeds, self.cpus or (0,)):
            for size, dram in product(sorted(self.sizes), self.dram):
                found += [self._cell(size, dram, cpus, name, seed, repetition) for name in self.policies]
        return list(dict.fromkeys(found))

    def _cell(self, size: int, dram: Fraction | None, cpus: int, policy: str, seed: int, repetition: int) -> Cell:
        bound = POLICIES[policy].limit in ("fast", "slow")
        return Cell(
            experiment=self.name,
            workload=self.workload,
            size=size,
            dram=None if bound else dram,
            policy=policy,
            seed=seed,
            repetition=repetition,
            threads=self.threads or cpus,
            topology=self.topology,
            start=self.start,
            options=self._options(size),
            kernel=self.kernel,
            pin=self.pin,
            burst=self.burst,
            beside=self.beside,
            cpus=cpus,
        )

    def _options(self, size: int) -> Options:
        """Get the program's own options at this size."""
        return _words_of(self.options, size)

    def require_memory(self) -> None:
        """Raise UsageError with file and key if one of its machines does not fit this host."""
        for cell in self.cells():
            try:
                require_host_memory(cell.machine())
            except UsageError as error:
                raise UsageError(f"{self.file}: sizes: {format_size(cell.size)} does not fit here: {error}") from error


def _words_of(options: Sequence[tuple[str, Any]], size: int) -> Options:
    """Format options for a command line: True is an option without a value, False none at all."""
    chosen = ((name, value[size] if isinstance(value, dict) else value) for name, value in options)
    return tuple((name, None if value is True else str(value)) for name, value in chosen if value is not False)


def names() -> list[str]:
    """List the names of the experiments."""
    return sorted(path.parent.name for path in (repo_root() / "bench").glob("*/bench.toml"))


def load(name: str) -> Experiment:
    """Load the experiment of that name, or of the folder or file if `name` is a path.

    Raises UsageError with file and key for an invalid bench.toml.
    """
    if "/" in name:
        file = Path(name) if name.endswith(".toml") else Path(name) / "bench.toml"
        if not file.is_file():
            raise UsageError(f"{name}: there is no {file}")
    else:
        if name not in names():
            known = names()
            hint = did_you_mean(name, known)
            raise UsageError(f"there is no experiment '{name}'; {hint}there are {', '.join(known) or 'none'}")
        file = repo_root() / "bench" / name / "bench.toml"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from error
    return parse(file.resolve().parent.name, file, text)


def parse(name: str, file: Path, text: str) -> Experiment:
    """Parse `text`, the contents of `file`."""
    try:
        table = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: {error}") from error
    unknown = sorted(set(table) - set(_KEYS))
    missing = [key for key in _NEEDED if key not in table]
    if unknown or missing:
        problem = f"unknown key '{unknown[0]}'" if unknown else f"key '{missing[0]}' is missing"
        raise UsageError(f"{file}: {problem}; the keys are {', '.join(_KEYS)}")
    return _Reader(file, {**_DEFAULTS, **table}).experiment(name)


class _Reader:
    """Reads bench.toml by key; every error has file and key."""

    def __init__(self, file: Path, table: dict[str, Any]) -> None:
        self.file = file
        self.table = table

    def error(self, key: str, problem: str) -> UsageError:
        return UsageError(f"{self.file}: {key}: {problem}")

    def experiment(self, name: str) -> Experiment:
        sizes = tuple(self._size("sizes", text) for text in self._list("sizes", str))
        workload = self._word("workload", loads.names())
        start, policies = self._word("start", STARTS), self._policies()
        dram = tuple(self._dram(text) for text in self._list("dram", str))
        topology = self._topology()
        self._refuse_machine(topology, start, policies, dram)
        burst = self._burst()
        self._refuse_beside(workload, burst)
        self._refuse_copies(workload, policies)
        if find_workload(workload).script:
            self._refuse_places(workload, start, policies)
        return Experiment(
            name=name,
            folder=self.file.parent,
            purpose=self._text("purpose"),
            expected=self._text("expected"),
            found=self._found(),
            workload=workload,
            sizes=sizes,
            dram=dram,
            policies=policies,
            seeds=tuple(self._list("seeds", int)),
            repetitions=self._number("repetitions", 1, 100),
            threads=self._threads(),
            topology=topology.name,
            start=start,
            options=self._options(sizes),
            report=self._word("report", REPORTS),
            tolerance=self._tolerance(),
            kernel=self._word("kernel", KERNELS),
            pin=self._flag("pin"),
            burst=burst,
            beside=self._beside(start),
            cpus=self._cpus(topology),
        )

    def _threads(self) -> int:
        """Get the number of threads; 0: as many as a cell has CPUs."""
        if self.table["threads"] != EACH_CPU:
            return self._number("threads", 1, 64)
        if not self.table["cpus"]:
            raise self.error("threads", f"'{EACH_CPU}' is the number of CPUs of each cell; it needs the key cpus")
        return 0

    def _cpus(self, machine: Topology) -> tuple[int, ...]:
        """Read the numbers of CPUs; none: that of the machine."""
        if self.table["cpus"] == []:
            return ()
        found = self._list("cpus", int)
        if strange := [count for count in found if not len(machine.cpu_nodes) <= count <= MAX_CPUS]:
            least = len(machine.cpu_nodes)
            raise self.error("cpus", f"{strange[0]} is not from {least} (nodes with CPUs) to {MAX_CPUS}")
        return tuple(found)

    def _text(self, key: str) -> str:
        value = self.table[key]
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"needs a text, not {value!r}")
        return " ".join(value.split())

    def _found(self) -> str:
        """Describe the outcome of `expected`: figures are measured, not typed."""
        if self.table["found"] == "":
            return ""
        text = self._text("found")
        if figure := re.search(r"\d+\.\d+|\d+ ?%", text):
            raise self.error("found", f"{figure[0]!r} is a figure; say it in words, the tables have the figures")
        return text

    def _word(self, key: str, allowed: Sequence[str]) -> str:
        value = self.table[key]
        if value not in allowed:
            raise self.error(key, f"{value!r} is not one of {', '.join(allowed)}")
        return str(value)

    def _number(self, key: str, low: int, high: int) -> int:
        value = self.table[key]
        if type(value) is not int or not low <= value <= high:
            raise self.error(key, f"{value!r} is not a whole number from {low} to {high}")
        return value

    def _tolerance(self) -> float:
        value = self.table["tolerance"]
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise self.error("tolerance", f"{value!r} is not a number from 0 to 1")
        return float(value)

    def _list(self, key: str, kind: type) -> list[Any]:
        value = self.table[key]
        if not isinstance(value, list) or not value or not all(type(item) is kind for item in value):
            raise self.error(key, f"{value!r} is not a list of at least one {kind.__name__}")
        if len(set(value)) < len(value):
            raise self.error(key, f"{value!r} names something twice")
        return value

    def _size(self, key: str, text: str) -> int:
        try:
            size = parse_size(text)
        except UsageError as error:
            raise self.error(key, str(error)) from error
        if size % MIB or not size:
            raise self.error(key, f"{text} is not a whole number of MiB")
        return size

    def _dram(self, text: str) -> Fraction | None:
        if text == SPARE:
            return None
        try:
            part = Fraction(text)
        except (ValueError, ZeroDivisionError):
            part = Fraction(0)
        if not 0 < part <= 1:
            raise self.error("dram", f"'{text}' is neither '{SPARE}' nor a part of the size such as '1/2'")
        return part

    def _policies(self) -> tuple[str, ...]:
        wanted = self._list("policies", str)
        strange = [name for name in wanted if name not in POLICIES]
        if strange:
            raise self.error("policies", f"'{strange[0]}' is not one of {', '.join(POLICIES)}")
        return tuple(wanted)

    def _refuse_places(self, workload: str, start: str, policies: Sequence[str]) -> None:
        """Reject placements for a workload without an arena: its pages cannot be placed and then free to move."""
        if start == "slow":
            raise self.error("start", f"'slow' would bind all memory of {workload} for good; it needs \"first-touch\"")
        profiled = [name for name in policies if POLICIES[name].limit == "oracle"]
        if profiled:
            raise self.error("policies", f"'{profiled[0]}' places pages by number, and those of {workload} have none")

    def _flag(self, key: str) -> bool:
        value = self.table[key]
        if type(value) is not bool:
            raise self.error(key, f"{value!r} is neither true nor false")
        return value

    def _refuse_beside(self, workload: str, burst: Burst | None) -> None:
        """Reject a burst for workloads that cannot have one; phases are between rounds."""
        if burst and find_workload(workload).script:
            raise self.error("burst", f"{workload} has nobody work beside it")
        if self.table["report"] == "follow" and (burst is None or workload != "stream"):
            raise self.error("report", "'follow' is of the workload stream and a [burst] beside it")

    def _refuse_copies(self, workload: str, policies: Sequence[str]) -> None:
        """Reject copies for loads without read-only memory."""
        if find_workload(workload).copies:
            return
        if wanted := [name for name in policies if POLICIES[name].limit == "copies"]:
            able = ", ".join(name for name, program in WORKLOADS.items() if program.copies)
            raise self.error("policies", f"'{wanted[0]}' needs a load that makes copies: {able}")

    def _topology(self) -> Topology:
        name = self.table["topology"]
        try:
            machine = load_topology(str(name))
        except UsageError as error:
            raise self.error("topology", str(error)) from error
        if not machine_kind(machine):
            raise self.error(
                "topology",
                f"'{name}' is no machine of a node with all CPUs and one without any, nor one with CPUs everywhere",
            )
        return machine

    def _refuse_machine(
        self, machine: Topology, start: str, policies: Sequence[str], dram: Sequence[Fraction | None]
    ) -> None:
        """Reject settings for slow memory on a machine without it, and vice versa."""
        kind = machine_kind(machine)
        strange = [name for name in policies if kind not in POLICIES[name].machines]
        if strange:
            raise self.error("policies", f"'{strange[0]}' makes no sense on machines like '{machine.name}'")
        if kind != EVEN and self.table["report"] in EVEN_REPORTS:
            raise self.error("report", f"'{self.table['report']}' is of machines whose every node has CPUs")
        if kind == EVEN and start == "slow":
            raise self.error("start", f"'{machine.name}' has no slow memory; it needs \"first-touch\"")
        if kind == EVEN and any(part is not None for part in dram):
            raise self.error(
                "dram", f"'{machine.name}' has no slow memory for what does not fit; it needs [\"{SPARE}\"]"
            )

    def _burst(self) -> Burst | None:
        """Read the table [burst]; None without one."""
        table = self.table["burst"]
        if not isinstance(table, dict):
            raise self.error("burst", "write it as a table [burst]")
        if not table:
            return None
        if unknown := sorted(set(table) ^ (set(_BURST_KEYS) - ({"options"} - set(table)))):
            raise self.error("burst", f"'{unknown[0]}' is missing or unknown; the keys are {', '.join(_BURST_KEYS)}")
        inner = _Reader(self.file, {f"burst.{name}": value for name, value in {"options": {}, **table}.items()})
        size = inner._size("burst.size", inner._text("burst.size"))
        return Burst(
            workload=inner._word("burst.workload", sorted(WORKLOADS)),
            size=size,
            threads=inner._number("burst.threads", 1, 256),
            at_ms=inner._number("burst.at_ms", 0, 3_600_000),
            options=_words_of(inner._options([size], "burst.options"), size),
        )

    def _beside(self, start: str) -> Beside | None:
        """Read the table of other users of the machine, if the file has one."""
        table = self.table["beside"]
        if not isinstance(table, dict):
            raise self.error("beside", "write it as a table [beside]")
        if not table:
            return None
        if unknown := sorted(set(table) - set(_BESIDE)):
            raise self.error("beside", f"'{unknown[0]}' is unknown; the keys are {', '.join(_BESIDE)}")
        if start != "slow":
            raise self.error("beside", 'its processes and page cache come before the load; it needs start = "slow"')
        inner = _Reader(self.file, {f"beside.{name}": value for name, value in {**_BESIDE, **table}.items()})
        found = Beside(
            idle=inner._number("beside.idle", 0, _MOST_BESIDE),
            ranges=inner._number("beside.ranges", 1, 1000),
            busy=inner._number("beside.busy", 0, _MOST_BESIDE),
            busy_size=inner._bytes("beside.busy_size"),
            busy_ms=inner._number("beside.busy_ms", 1, 3_600_000),
            page_cache=inner._flag("beside.page_cache"),
        )
        if not (found.idle or found.busy or found.page_cache):
            raise self.error("beside", "it has neither idle nor busy processes nor page_cache")
        return found

    def _bytes(self, key: str) -> int:
        """Read a number of whole pages."""
        try:
            size = parse_size(self._text(key))
        except UsageError as error:
            raise self.error(key, str(error)) from error
        if not size or size % 4096:
            raise self.error(key, f"{self.table[key]} is not a number of pages of 4K")
        return size

    def _options(self, sizes: Sequence[int], key: str = "options") -> tuple[tuple[str, Any], ...]:
        table = self.table[key]
        if not isinstance(table, dict):
            raise self.error(key, f"write it as a table [{key}]")
        return tuple((name, self._option(f"{key}.{name}", value, sizes)) for name, value in table.items())

    def _option(self, key: str, value: Any, sizes: Sequence[int]) -> Any:
        """Read a value for all sizes, or a table with one for each."""
        if isinstance(value, dict):
            by_size = {self._size(key, size): self._plain(f"{key}.{size}", item) for size, item in value.items()}
            lacking = [size for size in sizes if size not in by_size]
            if lacking:
                raise self.error(key, f"has no value for {format_size(lacking[0])}")
            return by_size
        return self._plain(key, value)

    def _plain(self, key: str, value: Any) -> Any:
        if not isinstance(value, str | int | float):
            raise self.error(key, f"{value!r} is not a text or number, nor a table of one for each size")
        return value


def select(
    cells: Sequence[Cell],
    sizes: Sequence[int] | None = None,
    policies: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    dram: Sequence[str] | None = None,
    cpus: Sequence[int] | None = None,
) -> Iterator[Cell]:
    """Select the cells of a command line; bounds without a limit of fast memory belong to every `dram`."""
    for cell in cells:
        if sizes and cell.size not in sizes:
            continue
        if policies and cell.policy not in policies:
            continue
        if seeds and cell.seed not in seeds:
            continue
        if cpus and cell.cpus not in cpus:
            continue
        bound = POLICIES[cell.policy].limit in ("fast", "slow")
        if dram and not bound and dram_text(cell.dram) not in dram:
            continue
        yield cell

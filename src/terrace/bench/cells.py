# SPDX-License-Identifier: GPL-2.0
"""A cell of an experiment's matrix: one guest, with its load, policy and machine."""

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from terrace.bench.policies import FAST_NODE, POLICIES, SLOW_NODE
from terrace.lab.topology import MIB, Topology, load_topology
from terrace.lab.workloads import DEFAULT_PROCESSES, find_workload
from terrace.units import format_size

SPARE = "spare"
# With free DRAM the machine grows with the load: numa_balancing=2 promotes on the first access only
# while more than 1 GiB is free.
_SIZE_FOR_PLAIN_MACHINE = 512 * MIB
# Memory of the fast node for the kernel and init, in addition to the load's share; ballast takes
# the surplus.
KERNEL_SHARE = 192 * MIB
Options = tuple[tuple[str, str | None], ...]
# Memory of a small process: its kernel stack, page tables at the top, its own few pages.
_PROCESS = 256 << 10
_PAGE = 4096


@dataclass(frozen=True)
class Burst:
    """A second workload that runs next to the first, from `at_ms` of the measured part on, until its work is done."""

    workload: str
    size: int
    threads: int
    at_ms: int
    options: Options = ()


@dataclass(frozen=True)
class Beside:
    """Other users of the machine: processes, and page cache of a file that was read once.

    An idle process has a page in each of `ranges` ranges of 2 MiB. A busy one uses all pages of
    `busy_size` bytes every `busy_ms`. Their pages are on slow memory at first. `page_cache` fills the
    fast memory that the load would have; without a limit of fast memory there is none.
    """

    idle: int
    ranges: int
    busy: int
    busy_size: int
    busy_ms: int
    page_cache: bool

    @property
    def kernel_bytes(self) -> int:
        """Get an upper limit of what its processes take of fast memory."""
        return self.idle * (_PROCESS + self.ranges * _PAGE) + self.busy * _PROCESS


@dataclass(frozen=True)
class Cell:
    """One guest.

    `dram` is the fast memory left to the load, as a part of its size; None: more than it needs.
    `kernel` is the flavour for any policy; "" for the policy's own. `pin`: each thread has a CPU of
    itself. `cpus` virtual CPUs stand for the cores of the topology; 0: as many as it has.
    """

    experiment: str
    workload: str
    size: int
    dram: Fraction | None
    policy: str
    seed: int
    repetition: int
    threads: int
    topology: str
    start: str
    options: Options
    kernel: str = ""
    pin: bool = True
    burst: Burst | None = None
    beside: Beside | None = None
    cpus: int = 0

    @property
    def flavour(self) -> str:
        """Get the kernel that runs it."""
        return self.kernel or POLICIES[self.policy].flavour

    @property
    def name(self) -> str:
        """The name within its experiment, also the name of its file."""
        again = f"-rep{self.repetition}" if self.repetition > 1 else ""
        cpus = f"-{self.cpus}cpus" if self.cpus else ""
        return f"{format_size(self.size)}-{dram_word(self.dram)}{cpus}-{self.policy}-seed{self.seed}{again}"

    @property
    def fast_bytes(self) -> int | None:
        """Get the fast memory that is free for the load; None: more than it needs."""
        return None if self.dram is None else int(self.size * self.dram) // MIB * MIB

    @property
    def processes_bytes(self) -> int:
        """Get an upper limit of the fast memory of the load's processes and their page tables; 0 for one process."""
        name = find_workload(self.workload).processes
        if not name:
            return 0
        own = dict(self.options)
        return int(own.get(name) or DEFAULT_PROCESSES) * (_PROCESS + self.size // _PAGE * 8)

    def machine(self) -> Topology:
        """Get its machine."""
        base = load_topology(self.topology)
        if self.cpus:
            base = base.with_vcpus(self.cpus)
        if self.fast_bytes is None:
            return base.with_memory_scale(max(1.0, self.size / _SIZE_FOR_PLAIN_MACHINE))
        nodes = list(base.nodes)
        others = (self.processes_bytes + (self.beside.kernel_bytes if self.beside else 0)) // MIB * MIB
        nodes[FAST_NODE] = replace(nodes[FAST_NODE], memory=self.fast_bytes + KERNEL_SHARE + others)
        slow = nodes[SLOW_NODE]
        nodes[SLOW_NODE] = replace(slow, memory=max(slow.memory, (2 * self.size + KERNEL_SHARE) // MIB * MIB))
        return replace(base, nodes=tuple(nodes), _by_pair={})

    def key(self) -> dict[str, Any]:
        """Get the values that identify this cell, as they are written into its result."""
        found = {**asdict(self), "dram": dram_text(self.dram), "options": dict(self.options)}
        for name in ("kernel", "burst", "beside", "cpus"):
            if not found[name]:
                del found[name]
        if self.pin:
            del found["pin"]
        if self.burst:
            found["burst"]["options"] = dict(self.burst.options)
        return found


def dram_word(dram: Fraction | None) -> str:
    """Format `dram` for a file name."""
    if dram is None:
        return SPARE
    return f"dram{dram.numerator}" + (f"of{dram.denominator}" if dram.denominator > 1 else "")


def dram_text(dram: Fraction | None) -> str:
    """Format `dram` for messages and bench.toml."""
    return SPARE if dram is None else str(dram)

# SPDX-License-Identifier: GPL-2.0
"""A cell of an experiment's matrix: one guest, with its load, policy and machine."""

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from terrace.bench.policies import FAST_NODE, POLICIES, SLOW_NODE
from terrace.lab.topology import MIB, Topology, load_topology
from terrace.units import format_size

SPARE = "spare"
# With free DRAM the machine grows with the load: numa_balancing=2 promotes on the first access only
# while more than 1 GiB is free.
_SIZE_FOR_PLAIN_MACHINE = 512 * MIB
# Memory of the fast node for the kernel and init, in addition to the load's share; ballast takes
# the surplus.
KERNEL_SHARE = 192 * MIB
Options = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Burst:
    """A second workload that runs next to the first, from `at_ms` of the measured part on, until its work is done."""

    workload: str
    size: int
    threads: int
    at_ms: int
    options: Options = ()


@dataclass(frozen=True)
class Cell:
    """One guest.

    `dram` is the fast memory left to the load, as a part of its size; None: more than it needs.
    `kernel` is the flavour for any policy; "" for the policy's own. `pin`: each thread has a CPU of
    its own.
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

    @property
    def flavour(self) -> str:
        """Get the kernel that runs it."""
        return self.kernel or POLICIES[self.policy].flavour

    @property
    def name(self) -> str:
        """The name within its experiment, also the name of its file."""
        again = f"-rep{self.repetition}" if self.repetition > 1 else ""
        return f"{format_size(self.size)}-{dram_word(self.dram)}-{self.policy}-seed{self.seed}{again}"

    @property
    def fast_bytes(self) -> int | None:
        """Get the fast memory that is free for the load; None: more than it needs."""
        return None if self.dram is None else int(self.size * self.dram) // MIB * MIB

    def machine(self) -> Topology:
        """Get its machine."""
        base = load_topology(self.topology)
        if self.fast_bytes is None:
            return base.with_memory_scale(max(1.0, self.size / _SIZE_FOR_PLAIN_MACHINE))
        nodes = list(base.nodes)
        nodes[FAST_NODE] = replace(nodes[FAST_NODE], memory=self.fast_bytes + KERNEL_SHARE)
        slow = nodes[SLOW_NODE]
        nodes[SLOW_NODE] = replace(slow, memory=max(slow.memory, (2 * self.size + KERNEL_SHARE) // MIB * MIB))
        return replace(base, nodes=tuple(nodes), _by_pair={})

    def key(self) -> dict[str, Any]:
        """Get the values that identify this cell, as they are written into its result."""
        found = {**asdict(self), "dram": dram_text(self.dram), "options": dict(self.options)}
        for name in ("kernel", "burst"):
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

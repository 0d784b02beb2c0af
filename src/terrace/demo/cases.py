# SPDX-License-Identifier: GPL-2.0
"""The cases of the demo: kernels, their settings, and one load for all."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from terrace.errors import UsageError
from terrace.units import format_size

PAGE = 4096
MIN_SIZE = 16 << 20
MAX_SIZE = 4 << 30
# Guest time is a count of instructions: 2 ns each, shared by all CPUs of the machine.
ICOUNT_SHIFT = 1
INSNS_PER_S = 1e9 / (1 << ICOUNT_SHIFT)
TOPOLOGY = "dram-cxl"
_CPUS = 2
SLOW_NODE = 1
DRAM_NODE = 0
# One rate limit for both kernels, so that neither is held back more than the other.
RATE_MBPS = 1024
# abench's loop, and what its threads get done while the kernel moves one page.
INSNS_PER_VISIT = 42
_INSNS_WHILE_PAGE_MOVES = 1500
# DRAM with memory to spare: with less than 1 GiB free, numa_balancing=2 does not promote on the first access.
_SIZE_FOR_PLAIN_MACHINE = 512 << 20


@dataclass(frozen=True)
class Workload:
    """abench's options: `size` in bytes, the rest as in its --help."""

    size: int
    threads: int = 4
    seed: int = 1
    delay_us: int = 1
    sample_ms: int = 20
    probes: int = 512

    def __post_init__(self) -> None:
        if not MIN_SIZE <= self.size <= MAX_SIZE or self.size % PAGE:
            raise UsageError(
                f"--size {format_size(self.size)}: use whole 4K pages, from {format_size(MIN_SIZE)} "
                f"to {format_size(MAX_SIZE)}"
            )

    @property
    def pages(self) -> int:
        """4 KiB pages of the load."""
        return self.size // PAGE

    @property
    def memory_scale(self) -> float:
        """Times the topology's memory, so that DRAM holds all of the load with memory to spare."""
        return max(1.0, self.size / _SIZE_FOR_PLAIN_MACHINE)

    @property
    def iterations(self) -> int:
        """Iterations of a run long enough for numa_balancing=2 to move most pages.

        The stock kernel scans for a thread when that has run for a second, which takes threads/CPUs seconds.
        """
        seconds = self.threads / _CPUS + 0.25
        insns = seconds * INSNS_PER_S + self.pages * _INSNS_WHILE_PAGE_MOVES
        return max(1, round(insns / INSNS_PER_VISIT / self.pages))

    def argv(self, node: int) -> list[str]:
        """The words behind abench's name."""
        options = {
            "--size": self.size,
            "--threads": self.threads,
            "--iterations": self.iterations,
            "--delay": self.delay_us,
            "--seed": self.seed,
            "--node": node,
            "--sample-ms": self.sample_ms,
            "--probes": self.probes,
        }
        return [word for name, value in options.items() for word in (name, str(value))]


@dataclass(frozen=True)
class Case:
    """One run: a kernel flavour, the kernel files set before the load starts, where its memory lies at first."""

    name: str
    label: str
    flavour: str
    knobs: Mapping[str, str] = field(default_factory=dict)
    node: int = SLOW_NODE


def _stock(mode: int) -> dict[str, str]:
    return {
        "/sys/kernel/mm/numa/demotion_enabled": "1",
        "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps": str(RATE_MBPS),
        "/proc/sys/kernel/numa_balancing": str(mode),
    }


_TERRACE = {
    "/sys/kernel/mm/numa/demotion_enabled": "1",
    "/proc/sys/kernel/numa_balancing": "0",
    "/sys/kernel/mm/mtier/promote/rate_mbps": str(RATE_MBPS),
    "/sys/kernel/mm/mtier/enabled": "1",
}

MAIN = (
    Case("stock-0", "stock, numa_balancing=0", "stock", _stock(0)),
    Case("stock-1", "stock, numa_balancing=1", "stock", _stock(1)),
    Case("stock-2", "stock, numa_balancing=2", "stock", _stock(2)),
    Case("terrace", "terrace", "terrace", _TERRACE),
)
# The same load with all memory in DRAM from the start: nothing to promote.
QUIET = (
    Case("stock-2-quiet", "stock, numa_balancing=2, nothing to promote", "stock", _stock(2), DRAM_NODE),
    Case("terrace-quiet", "terrace, nothing to promote", "terrace", _TERRACE, DRAM_NODE),
)
OFF = (Case("terrace-off", "terrace, switched off", "terrace", _stock(0)),)
ALL = MAIN + QUIET + OFF
# --quick: one kernel with the engine, and with NUMA balancing in its place, which the engine does not change while off.
QUICK = (Case("numab-2", "terrace switched off, numa_balancing=2", "terrace", _stock(2)), MAIN[-1])
# The engine alone, by either way of moving pages.
FUNCTIONS = (
    Case("by-address-space", "by address space", "terrace", _TERRACE),
    Case("by-folio", "by migrate_pages()", "terrace", {**_TERRACE, "/sys/kernel/mm/mtier/promote/move_fast": "0"}),
)

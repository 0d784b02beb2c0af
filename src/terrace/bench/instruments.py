# SPDX-License-Identifier: GPL-2.0
"""The timing plugin of a run: its options, and its counters for the measured region."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from terrace.bench.ledger import Ledger, Mode, Region, Step, read_ledger
from terrace.bench.phases import near_ratio, node_of_each_cpu, phases_of
from terrace.bench.policies import EVEN, FAST_NODE, machine_kind
from terrace.bench.reading import Reading
from terrace.kernel.build import Kernel
from terrace.lab.plugin import TimingOptions, compile_plugin, read_symbols, require_tools, timing_argument
from terrace.lab.run import require_guest_tools
from terrace.lab.topology import Topology
from terrace.lab.workloads import ARENA

_PAGE = 4096
# The model drives the guest's clock; this only sets how often QEMU checks whether a timer has
# expired.
SHIFT = 1
_SERIES_MS = 20.0
_SERIES_POINTS = 60


class Instrument:
    """The plugin of one run; `folder` gets its files. `profile` also counts accesses by page."""

    def __init__(self, kernel: Kernel, machine: Topology, folder: Path, profile: bool) -> None:
        self._machine = machine
        self._options = TimingOptions(
            ledger=folder / "ledger.json",
            series_ms=_SERIES_MS,
            pages=folder / "pages" if profile else None,
            drives=True,
        )
        self.argument = timing_argument(
            compile_plugin("timing"), read_symbols(kernel.vmlinux), machine, self._options, folder / "machine"
        )

    def read(self) -> Reading:
        """Read the counters. Raises UsageError if the guest left no measured region."""
        ledger = read_ledger(self._options.ledger)
        region = ledger.region()
        even = machine_kind(self._machine) == EVEN
        return Reading(
            kinds={name: (kind.user.insns, kind.kernel.insns) for name, kind in region.kinds.items()},
            modelled_s=region.modelled_s,
            all_idle_s=region.all_idle_ns / 1e9,
            skew_us=region.skew_ns / 1e3,
            fast_hit_ratio=None if even else region.fast_hit_ratio(FAST_NODE),
            user_seconds={name: kind.user.time_ns / 1e9 for name, kind in region.kinds.items()},
            kernel_seconds={name: kind.kernel.time_ns / 1e9 for name, kind in region.kinds.items()},
            ledger=_compact(region),
            series=[] if even else _series(ledger),
            phases=phases_of(ledger, self._machine),
            near_hit_ratio=near_ratio(region, node_of_each_cpu(self._machine)) if even else None,
        )

    def accesses(self, pages: int) -> list[tuple[int, int]]:
        """Get the pages of the load (0 is the first) and their number of fetches from memory, unordered."""
        assert self._options.pages is not None
        found = []
        for line in self._options.pages.read_text().splitlines():
            page, count = line.split()
            index = int(page, 16) - ARENA // _PAGE
            if 0 <= index < pages:
                found.append((index, int(count)))
        return found


def require_instruments() -> None:
    """Install everything that a measurement needs on this host. Raises MissingError; call it before
    a kernel is built.
    """
    require_guest_tools()
    require_tools(drives=True)


def identity() -> str:
    """Get a name of the plugin from its contents."""
    return compile_plugin("timing").stem


def _compact(region: Region) -> dict[str, Any]:
    """Sum up the vCPUs of the region, and drop zeros."""
    return {
        "modelled_ns": region.modelled_ns,
        "all_idle_ns": region.all_idle_ns,
        "skew_ns": region.skew_ns,
        "guest_insns": region.guest_insns,
        "shootdowns": region.shootdowns,
        "shootdowns_received": region.shootdowns_received,
        "shootdown_ns": region.shootdown_ns,
        "vcpu_ns": [[vcpu.clock_ns, vcpu.idle_ns] for vcpu in region.vcpus],
        "nodes": {str(number): asdict(node) for number, node in region.nodes.items()},
        "kinds": {
            name: {"user": _mode(kind.user), "kernel": _mode(kind.kernel)}
            for name, kind in sorted(region.kinds.items())
        },
    }


def _mode(mode: Mode) -> dict[str, Any]:
    plain = {name: value for name, value in asdict(mode).items() if name != "tier" and value}
    tiers = {str(node): {k: v for k, v in asdict(tier).items() if v} for node, tier in mode.tier}
    return {**plain, "tier": tiers} if tiers else plain


def _series(ledger: Ledger) -> list[list[float]]:
    """Get steps of modelled time: [ms, the application's misses to fast memory in the step, to slow memory]."""
    steps = [Step(0.0, 0, 0, 0, 0, (0, 0), (0, 0)), *ledger.series]
    each = max(1, -(-len(ledger.series) // _SERIES_POINTS))
    kept = steps[::each]
    return [
        [step.t_ms, *(now - was for now, was in zip(step.app_misses[:2], before.app_misses[:2], strict=True))]
        for before, step in zip(kept, kept[1:], strict=False)
    ]

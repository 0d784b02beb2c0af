# SPDX-License-Identifier: GPL-2.0
"""From what a run printed to the figures that are compared. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from terrace.bench.stats import time_to
from terrace.demo.counter import APP, Counts

# Not the kernel's work for the load: the measuring itself, and waiting.
_NOT_WORK = ("sampler", "idle")
# Finds pages, and moves them.
_MOVER = "kmtierd"


@dataclass(frozen=True)
class Figures:
    """One run in figures. Times are guest time; None: it never happened, or there is nothing to divide by."""

    elapsed_s: float
    to_50_s: float | None
    to_95_s: float | None
    final_share: float
    promoted_pages: int
    hint_faults: int
    shootdowns: int
    kernel_insns: int
    app_user_insns: int
    app_kernel_insns: int
    mover_cpu_s: float
    mover_insns: int

    @property
    def app_insns(self) -> int:
        """All that the application's own threads executed."""
        return self.app_user_insns + self.app_kernel_insns

    @property
    def kernel_rate(self) -> float:
        """Kernel instructions per second of guest time."""
        return self.kernel_insns / self.elapsed_s

    def extra_kernel(self, base: "Figures") -> float:
        """Kernel instructions above those that `base`, which moves nothing, takes in the same time."""
        return self.kernel_insns - base.kernel_rate * self.elapsed_s

    def per_page(self, base: "Figures") -> float | None:
        """Kernel instructions per page moved: finding, faults, copying, flushing, all of it."""
        return self.extra_kernel(base) / self.promoted_pages if self.promoted_pages else None

    def as_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {**asdict(self), "app_insns": self.app_insns}


def figures_of(result: Mapping[str, Any], counts: Mapping[str, Counts]) -> Figures:
    """The figures of one run: `result` is what abench printed, `counts` the instructions in its measured region."""
    vmstat = result["vmstat"]
    none = Counts()
    app = counts.get(APP, none)
    # The stock kernel scans in the application's threads: those instructions are theirs.
    task_scan = counts.get("numa_scan", none).kernel
    last = result["placed_last"]
    return Figures(
        elapsed_s=result["elapsed_ns"] / 1e9,
        to_50_s=time_to(result["samples"], 0.5),
        to_95_s=time_to(result["samples"], 0.95),
        final_share=last["in_dram"] / last["pages"],
        promoted_pages=vmstat.get("pgpromote_success", 0),
        hint_faults=vmstat.get("numa_hint_faults", 0),
        shootdowns=result["tlb_shootdowns"],
        kernel_insns=sum(c.kernel for name, c in counts.items() if name not in _NOT_WORK),
        app_user_insns=app.user,
        app_kernel_insns=app.kernel + task_scan,
        mover_cpu_s=result["kthread_cpu_ns"].get(_MOVER, 0) / 1e9,
        mover_insns=counts.get(_MOVER, none).kernel,
    )

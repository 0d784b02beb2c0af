# SPDX-License-Identifier: GPL-2.0
"""From what a run printed to the figures that are compared. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from terrace.bench.stats import time_to
from terrace.demo.cases import INSNS_PER_S
from terrace.demo.counter import APP, Counts
from terrace.lab.counts import do_not_add_up, impossible

# Not the kernel's work for the load: the measuring itself, and waiting.
_NOT_WORK = ("sampler", "idle")
# Finds pages, and moves them.
_MOVER = "kmtierd"


@dataclass(frozen=True)
class Figures:
    """One run in figures. Times are guest time; None: it never happened.

    Counts of instructions are None when they cannot be true; `unknown` is then the reason, else empty.
    """

    elapsed_s: float
    to_50_s: float | None
    to_95_s: float | None
    final_share: float
    promoted_pages: int
    hint_faults: int
    shootdowns: int
    kernel_insns: int | None
    app_user_insns: int | None
    app_kernel_insns: int | None
    mover_cpu_s: float
    mover_insns: int | None
    unknown: str = ""

    @property
    def app_insns(self) -> int | None:
        """All that the application's own threads executed."""
        if self.app_user_insns is None or self.app_kernel_insns is None:
            return None
        return self.app_user_insns + self.app_kernel_insns

    def extra_kernel(self, base: "Figures") -> float | None:
        """Kernel instructions above those that `base`, which moves nothing, takes in the same time."""
        if self.kernel_insns is None or base.kernel_insns is None:
            return None
        return self.kernel_insns - base.kernel_insns / base.elapsed_s * self.elapsed_s

    def per_page(self, base: "Figures") -> float | None:
        """Kernel instructions per page moved: to find it, faults, copy, flushes, all of it.

        None when no page moved, and when the figure is unknown: a page that moves costs instructions.
        """
        extra = self.extra_kernel(base)
        return extra / self.promoted_pages if self.promoted_pages and extra is not None and extra > 0 else None

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
    elapsed_s = result["elapsed_ns"] / 1e9
    pairs = {name: (c.user, c.kernel) for name, c in counts.items()}
    # Guest time is QEMU's own count of the instructions that it executed.
    unknown = impossible(pairs, busy=APP) or do_not_add_up(pairs, elapsed_s * INSNS_PER_S)
    return Figures(
        elapsed_s=elapsed_s,
        to_50_s=time_to(result["samples"], 0.5),
        to_95_s=time_to(result["samples"], 0.95),
        final_share=last["in_dram"] / last["pages"],
        promoted_pages=vmstat.get("pgpromote_success", 0),
        hint_faults=vmstat.get("numa_hint_faults", 0),
        shootdowns=result["tlb_shootdowns"],
        kernel_insns=None if unknown else sum(c.kernel for name, c in counts.items() if name not in _NOT_WORK),
        app_user_insns=None if unknown else app.user,
        app_kernel_insns=None if unknown else app.kernel + task_scan,
        mover_cpu_s=result["kthread_cpu_ns"].get(_MOVER, 0) / 1e9,
        mover_insns=None if unknown else counts.get(_MOVER, none).kernel,
        unknown=unknown,
    )

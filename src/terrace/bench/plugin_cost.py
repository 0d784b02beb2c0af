# SPDX-License-Identifier: GPL-2.0
"""Cost of the timing plugin: host CPU time of the same guest with and without it.

python -m terrace.bench.plugin_cost [--json] [--repeat N] [WORKLOAD…]

Each load runs on dram-cxl under -icount: without a plugin, with a count of instructions, and with
the timing model. A minimal load does the same; its time (boot, first touches) is subtracted. CPU
time of the QEMU process does not depend on other load of the host, except through caches.
"""

import argparse
import json
import resource
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from terrace.errors import TerraceError
from terrace.kernel.build import build
from terrace.lab.plugin import TimingOptions, compile_plugin, counter_argument, read_symbols, timing_argument
from terrace.lab.run import choose_topology, run_in_guest
from terrace.lab.workloads import find_workload

TOPOLOGY = "dram-cxl"
BUDGET = 3.5
# Enough work that booting is a small part, and little enough to finish soon: about 4e8
# instructions.
LOADS = {
    "abench": ("--size", "64M", "--threads", "2", "--iterations", "600"),
    "kvzipf": ("--size", "64M", "--threads", "2", "--iterations", "20"),
    "stream": ("--size", "48M", "--threads", "2", "--iterations", "40"),
}
_NEXT_TO_NOTHING = ("--iterations", "1")
_PLUGINS = ("none", "insn_count", "timing")


@dataclass(frozen=True)
class Cost:
    """Host CPU seconds of one load with each plugin, and their ratio to the run without one."""

    workload: str
    seconds: dict[str, float]
    boot_seconds: dict[str, float]

    def ratio(self, plugin: str = "timing") -> float:
        """Get the ratio to the run without a plugin, without boot."""
        plain = self.seconds["none"] - self.boot_seconds["none"]
        return (self.seconds[plugin] - self.boot_seconds[plugin]) / plain

    def whole_ratio(self, plugin: str = "timing") -> float:
        """Get the ratio with boot and first touches."""
        return self.seconds[plugin] / self.seconds["none"]


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(vmlinux: Path, plugin: str, words: Sequence[str]) -> float:
    """Measure the CPU seconds of one guest."""
    topology = choose_topology(TOPOLOGY)
    symbols = read_symbols(vmlinux)
    with tempfile.TemporaryDirectory(prefix="terrace-cost-") as folder:
        out = Path(folder) / "out.json"
        argument = None
        if plugin == "insn_count":
            argument = counter_argument(compile_plugin(plugin), symbols, out)
        elif plugin == "timing":
            options = TimingOptions(out)
            argument = timing_argument(compile_plugin(plugin), symbols, topology, options, Path(folder) / "machine")
        before = _children_cpu_s()
        guest = run_in_guest(vmlinux, topology, words, cwd="/", env={}, icount_shift=1, plugin=argument, timeout_s=900)
        if guest.exit_code:
            raise TerraceError(f"{words[0]}: {guest.explain() or guest.stderr.decode(errors='replace')}")
        return _children_cpu_s() - before


def measure(workload: str, vmlinux: Path, repeat: int = 1) -> Cost:
    """Run the load with every plugin, `repeat` times each; return medians."""
    program = str(find_workload(workload).compile())
    seconds: dict[str, float] = {}
    boot: dict[str, float] = {}
    for plugin in _PLUGINS:
        load = [program, *LOADS[workload]]
        seconds[plugin] = statistics.median(_run(vmlinux, plugin, load) for _ in range(repeat))
        boot[plugin] = statistics.median(_run(vmlinux, plugin, [*load, *_NEXT_TO_NOTHING]) for _ in range(repeat))
    return Cost(workload, seconds, boot)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the costs; return 1 if one exceeds the budget."""
    parser = argparse.ArgumentParser(prog="python -m terrace.bench.plugin_cost", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("workload", nargs="*", metavar="WORKLOAD", help=", ".join(LOADS))
    args = parser.parse_args(argv)
    vmlinux = build("terrace").vmlinux
    costs = [measure(name, vmlinux, args.repeat) for name in args.workload or LOADS]
    if args.json:
        rows = [{**asdict(c), "ratio": c.ratio(), "insn_count_ratio": c.ratio("insn_count")} for c in costs]
        print(json.dumps({"kind": "plugin_cost", "version": 1, "budget": BUDGET, "costs": rows}, indent=1))
    else:
        for cost in costs:
            print(
                f"{cost.workload:8} plain {cost.seconds['none']:6.1f} s  insn_count x{cost.ratio('insn_count'):.2f}  "
                f"timing x{cost.ratio():.2f} (with boot x{cost.whole_ratio():.2f})"
            )
    return int(any(cost.ratio() > BUDGET for cost in costs))


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: GPL-2.0
"""The runs that validate the timing model, and their measurement; published.py has the figures to
compare with.

One topology file for each machine named in the sources; no parameter differs between the runs of a
machine.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from terrace.bench.clock import clock_ratio
from terrace.bench.instruments import SHIFT
from terrace.bench.ledger import Kind, Region, read_ledger
from terrace.errors import TerraceError, UsageError
from terrace.kernel.build import build
from terrace.lab.initramfs import compile_static
from terrace.lab.plugin import TimingOptions, compile_plugin, read_symbols, timing_argument
from terrace.lab.run import choose_topology, run_in_guest
from terrace.lab.workloads import find_workload
from terrace.paths import repo_root
from terrace.words import did_you_mean

SCHEMA = "terrace.validate"
VERSION = 2
_WEIGHTS = "/sys/kernel/mm/mempolicy/weighted_interleave/node"
_TIMEOUT_S = 1200.0


@dataclass(frozen=True)
class Run:
    """One VM: a workload on a machine under a memory policy: "bind 0", "interleave 0,1", "weighted
    9,1", "range 9,1".

    "weighted" uses the global weights; "range" gives the workload's arrays their own weights, with
    all other memory on node 0, and needs the Terrace kernel.
    """

    name: str
    machine: str
    policy: str
    workload: str
    options: tuple[str, ...]

    @property
    def flavour(self) -> str:
        """Get the kernel it needs."""
        return "terrace" if self.policy.startswith("range") else "stock"


# Weights to try in addition to those of the sources, to find the best ones.
_SWEEP = ("4,1", "6,1", "8,1", "29,3", "11,1", "14,1", "20,1")
_STREAM = ("--size", "48M", "--threads", "2", "--pin", "--iterations", "3")
_MLC = ("--size", "48M", "--threads", "4", "--pin", "--iterations", "2", "--probe-size", "4M")
_XS = ("--size", "96M", "--threads", "2", "--pin", "--ops", "40000")
# Turns of an empty loop after each line, for the curve of latency over bandwidth.
DELAYS = (0, 3, 6, 10, 16, 24, 50, 150)


def _lines(delay: int) -> tuple[str, ...]:
    """Get the number of lines, smaller for longer delays: a point takes some ms of the prober
    (loaded_latency.py has the number of misses).
    """
    return ("--ops", str(3_600_000 // (1 + delay // 20)))


def _policies(first: str, machine: str, workload: str, options: tuple[str, ...], weights: str, nodes: str) -> list[Run]:
    slow = "1" if nodes == "0,1" else "1-4"
    kinds = {
        "dram": "bind 0",
        "cxl": f"bind {slow}" if slow == "1" else f"interleave {slow}",
        "interleave": f"interleave {nodes}",
        "weighted": f"weighted {weights}",
        "range": f"range {weights}",
    }
    return [Run(f"{first}-{kind}", machine, policy, workload, options) for kind, policy in kinds.items()]


RUNS: tuple[Run, ...] = (
    *_policies("stream", "seed-002-stream", "stream", _STREAM, "9,1", "0,1"),
    *(Run(f"sweep-{w.replace(',', '-')}", "seed-002-stream", f"range {w}", "stream", _STREAM) for w in _SWEEP),
    *_policies("mlc-w2", "seed-002-mlc", "mlc", (*_MLC, "--mix", "W2"), "13,1,1,1,1", "0-4"),
    *_policies("mlc-w5", "seed-002-mlc", "mlc", (*_MLC, "--mix", "W5"), "13,1,1,1,1", "0-4"),
    *_policies("xsbench", "seed-002-xsbench", "xslookup", _XS, "3,1", "0,1"),
    *(
        Run(
            f"curve-{delay}",
            "seed-002-mlc",
            "bind 0",
            "mlc",
            (*_MLC, "--mix", "R", "--delay", str(delay), *_lines(delay)),
        )
        for delay in DELAYS
    ),
)


Results = Mapping[str, Mapping[str, Any]]


def find_runs(names: Sequence[str]) -> list[Run]:
    """Get the runs of these names in the order of RUNS; all without names. Raises UsageError for an unknown name."""
    unknown = sorted(set(names) - {run.name for run in RUNS})
    if unknown:
        known = [run.name for run in RUNS]
        hint = did_you_mean(unknown[0], known)
        raise UsageError(f"there is no run '{unknown[0]}'; {hint}there are {', '.join(known)}")
    return [run for run in RUNS if not names or run.name in names]


def results_folder() -> Path:
    """Get the folder of the results."""
    return repo_root() / "bench" / "validate" / "results"


# ---- measuring ----


def _policy_words(policy: str) -> tuple[list[str], list[str]]:
    """Get the words before the program, and the program's options, for a policy."""
    mode, _, what = policy.partition(" ")
    if mode == "range":
        return ["bind", "0"], ["--weights", what]
    if mode != "weighted":
        return [mode, what], []
    weights = what.split(",")
    sets = [word for node, weight in enumerate(weights) for word in ("--set", f"{_WEIGHTS}{node}={weight}")]
    return [mode, f"0-{len(weights) - 1}"], sets


def measure(run: Run, vmlinux: Path) -> tuple[dict[str, Any], Region, Mapping[str, Any]]:
    """Get the workload's JSON, the region, and the machine's parameters. Raises TerraceError if the guest failed."""
    topology = choose_topology(run.machine)
    program = find_workload(run.workload).compile()
    before, behind = _policy_words(run.policy)
    words = [str(compile_static("withpolicy")), *before, str(program), *run.options, *behind]
    words += ["--set", "/proc/sys/kernel/numa_balancing=0"]
    with tempfile.TemporaryDirectory(prefix="terrace-validate-") as folder:
        ledger = Path(folder) / "ledger.json"
        plugin = timing_argument(
            *(compile_plugin("timing"), read_symbols(vmlinux), topology, TimingOptions(ledger, drives=True)),
            Path(folder) / "machine",
        )
        guest = run_in_guest(
            vmlinux, topology, words, cwd="/", env={}, icount_shift=SHIFT, plugin=plugin, timeout_s=_TIMEOUT_S
        )
        if guest.exit_code:
            said = guest.explain() or guest.stderr.decode(errors="replace")
            raise TerraceError(f"{run.name}: {said.strip() or f'exit code {guest.exit_code}'}")
        result = read_ledger(ledger)
    return json.loads(guest.stdout), result.region(), result.machine


def _summary(region: Region) -> dict[str, Any]:
    """Get the values of a region that the table needs, and those that explain them."""
    probe = region.vcpus[-1].kinds.get("app")
    return {
        "modelled_ns": region.modelled_ns,
        "guest_insns": region.guest_insns,
        "nodes": {str(number): asdict(node) for number, node in region.nodes.items()},
        "app_insns": region.app.user.insns,
        "app_llc_miss": region.app.user.llc_miss,
        "app_stlb_miss": region.app.user.stlb_miss,
        "cpu_app_ns": [vcpu.kinds.get("app", Kind()).both.time_ns for vcpu in region.vcpus],
        "last_cpu_app": {
            "insns": probe.user.insns if probe else 0,
            "llc_miss": probe.user.llc_miss if probe else 0,
            "memory_stall_ns": sum(t.stall_ns for t in probe.user.tiers.values()) if probe else 0.0,
        },
    }


def is_finished(run: Run, folder: Path) -> bool:
    """Whether there is a result of this very run, with the same options."""
    path = folder / f"{run.name}.json"
    return path.exists() and _read(path)["run"] == json.loads(json.dumps(asdict(run)))


def run_and_write(run: Run, folder: Path, flavour: str) -> Path:
    """Measure, again with a suitable shift if the first one did not fit, and write the result."""
    kernel = build(flavour)
    workload, region, machine = measure(run, kernel.vmlinux)
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "run": asdict(run),
        "kernel": {"flavour": kernel.flavour, "version": kernel.version, "config_hash": kernel.config_hash},
        "machine": machine,
        "clock_ratio": clock_ratio(workload["elapsed_ns"], region.modelled_ns + region.all_idle_ns),
        "skew_us": region.skew_ns / 1e3,
        "workload": {k: v for k, v in workload.items() if k in ("workload", "ops", "kernels", "traffic", "ok")},
        "region": _summary(region),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.name}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def read_results(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Read all results by run name. Raises UsageError for a file of another schema."""
    found = [_read(path) for path in sorted((folder or results_folder()).glob("*.json"))]
    return {document["run"]["name"]: document for document in found}


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(document, dict) or (document.get("schema"), document.get("version")) != (SCHEMA, VERSION):
        raise UsageError(f"{path}: not a {SCHEMA} of version {VERSION}")
    return document

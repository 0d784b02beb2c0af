# SPDX-License-Identifier: GPL-2.0
"""The timing model against published figures.

    python -m terrace.bench.validate run [RUN…]    measure (each run is a VM; finished ones are kept, --again repeats)
    python -m terrace.bench.validate table         the table, from bench/validate/results alone

One topology file for each machine named in the sources; no parameter differs between the rows of a machine. Rows marked
`calibrated` are those from which the machine's unpublished bandwidth was taken: they show that the model reproduces its
own input, the other rows are predictions.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
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
from terrace.output import say
from terrace.paths import repo_root
from terrace.policy.weights import weights_of

SCHEMA = "terrace.validate"
VERSION = 2
_WEIGHTS = "/sys/kernel/mm/mempolicy/weighted_interleave/node"
_TIMEOUT_S = 1200.0


@dataclass(frozen=True)
class Run:
    """One VM: a workload on a machine under a memory policy: "bind 0", "interleave 0,1", "weighted 9,1", "range 9,1".

    A weighted one uses the weights that hold for everybody; "range" gives the workload's arrays weights of their own,
    with all else on node 0, and needs our kernel.
    """

    name: str
    machine: str
    policy: str
    workload: str
    options: tuple[str, ...]

    @property
    def flavour(self) -> str:
        """The kernel it needs."""
        return "terrace" if self.policy.startswith("range") else "stock"


# Weights that are tried beside those of the sources, to find the best ones.
_SWEEP = ("4,1", "6,1", "8,1", "29,3", "11,1", "14,1", "20,1")
_STREAM = ("--size", "48M", "--threads", "2", "--pin", "--iterations", "3")
_MLC = ("--size", "48M", "--threads", "4", "--pin", "--iterations", "2", "--probe-size", "4M")
_XS = ("--size", "96M", "--threads", "2", "--pin", "--ops", "40000")
# Turns of an empty loop behind each line, for the curve of latency over bandwidth.
_DELAYS = (0, 3, 6, 10, 16, 24, 50, 150)


def _lines(delay: int) -> tuple[str, ...]:
    """Fewer where each takes longer."""
    return ("--ops", str(600_000 // (1 + delay // 20)))


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
        for delay in _DELAYS
    ),
)


def results_folder() -> Path:
    """Where the results are."""
    return repo_root() / "bench" / "validate" / "results"


# ---- measuring ----


def _policy_words(policy: str) -> tuple[list[str], list[str]]:
    """Words before the program, and options of the program, for a policy."""
    mode, _, what = policy.partition(" ")
    if mode == "range":
        return ["bind", "0"], ["--weights", what]
    if mode != "weighted":
        return [mode, what], []
    weights = what.split(",")
    sets = [word for node, weight in enumerate(weights) for word in ("--set", f"{_WEIGHTS}{node}={weight}")]
    return [mode, f"0-{len(weights) - 1}"], sets


def measure(run: Run, vmlinux: Path) -> tuple[dict[str, Any], Region, Mapping[str, Any]]:
    """The workload's JSON, the region, and the machine's parameters. Raises TerraceError when the guest failed."""
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
    """What the table needs of a region, and what says why."""
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


def run_and_write(run: Run, folder: Path, flavour: str) -> Path:
    """Measure, again with the shift that fits when the first one did not, and write the result."""
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
    """All results by the name of their run. Raises UsageError for a file of another schema."""
    results = {}
    for path in sorted((folder or results_folder()).glob("*.json")):
        try:
            document = json.loads(path.read_text())
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from error
        if not isinstance(document, dict) or (document.get("schema"), document.get("version")) != (SCHEMA, VERSION):
            raise UsageError(f"{path}: not a {SCHEMA} of version {VERSION}")
        results[document["run"]["name"]] = document
    return results


# ---- figures ----

Results = Mapping[str, Mapping[str, Any]]


def _cores(result: Mapping[str, Any]) -> float:
    return float(result["machine"]["cores_per_cpu"])


def _bus_rate(result: Mapping[str, Any]) -> float:
    """GB/s of mlc's generators, in time of their own CPUs.

    The prober has the last CPU. Under -icount each CPU executes as many instructions as any other, and those of a
    prober take longest: its clock is far ahead when the generators end.
    """
    traffic = result["workload"]["traffic"]
    moved = traffic["bytes_read"] + traffic["bytes_written"]
    return float(moved * _cores(result) / max(result["region"]["cpu_app_ns"][:-1]))


def _stream_rate(result: Mapping[str, Any]) -> float:
    """GB/s as Stream counts them."""
    # Each of the four kernels names 2, 2, 3 and 3 arrays of a third of the arena; `ops` times.
    size = next(v for k, v in zip(_STREAM[::2], _STREAM[1::2], strict=False) if k == "--size")
    arrays = (int(size.rstrip("M")) << 20) / 3
    counted = 10 * arrays * int(result["workload"]["ops"])
    return float(counted * _cores(result) / result["region"]["modelled_ns"])


def _time(result: Mapping[str, Any]) -> float:
    return float(result["region"]["modelled_ns"])


@dataclass(frozen=True)
class Row:
    """One line of the table: a published figure and ours. `error` is the difference in `unit`, or in percent of it."""

    what: str
    machine: str
    published: str
    modelled: str
    error: str
    calibrated: bool
    note: str = ""


@dataclass(frozen=True)
class _Published:
    """A published figure: `low` to `high` where a range was given."""

    what: str
    machine: str
    unit: str
    low: float
    high: float
    needs: tuple[str, ...]
    value: Callable[[Results], float]
    calibrated: bool = False
    note: str = ""

    def row(self, results: Results) -> Row | None:
        if any(name not in results for name in self.needs):
            return None
        got = self.value(results)
        near = min(max(got, self.low), self.high)
        if self.unit == "%":
            error = "within" if got == near else f"{got - near:+.0f} points"
        else:
            error = "within" if got == near else f"{(got / near - 1) * 100:+.1f} %"
        sign = "+" if self.unit == "%" else ""
        said = f"{self.low:{sign}g}" + (f" to {self.high:{sign}g}" if self.high != self.low else "")
        return Row(
            self.what,
            self.machine,
            f"{said} {self.unit}",
            f"{got:{sign}.1f} {self.unit}",
            error,
            self.calibrated,
            self.note,
        )


def _percent(one: str, other: str, figure: Callable[[Mapping[str, Any]], float]) -> Callable[[Results], float]:
    """By how many percent the first run's figure differs from the second's."""
    return lambda results: (figure(results[one]) / figure(results[other]) - 1) * 100


def _rate_of(name: str, figure: Callable[[Mapping[str, Any]], float]) -> Callable[[Results], float]:
    return lambda results: figure(results[name])


_S, _M, _X = "seed-002-stream", "seed-002-mlc", "seed-002-xsbench"
_STREAM_NOTE = "mean over the four kernels, weighted by time"
_SUM_NOTE = (
    "not reproduced. Published is more than DRAM alone plus all that expanders gave under default interleave, which "
    "one bandwidth a node cannot give (+30 % at best); the rest is ours and not understood. Not yet tested: that "
    "generators and prober execute as many instructions under -icount, so that their clocks drift apart, and traffic "
    "is counted over different times"
)
_MIX_NOTE = "generators alone, in time of their own CPUs; not within 5 %; see the weighted rows"
_XS_NOTE = (
    "the order is right, the size is not: memory is less of a limit than in the published runs. Possible causes, none "
    "of them tested: of the machine's bandwidth only the ratio is published, and ours may be too high; or the modelled "
    "cores wait for too few misses at once"
)
_PUBLISHED: tuple[_Published, ...] = (
    _Published("Stream, DRAM only", _S, "GB/s", 205.1, 205.1, ("stream-dram",), _rate_of("stream-dram", _stream_rate),
               True, _STREAM_NOTE),
    _Published("Stream, CXL only", _S, "GB/s", 23.4, 23.4, ("stream-cxl",), _rate_of("stream-cxl", _stream_rate),
               True, _STREAM_NOTE),
    _Published("Stream, default interleave against DRAM", _S, "%", -78, -78, ("stream-interleave", "stream-dram"),
               _percent("stream-interleave", "stream-dram", _stream_rate)),
    _Published("Stream, weighted 9:1 against DRAM", _S, "%", -6, 4, ("stream-weighted", "stream-dram"),
               _percent("stream-weighted", "stream-dram", _stream_rate)),
    _Published("Stream, weights 9:1 of its arrays alone (mbind2) against DRAM", _S, "%", 2.5, 4,
               ("stream-range", "stream-dram"), _percent("stream-range", "stream-dram", _stream_rate)),
    _Published("MLC W2, DRAM only", _M, "GB/s", 298.8, 298.8, ("mlc-w2-dram",),
               _rate_of("mlc-w2-dram", _bus_rate), True, _MIX_NOTE),
    _Published("MLC W5, DRAM only", _M, "GB/s", 273.2, 273.2, ("mlc-w5-dram",),
               _rate_of("mlc-w5-dram", _bus_rate), True, _MIX_NOTE),
    _Published("MLC W2, default interleave", _M, "GB/s", 113.04, 113.04, ("mlc-w2-interleave",),
               _rate_of("mlc-w2-interleave", _bus_rate), True, _MIX_NOTE),
    _Published("MLC W5, default interleave", _M, "GB/s", 117.23, 117.23, ("mlc-w5-interleave",),
               _rate_of("mlc-w5-interleave", _bus_rate), True, _MIX_NOTE),
    _Published("MLC W2, weighted against DRAM", _M, "%", 38, 38, ("mlc-w2-weighted", "mlc-w2-dram"),
               _percent("mlc-w2-weighted", "mlc-w2-dram", _bus_rate), note=_SUM_NOTE),
    _Published("MLC W5, weighted against DRAM", _M, "%", 40, 40, ("mlc-w5-weighted", "mlc-w5-dram"),
               _percent("mlc-w5-weighted", "mlc-w5-dram", _bus_rate), note=_SUM_NOTE),
    _Published("XSBench run time, default interleave against DRAM", _X, "%", 52.5, 52.5,
               ("xsbench-interleave", "xsbench-dram"),
               _percent("xsbench-interleave", "xsbench-dram", _time), True, _XS_NOTE),
    _Published("XSBench run time, weighted against default interleave", _X, "%", -47, -47,
               ("xsbench-weighted", "xsbench-interleave"),
               _percent("xsbench-weighted", "xsbench-interleave", _time), note=_XS_NOTE),
    _Published("XSBench run time, weighted against DRAM", _X, "%", -19, -19, ("xsbench-weighted", "xsbench-dram"),
               _percent("xsbench-weighted", "xsbench-dram", _time), note=_XS_NOTE),
)  # fmt: skip


@dataclass(frozen=True)
class CurvePoint:
    """Latency of the prober, in idle latencies, at a share of the sustained bandwidth."""

    delay: int
    utilisation: float
    latency: float


def curve(results: Results) -> list[CurvePoint]:
    """The latency-bandwidth curve as a chain of pointers met it in the guest, by rising utilisation."""
    points = []
    for delay in _DELAYS:
        result = results.get(f"curve-{delay}")
        if not result:
            continue
        prober = result["region"]["last_cpu_app"]
        idle = next(a["latency_ps"] for a in result["machine"]["accesses"] if a["from"] == 0 and a["to"] == 0) / 1000
        mean = prober["memory_stall_ns"] / prober["llc_miss"] / idle if prober["llc_miss"] else 0.0
        points.append(CurvePoint(delay, result["region"]["nodes"]["0"]["utilisation_mean"], mean))
    return sorted(points, key=lambda point: point.utilisation)


_CURVE_NOTE = (
    "the rows are checked against the curve that the model was given, in the guest; no point is above 80 % of the "
    "bandwidth, and those of 40 to 80 % are wrong. A guess, not tested: the prober's clock runs ahead of the "
    "generators'"
)


def _curve_rows(results: Results) -> list[Row]:
    points = curve(results)
    name = "Latency over bandwidth"
    rows = []

    def add(what: str, published: str, chosen: list[CurvePoint], good: Callable[[float], bool]) -> None:
        if not chosen:
            return
        low, high = min(p.latency for p in chosen), max(p.latency for p in chosen)
        got = f"{low:.2f} to {high:.2f} x idle, at {chosen[0].utilisation:.0%} to {chosen[-1].utilisation:.0%}"
        verdict = "within" if good(high) and low > 0.9 else "outside"
        rows.append(Row(f"{name}: {what}", _M, published, got, verdict, True, _CURVE_NOTE))

    flat = [p for p in points if p.utilisation <= 0.4]
    middle = [p for p in points if 0.4 < p.utilisation <= 0.8]
    steep = [p for p in points if p.utilisation > 0.8]
    add("up to 40 % of sustained", "fairly constant", flat, lambda high: high < 1.1)
    add("40 to 80 %", "grows almost linearly", middle, lambda high: 1 < high < 2)
    add("80 to 100 %", "as much as twice the idle latency or more", steep, lambda high: high >= 2)
    return rows


def validation_table(results: Results) -> list[Row]:
    """The rows for which there are results."""
    rows = [row for row in (published.row(results) for published in _PUBLISHED) if row]
    return rows + _curve_rows(results)


# ---- placements ----

PLACEMENTS = {
    "dram": "DRAM only",
    "cxl": "CXL only",
    "interleave": "default interleave",
    "weighted": "global weights",
    "range": "weights of its arrays (mbind2)",
}


@dataclass(frozen=True)
class _Compared:
    """A load whose placements are compared: `speed` and the `published` figures are more where it is better."""

    what: str
    runs: str
    weights: str
    speed: Callable[[Mapping[str, Any]], float]
    published: Mapping[str, float]


# Stream's are means of its four kernels in MB/s, MLC's are GB/s, XS lookup's are lookups a second.
_COMPARED = (
    _Compared("Stream", "stream", "9:1", _stream_rate,
              {"dram": 205110.8, "cxl": 23350.4, "interleave": 46694.0, "weighted": 204367.9, "range": 212058.9}),
    _Compared("MLC W2", "mlc-w2", "13:1:1:1:1", _bus_rate, {"dram": 298.8, "interleave": 113.04, "weighted": 412.5}),
    _Compared("MLC W5", "mlc-w5", "13:1:1:1:1", _bus_rate, {"dram": 273.2, "interleave": 117.23, "weighted": 382.7}),
    _Compared("XS lookup", "xsbench", "3:1", lambda result: 1 / _time(result),
              {"dram": 4691618, "interleave": 3077293, "weighted": 5809513}),
)  # fmt: skip


def placement_lines(results: Results) -> list[str]:
    """The speed of each load under each placement in percent of DRAM only, the published one in parentheses."""
    lines = [f"| Load | Weights | {' | '.join(PLACEMENTS.values())} |", f"| {' | '.join(['---'] * 7)} |"]
    for load in _COMPARED:
        base = results.get(f"{load.runs}-dram")
        if not base:
            continue
        cells = []
        for kind in PLACEMENTS:
            found = results.get(f"{load.runs}-{kind}")
            said = f" ({load.published[kind] / load.published['dram'] * 100:.1f})" if kind in load.published else ""
            cells.append((f"{load.speed(found) / load.speed(base) * 100:.1f}" if found else "-") + said)
        lines.append(f"| {load.what} | {load.weights} | {' | '.join(cells)} |")
    return lines if len(lines) > 2 else []


def automatic_weights(machine: str) -> tuple[int, ...]:
    """What `terrace exec --weights firmware` gives on a machine, from the bandwidths its HMAT tells."""
    topology = choose_topology(machine)
    known = {access.target: access.bandwidth for access in topology.accesses if access.source == 0}
    weights = weights_of({node: bandwidth // 1_000_000 for node, bandwidth in known.items()})
    return tuple(weights[node] for node in sorted(weights))


def sweep_lines(results: Results) -> list[str]:
    """Stream's rate by the weights of its arrays, and how near the automatic ones come to the best."""
    ratios = {run.policy.partition(" ")[2]: run.name for run in RUNS if run.policy.startswith("range")}
    chosen = {text: name for text, name in ratios.items() if name.startswith(("sweep", "stream")) and name in results}
    if len(chosen) < 3:
        return []
    rates = {text: _stream_rate(results[name]) for text, name in chosen.items()}
    best = max(rates.values())
    auto = ",".join(map(str, automatic_weights("seed-002-stream")))
    lines = ["| Weights | Stream, GB/s | of the best |", "| --- | --- | --- |"]
    for text, rate in sorted(rates.items(), key=lambda pair: _ratio(pair[0])):
        mark = " (automatic)" if text == auto else ""
        lines.append(f"| {text.replace(',', ':')}{mark} | {rate:.1f} | {rate / best * 100:.1f} % |")
    return lines


def _ratio(text: str) -> float:
    first, second = map(int, text.split(","))
    return first / second


def table_text(rows: Sequence[Row]) -> str:
    """The table in Markdown."""
    lines = ["| Figure | Machine | Published | Modelled | Error | |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        kind = "calibrated" if row.calibrated else "predicted"
        lines.append(f"| {row.what} | `{row.machine}` | {row.published} | {row.modelled} | {row.error} | {kind} |")
    notes = dict.fromkeys(row.note for row in rows if row.note)
    for note in notes:
        of = "; ".join(row.what for row in rows if row.note == note)
        lines += ["", f"{of}: {note}."]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m terrace.bench.validate", description=__doc__)
    parser.add_argument("verb", choices=("run", "table"))
    parser.add_argument("name", nargs="*", metavar="RUN", help="; ".join(run.name for run in RUNS))
    parser.add_argument("--again", action="store_true", help="repeat finished runs")
    parser.add_argument("--kernel", help="flavour (stock; terrace for weights of a range)")
    args = parser.parse_args(argv)
    if args.verb == "table":
        print(table_text(validation_table(read_results())), end="")
        return 0
    unknown = sorted(set(args.name) - {run.name for run in RUNS})
    if unknown:
        raise UsageError(f"there is no run '{unknown[0]}'; there are {', '.join(run.name for run in RUNS)}")
    for run in RUNS:
        done = (results_folder() / f"{run.name}.json").exists()
        if (args.name and run.name not in args.name) or (done and not args.again):
            continue
        say(f"terrace: {run_and_write(run, results_folder(), args.kernel or run.flavour)}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TerraceError as error:
        sys.exit(f"validate: {error}")

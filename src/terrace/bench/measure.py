# SPDX-License-Identifier: GPL-2.0
"""Measure one guest and return its document. A worker may be on any machine; a failure is a document as well."""

import json
import subprocess
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from terrace.bench import loads, phases
from terrace.bench.cells import Cell
from terrace.bench.clock import require_right_clock
from terrace.bench.figures import figures_of, printed
from terrace.bench.instruments import SHIFT, Instrument, require_instruments
from terrace.bench.ledger import APP
from terrace.bench.policies import EVEN, POLICIES, machine_kind
from terrace.bench.proof import Evidence, require_acted
from terrace.bench.reading import Reading
from terrace.bench.store import FAILED, OK, SCHEMA, VERSION
from terrace.errors import TerraceError
from terrace.kernel.build import Kernel, build
from terrace.lab.counts import impossible
from terrace.lab.machine import QEMU
from terrace.lab.qemu import require_qemu
from terrace.lab.run import GuestResult, run_in_guest
from terrace.paths import build_dir

PAGE = 4096
TIMEOUT_S = 1200.0


@dataclass(frozen=True)
class Job:
    """All that a worker needs. `placement` is the oracle's text; a `profile` run answers with one's raw material."""

    cell: Cell
    kernel_hash: str
    fingerprint: str
    profile: bool = False
    placement: str | None = None


def measure(job: Job) -> dict[str, Any]:
    """The cell's document; `status` is `ok` or `failed`, `error` has the reason of a failure."""
    began = time.monotonic()
    try:
        found = _measure(job)
    except TerraceError as error:
        found = {"status": FAILED, "error": str(error)}
    except (KeyError, TypeError, ValueError) as error:
        found = {"status": FAILED, "error": f"{job.cell.workload}: unexpected output: {error!r}"}
    return {**_head(job), **found, "host_s": round(time.monotonic() - began, 1)}


def _head(job: Job) -> dict[str, Any]:
    cell = job.cell
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "experiment": cell.experiment,
        "cell": cell.name,
        "fingerprint": job.fingerprint,
        "key": cell.key(),
    }


def _measure(job: Job) -> dict[str, Any]:
    cell = job.cell
    require_instruments()
    kernel = build(cell.flavour)
    if kernel.content_hash != job.kernel_hash:
        raise TerraceError(
            f"this worker's {cell.flavour} kernel is {kernel.content_hash}, the experiment's is {job.kernel_hash}: "
            "bring its checkout to the same commit"
        )
    machine = cell.machine()
    with tempfile.TemporaryDirectory(prefix="terrace-bench-") as name:
        folder = Path(name)
        # The guest's root reads what others may read.
        folder.chmod(0o755)
        instrument = Instrument(kernel, machine, folder, job.profile)
        command = loads.words(cell, loads.compile_for(cell), _place_file(folder, job.placement))
        guest = run_in_guest(
            kernel.vmlinux,
            machine,
            command,
            cwd="/",
            env={},
            icount_shift=SHIFT,
            plugin=instrument.argument,
            timeout_s=TIMEOUT_S,
        )
        result = _result(guest)
        reading = instrument.read()
        extra: dict[str, Any] = {}
        if job.profile:
            extra = {"accesses": instrument.accesses(cell.size // PAGE)}
        # Paths of the checkout and of the scratch folder have no meaning in a result.
        shown = loads.describe(command, (build_dir(), folder))
    return {**_document(job, kernel, shown, result, reading), **extra}


def _place_file(folder: Path, placement: str | None) -> Path | None:
    if placement is None:
        return None
    path = folder / "place"
    path.write_text(placement)
    return path


def _result(guest: GuestResult) -> dict[str, Any]:
    """The JSON object that the workload printed. Raises TerraceError when the workload or the kernel failed."""
    said = guest.stderr.decode(errors="replace").strip()
    if guest.exit_code:
        raise TerraceError(guest.explain() or said or f"exit code {guest.exit_code}")
    if guest.reports:
        titles = "; ".join(report.title for report in guest.reports)
        raise TerraceError(f"the kernel reported {titles}")
    try:
        result = json.loads(guest.stdout)
    except ValueError as error:
        raise TerraceError(f"the workload printed no JSON: {guest.stdout[:200]!r}") from error
    if not isinstance(result, dict):
        raise TerraceError(f"the workload printed no JSON object: {guest.stdout[:200]!r}")
    return result


def _document(job: Job, kernel: Kernel, command: str, result: dict[str, Any], reading: Reading) -> dict[str, Any]:
    if why := impossible(reading.kinds, busy=APP):
        raise TerraceError(f"counts: {why}")
    policy = POLICIES[job.cell.policy]
    out = printed(result)
    figures = figures_of(policy, job.cell.dram, out, reading)
    require_right_clock(figures["clock_ratio"])
    machine = job.cell.machine()
    require_acted(policy.name, Evidence(out.vmstat, figures, _pages_by_node(result, len(machine.nodes))))
    even = machine_kind(machine) == EVEN
    rest = {
        name: value
        for name, value in result.items()
        if name not in ("schema", "version", "samples", "vmstat", "threads")
    }
    return {
        "status": OK,
        "kernel": {
            "flavour": kernel.flavour,
            "version": kernel.version,
            "content_hash": kernel.content_hash,
            "config_hash": kernel.config_hash,
            "source_hash": kernel.source_hash,
        },
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "topology": machine.name,
            "memory": [node.memory for node in machine.nodes],
            "cpus": machine.cpus,
            **({} if machine.model.cores_per_cpu == 1 else {"cores_per_cpu": machine.model.cores_per_cpu}),
            "qemu": qemu_version(),
        },
        "command": command,
        "figures": figures,
        **({"phases": phases.figures(result, reading.phases)} if job.cell.burst else {}),
        "timeline_ms_share": [] if even else out.samples,
        "series_ms_fast_slow": reading.series,
        "vmstat": {name: value for name, value in out.vmstat.items() if value},
        "ledger": reading.ledger,
        "workload": rest,
    }


def _pages_by_node(result: dict[str, Any], nodes: int) -> list[int]:
    """Number of the load's pages on each node at the end."""
    placed = result["placed_last"]["by_node"]
    return [int(placed.get(str(node), 0)) for node in range(nodes)]


@cache
def qemu_version() -> str:
    """Version of the installed QEMU, from --version."""
    require_qemu()
    done = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=False)
    words = done.stdout.partition("\n")[0].split()
    return words[words.index("version") + 1] if "version" in words else "unknown"

# SPDX-License-Identifier: GPL-2.0
"""The same experiment gives the same counts and the same modelled time in each QEMU that Debian's releases have."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import other_qemu
import pytest
import test_timing
from test_timing import Timed

from terrace.demo import cases
from terrace.demo.runner import Outcome, run_cases
from terrace.kernel.build import Kernel
from terrace.lab.emulator import find_emulator

# One pinned thread and no samples: where the scheduler puts a second one is chance, and up to 2 % of the time.
WORK = ("--threads", "1", "--iterations", "512", "--write-percent", "0", "--sample-ms", "1000")
LOAD = cases.Workload(16 << 20, threads=2)
TOLERANCE = 0.01


@dataclass(frozen=True)
class Measured:
    """One QEMU: the runs on either node with a clock that the model drives, and one of the demo's cases."""

    version: tuple[int, ...]
    timed: dict[str, Timed]
    counted: Outcome


def measure(vmlinux: Path, folder: Path) -> Measured:
    timed = {}
    for node in ("0", "1"):
        (folder / node).mkdir()
        timed[node] = test_timing.run(vmlinux, folder / node, "--start-node", node, *WORK, drives=True)
    kernel = Kernel(vmlinux, vmlinux, "", "", "terrace", "", "")
    case = next(case for case in cases.MAIN if case.name == "stock-0")
    (counted,) = run_cases([case], LOAD, {case.flavour: kernel}, "abench")
    return Measured(find_emulator().version, timed, counted)


@pytest.fixture(scope="module")
def installed(vmlinux: Path, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """The QEMU of this host."""
    return measure(vmlinux, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module", params=list(other_qemu.RELEASES))
def other(
    request: pytest.FixtureRequest, vmlinux: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Measured]:
    """The QEMU of a release of Debian."""
    folder = other_qemu.folder_of(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        found = measure(vmlinux, tmp_path_factory.mktemp(request.param))
        assert found.version[:2] >= other_qemu.RELEASES[request.param]
        yield found


@pytest.mark.parametrize("node", ["0", "1"])
def test_the_same_experiment_takes_the_same_modelled_time(installed: Measured, other: Measured, node: str) -> None:
    ours, theirs = installed.timed[node].region, other.timed[node].region
    assert theirs.modelled_ns == pytest.approx(ours.modelled_ns, rel=TOLERANCE)
    assert theirs.app.both.time_ns == pytest.approx(ours.app.both.time_ns, rel=TOLERANCE)
    assert test_timing.is_right(other.timed[node])


@pytest.mark.parametrize("node", ["0", "1"])
def test_accesses_are_on_the_node_of_their_pages(installed: Measured, other: Measured, node: str) -> None:
    ours, theirs = installed.timed[node].region.app.user, other.timed[node].region.app.user
    assert sum(vcpu.untranslated for vcpu in other.timed[node].region.vcpus) == 0
    assert theirs.llc_miss == pytest.approx(ours.llc_miss, rel=TOLERANCE)
    assert theirs.tiers[int(node)].reads == pytest.approx(ours.tiers[int(node)].reads, rel=TOLERANCE)


def test_instructions_count_for_the_tasks_that_execute_them(installed: Measured, other: Measured) -> None:
    assert other.counted.figures.unknown == ""
    ours, theirs = installed.counted.counts["app"], other.counted.counts["app"]
    assert theirs.user == pytest.approx(ours.user, rel=TOLERANCE)
    visits = sum(thread["visits"] for thread in other.counted.result["threads"])
    assert theirs.user == pytest.approx(visits * cases.INSNS_PER_VISIT, rel=0.02)

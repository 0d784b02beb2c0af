# SPDX-License-Identifier: GPL-2.0
"""The capability of each test program, by its name, and the time of the programs of each capability."""

from collections.abc import Iterable
from dataclasses import dataclass

from terrace.output import format_duration
from terrace.testing.results import TestResult


@dataclass(frozen=True)
class Capability:
    """`title` is the capability's name, `programs` the prefixes of its test programs."""

    title: str
    programs: tuple[str, ...]


_PROMOTION = ("control_", "burst_", "promote_", "target_", "observe_", "race_", "mtier_", "server_", "churn")

#: Capabilities by the name of their folder in tests/mutants.
CAPABILITIES = {
    "mtier": Capability("promotion", _PROMOTION),
    "mempolicy2": Capability("memory policies", ("mempolicy2_",)),
    "tlb_defer": Capability("deferred flushes", ("tlb_defer_",)),
    "numa_scan": Capability("NUMA scans", ("numa_scan_",)),
    "follow": Capability("pages that follow", ("lazy_migrate_", "auto_migrate_", "fault_migrate")),
    "file_policy": Capability("file policies", ("file_policy",)),
}
#: Title for programs of several capabilities, and their prefixes, which take precedence.
SEVERAL = "several"
_ABOUT_SEVERAL = ("churn_all", "nomem_calls", "proc_exit", "follow_")


def capability_of(program: str) -> str:
    """Get the title of a program's capability, or SEVERAL."""
    if program.startswith(_ABOUT_SEVERAL):
        return SEVERAL
    return next((about.title for about in CAPABILITIES.values() if program.startswith(about.programs)), SEVERAL)


def time_of_each(results: Iterable[TestResult]) -> dict[str, float]:
    """Get the guest seconds of each capability's selftests, the longest first."""
    programs: dict[tuple[str, str], float] = {}
    for result in results:
        if result.group.startswith("selftest"):
            # One of its results has the time of the whole program, and one more if it failed as a
            # whole.
            key = result.group, result.name.partition(":")[0]
            programs[key] = max(programs.get(key, 0.0), result.seconds)
    took: dict[str, float] = {}
    for (_, program), seconds in programs.items():
        name = capability_of(program)
        took[name] = took.get(name, 0.0) + seconds
    return dict(sorted(took.items(), key=lambda pair: -pair[1]))


def describe_time(results: Iterable[TestResult]) -> str:
    """Format those times in a line; "" if no selftest ran."""
    took = time_of_each(results)
    return ", ".join(f"{name} {format_duration(seconds)}" for name, seconds in took.items() if seconds)

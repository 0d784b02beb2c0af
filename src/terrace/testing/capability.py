# SPDX-License-Identifier: GPL-2.0
"""Which capability a test program is about, by its name, and what the programs of each take."""

from collections.abc import Iterable

from terrace.output import format_duration
from terrace.testing.results import TestResult

#: Capabilities, each with how the names of its programs begin.
CAPABILITIES = {
    "promotion": ("control_", "promote_", "scan_", "hot_", "target_", "observe_", "race_", "mtier_", "churn"),
    "memory policies": ("mempolicy2_",),
    "deferred flushes": ("tlb_defer_",),
    "NUMA scans": ("numa_scan_",),
    "lazy migration": ("lazy_migrate_",),
    "automatic migration": ("auto_migrate_",),
    "migration on faults": ("fault_migrate",),
    "file policies": ("file_policy",),
}
#: What is about several of them.
SEVERAL = "several"


def capability_of(program: str) -> str:
    """The capability of a program, or SEVERAL."""
    return next((name for name, begins in CAPABILITIES.items() if program.startswith(begins)), SEVERAL)


def time_of_each(results: Iterable[TestResult]) -> dict[str, float]:
    """Seconds of guest time that the selftests of each capability took, the longest first."""
    programs: dict[tuple[str, str], float] = {}
    for result in results:
        if result.group.startswith("selftest"):
            # One of its results has the time of the whole program, and one more where it failed as a whole.
            key = result.group, result.name.partition(":")[0]
            programs[key] = max(programs.get(key, 0.0), result.seconds)
    took: dict[str, float] = {}
    for (_, program), seconds in programs.items():
        name = capability_of(program)
        took[name] = took.get(name, 0.0) + seconds
    return dict(sorted(took.items(), key=lambda pair: -pair[1]))


def describe_time(results: Iterable[TestResult]) -> str:
    """Those times in a line; "" when no selftest ran."""
    took = time_of_each(results)
    return ", ".join(f"{name} {format_duration(seconds)}" for name, seconds in took.items() if seconds)

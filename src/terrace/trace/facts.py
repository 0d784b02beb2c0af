# SPDX-License-Identifier: GPL-2.0
"""The facts of `terrace report` about a recording; in JSON they are the fields of docs/reference/report.md."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Moved:
    """Pages migrated by one kind of migration; ``batches`` and ``tried`` folios if the trace has
    them, otherwise None.
    """

    what: str
    pages: int
    bytes: int
    bytes_per_s: float
    batches: int | None = None
    tried: int | None = None


@dataclass(frozen=True)
class Check:
    """Number of pages in the trace, compared with the kernel's counters for the same time."""

    what: str
    trace_pages: int
    counted_pages: int
    #: They differ by no more than the migrations in progress at the start and at the end.
    agree: bool


@dataclass(frozen=True)
class Rates:
    """Pages migrated in each of the equal parts of the time."""

    part_s: float
    up: list[int]
    down: list[int]
    followed: list[int]


@dataclass(frozen=True)
class Route:
    """Pages from a node to a node; None: not in the trace."""

    way: str
    source: int | None
    target: int | None
    pages: int


@dataclass
class Process:
    """A process with migrated pages; ``pid`` 0: it has ended."""

    pid: int
    name: str
    cgroup: str | None
    up_pages: int = 0
    down_pages: int = 0
    #: Moved with the task, or by mbind().
    followed_pages: int = 0
    #: Migrated in hint faults of NUMA balancing.
    balanced_pages: int = 0
    #: Some batches also had pages of other processes; migrated pages are divided by folios.
    shared: bool = False
    node_bytes_before: dict[str, int] | None = None
    node_bytes_after: dict[str, int] | None = None

    @property
    def pages(self) -> int:
        """Get all migrated pages."""
        return self.up_pages + self.down_pages + self.followed_pages + self.balanced_pages


@dataclass(frozen=True)
class Group:
    """The kernel's counters of a control group and its descendants; None if not counted."""

    name: str
    promoted_pages: int | None
    demoted_pages: int | None
    node_bytes_before: dict[str, int] | None
    node_bytes_after: dict[str, int] | None


@dataclass(frozen=True)
class Wait:
    """Waiting times of pages: half of the pages waited no longer than ``p50_ns``, and so on."""

    what: str
    meaning: str
    pages: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    max_ns: int
    #: Waiting time and number of pages, by time, in at most `WAIT_STEPS` steps.
    distribution: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Reason:
    """A reason why pages did not migrate, with its count; ``group`` is its source."""

    group: str
    reason: str
    count: int
    unit: str
    meaning: str


@dataclass(frozen=True)
class Diagnosis:
    """A reason of `terrace status` why no pages migrate, and the end of the time at which it was found."""

    id: str
    severity: str
    message: str
    fix: str
    at_start: bool
    at_end: bool


@dataclass(frozen=True)
class Migration:
    """Pages migrated for a reason of the kernel's list (include/trace/events/migrate.h)."""

    reason: str
    moved_pages: int
    failed_pages: int


@dataclass(frozen=True)
class Bursts:
    """Bursts of scans."""

    count: int
    looks: int
    ranges: int
    spent_ns: int
    gain_ns: int
    #: Interval between two scans of the last burst.
    tau_ns: int


@dataclass(frozen=True)
class Flushes:
    """Migrated pages by the result of their TLB flush, and the interrupts that forced deferred flushes."""

    waited_pages: int
    #: No other CPU could have their translation.
    no_need_pages: int
    #: They could be deferred, and were merged into the flush of other pages.
    joined_pages: int
    refused_pages: int
    flushes: int
    interrupted_cpus: int


@dataclass(frozen=True)
class Scans:
    """Scans for hint faults, by context."""

    mode: str
    count: int
    entries: int
    updates: int
    p50_ns: int
    max_ns: int
    total_ns: int


@dataclass(frozen=True)
class WorkingSet:
    """The memory of a process in one tier that is accessed within a window, estimated from samples."""

    pid: int
    name: str
    tier: str
    #: Windows in which it was sampled, and pages scanned in all of them.
    samples: int
    looked_pages: int
    window_ns: int
    #: Medians: memory in all tiers, and memory of the tier that can be sampled.
    mapped_bytes: int
    present_bytes: int
    #: Bytes in use: at most ``p25_bytes`` for a quarter of the time, and so on.
    min_bytes: int
    p25_bytes: int
    p50_bytes: int
    p75_bytes: int
    max_bytes: int
    #: Standard error of an estimate, the median.
    error_bytes: int
    #: Bytes in use in each of the equal parts of the time; None: not sampled.
    over_time: list[int | None]


@dataclass(frozen=True)
class Summary:
    """The whole page."""

    kernel: str
    host: str
    started: str
    seconds: float
    command: list[str] | None
    exit_code: int | None
    page_bytes: int
    top_nodes: list[int]
    events: int
    lost_events: int
    strange_events: int
    checks: list[Check]
    moved: list[Moved]
    #: None: not in the recording.
    diagnosis: list[Diagnosis] | None
    rates: Rates
    routes: list[Route]
    processes: list[Process]
    cgroups: list[Group]
    waits: list[Wait]
    reasons: list[Reason]
    bursts: Bursts
    flushes: Flushes
    scans: list[Scans]
    migrations: list[Migration]
    #: The reason why no cgroup was counted; None if there is none.
    cgroups_problem: str | None = None
    #: The processes, and the cgroup, of the page; empty: all.
    pids: list[int] = field(default_factory=list)
    cgroup: str = ""
    working_sets: list[WorkingSet] = field(default_factory=list)
    #: The reason why there is no working set; None if there is one.
    working_sets_problem: str | None = None

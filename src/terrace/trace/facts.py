# SPDX-License-Identifier: GPL-2.0
"""What `terrace report` says of a recording, as data; as JSON these are the fields of docs/reference/report.md."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Moved:
    """Pages that moved one way; ``batches`` and ``tried`` folios where the trace tells of them, else None."""

    what: str
    pages: int
    bytes: int
    bytes_per_s: float
    batches: int | None = None
    tried: int | None = None


@dataclass(frozen=True)
class Check:
    """What the trace has, against what the kernel counted in the same time."""

    what: str
    trace_pages: int
    counted_pages: int
    #: They differ by no more than what was under way at the beginning and at the end.
    agree: bool


@dataclass(frozen=True)
class Rates:
    """Pages that moved in each of the equal parts of the time."""

    part_s: float
    up: list[int]
    down: list[int]
    followed: list[int]


@dataclass(frozen=True)
class Route:
    """Pages from a node to a node; None: the trace does not tell."""

    way: str
    source: int | None
    target: int | None
    pages: int


@dataclass
class Process:
    """Whose pages moved; ``pid`` 0 is nobody's any more."""

    pid: int
    name: str
    cgroup: str | None
    up_pages: int = 0
    down_pages: int = 0
    #: After the task, or after mbind() asked for it.
    followed_pages: int = 0
    #: In hint faults of NUMA balancing.
    balanced_pages: int = 0
    #: Some of the batches had pages of others, too, and what moved was shared out by folios.
    shared: bool = False
    node_bytes_before: dict[str, int] | None = None
    node_bytes_after: dict[str, int] | None = None

    @property
    def pages(self) -> int:
        """All of them."""
        return self.up_pages + self.down_pages + self.followed_pages + self.balanced_pages


@dataclass(frozen=True)
class Group:
    """What the kernel counted of a control group and those below it; None where it does not count."""

    name: str
    promoted_pages: int | None
    demoted_pages: int | None
    node_bytes_before: dict[str, int] | None
    node_bytes_after: dict[str, int] | None


@dataclass(frozen=True)
class Wait:
    """How long pages waited: half of them no longer than ``p50_ns``, and so on."""

    what: str
    meaning: str
    pages: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    max_ns: int
    #: Waiting time and how many pages had it, by time, in no more than `WAIT_STEPS` steps.
    distribution: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Reason:
    """Why pages did not move, and how often; ``group`` says who says so."""

    group: str
    reason: str
    count: int
    unit: str
    meaning: str


@dataclass(frozen=True)
class Diagnosis:
    """One reason why nothing moves, as `terrace status` reports it, and at which end of the time it was found."""

    id: str
    severity: str
    message: str
    fix: str
    at_start: bool
    at_end: bool


@dataclass(frozen=True)
class Migration:
    """Everything that the kernel migrated for a reason of its own list (include/trace/events/migrate.h)."""

    reason: str
    moved_pages: int
    failed_pages: int


@dataclass(frozen=True)
class Bursts:
    """Bursts of looks."""

    count: int
    looks: int
    ranges: int
    spent_ns: int
    gain_ns: int
    #: Time between two looks of the last one.
    tau_ns: int


@dataclass(frozen=True)
class Flushes:
    """Pages that moved, by what became of their TLB flush, and the interrupts that ended waiting before its time."""

    waited_pages: int
    #: No other CPU could have their translation.
    no_need_pages: int
    #: They could have waited, and went along with those that could not.
    joined_pages: int
    refused_pages: int
    flushes: int
    interrupted_cpus: int


@dataclass(frozen=True)
class Scans:
    """Scans for hint faults, by where they were done."""

    mode: str
    count: int
    entries: int
    updates: int
    p50_ns: int
    max_ns: int
    total_ns: int


@dataclass(frozen=True)
class WorkingSet:
    """The memory of a process in one tier that is accessed within a window, as the engine's samples estimate it."""

    pid: int
    name: str
    tier: str
    #: Windows in which it was sampled, and pages that were looked at in all of them.
    samples: int
    looked_pages: int
    window_ns: int
    #: Medians: memory in all tiers, and memory of the tier that samples can look at.
    mapped_bytes: int
    present_bytes: int
    #: Bytes in use: a quarter of the time no more than ``p25_bytes``, and so on.
    min_bytes: int
    p25_bytes: int
    p50_bytes: int
    p75_bytes: int
    max_bytes: int
    #: Standard error of an estimate, the median.
    error_bytes: int
    #: Bytes in use in each of the equal parts of the time; None: not sampled then.
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
    #: None: the recording does not have it.
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
    #: Why no cgroup was counted; None where they were.
    cgroups_problem: str | None = None
    #: The processes, and the cgroup, that the page is narrowed to; empty: all.
    pids: list[int] = field(default_factory=list)
    cgroup: str = ""
    working_sets: list[WorkingSet] = field(default_factory=list)
    #: Why there is no working set; None where there is one.
    working_sets_problem: str | None = None

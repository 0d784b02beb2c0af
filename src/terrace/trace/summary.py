# SPDX-License-Identifier: GPL-2.0
"""Compute the facts of the page from a recording. Pure: the result does not depend on the machine
it runs on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from terrace.ops.counters import BATCH_FOLIOS, DEMOTED, LOSSES, WHY
from terrace.trace import words
from terrace.trace.ends import FINE, JOINED, NO_NEED, WAITED, ends
from terrace.trace.facts import (
    Bursts,
    Check,
    Diagnosis,
    Flushes,
    Group,
    Migration,
    Moved,
    Process,
    Rates,
    Reason,
    Route,
    Scans,
    Summary,
    Wait,
)
from terrace.trace.lines import Event
from terrace.trace.moves import DOWN, FOLLOWED, UP, Move, Mover, quantile
from terrace.trace.only import Only, kept
from terrace.trace.store import Head, Recording
from terrace.trace.working import problem, working_sets

#: Number of parts of the time, and of steps of a distribution.
PARTS = 60
WAIT_STEPS = 48
#: Pages that may be in a counter and not in an event, or vice versa: one batch at each end.
MARGIN_PAGES = 2 * BATCH_FOLIOS
UNKNOWN = "a word that this tool does not know"

_PROMOTED = ("mtier_promoted_anon", "mtier_promoted_file", "mtier_promoted_shmem")
_WAITS = (
    (UP, "promoted", "since they were chosen to go up"),
    (DOWN, "demoted", "since they were chosen to make room"),
    (FOLLOWED, "followed", "since they were marked, until they were used"),
)


def summarize(recording: Recording, only: Only | None = None) -> Summary:
    """Compute the facts of the page; with ``only``, or for a recording of some processes, those of
    these processes.
    """
    head, events = recording.head, recording.events
    mover = Mover(head.tasks)
    moves = mover.moves(events)
    only = Only(frozenset(head.pids)) if not only and head.pids else only
    if only:
        chosen, tasks = only, head.tasks
        events = list(kept(events, lambda thread: chosen.wants(mover.process(thread), tasks)))
        head, moves = only.head(head), only.moves(moves, tasks)
    named = _by_name(events)
    used = working_sets(head, named.get("mtier_heat", []))
    return Summary(
        kernel=head.kernel,
        host=head.host,
        started=head.started,
        seconds=head.seconds,
        command=head.command,
        exit_code=head.exit_code,
        page_bytes=head.page_bytes,
        top_nodes=head.top_nodes,
        events=head.events,
        lost_events=head.lost,
        strange_events=head.strange,
        checks=_checks(head, moves, named),
        moved=_moved(head, moves),
        diagnosis=_diagnosis(head),
        rates=_rates(head.seconds, moves),
        routes=_routes(moves),
        processes=_processes(head, mover, moves, events),
        cgroups=_cgroups(head),
        waits=_waits(moves),
        reasons=_reasons(head, moves, named, events),
        bursts=_bursts(named.get("mtier_burst", [])),
        flushes=_flushes(events, named.get("tlb_defer_flush", [])),
        scans=_scans(named.get("numa_scan_end", [])),
        migrations=_migrations(named.get("mm_migrate_pages", [])),
        cgroups_problem=None if only and only.pids else head.cgroups_problem,
        pids=sorted(only.pids) if only else [],
        cgroup=only.cgroup if only else "",
        working_sets=used,
        working_sets_problem=problem(head, used),
    )


def _by_name(events: Iterable[Event]) -> dict[str, list[Event]]:
    named: dict[str, list[Event]] = {}
    for event in events:
        named.setdefault(event.name, []).append(event)
    return named


def _grown(head: Head, *names: str) -> int | None:
    """Get the growth of these counters together; None if the kernel has none of them."""
    if not any(name in head.counters_after for name in names):
        return None
    return sum(head.counters_after.get(name, 0) - head.counters_before.get(name, 0) for name in names)


def _pages(moves: Iterable[Move], way: str) -> int:
    return sum(move.pages for move in moves if move.way == way)


def _checks(head: Head, moves: Sequence[Move], named: dict[str, list[Event]]) -> list[Check]:
    migrated = sum(event.number("nr_succeeded") for event in named.get("mm_migrate_pages", []))
    wanted = (
        ("promoted by the engine", _pages(moves, UP), _PROMOTED, "mtier:mtier_migrate"),
        ("demoted by the engine", _pages(moves, DOWN), ("mtier_demoted",), "mtier:mtier_demote"),
        ("migrated for any reason", migrated, ("pgmigrate_success",), "migrate:mm_migrate_pages"),
    )
    return [
        Check(what, told, counted, abs(told - counted) <= MARGIN_PAGES)
        for what, told, names, event in wanted
        for counted in [_grown(head, *names)]
        if counted is not None and event in head.enabled
    ]


def _moved(head: Head, moves: Sequence[Move]) -> list[Moved]:
    def one(what: str, pages: int, batches: int | None = None, tried: int | None = None) -> Moved:
        size = pages * head.page_bytes
        return Moved(what, pages, size, round(size / head.seconds, 3), batches, tried)

    found = []
    for way, what in ((UP, "promoted by the engine"), (DOWN, "demoted by the engine")):
        batches = [move for move in moves if move.way == way]
        found.append(one(what, _pages(batches, way), len(batches), _tried(batches)))
    followed = [move for move in moves if move.way == FOLLOWED]
    found.append(one("followed their task", _pages(followed, FOLLOWED), len(followed)))
    # Promotions by mm/mtier have events of their own; all others are known from counters only.
    others = (_grown(head, "pgpromote_success") or 0) - (_grown(head, *_PROMOTED) or 0)
    found.append(one("promoted by others (counted)", max(0, others)))
    reclaimed = _grown(head, *(name for name in DEMOTED if name != "mtier_demoted")) or 0
    found.append(one("demoted by reclaim (counted)", max(0, reclaimed)))
    return found


def _diagnosis(head: Head) -> list[Diagnosis] | None:
    """Merge the findings of both ends, each once, those of the end first. The message of the end
    has the newer numbers.
    """
    if head.reasons_before is None or head.reasons_after is None:
        return None
    first, last = ({one.id: one for one in reasons} for reasons in (head.reasons_before, head.reasons_after))
    return [
        Diagnosis(one.id, one.severity, one.message, one.fix, one.id in first, one.id in last)
        for one in [*last.values(), *(one for one in first.values() if one.id not in last)]
    ]


def _tried(batches: Iterable[Move]) -> int | None:
    """Get the number of folios in batches; None if one of the batches does not have it."""
    numbers = [move.tried for move in batches]
    return None if None in numbers else sum(number for number in numbers if number is not None)


def _rates(seconds: float, moves: Iterable[Move]) -> Rates:
    part_s = seconds / PARTS
    rates = Rates(part_s, *([0] * PARTS for _ in range(3)))
    lists = {UP: rates.up, DOWN: rates.down, FOLLOWED: rates.followed}
    for move in moves:
        part = int(move.at_ns / 1e9 / part_s)
        lists[move.way][min(max(part, 0), PARTS - 1)] += move.pages
    return rates


def _routes(moves: Iterable[Move]) -> list[Route]:
    pages: Counter[tuple[str, int | None, int | None]] = Counter()
    for move in moves:
        pages[move.way, move.source, move.target] += move.pages
    return [Route(*route, count) for route, count in pages.most_common() if count]


def _processes(head: Head, mover: Mover, moves: Iterable[Move], events: Iterable[Event]) -> list[Process]:
    """List the processes with migrated pages, most first; for hint faults it is the thread that
    took them.
    """
    cgroup = {task.process: task.cgroup for task in head.tasks.values()}
    names = {task.process: task.name for task in head.tasks.values()}
    found: dict[int, Process] = {}

    def of(pid: int, name: str) -> Process:
        return found.setdefault(pid, Process(pid, names.get(pid, name), cgroup.get(pid)))

    for move in moves:
        for share in move.shares:
            own = of(share.pid, share.name)
            own.shared |= (move.others or len(move.shares) > 1) and share.pages > 0
            own.up_pages += share.pages * (move.way == UP)
            own.down_pages += share.pages * (move.way == DOWN)
            own.followed_pages += share.pages * (move.way == FOLLOWED)
    balanced: Counter[int] = Counter()
    for event in events:
        pid = mover.process(event.pid)
        if event.name == "mm_migrate_pages" and event.word("reason") == "numa_misplaced":
            balanced[pid] += event.number("nr_succeeded")
            of(pid, mover.name(event))
        elif event.name == "numa_follow_use" and event.word("verdict") == "moved":
            # These pages migrate in the same way, and have events already.
            balanced[pid] -= event.number("pages")
    for pid, pages in balanced.items():
        if pid in found:
            found[pid].balanced_pages = max(0, pages)
    _lie(found, head)
    return sorted((one for one in found.values() if one.pages), key=lambda one: (-one.pages, one.pid))


def _lie(found: dict[int, Process], head: Head) -> None:
    """Get the placement of these processes before and after, as far as it was read."""
    for one in head.processes_before:
        if one.pid in found:
            found[one.pid].node_bytes_before = one.nodes
    for one in head.processes_after:
        if one.pid in found:
            found[one.pid].node_bytes_after = one.nodes


def _cgroups(head: Head) -> list[Group]:
    """List the cgroups with migrated pages, most first."""
    before = {one.name: one for one in head.cgroups_before}
    found = []
    for now in head.cgroups_after:
        then = before.get(now.name)
        promoted = _more(now.promoted_pages, then.promoted_pages if then else 0)
        demoted = _more(now.demoted_pages, then.demoted_pages if then else 0)
        if promoted or demoted:
            found.append(Group(now.name, promoted, demoted, then.nodes if then else None, now.nodes))
    return sorted(found, key=lambda one: (-(one.promoted_pages or 0) - (one.demoted_pages or 0), one.name))


def _more(now: int | None, then: int | None) -> int | None:
    return None if now is None or then is None else max(0, now - then)


def _waits(moves: Sequence[Move]) -> list[Wait]:
    found = []
    for way, what, meaning in _WAITS:
        pages: Counter[int] = Counter()
        for move in moves:
            if move.way == way and move.waited_ns is not None and move.pages > 0:
                pages[move.waited_ns] += move.pages
        if pages:
            values = sorted(pages.items())
            p50, p90, p99 = (quantile(values, share) for share in (0.5, 0.9, 0.99))
            found.append(Wait(what, meaning, pages.total(), p50, p90, p99, values[-1][0], _steps(values)))
    return found


def _steps(values: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Compute how many events waited up to which time: steps of a constant factor, limited in
    number.
    """
    lowest, highest = max(values[0][0], 1), max(values[-1][0], 1)
    factor = max(math.log(highest / lowest) / (WAIT_STEPS - 1), math.log(2) / 4)
    steps: Counter[int] = Counter()
    for value, count in values:
        steps[math.ceil(math.log(max(value, 1) / lowest) / factor - 1e-9)] += count
    return [(round(lowest * math.exp(step * factor)), count) for step, count in sorted(steps.items())]


def _reasons(head: Head, moves: Iterable[Move], named: dict[str, list[Event]], events: Iterable[Event]) -> list[Reason]:
    found = []
    for name, (meaning, _) in LOSSES.items():
        if (count := _grown(head, name) or 0) > 0:
            found.append(Reason("engine", name.removeprefix("mtier_"), count, "folios", meaning))
    outcomes = Counter(move.outcome or "" for move in moves if move.outcome not in (None, "moved"))
    found += _counted("batches", outcomes, "batches", words.OUTCOMES)
    whys = Counter(event.word("why") for event in named.get("mtier_burst", []))
    found += _counted("bursts", whys, "bursts", {word: meaning for word, (meaning, _) in WHY.items()})
    stays: Counter[str] = Counter()
    for event in named.get("numa_follow_walk", []):
        stays.update({word: event.number(word) for word in ("dirty", "shared", "nomem", "busy")})
    for event in (*named.get("numa_follow_use", []), *named.get("numa_follow_fault", [])):
        if event.word("verdict") != "moved":
            stays[event.word("verdict")] += event.number("pages")
    found += _counted("follow", stays, "pages", words.FOLLOW)
    tasks = Counter(event.word("action") for event in named.get("numa_follow_task", []))
    tasks = Counter({word: count for word, count in tasks.items() if word not in ("direct", "lazy")})
    found += _counted("tasks", tasks, "tasks", words.TASKS)
    refused = Counter({end: pages for end, pages in ends(events).items() if end not in FINE})
    found += _counted("not deferred", refused, "pages", words.REFUSALS)
    forced = Counter(event.word("why") for event in named.get("tlb_defer_flush", []))
    return found + _counted("flushed", forced, "flushes", words.FLUSHES)


def _counted(group: str, counts: Counter[str], unit: str, meanings: dict[str, str]) -> list[Reason]:
    return [
        Reason(group, word, count, unit, meanings.get(word, UNKNOWN))
        for word, count in counts.most_common()
        if count > 0
    ]


def _bursts(events: Sequence[Event]) -> Bursts:
    looks, ranges, spent, gain = (
        sum(event.number(name) for event in events) for name in ("looks", "ranges", "spent_ns", "gain_ns")
    )
    return Bursts(len(events), looks, ranges, spent, gain, events[-1].number("tau_ns") if events else 0)


def _flushes(events: Iterable[Event], flushes: Sequence[Event]) -> Flushes:
    found = ends(events)
    return Flushes(
        waited_pages=found[WAITED],
        no_need_pages=found[NO_NEED],
        joined_pages=found[JOINED],
        refused_pages=sum(pages for end, pages in found.items() if end not in FINE),
        flushes=len(flushes),
        interrupted_cpus=sum(event.number("cpus") for event in flushes),
    )


def _scans(events: Sequence[Event]) -> list[Scans]:
    found = []
    for mode in sorted({event.word("mode") for event in events}):
        own = [event for event in events if event.word("mode") == mode]
        times = sorted((event.number("ns"), 1) for event in own)
        entries, updates, spent = (sum(event.number(name) for event in own) for name in ("ptes", "updates", "ns"))
        found.append(Scans(mode, len(own), entries, updates, quantile(times, 0.5), times[-1][0], spent))
    return found


def _migrations(events: Iterable[Event]) -> list[Migration]:
    moved: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for event in events:
        moved[event.word("reason")] += event.number("nr_succeeded")
        failed[event.word("reason")] += event.number("nr_failed")
    return [Migration(reason, moved[reason], failed[reason]) for reason, _ in (moved + failed).most_common()]

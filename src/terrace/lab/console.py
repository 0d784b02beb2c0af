# SPDX-License-Identifier: GPL-2.0
"""Find errors in a kernel log: lockdep, KASAN, WARN, BUG, stalls, leaks, hung tasks, oopses, panics."""

import re
from dataclasses import dataclass

_PREFIX = re.compile(r"^(?:(?:<\d+>)?\[\s*\d+\.\d+\](?:\[\s*[TC]\d+\])? |<\d+>)")
_LOCKDEP = (
    r"possible (?:circular|recursive|irq)|inconsistent lock state|suspicious RCU usage|bad unlock balance|"
    r"bad contention|lock held when returning|held lock freed|Nested lock was not taken|"
    r"(?:HARD|SOFT)IRQ-(?:safe|READ-safe)|SOFTIRQ|invalid wait context|nested lock|still has locks held"
)
# The first pattern that matches a line gives the kind of the report that starts there.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("panic", r"^Kernel panic - not syncing"),
        ("kasan", r"^BUG: K(?:A|M|C)SAN|^BUG: KFENCE|^UBSAN: "),
        ("lockdep", rf"^WARNING: (?:{_LOCKDEP})|^BUG: MAX_|^INFO: trying to register non-static key|^INFO: possible "),
        ("stall", r"(?:^|: )(?:INFO: )?rcu_\w+ (?:self-)?detected (?:expedited )?stall|rcu_\w+ kthread starved"),
        ("stall", r"BUG: (?:soft lockup|workqueue lockup)|Watchdog detected hard LOCKUP"),
        ("hung", r"^INFO: task .+ blocked (?:for more than|on)|^INFO: task .+ is blocked"),
        ("leak", r"kmemleak: \d+ new suspected memory leaks"),
        ("oops", r"^BUG: unable to handle|^BUG: kernel NULL pointer|^Oops\b|^general protection fault|^kernel BUG at"),
        ("oops", r"^(?:divide error|invalid opcode|stack segment|double fault|int3|traps: PANIC).*: \d{4} \["),
        ("warn", r"^WARNING: |^------------\[ cut here \]-+$"),
        # On a read of its counters, the kernel found one below zero.
        ("count", r"^vmstat_refresh: \w+ -\d+"),
        ("bug", r"^BUG[: ]|^slab error|^ODEBUG: |^list_(?:add|del) corruption|^irq \d+: nobody cared"),
    )
)
_CUT = re.compile(r"^-+\[ cut here \]-+$")
_END = re.compile(r"^---\[ end trace|^---\[ end Kernel panic|^=====+$")
_REPORT_LINES = 60
_LEAD_LINES = 12
# Kinds that end a kernel, and the number of lines before its panic in which they may have started.
_FATAL = ("panic", "oops", "stall", "hung", "bug", "kasan")
_FATAL_SPAN = 150


@dataclass(frozen=True)
class KernelReport:
    """One report: its kind (panic kasan lockdep stall hung leak oops warn count bug), headline, lines, place in log."""

    kind: str
    title: str
    lines: tuple[str, ...]
    line_number: int


def plain_lines(log: str) -> list[str]:
    """Get the lines of the log without time stamps, levels and carriage returns."""
    return [_PREFIX.sub("", line.rstrip("\r")) for line in log.split("\n")]


def classify(log: str) -> list[KernelReport]:
    """Get all reports of a kernel log, in order; empty if there are none."""
    lines = plain_lines(log)
    reports: list[KernelReport] = []
    number = 0
    while number < len(lines):
        kind = _kind(lines[number])
        if not kind:
            number += 1
            continue
        report = _report(kind, lines, number)
        reports.append(report)
        number += len(report.lines)
    return reports


def _kind(line: str) -> str | None:
    return next((kind for kind, pattern in _KINDS if pattern.search(line)), None)


def _report(kind: str, lines: list[str], start: int) -> KernelReport:
    title = start
    if _CUT.match(lines[start]) and start + 1 < len(lines):
        # The line after the scissors is the title: a BUG, a WARNING, or part of the WARNING that
        # follows.
        title = start + 1
        kind = _kind(lines[title]) or kind
    end = title + 1
    while end < len(lines) and end - start < _REPORT_LINES:
        if _END.match(lines[end]):
            end += 1
            break
        if end > title + 1 and _kind(lines[end]):
            break
        end += 1
    text = lines[start:end]
    while len(text) > 1 and not text[-1].strip():
        text.pop()
    return KernelReport(kind=kind, title=lines[title].strip(), lines=tuple(text), line_number=start + 1)


def last_words(log: str, limit: int = 40) -> list[str]:
    """Get the part of the log to show for a machine that died: the lines before the panic, or the
    last report, or the end.

    If there are more than `limit` lines, the middle is left out.
    """
    lines = [line for line in plain_lines(log) if line.strip()]
    kinds = {number: kind for number, line in enumerate(lines) if (kind := _kind(line))}
    if not kinds:
        return lines[-limit // 2 :]
    start = max(kinds)
    panics = [number for number, kind in kinds.items() if kind == "panic"]
    if panics:
        near = range(panics[-1] - _FATAL_SPAN, panics[-1] + 1)
        start = min(number for number, kind in kinds.items() if kind in _FATAL and number in near)
    words = lines[max(0, start - _LEAD_LINES) :]
    if len(words) > limit:
        words = [*words[: limit - limit // 4 - 1], "…", *words[-(limit // 4) :]]
    return words

# SPDX-License-Identifier: GPL-2.0
import pytest

from terrace.lab.console import classify, last_words, plain_lines

CLEAN = """[    0.000000] Linux version 6.12.117
[    0.1] Warning: unable to open an initial console.
[    1.0][    T1] Out of memory: Killed process 12 (hog)
[    1.1] kunit: enabled
[    1.2] rcu: Hierarchical RCU implementation.
[    1.3] Spectre V2 : WARNING: Unprivileged eBPF is enabled
[    1.4] traps: abench[55] trap int3 ip:401020
[    1.5] abench[55]: segfault at 0 ip 0000000000401136
[    1.6] RAMDISK: [mem 0x9fedd000-0x9ffd7fff]
[    1.7] INFO: lockdep is turned off.
"""

REPORTS = [
    ("WARNING: possible circular locking dependency detected", "lockdep"),
    ("WARNING: possible recursive locking detected", "lockdep"),
    ("WARNING: inconsistent lock state", "lockdep"),
    ("WARNING: suspicious RCU usage", "lockdep"),
    ("WARNING: HARDIRQ-safe -> HARDIRQ-unsafe lock order detected", "lockdep"),
    ("INFO: trying to register non-static key.", "lockdep"),
    ("BUG: KASAN: slab-use-after-free in mtier_scan+0x1/0x2", "kasan"),
    ("UBSAN: shift-out-of-bounds in mm/mtier/hotness.c:3:4", "kasan"),
    ("WARNING: CPU: 0 PID: 1 at mm/mtier/scan.c:10 scan+0x1/0x2", "warn"),
    ("BUG: sleeping function called from invalid context at mm/x.c:1", "bug"),
    ("BUG kmalloc-64 (Not tainted): Right Redzone overwritten", "bug"),
    ("BUG: unable to handle page fault for address: ffff", "oops"),
    ("BUG: kernel NULL pointer dereference, address: 0", "oops"),
    ("kernel BUG at mm/migrate.c:1!", "oops"),
    ("Oops: general protection fault, probably for non-canonical address", "oops"),
    ("rcu: INFO: rcu_sched self-detected stall on CPU", "stall"),
    ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "stall"),
    ("rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: {", "stall"),
    ("watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [sh:1]", "stall"),
    ("INFO: task kmtierd:55 blocked for more than 120 seconds.", "hung"),
    ("kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)", "leak"),
    ("vmstat_refresh: nr_isolated_anon -512", "count"),
    ("Kernel panic - not syncing: Fatal exception", "panic"),
    ("list_add corruption. next->prev should be prev", "bug"),
    ("ODEBUG: free active (active state 0) object: 0000 object type: timer_list", "bug"),
]


def test_clean_log_has_no_report() -> None:
    assert classify(CLEAN) == []


@pytest.mark.parametrize(("line", "kind"), REPORTS)
def test_each_kind_is_known_with_and_without_prefix(line: str, kind: str) -> None:
    for prefix in ("", "[   12.345678] ", "[   12.345678][  T123] ", "<4>[    1.0] "):
        (report,) = classify(CLEAN + prefix + line + "\r\nmore\n")
        assert (report.kind, report.title) == (kind, line)


def test_scissors_line_belongs_to_the_report_below_it() -> None:
    log = (
        CLEAN
        + "------------[ cut here ]------------\nWARNING: CPU: 0 PID: 1 at x\nRIP: 0\n---[ end trace 00 ]---\nnext\n"
    )
    (report,) = classify(log)
    assert report.kind == "warn"
    assert report.title == "WARNING: CPU: 0 PID: 1 at x"
    assert report.lines[-1] == "---[ end trace 00 ]---"
    log = log.replace("WARNING: CPU: 0 PID: 1 at x", "refcount_t: underflow; use-after-free.\nWARNING: CPU: 1 at y")
    assert [report.title for report in classify(log)][0] == "refcount_t: underflow; use-after-free."
    assert [report.kind for report in classify(log.replace("WARNING: CPU: 1 at y", "kernel BUG at z!"))][0] == "warn"


def test_two_reports_are_two() -> None:
    log = "BUG: KASAN: x\na\nb\n====\nWARNING: CPU: 0\nc\n---[ end trace\n"
    assert [(report.kind, report.line_number) for report in classify(log)] == [("kasan", 1), ("warn", 5)]


def test_last_words_start_before_the_first_report() -> None:
    log = "\n".join([*(f"line {n}" for n in range(50)), "sysrq: Trigger a crash", "Kernel panic - not syncing: x", "y"])
    words = last_words(log)
    assert words[-3:] == ["sysrq: Trigger a crash", "Kernel panic - not syncing: x", "y"]
    assert "line 10" not in words
    assert last_words("a\nb\n") == ["a", "b"]
    assert plain_lines("[    1.0] a\r\nb") == ["a", "b"]


def test_last_words_are_of_the_panic_not_of_an_older_warning() -> None:
    older = ["WARNING: CPU: 0 PID: 1 at old", *(f"quiet {n}" for n in range(200))]
    trace = ["BUG: kernel NULL pointer dereference, address: 0", *(f"frame {n}" for n in range(60))]
    words = last_words("\n".join([*older, *trace, "Kernel panic - not syncing: Fatal exception", "end"]))
    assert len(words) == 40
    assert trace[0] in words
    assert words[-2:] == ["Kernel panic - not syncing: Fatal exception", "end"]
    assert older[0] not in words
    assert "…" in words

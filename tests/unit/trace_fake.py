# SPDX-License-Identifier: GPL-2.0
"""A trace in the format of trace-cmd, a recording of it, and a fake trace-cmd that prints it, for record and report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ops_tree import build, cxl, dram

from terrace.ops.diagnose import Reason
from terrace.trace.lines import EVENTS, Event, Reader
from terrace.trace.look import Owner, Task
from terrace.trace.store import Head, Writer

SINCE_NS = 100_000_000_000
SECONDS = 60.0
MIB = 1 << 20
OFF = Reason("off", "error", "promotion is off", "terrace set enabled 1")
RATE = Reason("rate_limit", "info", "promotion is limited: the rate limit is reached", "")


def line(at_s: float, name: str, fields: str, comm: str = "kmtierd", pid: int = 77, instance: str = "") -> str:
    """A line of `trace-cmd report -t`."""
    return f"{instance}{comm:>16s}-{pid:<5d} [001] {at_s:16.9f}: {name + ':':<21s} {fields}\n"


def migrated(pages: int, reason: str, failed: int = 0) -> str:
    """The fields of mm_migrate_pages."""
    return (
        f"nr_succeeded={pages} nr_failed={failed} nr_thp_succeeded=0 nr_thp_failed=0 nr_thp_split=0 nr_split=0 "
        f"mode=MIGRATE_ASYNC reason={reason}"
    )


def trace() -> list[str]:
    """A minute: two processes are promoted, some pages are demoted, one process follows its task,
    some scans and flushes.
    """
    lines = ["cpus=2\n"]
    for second in range(40):
        at = 101.0 + second
        moved = 512 if second < 20 else 64
        db, web = (384, 128) if second % 4 == 0 else (moved, 0)
        lines.append(line(at, "mtier_owner", f"pid=900 source=1 target=0 down=0 folios={db} comm=my db=1"))
        if web:
            lines.append(line(at, "mtier_owner", f"pid=901 source=1 target=0 down=0 folios={web} comm=web"))
        outcome = "partly" if second % 10 == 9 else "moved"
        fields = f"source=1 target=0 tried=512 moved={moved} outcome={outcome} waited_ns={(second + 1) * 1_500_000}"
        lines.append(line(at + 0.001, "mtier_migrate", fields))
        lines.append(
            line(at + 0.002, "mm_migrate_pages", migrated(moved, "tier_promote", failed=int(second % 10 == 9)))
        )
    for second in range(5):
        at = 121.5 + second
        lines.append(line(at, "mtier_owner", "pid=902 source=0 target=1 down=1 folios=100 comm=idle"))
        fields = f"source=0 target=1 tried=100 moved=100 outcome=moved waited_ns={(second + 1) * 400_000}"
        lines.append(line(at, "mtier_demote", fields))
        lines.append(line(at, "mm_migrate_pages", migrated(100, "demotion")))
    for second in (102, 112, 130, 141):
        why = "alike" if second < 140 else "rate"
        fields = "ranges=40 mms=3 looks=12 tau_ns=40000000 margin_q16=100 pairs=512 gain_ns=9000000 spent_ns=2000000"
        lines.append(line(second + 0.9, "mtier_burst", f"{fields} why={why}"))
    lines += [
        line(
            130.0,
            "numa_follow_walk",
            "by=tick start=0x7f0000000000 end=0x7f0000400000 from=1 to=0 marked=1024 moved=0 "
            "dirty=0 shared=7 nomem=0 busy=2",
            "crawl er",
            911,
        ),
        line(130.25, "numa_follow_use", _use("0x7f0000001000", "moved", 32), "crawl er", 912),
        line(131.0, "numa_follow_use", _use("0x7f0000003000", "moved", 16), "crawl er", 911),
        line(131.0, "mm_migrate_pages", migrated(48, "numa_misplaced"), "crawl er", 911),
        line(131.2, "numa_follow_use", _use("0x7f0000004000", "rate", 1), "crawl er", 911),
        line(
            131.3, "numa_follow_fault", "kind=file key=(ptrval) index=3 from=1 to=0 pages=4 verdict=moved", "cat", 950
        ),
        line(132.0, "numa_follow_task", "pid=911 from=1 to=0 action=lazy", "crawl er", 911),
        line(132.5, "numa_follow_task", "pid=903 from=1 to=0 action=policy", "bound", 903),
        line(133.0, "mm_migrate_pages", migrated(3, "compaction"), "kcompactd0", 50),
        line(134.0, "mm_migrate_pages", migrated(200, "numa_misplaced"), "balanced", 920),
        line(140.0, "numa_scan_begin", "pid=911 mode=async cpu=1", "kworker/1:1", 30),
        line(140.1, "numa_scan_end", _scan(2_500_000), "kworker/1:1", 30),
        line(141.1, "numa_scan_end", _scan(7_500_000), "kworker/1:1", 30),
        line(142.0, "tlb_defer_folio", "pfn=0x1234 nr_pages=1 entries=1 refused=none"),
        line(142.0, "tlb_defer_folio", "pfn=0x1235 nr_pages=1 entries=0 refused=write"),
        line(142.1, "tlb_defer_folio", "pfn=0x1236 nr_pages=1 entries=0 refused=joined"),
        line(142.2, "tlb_defer_flight", "pages=512 writable=0 waits=1 refused=none"),
        line(142.3, "tlb_defer_flight", "pages=64 writable=3 waits=0 refused=write"),
        line(142.3, "tlb_defer_flight", "pages=20 writable=20 waits=0 refused=none"),
        line(142.4, "tlb_defer_flush", "gen=9 why=late cpus=3", "<idle>", 0),
    ]
    return lines


def _use(addr: str, verdict: str, pages: int) -> str:
    return f"addr={addr} by=tick nid=0 neighbour=0 verdict={verdict} pages={pages}"


def _scan(ns: int) -> str:
    return f"pid=911 mode=async cpu=1 ptes=4096 updates=2048 skipped=0 ns={ns}"


#: Growth of the kernel's counters: as in the trace, except for half a batch at the end.
GROWN = {
    "mtier_promoted_anon": 11_520,
    "mtier_promoted_file": 0,
    "mtier_promoted_shmem": 256,
    "mtier_demoted": 500,
    "pgpromote_success": 11_976,
    "pgdemote_kswapd": 40,
    "pgmigrate_success": 12_300,
    "mtier_drop_pinned": 12,
    "mtier_fail_busy": 33,
}


def head(**more: object) -> Head:
    """The head of that minute."""
    given: dict[str, object] = {
        "kernel": "6.12.117-terrace",
        "host": "server",
        "started": "2026-11-28T08:49:22+00:00",
        "seconds": SECONDS,
        "page_bytes": 4096,
        "command": ["db-load", "--rows", "a b"],
        "exit_code": 0,
        "enabled": list(EVENTS),
        "events": 0,
        "lost": 0,
        "strange": 0,
        "top_nodes": [0],
        "nodes": [0, 1],
        "counters_before": dict.fromkeys(GROWN, 1000),
        "counters_after": {name: value + 1000 for name, value in GROWN.items()},
        "reasons_before": [RATE],
        "reasons_after": [RATE],
        "cgroups_before": [Owner("db", None, {"0": 0, "1": 64 * MIB}, 10, 0), Owner("idle", None, {"0": MIB}, 0, 0)],
        "cgroups_after": [
            Owner("db", None, {"0": 40 * MIB, "1": 24 * MIB}, 9994, 0),
            Owner("idle", None, {"0": 0, "1": MIB}, 0, 500),
            Owner("calm", None, {"0": MIB}, 0, 0),
        ],
        "processes_before": [Owner("my db=1", 900, {"0": 0, "1": 64 * MIB})],
        "processes_after": [Owner("my db=1", 900, {"0": 48 * MIB, "1": 16 * MIB})],
        "tasks": {
            "900": Task(900, "my db=1", "system.slice/a-very-long-name-of-a-service.service"),
            "911": Task(911, "crawler", ""),
            "912": Task(911, "crawler", ""),
        },
    }
    return Head(**(given | more))  # type: ignore[arg-type]


def events(lines: Sequence[str] | None = None) -> list[Event]:
    """Events of these lines, by default of that minute."""
    return list(Reader().read(trace() if lines is None else lines))


def write(path: Path, lines: Sequence[str] | None = None, **more: object) -> Path:
    """A file as `terrace record` writes it."""
    writer = Writer(SINCE_NS)
    for event in events(lines):
        writer.add(event)
    writer.write(path, head(**{"events": writer.count, **more}))
    return path


_TRACE_CMD = """\
#!{python}
import shutil, signal, sys, time
from pathlib import Path
words = sys.argv[1:]
root = Path({root!r})
with (root / "calls").open("a") as calls:
    print(*words, file=calls)
if words[0] == "report":
    print((root / ("stat" if "--stat" in words else "lines")).read_text(), end="")
    sys.exit(0)
if (root / "refuse").exists():
    sys.exit((root / "refuse").read_text())
base = root / "sys/kernel/tracing/instances" / words[words.index("-B") + 1]
for event in [word for before, word in zip(words, words[1:]) if before == "-e"]:
    file = base / "events" / event.replace(":", "/") / "enable"
    file.parent.mkdir(parents=True)
    file.write_text("1\\n")
ended = []
signal.signal(signal.SIGINT, lambda *_: ended.append(1))
(base / "tracing_on").write_text("1\\n")
while not ended:
    time.sleep(0.01)
    if (root / "full").exists():
        said, code = (root / "full").read_text().split(";")
        print(said, file=sys.stderr)
        sys.exit(int(code))
    if (root / "die").exists():
        sys.exit("no space left on device")
shutil.rmtree(base)
Path(words[words.index("-o") + 1]).write_text("data")
"""


def machine(root: Path, *, ours: bool = True) -> Path:
    """A machine with tracefs below ``root``; returns the folder of its trace-cmd."""
    build(root, [dram(), cxl()], engine=ours).vmstat(**GROWN)
    for name in EVENTS:
        if ours or name.startswith("migrate:"):
            file = root / "sys/kernel/tracing/events" / name.replace(":", "/") / "enable"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("0\n")
    (root / "sys/kernel/tracing/instances").mkdir(parents=True)
    (root / "lines").write_text("".join(trace()))
    (root / "stat").write_text("CPU: 0\noverrun: 0\ncommit overrun: 0\ndropped events: 0\n")
    program = root / "bin" / "trace-cmd"
    program.parent.mkdir()
    program.write_text(_TRACE_CMD.format(python=sys.executable, root=str(root)))
    program.chmod(0o755)
    return program.parent

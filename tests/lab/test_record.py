# SPDX-License-Identifier: GPL-2.0
"""record and report in the guest: the trace agrees with the kernel's counters, and has the owners."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import strict_schema
from terrace.paths import repo_root
from terrace.trace.summary import MARGIN_PAGES

TERRACE = str(repo_root() / "terrace")
SCHEMA = repo_root() / "docs/reference/schema"
PAGES = 4096

# Memory that starts on the slow node, with all pages used all the time; one line has its owner.
LOAD = f"""
import ctypes, mmap, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def policy(mode, nodes):
    mask = ctypes.c_ulong(nodes)
    assert libc.syscall(238, mode, ctypes.byref(mask) if nodes else None, 64 if nodes else 0) == 0
policy(2, 1 << 1)
memory = mmap.mmap(-1, {PAGES} << 12)
for page in range({PAGES}):
    memory[page << 12] = 1
policy(0, 0)
def promoted():
    return int(open("/sys/kernel/mm/mtier/node1/promoted").read())
end = time.monotonic() + 90
while promoted() < {PAGES} * 95 // 100 and time.monotonic() < end:
    memory[::4096]
print(os.getpid())
"""

SCRIPT = """
tracing=/sys/kernel/tracing
cd /tmp
echo 1 > $tracing/events/sched/sched_process_exec/enable
$terrace set enabled=1 demotion_enabled=1 >&2 || exit
$terrace record --json -o trace -- $python -c "$load" > pid || exit
tail -n +2 pid > record.json
head -n 1 pid
ls $tracing/instances | wc -l
cat $tracing/tracing_on $tracing/events/sched/sched_process_exec/enable $tracing/events/mtier/enable
$python -c 'import json,sys; print(json.dumps(json.load(open("record.json"))))'
$terrace report trace --json -o report.json || exit
$python -c 'import json,sys; print(json.dumps(json.load(open("report.json"))))'
$terrace report trace >&2
"""


def guest(vmlinux: Path, script: str) -> subprocess.CompletedProcess[str]:
    command = [TERRACE, "lab", "run", "--topology", "dram-cxl", "--vmlinux", str(vmlinux), "--", "bash", "-c", script]
    return subprocess.run(
        command, capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL, timeout=900, cwd=repo_root()
    )


@pytest.fixture(autouse=True)
def trace_cmd() -> None:
    """The guest has the host's programs."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    if shutil.which("trace-cmd", path=path) is None:
        pytest.skip("no trace-cmd: apt-get install trace-cmd")


def test_the_trace_has_what_was_counted_and_says_whose(vmlinux: Path) -> None:
    if guest(vmlinux, "test -e /sys/kernel/mm/mtier").returncode != 0:
        pytest.skip("this kernel has no promotion engine")
    words = {"terrace": TERRACE, "python": sys.executable, "load": LOAD}
    names = "".join(f"{name}='{value}'\n" for name, value in words.items())
    done = guest(vmlinux, names + SCRIPT)
    assert done.returncode == 0, done.stderr
    pid, instances, tracing_on, theirs, ours, recorded, reported = done.stdout.splitlines()
    # Traces of other programs continue, and nothing of this recording is left.
    assert (instances, tracing_on, theirs, ours) == ("0", "1", "1", "0")
    documents = {}
    for kind, text in (("record", recorded), ("report", reported)):
        documents[kind] = json.loads(text)
        strict_schema.validate(documents[kind], json.loads((SCHEMA / f"{kind}.schema.json").read_text()))
    report = documents["report"]
    assert report["lost_events"] == report["strange_events"] == documents["record"]["exit_code"] == 0
    assert len(report["checks"]) == 3 and all(check["agree"] for check in report["checks"]), report["checks"]
    up = report["checks"][0]
    assert up["counted_pages"] >= PAGES * 9 // 10 and abs(up["trace_pages"] - up["counted_pages"]) <= MARGIN_PAGES
    owner = next(one for one in report["processes"] if one["pid"] == int(pid))
    assert owner["name"].startswith("python") and owner["up_pages"] >= PAGES * 9 // 10
    assert {(route["way"], route["source"], route["target"]) for route in report["routes"]} >= {("up", 1, 0)}
    (waited,) = [one for one in report["waits"] if one["what"] == "promoted"]
    assert 0 < waited["p50_ns"] <= waited["max_ns"] < 60_000_000_000


#: Kills a recording, first alone and then with its keeper; prints how many instances, recorders and
#: folders are left.
KILLED = """
cd /tmp
await() { for i in $(seq 200); do eval "$1" && return; sleep 0.5; done; echo "not in time: $1"; exit 1; }
instances() { ls /sys/kernel/tracing/instances | wc -l; }
left() { echo $(instances) $(pgrep -fc -- '-B terrac[e]-') $(ls -d .*terrace-record-* 2>/dev/null | wc -l); }
recording() { cat /sys/kernel/tracing/instances/*/events/migrate/mm_migrate_pages/enable 2>/dev/null | grep -q 1; }
for keeper in lives dies; do
    $terrace record --time 1h &
    await recording
    left
    [ $keeper = lives ] || kill -STOP $(pgrep -f leftover[s])
    kill -9 $!
    wait $!
    [ $keeper = lives ] && await '[ "$(left)" = "0 0 0" ]'
    [ $keeper = lives ] || { kill -9 $(pgrep -f leftover[s]); left; }
done
$terrace record --time 0.1 2> said || exit
cat said >&2
grep -c removed said
left
"""


def test_what_a_killed_recording_leaves_is_removed(vmlinux: Path) -> None:
    done = guest(vmlinux, f"terrace='{TERRACE}'\n{KILLED}")
    assert done.returncode == 0, done.stdout + done.stderr
    first, second, orphan, removed, last = done.stdout.splitlines()
    cpus = int(first.split()[1]) - 1
    assert first == second == orphan == f"1 {cpus + 1} 1" and cpus >= 1
    assert (removed, last) == ("2", "0 0 0")


def test_a_stock_kernel_is_refused(stock_vmlinux: Path) -> None:
    script = (
        f"cd /tmp; {TERRACE} record --time 1s; echo $?; ls terrace.data .terrace.data.* /sys/kernel/tracing/instances"
    )
    done = guest(stock_vmlinux, script)
    assert done.stdout.splitlines()[0] == "3", done.stderr
    assert "has none of the tracepoints mtier, numa_follow, tlb_defer, numa_scan" in done.stderr
    assert "terrace.data" not in done.stdout.replace("/sys/kernel/tracing/instances:", "")

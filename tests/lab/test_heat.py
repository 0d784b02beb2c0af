# SPDX-License-Identifier: GPL-2.0
"""status --heat, record and report --heat in the guest: near to what two processes use of their memory."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import strict_schema
from terrace.paths import repo_root

TERRACE = str(repo_root() / "terrace")
SCHEMA = repo_root() / "docs/reference/schema"
MIB = 1 << 20

#: A process with 64 MiB on the slow node, of which it uses argv[1] MiB.
LOAD = """
import ctypes, mmap, sys, time
libc = ctypes.CDLL(None, use_errno=True)
mask = ctypes.c_ulong(1 << 1)
assert libc.syscall(238, 1, ctypes.byref(mask), 64) == 0
memory = mmap.mmap(-1, 64 << 20)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(0, 64 << 20, 4096):
    memory[page] = 1
assert libc.syscall(238, 0, None, 0) == 0
used = memoryview(memory)[: int(sys.argv[1]) << 20]
print("ready", flush=True)
while True:
    bytes(used[::4096]) if len(used) else time.sleep(60)
"""
#: Starts two of them, and prints the answers of the commands. Bursts follow each other however busy the host is.
DRIVER = """
import json, subprocess, sys, threading, time
terrace, load = sys.argv[1:]
def hurry():
    while True:
        open("/sys/kernel/debug/mtier/burst", "w").write("1")
        time.sleep(1)
def run(*words):
    return subprocess.run([terrace, *words], check=True, stdout=subprocess.PIPE, text=True).stdout
def start(used):
    return subprocess.Popen([sys.executable, "-c", load, used], stdout=subprocess.PIPE, text=True)
users = [start("32"), start("0")]
assert all(user.stdout.readline() == "ready\\n" for user in users)
pids = ",".join(str(user.pid) for user in users)
open("/sys/kernel/debug/mtier/observe", "w").write("1")
off = json.loads(run("status", "--heat", "--json"))
run("set", "enabled", "1")
threading.Thread(target=hurry, daemon=True).start()
deadline = time.monotonic() + 300
while True:
    heat = json.loads(run("status", "--heat", "--json", "-p", pids))
    ranges = [tier["ranges"] for one in heat["processes"] for tier in one["tiers"] if tier["tier"] == "slow"]
    if len(ranges) == 2 and min(ranges) >= 16:
        break
    assert time.monotonic() < deadline, heat
    time.sleep(1)
text = run("status", "--heat")
run("record", "-p", pids, "--time", "20s", "-o", "/tmp/heat.data")
report = json.loads(run("report", "--heat", "--json", "/tmp/heat.data"))
page = run("report", "--heat", "/tmp/heat.data")
for user in users:
    user.kill()
found = {"off": off, "heat": heat, "report": report, "text": text, "page": page}
print(json.dumps({"pids": [user.pid for user in users], **found}))
"""


@pytest.fixture(autouse=True)
def trace_cmd() -> None:
    """The guest has the host's programs."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    if shutil.which("trace-cmd", path=path) is None:
        pytest.skip("no trace-cmd: apt-get install trace-cmd")


def guest(vmlinux: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [TERRACE, "lab", "run", "--topology", "dram-cxl", "--vmlinux", str(vmlinux), "--", *words]
    return subprocess.run(
        command, capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL, timeout=900, cwd=repo_root()
    )


def slow(process: dict[str, Any]) -> dict[str, Any]:
    """What is estimated of a process on the slow node."""
    found: dict[str, Any] = next(tier for tier in process["tiers"] if tier["tier"] == "slow")
    return found


def test_working_sets_are_near_to_what_is_used(vmlinux: Path) -> None:
    if guest(vmlinux, "test", "-e", "/sys/kernel/debug/mtier/heat").returncode != 0:
        pytest.skip("this kernel does not report working sets")
    done = guest(vmlinux, sys.executable, "-c", DRIVER, TERRACE, LOAD)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    busy, idle = found["pids"]
    assert found["off"]["processes"] == [] and "promotion is off" in found["off"]["problem"]
    for name in ("off", "heat"):
        strict_schema.validate(found[name], json.loads((SCHEMA / "heat.schema.json").read_text()))
    processes = {one["pid"]: one for one in found["heat"]["processes"]}
    assert 24 * MIB < slow(processes[busy])["in_use_bytes"] < 40 * MIB, found["text"]
    assert slow(processes[idle])["in_use_bytes"] < 4 * MIB, found["text"]
    assert all(slow(one)["looked_pages"] > 4096 for one in processes.values())
    assert found["heat"]["processes"][0]["pid"] == busy and "IN USE" in found["text"]
    report = found["report"]
    strict_schema.validate(report, json.loads((SCHEMA / "report.schema.json").read_text()))
    assert report["strange_events"] == 0 and report["working_sets_problem"] is None
    sets = {one["pid"]: one for one in report["working_sets"] if one["tier"] == "slow"}
    assert 24 * MIB < sets[busy]["p50_bytes"] < 40 * MIB, found["page"]
    assert sets[idle]["p50_bytes"] < 4 * MIB, found["page"]
    assert all(one["looked_pages"] > 4096 for one in sets.values())

# SPDX-License-Identifier: GPL-2.0
"""status, set, features, doctor and exec on the Terrace kernel, in the guest."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import strict_schema
from terrace.exporter.table import METRICS
from terrace.paths import repo_root

TERRACE = str(repo_root() / "terrace")
REFERENCE = repo_root() / "docs" / "reference"

# Memory that starts on the slow node and is used all the time; then one read of the result.
LOAD = """
import ctypes, mmap, random, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def policy(mode, nodes):
    mask = ctypes.c_ulong(nodes)
    assert libc.syscall(238, mode, ctypes.byref(mask) if nodes else None, 64 if nodes else 0) == 0
policy(2, 1 << 1)
pages = 4096
memory = mmap.mmap(-1, pages << 12)
for page in range(pages):
    memory[page << 12] = 1
policy(0, 0)
end = time.monotonic() + 60
def promoted():
    return int(open("/sys/kernel/mm/mtier/node1/promoted").read())
while promoted() < pages and time.monotonic() < end:
    for _ in range(500):
        memory[random.randrange(pages) << 12]
assert promoted() >= pages * 95 // 100, promoted()
"""


def guest(vmlinux: Path, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [TERRACE, "lab", "run", "--vmlinux", str(vmlinux), *options, "--", "bash", "-c", script]
    return subprocess.run(
        command, capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL, timeout=300, cwd=repo_root()
    )


def validate(document: object, kind: str) -> None:
    strict_schema.validate(document, json.loads((REFERENCE / "schema" / f"{kind}.schema.json").read_text()))


@pytest.fixture(scope="module")
def engine(vmlinux: Path) -> None:
    """Skip on kernels without promotion."""
    if guest(vmlinux, "test -d /sys/kernel/mm/mtier").returncode != 0:
        pytest.skip("this kernel has no promotion engine")


@pytest.mark.usefixtures("engine")
def test_every_knob_is_as_documented(vmlinux: Path) -> None:
    done = guest(vmlinux, f"{sys.executable} tests/lab/ops_in_guest.py")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["findings"] == []
    text = (REFERENCE / "counters.md").read_text()
    assert [name for name in result["counters"] if f"`{name}`" not in text] == []
    named = {word for word in text.split("`") if word.startswith("mtier_") and word != "mtier_"}
    assert sorted(named - set(result["counters"])) == []


@pytest.mark.usefixtures("engine")
def test_pages_move_and_status_shows_it(vmlinux: Path) -> None:
    script = (
        "./terrace set enabled=1 demotion_enabled=1 >&2 && "
        f"{sys.executable} -c '{LOAD}' && ./terrace status --json --interval 10ms && ./terrace doctor >&2"
    )
    done = guest(vmlinux, script)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    validate(document, "status")
    counters = document["counters"]
    ended = (
        sum(value for name, value in counters.items() if name.startswith(("mtier_drop_", "mtier_fail_")))
        + counters["mtier_promoted_folios"]
    )
    slow = next(node for node in document["nodes"] if not node["top"])
    assert counters["mtier_taken"] == ended
    assert slow["promoted"] == counters["pgpromote_success"] >= 3891
    assert "kmtierd" in {daemon["name"] for daemon in document["daemons"]}
    assert document["engine"]["place"]["why"] != "none"
    # A burst in progress adds its pages to these sums at its end.
    assert document["engine"]["place"]["promoted"] <= slow["promoted"]
    assert document["reasons"] and document["unreadable"] == []


def test_top_finds_the_process_on_slow_memory(vmlinux: Path) -> None:
    done = guest(vmlinux, f"{sys.executable} tests/lab/top_in_guest.py")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for kind in ("root", "nobody"):
        validate(told[kind], "top")
    first = told["root"]["rows"][0]
    assert (first["pid"], first["name"], first["user"]) == (told["pid"], "\033[2Jslowdb", "root")
    assert first["node_bytes"]["1"] >= 64 << 20
    # Another user gets its total, and nothing about its nodes.
    seen = next(row for row in told["nobody"]["rows"] if row["pid"] == told["pid"])
    assert seen["node_bytes"] is None and seen["total_bytes"] >= 64 << 20 and seen["user"] == "root"
    assert told["nobody"]["nodes_unknown"] >= 1
    assert told["screen"]["code"] == 0
    assert told["screen"]["line"][:2] == [str(told["pid"]), "root"] and told["screen"]["line"][-1] == "?[2Jslowdb"


@pytest.mark.usefixtures("engine")
def test_refusals_name_file_value_and_range(vmlinux: Path) -> None:
    script = (
        "for knob in 'scan.cpu 300' 'delay 2h' 'target_node 1'; do ./terrace set $knob; echo $?; done;"
        "./terrace exec --scan-scale 2 -- grep MtierScanScale /proc/self/status"
    )
    done = guest(vmlinux, script)
    assert done.stdout.split() == ["2", "2", "2", "MtierScanScale:", "2"]
    assert "'300' to /sys/kernel/mm/mtier/scan/cpu_percent (ERANGE); allowed: 1-100 %" in done.stderr
    assert "(ERANGE); allowed: 0-3600000 ms. It stays at 100" in done.stderr
    assert "'1' to /sys/kernel/mm/mtier/promote/target_node (ERANGE)" in done.stderr


@pytest.mark.usefixtures("engine")
def test_every_capability_can_be_set_and_is_told(vmlinux: Path) -> None:
    """set knew promotion and three files of the stock kernel, status two capabilities."""
    script = (
        "mkdir /sys/fs/cgroup/db && echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control || exit 99;"
        "./terrace set enabled=1 demotion_enabled=1 numa_balancing=1 tlb_defer.mode=quarantine weights.auto=on "
        "file_policy=on migrate_on_fault.rate=64M >&2 && "
        "./terrace set --cgroup db auto_migration=1 migrate_on_fault=2 >&2 && "
        "./terrace status --json --interval 0 -o $TERRACE_SCRATCH/on && "
        "./terrace set weights.node0=9 file_policy=2 >&2; ./terrace set --list --json -o $TERRACE_SCRATCH/list;"
        "./terrace set --cgroup db auto_migration=2 >&2; rmdir /sys/fs/cgroup/db; "
        "cat $TERRACE_SCRATCH/on $TERRACE_SCRATCH/list"
    )
    done = guest(vmlinux, script, "--topology", "two-socket-cxl")
    assert done.returncode == 0, done.stderr
    decoder = json.JSONDecoder()
    status, end = decoder.raw_decode(done.stdout)
    knobs, _ = decoder.raw_decode(done.stdout[end:].lstrip())
    validate(status, "status")
    validate(knobs, "knobs")
    told = {item["name"]: item for item in status["capabilities"]}
    assert all(item["on"] for item in told.values()) and len(told) == 8
    assert told["tlb_defer"]["settings"] == {"tlb_defer.mode": "quarantine"}
    assert told["weights"]["settings"]["weights.auto"] == "true"
    assert told["auto_migration"]["cgroups"] == {"db": "1"}
    assert told["migrate_on_fault"]["cgroups"] == {"db": "2"}
    assert told["migrate_on_fault"]["settings"] == {"migrate_on_fault.rate_mbps": "64"}
    # The weight that was set before the error is restored, and so is auto, which the weight had
    # switched off.
    values = {knob["knob"]: knob["value"] for knob in knobs["knobs"]}
    assert all(knob["present"] for knob in knobs["knobs"])
    assert {name: values[name] for name in told["weights"]["settings"]} == told["weights"]["settings"]
    assert "file_policy cannot be '2'" in done.stderr and "auto_migration cannot be '2'; allowed: 0-1" in done.stderr


@pytest.mark.usefixtures("engine")
def test_a_file_of_settings_is_applied_and_taken_back(vmlinux: Path) -> None:
    """On this kernel: every knob that the example has, all or nothing, saved, and back to where it was after boot."""
    script = """
mkdir /sys/fs/cgroup/db && echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control || exit 99
file=$TERRACE_SCRATCH/terrace.toml
every() { ./terrace set --list --json; ./terrace set --cgroup db --list --json; }
every > $TERRACE_SCRATCH/boot
./terrace apply --example |
    sed 's/^#\\([^ ]\\)/\\1/; s/^# \\(.cgroup.*\\).system.slice.]/\\1db]/; /^weights.node0/d' > $file
to() { sed -i "s/^$1 = .*/$1 = $2/" $file; }
to engine.enabled true; to weights.auto true; to auto_migration true; to tlb_defer.mode '"quarantine"'
./terrace apply --file $file --json -o $TERRACE_SCRATCH/applied && ./terrace apply --file $file >&2 || exit 98
every > $TERRACE_SCRATCH/on
to engine.promote.target_node 2; to engine.scan.delay_ms 7
./terrace apply --file $file >&2 && exit 97
every | cmp - $TERRACE_SCRATCH/on || exit 96
./terrace apply --undo >&2 && every | cmp - $TERRACE_SCRATCH/boot || exit 95
rmdir /sys/fs/cgroup/db
cat $TERRACE_SCRATCH/applied
"""
    done = guest(vmlinux, script, "--topology", "two-socket-cxl")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    validate(document, "apply")
    changed = {change["knob"]: change["after"] for change in document["changes"]}
    wanted = {"enabled": "1", "tlb_defer.mode": "quarantine", "weights.auto": "true", "auto_migration": "1"}
    assert changed | wanted == changed
    assert "settings, all in force already" in done.stderr
    assert re.search(r"refuses '2' to /sys/kernel/mm/mtier/promote/target_node \(E", done.stderr)


@pytest.mark.usefixtures("engine")
def test_an_ordinary_user_reads_and_cannot_write(vmlinux: Path) -> None:
    # The checkout may be in a folder of its owner only, such as /root.
    script = (
        "cp -r terrace src $TERRACE_SCRATCH && chmod -R a+rX $TERRACE_SCRATCH && cd $TERRACE_SCRATCH || exit 99;"
        "setpriv --reuid 65534 --regid 65534 --clear-groups ./terrace status --json --interval 0;"
        "setpriv --reuid 65534 --regid 65534 --clear-groups ./terrace set enabled 1; exit $?"
    )
    done = guest(vmlinux, script)
    assert done.returncode == 1
    assert "run as root" in done.stderr and "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    validate(document, "status")
    assert [reason["id"] for reason in document["reasons"]] == ["off"]


@pytest.mark.usefixtures("engine")
def test_the_exporter_tells_of_every_counter(vmlinux: Path) -> None:
    """The names in its table are those of the kernel, and a group name that needs escaping is exported."""
    group = "echo +memory >/sys/fs/cgroup/cgroup.subtree_control && mkdir '/sys/fs/cgroup/a\\x2d\"b'"
    done = guest(vmlinux, f"{group} && ./terrace set enabled=1 >&2 && ./terrace exporter --json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    validate(document, "metrics")
    found = {metric["name"]: metric["samples"] for metric in document["metrics"]}
    counters = {name for name, metric in METRICS.items() if metric.kind == "counter"}
    assert sorted(counters - set(found)) == []
    assert {sample["labels"]["cgroup"] for sample in found["terrace_cgroup_memory_bytes"]} == {'a\\x2d"b'}
    assert found["terrace_engine_enabled"] == [{"labels": {}, "value": 1}]
    assert found["terrace_unreadable_files"] == [{"labels": {}, "value": 0}]

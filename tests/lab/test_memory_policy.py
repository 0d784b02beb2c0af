# SPDX-License-Identifier: GPL-2.0
"""Weights of a task, through libterrace and terrace exec, in the guest."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from terrace.paths import repo_root
from terrace.testing.compile import compile_programs
from terrace.testing.programs import find_programs

TERRACE = str(repo_root() / "terrace")
# The same for a shell: the path may have spaces.
CALL = shlex.quote(TERRACE)


def guest(vmlinux: Path, script: str, topology: str = "dram-cxl") -> str:
    command = [TERRACE, "lab", "run", "--vmlinux", str(vmlinux), "--topology", topology, "--timeout", "400s", "--"]
    done = subprocess.run([*command, "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make(out: Path) -> None:
    """libterrace, its examples, its tests."""
    subprocess.run(
        ["make", "-s", "-C", str(repo_root() / "libterrace"), f"O={out}", "all", f"{out}/policy"], check=True
    )


def shown(text: str) -> dict[str, Any]:
    """The last JSON document in a guest's output."""
    document: dict[str, Any] = json.loads(text[text.rindex("\n{") :] if "\n{" in text else text)
    return document


def test_the_sample_of_two_threads_and_exec(vmlinux: Path, tmp_path: Path) -> None:
    make(tmp_path)
    run = f"{CALL} exec --weighted-interleave 0=9,1=1 --"
    # The published sample: 256 MB in one piece, and the same size in pages, by each thread.
    out = guest(vmlinux, f"{tmp_path}/policy && {tmp_path}/two_threads && {run} {CALL} spread 40M --json")
    assert "not ok" not in out
    assert "all mappings have a sixth" in out
    spread = shown(out)
    pages = {entry["node"]: entry["pages"] for entry in spread["mappings"][0]["pages"]}
    total = sum(pages.values())
    # The mapping may have grown from one that was there before, by a page or two.
    assert total >= 10240
    assert abs(pages[1] - total / 10) < 3
    assert spread["mappings"][0]["weights"] == [{"node": 0, "weight": 9}, {"node": 1, "weight": 1}]


def test_node_sets_and_weights_reach_the_kernel(vmlinux: Path) -> None:
    def policy(options: str) -> dict[str, Any]:
        script = f"{CALL} exec {options} -- {CALL} exec --show --json"
        return shown(guest(vmlinux, script, topology="three-tier"))

    found = policy("--weighted-interleave '!1=4'")
    assert found["nodes"] == [0, 2]
    assert [(entry["weight"], entry["own"]) for entry in found["weights"]] == [(4, True), (4, True)]
    assert policy("--interleave all")["nodes"] == [0, 1, 2]
    assert policy("--membind 1-2") | {"weights": []} == policy("--membind '!0'")
    # The machine's HMAT has every node, so no measurement is needed; one would be reported on
    # stderr.
    auto = policy("--weights auto")
    assert [entry["node"] for entry in auto["weights"]] == [0, 1, 2]
    assert auto["weights"][0]["weight"] > auto["weights"][1]["weight"] >= auto["weights"][2]["weight"] >= 1


def test_weights_are_those_of_the_cpus_that_a_program_may_use(vmlinux: Path) -> None:
    def weights(cpus: str) -> list[int]:
        script = f"taskset -c {cpus} {CALL} exec --weights firmware -- {CALL} exec --show --json"
        return [entry["weight"] for entry in shown(guest(vmlinux, script, topology="two-socket-cxl"))["weights"]]

    # 64, 40 and 20 GB/s from socket 0; 40, 64 and 16 from socket 1; each node's own bandwidth from both.
    assert weights("0") == [10, 6, 3]
    assert weights("1") == [5, 8, 2]
    assert weights("0-1") == [4, 4, 1]


def test_a_file_in_memory_gets_weights_of_its_own(vmlinux: Path) -> None:
    # Three of four pages of the file are on node 1, for any writer.
    script = f"""
        file=$TERRACE_SCRATCH/table; truncate -s 8M $file
        {CALL} exec --weighted-interleave 0=1,1=3 --range-file $file -- true
        dd if=/dev/zero of=$file bs=1M count=8 conv=notrunc 2>/dev/null
        python3 -c 'import mmap, sys, re
f = open(sys.argv[1], "r+b"); m = mmap.mmap(f.fileno(), 0); sum(m[::4096])
print([line for line in open("/proc/self/numa_maps") if sys.argv[1] in line][0])' $file"""
    line = guest(vmlinux, script)
    pages = {int(node): int(count) for node, count in re.findall(r" N(\d+)=(\d+)", line)}
    assert sum(pages.values()) == 2048, line
    assert abs(pages[1] - 1536) <= 4, line
    assert "weights=0:1,1:3" in line


def test_a_stock_kernel_is_told_of_and_can_be_fallen_back_on(stock_vmlinux: Path, tmp_path: Path) -> None:
    make(tmp_path)
    run = f"{CALL} exec --weighted-interleave 0=9,1=1"
    script = f"""
        {tmp_path}/policy || exit 50
        {run} -- true 2>&1; test $? = 3 || exit 51
        {run} --fallback -- {CALL} exec --show 2>&1 || exit 52
        {CALL} exec --membind 1 -- {CALL} exec --show --json || exit 53"""
    out = guest(stock_vmlinux, script)
    assert "not ok" not in out
    assert re.search(r"ok \d+ an older kernel is told of", out)
    assert "has no weights per task; --fallback uses those that hold for everybody, now 0=1,1=1" in out
    assert "fallback: weights 0=1,1=1, which hold for everybody, not 0=9,1=1" in out
    assert "policy: weighted-interleave on node 0-1" in out
    found = shown(out)
    assert (found["mode"], found["nodes"], found["weights_per_task"]) == ("bind", [1], False)


def test_policies_without_weights_cost_what_they_did(vmlinux: Path, stock_vmlinux: Path) -> None:
    (program,) = [program for program in find_programs() if program.name == "mempolicy2_cost"]
    ((_, path),) = compile_programs([program])

    def faults(kernel: Path) -> dict[str, float]:
        """Guest time of a fault in instructions."""
        command = [TERRACE, "lab", "run", "--vmlinux", str(kernel), "--icount", "3", "--", str(path), "base"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return {name: float(number) for name, number in re.findall(r"(\w+) ([\d.]+) ns", done.stdout)}

    ours, stock = faults(vmlinux), faults(stock_vmlinux)
    assert set(ours) == {"default", "interleave"}
    for name, cost in ours.items():
        assert cost < stock[name] * 1.01, f"{name}: {cost} ns, on stock {stock[name]} ns"

# SPDX-License-Identifier: GPL-2.0
"""The guest as a place to run programs: their bytes, their ends, their files, and machines that die."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from terrace.lab.run import Limits, run_in_guest
from terrace.lab.topology import topology_names
from terrace.lab.topology_words import from_words
from terrace.paths import repo_root

TERRACE = str(repo_root() / "terrace")


def lab(
    vmlinux: Path, *words: str, options: Sequence[str] = (), **kwargs: object
) -> subprocess.CompletedProcess[bytes]:
    command = [TERRACE, "lab", "run", "--vmlinux", str(vmlinux), *options, "--", *words]
    kwargs = {"stdin": subprocess.DEVNULL, "timeout": 120, **kwargs}
    return subprocess.run(command, capture_output=True, check=False, **kwargs)  # type: ignore[call-overload,no-any-return]


def qemu_children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(fields[1]) == pid and words.startswith(b"qemu-system"):
                found.append(int(entry.name))
    return found


def test_streams_and_exit_code_come_back_unchanged(vmlinux: Path, tmp_path: Path) -> None:
    blob = os.urandom(1_500_000)
    (tmp_path / "with space").mkdir()
    result = lab(vmlinux, "sh", "-c", "cat; pwd >&2; exit 7", stdin=None, input=blob, cwd=tmp_path / "with space")
    assert result.returncode == 7
    assert result.stdout == blob
    assert result.stderr.decode() == f"{tmp_path}/with space\n"


def test_empty_words_and_odd_bytes_arrive(vmlinux: Path) -> None:
    result = lab(vmlinux, "printf", "[%s]", "", "a b", "nl\n", "ü", "$x", env={**os.environ, "ODD": "1=2\n3"})
    assert result.stdout.decode() == "[][a b][nl\n][ü][$x]"


@pytest.mark.parametrize(
    ("words", "code"), [(["true"], 0), (["nonesuch"], 127), (["/etc/passwd"], 126), (["sh", "-c", "kill -9 $$"], 137)]
)
def test_exit_codes_are_those_of_a_shell(vmlinux: Path, words: list[str], code: int) -> None:
    assert lab(vmlinux, *words).returncode == code


def test_host_files_are_read_only_and_scratch_is_not(vmlinux: Path, tmp_path: Path) -> None:
    (tmp_path / "seen").write_text("host")
    script = (
        'cat seen; echo changed > "$TERRACE_SCRATCH/x" && cat "$TERRACE_SCRATCH/x"; echo guest > seen; cat seen;'
        " touch /etc/terrace-was-here 2>/dev/null || echo readonly; ls -d /proc/1 /sys/kernel/mm /dev/null"
    )
    result = lab(vmlinux, "sh", "-c", script, cwd=tmp_path)
    assert result.stdout.decode().split() == [
        *("hostchanged", "guest", "readonly", "/dev/null", "/proc/1", "/sys/kernel/mm"),
    ]
    assert (tmp_path / "seen").read_text() == "host"


def test_files_come_back_with_contents_and_modes(vmlinux: Path, tmp_path: Path) -> None:
    script = (
        'cd "$TERRACE_OUT" && pwd && mkdir -m 700 a && head -c 3000000 /dev/urandom > a/blob && sha256sum < a/blob'
        " && chmod 640 a/blob && ln -s /etc/passwd link; exit 3"
    )
    result = lab(vmlinux, "sh", "-c", script, options=["--out", str(tmp_path / "out")])
    folder, digest = result.stdout.decode().splitlines()
    assert (result.returncode, folder) == (3, "/run/terrace/out")
    assert b"--out: 'link' is a symbolic link, and stays in the guest" in result.stderr
    found = {str(path.relative_to(tmp_path / "out")): path for path in (tmp_path / "out").rglob("*")}
    assert sorted(found) == ["a", "a/blob"]
    assert hashlib.sha256(found["a/blob"].read_bytes()).hexdigest() == digest.split()[0]
    assert [found[name].stat().st_mode & 0o7777 for name in sorted(found)] == [0o700, 0o640]


def test_files_come_back_from_a_command_that_must_be_killed(vmlinux: Path, tmp_path: Path) -> None:
    """It ignores the signal that its time limit sends, and so does a process that it started."""
    script = "trap '' TERM; (sleep 1000) & echo partial > $TERRACE_OUT/x; echo up; while :; do sleep 1; done"
    result = run_in_guest(vmlinux, "dram-cxl", ["sh", "-c", script], timeout_s=40, out=tmp_path / "out")
    assert (result.verdict, result.exit_code, result.stdout) == ("timeout", 124, b"up\n")
    assert (result.missing, result.skipped) == ((), ())
    assert (tmp_path / "out/x").read_text() == "partial\n"


def test_files_beyond_the_limit_are_missing_and_no_success(vmlinux: Path, tmp_path: Path) -> None:
    script = "cd $TERRACE_OUT; echo x > small; truncate -s 1T sparse; head -c 2M /dev/zero > large 2> /dev/null; true"
    result = lab(vmlinux, "sh", "-c", script, options=["--out", str(tmp_path / "out"), "--out-limit", "1M"])
    assert result.returncode == 125
    assert b"--out: 'sparse': larger than the rest of the limit" in result.stderr
    assert (tmp_path / "out/small").read_text() == "x\n" and not (tmp_path / "out/sparse").exists()
    assert sum(path.stat().st_size for path in (tmp_path / "out").iterdir()) <= 1 << 20


def test_a_guest_that_went_down_hands_nothing_back(vmlinux: Path, tmp_path: Path) -> None:
    script = "echo x > $TERRACE_OUT/x; echo c > /proc/sysrq-trigger"
    result = run_in_guest(vmlinux, "dram-cxl", ["sh", "-c", script], timeout_s=90, out=tmp_path / "out")
    assert (result.verdict, result.missing) == ("panic", ("the machine ended before all files had arrived",))
    assert not (tmp_path / "out").exists()


def test_a_node_without_memory_has_cpus_and_leaves_the_tiers(vmlinux: Path) -> None:
    script = (
        "cd /sys/devices/system/node; cat has_cpu has_memory node1/cpulist node1/distance"
        " /sys/devices/virtual/memory_tiering/memory_tier*/nodelist; cat node2/access0/initiators/read_latency"
    )
    machine = from_words(["512M,cpus=1", "0,cpus=2", "512M,latency=300ns"])
    result = run_in_guest(vmlinux, machine, ["sh", "-c", script], timeout_s=90)
    assert result.stdout.decode().splitlines() == ["0-1", "0,2", "1-2", "21 10 24", "0", "2", "300"], result.explain()
    assert result.reports == []


# The machines of published figures are of the same shapes as ours.
@pytest.mark.parametrize("name", [name for name in topology_names() if not name.startswith("seed-")])
def test_every_topology_has_the_tiers_and_targets_it_promises(vmlinux: Path, name: str) -> None:
    script = "cat /sys/devices/virtual/memory_tiering/memory_tier*/nodelist; dmesg | grep -o 'Node [0-9]*: preferred'"
    result = run_in_guest(vmlinux, name, ["sh", "-c", script], timeout_s=90)
    lines = result.stdout.decode().splitlines()
    tiers = [line for line in lines if not line.startswith("Node")]
    targets = [line for line in lines if line.startswith("Node")]
    assert len(tiers) == {"three-tier": 3, "many-nodes": 3}.get(name, 2), result.explain()
    assert len(targets) == {"three-tier": 2, "two-socket-cxl": 2, "many-nodes": 46}.get(name, 1)
    assert result.reports == []


def test_cpus_are_dealt_out(vmlinux: Path) -> None:
    script = "cat /sys/devices/system/node/node0/cpulist /sys/devices/system/node/node1/cpulist"
    result = run_in_guest(vmlinux, "two-socket-cxl", ["sh", "-c", script], cpus=3, timeout_s=90)
    assert result.stdout.decode().split() == ["0-1", "2"]
    assert result.reports == []


def test_small_guest_boots_in_three_seconds(vmlinux: Path) -> None:
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        pytest.skip("this host has more to do than CPUs")
    best = min(run_in_guest(vmlinux, "dram-cxl", ["true"], timeout_s=90).boot_s for _ in range(3))
    assert best <= 3.0


def test_ctrl_c_ends_it_and_leaves_no_qemu(vmlinux: Path) -> None:
    command = [TERRACE, "lab", "run", "--vmlinux", str(vmlinux), "--", "sh", "-c", "trap '' INT; echo up; sleep 1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        machines = qemu_children(process.pid)
        assert len(machines) == 1
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 128 + signal.SIGINT
        assert time.monotonic() - began < 8
        assert not Path(f"/proc/{machines[0]}").exists()


def test_killing_us_leaves_no_qemu(vmlinux: Path) -> None:
    command = [TERRACE, "lab", "run", "--vmlinux", str(vmlinux), "--", "sh", "-c", "echo up; sleep 1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        machine = Path(f"/proc/{qemu_children(process.pid)[0]}")
        process.kill()
        process.wait(10)
        deadline = time.monotonic() + 5
        while machine.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not machine.exists() or "Z" in (machine / "stat").read_text().rpartition(")")[2].split()[0]


def test_panic_is_told_with_the_kernels_last_words(vmlinux: Path) -> None:
    result = lab(vmlinux, "sh", "-c", "echo before; echo c > /proc/sysrq-trigger")
    assert result.returncode == 124
    assert result.stdout == b"before\n"
    assert b"went down" in result.stderr
    assert b"Kernel panic - not syncing: sysrq triggered crash" in result.stderr


def test_hang_is_found_and_asked_where_it_is(vmlinux: Path) -> None:
    hog = "for i in 1 2; do chrt -f 99 sh -c 'while :; do :; done' & done; wait"
    result = run_in_guest(
        vmlinux,
        "dram-cxl",
        ["sh", "-c", hog],
        sysctl=["kernel.sched_rt_runtime_us=-1"],
        limits=Limits(hang_s=6),
        timeout_s=100,
    )
    assert (result.verdict, result.exit_code) == ("hang", 124)
    assert "NMI" in result.explain()


@pytest.mark.parametrize(
    ("crash", "verdicts", "words"),
    [
        # One CPU has interrupts off, and a task on the other CPU waits for it. The detector of RCU or that of hung
        # tasks reports this. The tasks that run the detectors may themselves wait: then the NMI reports it.
        ("HARDLOCKUP", {"panic", "hang"}, r"rcu_|hung_task|soft lockup|NMI"),
        ("EXCEPTION", {"panic"}, r"Oops"),
        ("PANIC", {"panic"}, r"Kernel panic - not syncing: dumptest"),
    ],
)
def test_broken_kernel_ends_the_run(vmlinux: Path, crash: str, verdicts: set[str], words: str) -> None:
    script = (
        "cd /sys/kernel/debug/provoke-crash 2>/dev/null || exit 4; taskset -pc 0 $$; "
        f"taskset -c 1 sh -c 'echo {crash} > DIRECT' & sleep 1; echo 1 > /proc/sys/vm/stat_refresh; sleep 1000"
    )
    # A hung task is one of 120 s, looked for every 120 s: where only that detector sees it, it takes both.
    result = run_in_guest(vmlinux, "dram-cxl", ["sh", "-c", script], timeout_s=400)
    if result.exit_code == 4:
        pytest.skip("this kernel has no LKDTM")
    assert (result.verdict in verdicts, result.exit_code) == (True, 124), result.explain()
    assert re.search(words, result.explain()), result.console_log[-6000:]


def test_warning_is_named_and_the_exit_code_stays(vmlinux: Path) -> None:
    crash = "echo WARNING > /sys/kernel/debug/provoke-crash/DIRECT; exit 6"
    result = lab(vmlinux, "sh", "-c", f"[ -d /sys/kernel/debug/provoke-crash ] || exit 4; {crash}")
    if result.returncode == 4:
        pytest.skip("this kernel has no LKDTM")
    assert result.returncode == 6
    assert b"the kernel reported while this ran: WARNING: CPU: " in result.stderr
    assert b"lkdtm/bugs.c" in result.stderr


def test_stopped_machine_is_a_hang(vmlinux: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from terrace.lab.run import Limits, run_in_guest\n"
        "r = run_in_guest(Path(sys.argv[1]), 'dram-cxl', ['sh', '-c', 'echo up; sleep 1000'],\n"
        "                 limits=Limits(hang_s=3, answer_s=3), stdout=lambda data: print('up', flush=True))\n"
        "print(r.verdict, r.exit_code)"
    )
    env = {**os.environ, "PYTHONPATH": str(repo_root() / "src")}
    with subprocess.Popen([sys.executable, "-c", program, str(vmlinux)], stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        os.kill(qemu_children(process.pid)[0], signal.SIGSTOP)
        assert process.stdout.readline() == b"hang 124\n"


def test_time_limit(vmlinux: Path) -> None:
    began = time.monotonic()
    result = lab(vmlinux, "sh", "-c", "trap '' TERM; while :; do sleep 1; done", options=["--timeout", "6s"])
    assert result.returncode == 124
    assert b"time limit" in result.stderr
    assert time.monotonic() - began < 20


def test_what_does_not_boot_is_125(vmlinux: Path) -> None:
    result = lab(vmlinux, "true", options=["--append", "init=/nonesuch rdinit=/nonesuch"])
    assert result.returncode == 125
    assert b"did not boot" in result.stderr


def test_a_file_that_is_no_kernel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vmlinux").write_bytes(b"not a kernel")
    result = lab(tmp_path / "vmlinux", "true")
    assert result.returncode == 2
    assert b"no vmlinux" in result.stderr


def test_icount_makes_guest_time_a_count_of_instructions(vmlinux: Path) -> None:
    script = (
        "read up idle < /proc/uptime; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done;"
        " read end idle < /proc/uptime; echo $up $end"
    )
    spans = []
    for _ in range(2):
        result = run_in_guest(vmlinux, "dram-cxl", ["sh", "-c", script], icount_shift=3, timeout_s=200)
        assert result.verdict == "ok", result.explain()
        up, end = (float(word) for word in result.stdout.split())
        spans.append(end - up)
    assert abs(spans[0] - spans[1]) <= 0.05 * max(spans) + 0.02


def test_shell_has_a_terminal_and_writable_files(vmlinux: Path) -> None:
    result = run_in_guest(
        vmlinux,
        "dram-cxl",
        ["sh", "-c", "tty; stty size; touch /etc/terrace-was-here && echo written; read line; echo got $line"],
        stdin=b"hello\n",
        root="overlay",
        tty="33x99",
        timeout_s=90,
    )
    text = result.stdout.decode().replace("\r\n", "\n")
    assert result.exit_code == 0
    assert "/dev/pts/0\n33 99\nwritten\n" in text
    assert "got hello" in text
    assert not Path("/etc/terrace-was-here").exists()

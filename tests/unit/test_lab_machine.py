# SPDX-License-Identifier: GPL-2.0
import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from terrace.cli import lab
from terrace.lab.initramfs import CpioEntry, GuestConfig, cpio_archive, encode_config
from terrace.lab.machine import Machine, qemu_argv
from terrace.lab.run import GuestResult, Limits, beat_ms, guest_environment
from terrace.lab.topology import load_topology, topology_names
from terrace.paths import repo_root

GOLDEN = repo_root() / "tests" / "golden" / "lab"
MACHINE = Machine(
    vmlinux=Path("/kernels/vmlinux"),
    initrd=Path("/run/initramfs"),
    console=Path("/run/a,b/console"),
    topology=load_topology("dram-cxl"),
)


def lines(machine: Machine) -> str:
    """One option a line, as in the golden files."""
    words = qemu_argv(machine, [3, 4, 5, 6], 7)
    text = " ".join(f'"{word}"' if " " in word else word for word in words)
    return text.replace(" -", "\n-") + "\n"


# 64 nodes have 4096 distances, and the machines of published figures are of the same shapes.
@pytest.mark.parametrize("name", [name for name in topology_names() if not name.startswith(("many-", "seed-"))])
def test_command_line_of_each_topology(name: str) -> None:
    golden = GOLDEN / f"qemu-{name}.txt"
    # To accept a change: write lines(...) to that file and read the difference.
    assert lines(replace(MACHINE, topology=load_topology(name))) == golden.read_text()


def test_instructions_as_the_clock_need_one_thread_and_fixed_time() -> None:
    words = qemu_argv(replace(MACHINE, icount_shift=3, plugin="p.so,a=1", append=["x=1"]), [3, 4, 5, 6], 7)
    text = " ".join(words)
    assert "-accel tcg,thread=single" in text
    assert "-icount shift=3,sleep=off -rtc base=2026-01-01T00:00:00,clock=vm -seed 1" in text
    assert "-plugin p.so,a=1" in text
    assert words[words.index("-append") + 1].endswith(" x=1")


def test_code_that_is_patched_runs_in_one_thread() -> None:
    text = " ".join(qemu_argv(replace(MACHINE, one_thread=True), [3, 4, 5, 6], 7))
    assert "-accel tcg,thread=single" in text
    assert "-icount" not in text


@pytest.mark.parametrize(
    ("words", "thread"),
    [
        (["--kernel", "static-keys"], "single"),
        (["--vmlinux", "/bin/true"], "multi"),
        (["--vmlinux", "/bin/true", "--one-thread"], "single"),
        ([], "multi"),
    ],
)
def test_the_flavour_says_how_many_threads(words: list[str], thread: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    lab.add_arguments(parser)
    assert lab.main(parser.parse_args(["run", "--dry-run", *words, "--", "true"])) == 0
    assert f"-accel tcg,thread={thread} " in capsys.readouterr().out


@pytest.mark.parametrize("cpus", [0, 1, 2, 4, 8, 16, 64])
def test_a_model_of_many_cpus_beats_before_it_seems_to_hang(cpus: int) -> None:
    """A run of xsbench on 4 CPUs was taken for a hang: 2 s of it, the period then, took more than 300 s."""
    host_s = beat_ms(cpus, counts=True) / 1e3 * max(1, cpus) * 40
    assert host_s < Limits().scaled(5.0).hang_s * 0.6
    assert beat_ms(0, counts=False) == 1000


def test_kvm() -> None:
    text = " ".join(qemu_argv(replace(MACHINE, accel="kvm"), [3, 4, 5, 6], 7))
    assert "-accel kvm -cpu host" in text
    assert "tcg" not in text


def test_cpio_archive_is_what_the_kernel_reads() -> None:
    archive = cpio_archive([CpioEntry("init", 0o100755, b"abc"), CpioEntry("dev/console", 0o020600, device=(5, 1))])
    assert archive[:6] == b"070701"
    assert len(archive) % 4 == 0
    name_at = 110
    assert archive[name_at : name_at + 5] == b"init\0"
    assert int(archive[54:62], 16) == 3
    data_at = (name_at + 5 + 3) // 4 * 4
    assert archive[data_at : data_at + 4] == b"abc\0"
    assert b"TRAILER!!!\0" in archive


def test_configuration_keeps_every_byte() -> None:
    text = encode_config(GuestConfig(["a b", "", "x=\n"], cwd="/w", env={"A": "1=2"}, tty="1x2"))
    assert text.split(b"\0")[:4] == [b"arg=a b", b"arg=", b"arg=x=\n", b"env=A=1=2"]
    assert b"\0cwd=/w\0" in text
    assert text.endswith(b"\0tty=1x2\0")


def test_environment_of_the_guest() -> None:
    env = guest_environment({"PATH": "/bin", "TMPDIR": "/var/folders/x"})
    assert env == {"PATH": "/bin", "TERRACE_SCRATCH": "/run/terrace/scratch", "TERRACE_GUEST": "1"}


@pytest.mark.parametrize(
    ("verdict", "message", "log", "words"),
    [
        ("ok", "", "Kernel panic - not syncing: x", ""),
        ("panic", "", "one\n[1.0] Kernel panic - not syncing: x\r\nend", "Kernel panic - not syncing: x\n  end"),
        ("hang", "no heartbeat for 60 s", "", "stopped answering: no heartbeat for 60 s\nthe kernel said nothing"),
        ("timeout", "5 s", "boot\nboot", "the guest did not end within its time limit: 5 s"),
        ("setup", "sysctl vm/x=1: No such file", "", "could not be set up as requested: sysctl vm/x=1"),
    ],
)
def test_what_is_said_of_a_run(verdict: str, message: str, log: str, words: str) -> None:
    text = GuestResult(124, b"", b"", log, verdict, message, boot_s=1.0).explain()
    assert words in text
    assert bool(words) == bool(text)

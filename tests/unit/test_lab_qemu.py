# SPDX-License-Identifier: GPL-2.0
"""The death of QEMU is distinguished from the crash of a kernel; a program in QEMU's place follows a plan."""

import os
import sys
from pathlib import Path

import pytest

from terrace.lab import run as lab
from terrace.lab.machine import QEMU
from terrace.lab.run import GuestResult, run_in_guest

# Terminals, sockets, signals: one at a time, after the tests that share the CPUs.
pytestmark = pytest.mark.clock

# Starts count in `starts`; the Nth does the Nth line of `plan`: how far it gets, and the signal that ends it, if any.
FAKE = """#!{python}
import os, re, resource, socket, sys
if "--version" in sys.argv:
    sys.exit(print("QEMU emulator version 10.0.13"))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
with open("{folder}/starts", "a") as starts:
    starts.write("x")
    starts.flush()
    turn = os.path.getsize("{folder}/starts") - 1
how, number = open("{folder}/plan").read().splitlines()[turn].split()
word = re.search("id=terrace.ctl,fd=([0-9]+)", " ".join(sys.argv))
control = socket.socket(fileno=int(word[1]))
if how in ("boots", "ends"):
    control.sendall(b"boot\\n")
if how == "ends":
    control.sendall(b"exit 7 0 0\\n")
    control.recv(100)
print("msix.c:218: Assertion failed", file=sys.stderr, flush=True)
if int(number):
    os.kill(os.getpid(), int(number))
"""


class Fake:
    """The program that stands in for QEMU, and what to run with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / QEMU
        program.write_text(FAKE.format(python=sys.executable, folder=folder))
        program.chmod(0o755)

    def run(self, *plan: str) -> GuestResult:
        (self.folder / "plan").write_text("\n".join(plan))
        return run_in_guest(self.folder / "vmlinux", "dram-cxl", ["true"])

    @property
    def starts(self) -> int:
        return (self.folder / "starts").stat().st_size


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("terrace.lab.qemu.host_memory", lambda: 64 << 30)
    monkeypatch.setattr(lab, "write_initramfs", lambda path, config: path.write_bytes(b""))
    return Fake(tmp_path)


def test_a_bug_of_qemu_during_boot_gets_a_second_start(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    result = fake.run("starts 6", "ends 0")
    assert (result.verdict, result.exit_code, fake.starts) == ("ok", 7, 2)
    said = capsys.readouterr().err
    assert "while the machine booted SIGABRT ended QEMU; msix.c:218: Assertion failed; it is started once more" in said


@pytest.mark.parametrize(
    ("plan", "starts", "code", "words"),
    [
        (("starts 6", "starts 11"), 2, 125, "SIGSEGV ended QEMU"),
        # Somebody wanted that.
        (("starts 9",), 1, 125, "SIGKILL ended QEMU"),
        # The command may have begun.
        (("boots 6",), 1, 124, "SIGABRT ended QEMU"),
    ],
)
def test_what_ends_qemu_otherwise_ends_the_run(
    plan: tuple[str, ...], starts: int, code: int, words: str, fake: Fake
) -> None:
    result = fake.run(*plan)
    assert (result.verdict, result.exit_code, fake.starts) == ("qemu", code, starts)
    assert result.explain().startswith(f"the guest was lost: {words}\nmsix.c:218: Assertion failed\n")


@pytest.mark.parametrize(("how", "verdict", "code"), [("starts 0", "no-boot", 125), ("boots 0", "panic", 124)])
def test_a_kernel_that_goes_down_is_not_tried_again(how: str, verdict: str, code: int, fake: Fake) -> None:
    result = fake.run(how)
    assert (result.verdict, result.exit_code, fake.starts) == (verdict, code, 1)

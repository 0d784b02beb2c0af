# SPDX-License-Identifier: GPL-2.0
"""One session of a Debian: from the start of its machine until it is off, however often it reboots.

A second disk, `carried`, goes with it: mounted at /terrace there, made here before and read here after. A file ``run``
on it is run by the unit terrace-lab in *every* boot, when all else is up: its output goes to the second serial port,
its exit code into the file ``code``, and the machine off.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import BuildError, MissingError
from terrace.lab.debian import disk
from terrace.lab.machine import Machine, bare_argv, escape
from terrace.lab.qemu import die_with_parent, require_host_memory, require_qemu
from terrace.lab.shell import raw_terminal
from terrace.lab.topology import MIB

#: The folder of the guest at which the carried disk is mounted.
MOUNT_POINT = "/terrace"
LABEL = "terrace"
_CODE = "code"
_RUN = "run"
#: The exit code of what did not end in time, as timeout(1) has it.
TIMED_OUT = 124
# A command that reboots the machine is ended by that, which is not its end.
_SCRIPT = f"""\
stty -F /dev/ttyS1 raw
exec > /dev/ttyS1 2>&1
cd /root
{{command}}
code=$?
test "$(systemctl is-system-running)" = stopping && exit
echo $code > {MOUNT_POINT}/{_CODE}
systemctl poweroff
"""
_CARRIED_BYTES = 1024 * MIB
#: Names at the top of the carried disk that are taken.
RESERVED = ("debs", _CODE, _RUN)


@dataclass(frozen=True)
class Debian:
    """A machine, and its disks. ``machine.vmlinux`` is not used: the boot loader of the disk chooses the kernel.

    ``direct`` has that done by QEMU instead: a kernel, its initramfs, its arguments.
    """

    machine: Machine
    root: Path
    carried: Path
    direct: tuple[Path, Path, str] | None = None


def carry(carried: Path, files: Mapping[str, Path | str], command: Sequence[str] = ()) -> None:
    """Make the carried disk: files by their path below /terrace there, or their text; and a command to run.

    Raises BuildError, MissingError.
    """
    with tempfile.TemporaryDirectory(prefix="terrace-") as name:
        folder = Path(name)
        for path, content in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                target.write_text(content)
            else:
                shutil.copy(content, target)
        if command:
            (folder / _RUN).write_text(_SCRIPT.format(command=shlex.join(command)))
        disk.with_label(folder, carried, _CARRIED_BYTES, LABEL)


def argv(debian: Debian, *, terminal: bool) -> list[str]:
    """The command line of QEMU. The guest's terminal is ours, or its command's output is."""
    serial = ["mon:stdio", "null"] if terminal else [f"file:{escape(debian.machine.console)}", "stdio"]
    words = [word for word in bare_argv(debian.machine) if word != "-no-reboot"]
    for file in (debian.root, debian.carried):
        words += ["-drive", f"file={escape(file)},format=raw,if=virtio"]
    for port in serial:
        words += ["-serial", port]
    words += ["-device", "virtio-rng-pci"]
    if debian.direct is not None:
        kernel, initrd, arguments = debian.direct
        words += ["-kernel", str(kernel), "-initrd", str(initrd), "-append", arguments]
    return words


def run(debian: Debian, limit_s: float | None, output: Path | None = None) -> int:
    """Boot it with a carried command; return the exit code of that, or TIMED_OUT.

    Its output goes into the file `output`, by default to stdout. Raises BuildError when QEMU fails or the machine goes
    off before the command has ended, MissingError, UsageError (no memory for it).
    """
    with output.open("wb") if output else nullcontext() as sink:
        try:
            _until_off(argv(debian, terminal=False), sink.fileno() if sink else sys.stdout.fileno(), limit_s=limit_s)
        except subprocess.TimeoutExpired:
            return TIMED_OUT
    code = disk.read(debian.carried, _CODE)
    if code is None:
        raise BuildError(f"Debian went off before the command ended; its console ends:\n{last_words(debian)}")
    return int(code)


def talk(debian: Debian) -> None:
    """Boot it and have this terminal be its own, until it is off. Raises as `run` does."""
    with raw_terminal():
        _until_off(argv(debian, terminal=True), sys.stdout.fileno(), sys.stdin.fileno())


def last_words(debian: Debian) -> str:
    """The end of what its console printed."""
    console = debian.machine.console
    return console.read_text(errors="replace")[-3000:] if console.exists() else "(nothing)"


def _until_off(
    words: Sequence[str], stdout: int, stdin: int = subprocess.DEVNULL, limit_s: float | None = None
) -> None:
    """Run QEMU to its end. Raises BuildError when that is a failure, subprocess.TimeoutExpired, MissingError."""
    try:
        process = subprocess.Popen(
            words, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, preexec_fn=die_with_parent(signal.SIGKILL)
        )
    except FileNotFoundError as error:
        raise MissingError(f"there is no {words[0]}") from error
    try:
        _, said = process.communicate(timeout=limit_s)
    finally:
        # After Ctrl-C as well; the journal of ext4 repairs the disk.
        process.kill()
        process.wait()
    if process.returncode:
        raise BuildError(f"QEMU ended with {process.returncode}: {said.decode(errors='replace').strip()}")


def require(machine: Machine) -> None:
    """Have what a session needs on this host. Raises MissingError, UsageError (no memory for it)."""
    require_qemu()
    require_host_memory(machine.topology)

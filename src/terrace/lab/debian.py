# SPDX-License-Identifier: GPL-2.0
"""A whole Debian on a machine of the lab: systemd is its first process, and its root a folder of the host."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from terrace.errors import BuildError, MissingError
from terrace.host import require_packages
from terrace.lab.machine import Machine, bare_argv, escape
from terrace.lab.qemu import die_with_parent, require_host_memory, require_qemu

RELEASE = "bookworm"
_TAG = "debian"


def make(root: Path, packages: Sequence[str], hooks: Sequence[str] = ()) -> None:
    """Install Debian with these packages into the folder ``root``, which must not be there yet.

    ``hooks`` are commands of the shell that run in the end with ``root`` as $1. Raises BuildError with mmdebstrap's
    last words, MissingError.
    """
    require_packages(["mmdebstrap"], "install a Debian for the lab")
    words = ["mmdebstrap", "--variant=apt", "--format=directory", f"--include={','.join(packages)}"]
    words += [f"--customize-hook={hook}" for hook in hooks]
    done = subprocess.run(
        [*words, RELEASE, str(root)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"mmdebstrap failed; its output ends:\n{done.stdout.strip()[-3000:]}")


def boot(machine: Machine, root: Path, limit_s: float) -> None:
    """Boot it with ``machine.vmlinux`` and wait until it is off; the console's file has what it prints.

    The guest writes into ``root`` as the user who calls this: root, if files of several users are to be right. Raises
    BuildError when QEMU fails, or it is not off after ``limit_s``.
    """
    require_qemu()
    require_host_memory(machine.topology)
    arguments = [
        f"root={_TAG} rootfstype=9p rootflags=trans=virtio,version=9p2000.L,msize=262144,cache=loose rw",
        "init=/lib/systemd/systemd console=ttyS0 panic=-1 no_timer_check tsc=reliable systemd.show_status=no",
        *machine.append,
    ]
    words = [
        *bare_argv(machine),
        *("-kernel", str(machine.vmlinux), "-append", " ".join(arguments)),
        *("-serial", f"file:{escape(machine.console)}"),
        *("-fsdev", f"local,id=root,path={escape(root)},security_model=none,multidevs=remap"),
        *("-device", f"virtio-9p-pci,fsdev=root,mount_tag={_TAG}"),
        *("-device", "virtio-rng-pci"),
    ]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=limit_s,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
    except FileNotFoundError as error:
        raise MissingError(f"there is no {words[0]}") from error
    except subprocess.TimeoutExpired:
        raise BuildError(
            f"Debian is not off after {limit_s:.0f} s; its console ends:\n{_end(machine.console)}"
        ) from None
    if done.returncode:
        raise BuildError(f"QEMU ended with {done.returncode}: {done.stdout.strip()}\n{_end(machine.console)}")


def _end(console: Path) -> str:
    return console.read_text(errors="replace")[-3000:] if console.exists() else "(nothing)"

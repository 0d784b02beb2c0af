# SPDX-License-Identifier: GPL-2.0
"""One QEMU process: start it with its sockets, and make sure that it ends."""

import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from terrace.errors import UsageError
from terrace.lab.emulator import find_emulator
from terrace.lab.machine import Machine, qemu_argv
from terrace.lab.topology import MIB, Topology
from terrace.units import format_size

_PR_SET_PDEATHSIG = 1
# Signals of a fault in the program itself; other signals come from outside (SIGKILL: a user, or a
# host without memory).
_BUGS = frozenset((signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP))
# Memory of QEMU itself, its translation buffer, and the rest of the host.
HOST_RESERVE = 512 * MIB


def host_memory() -> int:
    """Get the memory of this host in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_host_memory(topology: Topology) -> None:
    """Raise UsageError if this host has less memory than the machine needs."""
    have = host_memory()
    if topology.memory + HOST_RESERVE > have:
        raise UsageError(
            f"topology '{topology.name}' has {format_size(topology.memory)} of memory and QEMU needs "
            f"{format_size(HOST_RESERVE)}, but this host has {format_size(have)}; "
            "make the machine smaller with --memory-scale (0.5 halves it)"
        )


def require_qemu() -> None:
    """Make sure that QEMU works, and install it if necessary. Raises MissingError if that fails."""
    find_emulator()


class Qemu:
    """A running machine: `ports` maps the names of the machine's ports to non-blocking sockets."""

    def __init__(self, machine: Machine, log: Path) -> None:
        """Start QEMU; `log` receives its messages. Raises UsageError or MissingError before anything runs."""
        require_qemu()
        require_host_memory(machine.topology)
        self.ports: dict[str, socket.socket] = {}
        self._log = log
        pairs = [socket.socketpair() for _ in range(len(machine.ports) + 1)]
        far = [pair[1] for pair in pairs]
        fds = [end.fileno() for end in far]
        self.argv = qemu_argv(machine, fds[:-1], fds[-1])
        with log.open("wb") as log_file:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                pass_fds=fds,
                start_new_session=True,  # Ctrl-C on the terminal is passed on by this program
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        for end in far:
            end.close()
        for name, (near, _) in zip(machine.ports, pairs, strict=False):
            near.setblocking(False)
            self.ports[name] = near
        self._qmp = pairs[-1][0]

    def messages(self) -> str:
        """Get QEMU's own messages."""
        return self._log.read_text(errors="replace").strip()

    def ended(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    def killed_by(self) -> signal.Signals | None:
        """Get the signal that ended the process, if any: a guest that powers off ends QEMU without a signal."""
        code = self.process.poll()
        return None if code is None or code >= 0 else signal.Signals(-code)

    def interrupt_cpus(self) -> None:
        """Send every CPU an NMI; the lab's kernels panic on it and print the state of each CPU."""
        try:
            self._qmp.settimeout(2)
            self._qmp.sendall(b'{"execute":"qmp_capabilities"}\n{"execute":"inject-nmi"}\n')
        except OSError:
            pass

    def wait(self, seconds: float) -> bool:
        """Wait for QEMU to end by itself; False if it did not."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End QEMU now; may be called any number of times."""
        if not self.ended():
            # SIGKILL also ends a stopped process.
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for end in [*self.ports.values(), self._qmp]:
            end.close()


def is_bug(number: signal.Signals | None) -> bool:
    """Whether the signal shows a fault of QEMU itself."""
    return number in _BUGS


def die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """Called by a child: send it this signal when the thread that forked it ends, so that no child
    outlives this program.
    """
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)

    return ask

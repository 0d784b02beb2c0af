# SPDX-License-Identifier: GPL-2.0
"""One QEMU process: started with its sockets, ended for sure."""

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
# How a program ends by a bug of its own; the rest comes from others (SIGKILL: a user, or a host without memory).
_BUGS = frozenset((signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP))
# QEMU itself, its translation buffer, and what the host needs to go on living.
HOST_RESERVE = 512 * MIB


def host_memory() -> int:
    """Bytes of memory of this host."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_host_memory(topology: Topology) -> None:
    """Raise UsageError when the machine could not have all its memory at once on this host."""
    have = host_memory()
    if topology.memory + HOST_RESERVE > have:
        raise UsageError(
            f"topology '{topology.name}' has {format_size(topology.memory)} of memory and QEMU needs "
            f"{format_size(HOST_RESERVE)}, but this host has {format_size(have)}; "
            "make the machine smaller with --memory-scale (0.5 halves it)"
        )


def require_qemu() -> None:
    """Have a QEMU that works: installed when it is not there. Raises MissingError when that cannot be."""
    find_emulator()


class Qemu:
    """A running machine: `ports` maps the names of the machine's ports to non-blocking sockets."""

    def __init__(self, machine: Machine, log: Path) -> None:
        """Start it. `log` gets QEMU's own messages. Raises UsageError or MissingError before anything runs."""
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
                start_new_session=True,  # Ctrl-C on the terminal is ours to pass on
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        for end in far:
            end.close()
        for name, (near, _) in zip(machine.ports, pairs, strict=False):
            near.setblocking(False)
            self.ports[name] = near
        self._qmp = pairs[-1][0]

    def messages(self) -> str:
        """What QEMU itself had to say."""
        return self._log.read_text(errors="replace").strip()

    def ended(self) -> bool:
        """True when the process is gone."""
        return self.process.poll() is not None

    def killed_by(self) -> signal.Signals | None:
        """The signal that ended the process, if one did: a guest that goes down, whatever for, ends it without."""
        code = self.process.poll()
        return None if code is None or code >= 0 else signal.Signals(-code)

    def interrupt_cpus(self) -> None:
        """Send every CPU an NMI; our kernels panic on it and say where they were."""
        try:
            self._qmp.settimeout(2)
            self._qmp.sendall(b'{"execute":"qmp_capabilities"}\n{"execute":"inject-nmi"}\n')
        except OSError:
            pass

    def wait(self, seconds: float) -> bool:
        """Wait for it to end by itself; False when it did not."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End it now; may be called any number of times."""
        if not self.ended():
            # A stopped process gets SIGKILL, too.
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for end in [*self.ports.values(), self._qmp]:
            end.close()


def is_bug(number: signal.Signals | None) -> bool:
    """True for a signal that says that QEMU itself is at fault."""
    return number in _BUGS


def die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """What a child calls to get this signal when the thread that forked it ends: nothing outlives us, killed or not."""
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)

    return ask

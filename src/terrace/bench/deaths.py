# SPDX-License-Identifier: GPL-2.0
"""Track how workers of this machine end, and how much memory a worker and its guest had before."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from terrace.units import format_size

# Time to wait for the exit status after the scheduler has lost a worker: the two arrive by
# different ways.
_PATIENCE_S = 5.0


class Deaths:
    """Ends of workers by address; written in the thread of their nannies, read in the main thread."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._peaks: dict[str, int] = {}
        self._told = threading.Condition()

    def nanny(self, base: Any) -> Any:
        """Create a class of nannies that report here how their workers end."""
        deaths = self

        class Telling(base):  # type: ignore[misc]
            """A nanny derived from `base`."""

            def _on_worker_exit_sync(self, exitcode: int) -> None:
                deaths.ended(str(self.worker_address), exitcode)
                super()._on_worker_exit_sync(exitcode)

        return Telling

    def ended(self, address: str, code: int) -> None:
        """Record the end of a worker's process; a negative `code` is a signal."""
        with self._told:
            self._codes[address] = code
            self._told.notify_all()

    def look(self, address: str, pid: int) -> None:
        """Record the present memory of the worker and its guest."""
        self._peaks[address] = max(self._peaks.get(address, 0), sum(map(_resident, _family(pid))))

    def reason(self, address: str) -> str:
        """Describe how a worker ended."""
        with self._told:
            self._told.wait_for(lambda: address in self._codes, _PATIENCE_S)
            code = self._codes.get(address)
        parts = [_ending(code)]
        if address in self._peaks:
            parts.append(f"it and its guest had {_size(self._peaks[address])} of memory at most")
        return ", ".join([*parts, f"the host has {_size(available_memory())} left"])


def _ending(code: int | None) -> str:
    if code is None:
        return "its process did not say how it ended"
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    # The OOM killer and `kill -9` send this signal.
    return f"killed by {name}" + (" (out of memory?)" if -code == signal.SIGKILL else "")


def _size(number: int) -> str:
    return format_size(number >> 20 << 20)


def available_memory() -> int:
    """Get the memory in bytes that this host can allocate without swapping: page cache counts as
    available.
    """
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) << 10
    return 0


def _family(pid: int) -> Iterator[int]:
    """List a process and its existing descendants."""
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = file.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _family(int(child))


def _resident(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))

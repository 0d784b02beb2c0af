# SPDX-License-Identifier: GPL-2.0
"""The rate of the host's time stamp counter, which a TCG guest without -icount reads as its own.

A guest that measures the rate against emulated timers on a busy host can be wrong by a factor of
thirty, with all its times. So the host measures it once, without emulation.
"""

import ctypes
import functools
import mmap
import platform
import statistics
import time

# rdtsc; shl rdx, 32; or rax, rdx; ret
_READ_TSC = bytes.fromhex("0f31 48c1e220 4809d0 c3".replace(" ", ""))
_SPAN_NS = 10_000_000
_ROUNDS = 5


@functools.cache
def host_tsc_khz() -> int | None:
    """Measure counts per millisecond, the median of five spans of 10 ms; None if the counter cannot be read."""
    if platform.machine() != "x86_64":
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None  # writable executable memory is forbidden here; the guest calibrates by itself
    page.write(_READ_TSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    rates: list[float] = []
    for _ in range(_ROUNDS):
        ticks, start = read(), time.monotonic_ns()
        while (now := time.monotonic_ns()) - start < _SPAN_NS:
            pass
        rates.append((read() - ticks) * 1_000_000 / (now - start))
    return round(statistics.median(rates))


def clock_arguments(accel: str, icount_shift: int | None) -> list[str]:
    """Get kernel arguments with the rate of a TCG guest's clock; none if the guest does not read the host's counter."""
    rate = host_tsc_khz() if accel == "tcg" and icount_shift is None else None
    return [] if rate is None else [f"tsc_early_khz={rate}"]

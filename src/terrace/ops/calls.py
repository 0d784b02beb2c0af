# SPDX-License-Identifier: GPL-2.0
"""System calls without a Python function: the prctl of promotion, and probes of policy calls."""

from __future__ import annotations

import ctypes
import errno
import os
import platform

#: Scan scale of a task, the rate of scans of its slow memory: 0 = no promotion, 5 = normal, 10 = twice as often.
#: It has no effect on demotion.
PR_MTIER_SCAN_SCALE_SET = 0x4D540001
PR_MTIER_SCAN_SCALE_GET = 0x4D540002

SCALE_MAX = 10

_GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236, "riscv64": 236, "loongarch64": 236}


class Calls:
    """System calls of the running kernel; tests replace this object."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def scan_scale(self) -> int:
        """Scan scale of this task, 0..10. Raises OSError (EINVAL: the kernel has no such call)."""
        return self._prctl(PR_MTIER_SCAN_SCALE_GET, 0)

    def set_scan_scale(self, scale: int) -> None:
        """Set this task's scan scale; children and exec'd programs keep it. Raises OSError."""
        self._prctl(PR_MTIER_SCAN_SCALE_SET, scale)

    def get_mempolicy(self) -> int:
        """Mode of this task's memory policy. Raises OSError (ENOSYS: no NUMA in this kernel)."""
        number = _GET_MEMPOLICY.get(platform.machine())
        if number is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        mode = ctypes.c_int(0)
        result = self._libc.syscall(
            ctypes.c_long(number), ctypes.byref(mode), None, ctypes.c_ulong(0), None, ctypes.c_ulong(0)
        )
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return mode.value

    def _prctl(self, option: int, value: int) -> int:
        words = [ctypes.c_ulong(word) for word in (value, 0, 0, 0)]
        result: int = self._libc.prctl(ctypes.c_int(option), *words)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

# SPDX-License-Identifier: GPL-2.0
"""Choose the accelerator. The existence of /dev/kvm proves nothing: only a guest that has booted does."""

import os
from pathlib import Path

from terrace import files
from terrace.errors import MissingError, UsageError
from terrace.lab.run import GuestResult, Limits, run_in_guest
from terrace.paths import cache_dir

ACCELERATORS = ("tcg", "kvm", "auto")
_PROBE_LIMITS = Limits(boot_s=10.0, hang_s=5.0, answer_s=5.0)


def choose_accel(wanted: str, kernel: Path) -> str:
    """Return tcg or kvm for the accelerator `wanted`; kvm and auto boot a probe guest, once per
    boot of the host.

    Raises MissingError if kvm is wanted and does not work, UsageError for an unknown name.
    """
    if wanted not in ACCELERATORS:
        raise UsageError(f"--accel {wanted}: use one of {', '.join(ACCELERATORS)}")
    if wanted == "tcg":
        return "tcg"
    problem = _probe(kernel)
    if not problem:
        return "kvm"
    if wanted == "auto":
        return "tcg"
    raise MissingError(f"--accel kvm: {problem}; use --accel tcg, which works everywhere")


def _probe(kernel: Path) -> str:
    """Get the reason why KVM does not work; '' if it works."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "/dev/kvm is not there or not accessible"
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    stamp = cache_dir() / "kvm-probe"
    known = stamp.read_text(encoding="utf-8", errors="replace") if stamp.exists() else ""
    if known.startswith(boot_id) and known.count("\n") == 2:
        return known[len(boot_id) :].strip()
    result: GuestResult = run_in_guest(kernel, "dram-cxl", ["true"], accel="kvm", timeout_s=15, limits=_PROBE_LIMITS)
    works = result.verdict == "ok" and result.exit_code == 0
    problem = "" if works else f"a probe guest {result.explain().splitlines()[0].removeprefix('the guest ')}"
    files.replace(stamp, f"{boot_id}\n{problem}\n".encode())
    return problem

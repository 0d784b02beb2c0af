# SPDX-License-Identifier: GPL-2.0
"""The requirements of each group of tests on this host, installed before the first group of a run starts."""

from collections.abc import Sequence

from terrace.host import require_packages
from terrace.kernel.build import PACKAGES as KERNEL_PACKAGES
from terrace.kernel.check import require_packages_of
from terrace.lab.debian.disk import PACKAGES as DISK_PACKAGES
from terrace.lab.plugin import require_tools
from terrace.lab.qemu import require_qemu
from terrace.lab.run import require_guest_tools
from terrace.testing.suites import GROUP as SUITES
from terrace.testing.suites import require_suites

#: Tests without a guest compile programs. A test without its compiler would skip itself, which is a
#: failure.
HOST_PACKAGES = ("gcc", "libc6-dev", "make")
#: Programs that tests/unit runs: dpkg-parsechangelog, groff, systemd-analyze.
UNIT_PACKAGES = ("dpkg-dev", "groff-base", "systemd")
#: Programs that tests/lab runs on the host.
LAB_PACKAGES = ("trace-cmd", "mmdebstrap")
# Groups with guests in which a plugin counts instructions or drives the clock.
_WITH_PLUGINS = ("lab", "bench", "selftest", "selftest-debug", "selftest-static-keys")
#: Groups whose requirements depend on the selected tests.
BY_TEST = ("patches", "checks", SUITES)
_WITH_GUESTS = (*_WITH_PLUGINS, "kunit", SUITES)


def require_for(group: str, names: Sequence[str], *, builds: bool) -> None:
    """Install the requirements of the tests `names` of `group`; `builds`: also those of building
    their kernel.

    Raises MissingError for a package that cannot be installed, and for a QEMU that does not fit the
    group.
    """
    if not names:
        return
    if group in ("unit", "policy", "policy-mutants"):
        require_packages(HOST_PACKAGES, "compile programs of the tests")
    if group == "unit":
        require_packages((*UNIT_PACKAGES, *DISK_PACKAGES), "read manuals, make disks")
        require_qemu()
    if group in ("patches", "checks"):
        require_packages_of(names)
    if group == "lab":
        require_packages(LAB_PACKAGES, "record in the guest, unpack other QEMUs")
    if group == SUITES:
        require_suites(names)
    if group in _WITH_GUESTS:
        require_guest_tools()
    if group in _WITH_PLUGINS:
        require_tools(drives=True)
    if group == "configs" or (builds and group in _WITH_GUESTS):
        require_packages(KERNEL_PACKAGES, "build a kernel")

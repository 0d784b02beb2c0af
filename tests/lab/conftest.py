# SPDX-License-Identifier: GPL-2.0
"""The kernels that these tests boot: set by `terrace test`, otherwise built ones.

$TERRACE_TEST_VMLINUX, or the built `terrace` flavour; $TERRACE_TEST_STOCK_VMLINUX, or `stock`.
"""

import os
from pathlib import Path

import pytest

from terrace.kernel.build import build, find_built


@pytest.fixture(scope="session")
def vmlinux() -> Path:
    given = os.environ.get("TERRACE_TEST_VMLINUX")
    if given:
        return Path(given)
    built = find_built("terrace")
    if built is None:
        pytest.skip("no kernel: run this through `terrace test --group lab`")
    return built.vmlinux


@pytest.fixture(scope="session")
def stock_vmlinux(vmlinux: Path) -> Path:
    """The stock kernel, if a kernel can be booted at all."""
    del vmlinux
    given = os.environ.get("TERRACE_TEST_STOCK_VMLINUX")
    return Path(given) if given else build("stock").vmlinux

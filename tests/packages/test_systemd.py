# SPDX-License-Identifier: GPL-2.0
"""A Debian with systemd on our kernel: what the file of settings says is set at boot, and goes with the package."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from terrace.kernel.build import build
from terrace.lab import debian
from terrace.lab.machine import Machine
from terrace.lab.topology import load_topology
from terrace.packages import tools
from terrace.paths import build_dir, repo_root

HERE = repo_root() / "tests/packages"
LIMIT_S = 300
UNIT = """\
[Unit]
After=terrace.service hot.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'sh /root/steps $(cat /root/boot) > /root/said 2>&1; echo $? > /root/code; systemctl poweroff'
[Install]
WantedBy=multi-user.target
"""
HOT = """\
[Service]
ExecStart=/usr/bin/python3 /root/hot.py
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian with our packages, and with two services of this test."""
    if os.geteuid() != 0:
        pytest.skip("a Debian whose files belong to several users takes root")
    folder = tmp_path_factory.mktemp("debian") / "root"
    packages = " ".join(str(path) for path in tools.make() if "-dev_" not in path.name and "dbgsym" not in path.name)
    hooks = [
        f'mkdir "$1/debs" "$1/root/seen" && cp -- {packages} "$1/debs"',
        'chroot "$1" sh -c "apt-get update && apt-get --yes install /debs/*.deb"',
        f'cp -- {HERE}/hot.py "$1/root" && cp -- {HERE}/in_systemd.sh "$1/root/steps"',
    ]
    debian.make(folder, ["python3", "systemd-sysv", "dbus"], hooks)
    for name, text in (("hot", HOT), ("steps", UNIT)):
        (folder / f"etc/systemd/system/{name}.service").write_text(text)
        wants = folder / "etc/systemd/system/multi-user.target.wants"
        wants.mkdir(exist_ok=True)
        (wants / f"{name}.service").symlink_to(f"../{name}.service")
    return folder


def boot(root: Path, what: str, flavour: str = "terrace") -> None:
    """Boot it, have it do this step of in_systemd.sh, and see that it went well."""
    (root / "root/boot").write_text(what)
    (root / "root/code").unlink(missing_ok=True)
    console = root.parent / f"{what}.console"
    debian.boot(Machine(build(flavour).vmlinux, Path(), console, load_topology("dram-cxl")), root, LIMIT_S)
    said = (root / "root/said").read_text()
    # Kept: what a machine said is read after the test, too.
    logs = build_dir() / "packages"
    logs.mkdir(exist_ok=True)
    (logs / f"systemd-{what}.log").write_text(said)
    assert (root / "root/code").read_text() == "0\n", said[-3000:]


def seen(root: Path, name: str) -> Any:
    return json.loads((root / "root/seen" / f"{name}.json").read_text())


def test_settings_from_installation_to_purge(root: Path) -> None:
    boot(root, "first")
    assert [reason["id"] for reason in seen(root, "before")["reasons"]] == ["off"]
    boot(root, "again")
    after = seen(root, "after")
    assert after["engine"]["enabled"] and after["demotion_enabled"]
    assert after["moves"]["promoted_bytes"] > 3900 * 4096
    hot = next(row for row in seen(root, "top")["rows"] if row["pid"] == int((root / "root/seen/pid").read_text()))
    assert hot["node_bytes"].get("1", 0) < hot["node_bytes"]["0"] / 10
    boot(root, "stock", "stock")
    assert [reason["id"] for reason in seen(root, "stock")["reasons"]][0] == "stock_kernel"
    boot(root, "last")

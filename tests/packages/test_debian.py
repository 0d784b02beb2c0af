# SPDX-License-Identifier: GPL-2.0
"""A whole Debian with our packages: installed by apt, booted, switched on, upgraded, and gone again without a trace."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from releases import newest_source

from terrace.kernel import source
from terrace.lab.debian import disk, image, session
from terrace.lab.machine import Machine
from terrace.lab.topology import load_topology
from terrace.packages import kernel, tools
from terrace.paths import build_dir, repo_root

HERE = repo_root() / "tests/packages"
LIMIT_S = 3600
KEPT = re.compile(
    "CONFIG_(BPF.*|CGROUPS?|CGROUP_(BPF|CPUACCT|DEVICE|PIDS|SCHED)|CPUSETS|DAMON.*|DEBUG_INFO_BTF.*|.*FTRACE.*|KPROBE.*|LRU_GEN.*|"
    "MEMCG.*|MIGRATION|MODULES|MODULE_(COMPRESS|SIG|UNLOAD).*|NUMA.*|PERF_EVENTS|SWAP|.*_TRACER|TRANSPARENT_.*|ZSWAP.*)=y"
)
HOT = """\
[Unit]
RequiresMountsFor=/terrace
[Service]
ExecStart=/usr/bin/python3 /terrace/hot.py
[Install]
WantedBy=multi-user.target
"""


def run(words: Sequence[object]) -> str:
    """Run a program and return its output."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def newer(package: Path, folder: Path) -> Path:
    """The same package, as a later one."""
    tree = folder / "tree"
    run(["dpkg-deb", "--raw-extract", package, tree])
    control = tree / "DEBIAN/control"
    number = run(["dpkg-deb", "--field", package, "Version"]).strip()
    control.write_text(control.read_text().replace(f"Version: {number}\n", f"Version: {number}+later\n"))
    made = folder / package.name
    run(["dpkg-deb", "--build", "--root-owner-group", tree, made])
    shutil.rmtree(tree)
    return made


@pytest.fixture(scope="module", params=image.RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def linux(release: str) -> source.Source:
    """The newest source of the release: from an older one the boot menu would start Debian's own kernel."""
    root = build_dir() / "packages" / "sources" / release
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    return source.find(newest_source(release, root))


@pytest.fixture(scope="module")
def base(release: str, linux: source.Source) -> image.Image:
    found = image.find(release, linux.version)
    assert not found.starts_its_own(linux.version)
    return found


@pytest.fixture(scope="module")
def packages(base: image.Image, linux: source.Source) -> list[Path]:
    made = [*tools.make(), *kernel.make_once(linux, base.base)]
    return [
        path for path in made if not path.name.startswith(("libterrace-dev", "libterrace0-dbgsym", "linux-headers"))
    ]


@pytest.fixture(scope="module")
def seen(release: str, base: image.Image, packages: Sequence[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what the steps in in_debian.sh wrote; it stays in build/packages/debian/RELEASE."""
    work = tmp_path_factory.mktemp("debian")
    kept = build_dir() / "packages" / "debian" / release
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    machine = Machine(Path(), Path(), kept / "console", load_topology("dram-cxl"), one_thread=True)
    guest = session.Debian(machine, work / "disk", work / "carried")
    session.require(machine)
    image.copy(base, guest.root)
    files: dict[str, Path | str] = {"hot.service": HOT}
    for path in packages:
        files[f"debs/{path.name}"] = path
        files[f"newer/{path.name}"] = newer(path, work)
    for name in ("bpf.py", "hot.py"):
        files[name] = HERE / name
    session.carry(guest.carried, {**files, "steps": HERE / "in_debian.sh"}, ["sh", "/terrace/steps"])
    code = session.run(guest, LIMIT_S, kept / "log")
    assert code == 0, f"{(kept / 'log').read_text(errors='replace')[-3000:]}\n{session.last_words(guest)}"
    disk.copy_out(guest.carried, "seen", kept)
    return kept / "seen"


def answer(seen: Path, name: str) -> Any:
    return json.loads((seen / f"{name}.json").read_text())


def test_hot_pages_of_a_service_are_in_dram(seen: Path) -> None:
    """`in_debian.sh` has waited for that in every boot; this checks the output of the tools."""
    assert [reason["id"] for reason in answer(seen, "before")["reasons"]] == ["off"]
    after = answer(seen, "after")
    assert after["engine"]["enabled"] and after["demotion_enabled"]
    assert after["moves"]["promoted_bytes"] > 3900 * 4096 and after["counters"]["mtier_taken"] > 3900
    hot = next(row for row in answer(seen, "top")["rows"] if row["pid"] == int((seen / "pid").read_text()))
    assert hot["node_bytes"].get("1", 0) < hot["node_bytes"]["0"] / 10
    assert answer(seen, "stock")["reasons"][0]["id"] == "stock_kernel"


def test_it_has_what_the_kernel_of_debian_has(seen: Path) -> None:
    ours, stock = ((seen / f"abilities.{which}").read_text() for which in ("ours", "stock"))
    assert ours == stock
    for word in ("function", "memory", "0x0007", "there", "loaded", "true", "ext4", "virtio_blk", "swapped: yes"):
        assert word in ours


def test_a_later_version_is_an_upgrade(seen: Path) -> None:
    first, then = ((seen / name).read_text().splitlines() for name in ("installed", "upgraded"))
    assert len(first) == 3 and [f"{line}+later" for line in first] == then


def test_what_debian_has_built_in_is_built_in(base: image.Image, packages: Sequence[Path], tmp_path: Path) -> None:
    """Only modules that this machine does not use are left out, with their options."""
    linux = next(path for path in packages if path.name.startswith("linux-image"))
    run(["dpkg-deb", "--extract", linux, tmp_path])
    config = next((tmp_path / "boot").glob("config-*")).read_text().splitlines()
    wanted = [line for line in base.base.text.splitlines() if KEPT.fullmatch(line)]
    assert len(wanted) > 60 and not [line for line in wanted if line not in config]


def test_it_has_what_a_debian_boots_by(packages: Sequence[Path]) -> None:
    """Modules, signed and compressed as configured, and none for tests."""
    linux = next(path for path in packages if path.name.startswith("linux-image"))
    names = run(["dpkg-deb", "--contents", linux]).split()
    modules = [name for name in names if ".ko" in name]
    assert any("virtio_blk.ko.xz" in name for name in modules) and len(modules) > 20
    assert not [name for name in modules if "kunit" in name]

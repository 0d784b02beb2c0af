# SPDX-License-Identifier: GPL-2.0
"""terrace features, doctor and exec."""

from __future__ import annotations

import errno
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ops_golden import check, run
from ops_tree import FakeNode, Tree, build, cxl, dram

from terrace.cli import exec as exec_verb
from terrace.errors import MissingError, TerraceError, UsageError
from terrace.kernel.source import VARIABLE
from terrace.lab.checks import lab_checks
from terrace.ops import checks, counters, kconfig, snapshot
from terrace.ops.calls import Calls
from terrace.ops.probe import TRACEPOINTS, Prober
from terrace.sysfs import KernelFiles


class FakeCalls(Calls):
    """A kernel that has the calls, or answers each with one errno."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.scale = 5

    def _answer(self) -> None:
        if self.number:
            raise OSError(self.number, "refused")

    def scan_scale(self) -> int:
        self._answer()
        return self.scale

    def set_scan_scale(self, scale: int) -> None:
        self._answer()
        self.scale = scale

    def get_mempolicy(self) -> int:
        self._answer()
        return 0


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Put a fake kernel behind the verbs."""

    def install(number: int = 0) -> None:
        for module in ("features", "doctor"):
            monkeypatch.setattr(f"terrace.cli.{module}.Calls", lambda: FakeCalls(number))
        monkeypatch.setattr("terrace.ops.checks.os.geteuid", lambda: 0)

    return install


def full(root: Path) -> Tree:
    """A machine that has everything."""
    tree = build(root, [dram(), cxl()])
    (root / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_MTIER=y\n# CONFIG_X is not set\nCONFIG_PSI=y\n"))
    for name in TRACEPOINTS:
        tree.put(f"sys/kernel/tracing/events/mtier/{name}/id", "1")
    tree.put("sys/kernel/mm/lru_gen/enabled", "0x0000")
    tree.put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    tree.put("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0")
    tree.put("sys/kernel/mm/page_idle/bitmap", "")
    tree.put("proc/pressure/memory", "")
    tree.put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory")
    tree.vmstat(mtier_taken=26000, mtier_promoted_folios=25600, mtier_drop_pinned=400)
    return tree


def test_features_of_a_full_machine(
    tmp_path: Path, calls: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    full(tmp_path)
    calls(0)
    assert run("features", "--root", str(tmp_path)) == 0
    check("features-full.txt", capsys.readouterr().out)


def test_features_of_a_bare_machine(
    tmp_path: Path, calls: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, [dram()], engine=False)
    calls(errno.EINVAL)
    assert run("features", "--root", str(tmp_path), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    present = {feature["name"]: feature["present"] for feature in document["features"]}
    assert document["kind"] == "features"
    assert not present["mtier"] and not present["mtier-prctl"] and not present["slow-tier"]


def test_closed_tracefs_is_not_called_absent(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()])
    tree.put("sys/kernel/tracing/events", "a file where a folder should be")
    files = KernelFiles(tmp_path)
    files.unreadable["/sys/kernel/tracing/events"] = "Permission denied"
    found = {feature.name: feature.present for feature in Prober(files, FakeCalls()).all()}
    assert found["mtier-tracepoints"] is None


def test_configuration_from_boot(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put("proc/sys/kernel/osrelease", "6.12.1")
    assert kconfig.read(KernelFiles(tmp_path)) == ({}, None)
    tree.put("boot/config-6.12.1", 'CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C="x"')
    assert kconfig.read(KernelFiles(tmp_path)) == ({"CONFIG_A": "y", "CONFIG_C": "x"}, "/boot/config-6.12.1")


def test_damaged_configuration_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(b"not gzip")
    files = KernelFiles(tmp_path)
    assert kconfig.read(files) == ({}, None)
    assert "/proc/config.gz" in files.unreadable


def test_doctor_on_a_good_machine(
    tmp_path: Path, calls: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    full(tmp_path)
    calls(0)
    assert run("doctor", "--root", str(tmp_path)) == 0
    check("doctor-good.txt", capsys.readouterr().out)


def test_doctor_on_a_stock_kernel_names_the_kernel_and_ends_with_3(
    tmp_path: Path, calls: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, [dram(), FakeNode(1, 4)], engine=False)
    calls(errno.EINVAL)
    assert run("doctor", "--root", str(tmp_path), "--for", "machine") == 3
    check("doctor-stock.txt", capsys.readouterr().out)


def test_doctor_as_json(tmp_path: Path, calls: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    full(tmp_path)
    calls(0)
    assert run("doctor", "--root", str(tmp_path), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["version"], document["kind"], document["ok"]) == (1, "doctor", True)


def by_id(root: Path) -> dict[str, checks.Check]:
    files = KernelFiles(root)
    found = checks.machine_checks(files, Prober(files, FakeCalls()), snapshot.take(files))
    return {entry.id: entry for entry in found}


def test_doctor_warns_of_faults_that_promote_nothing(tmp_path: Path) -> None:
    full(tmp_path).put("proc/sys/kernel/numa_balancing", "3")
    found = by_id(tmp_path)["numa_balancing"]
    assert (found.status, found.fix) == ("warn", "terrace set numa_balancing 1")


def test_doctor_warns_when_off_and_when_nothing_demotes(tmp_path: Path) -> None:
    tree = build(tmp_path, [dram(), cxl()], enabled=False)
    tree.put("sys/kernel/mm/numa/demotion_enabled", "false")
    found = by_id(tmp_path)
    assert (found["enabled"].status, found["demotion"].status) == ("warn", "warn")


def test_doctor_misses_the_thread(tmp_path: Path) -> None:
    full(tmp_path).put("proc/2/task/2/children", "40")
    assert by_id(tmp_path)["kmtierd"].status == "fail"


ENDS = dict.fromkeys(counters.LOSSES, 10) | {"mtier_promoted_folios": 900}


@pytest.mark.parametrize(
    ("taken", "status"),
    [(900 + 10 * len(counters.LOSSES), "ok"), (900 + 512, "ok"), (5000, "warn"), (100, "warn")],
)
def test_doctor_adds_up_the_ends_of_what_was_to_go_up(tmp_path: Path, taken: int, status: str) -> None:
    full(tmp_path).vmstat(mtier_taken=taken, **ENDS)
    found = by_id(tmp_path)["balance"]
    assert found.status == status
    if status == "warn":
        assert f"{taken} folios were selected, and {900 + 10 * len(counters.LOSSES)} results" in found.message


def test_doctor_does_not_add_up_what_is_not_counted(tmp_path: Path) -> None:
    full(tmp_path).vmstat()
    assert "balance" not in by_id(tmp_path)


def test_lab_without_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("terrace.lab.checks.shutil.which", lambda name: None)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemAvailable: 1024 kB\n")
    found = {entry.id: entry for entry in lab_checks(KernelFiles(tmp_path), tmp_path / "build")}
    for name in ("qemu", "build-tools", "kernel-source", "memory"):
        assert found[name].status == "fail", name
    assert "apt-get install qemu-system-x86" in found["qemu"].fix


def test_lab_that_can_install_only_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrace.lab.checks.shutil.which", lambda name: "/x" if name == "apt-get" else None)
    monkeypatch.setattr("terrace.lab.checks.os.geteuid", lambda: 0)
    found = {entry.id: entry for entry in lab_checks(KernelFiles(tmp_path), tmp_path)}
    assert found["qemu"].status == "warn"


def test_exec_sets_the_scale() -> None:
    fake = FakeCalls()
    exec_verb.set_scale(fake, 0)
    assert fake.scale == 0


@pytest.mark.parametrize("scale", [-1, 11])
def test_exec_refuses_a_scale_out_of_range(scale: int) -> None:
    with pytest.raises(UsageError, match=r"allowed: 0 \(no promotion\) to 10"):
        exec_verb.set_scale(FakeCalls(), scale)


def test_exec_on_a_stock_kernel_is_missing_a_feature() -> None:
    with pytest.raises(MissingError):
        exec_verb.set_scale(FakeCalls(errno.EINVAL), 3)
    with pytest.raises(TerraceError, match="refuses"):
        exec_verb.set_scale(FakeCalls(errno.EPERM), 3)


def test_exec_needs_a_program() -> None:
    with pytest.raises(UsageError):
        run("exec", "--")


def test_exec_of_no_program_is_127(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("exec", "--", "/no/such/program") == 127
    assert "there is no program" in capsys.readouterr().err
    assert run("exec", "--", "/") == 126

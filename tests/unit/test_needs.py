# SPDX-License-Identifier: GPL-2.0
"""A command has all that it needs, or ends with what is missing, before its long work begins."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from terrace.cli import bench, deb, lab, lab_debian
from terrace.cli import test as test_verb
from terrace.demo import cases, runner
from terrace.errors import MissingError, UsageError
from terrace.kernel import check
from terrace.lab import emulator, plugin
from terrace.lab import run as lab_run
from terrace.packages import kernel as kernel_packages
from terrace.packages import tools
from terrace.testing import groups, needs, suites
from terrace.testing.mutants import run as mutants
from terrace.testing.results import Reporter
from terrace.testing.select import parse_selector


class Missing:
    """A host that lacks one package, or a QEMU that works; `wanted` has the packages in the order of the calls."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.wanted: list[str] = []

    def require(self, packages: Sequence[str], why: str) -> None:
        self.wanted += packages
        if self.package in packages:
            raise MissingError(f"needed to {why}: {self.package}")


def _long_work(*_: object, **__: object) -> Any:
    pytest.fail("the long work began")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Missing]:
    """Makes a host that lacks a package; "QEMU" stands for a QEMU that does not fit."""

    def make(package: str) -> Missing:
        missing = Missing(package)
        users = (needs, suites, check, deb, lab_debian, lab_run, plugin, emulator, kernel_packages, tools)
        for module in users:
            monkeypatch.setattr(module, "require_packages", missing.require)

        def find() -> None:
            missing.require(["QEMU"], "run guests")

        for name in ("find_emulator", "find_plugins", "require_plugins"):
            monkeypatch.setattr(plugin, name, lambda *_, **__: find())
        for module in (lab_run, needs):
            monkeypatch.setattr(module, "require_qemu", find)
        return missing

    return make


def _args(verb: Any, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("package", ["QEMU", "gcc"])
@pytest.mark.parametrize("words", [("run", "--", "true"), ("shell", "--", "true"), ("kunit",)])
def test_a_guest_is_possible_before_its_kernel_is_built(
    package: str, words: tuple[str, ...], host: Callable[[str], Missing], monkeypatch: pytest.MonkeyPatch
) -> None:
    host(package)
    monkeypatch.setattr(lab, "find_vmlinux", _long_work)
    with pytest.raises(MissingError, match=package):
        lab.main(_args(lab, *words))


def test_a_plugin_that_is_not_there_is_refused_before_a_kernel_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "find_vmlinux", _long_work)
    monkeypatch.setattr(lab, "require_guest_tools", _long_work)
    with pytest.raises(UsageError, match=r"--plugin a,b\.so: no such file"):
        lab.main(_args(lab, "run", "--plugin", "a,,b.so,out=x,y=z", "--", "true"))
    (tmp_path / "a,b.so").write_text("")
    lab._check_plugin(f"{tmp_path}/a,,b.so,out=x")
    lab._check_plugin(None)


@pytest.mark.parametrize("package", ["QEMU", "gcc", "binutils"])
@pytest.mark.parametrize("functions", [False, True])
def test_the_demo_builds_no_kernel_that_it_cannot_measure(
    package: str, functions: bool, host: Callable[[str], Missing], monkeypatch: pytest.MonkeyPatch
) -> None:
    host(package)
    monkeypatch.setattr(runner, "build", _long_work)
    with pytest.raises(MissingError, match=package):
        runner.kernels_for(cases.FUNCTIONS if functions else cases.MAIN, cases.Workload(64 << 20))


@pytest.mark.parametrize("package", ["QEMU", "gcc", "binutils"])
@pytest.mark.parametrize("words", [("run", "smoke"), ("validate", "run")])
def test_instruments_are_there_before_kernels_are_built(
    package: str, words: tuple[str, ...], host: Callable[[str], Missing], monkeypatch: pytest.MonkeyPatch
) -> None:
    host(package)
    monkeypatch.setattr(bench, "build", _long_work)
    monkeypatch.setattr(bench, "run_and_write", _long_work)
    monkeypatch.setattr(bench, "is_finished", lambda *_: False)
    with pytest.raises(MissingError, match=package):
        bench.main(_args(bench, *words))


@pytest.mark.parametrize("package", ["QEMU", "gcc", "binutils"])
def test_mutants_are_not_built_where_they_cannot_be_booted(
    package: str, host: Callable[[str], Missing], monkeypatch: pytest.MonkeyPatch
) -> None:
    host(package)
    monkeypatch.setattr("terrace.kernel.tree.assemble", _long_work)
    with pytest.raises(MissingError, match=package):
        mutants.main(parse_selector(None), None, 1e12)


@pytest.mark.parametrize("package", ["sparse", "gcc-aarch64-linux-gnu"])
def test_checks_of_the_kernel_part_begin_when_all_have_their_packages(
    package: str, host: Callable[[str], Missing], monkeypatch: pytest.MonkeyPatch
) -> None:
    host(package)
    monkeypatch.setattr("terrace.kernel.source.find", _long_work)
    with pytest.raises(MissingError, match=package):
        check.run_checks([], full=True)
    # Others do not need it.
    monkeypatch.setattr("terrace.kernel.source.find", lambda: None)
    monkeypatch.setattr(check, "_timed", lambda one, _: check.Result(one.name, (), 0.0))
    assert [result.name for result in check.run_checks(["hooks", "size"])] == ["hooks", "size"]


def test_no_package_is_made_when_one_cannot_be(host: Callable[[str], Missing], monkeypatch: pytest.MonkeyPatch) -> None:
    host(kernel_packages.PACKAGES[0])
    monkeypatch.setattr(tools, "make", _long_work)
    monkeypatch.setattr(deb, "_base", lambda _: None)
    with pytest.raises(MissingError, match=kernel_packages.PACKAGES[0]):
        deb.main(_args(deb))


@pytest.mark.parametrize("package", ["mmdebstrap", *tools.PACKAGES[:1], *kernel_packages.PACKAGES[:1]])
def test_a_debian_for_the_lab_is_made_when_all_is_there(
    package: str, host: Callable[[str], Missing], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host(package)
    monkeypatch.setattr(lab_debian, "build_dir", lambda: tmp_path)
    monkeypatch.setattr("terrace.lab.debian.session.require", lambda _: None)
    monkeypatch.setattr(lab_debian, "_prepare", _long_work)
    with pytest.raises(MissingError, match=package):
        lab_debian.main(_args(lab_debian, "--", "true"))


# ---- terrace test ----

NEEDED = {
    "unit": ("make", "groff-base", "fdisk", "QEMU"),
    "policy": ("make",),
    "policy-mutants": ("gcc", "make"),
    "patches": ("sparse",),
    "checks": ("gcc-aarch64-linux-gnu",),
    "configs": ("bison",),
    "lab": ("trace-cmd", "mmdebstrap", "QEMU", "binutils", "bison"),
    "kunit": ("QEMU", "gcc", "bison"),
    "bench": ("QEMU", "binutils", "bison"),
    "selftest": ("QEMU", "binutils", "bison"),
    "selftest-debug": ("QEMU", "binutils", "bison"),
    "selftest-static-keys": ("QEMU", "binutils", "bison"),
    "suites": ("autoconf", "stress-ng", "QEMU", "bison"),
}


def test_every_group_that_compiles_or_boots_is_in_the_list() -> None:
    assert set(groups.GROUPS) - set(NEEDED) == {"lint", "packages"}


@pytest.mark.parametrize(("group", "package"), [(group, name) for group, names in NEEDED.items() for name in names])
def test_a_run_begins_when_all_groups_have_what_they_need(
    group: str, package: str, host: Callable[[str], Missing], monkeypatch: pytest.MonkeyPatch
) -> None:
    host(package)
    monkeypatch.setattr(test_verb, "_run_group", _long_work)
    parser = argparse.ArgumentParser()
    test_verb.add_arguments(parser)
    with pytest.raises(MissingError, match=package):
        test_verb.main(parser.parse_args(["--group", "lint", "--group", group]))


@pytest.mark.parametrize(
    ("group", "words", "absent"),
    [
        ("patches", None, "gcc-aarch64-linux-gnu"),
        ("checks", "size", "gcc-aarch64-linux-gnu"),
        ("suites", "numactl", "stress-ng"),
        ("suites", "stress", "autoconf"),
        ("kunit", None, "binutils"),
        ("lint", None, "gcc"),
    ],
)
def test_a_run_needs_nothing_for_tests_that_are_not_in_it(
    group: str, words: str | None, absent: str, host: Callable[[str], Missing]
) -> None:
    found = host("nothing")
    request = groups.Request(parse_selector(words), words is None, Reporter(), None)
    test_verb._require([groups.GROUPS[group]], request)
    assert absent not in found.wanted


def test_a_given_kernel_needs_no_packages_that_build_one(host: Callable[[str], Missing]) -> None:
    found = host("nothing")
    needs.require_for("selftest", ["x"], builds=False)
    assert "bison" not in found.wanted
    assert "QEMU" in found.wanted

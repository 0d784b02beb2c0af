# SPDX-License-Identifier: GPL-2.0
"""A skip without an entry in tests/skips.toml is a failure, and so is a pass in spite of an entry."""

import argparse
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from terrace.cli import test as verb
from terrace.errors import MissingError, UsageError
from terrace.lab.run import GuestResult
from terrace.paths import repo_root
from terrace.testing import debian_program, groups, journal, selftest
from terrace.testing.debian_program import search_path
from terrace.testing.gate import load_gate
from terrace.testing.kunit import KunitRun, kunit_names, policy_names
from terrace.testing.programs import Program, find_programs
from terrace.testing.results import TestResult
from terrace.testing.select import parse_selector
from terrace.testing.selftest import OVERTIME, STATE_CHECK
from terrace.testing.skips import Skips, load_skips

GROUPS = ["unit", "kunit", "selftest", "selftest-debug"]
SKIPS = """
[[skip]]
groups = ["selftest"]
name = "nomem"
reason = "only debug"
[[skip]]
groups = ["selftest", "kunit"]
name = "fails*:F *"
reason = "only debug"
[[skip]]
groups = ["unit"]
name = "x.py::y[a*]"
reason = "sandboxes"
sometimes = true
"""


def skips(folder: Path, text: str = SKIPS) -> Skips:
    file = folder / "skips.toml"
    file.write_text(text)
    return load_skips(GROUPS, file)


def judged(folder: Path, group: str, name: str, status: str, detail: str = "why") -> TestResult:
    return skips(folder).judge(TestResult(group, name, status, detail))


@pytest.mark.parametrize(
    ("group", "name", "status", "becomes"),
    [
        ("selftest", "nomem", "skip", "skip"),
        ("selftest", "fails_1:F of one", "skip", "skip"),
        ("unit", "x.py::y[ab]", "skip", "skip"),
        # Not here, not this, not on that kernel.
        ("selftest", "other", "skip", "fail"),
        ("selftest", "nomem:one", "skip", "fail"),
        ("selftest", "fails_1:G", "skip", "fail"),
        ("selftest-debug", "nomem", "skip", "fail"),
        ("unit", "x.py::y[b]", "skip", "fail"),
        ("unit", "x.py::ya", "skip", "fail"),
        # It passes in spite of its entry; the runner adds a check to each program.
        ("selftest", "nomem:one", "pass", "fail"),
        ("selftest", "fails_1:F of one", "pass", "fail"),
        ("selftest", f"nomem:{STATE_CHECK}", "pass", "pass"),
        ("selftest", "fails_1:G", "pass", "pass"),
        ("selftest-debug", "nomem:one", "pass", "pass"),
        ("unit", "x.py::y[ab]", "pass", "pass"),
        ("selftest", "nomem:one", "fail", "fail"),
    ],
)
def test_a_skip_is_expected_or_a_failure(group: str, name: str, status: str, becomes: str, tmp_path: Path) -> None:
    result = judged(tmp_path, group, name, status)
    assert (result.status, result.final) == (becomes, becomes != status)


def test_the_reason_is_in_the_failure(tmp_path: Path) -> None:
    assert judged(tmp_path, "selftest", "a:b", "skip", "no /sys/x").detail == (
        "skipped, and tests/skips.toml has no entry for it: no /sys/x"
    )
    assert "says that it is skipped (only debug): remove" in judged(tmp_path, "selftest", "nomem:b", "pass").detail
    assert judged(tmp_path, "selftest", "a", "skip", OVERTIME).status == "skip"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("skip = [", "Invalid value"),
        ("left = 1", "'left': only [[skip]] is known"),
        ("[skip]\nname = 'x'", "skip: write [[skip]], once for each entry"),
        (SKIPS + "why = 1", "[[skip]]: has to have groups, name and reason, may have sometimes"),
        (SKIPS.replace('reason = "sandboxes"', ""), "[[skip]]: has to have groups, name and reason"),
        (SKIPS.replace('"nomem"', '"*"'), "name '*': name a check"),
        (SKIPS.replace('["selftest"]', '"selftest"'), "nomem: groups has to be a list of groups"),
        (SKIPS.replace('["selftest"]', '["self"]'), "nomem: there is no group self: use unit, kunit"),
        (SKIPS.replace('"sandboxes"', '" "'), "x.py::y[a*]: reason has to say why it is skipped"),
        (SKIPS.replace("= true", '= "yes"'), "x.py::y[a*]: sometimes has to be true or false"),
    ],
)
def test_a_mistake_in_the_file_is_named(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        skips(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'skips.toml'}: ") and problem in str(caught.value)


def test_our_entries_name_checks_that_there_are() -> None:
    programs = {program.name for program in find_programs()}
    for entry in load_skips(list(groups.GROUPS)).entries:
        for group in entry.groups:
            if group.startswith("selftest"):
                assert entry.name.partition(":")[0] in programs, entry.name
            elif group == "kunit":
                assert entry.name in kunit_names()
            else:
                file, _, test = entry.name.partition("::")
                assert f"def {test.rstrip('*')}(" in (repo_root() / file).read_text(), entry.name


# ---- what gave no result ----


def test_a_case_that_never_ran_is_a_failure(tmp_path: Path) -> None:
    listed = skips(tmp_path, SKIPS.replace("fails*:F *", "suite.late"))
    ran = [TestResult("kunit", "suite.one", "pass")]
    names = ["suite.one", "suite.late", "suite.lost", "suite.not_wanted"]
    found = list(listed.complete("kunit", ran, lambda: names, parse_selector("not not_wanted")))
    assert [(result.name, result.status, result.final) for result in found] == [
        ("suite.one", "pass", False),
        ("suite.late", "skip", False),
        ("suite.lost", "fail", True),
    ]
    # The kernel died: one failure is enough.
    dead = [TestResult("kunit", "kernel", "fail", final=True)]
    assert list(listed.complete("kunit", dead, lambda: names, lambda name: True)) == dead


def test_the_user_space_part_knows_its_cases() -> None:
    names = set(policy_names())
    assert "tlb_defer_gen.the_model_finds_a_late_look_at_the_generation" in names
    assert names < set(kunit_names())
    assert not any(name.startswith(("mtier_move", "mempolicy2_layout")) for name in names)


# ---- the gate ----

# The programs of the gate by the interface without which they skip themselves.
INTERFACES = {
    "/sys/kernel/mm/mtier": ["control_knobs", "promote_kinds", "promote_refuse"],
    "/sys/kernel/mm/tlb_defer": ["tlb_defer_basic"],
    "scan_mode": ["numa_scan_nodes"],
    "/proc/sys/vm/mapped_file_policy": ["file_policy"],
}


class Kernel:
    """A guest whose kernel lacks some interfaces: programs that need one skip themselves, all others pass."""

    def __init__(self) -> None:
        self.without: dict[str, str] = {}

    def run(self, *words: object, **options: object) -> GuestResult:
        mark, names = words[2][1], words[2][5::3]  # type: ignore[index]
        for name in names:
            reason = self.without.get(name)
            tap, code = (f"1..0 # SKIP {reason}", 4) if reason else ("1..1\nok 1 works", 0)
            text = f"{mark} start {name}\n\nTAP version 13\n{tap}\n{mark} end {name} exit {code} 1000\n"
            options["stdout"](text.encode())  # type: ignore[operator]
        options["stdout"](f"{mark} done\n".encode())  # type: ignore[operator]
        return GuestResult(0, b"", b"", "", "ok")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kernel:
    """The gate as it is, with its own two files, on a kernel that is not there."""
    fake = Kernel()
    known = list(groups.GROUPS)
    monkeypatch.setattr(verb, "GROUPS", {"selftest": groups.GROUPS["selftest"]})
    monkeypatch.setattr(verb, "load_gate", lambda names, programs: load_gate(known, programs))
    monkeypatch.setattr(groups, "kernel_for", lambda request, flavour: Path("vmlinux"))
    monkeypatch.setattr(journal, "build_dir", lambda: tmp_path)
    monkeypatch.setattr(selftest, "run_in_guest", fake.run)
    monkeypatch.setattr(selftest, "compile_static", lambda *names: Path("/batch"))
    monkeypatch.setattr(selftest, "kernel_includes", lambda programs: [])
    monkeypatch.setattr(selftest, "compile_plugin", lambda name: Path("/plugin"))
    monkeypatch.setattr(selftest, "read_symbols", lambda vmlinux: {})
    monkeypatch.setattr(selftest, "timing_argument", lambda *words: "")
    monkeypatch.setattr(selftest, "lanes_for", lambda memory: 1)
    monkeypatch.setattr(selftest, "run_lanes", lambda work, lanes: (result for lane in lanes for result in work(lane)))

    def compiled(programs: Sequence[Program], includes: Sequence[Path]) -> Iterator[tuple[Program, Path]]:
        return ((program, Path("/", program.name)) for program in programs)

    monkeypatch.setattr(selftest, "compile_programs", compiled)
    return fake


def gate(*words: str) -> int:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.main(parser.parse_args(words))


def test_the_gate_passes_on_a_kernel_that_has_all(kernel: Kernel) -> None:
    assert gate() == 0


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("words", [[], ["--all"], ["--group", "selftest"]])
def test_a_kernel_without_an_interface_fails(
    interface: str, words: list[str], kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = repo_root() / "linux/tools/testing/selftests/terrace"
    assert all((folder / f"{name}.c").is_file() for name in INTERFACES[interface])
    kernel.without = dict.fromkeys(INTERFACES[interface], f"no {interface}")
    assert gate(*words) == 1
    said = capsys.readouterr().out
    for name in INTERFACES[interface]:
        assert f"FAIL selftest/{name}" in said
    assert f"skipped, and tests/skips.toml has no entry for it: no {interface}" in said
    # There is no second try that could hide it.
    assert "once more" not in said


def test_another_kernel_may_lack_it(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "vmlinux").write_text("")
    kernel.without = {"tlb_defer_basic": "no /sys/kernel/mm/tlb_defer"}
    assert gate("--vmlinux", str(tmp_path / "vmlinux"), "--group", "selftest") == 0


def test_a_soak_counts_such_a_skip_as_a_failure(kernel: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    kernel.without = {"tlb_defer_basic": "no /sys/kernel/mm/tlb_defer"}
    assert gate("--soak", "2", "-k", "tlb_defer_basic") == 1
    assert "1 failed" in capsys.readouterr().out


def test_kunit_fails_when_a_case_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = "mtier_place.exchange_pays"
    names = [*kunit_names(), lost]

    def ran(run: KunitRun, missing: str) -> Iterator[TestResult]:
        return (TestResult("kunit", name, "pass") for name in names if name != missing and "late_look" not in name)

    monkeypatch.setattr(groups, "kernel_for", lambda request, flavour: Path("vmlinux"))
    monkeypatch.setattr(groups, "kunit_names", lambda: names)
    monkeypatch.setattr(groups, "run_kunit", partial(ran, missing=""))
    assert gate("--group", "kunit") == 0
    assert f"{len(names) - 1} passed, 0 failed, 1 skipped" in capsys.readouterr().out
    monkeypatch.setattr(groups, "run_kunit", partial(ran, missing=lost))
    assert gate("--group", "kunit") == 1
    assert f"FAIL kunit/{lost}" in capsys.readouterr().out


# ---- programs that tests run ----


def test_a_program_is_taken_from_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    calls: list[str] = []

    def run(command: list[str], folder: Path) -> None:
        calls.append(command[0])
        if command[0] == "apt-get":
            (folder / "a.deb").write_text("")
        else:
            (folder / "unpacked/usr/bin").mkdir(parents=True)
            (folder / "unpacked/usr/bin/xyz-tool").write_text("")

    monkeypatch.setattr(debian_program, "_run", run)
    monkeypatch.setattr(debian_program, "_is_known", lambda package: calls.append("apt-cache"))
    for _ in range(2):
        assert (
            search_path("xyz-tool", "terrace-no-such-package", "xyz") == f"{tmp_path}/cache/programs/xyz:/usr/bin:/bin"
        )
    assert calls == ["apt-cache", "apt-get", "dpkg-deb"]
    assert sorted(path.name for path in (tmp_path / "cache/programs").iterdir()) == ["lock", "xyz"]
    with pytest.raises(MissingError, match="the Debian package xyz has no /usr/bin/xyz-other"):
        search_path("xyz-other", "xyz")
    # Installed programs are preferred.
    assert search_path("sh", "xyz") == "/usr/bin:/bin"


@pytest.mark.parametrize("known", ["one", "other"])
def test_the_first_package_that_apt_knows_has_the_program(
    known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Debian 13 the gate failed: its prometheus has no promtool."""
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(debian_program, "_is_known", lambda name: name == known)
    taken: list[str] = []
    monkeypatch.setattr(debian_program, "_unpack", lambda package, *_: taken.append(package))
    search_path("xyz-tool", "one", "other")
    assert taken == [known]


def test_a_package_that_cannot_be_had_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(MissingError, match=r"apt-get .*download terrace-no-such-package: E: "):
        search_path("terrace-no-such-program", "terrace-no-such-package")


def test_tests_draw_with_the_packages_that_verbs_draw_with() -> None:
    pins = {
        name: set(re.findall(r"^(\w\S*)$", (repo_root() / f"requirements/{name}.txt").read_text(), re.MULTILINE))
        for name in ("plot", "test")
    }
    assert pins["plot"] and pins["plot"] <= pins["test"]

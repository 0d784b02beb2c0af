# SPDX-License-Identifier: GPL-2.0
"""The start of selftest programs in the guest: their time limits, and the variables for them."""

from dataclasses import replace
from pathlib import Path

import pytest

from terrace.lab.initramfs import GuestConfig, encode_config
from terrace.lab.run import GuestResult, guest_environment
from terrace.testing import groups, pace, selftest
from terrace.testing.programs import MachineKey, Program
from terrace.testing.results import Reporter
from terrace.testing.select import parse_selector
from terrace.testing.selftest import SelftestRun, run_selftests

PROGRAM = Program("churn", Path("churn.c"), MachineKey(), timeout_s=180, debug=True)


class Guest:
    """Stands in for a guest whose program runs out of time; keeps what it was given."""

    def __init__(self) -> None:
        self.argv: list[str] = []
        self.env: dict[str, str] = {}
        self.timeout_s = 0.0
        self.one_thread = False
        self.said = "@ end churn timeout 9 1000"
        self.verdict = "ok"

    def run(self, *words: object, **options: object) -> GuestResult:
        self.argv = list(words[2])  # type: ignore[call-overload]
        self.env = dict(options["env"])  # type: ignore[call-overload]
        self.one_thread = bool(options["one_thread"])
        self.timeout_s = float(options["timeout_s"])  # type: ignore[arg-type]
        mark = self.argv[1]
        lines = f"@ start churn\n\n{self.said}\n".replace("@", mark)
        options["stdout"](lines.encode() + (f"{mark} done\n".encode() if self.verdict == "ok" else b""))  # type: ignore[operator]
        return GuestResult(0, b"", b"", "", self.verdict)


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Guest:
    fake = Guest()
    monkeypatch.setattr(pace, "default_path", lambda: tmp_path / "times")
    monkeypatch.setattr(selftest, "run_in_guest", fake.run)
    monkeypatch.setattr(selftest, "compile_static", lambda *names: Path("/batch"))
    monkeypatch.setattr(
        selftest, "compile_programs", lambda programs, includes: [(p, Path("/churn")) for p in programs]
    )
    monkeypatch.setattr(selftest, "kernel_includes", lambda programs: [])
    return fake


@pytest.mark.parametrize(("slow", "stretch", "limit"), [(1, 1, 180), (4, 20, 14400)])
def test_time_limits_are_stretched_and_the_programs_are_told(
    guest: Guest, slow: int, stretch: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERRACE_STRETCH", "7")
    (result,) = run_selftests(SelftestRun("selftest", Path("vmlinux"), slow=slow, stretch=stretch), [PROGRAM])
    assert guest.argv[4:] == [str(limit), "churn", "/churn"]
    assert guest.timeout_s > limit
    # Variables of the caller do not make programs exceed their limits.
    assert guest.env["TERRACE_STRETCH"] == str(stretch)
    assert (result.status, f"did not end within {limit} s of guest time" in result.detail) == ("fail", True)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", ("pass", "")),
        ("@ differs dying cgroups: 0 before, 2 after\n@ differs b: x before, - after\n",
         ("fail", "dying cgroups: 0 before, 2 after\nb: x before, - after")),
    ],
)  # fmt: skip
def test_what_a_program_leaves_behind_is_a_failure_that_names_it(
    guest: Guest, said: str, expected: tuple[str, str]
) -> None:
    guest.said = f"1..1\nok 1 runs\n{said}@ end churn exit 0 1000"
    results = list(run_selftests(SelftestRun("selftest", Path("vmlinux")), [PROGRAM]))
    assert [result.name for result in results] == ["churn:runs", "churn:state is as before"]
    assert (results[1].status, results[1].detail) == expected
    assert results[1].closes and not results[0].closes


@pytest.mark.parametrize(("verdict", "final"), [("panic", True), ("hang", True), ("qemu", False)])
def test_a_machine_lost_with_its_qemu_is_the_one_end_that_gets_a_second_try(
    verdict: str, final: bool, guest: Guest
) -> None:
    guest.said, guest.verdict = "1..1\n", verdict
    (result,) = run_selftests(SelftestRun("selftest", Path("vmlinux")), [PROGRAM])
    assert (result.status, result.final) == ("fail", final)


def test_no_machine_is_booted_when_the_time_is_over(guest: Guest) -> None:
    (result,) = run_selftests(SelftestRun("selftest", Path("vmlinux"), deadline=0.0), [PROGRAM])
    assert (result.status, result.detail) == ("skip", "the time of --within is over")
    assert not guest.argv


def test_each_program_that_ends_is_a_line_with_its_number(guest: Guest) -> None:
    second = replace(PROGRAM, name="churn2", machine=replace(PROGRAM.machine, cpus=3))
    guest.said = "1..1\nok 1 runs\n@ end churn exit 0 1000\n@ start churn2\nok 1 runs\n@ end churn2 exit 0 2000"
    noted: list[str] = []
    list(run_selftests(SelftestRun("selftest", Path("vmlinux"), note=noted.append), [PROGRAM, second]))
    assert "churn (1.0 s in the guest), 1 of 2" in noted
    assert "churn2 (2.0 s in the guest), 2 of 2" in noted


def test_programs_that_run_side_by_side_are_numbered_once(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "lanes_for", lambda memory: 2)
    first = replace(PROGRAM, machine=replace(PROGRAM.machine, icount=2))
    second = replace(first, machine=replace(first.machine, cpus=3))
    guest.said = "1..1\nok 1 runs\n@ end churn exit 0 1000"
    log = tmp_path / "log"

    def note(text: str) -> None:
        with log.open("a") as stream:
            stream.write(text + "\n")

    list(run_selftests(SelftestRun("selftest", Path("vmlinux"), note=note), [first, second]))
    assert [line[-6:] for line in log.read_text().splitlines() if "in the guest" in line] == ["1 of 2", "2 of 2"]


def test_the_environment_arrives_in_the_guest() -> None:
    env = guest_environment({"TERRACE_STRETCH": "20"})
    assert b"env=TERRACE_STRETCH=20\0" in encode_config(GuestConfig(["batch"], env=env))


@pytest.mark.parametrize("group", ["selftest", "selftest-debug", "selftest-static-keys"])
def test_the_option_reaches_the_programs(group: str, guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "find_programs", lambda: [PROGRAM])
    monkeypatch.setattr(groups, "require_qemu", lambda: None)
    request = groups.Request(parse_selector(None), True, Reporter(), Path("vmlinux"), stretch=10)
    list(groups.GROUPS[group].run(request))
    assert guest.env["TERRACE_STRETCH"] == "10"
    assert guest.argv[4] == ("7200" if group == "selftest-debug" else "1800")
    assert guest.one_thread == (group == "selftest-static-keys")

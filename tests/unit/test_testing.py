# SPDX-License-Identifier: GPL-2.0
import io
from pathlib import Path

import pytest

from terrace.errors import UsageError
from terrace.lab.run import GuestResult
from terrace.testing.capability import SEVERAL, capability_of, describe_time
from terrace.testing.host_groups import house_problems
from terrace.testing.kunit import judge_kunit, kunit_names
from terrace.testing.programs import find_programs, parse_header
from terrace.testing.results import Reporter, TestResult
from terrace.testing.select import parse_selector
from terrace.testing.tap import leaves, parse_tap


def tap(text: str) -> tuple[list[tuple[str, str, str]], list[str]]:
    report = parse_tap(text.splitlines())
    return [(r.name, r.status, r.note) for r in report.results], list(report.problems)


def test_plain_tap() -> None:
    text = (
        "TAP version 13\n1..4\n# why\nnot ok 1 - sum\nnoise\nok 2 b\nok 3 c # SKIP no node\nnot ok 4 d # TODO later\n"
    )
    assert tap(text) == (
        [("sum", "fail", "why"), ("b", "pass", ""), ("c", "skip", "no node"), ("d", "skip", "later")],
        [],
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ok 1 a\n", "no plan line"),
        ("1..2\nok 1 a\n", "2 results were announced, 1 came"),
        ("1..0\n", "without '# SKIP reason'"),
        ("1..2\nok 1 a\nBail out! no memory\n", "bailed out: no memory"),
        ("1..1\n    # Subtest: suite\n    1..2\n    ok 1 case\n", "ended inside 'suite', after 'case'"),
        ("1..1\n    # Subtest: suite\n    1..2\n    ok 1 case\nok 1 suite\n", "2 results of 'suite' were announced, 1"),
    ],
)
def test_a_report_cannot_be_short_in_silence(text: str, problem: str) -> None:
    assert any(problem in found for found in tap(text)[1])


def test_missing_number_is_a_failure() -> None:
    results, problems = tap("1..3\nok 1 a\nok 3 c\n")
    assert [status for _, status, _ in results].count("fail") >= 1
    assert any("numbered 3" in problem for problem in problems)


def test_skip_all() -> None:
    report = parse_tap(["1..0 # SKIP no slow node"])
    assert (report.skip_all, report.problems) == ("no slow node", ())


KTAP = """[    1.0] something else
[    1.1] KTAP version 1
[    1.1] 1..2
[    1.1]     KTAP version 1
[    1.1]     # Subtest: mtier_policy
[    1.1]     # module: mtier
[    1.1]     1..2
[    1.1]     ok 1 first
[    1.1]         KTAP version 1
[    1.1]         # Subtest: rates
[    1.1]         ok 1 slow
[    1.1]     # rates: EXPECTATION FAILED at policy_kunit.c:3
[    1.1]         not ok 2 fast
[    1.1]         1..2
[    1.1]     not ok 2 rates
[    1.1] # mtier_policy: pass:1 fail:1 skip:0 total:2
[    1.1] not ok 1 mtier_policy
[    1.1]     KTAP version 1
[    1.1]     # Subtest: other
[    1.1]     1..1
[    1.1]     ok 1 case # SKIP no memory
[    1.1] ok 2 other
[    1.2] kernel goes on
"""


def test_kunit_results_are_suite_and_case() -> None:
    results = list(judge_kunit(GuestResult(0, b"", b"", KTAP, "ok"), "kunit"))
    assert [(r.name, r.status) for r in results] == [
        *(("mtier_policy.first", "pass"), ("mtier_policy.rates", "fail"), ("other.case", "skip")),
    ]


def test_kunit_crash_missing_and_reports_fail() -> None:
    half = KTAP[: KTAP.index("[    1.1]     not ok 2 rates")] + "Kernel panic - not syncing: x\n"
    results = list(judge_kunit(GuestResult(124, b"", b"", half, "panic"), "kunit"))
    assert results[-1].name == "kernel"
    assert "went down" in results[-1].detail
    assert list(judge_kunit(GuestResult(0, b"", b"", "kunit: disabled\n", "ok"), "kunit"))[-1].status == "fail"
    warned = list(judge_kunit(GuestResult(0, b"", b"", KTAP + "WARNING: CPU: 0 PID: 1 at x\n", "ok"), "kunit"))
    assert "the kernel reported: WARNING: CPU: 0 PID: 1 at x" in warned[-1].detail


def test_our_kunit_sources_are_listed() -> None:
    assert "mtier_policy.bucket_pays_the_rate" in kunit_names()


def test_leaves_stop_at_the_depth_asked_for() -> None:
    results = parse_tap(["1..1", "    1..1", "        1..1", "        ok 1 c", "    ok 1 b", "ok 1 a"]).results
    assert [name for name, _ in leaves(results, 0)] == ["a"]
    assert [name for name, _ in leaves(results, 1)] == ["a.b"]
    assert [name for name, _ in leaves(results, 5)] == ["a.b.c"]


@pytest.mark.parametrize(
    ("expression", "name", "wanted"),
    [
        (None, "unit/x", True),
        ("thp", "selftest/promote_THP", True),
        ("thp and not debug", "selftest-debug/thp", False),
        ("(thp or fork) and selftest", "selftest/fork_storm", True),
        ("a or b and c", "a", True),
    ],
)
def test_selection(expression: str | None, name: str, wanted: bool) -> None:
    assert parse_selector(expression)(name) is wanted


@pytest.mark.parametrize("expression", ["", "and", "a and", "(a", "a b", "not"])
def test_bad_selection_is_refused(expression: str) -> None:
    with pytest.raises(UsageError, match="-k '"):
        parse_selector(expression)


def test_header() -> None:
    assert parse_header('topology=three-tier append="a=1 b" timeout=90s', "f") == {
        "topology": "three-tier",
        "append": "a=1 b",
        "timeout": "90s",
    }
    for bad in ("machine=x", "topology", "cpus=", 'append="x'):
        with pytest.raises(UsageError, match=r"^f\.c: lab: "):
            parse_header(bad, "f.c")


def test_programs_are_found_with_their_machines(tmp_path: Path) -> None:
    (tmp_path / "b.c").write_text(
        " * lab: topology=three-tier cpus=4 debug=no static-keys=no timeout=2min icount=3\nint main(void)\n"
    )
    (tmp_path / "a.c").write_text("int main(int argc, char **argv)\n")
    (tmp_path / "helper.c").write_text("int help(void) { return 0; }\n")
    a, b = find_programs(tmp_path)
    assert (a.name, a.machine.topology, a.timeout_s, a.debug) == ("a", "dram-cxl", 60, True)
    assert (a.static_keys, b.static_keys) == (True, False)
    assert (b.machine.topology, b.machine.cpus, b.machine.icount, b.timeout_s, b.debug) == (
        "three-tier",
        4,
        3,
        120,
        False,
    )
    (tmp_path / "b.c").write_text("/* lab: abi=i386,x32 */\nvoid start(void)\n")
    _, i386, x32 = find_programs(tmp_path)
    assert [(i386.name, i386.abi), (x32.name, x32.abi)] == [("b_i386", "i386"), ("b_x32", "x32")]
    (tmp_path / "b.c").write_text("/* lab: abi=s390 */\nint main(void)\n")
    with pytest.raises(UsageError, match=r"b\.c: lab: abi=s390: use i386 or x32"):
        find_programs(tmp_path)
    (tmp_path / "b.c").write_text("/* lab: debug=never */\nint main(void)\n")
    with pytest.raises(UsageError, match=r"b\.c: lab: debug=never: use yes or no"):
        find_programs(tmp_path)
    (tmp_path / "b.c").write_text("/* lab: cpus=many */\nint main(void)\n")
    with pytest.raises(UsageError, match=r"b\.c: lab: cpus=many"):
        find_programs(tmp_path)


def test_the_clock_of_the_model_is_a_machine_for_itself(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("/* lab: topology=bench-dram-cxl clock=model */\nint main(void)\n")
    (tmp_path / "b.c").write_text("/* lab: topology=bench-dram-cxl */\nint main(void)\n")
    model, host = (program.machine for program in find_programs(tmp_path))
    assert (model.counts, host.counts, model == host) == (True, False, False)
    assert model.describe() == "bench-dram-cxl clock=model"
    (tmp_path / "a.c").write_text("/* lab: clock=model icount=2 */\nint main(void)\n")
    with pytest.raises(UsageError, match=r"a\.c: lab: clock=model and icount= are two clocks: give one of them"):
        find_programs(tmp_path)
    (tmp_path / "a.c").write_text("/* lab: clock=atomic */\nint main(void)\n")
    with pytest.raises(UsageError, match=r"a\.c: lab: clock=atomic: use guest or model"):
        find_programs(tmp_path)


def test_a_boot_of_its_own_is_shared_with_nobody(tmp_path: Path) -> None:
    for name, boot in {"a": "own", "b": "own", "c": "shared"}.items():
        (tmp_path / f"{name}.c").write_text(f"/* lab: icount=2 boot={boot} */\nint main(void)\n")
    (tmp_path / "d.c").write_text("/* lab: icount=2 */\nint main(void)\n")
    a, b, c, d = (program.machine for program in find_programs(tmp_path))
    assert len({a, b, c}) == 3
    assert c == d
    (tmp_path / "d.c").write_text("/* lab: boot=alone */\nint main(void)\n")
    with pytest.raises(UsageError, match=r"d\.c: lab: boot=alone: use shared or own"):
        find_programs(tmp_path)


def test_reporter_counts_and_shows_failures() -> None:
    stream = io.StringIO()
    reporter = Reporter(stream=stream)
    reporter.begin("g", "things")
    for status in ("pass", "pass", "fail", "skip"):
        reporter.add(TestResult("g", f"n-{status}", status, f"why {status}"))
    reporter.end("g")
    assert reporter.summary() == "2 passed, 1 failed, 1 skipped"
    assert "FAIL g/n-fail\n       why fail\n" in stream.getvalue()
    assert "n-pass" not in stream.getvalue()
    assert reporter.as_json()["tests"][3]["detail"] == "why skip"


def test_what_a_check_that_passes_has_noted_is_shown_when_asked() -> None:
    report = parse_tap(["1..2", "noise", "# 3 moved", "ok 1 a", "ok 2 b"])
    assert [tap.note for tap in report.results] == ["3 moved", ""]
    shown = [io.StringIO(), io.StringIO()]
    for verbose, stream in enumerate(shown):
        for tap in report.results:
            Reporter(verbose=bool(verbose), stream=stream).add(TestResult("g", tap.name, tap.status, tap.note))
    assert [stream.getvalue() for stream in shown] == ["", "  pass g/a\n       3 moved\n  pass g/b\n"]


def test_house_rules(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("# SPDX-License-Identifier: GPL-2.0\n" + "x = 1\n" * 700)
    (tmp_path / "bare.py").write_text("x = 1\n")
    (tmp_path / "README.md").write_text("hello\n")
    problems = house_problems(tmp_path, ["long.py", "bare.py", "README.md"])
    assert [problem.split(":")[0] for problem in problems] == ["long.py", "bare.py"]


def test_time_is_summed_up_by_capability() -> None:
    results = [
        TestResult("selftest", "promote_kinds:a", "pass", seconds=30.0),
        TestResult("selftest", "promote_kinds:b", "fail"),
        TestResult("selftest", "promote_kinds", "fail", seconds=30.0),
        TestResult("selftest-debug", "promote_kinds:a", "pass", seconds=60.0),
        TestResult("selftest", "file_policy:a", "pass", seconds=12.0),
        TestResult("unit", "tests/unit/x", "pass", seconds=99.0),
    ]
    assert describe_time(results) == "promotion 1 min 30 s, file policies 12 s"
    assert describe_time(results[-1:]) == ""


def test_every_program_has_a_capability() -> None:
    several = [program.name for program in find_programs() if capability_of(program.name) == SEVERAL]
    # "follow_": where migration by policy, by task and by fault meet, and promotion and file policies with them.
    others = {name for name in several if not name.startswith("follow_")}
    assert others == {"churn_all", "nomem_calls", "proc_exit"}

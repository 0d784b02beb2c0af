# SPDX-License-Identifier: GPL-2.0
"""The demo: figures from raw results, the table and what is expected, the plugin's arguments, abench's own checks."""

import argparse
import json
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import strict_schema
from terrace.cli import demo as verb
from terrace.demo import cases, counter, figures, functions, report, runner
from terrace.demo.counter import Counts
from terrace.demo.figures import Figures
from terrace.errors import BuildError, MissingError, UsageError
from terrace.kernel.build import Kernel
from terrace.lab import plugin
from terrace.lab.workloads import find_workload
from terrace.paths import repo_root


def _result(**changes: Any) -> dict[str, Any]:
    result: dict[str, Any] = {
        "schema": "terrace.abench/1",
        "elapsed_ns": 2_000_000_000,
        "samples": [[0.0, 0.0], [1000.0, 0.4], [1100.0, 0.6], [1200.0, 1.0]],
        "placed_last": {"pages": 1000, "on_start_node": 10, "in_dram": 990},
        "vmstat": {"pgpromote_success": 1000, "numa_hint_faults": 7},
        "tlb_shootdowns": 3,
        "kthread_cpu_ns": {"kmtierd": 3_000_000, "kswapd0": 9},
    }
    return {**result, **changes}


def _counts(kernel: int, **changes: Counts) -> dict[str, Counts]:
    """Those of the two seconds of `_result`."""
    counts = {
        "app": Counts(1000, kernel),
        "numa_scan": Counts(0, 50),
        "kmtierd": Counts(0, 500),
        "sampler": Counts(5, 4 * 10**8),
        "idle": Counts(0, 6 * 10**8),
        "other": Counts(9, 1),
    }
    return {**counts, **changes}


def _figures(**changes: Any) -> Figures:
    values: dict[str, Any] = {
        "elapsed_s": 2.0,
        "to_50_s": 1.0,
        "to_95_s": 1.5,
        "final_share": 1.0,
        "promoted_pages": 1000,
        "hint_faults": 0,
        "shootdowns": 0,
        "kernel_insns": 10_000_000,
        "app_user_insns": 100,
        "app_kernel_insns": 100,
        "mover_cpu_s": 0.0,
        "mover_insns": 0,
    }
    return Figures(**{**values, **changes})


def _outcome(case: cases.Case, value: Figures) -> runner.Outcome:
    return runner.Outcome(case, value, _result(), _counts(0), 1.0)


def _outcomes(**by_name: Figures) -> dict[str, runner.Outcome]:
    return {c.name: _outcome(c, by_name.get(c.name.replace("-", "_"), _figures())) for c in cases.MAIN}


def test_the_kernels_work_is_all_but_measuring_and_waiting() -> None:
    value = figures.figures_of(_result(), _counts(400))
    assert value.kernel_insns == 400 + 50 + 500 + 1
    assert value.app_kernel_insns == 450
    assert value.mover_insns == 500
    assert value.mover_cpu_s == pytest.approx(0.003)
    assert value.final_share == pytest.approx(0.99)
    # Between the samples around it.
    assert value.to_50_s == pytest.approx(1.05)
    assert value.to_95_s == pytest.approx(1.1875)


def test_cost_per_page_is_what_the_run_without_promotion_does_not_have() -> None:
    base = _figures(elapsed_s=1.0, kernel_insns=1_000_000, promoted_pages=0)
    assert _figures().per_page(base) == pytest.approx(8000)
    assert base.per_page(base) is None


def test_every_case_has_its_column_and_every_row_is_full() -> None:
    rows = report.rows(_outcomes())
    assert report.headers(_outcomes())[1:] == ["stock-0", "stock-1", "stock-2", "terrace"]
    assert {len(row) for row in rows} == {5}


def _quick(**by_name: Figures) -> dict[str, runner.Outcome]:
    return {c.name: _outcome(c, by_name.get(c.name.replace("-", "_"), _figures())) for c in cases.QUICK}


def test_quick_is_one_kernel_and_two_guests_and_has_no_cost_of_a_page() -> None:
    assert ({case.flavour for case in cases.QUICK}, len(cases.QUICK)) == ({"terrace"}, 2)
    outcomes = _quick(numab_2=_figures(to_50_s=2.0, app_kernel_insns=900), terrace=_figures(to_95_s=0.9))
    rows = report.rows(outcomes)
    assert report.headers(outcomes)[1:] == ["numab-2", "terrace"]
    assert {len(row) for row in rows} == {3}
    assert not any("per page moved" in row[0] for row in rows)
    assert report.quiet_rows(outcomes) == [] and report.doubts(outcomes) == []
    texts = [verdict.text for verdict in report.verdicts(outcomes)]
    assert [verdict.met for verdict in report.verdicts(outcomes)] == [True, True]
    assert "half of numab-2's time to 50 %" in texts[0] and "than numab-2:" in texts[1]
    kernel = Kernel(Path("vmlinux"), Path("config"), "6.12.1", "c0ffee", "terrace", "abc", "5eed")
    document = report.as_json(cases.Workload(64 << 20), {"terrace": kernel}, list(outcomes.values()))
    assert len(document["expected"]) == 2


def test_quick_runs_these_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []
    outcomes = list(_quick().values())
    assert _demo([], outcomes, monkeypatch, tmp_path, asked) == 0
    assert asked == [cases.QUICK]


def test_the_cost_of_nothing_to_do_has_its_own_table() -> None:
    assert report.quiet_rows(_outcomes()) == []
    outcomes = _outcomes() | {c.name: _outcome(c, _figures(mover_insns=1234)) for c in cases.QUIET + cases.OFF}
    rows = report.quiet_rows(outcomes)
    assert {len(row) for row in rows} == {len(report.quiet_headers())}
    assert rows[1][1].strip() == "1,234"
    assert rows[2][1].strip() == "0.0 M"


def test_expectations_follow_the_measured_figures() -> None:
    outcomes = _outcomes(
        stock_0=_figures(kernel_insns=0, promoted_pages=0),
        stock_2=_figures(to_50_s=2.0, kernel_insns=9_000_000, app_kernel_insns=900),
        terrace=_figures(to_95_s=0.9, kernel_insns=4_500_000),
    )
    assert [verdict.met for verdict in report.verdicts(outcomes)] == [True, True, True]
    outcomes["terrace"] = _outcome(cases.MAIN[3], _figures(to_95_s=1.1, kernel_insns=4_600_000, app_kernel_insns=9999))
    assert [verdict.met for verdict in report.verdicts(outcomes)] == [False, False, False]


def test_where_stock_never_brings_half_its_whole_run_is_the_limit() -> None:
    outcomes = _outcomes(stock_2=_figures(elapsed_s=3.0, to_50_s=None), terrace=_figures(to_95_s=2.9))
    assert report.verdicts(outcomes)[0].met


# ---- figures that are unknown ----


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"app": Counts(0, 400)}, "app has no user instructions: tasks are not told apart"),
        ({"idle": Counts(23_533_338, 10**9)}, "idle has 23,533,338 user instructions and no user code"),
        ({"kmtierd": Counts(1, 500)}, "kmtierd has 1 user instructions and no user code"),
        ({"other": Counts(9, -1)}, "other has -1 instructions"),
        ({"idle": Counts(0, 3 * 10**8)}, "700,001,965 instructions were counted, and QEMU executed 1,000,000,000"),
        ({"idle": Counts(0, 7 * 10**8)}, "1,100,001,965 instructions were counted, and QEMU executed 1,000,000,000"),
    ],
)
def test_counts_that_cannot_be_true_are_no_figures(changes: dict[str, Counts], why: str) -> None:
    value = figures.figures_of(_result(), _counts(400, **changes))
    assert why in value.unknown
    unknown = (value.kernel_insns, value.app_user_insns, value.app_kernel_insns, value.mover_insns, value.app_insns)
    assert unknown == (None,) * 5
    assert value.per_page(_figures()) is None
    assert _figures().per_page(value) is None
    # The guest's measurements stay.
    assert value.to_50_s == pytest.approx(1.05)


def test_what_is_unknown_is_printed_so_and_meets_nothing() -> None:
    bad = figures.figures_of(_result(), _counts(400, app=Counts(0, 0)))
    outcomes = _outcomes(terrace=bad)
    shown = {row[0].strip(): row[4].strip() for row in report.rows(outcomes)}
    assert {name for name, cell in shown.items() if cell == "unknown"} == {
        "kernel instructions",
        "per page moved",
        "application's threads, user",
        "application's threads, kernel",
        "kmtierd, instructions",
    }
    assert [check.met for check in report.verdicts(outcomes)] == [False, None, None]
    assert report.doubts(outcomes) == [f"terrace: {bad.unknown}"]


def test_pages_that_cost_less_than_nothing_are_unknown() -> None:
    outcomes = _outcomes(stock_0=_figures(kernel_insns=10_000_000), terrace=_figures(kernel_insns=9_093_000))
    assert report.rows(outcomes)[8][4].strip() == "unknown"
    assert report.verdicts(outcomes)[2].met is None
    assert "terrace: 1,000 pages moved with -907,000 kernel instructions above stock-0's" in report.doubts(outcomes)


def test_a_stock_kernel_that_moves_no_page_gives_no_cost_to_compare_with() -> None:
    outcomes = _outcomes(
        stock_0=_figures(kernel_insns=0), stock_2=_figures(promoted_pages=0), terrace=_figures(kernel_insns=5)
    )
    assert report.verdicts(outcomes)[2].met is None
    assert report.doubts(outcomes) == ["stock-2: 0 pages moved with 10,000,000 kernel instructions above stock-0's"]


def test_true_figures_leave_no_doubt() -> None:
    outcomes = _outcomes(stock_0=_figures(kernel_insns=0, promoted_pages=0))
    assert report.doubts(outcomes) == []


@pytest.mark.parametrize("words", [[], ["--check"]])
def test_a_demo_with_unknown_figures_fails(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = figures.figures_of(_result(), _counts(400, app=Counts(0, 0)))
    assert _demo(words, list(_outcomes(terrace=bad).values()), monkeypatch, tmp_path) == 1
    said = capsys.readouterr()
    assert "unknown figures: terrace: app has no user instructions" in said.err
    assert "\nunknown  at most half" in said.out


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--check"], 1)])
def test_a_demo_that_misses_an_expectation_fails_when_asked_to(
    words: list[str], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = _outcomes(stock_0=_figures(kernel_insns=0, promoted_pages=0))
    assert _demo(words, list(good.values()), monkeypatch, tmp_path) == code


def _demo(
    words: list[str],
    outcomes: list[runner.Outcome],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    asked: list[object] | None = None,
) -> int:
    """The exit code of `terrace demo` after these runs; `asked` gets the cases that it ran."""

    def ran(wanted: object, *_: object) -> list[runner.Outcome]:
        if asked is not None:
            asked.append(wanted)
        return outcomes

    picture = types.ModuleType("terrace.demo.picture")
    picture.draw = lambda *_: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "terrace.demo.picture", picture)
    kernel = Kernel(Path("vmlinux"), Path("config"), "6.12.1", "c0ffee", "stock", "abc", "5eed")
    monkeypatch.setattr(verb, "kernels_for", lambda *_: {"stock": kernel})
    monkeypatch.setattr(verb, "run_cases", ran)
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.main(parser.parse_args(["--quick", "--picture", str(folder / "p.png"), *words]))


def test_the_json_says_how_to_measure_it_again_and_follows_its_schema() -> None:
    kernel = Kernel(Path("vmlinux"), Path("config"), "6.12.1", "c0ffee", "stock", "abc", "5eed")
    document = report.as_json(cases.Workload(64 << 20), {"stock": kernel}, list(_outcomes().values()))
    again = json.loads(json.dumps(document))
    assert (again["kind"], again["version"]) == ("demo", 1)
    assert again["kernels"]["stock"] == {
        "version": "6.12.1",
        "config_hash": "c0ffee",
        "content_hash": "abc",
        "source_hash": "5eed",
    }
    assert [case["name"] for case in again["cases"]] == [case.name for case in cases.MAIN]
    schema = json.loads((repo_root() / "docs/reference/schema/demo.schema.json").read_text())
    strict_schema.validate(again, schema)
    known = schema["$defs"]["figures"]["properties"]
    assert set(document["cases"][0]["figures"]) == set(known)


def test_git_does_not_see_the_picture() -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    assert parser.parse_args([]).picture.name in (repo_root() / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize("size", [4096, (64 << 20) + 1, 8 << 30])
def test_a_size_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(UsageError, match="--size"):
        cases.Workload(size)


def test_dram_always_has_room_to_spare() -> None:
    assert cases.Workload(64 << 20).memory_scale == 1
    assert cases.Workload(1 << 30).memory_scale == 2


def test_the_plugin_is_told_of_the_functions_that_the_kernel_has() -> None:
    symbols = {"__switch_to_asm": 0xFFFFFFFF81000000, "do_idle": 0xFFFFFFFF82000000}
    text = plugin.counter_argument(Path("/a,b/c.so"), symbols, Path("/out"))
    assert text.startswith("/a,,b/c.so,out=/out,switch=ffffffff81000000,")
    assert "kind=idle@ffffffff82000000" in text
    assert "kmtierd" not in text


def test_a_kernel_without_task_switches_is_refused() -> None:
    with pytest.raises(MissingError, match="__switch_to_asm"):
        plugin.counter_argument(Path("c.so"), {"main": 1}, Path("out"))


def _write_counts(path: Path, regions: list[int]) -> Path:
    notes = [{"region": n, "kinds": {"app": {"user": 10 * n, "kernel": n, "switches": 0}}} for n in regions]
    path.write_text(json.dumps({"notes": notes}))
    return path


def test_counts_are_those_of_the_region(tmp_path: Path) -> None:
    assert counter.read_counts(_write_counts(tmp_path / "c", [1, 2])) == {"app": Counts(10, 1)}


def test_a_region_without_an_end_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no measured region"):
        counter.read_counts(_write_counts(tmp_path / "c", [1]))
    with pytest.raises(BuildError, match="no report"):
        counter.read_counts(tmp_path / "missing")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"schema": "other/1"}'])
def test_output_that_is_not_abenchs_is_refused(text: bytes) -> None:
    with pytest.raises(UsageError, match="abench"):
        runner.parse_result(text)


needs_qemu = pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="no qemu-system-x86_64")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
needs_numa = pytest.mark.skipif(
    not Path("/sys/devices/system/node/has_memory").exists(), reason="this kernel knows no memory nodes"
)


@needs_qemu
@needs_gcc
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("nonsense=1", "unknown"),
        ("out=/dev/null,switch=12", "kernel address"),
        ("out=/dev/null,kind=x@mark300", "0 to 255"),
        ("out=/dev/null,kind=x@mark1", "missing: kinds of tasks need it"),
        ("kind=@ffffffff81000000", "NAME@ADDR"),
        ("path=scan@mark1", "hexadecimal"),
    ],
)
def test_the_plugin_refuses_what_it_does_not_know(option: str, said: str) -> None:
    words = ["qemu-system-x86_64", "-machine", "q35", "-nodefaults", "-display", "none", "-S"]
    done = subprocess.run(
        [*words, "-plugin", f"{plugin.compile_plugin('insn_count')},{option}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "insn_count: option" in done.stderr
    assert said in done.stderr


def _abench(*words: str) -> "subprocess.CompletedProcess[str]":
    program = find_workload("abench").compile()
    return subprocess.run([str(program), *words], capture_output=True, text=True, timeout=60, check=False)


@needs_gcc
@needs_numa
def test_abench_checks_its_contents_and_prints_json() -> None:
    done = _abench("--size", "4M", "--node", "0", "--threads", "3", "--iterations", "5", "--seed", "7")
    if "Operation not permitted" in done.stderr:
        pytest.skip("this sandbox refuses memory policies")
    assert done.returncode == 0, done.stderr
    result = runner.parse_result(done.stdout.encode())
    assert result["bad_contents"] == 0
    assert result["placed_first"] == {"pages": 1024, "on_start_node": 1024, "in_dram": 1024}
    assert sum(thread["visits"] for thread in result["threads"]) == 5 * 3 * 342
    assert 0 < sum(thread["writes"] for thread in result["threads"]) < 5 * 3 * 342


def test_a_load_that_this_host_cannot_hold_is_refused_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrace.lab.qemu.host_memory", lambda: 4 << 30)
    monkeypatch.setattr(runner, "host_memory", lambda: 4 << 30)
    with pytest.raises(UsageError, match="--size 1G runs on a machine of 8G.*smaller"):
        runner.kernels_for(cases.MAIN, cases.Workload(1 << 30))


# ---- instructions by function ----

_SYMBOLS = {"first": 0x1000, "second": 0x2000, "third": 0x3000}


def test_functions_are_those_of_the_engine(tmp_path: Path) -> None:
    blocks = tmp_path / "blocks"
    blocks.write_text("1000 kmtierd 5\n1fff kmtierd 7\n2000 kmtierd 11\n3010 app 100\n10 kmtierd 1\n")
    assert functions.read_functions(blocks, _SYMBOLS) == {"first": 12, "second": 11, "?": 1}


@pytest.mark.parametrize("text", [None, "", "1000 app 5\n"])
def test_a_profile_without_the_engine_is_an_error(tmp_path: Path, text: str | None) -> None:
    blocks = tmp_path / "blocks"
    if text is not None:
        blocks.write_text(text)
    with pytest.raises(BuildError, match="instruction counter"):
        functions.read_functions(blocks, _SYMBOLS)


def test_functions_are_shown_by_page_the_dearest_first() -> None:
    found = {"by-address-space": {"copy": 15_000, "small": 20}, "by-folio": {"copy": 16_000, "walk": 4000}}
    rows = functions.functions_rows(found, {"by-address-space": 10, "by-folio": 10})
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["copy", "1,500", "1,600"],
        ["walk", "0", "400"],
        ["all others", "2", "0"],
        ["all", "1,502", "2,000"],
    ]


def test_the_counter_is_asked_for_blocks_only_where_they_are_wanted(tmp_path: Path) -> None:
    symbols = {"__switch_to_asm": 0x10, "ret_from_fork_asm": 0x20}
    without = plugin.counter_argument(tmp_path / "p.so", symbols, tmp_path / "out")
    assert "blocks=" not in without
    assert f"blocks={tmp_path}/b" in plugin.counter_argument(
        tmp_path / "p.so", symbols, tmp_path / "out", tmp_path / "b"
    )

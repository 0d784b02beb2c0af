# SPDX-License-Identifier: GPL-2.0
"""The workload whose memory is that of interpreters of Python: what it prints, refuses and notices, and how soon."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from bench_results import TEXT
from bench_results import experiment as parse_text

import strict_schema
from terrace.bench import loads
from terrace.errors import UsageError
from terrace.lab.workloads import ALL_WORKLOADS, WORKLOADS, find_workload
from terrace.paths import repo_root

PYTHON = Path("/usr/bin/python3")
# Signals end its processes: one test at a time, after those that share the CPUs.
pytestmark = [
    pytest.mark.clock,
    pytest.mark.skipif(
        shutil.which("gcc") is None or not PYTHON.exists(), reason=f"no gcc, or no {PYTHON}, which guests have, too"
    ),
]

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SMALL = ["--size", "1M", "--ops", "20000"]
# An answer takes milliseconds. The limit is for a launcher that waits for one that cannot come.
SOON_S = 120.0
# Ends or lives on at the launcher's word: what stands behind each script of a test that is not about its end.
LISTENS = "import sys\nfor line in sys.stdin: pass\n"


@pytest.fixture(scope="session")
def program() -> Path:
    return find_workload("pyheap").compile()


@pytest.fixture(scope="session")
def run(program: Path) -> Run:
    def call(*words: str) -> "subprocess.CompletedProcess[str]":
        own = find_workload("pyheap").words() if "--script" not in words else ()
        command = [str(program), *own, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=SOON_S, check=False)

    return call


@pytest.fixture(scope="session")
def script() -> ModuleType:
    """pyheap.py itself, in this interpreter."""
    spec = importlib.util.spec_from_file_location("pyheap_script", repo_root() / "guest/pyheap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def result_of(run: Run, *words: str) -> dict[str, Any]:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


def check_schema(result: dict[str, Any]) -> None:
    schema = json.loads((repo_root() / "docs/reference/schema/workload.schema.json").read_text())
    strict_schema.validate(result, schema)


def test_it_prints_one_result_that_follows_the_schema(run: Run) -> None:
    result = result_of(run, *SMALL, "--threads", "3", "--pin", "--sample-ms", "1", "--probes", "64")
    check_schema(result)
    assert result["workload"] == "pyheap"
    assert result["ops"] == 20000 == sum(thread["ops"] for thread in result["threads"])
    assert [thread["ops"] for thread in result["threads"]] == [6666, 6667, 6667]
    # Not of each: on 2026-11-29 a loaded host counted no time of one interpreter that had done its 6,667 operations.
    assert sum(thread["cpu_ns"] for thread in result["threads"]) > 0
    assert result["elapsed_ns"] == max(thread["elapsed_ns"] for thread in result["threads"])
    placed = result["placed_first"]
    assert placed["pages"] == placed["absent"] + sum(placed["by_node"].values())
    assert result["heap_bytes"] < placed["pages"] * 4096 < result["rss_bytes"]
    if not placed["absent"]:
        assert all(known == 64 for _, _, known in result["samples"])


def test_it_is_listed_but_has_no_arena(run: Run) -> None:
    assert "pyheap" in loads.names()
    assert set(ALL_WORKLOADS) - set(WORKLOADS) == {"pyheap", "xsbench"}
    assert "## pyheap\n" in (repo_root() / "docs/reference/workloads.md").read_text()
    assert run("--help").returncode == 0
    assert "--write-percent" in run("--help").stdout


def test_the_words_name_script_and_interpreter_by_what_they_are() -> None:
    name, path, version_name, version = find_workload("pyheap").words()
    assert (name, version_name) == ("--script", "--python-version")
    assert Path(path).read_bytes() == (repo_root() / "guest/pyheap.py").read_bytes()
    assert len(Path(path).stem) == len("pyheap-") + 16
    assert version.count(".") == 2
    assert find_workload("heat").words() == ()


def test_the_same_seed_gives_the_same_result_and_another_seed_another(run: Run) -> None:
    first, again, other = (result_of(run, *SMALL, "--seed", seed) for seed in ("5", "5", "6"))
    assert (first["checksum"], first["objects"]) == (again["checksum"], again["objects"])
    assert [t["writes"] for t in first["threads"]] == [t["writes"] for t in again["threads"]]
    assert first["checksum"] != other["checksum"]


def test_an_iteration_is_as_many_look_ups_as_there_are_objects(run: Run) -> None:
    result = result_of(run, "--size", "1M", "--iterations", "3")
    assert result["ops"] == 3 * result["objects"] > 0


@pytest.mark.parametrize(("percent", "low", "high"), [("0", 0, 0), ("20", 3800, 4200), ("100", 20000, 20000)])
def test_so_many_look_ups_write(percent: str, low: int, high: int, run: Run) -> None:
    result = result_of(run, *SMALL, "--write-percent", percent)
    assert low <= sum(thread["writes"] for thread in result["threads"]) <= high


@pytest.mark.parametrize("threads", [1, 2])
def test_the_heap_is_as_large_as_was_asked(threads: int, run: Run) -> None:
    size = 8 << 20
    result = result_of(run, "--size", "8M", "--threads", str(threads), "--ops", "100")
    # 1.01 with CPython 3.11. The memory of the interpreter before the heap is left out, and is the same for any size.
    assert result["heap_bytes"] == pytest.approx(size, rel=0.15)
    small = result_of(run, "--size", "1M", "--threads", str(threads), "--ops", "100")
    assert result["rss_bytes"] - small["rss_bytes"] == pytest.approx(size - (1 << 20), rel=0.15)


@pytest.mark.parametrize("theta", [0.0, 0.5, 0.99, 1.0, 1.3])
def test_look_ups_are_zipfian(theta: float, script: ModuleType) -> None:
    """Every look-up writes, so a record's version counts its look-ups; rank r is object r * stride."""
    cache = script.Cache(1 << 20)
    count, ops = cache.objects, 40_000
    writes, wrong, _ = cache.serve(Random(1), ops, theta, 100)
    assert (writes, wrong) == (ops, 0)
    visits = [cache.records[cache.keys[r * cache.stride % count]][2][2] for r in range(1, count + 1)]
    assert sum(visits) == ops
    weights = [r**-theta for r in range(1, count + 1)]
    # Off by as much as the first rank is (a tenth at theta 1), and by chance: 0.05 for the first part at theta 0.
    for first, last in ((0, count // 100), (count // 100, count // 10), (count // 10, count // 2), (count // 2, count)):
        share = sum(weights[first:last]) / sum(weights)
        assert sum(visits[first:last]) / ops == pytest.approx(share, rel=0.15)
    if not theta:
        # 113 visits each, with a deviation of 11.
        assert 0.6 * ops / count < min(visits) <= max(visits) < 1.4 * ops / count


def test_the_top_hundredth_of_many_objects_has_its_share(script: ModuleType) -> None:
    """By the draw alone, for as many objects as a bench has."""
    count, ops, random = 11_000, 100_000, Random(1)
    low, span, power = script.zipf_of(count, 0.99)
    ranks = [int((low + random.random() * span) ** power + 0.5) for _ in range(ops)]
    assert 1 <= min(ranks) <= max(ranks) <= count
    weights = [r**-0.99 for r in range(1, count + 1)]
    share = sum(rank <= count // 100 for rank in ranks) / ops
    # 0.527 of the density for the formula's 0.522; the draws' own deviation is 0.0016.
    assert share == pytest.approx(sum(weights[: count // 100]) / sum(weights), abs=0.02)


def test_a_step_comes_by_every_object(script: ModuleType) -> None:
    for count in (1, 2, 3, 12, 355, 1000, 11374):
        stride = script.stride_of(count)
        assert len({rank * stride % count for rank in range(1, count + 1)}) == count


@pytest.mark.parametrize(
    ("kind", "said"),
    [("value", "child 0 has 1 records that are not what was written"), ("early-value", "child 0 met")],
)
def test_a_damaged_record_fails_the_run(kind: str, said: str, run: Run) -> None:
    done = run(*SMALL, "--sabotage", kind)
    assert done.returncode == 1
    assert "wrong result" in done.stderr
    assert said in done.stderr
    result = json.loads(done.stdout)
    check_schema(result)
    assert not result["ok"]


def test_every_part_of_a_record_is_checked(script: ModuleType) -> None:
    cache = script.Cache(1 << 17)
    key = cache.keys[7]
    fields, body, marks = cache.records[key]
    wrong_ones = [
        (fields, body, [marks[0] + 1, *marks[1:]]),
        (fields, body, [marks[0], 8, marks[2]]),
        ((*fields[:-1], fields[-1][:-1] + b"?"), body, marks),
        (fields, body[:-1], marks),
        cache.records[cache.keys[8]],
    ]
    for record in wrong_ones:
        cache.records[key] = record
        assert cache.check()[0] == 1
        _, wrong, _ = cache.serve(Random(1), 2000, 0.0, 0)
        assert wrong > 0
    # A version that nobody wrote is right in itself: the sum of all is what is wrong.
    cache.records[key] = script.record_of(7, 1)
    assert cache.check() == (0, 1)
    del cache.records[key]
    assert cache.check()[0] == 2


@pytest.mark.parametrize(("kind", "doing"), [("early-child", "built its heap"), ("child", "looked up")])
def test_a_child_that_dies_ends_the_run(kind: str, doing: str, run: Run) -> None:
    began = time.monotonic()
    # More to do than there is time for.
    done = run("--size", "64M", "--iterations", "1000000", "--sabotage", kind)
    assert time.monotonic() - began < SOON_S
    assert done.returncode == 1
    assert done.stdout == ""
    assert "child 0 (process " in done.stderr
    assert f"was killed by signal 9 while it {doing}" in done.stderr


READY = "print('ready 10 4096 3.11.2', flush=True)\n"
GOES = READY + "import sys\nops = sys.stdin.readline().split()[1]\n"
CHECKED = GOES + "print('done', ops, 0, 0, '00', flush=True)\nsys.stdin.readline()\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('hello')\n", "said 'hello' while it built its heap, which is not a line 'ready ...'"),
        ("print('ready 10 many 3.11.2')\n", "said 'ready 10 many 3.11.2' while it built its heap"),
        ("print('ready 0 4096 3.11.2')\n", "said 'ready 0 4096 3.11.2'"),
        ("print('ready 10 4096 3.11.2 x')\n", "said 'ready 10 4096 3.11.2 x'"),
        ("print('ready 1 1 1\\nready 1 1 1')\n", "said 'ready 1 1 1?ready 1 1 1'"),
        ("print('\\0\\x1b[31m')\n", "said '??[31m'"),
        ("print('long' * 200)\n", "said 'longlong"),
        ("raise SystemExit(3)\n", "ended with exit code 3 while it built its heap"),
        ("raise ValueError('its own words')\n", "ValueError: its own words"),
        ("", "ended with exit code 0 while it built its heap"),
        ("import os\nos.close(1)\n" + LISTENS, "closed its output while it built its heap"),
        (GOES + "raise SystemExit(4)\n", "ended with exit code 4 while it looked up"),
        (GOES + "print('done', 1, 0, 0, '00')\n", "said 'done 1 0 0 00' while it looked up"),
        (GOES + "print('done', ops, int(ops) + 1, 0, '00')\n", "while it looked up, which is not a line 'done ...'"),
        (CHECKED + "raise SystemExit(5)\n", "ended with exit code 5 while it checked its heap"),
        (CHECKED + "print('checked', 0)\n", "said 'checked 0' while it checked its heap"),
    ],
)
def test_a_child_that_says_or_does_something_else_is_named(text: str, said: str, run: Run, tmp_path: Path) -> None:
    strange = tmp_path / "strange.py"
    strange.write_text(text)
    done = run(*SMALL, "--threads", "1", "--script", str(strange))
    assert done.returncode == 1
    assert said in done.stderr
    assert "child 0 (process " in done.stderr
    assert done.stdout == ""


def test_one_that_was_written_too_often_is_noticed(run: Run, tmp_path: Path) -> None:
    strange = tmp_path / "strange.py"
    strange.write_text(CHECKED + "print('checked', 0, 1, flush=True)\nsys.stdin.readline()\n")
    done = run(*SMALL, "--threads", "1", "--script", str(strange))
    assert done.returncode == 1
    assert "child 0 wrote 0 times and its records have 1 of it" in done.stderr


def test_children_end_with_the_launcher(program: Path, tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(
        "import os, pathlib, sys, time\n"
        f"(pathlib.Path({str(tmp_path)!r}) / ('pid' + sys.argv[3])).write_text(str(os.getpid()))\n"
        "time.sleep(1000)\n"
    )
    launcher = subprocess.Popen([program, *SMALL, "--script", str(script)], stdout=subprocess.DEVNULL)
    try:
        pids = [int(wait_for_text(tmp_path / f"pid{child}")) for child in (0, 1)]
    finally:
        launcher.send_signal(signal.SIGKILL)
        launcher.wait()
    deadline = time.monotonic() + SOON_S
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = [pid for pid in pids if is_alive(pid)]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []


def wait_for_text(path: Path) -> str:
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.02)
    raise AssertionError(f"no {path}")


def is_alive(pid: int) -> bool:
    """Not ended, nor ended and unclaimed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_interpreter_knows_nothing_of_who_started_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    script = tmp_path / "tells.py"
    script.write_text(
        "import os, sys\nsys.exit(repr((sorted(os.environ), sys.flags.hash_randomization, sys.path[0])))\n"
    )
    said = run(*SMALL, "--threads", "1", "--script", str(script)).stderr.splitlines()[0]
    for strange in ("PYTHONPATH", "PYTHONMALLOC", "HOME", str(tmp_path)):
        assert strange not in said
    assert "'PYTHONHASHSEED'" in said
    assert "], 0, '/usr/lib/" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seconds", "1"], "--seconds: not with pyheap: an interpreter is told a number of look-ups"),
        (["--place", "/dev/null"], "--place: not with pyheap"),
        (["--weights", "9,1"], "--weights: not with pyheap"),
        (["--burst", "/x"], "--burst: not with pyheap"),
        (["--thp"], "--thp: not with pyheap"),
        (["--theta", "2001"], "--theta: '2001' is not a whole number from 0 to 2000"),
        (["--write-percent", "101"], "--write-percent: '101' is not a whole number from 0 to 100"),
        (["--size", "64K"], "--size: 65536 bytes are too few for 2 interpreters; at least 65536 each"),
        (["--script", "/no/such"], "--script: /no/such: No such file"),
        (["--python", "/no/such"], "--python: /no/such: No such file"),
        (["--start-node", "1000"], "--start-node: node 1000 has no memory"),
        (["--sabotage", "all"], "--sabotage: 'all' is not value, child"),
        (["--nonsense"], "--help"),
    ],
)
def test_a_wrong_option_is_named(words: Sequence[str], said: str, run: Run) -> None:
    done = run(*SMALL, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_without_a_script_it_says_which(program: Path) -> None:
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--script FILE is needed" in done.stderr


def test_another_interpreter_is_refused(run: Run) -> None:
    done = run(*SMALL, "--python-version", "2.7.18")
    assert done.returncode == 1
    assert "--python-version: /usr/bin/python3 is Python 3." in done.stderr
    assert ", not 2.7.18" in done.stderr


BENCH = TEXT.replace('"abench"', '"pyheap"').replace('"oracle", ', "")


def test_an_experiment_runs_it_with_its_script() -> None:
    cell = parse_text(BENCH + 'start = "first-touch"\n').cells()[0]
    programs = loads.compile_for(cell)
    words = loads.words(cell, programs)
    at = words.index(str(programs.workload))
    assert words[at + 1 : at + 5] == list(find_workload("pyheap").words())
    shown = loads.describe(words, (programs.workload.parent,))
    assert f" --script {Path(words[at + 2]).name} --python-version " in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BENCH, "start: 'slow' would bind all memory of pyheap"),
        (BENCH + 'start = "slow"\n', "start: 'slow' would bind all memory of pyheap"),
        (TEXT.replace('"abench"', '"pyheap"') + 'start = "first-touch"\n', "policies: 'oracle' places pages by number"),
    ],
)
def test_an_experiment_that_would_place_its_pages_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_text(text)
    assert said in str(caught.value)
    assert "bench.toml" in str(caught.value)

# SPDX-License-Identifier: GPL-2.0
"""The workloads of guest/: what all have in common, and for each that its check can fail."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import strict_schema
from terrace.errors import UsageError
from terrace.lab.workloads import (
    WORKLOADS,
    compile_ballast,
    compile_crowd,
    compile_pagecache,
    find_workload,
    main,
)
from terrace.paths import repo_root

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")

Run = Callable[..., "subprocess.CompletedProcess[str]"]

# Small: a few milliseconds each.
SMALL: dict[str, list[str]] = {
    "abench": ["--size", "1M", "--start-node", "-1", "--json", "workload"],
    "stream": ["--size", "1M", "--iterations", "3"],
    "mlc": ["--size", "1M", "--probe-size", "64K", "--iterations", "2"],
    "xslookup": ["--size", "1M", "--nuclides", "12", "--ops", "5000"],
    "kvzipf": ["--size", "1M", "--value", "256", "--ops", "20000"],
    "pmlat": ["--size", "1M", "--iterations", "20"],
    "phase": ["--size", "1M", "--iterations", "40"],
    "heat": ["--size", "1M", "--iterations", "40"],
    "scanhot": ["--size", "1M", "--iterations", "40"],
    "bfs": ["--size", "1M", "--iterations", "4"],
    "buildlike": ["--size", "1M", "--slice", "128K", "--heap", "64K"],
    "chase": ["--size", "1M", "--iterations", "3"],
    "pool": ["--size", "1M", "--iterations", "40", "--backends", "8"],
}
# Whose checksum does not depend on how many threads share the work.
SAME_FOR_ALL_THREADS = ["stream", "xslookup", "kvzipf", "bfs", "buildlike", "chase"]
SABOTAGE = [
    ("abench", "flip", "tag"),
    ("abench", "lose", "wrote"),
    ("abench", "swap", "tag"),
    ("abench", "early-flip", "tag"),
    ("stream", "a", "array a"),
    ("stream", "b", "array b"),
    ("stream", "c", "array c"),
    ("mlc", "link", "chain"),
    ("mlc", "write", "was written"),
    ("mlc", "content", "content"),
    ("xslookup", "result", "lookups differ"),
    ("xslookup", "byte", "word of the tables changed"),
    ("kvzipf", "byte", "its value"),
    ("kvzipf", "swap", "its value"),
    ("kvzipf", "version", "all versions make"),
    ("kvzipf", "early-byte", "met a wrong value"),
    ("pmlat", "flip", "tag"),
    ("pmlat", "lose", "wrote"),
    ("pmlat", "early-swap", "met"),
    ("phase", "flip", "tag"),
    ("phase", "lose", "wrote"),
    ("phase", "early-swap", "met"),
    ("heat", "flip", "tag"),
    ("heat", "lose", "wrote"),
    ("heat", "early-swap", "met"),
    ("pool", "flip", "tag"),
    ("pool", "lose", "wrote"),
    ("pool", "early-swap", "met"),
    ("scanhot", "tag", "tag"),
    ("scanhot", "count", "wrote"),
    ("scanhot", "line", "cold page"),
    ("scanhot", "early-line", "3 times a cold page"),
    ("scanhot", "skip", "the scan did"),
    ("bfs", "graph", "the graph changed"),
    ("bfs", "cycle", "the parents are no tree"),
    ("bfs", "lost", "leads from level -1"),
    ("bfs", "parent", "is no neighbour of its parent"),
    ("buildlike", "byte", "page"),
    ("buildlike", "early-byte", "page"),
    ("buildlike", "early-object", "1 objects are wrong"),
    ("buildlike", "early-child", "8 children failed"),
    ("chase", "link", "cycle is broken"),
    ("chase", "place", "cycle is broken"),
    ("chase", "early-place", "did not pass the places"),
]


@pytest.fixture(scope="session")
def programs() -> dict[str, Path]:
    return {name: workload.compile() for name, workload in WORKLOADS.items()}


@pytest.fixture(scope="session")
def run(programs: dict[str, Path]) -> Run:
    def call(name: str, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([programs[name], *words], capture_output=True, text=True, timeout=60, check=False)

    return call


@pytest.fixture(scope="session")
def schema() -> Any:
    return json.loads((repo_root() / "docs/reference/schema/workload.schema.json").read_text())


def small(run: Run, name: str, *words: str) -> dict[str, Any]:
    done = run(name, *SMALL[name], *words)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_prints_one_result_that_follows_the_schema(name: str, run: Run, schema: Any) -> None:
    result = small(run, name, "--threads", "3")
    strict_schema.validate(result, schema)
    assert result["workload"] == name
    assert result["ops"] > 0
    assert len(result["threads"]) == 3
    assert ("latency_ns" in result) == WORKLOADS[name].latency
    assert result["placed_first"]["pages"] == result["options"]["size"] // 4096


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_result_and_another_seed_another(name: str, run: Run) -> None:
    first, again, other = (small(run, name, "--seed", seed) for seed in ("5", "5", "6"))
    assert (first["checksum"], first["ops"]) == (again["checksum"], again["ops"])
    assert first["checksum"] != other["checksum"]
    for threads in ("1", "3") if name in SAME_FOR_ALL_THREADS else ():
        assert small(run, name, "--seed", "5", "--threads", threads)["checksum"] == first["checksum"]


@pytest.mark.parametrize(("name", "kind", "said"), SABOTAGE)
def test_damage_fails_the_run(name: str, kind: str, said: str, run: Run, schema: Any) -> None:
    done = run(name, *SMALL[name], "--sabotage", kind)
    assert done.returncode == 1, done.stdout
    assert "wrong result" in done.stderr
    assert said in done.stderr
    result = json.loads(done.stdout)
    strict_schema.validate(result, schema)
    assert not result["ok"]


def with_copies(run: Run, name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    done = run(name, *SMALL[name], "--copies", *words)
    if "Operation not permitted" in done.stderr:
        pytest.skip("this sandbox refuses memory policies")
    return done


@pytest.mark.parametrize("name", [name for name, program in WORKLOADS.items() if program.copies])
def test_copies_say_what_the_original_says(name: str, run: Run, tmp_path: Path) -> None:
    where = ["--dir", str(tmp_path)] if name == "buildlike" else []
    done = with_copies(run, name, *where)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["options"]["copies"] is True
    assert result["checksum"] == small(run, name)["checksum"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        # Had they read the original they would have found nothing wrong.
        ("xslookup", "early-copy", "lookups differ"),
        ("xslookup", "copy", "word of the copy on node 0 changed"),
        ("buildlike", "early-copy", "objects are wrong"),
    ],
)
def test_it_is_the_copy_that_is_read(name: str, kind: str, said: str, run: Run) -> None:
    done = with_copies(run, name, "--sabotage", kind)
    assert done.returncode == 1
    assert said in done.stderr


def test_every_workload_has_a_sabotage() -> None:
    assert {name for name, _, _ in SABOTAGE} == set(WORKLOADS) == set(SMALL)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--size", "lots"], "--size: 'lots' is not a size"),
        (["--size", "4096"], "--size: '4096' is not from 65536 to"),
        (["--size", "100001"], "--size: 100001 is not a multiple of 4096"),
        (["--threads", "0"], "--threads: '0' is not a whole number from 1 to 256"),
        (["--seed", "-3"], "--seed: '-3' is not a whole number"),
        (["--start-node", "-2"], "--start-node: '-2' is not a whole number"),
        (["--start-node", "1000"], "--start-node"),
        (["--set", "nothing"], "--set: 'nothing' is not PATH=VALUE"),
        (["--set-late", "nothing"], "--set-late: 'nothing' is not PATH=VALUE"),
        (["--place", "/no/such/file"], "--place: /no/such/file: No such file"),
        (["--place", "/dev/null", "--thp"], "--place: goes page by page, so without --thp"),
        (["--place", "/dev/null", "--weights", "9,1"], "--place: goes page by page, so without --weights"),
        (["--nonsense"], "--help"),
        (["extra"], "unexpected argument 'extra'"),
    ],
)
def test_a_wrong_common_option_is_named(words: Sequence[str], said: str, run: Run) -> None:
    done = run("xslookup", *SMALL["xslookup"], *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("abench", ["--write-percent", "101"], "--write-percent: '101' is not a whole number from 0 to 100"),
        ("abench", ["--node", "-1"], "--node: '-1' is not a whole number from 0 to 1023"),
        ("abench", ["--json", "yaml"], "--json: 'yaml' is not one of abench, workload"),
        ("mlc", ["--mix", "W3"], "--mix: 'W3' is not one of R, W2, W5"),
        ("mlc", ["--probe-size", "1M"], "--probe-size: 1048576 is not a multiple of 64 up to half of --size"),
        ("xslookup", ["--nuclides", "3"], "--nuclides: '3' is not a whole number from 4 to 355"),
        ("xslookup", ["--size", "64K", "--nuclides", "355"], "--size: 65536 bytes are too few for 355 nuclides"),
        ("kvzipf", ["--mix", "G"], "--mix: 'G' is not one of A, B, C, D, E, F"),
        ("kvzipf", ["--value", "100"], "--value: 100 is not a multiple of 64"),
        ("kvzipf", ["--value", "512K"], "--size: 1048576 bytes are"),
        ("pmlat", ["--pattern", "random"], "--pattern: 'random' is not one of uniform, normal, linear"),
        ("phase", ["--hot-percent", "0"], "--hot-percent: '0' is not a whole number from 1 to 100"),
        ("phase", ["--seconds", "1"], "--seconds: phases are counted in operations; give --phase-seconds too"),
        ("heat", ["--load", "sweep"], "--load: 'sweep' is not one of zipf, tenants, drift"),
        ("heat", ["--theta", "2001"], "--theta: '2001' is not a whole number from 0 to 2000"),
        ("heat", ["--load", "drift", "--seconds", "1"], "--seconds: what drifts is counted in operations"),
        ("heat", ["--load", "drift", "--size", "64K", "--hot-percent", "1"], "--hot-percent: 1 of 16 pages is none"),
        ("scanhot", ["--threads", "1"], "--threads: 1: one scans, so at least 2 are needed"),
        ("bfs", ["--scale", "20"], "--size: 1048576 bytes do not hold 4 searches at edge factor 16 and scale 20"),
        ("bfs", ["--iterations", "65"], "--iterations: 65: at most 64 searches"),
        ("buildlike", ["--slice", "5K"], "--slice: 5120 is not a number of pages that divides --size"),
        ("buildlike", ["--copies", "--on-disk"], "--copies: not with --on-disk"),
        ("buildlike", ["--dir", "/no/such"], "--dir: /no/such: No such file"),
        ("kvzipf", ["--theta", "2001"], "--theta: '2001' is not a whole number from 0 to 2000"),
    ],
)
def test_a_wrong_option_of_one_workload_is_named(name: str, words: Sequence[str], said: str, run: Run) -> None:
    done = run(name, *SMALL[name], *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_a_node_without_memory_is_named(run: Run) -> None:
    # Not of SMALL: --start-node would go before --node.
    done = run("abench", "--size", "1M", "--node", "1000")
    assert done.returncode == 2
    assert "--node: node 1000 has no memory" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 1\n", ":1: not 'PAGE COUNT NODE'"),
        ("# a comment\n\n0 1 0 4\n", ":3: not 'PAGE COUNT NODE'"),
        ("0 257 0\n", ":1: pages 0+257 are not within the arena's 256"),
        ("256 1 0\n", ":1: pages 256+1 are not within"),
        ("0 1 5000\n", ":1: node 5000 is not from 0 to 1023"),
        ("0 1 1000\n", "node 1000"),
    ],
)
def test_a_wrong_placement_is_named_with_its_line(text: str, said: str, run: Run, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_text(text)
    done = run("stream", *SMALL["stream"], "--place", str(place))
    assert done.returncode == 2
    assert said in done.stderr


def test_a_placement_is_taken(run: Run, tmp_path: Path) -> None:
    if not Path("/sys/devices/system/node/has_memory").exists():
        pytest.skip("this kernel knows no memory nodes")
    place = tmp_path / "place"
    place.write_text("# all of it\n0 200 0\n200 56 0\n")
    done = run("stream", *SMALL["stream"], "--place", str(place))
    if "Operation not permitted" in done.stderr:
        pytest.skip("this sandbox refuses memory policies")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["options"]["place"] is True


def test_a_run_by_time_ends_and_is_checked(run: Run) -> None:
    result = small(run, "xslookup", "--seconds", "1")
    assert 0.9e9 < result["elapsed_ns"] < 5e9
    assert result["ops"] > 5000


def test_help_names_every_option(run: Run) -> None:
    for name in WORKLOADS:
        done = run(name, "--help")
        assert done.returncode == 0
        assert "--sabotage" not in done.stdout
        result = small(run, name)
        for option in result["options"]:
            assert f"--{option.replace('_', '-')}" in done.stdout


def test_nothing_is_left_behind(run: Run, tmp_path: Path) -> None:
    small(run, "buildlike", "--dir", str(tmp_path))
    assert run("buildlike", *SMALL["buildlike"], "--dir", str(tmp_path), "--sabotage", "early-byte").returncode == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--node, --leave and a command are needed"),
        (["--node", "0", "--leave", "1G"], "a command"),
        (["--node", "x", "--leave", "1G", "true"], "--node: 'x' is not a whole number"),
        (["--node", "0", "--leave", "much", "true"], "--leave: 'much' is not a size"),
        (["--node", "1000", "--leave", "1G", "true"], "--node: this machine has no node 1000"),
    ],
)
def test_ballast_names_what_is_wrong(words: Sequence[str], said: str) -> None:
    done = subprocess.run([compile_ballast(), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        (compile_crowd, [], "--idle or --busy, and a command are needed"),
        (compile_crowd, ["--busy", "1"], "a command"),
        (compile_crowd, ["--idle", "-1", "true"], "--idle: '-1' is not a whole number from 0 to 10000"),
        (compile_crowd, ["--idle", "1", "--busy-size", "0", "true"], "--busy-size: '0' is not a size"),
        (compile_pagecache, ["--node", "0"], "a command"),
        (compile_pagecache, ["true"], "--node and a command are needed"),
        (compile_pagecache, ["--node", "1000", "true"], "--node: this machine has no node 1000"),
    ],
)
def test_what_runs_a_load_beside_others_names_what_is_wrong(
    program: Callable[[], Path], words: Sequence[str], said: str
) -> None:
    done = subprocess.run([program(), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr


KILL_ONE = """
import os, signal
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        fields = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()
    except OSError:
        continue
    if int(fields[1]) == os.getppid() and int(name) != os.getpid():
        os.kill(int(name), signal.SIGKILL)
        break
"""


def test_a_crowd_ends_as_its_command_does_and_notes_who_is_missing() -> None:
    crowd = [str(compile_crowd()), "--idle", "3", "--ranges", "2", "--busy", "2", "--busy-ms", "1", "--"]
    assert subprocess.run([*crowd, "sh", "-c", "exit 7"], check=False).returncode == 7
    assert subprocess.run([*crowd, "true"], check=False).returncode == 0
    done = subprocess.run([*crowd, sys.executable, "-c", KILL_ONE], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "1 of 5 processes ended early or never ran" in done.stderr


def test_only_active_backends_of_a_pool_work(run: Run) -> None:
    """200 chunks of 1024 visits go to four of eight processes."""
    result = small(run, "pool", "--iterations", "800", "--active", "4")
    assert result["backends_that_worked"] == 4
    assert result["ops"] == 800 * 256
    assert run("pool", "--size", "1M", "--backends", "4", "--active", "5").returncode == 2


def test_an_unknown_workload_is_refused_with_all_names() -> None:
    with pytest.raises(UsageError, match="no workload 'fluidanimate'; there are abench, stream"):
        find_workload("fluidanimate")


def test_the_module_prints_where_a_program_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chase", "ballast"]) == 0
    chase, ballast = capsys.readouterr().out.splitlines()
    assert (Path(chase), Path(ballast)) == (find_workload("chase").compile(), compile_ballast())
    assert main(["nope"]) == 2
    assert "no workload 'nope'" in capsys.readouterr().err


def test_the_sources_have_no_warnings() -> None:
    # xsbench.c needs headers from elsewhere: test_xsbench.py has the same test for it.
    sources = sorted(str(path) for path in (repo_root() / "guest").glob("*.c") if path.name != "xsbench.c")
    words = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *sources]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_workload_is_described() -> None:
    text = (repo_root() / "docs/reference/workloads.md").read_text()
    for name in WORKLOADS:
        assert f"## {name}\n" in text

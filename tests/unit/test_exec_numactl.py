# SPDX-License-Identifier: GPL-2.0
"""Options of `terrace exec` that numactl has: the sets they take, the calls they make, what the program sees."""

from __future__ import annotations

import argparse
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_golden import run

import strict_schema
from terrace.cli import exec as verb
from terrace.errors import TerraceError, UsageError
from terrace.ops.calls import Calls
from terrace.paths import repo_root
from terrace.policy import binding
from terrace.policy.binding import CpuCalls
from terrace.policy.calls import MODES
from terrace.sysfs import KernelFiles
from terrace.units import format_nodes, parse_set

SCHEMAS = repo_root() / "docs/reference/schema"


class Cpus(CpuCalls):
    """A task that may run on CPUs 2, 3 and 6 of eight; ``answer`` is the errno of a binding."""

    def __init__(self, answer: int = 0) -> None:
        self.answer = answer
        self.bound: list[int] = []

    def allowed(self) -> list[int]:
        return [2, 3, 6]

    def bind(self, cpus: Any) -> None:
        if self.answer:
            raise OSError(self.answer, os.strerror(self.answer))
        self.bound = list(cpus)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nodes 0, 1 and 3 with memory and CPUs, node 4 with memory alone; the cpuset has nodes 0, 3 and 4."""
    files = {
        "sys/devices/system/node/has_memory": "0-1,3-4",
        "sys/devices/system/node/has_cpu": "0-1,3",
        "sys/devices/system/node/node0/cpulist": "0-3",
        "sys/devices/system/node/node1/cpulist": "4-5",
        "sys/devices/system/node/node3/cpulist": "6-7",
        "sys/devices/system/node/node4/cpulist": "",
        "sys/devices/system/cpu/online": "0-7",
        "proc/self/status": "Name:\tx\nMems_allowed:\t19\nMems_allowed_list:\t0,3-4",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(verb, "KernelFiles", lambda: KernelFiles(tmp_path))
    monkeypatch.setattr(verb, "CpuCalls", Cpus)
    return tmp_path


def calls(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What a dry run prints, but for the program."""
    assert run("exec", "--dry-run", *words, "--", "prog", "-l", "a b") == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "execvp(prog -l 'a b')"
    return lines


# ---- the effect of each option, as the list of calls ----

EFFECTS = [
    (("-m", "0"), "set_mempolicy(MPOL_BIND, 0)"),
    (("--membind", "3-4"), "set_mempolicy(MPOL_BIND, 3-4)"),
    (("--membind=!0",), "set_mempolicy(MPOL_BIND, 3-4)"),
    (("-i", "all"), "set_mempolicy(MPOL_INTERLEAVE, 0,3-4)"),
    (("-iall",), "set_mempolicy(MPOL_INTERLEAVE, 0,3-4)"),
    (("--interleave", "+0-1"), "set_mempolicy(MPOL_INTERLEAVE, 0,3)"),
    (("--interleave", "!+0-1"), "set_mempolicy(MPOL_INTERLEAVE, 4)"),
    (("--all", "--interleave", "all"), "set_mempolicy(MPOL_INTERLEAVE, 0-1,3-4)"),
    (("-a", "-i", "+1"), "set_mempolicy(MPOL_INTERLEAVE, 1)"),
    (("-w", "0,3"), "set_mempolicy(MPOL_WEIGHTED_INTERLEAVE, 0,3)"),
    (("-w", "!0"), "set_mempolicy(MPOL_WEIGHTED_INTERLEAVE, 3-4)"),
    (("--weighted-interleave", "0=9,3"), "set_mempolicy2(MPOL_WEIGHTED_INTERLEAVE, 0=9,3=0)"),
    (("-p", "3"), "set_mempolicy(MPOL_PREFERRED, 3)"),
    (("--preferred", "+2"), "set_mempolicy(MPOL_PREFERRED, 4)"),
    (("-P", "0,3"), "set_mempolicy(MPOL_PREFERRED_MANY, 0,3)"),
    (("--preferred-many", "4"), "set_mempolicy(MPOL_PREFERRED_MANY, 4)"),
    (("-l",), "set_mempolicy(MPOL_LOCAL)"),
    (("--localalloc",), "set_mempolicy(MPOL_LOCAL)"),
    (("-N", "0"), "sched_setaffinity(0-3)"),
    (("--cpunodebind", "+1"), "sched_setaffinity(6-7)"),
    (("-N", "all"), "sched_setaffinity(0-3,6-7)"),
    (("-a", "-N", "all"), "sched_setaffinity(0-7)"),
    (("-N", "3-4"), "sched_setaffinity(6-7)"),
    (("-C", "2-3"), "sched_setaffinity(2-3)"),
    (("--physcpubind", "all"), "sched_setaffinity(2-3,6)"),
    (("-C", "+0,2"), "sched_setaffinity(2,6)"),
    (("-C", "!2"), "sched_setaffinity(3,6)"),
    (("-C", "2-6"), "sched_setaffinity(2-3,6)"),
    (("--all", "-C", "4-5"), "sched_setaffinity(4-5)"),
    (("-a", "-C", "all"), "sched_setaffinity(0-7)"),
    (("--scan-scale", "0"), "prctl(PR_MTIER_SCAN_SCALE_SET, 0)"),
]


@pytest.mark.parametrize(("words", "call"), EFFECTS, ids=lambda value: value if isinstance(value, str) else None)
def test_the_call_of_each_option(
    machine: Path, words: tuple[str, ...], call: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calls(capsys, *words) == [call]


def test_memory_and_cpus_go_together(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calls(capsys, "-N", "0", "-m", "same", "--scan-scale", "7") == [
        "sched_setaffinity(0-3)",
        "prctl(PR_MTIER_SCAN_SCALE_SET, 7)",
        "set_mempolicy(MPOL_BIND, 0)",
    ]
    assert calls(capsys, "-i", "0,3", "--range-file", "/dev/shm/a:4K+8K") == [
        "mbind(/dev/shm/a:4K+8K, MPOL_INTERLEAVE, 0,3)"
    ]


def test_a_dry_run_changes_nothing(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a dry run made a call")

    for place, name in ((binding, "bind"), (verb, "apply"), (verb, "set_scale"), (os, "execvp")):
        monkeypatch.setattr(place, name, refuse)
    words = ("-C", "2", "-m", "0", "--scan-scale", "1")
    assert run("exec", "--dry-run", "--json", *words, "--", "prog") == 0
    document = json.loads(capsys.readouterr().out)
    strict_schema.validate(document, json.loads((SCHEMAS / "exec.schema.json").read_text()))
    assert document["calls"][0] == "sched_setaffinity(2)" and document["command"] == ["prog"]


# ---- what is refused ----

REFUSED = [
    (("-m", "1"), r"node set '1': there is no 1; this task may use .* 0,3-4"),
    (("-m", "0-1"), r"node set '0-1': there is no 1"),
    (("-a", "-m", "2"), r"node set '2': there is no 2; this machine has 0-1,3-4"),
    (("-m", "+3"), r"node set '\+3': there is no \+3 after \+2"),
    (("-m", "!all"), r"node set '!all' leaves no node"),
    (("-m", "all,0"), r"node set 'all,0': it is not of the form"),
    (("-m", ""), r"node set '': it is not of the form"),
    (("-m", "netdev:eth0"), r"node set 'netdev:eth0': it is not of the form"),
    (("-p", "0,3"), r"--preferred 0,3: it takes one node; --preferred-many \(-P\) takes several"),
    (("-C", "0"), r"CPU set '0': there is no 0; this task may use .* 2-3,6"),
    (("-a", "-C", "8"), r"CPU set '8': there is no 8; online are 0-7"),
    (("-C", "+3"), r"CPU set '\+3': there is no \+3 after \+2"),
    (("-N", "4"), r"--cpunodebind 4: node 4 has no CPUs; nodes with CPUs: 0-1,3"),
    (("-N", "9"), r"node set '9': there is no 9"),
    (("--scan-scale", "11"), "--scan-scale cannot be 11"),
    (("--weights", "firmware", "-l"), "--weights firmware goes alone or with --interleave"),
    (("--weights", "firmware", "-P", "0"), "--weights firmware goes alone or with --interleave"),
    (("--range-file", "/x"), "--range-file needs a placement"),
    (("--show",), "give one of them"),
]


@pytest.mark.parametrize(("words", "why"), REFUSED)
def test_what_cannot_be_is_refused_by_name(machine: Path, words: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        run("exec", "--dry-run", *words, "--", "prog")


CONFLICTS = [
    (("-m", "0", "-i", "0"), "-i/--interleave: not allowed with argument -m/--membind"),
    (("-l", "-P", "0"), "-P/--preferred-many: not allowed with argument -l/--localalloc"),
    (("-p", "0", "-w", "0"), "-w/--weighted-interleave: not allowed with argument -p/--preferred"),
    (("-N", "0", "-C", "2"), "-C/--physcpubind: not allowed with argument -N/--cpunodebind"),
    (("-m", "0", "-m", "3"), "-m is given twice"),
    (("-l", "-l"), "-l is given twice"),
    (("-m", "same"), "-m same: no set is given before it"),
    (("-m",), "expected one argument"),
]


@pytest.mark.parametrize(("words", "why"), CONFLICTS)
def test_options_that_exclude_each_other(
    machine: Path, words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run("exec", "--dry-run", *words, "--", "prog")
    assert ended.value.code == 2 and why in capsys.readouterr().err


def test_a_binding_that_the_kernel_refuses_is_explained() -> None:
    with pytest.raises(TerraceError, match="refuses to run the program on CPU 6-7: its cpuset allows none of them"):
        binding.bind([6, 7], Cpus(errno.EINVAL))
    with pytest.raises(TerraceError, match="on CPU 6: Operation not permitted"):
        binding.bind([6], Cpus(errno.EPERM))


def test_the_files_get_their_policy_last(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file keeps its policy: nothing that may fail comes behind it."""
    made: list[str] = []
    monkeypatch.setattr(binding, "bind", lambda *_: made.append("bind"))
    monkeypatch.setattr(verb, "set_scale", lambda *_: made.append("scale"))
    monkeypatch.setattr(verb, "apply", lambda *_: made.append("apply"))
    monkeypatch.setattr(verb, "_execute", lambda _: 0)
    assert run("exec", "-C", "2", "-m", "0", "--scan-scale", "1", "--range-file", "/x", "--", "prog") == 0
    assert made == ["bind", "scale", "apply"]


# ---- sets against a model of numactl's parser ----


def numactl(text: str, known: set[int]) -> set[int] | None:
    """numa_parse_nodestring() of libnuma, in its own steps; None where it refuses. Inverted sets are of known nodes."""
    order = sorted(known)
    inverted, rest = text.startswith("!"), text.removeprefix("!")
    relative, rest = rest.startswith("+"), rest.removeprefix("+")
    chosen: set[int] = set()
    for part in [] if rest == "all" else rest.split(","):
        ends = [int(end) for end in part.split("-")]
        if relative:
            if max(ends) >= len(order):
                return None
            ends = [order[end] for end in ends]
        if not set(ends) <= known or ends[0] > ends[-1]:
            return None
        chosen |= {node for node in range(ends[0], ends[-1] + 1) if node in known}
    chosen = known if rest == "all" else chosen
    return (known - chosen if inverted else chosen) or None


PART = st.integers(0, 9).map(str) | st.tuples(st.integers(0, 9), st.integers(0, 9)).map(
    lambda ends: "{}-{}".format(*ends)
)
SETS = st.tuples(
    st.sampled_from(["", "!", "+", "!+"]), st.just("all") | st.lists(PART, min_size=1, max_size=4).map(",".join)
).map("".join)


@given(SETS, st.sets(st.integers(0, 9), min_size=1))
def test_sets_are_numactls(text: str, known: set[int]) -> None:
    wanted = numactl(text, known)
    if wanted is None:
        with pytest.raises(UsageError, match="set '"):
            parse_set(text, known, "node", "this machine has")
    else:
        assert parse_set(text, known, "node", "this machine has") == sorted(wanted)


# ---- what the program really sees ----

SEES = (
    "import os; from terrace.ops.calls import Calls; print(Calls().get_mempolicy(), *sorted(os.sched_getaffinity(0)))"
)


def sees(*words: str) -> tuple[str, set[int]]:
    """Mode of the memory policy and CPUs of a program behind `terrace exec`."""
    env = {**os.environ, "PYTHONPATH": str(repo_root() / "src")}
    command = [sys.executable, "-m", "terrace", "exec", *words, "--", sys.executable, "-c", SEES]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    mode, *cpus = (int(word) for word in done.stdout.split())
    return MODES[mode], set(cpus)


def has_policies() -> bool:
    try:
        Calls().get_mempolicy()
        return True
    except OSError:
        return False


@pytest.mark.skipif(not has_policies(), reason="this kernel, or container, allows no get_mempolicy()")
@pytest.mark.parametrize(
    ("words", "mode"),
    [
        (("-m", "+0"), "bind"),
        (("-i", "all"), "interleave"),
        (("-p", "+0"), "preferred"),
        (("-P", "all"), "preferred-many"),
        (("-l",), "local"),
        ((), "default"),
    ],
)
def test_a_program_has_the_policy(words: tuple[str, ...], mode: str) -> None:
    assert sees(*words)[0] == mode


def cpus_of_the_cpuset() -> set[int]:
    """Return the CPUs that a process can get, whatever mask it was started with."""
    program = "import os; os.sched_setaffinity(0, range(os.cpu_count())); print(*os.sched_getaffinity(0))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {int(word) for word in done.stdout.split()}


def test_a_program_has_the_cpus() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    assert sees("-C", "+0")[1] == {allowed[0]}
    assert sees("-C", str(allowed[-1]))[1] == {allowed[-1]}
    # As with numactl, the CPUs of a node are not limited to the present mask.
    assert sees("-N", "all")[1] <= cpus_of_the_cpuset()
    if len(allowed) > 1:
        assert sees("-C", f"!{allowed[0]}")[1] == set(allowed[1:])
        assert sees("-C", "all")[1] == set(allowed)


def test_show_has_the_cpus(capsys: pytest.CaptureFixture[str]) -> None:
    if not has_policies():
        pytest.skip("this kernel, or container, allows no get_mempolicy()")
    assert run("exec", "-s", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    strict_schema.validate(document, json.loads((SCHEMAS / "policy.schema.json").read_text()))
    assert document["cpus"] == sorted(os.sched_getaffinity(0))
    assert run("exec", "--show") == 0
    assert f"CPUs: {format_nodes(document['cpus'])}\n" in capsys.readouterr().out


def test_every_option_of_numactl_that_is_taken_has_its_short_form() -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    taken = {option for action in parser._actions for option in action.option_strings}
    assert taken >= {
        *("-a", "--all", "-i", "--interleave", "-w", "--weighted-interleave", "-p", "--preferred", "-P"),
        *("--preferred-many", "-N", "--cpunodebind", "-C", "--physcpubind", "-m", "--membind", "-l", "--localalloc"),
        *("-s", "--show"),
    }


def test_weights_are_for_the_cpus_of_the_program(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run binds to no CPU, and has the same weights all the same."""
    seen: list[object] = []

    def auto_weights(_files: object, nodes: list[int], _measure: object, cpus: object) -> dict[int, int]:
        seen.append(cpus)
        return dict.fromkeys(nodes, 2)

    monkeypatch.setattr("terrace.policy.place.auto_weights", auto_weights)
    assert calls(capsys, "-N", "3", "--weights", "auto")[-1] == "set_mempolicy2(MPOL_WEIGHTED_INTERLEAVE, 0=2,3=2,4=2)"
    calls(capsys, "--weights", "auto")
    assert seen == [(6, 7), None]

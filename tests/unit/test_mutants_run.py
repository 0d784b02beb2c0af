# SPDX-License-Identifier: GPL-2.0
"""Runs of mutants: which are caught, by which check, and the work that is done only once."""

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import strict_schema
from terrace.cli import test as verb
from terrace.errors import BuildError, UsageError
from terrace.paths import repo_root
from terrace.testing.mutants.diff import FileDiff
from terrace.testing.mutants.observe import Seen, judge
from terrace.testing.mutants.read import Mutant, Target
from terrace.testing.mutants.run import Lab, try_all
from terrace.testing.mutants.verdict import Memory, Verdict, as_json, shown, summary
from terrace.testing.results import TestResult

SCHEMA = repo_root() / "docs/reference/schema/mutants.schema.json"
GOOD, BAD, REPORT = Seen("pass"), Seen("fail", "it said so"), Seen("fail", "the kernel reported: WARNING", shared=True)


class House:
    """Kernels with mutants: the results of each check, alone or in a batch; `anyway`: without any mutant."""

    def __init__(self, path: Path) -> None:
        self.mutants: list[Mutant] = []
        self.says: dict[str, Seen] = {}
        self.alone: dict[str, Seen] = {}
        self.anyway: dict[str, Seen] = {}
        self.broken: set[str] = set()
        self.built: list[list[str]] = []
        self.kernel = "the kernel"
        self.path = path

    def add(self, name: str, says: Seen, group: str = "selftest") -> Mutant:
        unit = name.partition("/")[2]
        mutant = Mutant(f"{name}", name, "it", "leak", (Target(group, unit, "c"),), (FileDiff(name, ()),))
        self.mutants.append(mutant)
        self.says[unit] = says
        return mutant

    @contextmanager
    def _build(self, changes: Mapping[str, bytes]) -> Iterator[Path]:
        self.built.append(sorted(changes))
        if self.broken & set(changes):
            raise BuildError("kernel: the build failed:\n  mm/x.c:1:1: error: no such thing\n  make: ***")
        yield Path("mutated")

    def _observe(self, vmlinux: Path, targets: Sequence[Target]) -> dict[Target, Seen]:
        if vmlinux == Path("clean"):
            return {target: self.anyway.get(target.unit, GOOD) for target in targets}
        alone = self.alone if self.built and len(self.built[-1]) == 1 else {}
        return {target: alone.get(target.unit, self.says[target.unit]) for target in targets if target.in_guest}

    def _host(self, texts: Mapping[str, str], targets: Sequence[Target]) -> dict[Target, Seen]:
        found = {target: self.says[target.unit] for target in targets if not target.in_guest}
        return found if texts else dict.fromkeys(found, GOOD)

    def run(self) -> dict[str, Verdict]:
        lab = Lab(
            lambda mutants: {file.path: "text" for mutant in mutants for file in mutant.files},
            lambda: Path("clean"),
            self._build,
            self._observe,
            self._host,
        )
        return try_all(self.mutants, Memory(self.kernel, self.path), lab, math.inf)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "memory.jsonl")


def test_who_is_noticed_is_caught(house: House) -> None:
    house.add("mtier/a", BAD)
    house.add("numa_scan/b", GOOD)
    house.add("tlb_defer/c", Seen("skip", "no such knob"))
    house.add("mtier/d", BAD, group="policy")
    found = house.run()
    assert {name: verdict.verdict for name, verdict in found.items()} == {
        "mtier/a": "caught",
        "numa_scan/b": "survived",
        "tlb_defer/c": "survived",
        "mtier/d": "caught",
    }
    assert found["mtier/a"].said == "it said so"
    assert found["tlb_defer/c"].said == "is skipped: no such knob"
    assert house.built == [["mtier/a", "numa_scan/b", "tlb_defer/c"]]


def test_a_check_that_fails_anyway_proves_nothing(house: House) -> None:
    house.add("mtier/a", BAD)
    house.anyway["a"] = Seen("fail", "as always")
    verdict = house.run()["mtier/a"]
    assert (verdict.verdict, verdict.said) == ("check fails anyway", "fail without the mutant: as always")
    # Not forever: the cause may have been the host.
    house.anyway.clear()
    assert house.run()["mtier/a"].verdict == "caught"


def test_what_the_whole_kernel_met_is_tried_alone(house: House) -> None:
    house.add("mtier/a", REPORT)
    house.add("numa_scan/b", REPORT)
    house.alone["b"] = GOOD
    assert {name: verdict.verdict for name, verdict in house.run().items()} == {
        "mtier/a": "caught",
        "numa_scan/b": "survived",
    }
    assert house.built == [["mtier/a", "numa_scan/b"], ["mtier/a"], ["numa_scan/b"]]


def test_one_that_is_not_built_does_not_keep_others_back(house: House) -> None:
    house.add("mtier/a", BAD)
    house.add("numa_scan/b", BAD)
    house.broken = {"numa_scan/b"}
    found = house.run()
    assert found["mtier/a"].verdict == "caught"
    assert (found["numa_scan/b"].verdict, found["numa_scan/b"].said) == (
        "not built",
        "mm/x.c:1:1: error: no such thing",
    )


def test_what_is_known_is_not_tried_again(house: House) -> None:
    house.add("mtier/a", BAD)
    first = house.run()
    changed = house.add("numa_scan/b", GOOD)
    assert house.run()["mtier/a"] == first["mtier/a"]
    assert house.built == [["mtier/a"], ["numa_scan/b"]]
    house.mutants[1] = replace(changed, text="another diff")
    house.run()
    assert house.built[2:] == [["numa_scan/b"]]
    house.kernel = "another kernel"
    house.run()
    assert house.built[3:] == [["mtier/a", "numa_scan/b"]]


def test_a_run_that_was_cut_off_goes_on(house: House) -> None:
    house.add("mtier/a", BAD)
    house.run()
    with house.path.open("a") as file:
        file.write('{"key": "half')
    house.add("mtier/b", BAD)
    assert len(house.run()) == 2
    assert house.built == [["mtier/a"], ["mtier/b"]]


def test_the_table_and_the_sum(house: House) -> None:
    house.add("mtier/a", BAD)
    house.add("numa_scan/b", GOOD)
    found = list(house.run().values())
    assert summary(found) == "1 caught, 1 survived, 0 not built"
    assert "mtier/a" in shown(found) and "selftest/b:c" in shown(found)
    document = as_json(found, ["mtier/x"])
    assert (document["caught"], document["survived"], document["not_run"]) == (1, 1, ["mtier/x"])
    strict_schema.validate(json.loads(json.dumps(document)), json.loads(SCHEMA.read_text()))
    odd = replace(found[0], verdict="check fails anyway")
    assert summary([odd]) == "0 caught, 0 survived, 0 not built, 1 whose check fails anyway"
    silent = replace(found[0], silent=("kunit/k",))
    assert "not by kunit/k" in shown([silent])


CHECK = Target("selftest", "program", "R1 a check")


def result(name: str, status: str, detail: str = "", final: bool = False) -> TestResult:
    return TestResult("selftest", name, status, detail, final=final)


@pytest.mark.parametrize(
    ("results", "status", "said"),
    [
        (
            [result("program:R1 a check", "fail", "8 of 9 pages\nno page moved\n0.031 s")],
            "fail",
            "R1 a check: no page moved",
        ),
        ([result("program:R1 a check", "pass"), result("program:R2", "fail")], "pass", ""),
        ([result("program:R1 a check", "skip", "no knob")], "skip", "no knob"),
        ([result("program_two:R1 a check", "fail", "x")], "none", "no such result"),
        ([result("program", "fail", "the kernel reported: BUG", final=True)], "fail", "the kernel reported: BUG"),
        (
            [
                result("program:R1 a check", "pass"),
                result("program", "fail", "did not end within 60 s of guest time", final=True),
            ],
            "fail",
            "did not end within 60 s of guest time",
        ),
        ([result("program:R1 a check", "pass"), result("program", "fail", "exit code 3, though")], "pass", ""),
        ([result("machine:dram-cxl", "fail", "the guest panicked", final=True)], "fail", "the guest panicked"),
    ],
)
def test_what_a_check_says(results: list[TestResult], status: str, said: str) -> None:
    seen = judge(CHECK, results)
    assert (seen.status, seen.said) == (status, said)
    assert seen.shared == (said.startswith("the kernel") or said == "the guest panicked")


def test_mutants_go_alone() -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    with pytest.raises(UsageError, match="--mutants goes without --group, --soak: it builds kernels of its own"):
        verb.check_arguments(parser.parse_args(["--mutants", "--group", "unit", "--soak", "3"]))
    verb.check_arguments(parser.parse_args(["--mutants", "--list", "-k", "leak and not mtier"]))

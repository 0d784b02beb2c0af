# SPDX-License-Identifier: GPL-2.0
"""The gate warns of figures that were measured on another kernel than this tree's, and only of these."""

from pathlib import Path
from typing import Any

import pytest
from bench_results import document

from terrace.cli import test as verb
from terrace.demo import cases, report
from terrace.errors import MissingError
from terrace.kernel import build, config, tree
from terrace.kernel import source as linux_source
from terrace.kernel.build import Kernel
from terrace.kernel.source import Source
from terrace.testing import stale
from terrace.testing.gate import Gate

_NOW = "0123456789ab"
_OLD = "ba9876543210"


def _result(policy: str, source_hash: str | None) -> dict[str, Any]:
    found = document(policy, 1.0)
    if source_hash is not None:
        found["kernel"]["source_hash"] = source_hash
    return found


def _caption(source_hash: str) -> str:
    kernels = {
        name: Kernel(Path(), Path(), "6.12.117", "c", name, "d", hashed)
        for name, hashed in (("stock", _OLD), ("terrace", source_hash))
    }
    return report.caption(cases.Workload(64 << 20), kernels)


def test_results_of_this_kernel_are_not_stale() -> None:
    assert stale.stale_results([_result("terrace", _NOW), _result("stock-2", _OLD)], _NOW) == []


def test_results_of_another_kernel_and_of_an_unknown_one_are_counted() -> None:
    results = [_result("terrace", name) for name in (_NOW, _OLD, None)]
    failed = {**_result("terrace", _OLD), "status": "failed"}
    (line,) = stale.stale_results([*results, failed, _result("stock-2", None)], _NOW)
    assert f"2 of 3 results of Terrace are not of this tree's kernel {_NOW} (1 do not record" in line


@pytest.mark.parametrize(
    ("tutorial", "picture", "named"),
    [
        (_NOW, _NOW, []),
        (_OLD, _NOW, [f"docs/tutorial.md (kernel {_OLD})"]),
        (_OLD, _OLD, [f"docs/tutorial.md (kernel {_OLD})", f"docs/images/demo-timeline.svg (kernel {_OLD})"]),
        (_NOW, "", ["docs/images/demo-timeline.svg (kernel not named)"]),
    ],
)
def test_table_and_picture_of_the_demo_are_compared_by_their_caption(
    tutorial: str, picture: str, named: list[str]
) -> None:
    texts = dict(
        zip(stale.DEMO_FILES, [_caption(name) if name else "a picture" for name in (tutorial, picture)], strict=True)
    )
    lines = stale.stale_demo(lambda name: f"before\n{texts[name]}\nafter", _NOW)
    assert [line.partition(": not of")[0] for line in lines] == ([", ".join(named)] if named else [])


def test_the_demos_of_this_repository_name_their_kernels() -> None:
    (line,) = stale.stale_demo(stale._text_of, "none")
    assert "not named" not in line


def test_the_gate_prints_the_warning_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stale, "source_hash", lambda flavour: "none")
    verb._tell_left_out(Gate(frozenset()))
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("warning: docs/results.md and the tables of README.md: ")
    assert second.startswith("warning: docs/tutorial.md (kernel ")
    assert last.startswith("not in the gate: ")


def test_without_a_source_the_warning_says_why_nothing_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(flavour: str) -> str:
        raise MissingError("linux-source is missing")

    monkeypatch.setattr(stale, "source_hash", missing)
    assert stale.stale_lines() == [
        "the kernels of the figures in README and docs were not compared: linux-source is missing"
    ]


def test_the_source_hash_depends_on_source_tree_and_options_but_not_on_the_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = {"sha": "a"}
    trees = ["t"]
    compiler = ["gcc 12"]
    monkeypatch.setattr(linux_source, "find", lambda: Source(Path("x"), "6.12.1", source["sha"]))
    monkeypatch.setattr(tree, "content_hash", lambda skip: trees[0])
    monkeypatch.setattr(build, "tools", lambda: (compiler[0],))

    def hashes() -> tuple[str, str, str]:
        plan = build._plan(config.flavour("terrace"), linux_source.find())
        assert plan.source_key == build.source_hash("terrace")
        return build.source_hash("terrace"), build.source_hash("stock"), plan.key

    ours, stock, key = hashes()
    assert ours != stock
    compiler[0] = "gcc 14"
    assert hashes()[:2] == (ours, stock)
    assert hashes()[2] != key
    trees[0] = "u"
    assert hashes()[0] != ours
    assert hashes()[1] == stock
    source["sha"] = "b"
    assert hashes()[1] != stock
    monkeypatch.setattr(config, "render", lambda wishes: "CONFIG_X=y")
    before = hashes()[0]
    monkeypatch.setattr(config, "render", lambda wishes: "CONFIG_X=n")
    assert hashes()[0] != before

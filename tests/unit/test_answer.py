# SPDX-License-Identifier: GPL-2.0
"""--json and -o FILE: the same two words in every verb, with the same meaning."""

import argparse
import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strict_schema
from terrace import __main__ as door
from terrace import cli, venv
from terrace.bench.session import Session
from terrace.cli import answer
from terrace.errors import TerraceError, UsageError
from terrace.kernel import edit
from terrace.lab import qemu
from terrace.paths import repo_root
from terrace.testing import groups
from terrace.testing.results import TestResult
from terrace.words import Parser

REFERENCE = repo_root() / "docs/reference"
#: These print the output of a program, or nothing.
WITHOUT = {"lab shell", "bench worker"}
#: -o is where they write what they are for.
OWN_FILES = {"kernel series", "bench report", "lab run", "lab debian", "record"}


def validate(document: Any) -> None:
    schema = json.loads((REFERENCE / "schema" / f"{document['kind']}.schema.json").read_text())
    strict_schema.validate(document, schema)


def parsers() -> Iterator[tuple[str, Parser]]:
    """Each verb and subverb."""
    for name, verb in cli.verbs().items():
        parser = Parser(prog=f"terrace {name}")
        importlib.import_module(verb.module).add_arguments(parser)
        below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        for action in below:
            yield from ((f"{name} {word}", found) for word, found in action.choices.items())
        if not below:
            yield name, parser


@pytest.mark.parametrize(("name", "parser"), list(parsers()), ids=[name for name, _ in parsers()])
def test_every_verb_has_both_words(name: str, parser: Parser) -> None:
    options = {option: action for action in parser._actions for option in action.option_strings}
    if name in WITHOUT:
        assert "--json" not in options
        return
    assert isinstance(options["--json"], argparse._StoreTrueAction)
    if name not in OWN_FILES:
        assert (options["-o"].dest, options["--output"].dest) == ("json_file", "json_file")


DOCUMENT = {"version": 1, "kind": "files", "written": ["ä"], "removed": []}


@pytest.mark.parametrize("words", [[], ["--json"], ["-o", "out.json"], ["--json", "-o", "out.json"]], ids=" ".join)
def test_stdout_and_file(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = Parser()
    answer.add_arguments(parser)
    args = parser.parse_args(words)
    with answer.text_aside(args):
        print("work")
    answer.give(args, DOCUMENT, lambda: print("text"))
    said = capsys.readouterr()
    if "--json" not in words:
        assert (said.out, said.err) == ("work\ntext\n", "")
    else:
        assert said.err == "work\n"
        assert said.out == "" if "-o" in words else json.loads(said.out) == DOCUMENT
    file = tmp_path / "out.json"
    assert json.loads(file.read_text()) == DOCUMENT if "-o" in words else not file.exists()


@pytest.mark.parametrize("words", [["--json"], ["-o", "out.json"], ["--json", "-o", "out.json"]], ids=" ".join)
def test_again_and_again_it_is_a_document_a_line(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = Parser()
    answer.add_arguments(parser)
    lines = answer.Lines(parser.parse_args(words))
    for number in range(2):
        lines.give({"number": number}, lambda: print("text"))
        if "-o" in words:
            # There before the next one: somebody may follow the file.
            assert len(Path("out.json").read_text().splitlines()) == number + 1
    text = Path("out.json").read_text() if "-o" in words else capsys.readouterr().out
    assert [json.loads(line)["number"] for line in text.splitlines()] == [0, 1]
    assert capsys.readouterr().out == ("text\ntext\n" if "--json" not in words else "")


def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter(needs: str, words: list[str]) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr(venv, "enter", enter)
    for path, why in ((tmp_path, "this is a folder"), (tmp_path / "a/b", f"there is no folder {tmp_path}/a")):
        with pytest.raises(UsageError, match=f"-o {re.escape(str(path))}: {re.escape(why)}"):
            door._run(["test", "-o", str(path)])
    monkeypatch.setattr("terrace.cli.answer.os.access", lambda path, mode: False)
    with pytest.raises(UsageError, match="you may not write there"):
        door._run(["demo", "-o", str(tmp_path / "x")])


def test_a_full_disk_is_told() -> None:
    args = argparse.Namespace(json=False, json_file=Path("/dev/full"))
    with pytest.raises(TerraceError, match="-o /dev/full: no space left in /dev"):
        answer.give(args, DOCUMENT)
    with pytest.raises(TerraceError, match="-o /dev/full: no space left in /dev"):
        answer.Lines(args).give(DOCUMENT, lambda: None)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed, and the guests of experiments have room."""
    monkeypatch.setattr(venv, "enter", lambda needs, words: None)
    monkeypatch.setattr(qemu, "host_memory", lambda: 1 << 40)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("bench list", "experiments"),
        ("bench run smoke --dry-run", "cells"),
        ("bench compare zipf12:damon zipf12:terrace", "comparison"),
        ("bench validate table", "validation"),
        ("lab list", "topologies"),
        ("lab run --dry-run", "machine"),
        ("lab debian --dry-run", "machine"),
        ("kernel check --list", "known-checks"),
        ("sim --list", "known-loads"),
        ("test --list --group policy", "test-names"),
        ("test --list --mutants", "test-names"),
    ],
)
def test_what_is_looked_up_follows_its_schema(words: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    last = ["--", "true"] if "--dry-run" in words and "lab" in words else []
    door._run([*words.split(), "--json", *last])
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == kind
    validate(document)
    assert any(len(value) > 0 for value in document.values() if isinstance(value, list))
    assert f"| `{kind}` |" in (REFERENCE / "json.md").read_text()


@pytest.mark.usefixtures("here")
def test_what_an_experiment_came_to_follows_its_schema(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables as people see them; `bench list --json` was refused, and `bench run` had no JSON at all."""
    monkeypatch.setattr("terrace.cli.bench.build", lambda flavour: None)
    monkeypatch.setattr(Session, "plan", lambda self, item, cells, folder, again: None)
    assert door._run(["bench", "run", "zipf12", "--json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    validate(document)
    (shown,) = document["experiments"]
    assert shown["name"] == "zipf12" and len(shown["tables"][0]["rows"]) > 2
    assert shown["tables"][0]["title"] in said.err


def test_edits_brought_back_follow_their_schema(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = edit.Saved(written=["hooks/a.patch"], removed=["linux/mm/b.c"])
    monkeypatch.setattr(edit, "save", lambda path, hook: saved)
    assert door._run(["kernel", "save", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    validate(document)
    assert (document["written"], document["removed"]) == (["hooks/a.patch"], ["linux/mm/b.c"])
    assert door._run(["kernel", "save"]) == 0
    assert capsys.readouterr().out == "wrote hooks/a.patch\nremoved linux/mm/b.c\n"


def test_of_a_test_run_stdout_has_the_document_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(venv, "enter", lambda needs, words: None)
    found = [TestResult("lint", "ruff", "pass"), TestResult("lint", "mypy", "fail", "why")]
    monkeypatch.setattr(groups, "run_lint", lambda wanted: iter(found))
    file = tmp_path / "tests.json"
    for words in (["--json"], ["-o", str(file)], ["--json", "-o", str(file)]):
        assert door._run(["test", "--group", "lint", *words]) == 1
        said = capsys.readouterr()
        text = said.out if words == ["--json"] else file.read_text()
        document = json.loads(text)
        validate(document)
        assert (document["passed"], document["failed"]) == (1, 1)
        told = said.err if "--json" in words else said.out
        assert told.endswith("1 passed, 1 failed, 0 skipped\n")
        assert "--json" not in words or said.out == ("" if "-o" in words else text)
        file.unlink(missing_ok=True)
    assert sys.stdout is not sys.stderr

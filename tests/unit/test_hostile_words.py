# SPDX-License-Identifier: GPL-2.0
"""No word on the command line and no file gives a traceback, and none makes the tool wait for ever."""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
import trace_fake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ops_tree import build, cxl, dram

from terrace import __main__ as door
from terrace import cli, files, host, sysfs, units, venv
from terrace.cli import bench, record
from terrace.errors import MissingError, TerraceError, UsageError
from terrace.lab import topology
from terrace.ops import applied
from terrace.ops import settings as knob_settings
from terrace.policy import maps, weights
from terrace.trace.document import as_json
from terrace.trace.page import as_text
from terrace.trace.store import FORMAT, VERSION, read
from terrace.trace.summary import summarize

ROOT = Path(__file__).parents[2]
LIMIT_S = 60
#: Values for every option: numbers, sizes, times, node sets, lists and paths that are none, or not usual.
VALUES = (
    *("", " ", "-", "-1", "0", "1", "1" * 400, "9" * 5000, "1e400", "nan", "inf", "0x10", "1_0", "٥", "²", "½", "+1"),
    *(
        "9999999T",
        "5\N{KELVIN SIGN}",
        "0.0000000001ns",
        "1" * 400 + "s",
        "99999999999999999999h",
        "1.5.5s",
        "5 m",
        "5µs",
    ),
    *("!", "all", "!all", "0-9999", "9999-0", "0,,1", "0=", "=1", "0=256", "0=" + "9" * 5000, "0=1,0=1", "0=٥"),
    *("/", ".", "/dev/null", "/dev/zero", "/proc/self/mem", "/nothing/at/all", "a" * 5000, "pipe", "socket", "empty"),
    *(
        "%s%n",
        "{}",
        "\udcff",
        "a\nb",
        "\x1b[2J",
        "\N{PILE OF POO}",
        "a=b",
        "k=",
        "''",
        "x.toml",
        "pipe.toml",
        "x.svg",
        "x.prom",
    ),
)
#: In the gate, which tries the same examples each time, an option gets half as many values.
PARTS = 12 if settings().derandomize else 6
#: Verbs whose work starts compilers and machines: only their words are read.
LONG = {"demo", "test", "bench", "sim", "lab", "kernel", "deb"}


class _StopError(TerraceError):
    """The end of a verb at the point where it would start a program."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of files, on which nothing is started, and nothing outside of a folder is written."""
    root = tmp_path / "machine"
    build(root, [dram(), cxl()])
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    os.mkfifo("pipe")
    os.mkfifo("pipe.toml")
    Path("empty").touch()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
    made = sysfs.KernelFiles.__init__

    def init(self: sysfs.KernelFiles, given: Path | str = "/", *, dry_run: bool = False) -> None:
        made(self, root if str(given) == "/" else given, dry_run=dry_run)

    def stop(*_: object, **__: object) -> None:
        raise _StopError("this would start something")

    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sysfs.KernelFiles, "__init__", init)
    for place, name in (
        (subprocess, "run"),
        (subprocess.Popen, "__init__"),
        (os, "execv"),
        (os, "execvp"),
        (venv, "enter"),
        (host, "require_packages"),
        (record, "record"),
    ):
        monkeypatch.setattr(place, name, stop)
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr("terrace.exporter.server.Server.__init__", stop)
    monkeypatch.setattr("terrace.policy.place.PolicyCalls", stop)
    monkeypatch.setattr("terrace.cli.exec.PolicyCalls", stop)
    monkeypatch.setattr("terrace.cli.spread.mmap.mmap", stop)
    return root


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    """A verb that waits for ever fails its test."""

    def late(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"it still waits after {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _parsers(
    parser: argparse.ArgumentParser, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """The parser of a verb, and those of its commands."""
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from _parsers(below, (*words, name))


def _lines(verb: str) -> Iterator[tuple[str, ...]]:
    """Words in front of a hostile value: for each option that takes one, and for each place of a word."""
    module = importlib.import_module(cli.verbs()[verb].module)
    top = argparse.ArgumentParser(verb)
    module.add_arguments(top)
    for words, parser in _parsers(top, (verb,)):
        yield words
        for action in parser._actions:
            if action.option_strings and action.nargs != 0:
                yield (*words, action.option_strings[-1])


def _with_values(verb: str) -> Iterator[list[str]]:
    """Lines with a hostile value at the end. Each option gets a part of them, and each part goes to many options."""
    for number, words in enumerate(_lines(verb)):
        for value in VALUES[number % PARTS :: PARTS]:
            # To write to a pipe waits for its reader, as everywhere.
            if not (words[-1] in ("-o", "--output") and "pipe" in value):
                yield [*words, value]


def _outcome(words: list[str]) -> int:
    try:
        return door._outcome(words)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 1


@pytest.mark.parametrize("verb", sorted(set(cli.verbs()) - LONG))
def test_no_word_gives_a_traceback(verb: str, machine: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An exception that is not for a person comes out of `_outcome`, and fails this."""
    for line in _with_values(verb):
        code = _outcome(line)
        said = capfd.readouterr()
        assert code is not None and "Traceback" not in said.err, line
        assert max(map(len, said.err.splitlines()), default=0) < 20_000


@pytest.mark.parametrize("verb", sorted(LONG & set(cli.verbs())))
def test_no_word_of_long_work_gives_a_traceback(
    verb: str, machine: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Until it would start something."""
    for line in _with_values(verb):
        assert _outcome(line) is not None
        assert "Traceback" not in capfd.readouterr().err


# ---- numbers ----

_text = st.one_of(
    st.text(max_size=40), st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{1,90})?\s?[a-zA-Z%/]{0,4}"), st.sampled_from(VALUES)
)


@given(_text)
def test_every_reader_of_numbers_takes_or_names_a_value(text: str) -> None:
    for call in (
        units.parse_size,
        units.parse_time_ns,
        units.parse_interval_s,
        units.whole_number("--n", 0, 1 << 32),
        units.factor("--f"),
        lambda word: units.parse_nodes(word, range(4)),
        lambda word: weights.parse_weights(word, range(4)),
        bench._numbers,
        lambda word: list(maps.parse_numa_maps(f"7f00 default N{word}={word} kernelpagesize_kB={word}")),
        lambda word: sysfs.parse_meminfo(f"Node 0 MemTotal: {word} kB\n{word}"),
        sysfs.parse_nodes,
        sysfs.to_int,
    ):
        try:
            call(text)
        except UsageError as error:
            assert len(str(error)) < 500 and "\n" not in str(error)


@given(st.integers(0, (1 << 63) - 1), st.sampled_from(["", "0", "000"]))
def test_whole_numbers_are_read_exactly(number: int, zeros: str) -> None:
    assert units.parse_size(f"{zeros}{number}") == number
    assert units.parse_time_ns(f"{zeros}{number}ns") == number
    assert units.to_whole(f"-{zeros}{number}", -(1 << 64), 0) == -number


@given(st.integers(0, (1 << 40) - 1))
def test_all_digits_of_a_fraction_count(part: int) -> None:
    """A part of 2^40 has forty of them."""
    text = f"{part * 5**40:040d}"
    assert units.parse_size(f"0.{text}T") == part


@pytest.mark.parametrize(
    ("text", "why"),
    [("9999999T", "too large"), ("9" * 400 + "T", "too large"), ("9" * 5000, "too large"), ("0" * 5000 + "1K", "")],
)
def test_a_size_beyond_the_kernels_is_named(text: str, why: str) -> None:
    if why:
        with pytest.raises(UsageError, match=why) as error:
            units.parse_size(text)
        assert len(str(error.value)) < 200
    else:
        assert units.parse_size(text) == 1024


def test_more_memory_than_there_is_is_refused() -> None:
    with pytest.raises(UsageError, match="size 6.8T is more than the .* that this machine has left"):
        importlib.import_module("terrace.cli.spread").allocated(7000 << 30)


# ---- encodings ----


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp437", "utf-8"])
@pytest.mark.parametrize(
    "words", [["--help"], ["record", "--help"], ["exec", "--help"], ["set", "--list"], ["nonsense…"]]
)
def test_every_encoding_has_help(encoding: str, words: list[str]) -> None:
    done = subprocess.run(
        [str(ROOT / "terrace"), *words],
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHON_COLORS": "0"},
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert b"Traceback" not in done.stderr and done.returncode in (0, 2), done.stderr
    if encoding == "ascii" and words == ["--help"]:
        assert b"VERB ..." in done.stdout


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_json_is_json_in_every_encoding(encoding: str) -> None:
    code = "from terrace import output; output.emit_json({'a': 'x\u2026\\udcff\\x9b'})"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {code}"],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert json.loads(done.stdout.decode(encoding))["a"] == "x\u2026\udcff\x9b"


# ---- files ----


def _refused(path: Path) -> str:
    with pytest.raises(UsageError) as error:
        knob_settings.read(path)
    return str(error.value)


def test_what_is_no_regular_file_is_named(machine: Path) -> None:
    for name, kind in (("pipe", "a pipe"), ("socket", "a socket"), ("/dev/zero", "a device"), (".", "a folder")):
        assert _refused(Path(name)) == f"{Path(name)}: this is {kind}; name a regular file"
        with pytest.raises(UsageError, match=f"this is {kind}"):
            read(Path(name))
    with pytest.raises(UsageError, match="pipe.toml: this is a pipe"):
        topology.load_topology("pipe.toml")
    with pytest.raises(UsageError, match="pipe: this is a pipe"):
        importlib.import_module("terrace.cli.deb")._read_config(Path("pipe"))


def test_a_pipe_that_takes_the_place_of_the_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    regular = tmp_path / "file"
    regular.touch()
    state = regular.stat()
    monkeypatch.setattr(Path, "stat", lambda _: state)
    with pytest.raises(UsageError, match="this is a pipe"):
        files.read_regular(tmp_path / "pipe", 10)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xef\xbb\xbfenabled = 1\n", "line 1: begins with a byte order mark"),
        ("enabled = 1\n".encode("utf-16"), "line 1: this is UTF-16"),
        (b"enabled = 1\n\xff", "line 2: not UTF-8"),
        (b"#" * 100_000, "has more than 64 KiB"),
    ],
)
def test_a_file_of_settings_in_another_encoding_is_named(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    assert why in _refused(tmp_path / "x")


_numbers = st.one_of(st.integers(), st.sampled_from([1 << 63, 1 << 70, -(1 << 80), int("9" * 4000)]))
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=5,
)
_toml = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        ["x = " + "9" * 5000, "x = 0x" + "f" * 9000, "x = " + "[" * 5000, "a." * 3000 + "b = 1", "x = 1e999", "x = inf"]
        + ["enabled = " + "9" * 4000, "enabled = -0", "enabled = 1979-05-27", "[cgroup]\n", "[[enabled]]", "x = {}" * 3]
    ),
    st.tuples(st.sampled_from(["enabled", "engine.promote.rate_mbps", "cgroup.a.b", "weights.node0"]), _text).map(
        lambda pair: f"{pair[0]} = {json.dumps(pair[1], ensure_ascii=True)}"
    ),
)


@given(_toml)
@settings(deadline=None)
def test_no_file_of_settings_gives_a_traceback(text: str) -> None:
    try:
        knob_settings.parse(text, Path("x.toml"))
    except TerraceError as error:
        assert len(str(error)) < 5000


@given(_toml)
@settings(deadline=None)
def test_no_topology_gives_a_traceback(text: str) -> None:
    with pytest.raises(TerraceError):
        topology.parse_topology("x", text, "x.toml")


@pytest.mark.parametrize("name", ["dram-cxl", "three-tier"])
@given(data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_in_a_topology_gives_a_traceback(name: str, data: st.DataObject) -> None:
    lines = (ROOT / "topologies" / f"{name}.toml").read_text().splitlines()
    places = [place for place, line in enumerate(lines) if " = " in line]
    place = data.draw(st.sampled_from(places))
    other = st.sampled_from(["inf", "nan", "[]", "{}"])
    value = data.draw(st.one_of(_text.map(json.dumps), _numbers.map(str), other))
    lines[place] = f"{lines[place].partition(' = ')[0]} = {value}"
    try:
        topology.parse_topology("x", "\n".join(lines), "x.toml")
    except TerraceError as error:
        assert "x.toml" in str(error)


def _head(tmp_path: Path) -> tuple[dict[str, object], bytes]:
    file = trace_fake.write(tmp_path / "whole", trace_fake.trace()[:20])
    first, _, others = gzip.decompress(file.read_bytes()).partition(b"\n")
    return json.loads(first), others


@given(data=st.data())
@settings(deadline=None, max_examples=200)
def test_no_recording_gives_a_traceback(data: st.DataObject) -> None:
    """A head with another value in some place, or an event with one; then the page and the JSON of what was read."""
    with tempfile.TemporaryDirectory() as folder:
        head, others = _head(Path(folder))
        lines = [json.loads(line) for line in others.splitlines()]
        wanted = data.draw(st.sampled_from([*(key for key in head if key not in ("format", "version")), "line"]))
        value = data.draw(_values)
        if wanted == "line":
            line = data.draw(st.sampled_from(lines))
            place = data.draw(st.sampled_from([0, 1, 2, 3, 4, *line[4]]))
            (line if isinstance(place, int) else line[4])[place] = value
        elif isinstance(head[wanted], dict) and head[wanted] and data.draw(st.booleans()):
            inner = head[wanted]
            assert isinstance(inner, dict)
            inner[data.draw(st.sampled_from([*inner, "٥", "-5", "x", "9" * 50]))] = value
        else:
            head[wanted] = value
        assert head["format"] == FORMAT and head["version"] == VERSION
        sys.set_int_max_str_digits(0)
        text = "".join(json.dumps(one) + "\n" for one in (head, *lines))
        sys.set_int_max_str_digits(4300)
        file = Path(folder) / "changed"
        file.write_bytes(gzip.compress(text.encode()))
        try:
            summary = summarize(read(file))
        except TerraceError:
            return
        as_text(summary)
        json.dumps(as_json(summary))


def test_a_recording_that_unpacks_to_much_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a line nor a number of lines is read beyond what a recording may have."""
    monkeypatch.setattr("terrace.trace.store._LINE_MAX", 1 << 16)
    head, others = _head(tmp_path)
    first = json.dumps(head).encode() + b"\n"
    for more in (b"[" * (1 << 22), others.splitlines(keepends=True)[0] * 200_000):
        file = tmp_path / "bomb"
        file.write_bytes(gzip.compress(first + others + more))
        with pytest.raises(TerraceError, match="events|no event"):
            read(file)


@given(_values)
@settings(deadline=None)
def test_no_note_of_apply_gives_a_traceback(value: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / applied.FOLDER / "applied.json"
        place.parent.mkdir(parents=True)
        sys.set_int_max_str_digits(0)
        for document in (value, {"knobs": value}, {"knobs": [value]}, {"knobs": [{"knob": "enabled", "path": value}]}):
            place.write_text(json.dumps(document))
            try:
                applied.Applied(sysfs.KernelFiles(folder))
            except TerraceError as error:
                assert "is not what `terrace apply` wrote" in str(error)
        sys.set_int_max_str_digits(4300)


# ---- a machine of files ----


def test_a_root_without_a_machine_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for verb in ("status", "top", "exporter", "set", "apply", "doctor", "features"):
        for name, why in (("none", "there is no such folder"), ("file", "no such folder"), ("empty", "neither proc/")):
            assert door._outcome([verb, "--root", str(tmp_path / name)]) == 2
            assert why in capsys.readouterr().err


@pytest.mark.parametrize("content", ["9" * 5000, "\udcff\n", "٥ ٥", "-", "0-" + "9" * 30, ""])
def test_no_file_of_another_machine_gives_a_traceback(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file of the copy has it, one after the other; the last time they are pipes."""
    build(tmp_path, [dram(), cxl()])
    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in paths:
        before = path.read_bytes()
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
        assert door._outcome(["status", "--root", str(tmp_path), "--interval", "0"]) == 0, path
        path.write_bytes(before)
    if not content:
        for path in paths:
            path.unlink()
            os.mkfifo(path)
        for words in (["status", "--interval", "0"], ["top", "--count", "1", "--interval", "0.01"], ["features"]):
            assert door._outcome([*words, "--root", str(tmp_path)]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_what_would_be_started_is_not(machine: Path) -> None:
    """The fixture works: nothing above has run a program."""
    with pytest.raises(_StopError):
        subprocess.run(["true"], check=False)
    with pytest.raises(MissingError):
        raise MissingError("as packages that are not there")

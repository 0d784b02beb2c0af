# SPDX-License-Identifier: GPL-2.0
"""terrace record on a machine of files, with a trace-cmd that prints its arguments."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import trace_fake
from ops_golden import run

import strict_schema
from terrace.cli import record as verb
from terrace.errors import MissingError, TerraceError, UsageError
from terrace.sysfs import KernelFiles
from terrace.trace import leftovers, look
from terrace.trace.lines import EVENTS
from terrace.trace.store import read
from terrace.trace.summary import summarize

# Terminals, sockets, signals: one at a time, after the tests that share the CPUs.
pytestmark = pytest.mark.clock

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs/reference/schema/record.schema.json").read_text(encoding="utf-8")
)


class Clock:
    """CLOCK_MONOTONIC of the minute that was traced."""

    def __init__(self) -> None:
        self.times: list[int] = []

    def monotonic_ns(self) -> int:
        # Either look reads it once before and once after the counters.
        self.times.append(trace_fake.SINCE_NS + len(self.times) // 2 * 60_000_000_000)
        return self.times[-1]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    machine = tmp_path / "machine"
    _use(machine, monkeypatch)
    return machine


def _use(machine: Path, monkeypatch: pytest.MonkeyPatch, *, ours: bool = True) -> None:
    folder = trace_fake.machine(machine, ours=ours)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(verb, "may_record", lambda: True)
    monkeypatch.setattr(verb, "KernelFiles", lambda: KernelFiles(machine))
    monkeypatch.setattr(look, "time", Clock())
    monkeypatch.chdir(machine.parent)


def left(root: Path) -> list[str]:
    """The files beside the machine, and the trace instances in it."""
    beside = [path.name for path in root.parent.iterdir() if path != root]
    return beside + [path.name for path in (root / "sys/kernel/tracing/instances").iterdir()]


def test_a_time_is_recorded(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("record", "--time", "100ms", "--buffer", "1M") == 0
    said = capsys.readouterr()
    assert said.out == "" and "recorded in terrace.data" in said.err and "none lost" in said.err
    assert left(root) == ["terrace.data"]
    recording = read(Path("terrace.data"))
    assert len(recording.events) == recording.head.events == len(trace_fake.events())
    assert recording.head.seconds == 60.0 and recording.head.top_nodes == [0]
    assert summarize(recording).moved[0].pages == 11_520
    call = (root / "calls").read_text().splitlines()[0].split()
    assert call[:8] == ["record", "-q", "-B", leftovers.instance_name(), "-C", "mono", "-b", "1024"]
    assert [word for before, word in zip(call, call[1:], strict=False) if before == "-e"] == list(EVENTS)


def test_the_diagnosis_of_both_ends_is_recorded(root: Path) -> None:
    """The engine is switched off while the program runs: the recording notes it, like `terrace status`."""
    off = root / "sys/kernel/mm/mtier/enabled"
    assert run("record", "sh", "-c", f"echo 0 > '{off}'") == 0
    recording = read(Path("terrace.data"))
    assert recording.head.reasons_before is not None and recording.head.reasons_after is not None
    assert "off" not in [one.id for one in recording.head.reasons_before]
    assert "off" in [one.id for one in recording.head.reasons_after]
    found = summarize(recording).diagnosis or []
    (one,) = [one for one in found if one.id == "off"]
    assert (one.at_start, one.at_end, one.fix) == (False, True, "terrace set enabled 1")


def test_events_before_and_after_are_left_out(root: Path) -> None:
    early = trace_fake.line(99.9, "mtier_demote", "source=0 target=1 tried=1 moved=1 outcome=moved waited_ns=1")
    late = trace_fake.line(160.1, "mtier_demote", "source=0 target=1 tried=1 moved=1 outcome=moved waited_ns=1")
    (root / "lines").write_text(early + late)
    assert run("record", "--time", "0.1") == 0
    assert read(Path("terrace.data")).events == []


def test_the_programs_exit_code_is_passed_on(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("record", "--json", "-o", "x", "--", "sh", "-c", "exit 7") == 7
    document = json.loads(capfd.readouterr().out)
    strict_schema.validate(document, SCHEMA)
    assert (document["exit_code"], document["command"], document["file"]) == (7, ["sh", "-c", "exit 7"], "x")
    assert read(Path("x")).head.exit_code == 7
    assert run("record", "sh", "-c", "kill -TERM $$") == 128 + signal.SIGTERM
    assert left(root).count("terrace.data") == 1


def test_ctrl_c_ends_it_early_and_keeps_what_there_is(root: Path) -> None:
    def interrupt() -> None:
        # Its own handler is there from when it records on.
        while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    # A background job of a shell ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        assert run("record", "--time", "1h") == 0
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert left(root) == ["terrace.data"]


def test_lost_events_are_warned_of_and_kept(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "stat").write_text("overrun: 40\ncommit overrun: 1\ndropped events: 1\nCPU: 1\noverrun: 8\n")
    assert run("record", "--time", "0.1") == 0
    assert "50 events were lost; a larger buffer than --buffer 8M" in capsys.readouterr().err
    assert read(Path("terrace.data")).head.lost == 50


def test_a_machine_without_cgroup_v2_is_warned_of_and_the_reason_kept(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = "no cgroup file system is mounted"
    assert run("record", "--time", "0.1", "--json") == 0
    said = capsys.readouterr()
    assert f"warning: cgroups were not counted: {problem}" in said.err
    assert json.loads(said.out)["cgroups_problem"].startswith(problem)
    assert (read(Path("terrace.data")).head.cgroups_problem or "").startswith(problem)


def test_a_machine_with_cgroup_v2_is_not_warned_of(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "sys/fs/cgroup/db").mkdir(parents=True)
    (root / "sys/fs/cgroup/cgroup.controllers").write_text("memory\n")
    assert run("record", "--time", "0.1") == 0
    assert "cgroups" not in capsys.readouterr().err
    assert read(Path("terrace.data")).head.cgroups_problem is None


# ---- refused, or failed: neither a file nor an instance ----


def test_a_stock_kernel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = tmp_path / "machine"
    _use(machine, monkeypatch, ours=False)
    with pytest.raises(MissingError, match=r"6.12.117\) has none of the tracepoints mtier, numa_follow") as error:
        run("record", "--time", "1")
    assert error.value.exit_code == 3 and left(machine) == []


def test_a_kernel_without_tracing_is_refused(root: Path) -> None:
    (root / "sys/kernel/tracing/instances").rmdir()
    for file in (root / "sys/kernel/tracing").rglob("enable"):
        file.unlink()
    (root / "sys/kernel/tracing").rename(root / "gone")
    with pytest.raises(MissingError, match="there is no tracefs at /sys/kernel/tracing"):
        run("record", "--time", "1")


def test_trace_cmd_is_missing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(root))
    with pytest.raises(MissingError, match="apt-get install trace-cmd"):
        run("record", "--time", "1")
    assert left(root) == []


def test_somebody_else_than_root_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "may_record", lambda: False)
    with pytest.raises(TerraceError, match="sudo terrace record"):
        run("record", "--time", "1")


def test_trace_cmd_that_fails_is_quoted(root: Path) -> None:
    (root / "refuse").write_text("cannot make an instance")
    with pytest.raises(TerraceError, match="trace-cmd has ended at once: cannot make an instance"):
        run("record", "--time", "1")
    assert left(root) == []


def test_trace_cmd_that_dies_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "die").touch()
    monkeypatch.setattr("terrace.trace.leftovers._POLL_S", 0.001)
    with pytest.raises(TerraceError, match="trace-cmd has ended before its time"):
        run("record", "--time", "30")
    assert [name for name in left(root) if not name.startswith("terrace-")] == []


@pytest.mark.parametrize("seen", ["probe", "exit code", "output"])
@pytest.mark.parametrize(
    ("number", "problem"), [(errno.ENOSPC, "no space left in {}"), (errno.EDQUOT, "the disk quota in {} is used up")]
)
def test_a_full_disk_is_named_and_not_what_trace_cmd_says(
    number: int, problem: str, seen: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a file that meets it now; by the exit code, which is all that trace-cmd 3.1 gives; or by what it printed."""
    words = os.strerror(number) if seen == "output" else "Hit Ctrl^C to stop recording"
    (root / "full").write_text(f"{words};{number if seen == 'exit code' else 1}")
    monkeypatch.setattr("terrace.trace.leftovers._POLL_S", 0.001)
    if seen == "probe":
        monkeypatch.setattr("terrace.files.probe", lambda _: OSError(number, os.strerror(number)))
    with pytest.raises(TerraceError, match=f"^{re.escape(problem.format(root.parent))}: nothing was recorded"):
        run("record", "--time", "30")
    assert [name for name in left(root) if not name.startswith("terrace-")] == []


def test_a_disk_that_becomes_full_ends_it_early(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorders that cannot write have ended then, and trace-cmd does not mind."""

    class Full:
        f_bfree = f_bavail = f_files = f_favail = 0

    monkeypatch.setattr("terrace.trace.session.os.statvfs", lambda _: Full())
    monkeypatch.setattr("terrace.files.probe", lambda _: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr("terrace.trace.leftovers._POLL_S", 0.001)
    with pytest.raises(TerraceError, match="^no space left in"):
        run("record", "--time", "24h")


def test_programs_that_cannot_be_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("record", "no-such-program") == 127
    assert run("record", str(root / "lines")) == 126
    said = capsys.readouterr().err
    assert "there is no program 'no-such-program'; nothing was recorded" in said and "Permission denied" in said
    assert left(root) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--time", "5", "true"], "--time 5 and a program to run: give one of them"),
        (["--time", "0"], "--time 0: use seconds"),
        (["--time", "2d"], "--time 2d: use seconds"),
        (["--time", "25h"], "up to 24h"),
        (["--buffer", "1K"], "--buffer 1K: use a size from 64K to 4G"),
        (["--buffer", "much"], "size 'much' is not a number"),
        (["-o", "no/x"], "there is no folder"),
        (["-o", "."], "this is a folder"),
        (["-o", "/dev/null"], "-o /dev/null: this is a device; name a regular file"),
    ],
)
def test_bad_words_are_refused(words: list[str], problem: str, root: Path) -> None:
    with pytest.raises(UsageError, match=problem):
        run("record", *words)
    assert not (root / "calls").exists()


def test_report_needs_nothing_of_the_machine(tmp_path: Path) -> None:
    """A report uses no file of the engine, of trace-cmd or of /sys: it is the same on another machine."""
    file = trace_fake.write(tmp_path / "a")
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-I", "-c", _ALONE, str(source), str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "promoted by the engine" in done.stdout


_ALONE = """
import sys
sys.path.insert(0, sys.argv[1])
opened = []
sys.addaudithook(lambda name, args: opened.append(str(args[0])) if name == "open" else None)
from terrace.__main__ import main
code = main(["report", sys.argv[2]])
assert not [name for name in opened if name.startswith(("/sys/kernel", "/proc/vmstat"))], opened
sys.exit(code)
"""

# SPDX-License-Identifier: GPL-2.0
"""A recording that is killed: its keeper, or the next recording, removes what it leaves; a living one is left alone."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trace_fake

from terrace.sysfs import KernelFiles
from terrace.trace import leftovers

# Terminals, sockets, signals: one at a time, after the tests that share the CPUs.
pytestmark = pytest.mark.clock

#: `terrace record` on a machine of files, in a thread where the last word is "thread".
_RECORD = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from terrace import __main__ as front
from terrace.cli import record
from terrace.sysfs import KernelFiles
record.may_record = lambda: True
record.KernelFiles = lambda: KernelFiles(sys.argv[2])
def go():
    front._run(["record", "--time", sys.argv[3]])
if sys.argv[4] == "thread":
    from terrace.trace import record as inner
    inner.Ending.__enter__ = lambda self: self
    inner.Ending.__exit__ = lambda *_: None
    inner.Ending.number = None
    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
else:
    go()
"""
INSTANCES = "sys/kernel/tracing/instances"
LIMIT_S = 60


@pytest.fixture
def root(tmp_path: Path) -> Path:
    trace_fake.machine(tmp_path / "machine")
    return tmp_path / "machine"


def start(root: Path, seconds: str = "1h", where: str = "main") -> subprocess.Popen[str]:
    """A recording process."""
    source = str(Path(__file__).parents[2] / "src")
    return subprocess.Popen(
        [sys.executable, "-c", _RECORD, source, str(root), seconds, where],
        env={**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}"},
        cwd=root.parent,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextlib.contextmanager
def recording(root: Path, where: str = "main") -> Iterator[subprocess.Popen[str]]:
    """A recording process that has switched its events on."""
    process = start(root, where=where)
    try:
        wait(lambda: bool(list((root / INSTANCES).glob(f"terrace-{process.pid}-*/tracing_on"))))
        yield process
    finally:
        process.kill()
        process.communicate()
        for name in names(root):
            leftovers._kill_recorders(name)


def wait(done: Callable[[], bool]) -> None:
    until = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < until, "it has not come to that"
        time.sleep(0.01)


def names(root: Path) -> list[str]:
    return [path.name for path in (root / INSTANCES).iterdir()]


def recorders(name: str) -> list[int]:
    return list(leftovers._recorders(name))


def folders(root: Path) -> list[str]:
    return [path.name for path in root.parent.iterdir() if path != root]


def keepers(name: str) -> list[int]:
    mark = f"\0{name}\0".encode()
    pids = [path.name for path in Path("/proc").iterdir() if path.name.isdecimal()]
    lines = {int(pid): leftovers._command_line(pid) for pid in pids}
    return [pid for pid, line in lines.items() if mark in line and b"leftovers" in line]


def ignores(pid: int, number: signal.Signals) -> bool:
    (mask,) = re.findall(r"^SigIgn:\s*([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> (number - 1) & 1)


def as_tracefs_does(root: Path, name: str) -> None:
    """In tracefs a folder with files in it can be removed, once no process reads them."""
    wait(lambda: not recorders(name))
    shutil.rmtree(root / INSTANCES / name / "events")
    (root / INSTANCES / name / "tracing_on").unlink()


def kill_with_its_keeper(process: subprocess.Popen[str], name: str) -> None:
    """As the kernel does to a control group that has no memory left: trace-cmd alone is spared here."""
    for pid in keepers(name):
        os.kill(pid, signal.SIGSTOP)
    process.kill()
    process.wait()
    for pid in keepers(name):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("where", ["main", "thread"])
def test_its_keeper_removes_all(where: str, root: Path) -> None:
    with recording(root, where) as process:
        (name,) = names(root)
        assert recorders(name) and len(folders(root)) == 1
        process.kill()
        as_tracefs_does(root, name)
        wait(lambda: not names(root) and not folders(root) and not keepers(name))


def test_a_signal_to_its_group_spares_the_keeper(root: Path) -> None:
    with recording(root) as process:
        (name,) = names(root)
        (keeper,) = keepers(name)
        wait(lambda: ignores(keeper, signal.SIGTERM))
        os.kill(keeper, signal.SIGTERM)
        process.kill()
        as_tracefs_does(root, name)
        wait(lambda: not names(root) and not folders(root))


def test_the_next_one_removes_what_the_keeper_could_not(root: Path) -> None:
    with recording(root) as process:
        (name,) = names(root)
        kill_with_its_keeper(process, name)
        assert recorders(name) and folders(root)
        # trace-cmd still records: the next recording ends it, and tracefs then lets the instance go.
        following = start(root, "0.1")
        as_tracefs_does(root, name)
        said = following.communicate(timeout=LIMIT_S)[1]
        assert following.returncode == 0, said
        assert f"removed trace instance {name}, which a killed `terrace record` has left" in said
        assert "removed folder " in said and said.count("removed ") == 2
        assert not names(root) and folders(root) == ["terrace.data"]


def test_a_living_one_is_left_alone(root: Path) -> None:
    with recording(root) as process:
        (name,) = names(root)
        beside = folders(root)
        following = start(root, "0.1")
        said = following.communicate(timeout=LIMIT_S)[1]
        assert following.returncode == 0 and "removed" not in said
        assert process.poll() is None and names(root) == [name] and recorders(name)
        assert sorted(folders(root)) == sorted([*beside, "terrace.data"])


@pytest.mark.parametrize(
    "name",
    [
        f"terrace-{os.getpid()}-{leftovers._start_time(os.getpid())}-{leftovers._pid_namespace()}",
        # Another container has numbers of its own.
        f"terrace-4194305-1-{leftovers._pid_namespace() + 1}",
        "terrace-mine",
        "somebodys",
    ],
    ids=["owner lives", "other container", "no number", "no prefix"],
)
def test_what_may_live_or_is_not_ours_stays(name: str, root: Path) -> None:
    (root / INSTANCES / name).mkdir()
    assert leftovers.clean(KernelFiles(root), "sys/kernel/tracing", root.parent) == []
    assert names(root) == [name]


@pytest.mark.parametrize("number", [4194305, os.getpid()], ids=["never given", "given again"])
def test_a_number_that_was_given_again_is_not_the_owner(number: int, root: Path) -> None:
    name = f"terrace-{number}-1-{leftovers._pid_namespace()}"
    (root / INSTANCES / name).mkdir()
    assert leftovers.clean(KernelFiles(root), "sys/kernel/tracing", root.parent) == [f"trace instance {name}"]
    assert names(root) == []


def test_folders_of_others_stay(root: Path, tmp_path: Path) -> None:
    """One without a lock, one in use, one that is a link, and one whose lock is a pipe."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / ".x.terrace-record-a").mkdir()
    (folder / ".x.terrace-record-a" / "theirs").touch()
    (folder / ".x.terrace-record-b").symlink_to(tmp_path)
    (folder / ".x.terrace-record-c").touch()
    with leftovers.Folder(folder / "x") as aside:
        assert leftovers.clean(KernelFiles(root), "sys/kernel/tracing", folder) == []
        assert aside.path.is_dir()
    assert sorted(path.name for path in folder.iterdir()) == [f".x.terrace-record-{end}" for end in "abc"]


def test_a_kernel_without_namespaces_has_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of the lab: there is no /proc/PID/ns/pid."""
    stat = Path.stat

    def without(path: Path, **more: bool) -> os.stat_result:
        if path.parent.name == "ns":
            raise FileNotFoundError(path)
        return stat(path, **more)

    monkeypatch.setattr(Path, "stat", without)
    assert leftovers.instance_name().endswith("-0")
    assert not leftovers._is_dead(leftovers.instance_name()) and leftovers._is_dead("terrace-1-1-0")

# SPDX-License-Identifier: GPL-2.0
"""Files that a guest hands back: what guest/init_out.c sends arrives, and nothing that it could send does harm."""

import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from terrace.errors import UsageError
from terrace.lab.out import Receiver, check_folder
from terrace.paths import repo_root

MAIN = """
#include <stdlib.h>
#include "init.h"
struct conf conf;
int main(int argc, char **argv) { conf.out = argv[argc - 1]; send_files(1); return 0; }
"""


@pytest.fixture(scope="module")
def sender(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The guest's sender as a program of this machine, and the folder that it sends."""
    folder = tmp_path_factory.mktemp("sender")
    (folder / "main.c").write_text(MAIN)
    guest = repo_root() / "guest"
    sent = folder / "sent"
    words = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{guest}", f'-DOUT_DIR="{sent}"']
    subprocess.run(
        [*words, "-o", str(folder / "program"), str(folder / "main.c"), str(guest / "init_out.c")], check=True
    )
    return folder / "program", sent


@pytest.fixture
def sent(sender: tuple[Path, Path]) -> Iterator[Path]:
    sender[1].mkdir()
    yield sender[1]
    subprocess.run(["rm", "-rf", str(sender[1])], check=True)


def stream(sender: tuple[Path, Path], limit: int = 1 << 20) -> bytes:
    return subprocess.run([str(sender[0]), str(limit)], check=True, stdout=subprocess.PIPE).stdout


def received(folder: Path, data: bytes, limit: int = 1 << 20, piece: int = 1 << 30) -> Receiver:
    receiver = Receiver(folder, limit)
    for at in range(0, len(data), piece):
        receiver.feed(data[at : at + piece])
    return receiver


def tree(folder: Path) -> dict[str, tuple[str, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = stat.filemode(path.lstat().st_mode)
        found[str(path.relative_to(folder))] = (mode, path.read_bytes() if path.is_file() else b"")
    return found


@pytest.mark.parametrize("piece", [1, 7, 1 << 30])
def test_contents_modes_and_odd_names_arrive(sender: tuple[Path, Path], sent: Path, tmp_path: Path, piece: int) -> None:
    (sent / "empty").touch()
    (sent / "closed").mkdir()
    (sent / "closed/inner").mkdir()
    for name, mode in (("blob", 0o640), ("closed/run me", 0o755), ("closed/inner/nl\n\x1b[31m", 0o400)):
        (sent / name).write_bytes(os.urandom(5000))
        (sent / name).chmod(mode)
    (sent / os.fsdecode(b"not utf-8 \xff")).write_text("x")
    (sent / "closed/inner").chmod(0o500)
    (sent / "closed").chmod(0o750)
    receiver = received(tmp_path / "here", stream(sender), piece=piece)
    assert (receiver.ended, receiver.problems, receiver.skipped) == (True, [], [])
    assert tree(tmp_path / "here") == tree(sent)


def test_what_is_no_file_stays_there_and_is_named(sender: tuple[Path, Path], sent: Path, tmp_path: Path) -> None:
    (sent / "to").symlink_to("/etc/passwd")
    (sent / "folder").symlink_to("/etc")
    os.mkfifo(sent / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(sent / "listener"))
    if os.geteuid() == 0:
        os.mknod(sent / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (sent / "setuid").write_text("x")
    (sent / "setuid").chmod(0o6755)
    receiver = received(tmp_path / "here", stream(sender))
    expected = {"'to' is a symbolic link", "'folder' is a symbolic link", "'pipe' is a FIFO", "'listener' is a socket"}
    assert set(receiver.skipped) == expected | ({"'null' is a device"} if os.geteuid() == 0 else set())
    assert receiver.problems == []
    assert tree(tmp_path / "here") == {"setuid": ("-rwxr-xr-x", b"x")}


def test_what_is_too_large_or_too_deep_is_missing(sender: tuple[Path, Path], sent: Path, tmp_path: Path) -> None:
    with (sent / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    (sent / "small").write_text("x")
    deep = sent
    for _ in range(70):
        deep = deep / "d"
        deep.mkdir()
    receiver = received(tmp_path / "here", stream(sender, 4096), 4096)
    assert receiver.ended and receiver.skipped == []
    assert any("'sparse': larger than the rest of the limit" in line for line in receiver.problems)
    assert any("nested too deeply" in line for line in receiver.problems)
    assert len(receiver.problems) == 2
    assert (tmp_path / "here/small").read_text() == "x" and not (tmp_path / "here/sparse").exists()


def file_record(name: bytes, data: bytes = b"evil", mode: bytes = b"644") -> bytes:
    return b"f %b %d %d\n%b%b" % (mode, len(data), len(name), name, data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (file_record(b"../x"), "leads out of the folder: '../x'"),
        (file_record(b"/etc/x"), "leads out of the folder"),
        (file_record(b"a/../../x"), "leads out of the folder"),
        (file_record(b"."), "leads out of the folder"),
        (file_record(b"a//b"), "leads out of the folder"),
        (file_record(b"a\0b"), "leads out of the folder"),
        (file_record(b"/".join([b"d"] * 80)), "leads out of the folder"),
        (file_record(b"n" * 256), "part of more than 255 bytes"),
        (b"f 644 4 5000\n" + b"n" * 5000, "name of 5000 bytes"),
        (b"f 644 4 0\n", "name of 0 bytes"),
        (file_record(b"x", mode=b"4755"), "record that is none"),
        (b"l 777 4\nlink", "record that is none"),
        (b"f 644 -1 1\nx", "record that is none"),
        (b"f 644 99999999999999999999 1\nx", "record that is none"),
        (b"\xff" * 500, "record that is none"),
        (file_record(b"\x1b]0;x\n" * 40 + b"/.."), r"'\x1b]0;x\n"),
        (file_record(b"big", b"x" * 3000) + file_record(b"more", b"x" * 3000), "'more': more than 4K in all"),
        (file_record(b"twice") + file_record(b"twice"), "cannot write 'twice': File exists"),
        (file_record(b"nowhere/x"), "cannot write 'nowhere/x': No such file"),
        (file_record(b"file") + file_record(b"file/x"), "cannot write 'file/x': Not a directory"),
    ],
)
def test_a_hostile_guest_reaches_nothing(tmp_path: Path, data: bytes, problem: str) -> None:
    here = tmp_path / "inner/here"
    here.parent.mkdir()
    receiver = received(here, data + b"end\n", 4096)
    assert receiver.ended
    assert len(receiver.problems) == 1 and problem in receiver.problems[0], receiver.problems
    assert "\x1b" not in receiver.problems[0]
    assert [path for path in tmp_path.rglob("*") if path not in (here.parent, here) and here not in path.parents] == []


def test_a_link_that_appears_on_the_way_is_not_followed(tmp_path: Path) -> None:
    """Somebody on this machine swaps a folder for a link while files arrive."""
    receiver = Receiver(tmp_path / "here")
    receiver.feed(b"d 755 1\nd")
    (tmp_path / "else").mkdir()
    (tmp_path / "here/d").rmdir()
    (tmp_path / "here/d").symlink_to(tmp_path / "else")
    receiver.feed(file_record(b"d/x"))
    assert receiver.ended and "cannot write 'd/x'" in receiver.problems[0]
    assert list((tmp_path / "else").iterdir()) == []


def test_a_file_that_is_cut_off_goes_and_whole_ones_stay(tmp_path: Path) -> None:
    receiver = received(tmp_path / "here", b"d 500 1\nd" + file_record(b"d/whole") + file_record(b"d/cut")[:-2])
    receiver.give_up("the machine is gone")
    assert receiver.problems == ["the machine is gone"]
    assert tree(tmp_path / "here") == {"d": ("dr-x------", b""), "d/whole": ("-rw-r--r--", b"evil")}
    # The rest comes too late.
    receiver.feed(b"il" + file_record(b"late"))
    assert "late" not in str(tree(tmp_path / "here"))


def test_a_transfer_that_never_began_leaves_no_folder(tmp_path: Path) -> None:
    Receiver(tmp_path / "new").give_up("no boot")
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    Receiver(tmp_path / "old").give_up("no boot")
    assert (tmp_path / "old").exists()


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(fd: int, data: bytes) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "write", write)
    receiver = received(tmp_path / "here", file_record(b"x"))
    assert receiver.problems == ["cannot write 'x': No space left on device"]
    assert tree(tmp_path / "here") == {}


def test_only_a_new_or_an_empty_folder_will_do(tmp_path: Path) -> None:
    check_folder(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    for name, message in (
        ("full", "the folder is not empty"),
        ("full/x", "not a folder"),
        ("dangling", "not a folder"),
        ("no/where", "there is no folder .*/no"),
        ("full/x/y", "there is no folder .*/x|Not a directory"),
    ):
        with pytest.raises(UsageError, match=f"--out .*{name}: {message}"):
            check_folder(tmp_path / name)

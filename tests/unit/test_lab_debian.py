# SPDX-License-Identifier: GPL-2.0
"""A Debian's disks, made and read; and its sessions, with something else in QEMU's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from terrace.__main__ import main
from terrace.errors import BuildError
from terrace.lab.debian import disk, image, session
from terrace.lab.machine import Machine
from terrace.lab.topology import MIB, load_topology
from terrace.packages.kernel import Base


@pytest.fixture
def debian(tmp_path: Path) -> session.Debian:
    machine = Machine(Path(), Path(), tmp_path / "console", load_topology("dram-cxl"), one_thread=True)
    return session.Debian(machine, tmp_path / "root, disk", tmp_path / "carried")


def test_what_is_carried_can_be_read_again(debian: session.Debian, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * 64)
    session.carry(debian.carried, {"debs/a.deb": tmp_path / "file", "note": "a note\n"}, ["echo", "two words", "{}"])
    assert disk.read(debian.carried, "debs/a.deb") == (tmp_path / "file").read_bytes()
    assert disk.read(debian.carried, "note") == b"a note\n"
    script = disk.read(debian.carried, "run")
    assert script is not None and b"\necho 'two words' '{}'\ncode=$?\n" in script
    assert disk.read(debian.carried, "code") is None
    assert disk.read(debian.carried, "debs/b.deb") is None
    disk.copy_out(debian.carried, "debs", tmp_path)
    assert (tmp_path / "debs/a.deb").read_bytes() == (tmp_path / "file").read_bytes()


def test_without_a_command_nothing_is_run(debian: session.Debian) -> None:
    session.carry(debian.carried, {})
    assert disk.read(debian.carried, "run") is None


def test_a_disk_to_boot_from_has_room_before_its_partition(tmp_path: Path) -> None:
    folder, made = tmp_path / "folder", tmp_path / "disk"
    folder.mkdir()
    disk.to_boot_from(folder, made, 64 * MIB, "7e44ace0-0000-4000-8000-00000000000f")
    content = made.read_bytes()
    assert len(content) == 64 * MIB
    # The mark of a table of partitions; and that of ext4, 1 KiB and 56 bytes into the first one.
    assert content[510:512] == b"\x55\xaa"
    assert content[MIB + 1024 + 56 : MIB + 1024 + 58] == b"\x53\xef"
    assert not any(content[512:MIB])


def test_the_machine_reboots_by_itself_and_boots_from_its_disk(debian: session.Debian) -> None:
    words = session.argv(debian, terminal=False)
    assert "-no-reboot" not in words and "-kernel" not in words
    drives = [words[number + 1] for number, word in enumerate(words) if word == "-drive"]
    assert drives[0] == f"file={str(debian.root).replace(',', ',,')},format=raw,if=virtio"
    assert drives[1] == f"file={debian.carried},format=raw,if=virtio"
    assert "thread=single" in " ".join(words)


@pytest.mark.parametrize(
    ("source", "starts"),
    [("6.12.117", True), ("6.12.118", False), ("6.12.9", True), ("6.12", True), ("6.12.200", 0)],
)
def test_the_boot_menu_starts_the_highest_version(source: str, starts: bool) -> None:
    made = image.Image(Path(), Base("", "config"), "6.12.118")
    assert made.starts_its_own(source) == starts


def test_each_release_has_a_disk_and_unknown_ones_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    for release in image.RELEASES:
        assert main(["lab", "debian", "--dry-run", "--release", release, "--", "true"]) == 0
        assert f"/debian/{release}/disk," in capsys.readouterr().out
    assert main(["lab", "debian", "--dry-run", "--release", "sid"]) == 2
    assert "'sid'" in (said := capsys.readouterr().err) and "trixie, bookworm" in said.replace("'", "")


class TestSession:
    """With a shell script in QEMU's place, which writes the carried disk as the guest would."""

    @pytest.fixture(autouse=True)
    def prepared(self, debian: session.Debian, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        session.carry(debian.carried, {}, ["true"])
        debian.machine.console.write_text("last words\n")
        (tmp_path / "code").write_text("7\n")
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin:/usr/sbin:/sbin")

    def qemu(self, tmp_path: Path, script: str) -> None:
        program = tmp_path / "qemu-system-x86_64"
        program.write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
        program.chmod(0o755)

    def test_the_code_of_the_command_is_given(self, debian: session.Debian, tmp_path: Path) -> None:
        self.qemu(tmp_path, "echo hello; debugfs -w -R 'write code code' carried 2> /dev/null > /dev/null")
        assert session.run(debian, None, tmp_path / "output") == 7
        assert (tmp_path / "output").read_text() == "hello\n"

    def test_a_machine_that_goes_off_by_itself_is_an_error(self, debian: session.Debian, tmp_path: Path) -> None:
        self.qemu(tmp_path, "true")
        with pytest.raises(BuildError, match="off before the command ended; its console ends:\nlast words"):
            session.run(debian, None, tmp_path / "output")

    def test_what_qemu_says_when_it_fails_is_told(self, debian: session.Debian, tmp_path: Path) -> None:
        self.qemu(tmp_path, "echo 'no such disk' >&2; exit 1")
        with pytest.raises(BuildError, match="QEMU ended with 1: no such disk"):
            session.run(debian, None, tmp_path / "output")

    def test_a_machine_that_is_not_off_in_time_is_ended(self, debian: session.Debian, tmp_path: Path) -> None:
        self.qemu(tmp_path, "exec sleep 1000")
        assert session.run(debian, 0.2, tmp_path / "output") == session.TIMED_OUT

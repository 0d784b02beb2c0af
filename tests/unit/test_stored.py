# SPDX-License-Identifier: GPL-2.0
"""What the cache and build/ keep: a damaged file is noticed, reported with one line, and made again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from terrace import stored, venv
from terrace.errors import TerraceError
from terrace.kernel import build, config, edit, source
from terrace.kernel.source import Source
from terrace.lab import accel, initramfs, plugin
from terrace.lab.emulator import Plugins
from terrace.policy import library
from terrace.testing import compile as selftests

DATA = bytes(range(256)) * 16


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _zero(path: Path) -> None:
    """As after a crash: the right size, and no content."""
    path.write_bytes(bytes(path.stat().st_size))


def _remove(path: Path) -> None:
    path.unlink()


DAMAGES = [_cut, _zero, _remove]


# ---- files and folders ----


@pytest.fixture
def target(tmp_path: Path) -> Path:
    fresh = tmp_path / "fresh"
    fresh.write_bytes(DATA)
    stored.keep(fresh, tmp_path / "target")
    return tmp_path / "target"


def test_a_file_is_kept(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stored.is_kept(target) and stored.is_kept(target) and target.read_bytes() == DATA
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("damage", [_cut, _zero])
def test_a_damaged_file_is_reported_with_a_line(
    damage: Callable[[Path], None], target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(target)
    assert not stored.is_kept(target)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"terrace: {target} is damaged (target has " in said


def test_a_file_that_is_gone_or_of_an_older_tool_needs_no_line(
    target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (target.parent / ".target.sums").unlink()
    assert not stored.is_kept(target)
    target.unlink()
    assert not stored.is_kept(target) and capsys.readouterr().err == ""


def test_a_file_is_read_again_only_if_it_was_touched(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The move to its name touched it once."""
    assert stored.is_kept(target)
    read: list[Path] = []
    hash_of = stored._hash

    def spied(path: Path, size: int) -> str:
        read.append(path)
        return hash_of(path, size)

    monkeypatch.setattr(stored, "_hash", spied)
    assert stored.is_kept(target) and read == []
    os.utime(target)
    assert stored.is_kept(target) and stored.is_kept(target) and read == [target]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"files": 1}', '{"files": {"target": 1}}', '{"files": {}}', "\0\xff"]
)
def test_damaged_checksums_are_no_proof(text: str, target: Path) -> None:
    (target.parent / ".target.sums").write_bytes(text.encode("latin-1"))
    assert not stored.is_kept(target)
    (target.parent / "sums.json").write_bytes(text.encode("latin-1"))
    assert stored.damage(target.parent)


def test_several_may_make_the_same_file_at_once(tmp_path: Path) -> None:
    """None of them sees the file of one with the checksums of another."""
    target, wrong = tmp_path / "target", []
    barrier = threading.Barrier(4)

    def make(number: int) -> None:
        barrier.wait()
        for turn in range(30):
            fresh = tmp_path / f"fresh-{number}"
            fresh.write_bytes(DATA * (number + 1) + bytes([turn]))
            stored.keep(fresh, target)
            if not stored.is_kept(target):
                wrong.append(number)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_folder_is_checked_as_a_whole(damage: Callable[[Path], None], tmp_path: Path) -> None:
    for name in ("disk", "config"):
        (tmp_path / name).write_bytes(DATA)
    stored.seal(tmp_path)
    assert stored.damage(tmp_path) == ""
    damage(tmp_path / "config")
    assert stored.damage(tmp_path).startswith("config ")


# ---- kernels ----


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> build._Plan:
    """A kernel in a cache."""
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "out"
    out.mkdir()
    for name in ("vmlinux", ".config", "System.map"):
        (out / name).write_bytes(DATA)
    (tmp_path / "cache").mkdir()
    wanted = build._Plan(config.FLAVOURS["terrace"], Source(tmp_path, "6.12.1", "sha"), {}, "0123456789abcdef", "5eed")
    build._into_cache(wanted, out)
    monkeypatch.setattr(build, "_plan", lambda *_: wanted)
    monkeypatch.setattr(build, "require_packages", lambda *_: None)
    monkeypatch.setattr(build, "build_dir", lambda: tmp_path)
    monkeypatch.setattr(build, "_prepared", lambda _: out)
    monkeypatch.setattr(build, "run_make", lambda *_: None)
    monkeypatch.setattr(source, "find", lambda: wanted.source)
    return wanted


def test_a_kernel_comes_from_the_cache(plan: build._Plan, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = build.find_built("terrace")
    assert kernel is not None and kernel.vmlinux.read_bytes() == DATA and kernel.version == "6.12.1"
    assert build.build("terrace") == kernel and capsys.readouterr().err == ""


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["vmlinux", "config", "System.map", "kernel.json", "sums.json"])
def test_a_damaged_kernel_is_built_again(
    name: str, damage: Callable[[Path], None], plan: build._Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(plan.cached / name)
    assert build.find_built("terrace") is None
    kernel = build.build("terrace")
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"terrace: {plan.cached} is damaged (" in said and "it is made again" in said
    assert kernel.vmlinux.read_bytes() == DATA and build.find_built("terrace") == kernel


@pytest.mark.parametrize("note", [{}, [], {"version": "6.12.1"}, None, 7])
def test_an_incomplete_note_of_a_kernel_is_no_key_error(note: object, plan: build._Plan) -> None:
    (plan.cached / "kernel.json").write_text(json.dumps(note))
    stored.seal(plan.cached)
    assert build.find_built("terrace") is None
    assert build.build("terrace").version == "6.12.1"


@pytest.mark.parametrize("text", ["", "x", "\xff", "1" * 5000, "-1"])
def test_the_steps_of_the_last_build_may_be_cut_off(text: str, tmp_path: Path) -> None:
    (tmp_path / "steps").write_bytes(text.encode("latin-1"))
    build._steps(tmp_path / "steps")
    assert build._steps(tmp_path / "none") is None


# ---- what is compiled for guests, and the rest of the cache ----


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder, and a compiler that only notes what it was called for."""
    root = tmp_path / "checkout"
    for folder in ("guest", "plugin", "libterrace/src", "libterrace/include/terrace", "tests"):
        (root / folder).mkdir(parents=True)
    (root / "guest" / "init.c").write_text("int main(void) { return 0; }")
    (root / "guest" / "script.py").write_text("print()")
    for name in plugin._SOURCES["insn_count"]:
        (root / "plugin" / name).write_text("")
    (root / "libterrace" / "src" / "a.c").write_text("")
    (root / "libterrace" / library._MAP).write_text("")
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/gcc")
    for module in (initramfs, plugin, library):
        monkeypatch.setattr(module, "repo_root", lambda: root)
        monkeypatch.setattr(module, "build_dir", lambda: tmp_path / "build")
        monkeypatch.setattr(module, "require_packages", lambda *_: None, raising=False)
    monkeypatch.setattr(plugin, "require_tools", lambda: Plugins(1, "", ""))
    monkeypatch.setattr(selftests, "build_dir", lambda: tmp_path / "build")
    (tmp_path / "build").mkdir()
    run = subprocess.run

    def compiler(words: list[str], **more: object) -> subprocess.CompletedProcess[str]:
        if words[0] != "gcc":
            return run(words, **more)  # type: ignore[call-overload, no-any-return]
        Path(words[words.index("-o") + 1]).write_bytes(DATA)
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(subprocess, "run", compiler)
    return root


def _library() -> Path:
    path = library.build()
    assert path is not None
    return path


MAKERS: dict[str, Callable[[Path], Path]] = {
    "program": lambda root: initramfs.compile_static("init"),
    "object": lambda root: initramfs._compile_object(root / "guest" / "init.c"),
    "script": lambda root: initramfs.copy_script("script.py"),
    "plugin": lambda root: plugin.compile_plugin("insn_count"),
    "library": lambda root: _library(),
    "selftest": lambda root: selftests._compile("init", root / "guest" / "init.c", []),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_was_compiled_is_made_again(
    kind: str, damage: Callable[[Path], None], sandbox: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = MAKERS[kind](sandbox)
    content = made.read_bytes()
    assert MAKERS[kind](sandbox) == made and capsys.readouterr().err == ""
    damage(made)
    assert MAKERS[kind](sandbox) == made and made.read_bytes() == content
    said = capsys.readouterr().err
    assert damage is _remove or (said.count("\n") == 1 and f"{made} is damaged" in said)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"key": 1}', "\xff"])
def test_a_damaged_note_of_the_source_is_forgotten(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path))
    (tmp_path / "source.json").write_bytes(text.encode("latin-1"))
    (tmp_path / "tar").write_bytes(DATA)
    assert len(source._tarball_sha(tmp_path / "tar")) == 64


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff"])
def test_a_damaged_note_of_an_edited_tree_is_named(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "terrace.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(TerraceError, match="terrace.json is damaged"):
        edit.save(tmp_path)


@pytest.mark.parametrize("content", ["{boot}", "{boot}\n", "{boot}\nit does", "\xff"])
def test_a_probe_of_kvm_that_was_cut_off_is_made_again(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Works:
        verdict, exit_code = "ok", 0

    probes: list[object] = []

    def guest(*words: object, **_: object) -> Works:
        probes.append(words)
        return Works()

    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: True)
    monkeypatch.setattr(accel, "run_in_guest", guest)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (tmp_path / "kvm-probe").write_bytes(content.format(boot=boot).encode("latin-1"))
    assert [accel._probe(tmp_path), accel._probe(tmp_path)] == ["", ""] and len(probes) == 1


@pytest.mark.parametrize("gone", ["bin/python3", "pyvenv.cfg"])
def test_an_environment_whose_interpreter_is_gone_is_made_again(
    gone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to("/bin/sh")
    for name in ("complete", "pyvenv.cfg"):
        (tmp_path / name).touch()
    assert venv._is_complete(tmp_path)
    (tmp_path / gone).unlink()
    if gone == "bin/python3":
        (tmp_path / gone).symlink_to(tmp_path / "removed")
    assert not venv._is_complete(tmp_path) and not (tmp_path / "complete").exists()
    assert "its interpreter is gone" in capsys.readouterr().err

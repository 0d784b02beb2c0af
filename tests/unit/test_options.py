# SPDX-License-Identifier: GPL-2.0
"""Bad options are refused in words, before anything is installed, built or booted."""

from pathlib import Path

import pytest

from terrace import __main__ as door
from terrace import venv
from terrace.cli import deb, lab
from terrace.kernel import build
from terrace.kernel import source as linux_source
from terrace.packages import kernel


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*words: object, **_: object) -> None:
        raise AssertionError(f"started something: {words}")

    monkeypatch.setattr(venv, "enter", refuse)
    monkeypatch.setattr(build, "build", refuse)
    monkeypatch.setattr(linux_source, "find", refuse)
    monkeypatch.setattr(lab, "run_in_guest", refuse)


WORDS = [
    ("test --within long", "--within: time 'long' is not a number with one of the units"),
    ("kernel build --jobs 0", "--jobs 0: use a whole number from 1 to 1024"),
    ("deb kernel --jobs -1", "--jobs -1: use a whole number from 1 to 1024"),
    ("kernel series -v 0", "--version 0: use a whole number from 1 to 999"),
    ("deb kernel --config /nonexistent", "--config /nonexistent: No such file or directory; give the configuration of"),
    (
        "deb kernel --modules /nonexistent",
        "--modules /nonexistent: No such file or directory; give what lsmod prints on",
    ),
    ("deb kernel --modules a --only-loaded", "--only-loaded: not allowed with argument --modules"),
    ("lab debian", "lab debian: without a command it needs a terminal; write one behind --, as in -- uname -r"),
    ("lab debian --timeout 5s", "--timeout goes with a command, and none was given behind --"),
    ("lab debian --timeout 5 -- true", "--timeout: time '5' is not a number with one of the units ns"),
    ("lab debian --put /nonexistent -- true", "--put /nonexistent: no such file"),
    ("lab debian --topology /nonexistent.toml --dry-run -- true", "/nonexistent.toml"),
    ("bench run smoke --jobs 0", "--jobs 0: use a whole number from 1 to 1024"),
    ("bench worker tcp://x:1 --jobs x", "--jobs x: use a whole number from 1 to 1024"),
    ("demo --seed x", "--seed x: use a whole number from 0 to 4294967295"),
    ("demo --threads 65", "--threads 65: use a whole number from 1 to 64"),
    ("demo --size 5M", "--size 5M: use whole 4K pages, from 16M to 4G"),
    ("demo --picture /nonexistent/a.png", "there is no folder /nonexistent"),
    ("test --group fly", "--group fly: the groups are lint"),
    ("test -k (", "-k '('"),
    ("test --stretch 0", "--stretch 0: use a whole number from 1 to 1000"),
    ("lab run --memory-scale nan -- true", "--memory-scale nan: use a number above 0"),
    ("lab run --memory-scale 0 -- true", "--memory-scale 0: use a number above 0"),
    ("lab run --cpus x -- true", "--cpus x: use a whole number from 1 to 64"),
    ("lab run --icount 11 -- true", "--icount 11: use a whole number from 0 to 10"),
    ("lab run --timeout abc -- true", "--timeout: time 'abc' is not a number with one of the units ns"),
    ("lab run --scratch zz -- true", "--scratch: size 'zz' is not a number with one of the units K"),
    ("lab run --sysctl foo -- true", "--sysctl foo: use NAME=VALUE"),
    # A dry run has to refuse what a real one does.
    ("lab run --timeout 5 --dry-run -- true", "--timeout: time '5' is not a number with one of the units ns"),
    ("lab run --scratch z --dry-run -- true", "--scratch: size 'z' is not a number with one of the units K"),
    ("lab run --sysctl =1 --dry-run -- true", "--sysctl =1: use NAME=VALUE"),
]


@pytest.mark.parametrize(("words", "said"), WORDS)
def test_a_bad_option_is_named_with_what_is_allowed(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert door.main(words.split()) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--config", "--modules"])
def test_a_text_of_another_kind_is_refused(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, config = tmp_path / "file", tmp_path / "config"
    config.write_text("CONFIG_SMP=y\n")
    for content in (b"hello\n", b"\xff\xfe", b"Module Size Used by\n"):
        file.write_bytes(content)
        assert door.main(["deb", "kernel", "--config", str(config), option, str(file)]) == 2
        assert f"{option} {file}: no " in capsys.readouterr().err


def test_a_configuration_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("# a comment\nCONFIG_SMP=y\n")
    monkeypatch.setattr(linux_source, "find", lambda: None)
    asked: list[kernel.Base] = []

    def make(source: object, base: kernel.Base, jobs: int | None) -> list[Path]:
        asked.append(base)
        return []

    monkeypatch.setattr(kernel, "make", make)
    monkeypatch.setattr(deb, "require_packages", lambda *_: None)
    config, modules = str(tmp_path / "config"), tmp_path / "modules"
    assert door.main(["deb", "kernel", "--config", config]) == 0
    # As lsmod prints them, and as /proc/modules has them.
    for text in ("Module                  Size  Used by\nloop  40960  0\n", "loop 40960 0 - Live 0x0\n"):
        modules.write_text(text)
        assert door.main(["deb", "kernel", "--config", config, "--modules", str(modules)]) == 0
    assert [base.origin for base in asked] == [config] * 3
    assert asked[0].text == "# a comment\nCONFIG_SMP=y\n"
    assert asked[0].modules is None and asked[-1].modules == text


def test_a_file_of_our_own_cannot_be_put(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").write_text("")
    assert door.main(["lab", "debian", "--put", str(tmp_path / "run"), "--", "true"]) == 2
    assert "/terrace has debs, code, run of its own" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["bench run --help", "demo --quick --help", "test -h"])
def test_help_installs_nothing(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert door.main(words.split()) == 0
    assert capsys.readouterr().out.startswith(f"usage: terrace {words.split()[0]}")

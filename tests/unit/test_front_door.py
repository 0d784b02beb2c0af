# SPDX-License-Identifier: GPL-2.0
"""The front door from outside: any folder, odd paths, clear errors, a clean environment for programs."""

import argparse
import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import pytest

from terrace import __main__ as door
from terrace import cli, host, output, paths, venv
from terrace.errors import MissingError, UsageError
from terrace.lab import qemu
from terrace.words import Parser, did_you_mean

DOOR = paths.repo_root() / "terrace"


def _run(*words: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    full = {"PATH": os.environ["PATH"], "HOME": str(cwd), **(env or {})}
    return subprocess.run(words, cwd=cwd, env=full, capture_output=True, text=True, check=False)


def test_help_lists_only_verbs_that_exist(tmp_path: Path) -> None:
    done = _run(str(DOOR), "--help", cwd=tmp_path)
    assert done.returncode == 0
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert listed == list(cli.verbs())
    for name in listed:
        assert (paths.repo_root() / "src/terrace/cli" / f"{name}.py").is_file()


@pytest.mark.parametrize("name", [name for name, verb in cli.verbs().items() if verb.needs is None])
def test_verbs_without_packages_explain_themselves(name: str, tmp_path: Path) -> None:
    done = _run(str(DOOR), name, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: terrace {name}")


def test_looking_at_experiments_downloads_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`bench list` made an environment with Dask and matplotlib in it first."""

    class DownloadError(Exception):
        pass

    def enter(needs: str, words: Sequence[str]) -> None:
        raise DownloadError

    monkeypatch.setattr(venv, "enter", enter)
    monkeypatch.setattr(qemu, "host_memory", lambda: 1 << 40)
    assert door._run(["bench", "list"]) == 0
    assert "smoke" in capsys.readouterr().out
    assert door._run(["bench", "run", "smoke", "--dry-run"]) == 0
    assert "smoke/64M-dram1of2-terrace-seed1" in capsys.readouterr().out
    for words in (["bench", "run", "smoke"], ["bench", "report"]):
        with pytest.raises(DownloadError):
            door._run(words)


@pytest.mark.parametrize("words", [["list"], ["run", "smoke", "--dry-run"]])
def test_looking_at_experiments_takes_only_the_systems_python(words: list[str], tmp_path: Path) -> None:
    """Its modules are imported without the packages: with -S and -I there are none."""
    code = (
        f"import sys; sys.path.insert(0, {str(paths.repo_root() / 'src')!r})\n"
        "from terrace.lab import qemu; qemu.host_memory = lambda: 1 << 40\n"
        f"from terrace.__main__ import main; sys.exit(main({['bench', *words]!r}))"
    )
    done = _run(sys.executable, "-S", "-I", "-c", code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.glob("**/venv"))


def test_works_through_links_and_odd_folders(tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    folder.mkdir()
    (folder / "json.py").write_text("raise SystemExit('the wrong json')\n")
    (folder / "door").symlink_to(DOOR)
    assert _run("./door", "--version", cwd=folder).stdout.startswith("terrace ")
    assert _run(str(folder / "door"), "kernel", "check", "--list", cwd=folder).returncode == 0


def test_unknown_words_are_usage_errors(tmp_path: Path) -> None:
    done = _run(str(DOOR), "fly", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no subcommand 'fly'; the subcommands are " in done.stderr
    assert _run(str(DOOR), "--loud", cwd=tmp_path).returncode == 2
    assert _run(str(DOOR), cwd=tmp_path).returncode == 2
    assert _run(str(DOOR), "kernel", cwd=tmp_path).returncode == 2


def test_help_of_a_verb_is_what_the_verb_says(tmp_path: Path) -> None:
    """It printed the list of verbs, whatever came behind it."""
    for words in (["top"], ["bench", "run"], ["kernel", "check"]):
        asked, said = _run(str(DOOR), "help", *words, cwd=tmp_path), _run(str(DOOR), *words, "--help", cwd=tmp_path)
        assert (asked.returncode, asked.stdout) == (0, said.stdout)
        assert asked.stdout.startswith(f"usage: terrace {' '.join(words)} [-h]")
    assert "usage: terrace [--yes] VERB" in _run(str(DOOR), "help", cwd=tmp_path).stdout
    wrong = _run(str(DOOR), "help", "bnech", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no subcommand 'bnech'; did you mean bench? the subcommands are" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("stattuss", "no subcommand 'stattuss'; did you mean status? the subcommands are demo"),
        ("bench listt", "; did you mean list?"),
        ("bench run smoke --sises 32M", "unrecognized arguments: --sises 32M; did you mean --sizes"),
        ("kernel check --lits", "unrecognized arguments: --lits; did you mean --list"),
        ("kernel check sizze", "no check 'sizze'; did you mean size"),
        ("bench run smok --dry-run", "no experiment 'smok'; did you mean smoke"),
        ("lab run --topology three-teir --dry-run -- true", "no topology 'three-teir'; did you mean three-tier"),
        ("set promote.rat_mbps 5", "no knob 'promote.rat_mbps'; did you mean promote.rate_mbps"),
        ("top --by procss", "did you mean process"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(words: str, hint: str, tmp_path: Path) -> None:
    done = _run(str(DOOR), *words.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr


def test_what_is_like_nothing_gets_none() -> None:
    assert did_you_mean("fly", ["demo", "test", "bench"]) == ""
    assert (
        did_you_mean("delya", ["scan.delay_ms", "delay"], {"delay": "scan.delay_ms"}) == "did you mean scan.delay_ms? "
    )


def test_yes_is_taken_where_options_are_and_not_from_a_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`bench list --yes` was refused, and `exec -- apt --yes` counted as a yes to the tool."""
    for words in (["--yes", "lab", "list"], ["lab", "--yes", "list"], ["lab", "list", "--yes"]):
        monkeypatch.delenv("TERRACE_YES", raising=False)
        assert door._run(words) == 0
        assert os.environ.pop("TERRACE_YES") == "1"
    assert door._run(["lab", "run", "--dry-run", "apt", "--yes"]) == 0
    assert "TERRACE_YES" not in os.environ
    capsys.readouterr()


def test_old_python_is_refused_in_words(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("readlink", "sh"):
        (tools / name).symlink_to(f"/bin/{name}")
    (tools / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tools / "python3").chmod(0o755)
    done = _run(str(DOOR), "--help", cwd=tmp_path, env={"PATH": str(tools)})
    assert done.returncode == 3
    assert "no Python of at least 3.11" in done.stderr


@pytest.mark.clock
def test_ends_in_order_when_told_to() -> None:
    code = (
        "import os, signal, sys, time; sys.path.insert(0, 'src'); from terrace import __main__ as door\n"
        "def run(words):\n"
        "    try: os.kill(os.getpid(), signal.SIGTERM); time.sleep(30)\n"
        "    finally: print('cleaned up')\n"
        "door._run = run; sys.exit(door.main([]))"
    )
    done = _run(sys.executable, "-c", code, cwd=paths.repo_root())
    assert (done.returncode, done.stdout) == (143, "cleaned up\n")


def _into_a_closed_pipe(cwd: Path, *words: str, stream: str = "stdout") -> "subprocess.CompletedProcess[str]":
    """Run with `stream` into a pipe whose read end is closed: no race with a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writer}
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd)}
    try:
        return subprocess.run([str(DOOR), *words], cwd=cwd, env=env, text=True, check=False, **streams)  # type: ignore[call-overload,no-any-return]
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["kernel", "--help"],
        ["kernel", "check", "--list"],
        ["set", "--list"],
        ["status", "--interval", "0"],
        ["features"],
        ["doctor"],
        ["lab", "list"],
        ["bench", "list"],
        ["top", "--interval", "0.001", "--json"],
    ],
    ids=" ".join,
)
def test_a_closed_pipe_is_silent(words: list[str], tmp_path: Path) -> None:
    done = _into_a_closed_pipe(tmp_path, *words)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_mistake_has_its_exit_code_though_nobody_hears_of_it(tmp_path: Path) -> None:
    for words, code in ((["lab", "run"], 2), (["bench", "run", "nothing", "--dry-run"], 2), (["set", "--loud"], 2)):
        done = _into_a_closed_pipe(tmp_path, *words, stream="stderr")
        assert (done.returncode, done.stdout) == (code, ""), words


def test_a_mistake_on_a_closed_stream_is_no_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Python 3.11.2 of Debian 12, whose argparse raises, a mistake ended as a closed pipe does."""

    def as_in_3_11_2(self: argparse.ArgumentParser, message: str, file: TextIO | None = None) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(argparse.ArgumentParser, "_print_message", as_in_3_11_2)
    with pytest.raises(SystemExit) as ended:
        Parser(prog="x").parse_args(["--loud"])
    assert ended.value.code == 2


def test_streams_that_were_closed_from_the_start_are_no_traceback(tmp_path: Path) -> None:
    for streams in (">&-", "2>&-", ">&- 2>&-"):
        done = _run("sh", "-c", f'"$1" --help {streams}', "sh", str(DOOR), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), streams


def test_a_program_that_exec_starts_ends_by_a_closed_pipe(tmp_path: Path) -> None:
    """Python ignores SIGPIPE, and so did whatever it became: `terrace exec -- yes | head -1` ended with an error."""
    done = _into_a_closed_pipe(tmp_path, "exec", "--", "yes")
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


@pytest.fixture
def fake_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with a dpkg-query that knows only `flex`, and an apt-get that writes down its call."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "dpkg-query").write_text(
        f"#!/bin/sh\necho 'installed flex'\ntest -f {tmp_path}/apt && echo 'installed bc'\n"
    )
    (tools / "apt-get").write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/apt"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    for name in ("env", "sh"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(host, "_DPKG_STATUS", tmp_path / "status")
    monkeypatch.setattr(host, "_APT_LISTS", tmp_path / "lists")
    (tmp_path / "status").touch()
    return tmp_path


def test_missing_package_without_root_or_sudo_is_named(fake_tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingError, match=r"needed to x: the Debian packages bc; (.|\n)*As root: apt-get install bc"):
        host.require_packages(["flex", "bc"], "x")


def test_nothing_is_installed_unasked(fake_tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal there is nobody to agree: it installed all the same."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    monkeypatch.delenv("TERRACE_YES", raising=False)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(MissingError, match=r"packages bc; no terminal to ask on, and no --yes"):
        host.require_packages(["flex", "bc"], "x")
    assert not (fake_tools / "apt").exists()


def test_missing_package_is_installed_once(fake_tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("TERRACE_YES", "1")
    host.require_packages(["flex", "bc"], "x")
    calls = (fake_tools / "apt").read_text()
    assert calls == "update\ninstall --yes --no-install-recommends -o DPkg::Lock::Timeout=300 bc\n"
    (fake_tools / "bin/dpkg-query").write_text("#!/bin/sh\nexit 1\n")
    host.require_packages(["flex", "bc"], "x")
    assert (fake_tools / "apt").read_text() == calls


def test_two_that_miss_the_same_package_install_it_once(fake_tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a bare machine the demo's first two guests ran apt-get at once, and the second could not get its lock."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("TERRACE_YES", "1")
    together = threading.Barrier(2)
    real = host.missing_packages

    def missing(packages: Sequence[str]) -> list[str]:
        found = real(packages)
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(timeout=1)
        return found

    monkeypatch.setattr(host, "missing_packages", missing)
    threads = [threading.Thread(target=host.require_packages, args=(["flex", "bc"], "x")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (fake_tools / "apt").read_text().count("install --yes") == 1


def test_table_aligns_numbers() -> None:
    text = output.format_table([("a", 1), ("long", 22)], ("name", "count"))
    assert text == "name  count\na         1\nlong     22"


@pytest.mark.parametrize(("seconds", "text"), [(0.84, "0.8 s"), (42, "42 s"), (125, "2 min 5 s"), (7500, "2 h 5 min")])
def test_durations(seconds: float, text: str) -> None:
    assert output.format_duration(seconds) == text


def test_kernel_trees_are_never_below_a_path_with_a_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's Makefile refuses such a source folder."""
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path / "cache"))
    for name in ("plain", "with a space", "with:colon"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(paths, "repo_root", lambda: tmp_path / "plain")
    assert paths.trees_dir() == paths.build_dir()
    found = set()
    for name in ("with a space", "with:colon"):
        monkeypatch.setattr(paths, "repo_root", lambda name=name: tmp_path / name)
        found.add(paths.trees_dir())
    assert len(found) == 2 and all(path.parent == tmp_path / "cache" / "trees" for path in found)


def test_what_a_read_only_checkout_builds_is_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a/build").mkdir(parents=True)
    monkeypatch.setattr(paths, "repo_root", lambda: tmp_path / "a")
    assert paths.build_dir() == tmp_path / "a/build"
    with monkeypatch.context() as mounted:
        mounted.setattr(os, "access", lambda path, mode: False)
        assert paths.build_dir().parent == tmp_path / "cache" / "checkouts"
    found = set()
    # Nobody makes a folder there, not even root.
    for name in ("self", "1"):
        monkeypatch.setattr(paths, "repo_root", lambda name=name: Path("/proc") / name)
        found.add(paths.build_dir())
        assert paths.trees_dir() == paths.build_dir()
    assert len(found) == 2 and all(path.parent == tmp_path / "cache" / "checkouts" for path in found)


def test_make_builds_where_no_space_is_though_home_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's Makefile refused the checkout's folder, and then the one in the cache."""
    monkeypatch.setenv("TERRACE_CACHE", str(tmp_path / "my cache"))
    monkeypatch.setattr(paths, "_VAR_TMP", tmp_path)
    monkeypatch.setattr(paths, "repo_root", lambda: tmp_path / "my tree")
    (tmp_path / "my tree").mkdir()
    mine = tmp_path / f"terrace-{os.getuid()}"
    assert paths.trees_dir().parent == mine / "trees"
    assert paths.make_dir("policy").parent == mine / "policy"
    assert mine.stat().st_mode & 0o777 == 0o700
    mine.chmod(0o777)
    with pytest.raises(UsageError, match=r"my cache: make cannot build(.|\n)*TERRACE_CACHE="):
        paths.trees_dir()
    shutil.rmtree(mine)
    mine.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="that you alone can write to"):
        paths.trees_dir()

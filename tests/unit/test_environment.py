# SPDX-License-Identifier: GPL-2.0
"""Tests have one environment (fixed_environment.py), and give the same verdict whatever that of their caller is."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fixed_environment import FIXED, KEPT, KEPT_PREFIX
from pty_screen import Terminal

from terrace.host import clean_env
from terrace.paths import repo_root
from terrace.testing import host_groups

# Each reads a part of the environment, or failed in a hostile one before there was a fixed one.
SENSITIVE = [
    "tests/unit/test_environment.py::test_a_process_that_a_test_starts",
    "tests/unit/test_environment.py::test_a_program_on_a_terminal",
    "tests/unit/test_environment.py::test_this_process",
    "tests/unit/test_top_screen.py::test_the_terminal_is_left_as_it_was",
    "tests/unit/test_apply.py::test_the_unit_is_one_that_systemd_takes",
    "tests/unit/test_installed.py::test_a_repository_around_a_wheel_gives_its_patches_no_date",
    "tests/unit/test_kernel_tree.py::test_edits_come_back",
    "tests/unit/test_packages.py::test_versions_grow_with_commits",
]
# As a shell script would: `trap ''` ignores a signal, `<&-` closes standard input.
IGNORED = "HUP INT QUIT TERM PIPE TSTP TTIN TTOU USR1 USR2 ALRM CHLD CONT"
STRANGE = """
LC_ALL=C LANG=de_DE LANGUAGE=de TZ=Asia/Kolkata TERM=dumb COLUMNS=20 LINES=5 NO_COLOR=1 PAGER=false
HOME=/dev/null/none XDG_CONFIG_HOME=/dev/null/none XDG_RUNTIME_DIR=/dev/null/none PYTHONPATH=/dev/null/none
GIT_DIR=/dev/null/none GIT_INDEX_FILE=/dev/null/none GIT_AUTHOR_DATE=yesterday MAKEFLAGS=-kj1 CC=false CFLAGS=-Werror
PYTHONWARNINGS=always CI=1 TERRACE_STRETCH=9 TERRACE_ONLY=x
"""
HOSTILE = {"every variable is strange": (STRANGE, "umask 077"), "none is set": ("", "umask 0")}


def signals_of(status: str) -> tuple[int, int]:
    """The masks of ignored and of blocked signals in a /proc/PID/status."""
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if line.startswith("Sig"))
    return int(fields["SigIgn"], 16), int(fields["SigBlk"], 16)


def test_this_process() -> None:
    unknown = {name for name in os.environ if name not in KEPT | FIXED.keys() and not name.startswith(KEPT_PREFIX)}
    assert unknown == {"HOME", "MPLCONFIGDIR", "TERRACE_CACHE"}
    assert {name: os.environ[name] for name in FIXED} == FIXED
    # Programs that tests start may write to it: a build of the kernel asks for rustc, and rustup then makes a folder.
    assert Path(os.environ["HOME"]).name.startswith("terrace-home-")
    assert time.strftime("%Z", time.localtime(0)) == "UTC"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_process_that_a_test_starts() -> None:
    words = ["sh", "-c", "cat /proc/self/status; umask"]
    *status, umask = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert (signals_of("\n".join(status)), umask) == ((0, 0), "0022")


@pytest.mark.clock
def test_a_program_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its signals have their default effect even where those of Python or of a test do not."""
    monkeypatch.setenv("COLUMNS", "20")
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN), os.umask(0o077)
    try:
        terminal = Terminal(["/bin/sh", "-c", "cat /proc/self/status; umask; env"], lines=200)
    finally:
        signal.signal(signal.SIGHUP, before[0])
        os.umask(before[1])
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    assert terminal.end() == 0
    terminal.close()
    assert signals_of(terminal.sent.decode().replace("\r", "")) == (0, 0)
    lines = [line.rstrip() for line in terminal.screen.display]
    assert "0022" in lines and "TERM=xterm-256color" in lines and not terminal.text.count("COLUMNS")


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_environment_changes_no_verdict(kind: str, tmp_path: Path) -> None:
    text, setup = HOSTILE[kind]
    variables = dict(word.split("=", 1) for word in text.split())
    kept = {name: os.environ[name] for name in ("PATH", "TERRACE_CACHE") if name in os.environ}
    pytest_words = [sys.executable, "-m", "pytest", "-q", f"--basetemp={tmp_path}/tests", *SENSITIVE]
    script = f"trap '' {IGNORED}; {setup}; exec {shlex.join(pytest_words)} <&-"
    done = subprocess.run(
        ["sh", "-c", script], env=kept | variables, cwd=repo_root(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "failed" not in done.stdout, done.stdout + done.stderr


def test_what_a_group_runs_has_default_signals_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of tests/lab and tests/packages, which have no such environment."""
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--co")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN), os.umask(0o077)
    try:
        code, text = host_groups._run(["sh", "-c", "cat /proc/self/status; umask; env"], 60)
    finally:
        signal.signal(signal.SIGHUP, before[0])
        os.umask(before[1])
    assert (code, signals_of(text)) == (0, (0, 0))
    assert "\n0022\n" in text and not {"PYTHONOPTIMIZE", "PYTEST_ADDOPTS"} & set(text.replace("=", "\n").split())


def test_tests_without_assertions_are_refused() -> None:
    words = [sys.executable, "-O", "-m", "pytest", "-q", SENSITIVE[2]]
    done = subprocess.run(words, cwd=repo_root(), capture_output=True, text=True, check=False)
    assert done.returncode == 4 and "these tests could not fail" in done.stderr


def test_git_works_on_its_folder_in_a_hook_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git sets variables for its hooks that overrule the folder in which it is called."""
    listed = subprocess.run(["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        monkeypatch.setenv(name, str(tmp_path / "not there"))
    # These two pass configuration, and name no repository.
    monkeypatch.delenv("GIT_CONFIG_PARAMETERS", raising=False)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "0")
    subprocess.run(["git", "init", "-q", str(tmp_path / "here")], check=True, env=clean_env())
    words = ["git", "-C", str(tmp_path / "here"), "rev-parse", "--show-toplevel"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=clean_env())
    assert done.stdout.strip() == str(tmp_path / "here")

# SPDX-License-Identifier: GPL-2.0
"""The groups without a guest: unit tests (pytest), lint, the decision code in user space, and its mutants."""

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from terrace import venv
from terrace.host import clean_env
from terrace.paths import make_dir, repo_root
from terrace.progress import Progress
from terrace.testing.links import link_problems
from terrace.testing.results import TestResult
from terrace.testing.select import Selector
from terrace.testing.static_list import static_tests
from terrace.testing.tap import leaves, parse_tap

POLICY = Path("linux/tools/testing/mtier")
# The last one includes a kernel with Debian's configuration: 20 min for that alone.
_PYTEST_LIMIT_S = {"unit": 1500, "lab": 5400, "packages": 10800.0}
_LIST_LIMIT_S = 600
_TOOL_LIMIT_S = 600
# Six minutes on two slow cores that do other work as well.
_MUTANTS_LIMIT_S = 3600
_LAST_WORDS_S = 60
_TAIL_LINES = 40
_PYTEST = (sys.executable, "-m", "pytest")
# More workers take memory without a gain: some tests take as long as a worker's share of the
# others.
_MAX_WORKERS = 8
# pytest's exit code if it has found no test.
_NO_TESTS = 5


def _run(
    words: Sequence[str],
    limit_s: float,
    extra: Mapping[str, str] | None = None,
    root: Path | None = None,
    watch: Callable[[str], None] | None = None,
) -> tuple[int, str]:
    """Run a command in the repository or another folder; return exit code and output; 124 if it
    took more than `limit_s`.

    After that time it is interrupted, as by Ctrl-C, so that it prints its results so far, and
    killed if it does not end. Signals, umask and the variables of Python and pytest are not
    inherited from the caller, so that a verdict does not depend on them. `watch` is called with
    each line of the output as it is printed, in another thread.
    """
    inherited = {name: value for name, value in clean_env().items() if not name.startswith(("PYTHON", "PYTEST_"))}
    child = subprocess.Popen(
        words,
        cwd=root or repo_root(),
        env={**inherited, **(extra or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        umask=0o022,
        preexec_fn=_default_signals,
    )
    output = _Output(child, watch)
    try:
        return _end(output, limit_s), output.text()
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            _end(output, _LAST_WORDS_S)
    finally:
        # Without effect on a child that has ended.
        child.kill()
        child.wait()
    return 124, f"{output.text()}\ndid not end within {limit_s:g} s"


def _default_signals() -> None:
    """Reset signals in the child: a background job of a shell ignores Ctrl-C, `nohup` ignores
    hangups, and children inherit that.
    """
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


class _Output:
    """The output of a child, which a thread reads until all writers have closed it.

    Processes left behind by a killed child can keep it open: nothing waits for them.
    """

    def __init__(self, child: "subprocess.Popen[bytes]", watch: Callable[[str], None] | None) -> None:
        self.child = child
        self._lines: list[bytes] = []
        self._watch = watch
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        with self.child.stdout as lines:
            for line in lines:
                self._lines.append(line)
                if self._watch:
                    self._watch(line.decode(errors="replace"))

    def wait(self, limit_s: float | None) -> int:
        """Get the exit code; raises TimeoutExpired if child or output have not ended within that time."""
        until = None if limit_s is None else time.monotonic() + limit_s
        self._reader.join(limit_s)
        if self._reader.is_alive():
            raise subprocess.TimeoutExpired(self.child.args, limit_s or 0)
        return self.child.wait(None if until is None else max(0.0, until - time.monotonic()))

    def text(self) -> str:
        return b"".join(self._lines).decode(errors="replace")


def _end(output: _Output, limit_s: float | None) -> int:
    """Get the exit code of a child, which ends within that time."""
    return output.wait(limit_s)


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-_TAIL_LINES:])


# ---- pytest ----


def list_pytest(folder: str) -> list[str]:
    """List the tests of a folder, as pytest names them; by function if pytest is not installed."""
    if not venv.is_entered("test"):
        return static_tests(repo_root(), folder)
    code, text = _run([*_PYTEST, "--collect-only", "-q", folder], _LIST_LIMIT_S)
    return [line for line in text.splitlines() if "::" in line] if code in (0, 5) else []


def run_pytest(
    group: str,
    folder: str,
    wanted: Selector,
    all_wanted: bool,
    extra: Mapping[str, str] | None = None,
    without: Sequence[str] | None = None,
) -> Iterator[TestResult]:
    """Run the tests of a folder; `extra` is added to their environment.

    `without` is None except in the gate: tests to leave out there, where property tests use the
    same input each time.
    """
    if not (repo_root() / folder).is_dir():
        yield TestResult(group, group, "skip", f"there is no {folder}")
        return
    chosen = [folder]
    if not all_wanted:
        chosen = [name for name in list_pytest(folder) if wanted(f"{group}/{name}")]
        if not chosen:
            return
    if without is not None:
        chosen += ["--hypothesis-profile=gate", *(f"--deselect={name}" for name in without)]
    parts = _parts(len(os.sched_getaffinity(0))) if group == "unit" and all_wanted else [()]
    empty = 0
    for part in parts:
        code, text, results = _run_part(group, [*part, *chosen], extra or {})
        yield from results
        # No test of this kind.
        if code == _NO_TESTS and empty < len(parts) - 1:
            empty += 1
            continue
        failed = any(result.status == "fail" for result in results)
        if code not in (0, 1) or (code == 1 and not failed) or not results:
            yield TestResult(group, "pytest", "fail", f"pytest ended with {code}\n{_tail(text)}", final=True)


def _parts(cpus: int) -> list[tuple[str, ...]]:
    """Get the options of each run of pytest that the unit group makes with this number of CPUs.

    First the tests that run in parallel, then those with terminals, sockets and signals
    (pytest.mark.clock), one at a time. With one CPU there is one run only.
    """
    if cpus == 1:
        return [()]
    workers = min(cpus, _MAX_WORKERS)
    return [(f"--numprocesses={workers}", "--dist=worksteal", "-m", "not clock"), ("-m", "clock")]


def _run_part(group: str, words: Sequence[str], extra: Mapping[str, str]) -> tuple[int, str, list[TestResult]]:
    """Run pytest once; return its exit code, its output, and the result of each test."""
    with tempfile.TemporaryDirectory(prefix="terrace-test-") as scratch:
        # Temporary files of the tests are deleted with this folder. The root of a guest reads it
        # like any other user.
        Path(scratch).chmod(0o755)
        report = Path(scratch) / "report.xml"
        full = [*_PYTEST, "-q", f"--junitxml={report}", "-o", "junit_family=xunit1", *words]
        with Progress(f"{group} tests", 100) as progress:
            code, text = _run(full, _PYTEST_LIMIT_S[group], {**extra, "TMPDIR": scratch}, watch=_percents(progress))
        return code, text, list(_read_junit(group, report)) if report.exists() else []


def _percents(progress: Progress) -> Callable[[str], None]:
    """Update a progress from the lines of `pytest -q`, which end with `[ 42%]`."""

    def watch(line: str) -> None:
        if found := re.search(r"\[ *(\d+)%\]$", line):
            progress.update(int(found[1]))

    return watch


def run_pytest_in(root: Path, node: str, group: str = "unit") -> list[TestResult]:
    """Run one test, or one file of them, of another checkout."""
    report = root / "build" / "report.xml"
    report.unlink(missing_ok=True)
    words = [*_PYTEST, "-q", f"--junitxml={report}", "-o", "junit_family=xunit1", "--hypothesis-profile=gate", node]
    code, text = _run(words, _PYTEST_LIMIT_S["unit"], root=root)
    results = list(_read_junit(group, report)) if report.exists() else []
    if code not in (0, 1) or not results:
        results.append(TestResult(group, "pytest", "fail", f"pytest ended with {code}\n{_tail(text)}", final=True))
    return results


def _read_junit(group: str, report: Path) -> Iterator[TestResult]:
    for case in ElementTree.parse(report).iter("testcase"):
        if case.get("name") is None:
            # Interrupted before its end.
            continue
        status, detail = "pass", ""
        for kind, meaning in (("failure", "fail"), ("error", "fail"), ("skipped", "skip")):
            found = case.find(kind)
            if found is not None:
                status = meaning
                message = found.get("message") or ""
                detail = message if meaning == "skip" else found.text or message
        yield TestResult(group, _node_id(case), status, detail, float(case.get("time", "0")))


def _node_id(case: ElementTree.Element) -> str:
    """Get the name of a test for pytest's command line: FILE::CLASS::NAME.

    Not the report's `file`, which for a state machine of hypothesis is a file of hypothesis.
    """
    words = case.get("classname", "").split(".")
    for count in range(len(words), 0, -1):
        file = "/".join(words[:count]) + ".py"
        if (repo_root() / file).is_file():
            return "::".join([file, *words[count:], case.get("name", "")])
    return f"{case.get('file')}::{case.get('name')}"


# ---- lint ----


def lint_checks() -> dict[str, list[str]]:
    """Get the checks by name, each a command that exits with 0 without findings; those of _OF_FILES have no command."""
    python = [sys.executable, "-m"]
    return {
        "ruff": [*python, "ruff", "check", "--no-cache", "."],
        "ruff-format": [*python, "ruff", "format", "--no-cache", "--check", "."],
        "mypy": [*python, "mypy"],
        "vulture": [*python, "vulture"],
        "codespell": [*python, "codespell_lib", *_spelled()],
        "shellcheck": ["shellcheck", *_shell_scripts()],
        **{name: [] for name in _OF_FILES},
    }


def run_lint(wanted: Selector, group: str = "lint") -> Iterator[TestResult]:
    """Every check is a test."""
    for name, words in lint_checks().items():
        if not wanted(f"{group}/{name}"):
            continue
        began = time.monotonic()
        if name in _OF_FILES:
            problems = _OF_FILES[name](repo_root(), _tracked())
            yield TestResult(group, name, "fail" if problems else "pass", "\n".join(problems))
            continue
        program = _tool(words[0])
        if not program:
            yield TestResult(group, name, "skip", f"{words[0]} is not installed")
            continue
        code, text = _run([program, *words[1:]], _TOOL_LIMIT_S)
        took = time.monotonic() - began
        yield TestResult(group, name, "fail" if code else "pass", _tail(text) if code else "", took)


def _tool(name: str) -> str | None:
    """Find a program by path or name; programs of the test environment come before those of the machine."""
    if os.path.isabs(name):
        return name
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def _tracked() -> list[str]:
    """List the files of the repository: tracked by git, or new and not ignored."""
    code, text = _run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], _TOOL_LIMIT_S)
    names = text.splitlines() if code == 0 else []
    return [name for name in names if (repo_root() / name).is_file()]


def _shell_scripts() -> list[str]:
    found = []
    for name in _tracked():
        with open(repo_root() / name, "rb") as file:
            first = file.readline(80)
        if name.endswith(".sh") or (first.startswith(b"#!") and first.split()[-1].endswith((b"/sh", b"bash"))):
            found.append(name)
    return found


def _spelled() -> list[str]:
    return [name for name in _tracked() if name.endswith((".md", ".py", ".c", ".h", ".toml", ".config", ".rst"))]


_MAX_LINES = 700
_NO_SPDX = (
    *(".json", ".patch", ".md", ".svg", ".png", ".txt", "LICENSES/", "linux/Documentation/ABI/"),
    # Debian's format of these files has no comments.
    *("debian/changelog", "debian/copyright", "debian/source/format"),
)
_COUNTED = (".py", ".c", ".h", ".sh")


def house_problems(root: Path, names: Sequence[str]) -> list[str]:
    """Check the repository rules: every file has an SPDX line and at most 700 lines."""
    problems = []
    for name in names:
        try:
            lines = (root / name).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        if name.endswith(_COUNTED) and len(lines) > _MAX_LINES:
            problems.append(f"{name}: {len(lines)} lines; a file has at most {_MAX_LINES}, split it")
        exempt = any(name.endswith(end) or name.startswith(end) for end in _NO_SPDX)
        if not exempt and lines and not any("SPDX-License-Identifier" in line for line in lines[:5]):
            problems.append(f"{name}: no SPDX-License-Identifier in the first 5 lines")
    return problems


# Checks without a command: functions of the root and the names of all files that return problems.
_OF_FILES: dict[str, Callable[[Path, Sequence[str]], list[str]]] = {"house": house_problems, "links": link_problems}


# ---- the decision code in user space ----


def run_policy(
    wanted: Selector, group: str = "policy", root: Path | None = None, out: Path | None = None
) -> Iterator[TestResult]:
    """Run `make check` of the decision code under the sanitizers; its cases are the tests.

    `root` is another checkout than this, `out` the folder for its build.
    """
    folder = (root or repo_root()) / POLICY
    if not (folder / "Makefile").is_file():
        yield TestResult(group, group, "skip", f"there is no {POLICY}/Makefile")
        return
    began = time.monotonic()
    code, text = _run(["make", "-s", "-C", str(folder), f"O={out or make_dir('policy')}", "check"], _TOOL_LIMIT_S)
    report = parse_tap(text.splitlines())
    results = [TestResult(group, name, tap.status, tap.note) for name, tap in leaves(report.results, 1)]
    yield from (result for result in results if wanted(f"{group}/{result.name}"))
    failed = any(result.status == "fail" for result in results)
    if report.problems or not results or (code and not failed):
        detail = "\n".join([f"make check ended with {code}", *report.problems, _tail(text)])
        yield TestResult(group, "make-check", "fail", detail, time.monotonic() - began, final=True)


# ---- mutants of the decision code in user space ----

# A line of mutants.py: the mutant, and the test cases that failed with it.
_MUTANT = re.compile(r"(caught|SURVIVED) +(\S.*?)  +(\S.*)?$")


def policy_mutant_names() -> list[str]:
    """Get the names of the mutants of the decision code, in the order in which they run."""
    return [mutant.name for mutant in runpy.run_path(str(repo_root() / POLICY / "mutants.py"))["MUTANTS"]]


def run_policy_mutants(wanted: Selector, group: str = "policy-mutants") -> Iterator[TestResult]:
    """Run `make mutants` of the decision code; each mutant is a test, and fails if all test cases pass."""
    names = [name for name in policy_mutant_names() if wanted(f"{group}/{name}")]
    if not names:
        return
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="terrace-test-") as scratch,
        Progress("mutants of the decision code", len(names)) as progress,
    ):
        only = Path(scratch) / "only"
        only.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
        words = ["make", "-s", "-C", str(repo_root() / POLICY), f"O={make_dir('policy')}", f"ONLY={only}", "mutants"]
        code, text = _run(words, _MUTANTS_LIMIT_S, watch=_steps(progress))
    lines = [(line, _MUTANT.match(line)) for line in text.splitlines()]
    results = [_judge_mutant(group, match) for _, match in lines if match]
    yield from results
    failed = any(result.status == "fail" for result in results)
    if len(results) != len(names) or (code and not failed):
        others = _tail("\n".join(line for line, match in lines if not match))
        detail = f"make mutants ended with {code}, after {len(results)} of {len(names)} mutants\n{others}"
        yield TestResult(group, "make-mutants", "fail", detail, time.monotonic() - began, final=True)


def _steps(progress: Progress) -> Callable[[str], None]:
    """Update a progress from the lines of mutants.py."""

    def watch(line: str) -> None:
        if _MUTANT.match(line):
            progress.step()

    return watch


def _judge_mutant(group: str, match: re.Match[str]) -> TestResult:
    if match[1] == "caught":
        return TestResult(group, match[2], "pass", f"caught by {match[3]}")
    return TestResult(group, match[2], "fail", "survived: all test cases pass with it")

# SPDX-License-Identifier: GPL-2.0
"""Public test suites of memory policies, unchanged, on the Terrace kernel and on stock for comparison."""

from __future__ import annotations

import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace import stored
from terrace.errors import BuildError
from terrace.host import clean_env, cpu_count, require_packages
from terrace.lab.run import GuestResult, run_in_guest
from terrace.paths import make_cache_dir
from terrace.testing.results import TestResult
from terrace.testing.select import Selector

GROUP = "suites"
#: Two nodes with CPUs, the machine these suites were written for.
TOPOLOGY = "seed-003-two-socket"
_LIMIT_S = 3600.0
_OUTPUT_LINES = 30
_SKIPPED = 77
_STRESS = "stress-ng"
_NUMACTL_PACKAGES = ("build-essential", "autoconf", "automake", "libtool", "bc")

#: numactl's `make check` (TESTS in its Makefile.am), and programs that it also builds and that are
#: run by hand. Without numademo, which measures bandwidth and takes more than a quarter of an hour
#: in a guest without hardware virtualisation.
NUMACTL = (
    "test/bind_range",
    "test/checkaffinity",
    "test/checktopology",
    "test/distance",
    "test/move_pages",
    "test/nodemap",
    "test/regress",
    "test/tbitmap",
    "test/mbind_mig_pages",
    "test/migrate_pages",
    "test/realloc_test",
    "test/tshared",
)
#: Every call of this family with valid and invalid arguments, from two processes at once.
STRESSORS = ("numa",)


@dataclass(frozen=True)
class _Ran:
    """Result of one test: its exit code, None if it did not end, and its last lines."""

    code: int | None
    lines: tuple[str, ...] = ()


def suite_names() -> list[str]:
    """List the tests, by suite."""
    return [*(f"numactl/{Path(name).name}" for name in NUMACTL), *(f"stress-ng/{name}" for name in STRESSORS)]


def require_suites(names: Sequence[str]) -> None:
    """Install the Debian packages of the tests `names`. Raises MissingError; call it before a kernel is built."""
    if any(name.startswith("numactl/") for name in names):
        require_packages(_NUMACTL_PACKAGES, "build numactl's own regression tests")
    if any(name.startswith("stress-ng/") for name in names):
        require_packages([_STRESS], "run its stressors of memory policies")


def run_suites(kernels: dict[str, Path], wanted: Selector, note: Callable[[str], None]) -> Iterator[TestResult]:
    """Run the wanted tests on each of `kernels`, by flavour; the last one is judged by comparison
    with the others.

    A test that fails in the same way on stock proves nothing about the Terrace kernel: it is
    skipped, with that reason.
    """
    commands = {
        name: command
        for name, command in {**_numactl_commands(), **_stress_commands()}.items()
        if wanted(f"{GROUP}/{name}")
    }
    if not commands:
        return
    ran = {}
    for flavour, vmlinux in kernels.items():
        note(f"{len(commands)} tests on {flavour}")
        ran[flavour] = _run_all(vmlinux, commands)
    *others, judged = kernels
    for name in commands:
        yield _judge(name, ran[judged][name], {flavour: ran[flavour][name] for flavour in others})


def _judge(name: str, ours: _Ran, others: dict[str, _Ran]) -> TestResult:
    if ours.code == 0:
        return TestResult(GROUP, name, "pass", "")
    beside = ", ".join(f"{flavour}: {_told(ran)}" for flavour, ran in others.items())
    text = "\n".join([f"{_told(ours)} ({beside})", *ours.lines])
    same = ours.code is not None and all(ran.code == ours.code for ran in others.values())
    return TestResult(GROUP, name, "skip" if same else "fail", text)


def _told(ran: _Ran) -> str:
    if ran.code is None:
        return "did not end"
    return {0: "passed", _SKIPPED: "skipped itself"}.get(ran.code, f"ended with {ran.code}")


def _run_all(vmlinux: Path, commands: dict[str, str]) -> dict[str, _Ran]:
    """Run all of them in one boot, each in its own process group, with separate outputs."""
    mark = f"@{secrets.token_hex(6)}"
    script = "".join(
        f"echo {mark} start {shlex.quote(name)}; setsid sh -c {shlex.quote(command)} </dev/null 2>&1; "
        f"echo; echo {mark} end $?\n"
        for name, command in commands.items()
    )
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
        file.write(script)
        file.flush()
        guest = run_in_guest(vmlinux, TOPOLOGY, ["sh", file.name], cwd="/", root="overlay", timeout_s=_LIMIT_S)
    return _taken_apart(guest, mark, commands)


def _taken_apart(guest: GuestResult, mark: str, commands: dict[str, str]) -> dict[str, _Ran]:
    ran = {}
    for part in guest.stdout.decode(errors="replace").split(f"{mark} start ")[1:]:
        name, _, rest = part.partition("\n")
        body, _, code = rest.partition(f"{mark} end ")
        lines = tuple(line for line in body.splitlines() if line.strip())[-_OUTPUT_LINES:]
        ran[name] = _Ran(int(code) if code.strip() else None, lines)
    # A kernel report ends the boot for all tests that were running.
    reports = tuple(report.title for report in guest.reports)
    if reports:
        ran = {name: _Ran(None, (*reports, *one.lines)) for name, one in ran.items()}
    lost = _Ran(None, (guest.explain() or "the guest ended before this one",))
    return {name: ran.get(name, lost) for name in commands}


# ---- numactl, from its Debian source package ----


def _numactl_commands() -> dict[str, str]:
    folder = _numactl()
    return {
        f"numactl/{Path(name).name}": f"cd {shlex.quote(str(folder))} && builddir=. srcdir=. timeout 900 {name}"
        for name in NUMACTL
    }


def _numactl() -> Path:
    """Build its sources as its README describes; kept in the cache. Raises MissingError, BuildError."""
    target = make_cache_dir() / "suites" / "numactl"
    if (target / ".built").exists():
        return target
    require_packages(_NUMACTL_PACKAGES, "build numactl's own regression tests")
    target.parent.mkdir(exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        source = _debian_source("numactl", Path(scratch))
        for command in (["./autogen.sh"], ["./configure", "-q", "--disable-shared"], ["make", "-s"], _make_check()):
            _run(command, source)
        stored.sync_folder(source)
        (source / ".built").touch()
        source.rename(target)
    return target


def _make_check() -> list[str]:
    # No tests to run: only builds the test programs.
    return ["make", "-s", f"-j{cpu_count()}", "check", "TESTS="]


def _debian_source(package: str, folder: Path) -> Path:
    """Unpack the source of a Debian package, from the archives of this machine's own packages.

    Uses separate package lists, so that the machine's are unchanged.
    """
    for name in ("parts", "lists/partial", "cache/archives/partial", "source"):
        (folder / name).mkdir(parents=True)
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        if path.suffix in (".list", ".sources") and path.is_file():
            text = path.read_text()
            kind = r"^Types:.*$" if path.suffix == ".sources" else r"^deb\s"
            source = re.sub(
                kind, "Types: deb-src" if path.suffix == ".sources" else "deb-src ", text, flags=re.MULTILINE
            )
            (folder / "parts" / path.name).write_text(source)
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": str(folder / "parts"),
        "Dir::State::Lists": str(folder / "lists"),
        "Dir::Cache": str(folder / "cache"),
        "APT::Sandbox::User": "",
    }
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    _run(["apt-get", "-q", *words, "update"], folder / "source")
    _run(["apt-get", "-q", *words, "source", package], folder / "source")
    found = [path for path in (folder / "source").iterdir() if path.is_dir()]
    if len(found) != 1:
        raise BuildError(f"apt-get source {package} left {len(found)} folders")
    return found[0]


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=clean_env())
    if done.returncode:
        raise BuildError(f"{' '.join(command)}:\n{(done.stdout + done.stderr)[-2000:].strip()}")


# ---- stress-ng, as Debian has it ----


def _stress_commands() -> dict[str, str]:
    require_packages([_STRESS], "run its stressors of memory policies")
    return {
        f"stress-ng/{name}": f"cd /tmp && timeout 900 stress-ng --{name} 2 --timeout 10s --verify --oomable"
        for name in STRESSORS
    }

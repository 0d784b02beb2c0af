# SPDX-License-Identifier: GPL-2.0
"""The QEMU on the PATH: its version, its plugin interface, and whether Terrace's plugins work in it."""

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from terrace.errors import MissingError
from terrace.host import clean_env, require_packages
from terrace.lab.machine import QEMU

#: The versions in which the plugins work; the interface of a later version is not known yet.
WORKS = "7.2 to 11.1"
NEWEST_ABI = 7
_OLDEST = (7, 2)
# From this version on, a plugin gets the guest's physical address of an access
# (plugin/qemu_plugin_abi.h).
_PHYSICAL = (8, 2)
_TIMEOUT_S = 60.0
_VERSION = re.compile(r"version (\d+)\.(\d+)(?:\.(\d+))?")
_TOO_NEW_FOR_QEMU = re.compile(r"supports only up to version (\d+)")
_TOO_OLD_FOR_QEMU = re.compile(r"supports only a minimum version of (\d+)")
_PROBED = re.compile(r"^probe: vcpu=(\w*) clock=(\w*)$", re.MULTILINE)

#: Compiles the plugin `probe` for a version of the interface.
Compiler = Callable[[int], Path]


@dataclass(frozen=True)
class Emulator:
    """One QEMU. Versions compare as tuples of numbers."""

    path: Path
    version: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"QEMU {'.'.join(map(str, self.version))} ({self.path})"

    @property
    def tells_physical(self) -> bool:
        """Whether plugins get the guest's physical addresses."""
        return self.version >= _PHYSICAL


@dataclass(frozen=True)
class Plugins:
    """The plugin interface of a QEMU.

    `abi` is the version of the interface. `lacks_vcpu` and `lacks_clock` name functions that this
    QEMU does not export, which a plugin needs for the number of the running vCPU, and for a clock
    driven by the model. Empty: none is missing.
    """

    abi: int
    lacks_vcpu: str
    lacks_clock: str


def find_emulator() -> Emulator:
    """Find the QEMU that runs guests; install it if necessary.

    Raises MissingError if it cannot be installed or started, or is older than 7.2.
    """
    if not shutil.which(QEMU):
        require_packages(["qemu-system-x86"], "run guests")
    found = shutil.which(QEMU)
    if found is None:
        raise MissingError(f"no {QEMU} on the PATH; the Debian package qemu-system-x86 has it")
    path = Path(found)
    return _emulator(path, path.stat().st_mtime_ns)


@cache
def _emulator(path: Path, _mtime_ns: int) -> Emulator:
    said = _run(path, "--version")
    match = _VERSION.search(said)
    if not match:
        raise MissingError(f"{path} does not print its version: {_first_line(said)}; Terrace needs QEMU {WORKS}")
    emulator = Emulator(path, tuple(int(part) for part in match.groups() if part))
    if emulator.version < _OLDEST:
        raise MissingError(f"{emulator.name} is too old; Terrace works with QEMU {WORKS}")
    return emulator


def find_plugins(emulator: Emulator, compile_probe: Compiler) -> Plugins:
    """Get the plugin interface of `emulator`. Raises MissingError if Terrace's plugins do not work with it."""
    return _plugins(emulator, emulator.path.stat().st_mtime_ns, compile_probe)


@cache
def _plugins(emulator: Emulator, _mtime_ns: int, compile_probe: Compiler) -> Plugins:
    abi = NEWEST_ABI
    said = _load(emulator, compile_probe(abi))
    if (older := _TOO_NEW_FOR_QEMU.search(said)) and 1 <= int(older[1]) < NEWEST_ABI:
        abi = int(older[1])
        said = _load(emulator, compile_probe(abi))
    if newer := _TOO_OLD_FOR_QEMU.search(said):
        why = f"its plugin interface begins with version {newer[1]}, Terrace's plugins end with version {NEWEST_ABI}"
        raise MissingError(f"{emulator.name}: {why}; they work in QEMU {WORKS}")
    match = _PROBED.search(said)
    if not match:
        why = f"loads no plugins: {_first_line(said)}"
        raise MissingError(f"{emulator.name} {why}; Terrace's plugins work in QEMU {WORKS} as Debian builds it")
    return Plugins(abi, match[1], match[2])


def require_plugins(emulator: Emulator, plugins: Plugins, *, drives: bool) -> None:
    """Raise MissingError unless the plugins count correctly in this QEMU; `drives`: the model also drives its clock."""
    lacks = plugins.lacks_vcpu or (plugins.lacks_clock if drives else "")
    if lacks:
        what = "tell vCPUs apart" if plugins.lacks_vcpu else "drive the guest's clock"
        raise MissingError(
            f"{emulator.name} does not export {lacks}, without which a plugin cannot {what}; "
            f"QEMU {WORKS} that is built with modules, as Debian's is, does"
        )


def _load(emulator: Emulator, plugin: Path) -> str:
    words = ["-machine", "none", "-accel", "tcg", "-nodefaults", "-display", "none", "-S"]
    return _run(emulator.path, *words, "-plugin", str(plugin).replace(",", ",,"))


def _run(path: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            [str(path), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
            env=clean_env(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"{path} cannot be run: {error}; Terrace needs QEMU {WORKS}") from error
    return done.stdout


def _first_line(said: str) -> str:
    return said.strip().partition("\n")[0] or "it prints nothing"

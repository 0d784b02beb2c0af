# SPDX-License-Identifier: GPL-2.0
"""Find the selftest programs, and read their machine from the file header."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import UsageError
from terrace.kernel.source import find as find_source
from terrace.kernel.tree import stock
from terrace.paths import repo_root, trees_dir
from terrace.units import parse_time_ns

SELFTESTS = Path("linux/tools/testing/selftests/terrace")
_HEADER = re.compile(r"^[\s/*#]*lab:\s*(.*?)\s*(?:\*/)?\s*$")
_HEADER_LINES = 60
_KEYS = (
    "topology", "cpus", "append", "timeout", "icount", "clock", "debug", "static-keys", "memory-scale", "abi", "boot",
)  # fmt: skip
ABIS = ("i386", "x32")
DEFAULT_TIMEOUT_S = 60


@dataclass(frozen=True, order=True)
class MachineKey:
    """Properties of a machine that tests of one boot share; `own` is a name for a boot that is not
    shared.

    `model`: guest time is that of the timing model (lab/plugin.py), in which a TLB flush costs some
    microseconds instead of a turn of another virtual CPU, as with `icount`.
    """

    topology: str = "dram-cxl"
    cpus: int = 0
    append: str = ""
    icount: int = -1
    memory_scale: float = 1.0
    own: str = ""
    model: bool = False

    @property
    def counts(self) -> bool:
        """Whether guest time is independent of the host's clock."""
        return self.model or self.icount >= 0

    def describe(self) -> str:
        """Describe the machine briefly."""
        words = [self.topology]
        words += [f"cpus={self.cpus}"] if self.cpus else []
        words += [f"append={self.append}"] if self.append else []
        words += [f"icount={self.icount}"] if self.icount >= 0 else []
        words += ["clock=model"] if self.model else []
        words += [f"memory-scale={self.memory_scale:g}"] if self.memory_scale != 1.0 else []
        return " ".join(words)


@dataclass(frozen=True)
class Program:
    """One selftest: its source, its machine, its time limit in guest seconds, and whether it also
    runs on `debug`.

    `static_keys`: whether it runs on that flavour, in one thread. `abi` is "" for the guest's own.
    """

    name: str
    source: Path
    machine: MachineKey
    timeout_s: int
    debug: bool
    abi: str = ""
    static_keys: bool = True


def find_programs(folder: Path | None = None) -> list[Program]:
    """Find the selftests of `folder` (default: the overlay's), by name. A C file without main() is
    a part of other programs.

    Raises UsageError with file and key for an invalid `lab:` line.
    """
    base = folder or repo_root() / SELFTESTS
    sources = sorted(path for path in base.glob("*") if path.suffix in (".c", ".sh") and path.is_file())
    return [program for path in sources if path.suffix == ".sh" or has_main(path) for program in _read_programs(path)]


def has_main(path: Path) -> bool:
    """Whether a C file is a test program, and not a part of other programs."""
    text = path.read_text(encoding="utf-8")
    return bool(re.search(r"^(?:int\s+)?main\s*\(|^TEST_HARNESS_MAIN\b|\blab:.*\babi=", text, re.MULTILINE))


def _read_programs(path: Path) -> list[Program]:
    """Get the program of a file, or one for each ABI that it names."""
    settings: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines()[:_HEADER_LINES]:
        found = _HEADER.match(line)
        if found:
            settings |= parse_header(found[1], str(path))
    machine = MachineKey(
        topology=settings.get("topology", MachineKey.topology),
        cpus=_number(settings, "cpus", path, 1, 64, 0),
        append=settings.get("append", ""),
        icount=_number(settings, "icount", path, 0, 10, -1),
        memory_scale=float(settings.get("memory-scale", "1")),
        own=path.stem if _choice(settings, "boot", path, ("shared", "own")) == "own" else "",
        model=_choice(settings, "clock", path, ("guest", "model")) == "model",
    )
    if machine.model and machine.icount >= 0:
        raise UsageError(f"{path}: lab: clock=model and icount= are two clocks: give one of them")
    debug, keys = (_choice(settings, key, path, ("yes", "no")) == "yes" for key in ("debug", "static-keys"))
    timeout = settings.get("timeout")
    seconds = max(1, round(parse_time_ns(timeout) / 1e9)) if timeout else DEFAULT_TIMEOUT_S
    abis = settings["abi"].split(",") if "abi" in settings else [""]
    if unknown := [abi for abi in abis if abi and abi not in ABIS]:
        raise UsageError(f"{path}: lab: abi={unknown[0]}: use {' or '.join(ABIS)}, with a comma for both")
    name = {abi: f"{path.stem}_{abi}" if abi else path.stem for abi in abis}
    return [Program(name[abi], path, machine, seconds, debug, abi, keys) for abi in abis]


def parse_header(text: str, file: str) -> dict[str, str]:
    """Parse `topology=three-tier cpus=4 append="a=1 b"`; raises UsageError with the file for anything else."""
    settings: dict[str, str] = {}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{file}: lab: {error}") from error
    for word in words:
        key, sign, value = word.partition("=")
        if key not in _KEYS or not sign or not value:
            raise UsageError(f"{file}: lab: '{word}' is not KEY=VALUE with one of the keys {', '.join(_KEYS)}")
        settings[key] = value
    return settings


def _choice(settings: dict[str, str], key: str, path: Path, words: Sequence[str]) -> str:
    """Get one of `words`; the first by default."""
    text = settings.get(key, words[0])
    if text not in words:
        raise UsageError(f"{path}: lab: {key}={text}: use {' or '.join(words)}")
    return text


def _number(settings: dict[str, str], key: str, path: Path, low: int, high: int, default: int) -> int:
    text = settings.get(key)
    if text is None:
        return default
    if not text.isdecimal() or not low <= int(text) <= high:
        raise UsageError(f"{path}: lab: {key}={text}: use a whole number from {low} to {high}")
    return int(text)


def kernel_includes(programs: Sequence[Program]) -> list[Path]:
    """Get folders with which a selftest can include the kernel's own harness, also as
    "../kselftest_harness.h".

    Empty if no program needs it; otherwise a Linux tree is unpacked if there is none yet.
    """
    folders = {program.source.parent for program in programs}
    texts = (path.read_text(encoding="utf-8") for folder in folders for path in folder.glob("*.[ch]"))
    if not any("kselftest" in text for text in texts):
        return []
    ready = [trees_dir() / name for name in ("linux-terrace", "linux-stock")]
    root = next((path for path in ready if (path / "tools" / "testing").is_dir()), None) or stock(find_source())
    folder = root / "tools" / "testing" / "selftests"
    return [folder, folder / "mm"]

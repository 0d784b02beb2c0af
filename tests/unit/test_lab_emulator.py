# SPDX-License-Identifier: GPL-2.0
"""A QEMU that cannot run guests, or in which the plugins do not count right, is refused by name before long work."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from terrace.errors import MissingError
from terrace.lab import emulator, plugin
from terrace.lab.emulator import NEWEST_ABI, Emulator, find_emulator, find_plugins, require_plugins
from terrace.lab.machine import QEMU

# `reply` is what it prints for --version; it takes plugins of the versions `low` to `high`, as QEMU does.
FAKE = """#!{python}
import re, sys
words = " ".join(sys.argv)
if "--version" in sys.argv:
    print({reply!r})
elif not {high}:
    print("qemu: -plugin: invalid option")
else:
    abi = int(re.search("probe-([0-9]+)", words)[1])
    text = "plugin requires API version %d, but this QEMU supports only " % abi
    if abi < {low}:
        print(text + "a minimum version of {low}")
    elif abi > {high}:
        print(text + "up to version {high}")
    else:
        print("probe: vcpu={vcpu} clock={clock}")
sys.exit(1)
"""
Fake = Callable[..., Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts a program on the PATH that replies as a QEMU does."""

    def make(
        version: str = "10.0.13", low: int = 2, high: int = 4, vcpu: str = "", clock: str = "", reply: str = ""
    ) -> Path:
        program = tmp_path / QEMU
        text = reply or f"QEMU emulator version {version} (Debian 1:{version})"
        program.write_text(FAKE.format(python=sys.executable, reply=text, low=low, high=high, vcpu=vcpu, clock=clock))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return program

    return make


def _probe(abi: int) -> Path:
    return Path(f"/probe-{abi}.so")


@pytest.mark.parametrize(
    ("version", "numbers", "physical"),
    [("7.2.22", (7, 2, 22), False), ("8.1.5", (8, 1, 5), False), ("8.2.2", (8, 2, 2), True), ("11.1", (11, 1), True)],
)
def test_the_version_is_what_qemu_prints(version: str, numbers: tuple[int, ...], physical: bool, fake: Fake) -> None:
    path = fake(version)
    found = find_emulator()
    assert found == Emulator(path, numbers)
    assert found.tells_physical == physical
    assert found.name == f"QEMU {version} ({path})"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"version": "6.2.0"}, r"QEMU 6\.2\.0 \(.*\) is too old; Terrace works with QEMU 7\.2 to 11\.1"),
        ({"version": "7.1.9"}, r"QEMU 7\.1\.9 .* is too old"),
        ({"reply": "hello"}, r"does not print its version: hello; Terrace needs QEMU 7\.2 to 11\.1"),
        ({"reply": " "}, "does not print its version: it prints nothing"),
    ],
)
def test_a_qemu_that_is_too_old_or_none_is_refused(changes: dict[str, str], error: str, fake: Fake) -> None:
    fake(**changes)
    with pytest.raises(MissingError, match=error):
        find_emulator()


def test_a_program_that_cannot_be_run_is_refused(fake: Fake) -> None:
    fake().write_text("#!/no/such/interpreter\n")
    with pytest.raises(MissingError, match=r"cannot be run: .*; Terrace needs QEMU 7\.2 to 11\.1"):
        find_emulator()


def test_where_there_is_none_it_is_installed_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(emulator, "require_packages", lambda *words: calls.append(words))
    with pytest.raises(MissingError, match="the Debian package qemu-system-x86 has it"):
        find_emulator()
    assert calls == [(["qemu-system-x86"], "run guests")]


@pytest.mark.parametrize(
    ("low", "high", "abi"), [(0, 1, 1), (2, 2, 2), (2, 4, 4), (2, 6, 6), (7, 7, 7), (2, 9, NEWEST_ABI)]
)
def test_the_newest_interface_that_both_have_is_taken(low: int, high: int, abi: int, fake: Fake) -> None:
    fake(low=low, high=high)
    assert find_plugins(find_emulator(), _probe).abi == abi


@pytest.mark.parametrize(
    ("low", "high", "error"),
    [
        (8, 9, r"begins with version 8, Terrace's plugins end with version 7; they work in QEMU 7\.2 to 11\.1"),
        (0, 0, r"QEMU 10\.0\.13 \(.*\) loads no plugins: qemu: -plugin: invalid option; .*7\.2 to 11\.1"),
    ],
)
def test_a_qemu_that_takes_none_of_our_plugins_is_refused(low: int, high: int, error: str, fake: Fake) -> None:
    fake(low=low, high=high)
    with pytest.raises(MissingError, match=error):
        find_plugins(find_emulator(), _probe)


@pytest.mark.parametrize(
    ("vcpu", "clock", "drives", "error"),
    [
        ("current_cpu", "", False, "does not export current_cpu, without which a plugin cannot tell vCPUs apart"),
        ("current_cpu", "cpu_exit", True, "does not export current_cpu"),
        ("", "cpu_exit", True, r"does not export cpu_exit, .* drive the guest's clock; QEMU 7\.2 to 11\.1 .*modules"),
        ("", "cpu_exit", False, ""),
        ("", "", True, ""),
    ],
)
def test_a_qemu_without_what_a_plugin_needs_of_it_is_refused(
    vcpu: str, clock: str, drives: bool, error: str, fake: Fake
) -> None:
    fake(vcpu=vcpu, clock=clock)
    found = find_emulator()
    plugins = find_plugins(found, _probe)
    if not error:
        require_plugins(found, plugins, drives=drives)
        return
    with pytest.raises(MissingError, match=error):
        require_plugins(found, plugins, drives=drives)


@pytest.mark.skipif(shutil.which(QEMU) is None or shutil.which("gcc") is None, reason="no QEMU, or no gcc")
def test_the_installed_qemu_takes_the_plugins() -> None:
    plugins = plugin.require_tools(drives=True)
    assert 1 <= plugins.abi <= NEWEST_ABI
    assert plugins.lacks_vcpu == plugins.lacks_clock == ""

# SPDX-License-Identifier: GPL-2.0
"""Manual pages: groff accepts them, they agree with the headers and the kernel's source, and their examples work."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from terrace.ops import knobs, settings
from terrace.paths import repo_root

ROOT = repo_root()
MAN = ROOT / "libterrace/man"
HEADER = ROOT / "linux/include/uapi/linux/mempolicy2.h"
SOURCES = ROOT / "linux/mm/mempolicy2"
TABLE = ROOT / "linux/Documentation/admin-guide/mm/mempolicy2.rst"
CALLS = ("set_mempolicy2", "get_mempolicy2", "mbind2")
SETTINGS = ROOT / "docs/man/terrace.toml.5"
PAGES = sorted([*MAN.iterdir(), *SETTINGS.parent.iterdir()])

#: Errors of Linux functions that the overlay calls, as in Linux 6.12 with the hooks.
OF_LINUX = {
    "copy_struct_from_user": {"E2BIG", "EFAULT"},
    "check_zeroed_user": {"EFAULT"},
    "do_set_mempolicy": {"EINVAL", "ENOMEM"},
    "do_mbind": {"EFAULT", "EINVAL", "EIO", "ENOMEM", "EPERM"},
}
#: Functions of the overlay that these call.
FROM_LINUX = {"do_set_mempolicy": {"mpol2_new"}, "do_mbind": {"mpol2_new"}}


def page(call: str) -> str:
    return (MAN / f"{call}.2").read_text()


def section(text: str, title: str) -> str:
    """The text below .SH ``title``, without changes of font."""
    found = re.search(rf"^\.SH {title}\n(.*?)(?=^\.SH |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, title
    return re.sub(r"\\f.", "", found[1])


def example(text: str) -> str:
    """The last example, as a reader of the page sees it."""
    shown = re.findall(r"^\.EX\n(.*?)^\.EE$", section(text, "EXAMPLES"), re.MULTILINE | re.DOTALL)[-1]
    assert isinstance(shown, str)
    return shown.replace(r"\-", "-").replace(r"\&", "").replace(r"\e", "\\")


def functions() -> dict[str, str]:
    """The functions of the kernel's part, with their bodies; a call has the name that users know."""
    found = {}
    for path in sorted(SOURCES.glob("*.c")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for name, words, body in re.findall(
            r"^(?=[A-Za-z])[^\n;={}]*?\b(\w+)\(([^;{}]*?)\)\n\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL
        ):
            found[words.partition(",")[0] if name.startswith("SYSCALL_DEFINE") else name] = body
    return found


def errors_of_source(call: str) -> set[str]:
    """Every error that the code of a call names, and those of the Linux functions in it."""
    bodies = functions()
    errors: set[str] = set()
    todo, seen = {call}, set[str]()
    while todo:
        name = todo.pop()
        seen.add(name)
        errors |= OF_LINUX.get(name, set()) | set(re.findall(r"-(E[A-Z0-9]+)\b", bodies.get(name, "")))
        words = set(re.findall(r"\b(\w+)\b", bodies.get(name, ""))) | FROM_LINUX.get(name, set())
        todo |= words & (bodies.keys() | OF_LINUX.keys()) - seen
    return errors


def fields(text: str) -> list[tuple[str, str]]:
    """Types and names in the definition of struct mpol_param."""
    body = text.partition("struct mpol_param {\n")[2].partition("\n};")[0]
    return re.findall(r"^\s*(\w+)\s+(\w+(?:\[\d+\])?);$", body, re.MULTILINE)


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_groff_has_no_warning(path: Path) -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", str(path)], capture_output=True, text=True, check=False, errors="replace"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout) > 1000


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_called_what_its_file_is(path: Path) -> None:
    name, _, number = path.name.rpartition(".")
    text = path.read_text()
    assert re.search(rf"^\.TH {re.escape(name.upper())} {number} ", text, re.MULTILINE)
    # Of several functions the page of section 3 has the name of their prefix.
    assert section(text, "NAME").startswith("terrace_supported" if number == "3" else name)


@pytest.mark.parametrize("call", CALLS)
def test_every_error_of_the_source_is_in_the_page(call: str) -> None:
    named = set(re.findall(r"^\.TP\n\.B (E\w+)$", section(page(call), "ERRORS"), re.MULTILINE))
    # The kernel returns it if the call is not compiled.
    assert named == errors_of_source(call) | {"ENOSYS"}


def test_every_error_is_in_the_table_of_the_kernels_page() -> None:
    rows = set(re.findall(r"^(E[A-Z0-9]+) {2,}", TABLE.read_text(), re.MULTILINE))
    assert rows == set().union(*map(errors_of_source, CALLS))


def test_the_struct_is_the_one_of_the_header() -> None:
    of_header = fields(HEADER.read_text())
    assert len(of_header) == 7
    assert fields(page("set_mempolicy2")) == of_header


def test_every_field_is_explained() -> None:
    for _, name in fields(HEADER.read_text()):
        word = name.partition("[")[0]
        for call in ("set_mempolicy2", "get_mempolicy2"):
            assert f"\n.TP\n.I {word}\n" in section(page(call), "DESCRIPTION"), (call, word)
    assert "field\n.I home_node\nis valid" in section(page("mbind2"), "DESCRIPTION")


def test_every_flag_of_the_header_is_explained() -> None:
    text = HEADER.read_text()
    flags = re.findall(r"^#define (MPOL_\w+)\s+\(1 << \d+\)", text, re.MULTILINE)
    assert len(flags) == 4
    flags.remove("MPOL_F_HOME_NODE")  # a mode flag, named beside the older ones
    assert "\n.B MPOL_F_HOME_NODE\nthose that the mode takes" in section(page("set_mempolicy2"), "DESCRIPTION")
    for flag in flags:
        call = "mbind2" if flag.startswith("MPOL_MF_") else "get_mempolicy2"
        assert f"\n.TP\n.B {flag}\n" in section(page(call), "DESCRIPTION"), flag
    # And everything else it names, even in a comment: flags that belong together, modes, the size.
    pages = "".join(map(page, CALLS))
    assert [name for name in sorted(set(re.findall(r"\bMPOL_[A-Z0-9_]+\b", text))) if name not in pages] == []


@pytest.mark.parametrize("call", CALLS)
def test_the_number_is_the_one_of_the_header(call: str) -> None:
    number = re.search(rf"^#define __NR_{call}\s+(\d+)$", HEADER.read_text(), re.MULTILINE)
    assert number
    assert f".BR __NR_{call} ,\nwhich is {number[1]}\n" in section(page(call), "NOTES")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here")
@pytest.mark.parametrize("call", CALLS)
def test_the_program_compiles(call: str, tmp_path: Path) -> None:
    source = tmp_path / f"{call}.c"
    source.write_text(example(page(call)))
    assert f"syscall(__NR_{call}, " in source.read_text()
    # The header of this kernel after those of the machine, which do not have it
    options = ["-Wall", "-Wextra", "-Werror", "-idirafter", str(HEADER.parents[1])]
    command = ["gcc", *options, "-o", str(tmp_path / call), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("title", ["NAME", "SYNOPSIS", "DESCRIPTION"])
def test_every_function_of_the_library_is_in_its_page(title: str) -> None:
    header = (ROOT / "libterrace/include/terrace/policy.h").read_text()
    names = set(re.findall(r"\b(terrace_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)))
    assert len(names) > 15
    words = set(re.findall(r"\bterrace_\w+", section((MAN / "terrace_policy.3").read_text(), title)))
    assert names - words == set()


def test_the_example_of_the_file_of_settings_is_taken() -> None:
    text = example(SETTINGS.read_text())
    found = settings.parse(text, Path("/etc/terrace/terrace.toml"))
    lines = text.splitlines()
    assert sorted(one.line for one in found) == [number for number, line in enumerate(lines, 1) if " = " in line]
    assert {one.cgroup for one in found} == {None, "system.slice/db.service"}


def test_the_page_of_the_file_of_settings_names_knobs_that_there_are() -> None:
    text = section(SETTINGS.read_text(), "DESCRIPTION").partition(".SS Values")[0]
    keys = re.findall(r"^\.BR? ([a-z_]+\.[a-z0-9_.]+)\b", text, re.MULTILINE)
    assert len(keys) >= 6
    assert [key for key in keys if knobs.find(key).key != key and key != "weights.node0"] == []

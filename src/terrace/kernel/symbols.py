# SPDX-License-Identifier: GPL-2.0
"""Names of kernel options in our files that no Kconfig file of our tree defines.

`#ifdef CONFIG_X` with a wrong name compiles and removes the code. The kernel's scripts/checkkconfigsymbols.py
reports such names too; it needs a git tree and parses every file of Linux, where this module reads only ours.
"""

import difflib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: Folders and files of the checkout whose names are checked; an installed tool has not all of them.
PLACES = (
    "README.md",
    "CONTRIBUTING.md",
    "configs",
    "debian",
    "docs",
    "guest",
    "hooks",
    "linux",
    "src",
    "tests/mutants",
)

_DEFINED = re.compile(r"^\s*(?:menu)?config\s+(\w+)", re.MULTILINE)
# A name in C, make, TOML, a fragment or prose. KCONFIG_ALLCONFIG is none, CONFIG_X stands for any, CONFIG_DEBUG_* for
# several.
_NAMED = re.compile(r"(?<![A-Za-z0-9_])CONFIG_(\w{2,})(\*?)")
# An expression of Kconfig: what stands behind one of these words, without quoted text.
_EXPRESSION = re.compile(r"^\s*(?:depends\s+on|select|imply|visible\s+if|if|(?:def_)?(?:bool|tristate)|default)\b(.*)")
_QUOTED = re.compile(r'"[^"]*"')
_SYMBOL = re.compile(r"\b[A-Z][A-Z0-9_]*\b")
# What editors and Python leave
_IGNORED = re.compile(r"(^|/)(\.|__pycache__/)|~$|\.(orig|rej|swp|o|pyc)$")
# Trees below the kernel's root that hold no options of it: outputs of make, test data, our notes.
_NOT_WALKED = re.compile(r"out($|-)|\.|Documentation$|tools$")


@dataclass(frozen=True)
class Named:
    """A name that a line of a file has, without CONFIG_; `many` when it stands for all names that begin with it."""

    line: int
    name: str
    many: bool = False


def defined(tree: Path) -> frozenset[str]:
    """Every option that the Kconfig files of a kernel tree define."""
    found: set[str] = set()
    for folder, folders, files in os.walk(tree):
        at_root = Path(folder) == tree
        folders[:] = [name for name in folders if not (at_root and _NOT_WALKED.match(name)) and name != "tests"]
        for name in files:
            if name.startswith("Kconfig"):
                found.update(_DEFINED.findall((Path(folder) / name).read_text(errors="replace")))
    return frozenset(found)


def named(path: str, text: str) -> Iterator[Named]:
    """The names in a file of ours; `path` gives its kind.

    Of a hook, its message and the lines that it adds are read: the other lines belong to Linux.
    """
    lines = enumerate(text.splitlines(), 1)
    for number, line, kconfig in _of_hook(lines) if path.endswith(".patch") else _of_file(path, lines):
        for match in _NAMED.finditer(line):
            yield Named(number, match[1].removesuffix("_MODULE"), bool(match[2]))
        if kconfig and (expression := _EXPRESSION.match(line)):
            for name in _SYMBOL.findall(_QUOTED.sub("", expression[1])):
                yield Named(number, name)


def _is_kconfig(path: str) -> bool:
    return Path(path).name.startswith("Kconfig")


def _of_file(path: str, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, bool]]:
    """Number, line, and whether it is one of Kconfig."""
    kconfig = _is_kconfig(path)
    for number, line in lines:
        yield number, line, kconfig


def _of_hook(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, bool]]:
    """The same for the message of a hook and the lines that it adds."""
    changed = None
    for number, line in lines:
        if line.startswith(("--- a/", "--- /dev/null")):
            changed = ""
        elif changed is not None and line.startswith("+++ "):
            changed = line.removeprefix("+++ b/")
        elif changed is None:
            yield number, line, False
        elif line.startswith("+"):
            yield number, line[1:], _is_kconfig(changed)


def problems(files: Iterable[tuple[str, str]], known: Collection[str]) -> list[str]:
    """A line for each name in `files` (path and text) that is not in `known`."""
    known = frozenset(known)
    return [
        f"{path}:{each.line}: no Kconfig file defines CONFIG_{each.name}{'*' if each.many else ''}{_hint(each, known)}"
        for path, text in files
        for each in named(path, text)
        if not _is_known(each, known)
    ]


def _is_known(each: Named, known: frozenset[str]) -> bool:
    if each.many:
        return any(name.startswith(each.name) for name in known)
    return each.name in known


def _hint(each: Named, known: frozenset[str]) -> str:
    near = [] if each.many else difflib.get_close_matches(each.name, known, 1, cutoff=0.65)
    return f"; the nearest name is CONFIG_{near[0]}" if near else ""


def files_of(root: Path) -> Iterator[tuple[str, str]]:
    """Path and text of every file of ours below PLACES that is text, in order of names."""
    for place in PLACES:
        top = root / place
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            name = str(path.relative_to(root))
            if path.is_file() and not _IGNORED.search(name):
                try:
                    yield name, path.read_text()
                except UnicodeDecodeError:
                    continue

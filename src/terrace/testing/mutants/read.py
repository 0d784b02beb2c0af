# SPDX-License-Identifier: GPL-2.0
"""Read the mutants of tests/mutants, and check as much of each as possible without a kernel."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import UsageError
from terrace.kernel import tree
from terrace.kernel.patches import hooks
from terrace.paths import repo_root
from terrace.testing.capability import CAPABILITIES
from terrace.testing.kunit import kunit_names
from terrace.testing.mutants.diff import DiffError, FileDiff, apply_diff, parse_diff
from terrace.testing.programs import find_programs
from terrace.testing.selftest import STATE_CHECK

FOLDER = Path("tests/mutants")
KINDS = ("leak", "count", "refusal", "flush", "policy", "charge", "effect", "order")
GROUPS = ("selftest", "kunit", "policy", "unit")
_SPDX = "# SPDX-License-Identifier: GPL-2.0"
_FIELD = re.compile(r"^(breaks|kind|caught-by): *(.*)$")
_LITERALS = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


@dataclass(frozen=True, order=True)
class Target:
    """A check that has to detect the mutant: `unit` is a program, a suite or a test file, `check` a
    part of it ("": any).
    """

    group: str
    unit: str
    check: str = ""

    def __str__(self) -> str:
        sign = {"selftest": ":", "unit": "::"}.get(self.group, ".")
        return f"{self.group}/{self.unit}{sign}{self.check}" if self.check else f"{self.group}/{self.unit}"

    @property
    def in_guest(self) -> bool:
        """Whether the check needs a kernel."""
        return self.group in ("selftest", "kunit")


@dataclass(frozen=True)
class Mutant:
    """One fault of the kernel; `name` is capability/name, and the first check of `caught_by` has to
    detect it.
    """

    name: str
    text: str
    breaks: str
    kind: str
    caught_by: tuple[Target, ...]
    files: tuple[FileDiff, ...]

    @property
    def capability(self) -> str:
        """The capability that the mutant breaks."""
        return self.name.partition("/")[0]

    @property
    def in_guest(self) -> bool:
        """Whether a kernel has to be built with the mutant."""
        return any(target.in_guest for target in self.caught_by)


class Known:
    """All existing checks, which a mutant may name."""

    def __init__(self) -> None:
        self.programs = {program.name: program.source for program in find_programs()}
        self.kunit = kunit_names()
        self._words: dict[Path, str] = {}

    def problem(self, target: Target) -> str:
        """Return the reason why there is no such check; "" if there is one."""
        if target.group == "selftest":
            return self._no_selftest(target)
        if target.group == "unit":
            return self._no_unit(target)
        if not any(name.partition(".")[0] == target.unit for name in self.kunit):
            return f"no KUnit suite is called {target.unit}"
        if target.check and f"{target.unit}.{target.check}" not in self.kunit:
            return f"the KUnit suite {target.unit} has no case {target.check}"
        return ""

    def _no_selftest(self, target: Target) -> str:
        source = self.programs.get(target.unit)
        if source is None:
            return f"no program of selftest is called {target.unit}"
        if not target.check or target.check == STATE_CHECK or target.check in self._text(source):
            return ""
        return f"the program {target.unit} has no check '{target.check}'"

    def _text(self, source: Path) -> str:
        """Get all string literals of a program, with adjacent literals joined."""
        if source not in self._words:
            joined = re.sub(r'"\s*\n\s*"', "", source.read_text(encoding="utf-8"))
            self._words[source] = "\n".join(_LITERALS.findall(joined))
        return self._words[source]

    def _no_unit(self, target: Target) -> str:
        path = repo_root() / target.unit
        if not path.is_file():
            return f"there is no {target.unit}"
        name = target.check.partition("[")[0].rpartition("::")[2]
        found = not name or re.search(rf"\b(?:def|class) {re.escape(name)}\b", path.read_text(encoding="utf-8"))
        return "" if found else f"{target.unit} has no test {name}"


class Assembled:
    """The text of the files that a mutant may change: overlay files, and files that hooks change."""

    def __init__(self, root: Path, hooked: Sequence[str] | None = None) -> None:
        """`root` is the patched Linux tree."""
        self._root = root
        self._overlay = frozenset(tree.overlay_files())
        self._hooked = frozenset(hooked or (name for hook in hooks() for name in hook.paths))
        self._texts: dict[str, str] = {}

    def text(self, path: str) -> str:
        """Get a file as it is compiled; raises KeyError for a file that a mutant may not change."""
        if path not in self._texts:
            if path not in self._overlay and path not in self._hooked:
                raise KeyError(path)
            base = tree.overlay_dir() if path in self._overlay else self._root
            self._texts[path] = (base / path).read_text(encoding="utf-8")
        return self._texts[path]

    def changed(self, mutants: Sequence[Mutant]) -> dict[str, str]:
        """Apply these mutants together, and return the changed files. Raises UsageError with
        file:line if a hunk has no place.
        """
        texts: dict[str, str] = {}
        for mutant in mutants:
            for change in mutant.files:
                try:
                    texts[change.path] = apply_diff(change, texts.get(change.path) or self.text(change.path))
                except DiffError as error:
                    raise UsageError(f"{_where(mutant.name)}:{error.line}: {error}") from error
                except KeyError:
                    raise UsageError(
                        f"{_where(mutant.name)}:{change.hunks[0].line}: {change.path} is not ours: a mutant changes a "
                        "file of the overlay, or one that a hook changes"
                    ) from None
        return texts


def _where(name: str) -> str:
    return f"{FOLDER / name}.patch"


def parse_mutant(name: str, text: str, known: Known) -> Mutant:
    """Parse the mutant capability/name. Raises UsageError with a line for each error."""
    lines = text.rstrip("\n").split("\n")
    start = next((n for n, line in enumerate(lines) if line.startswith("--- ")), len(lines))
    problems = list(_name_problems(name))
    if lines[0] != _SPDX:
        problems.append((1, f"the first line is not '{_SPDX}'"))
    fields: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(lines[:start], 1):
        if found := _FIELD.match(line):
            fields.setdefault(found[1], []).append((number, found[2].strip()))
        elif line.strip() and not line.startswith("#"):
            problems.append((number, f"'{line}' is no 'breaks:', 'kind:' or 'caught-by:'"))
    problems += _field_problems(fields)
    targets = []
    for number, words in fields.get("caught-by", []):
        target = _target(words)
        problem = known.problem(target) if target else f"'{words}' is not GROUP/NAME, of {', '.join(GROUPS)}"
        if problem:
            problems.append((number, problem))
        elif target:
            targets.append(target)
    files: tuple[FileDiff, ...] = ()
    try:
        files = parse_diff(lines[start:], start + 1)
        if not files:
            problems.append((len(lines), "there is no diff"))
    except DiffError as error:
        problems.append((error.line, str(error)))
    if problems:
        raise UsageError("\n".join(f"{_where(name)}:{number}: {problem}" for number, problem in sorted(problems)))
    return Mutant(name, text, fields["breaks"][0][1], fields["kind"][0][1], tuple(targets), files)


def _name_problems(name: str) -> Iterator[tuple[int, str]]:
    capability, _, rest = name.partition("/")
    if capability not in CAPABILITIES or "/" in rest:
        yield 1, f"a mutant is in a folder of {FOLDER}: {', '.join(CAPABILITIES)}"


def _field_problems(fields: Mapping[str, Sequence[tuple[int, str]]]) -> Iterator[tuple[int, str]]:
    for field in ("breaks", "kind", "caught-by"):
        if not any(words for _, words in fields.get(field, ())):
            yield 1, f"there is no '{field}:'"
    for field in ("breaks", "kind"):
        yield from ((number, f"'{field}:' stands here twice") for number, _ in fields.get(field, ())[1:])
    for number, words in fields.get("kind", ()):
        if words and words not in KINDS:
            yield number, f"kind '{words}': the kinds are {', '.join(KINDS)}"


def _target(words: str) -> Target | None:
    group, _, rest = words.partition("/")
    if group not in GROUPS or not rest:
        return None
    unit, _, check = rest.partition({"selftest": ":", "unit": "::"}.get(group, "."))
    return Target(group, unit, check.strip())


def load_mutants(folder: Path | None = None) -> list[Mutant]:
    """Read all mutants, by name. Raises UsageError with a line for each error in any of them."""
    base = folder or repo_root() / FOLDER
    known = Known()
    found: list[Mutant] = []
    problems = []
    for path in sorted(base.rglob("*")):
        if path.is_dir():
            continue
        name = str(path.relative_to(base))
        if path.suffix != ".patch":
            problems.append(f"{FOLDER / name}:1: a mutant is called NAME.patch")
            continue
        try:
            found.append(parse_mutant(name.removesuffix(".patch"), path.read_text(encoding="utf-8"), known))
        except UsageError as error:
            problems += str(error).splitlines()
    if problems:
        raise UsageError("\n".join(problems))
    return found


def check_mutants(root: Path) -> list[str]:
    """Check all mutants against the tree at `root`, and return a line for each error. Cheap: builds
    nothing.
    """
    try:
        mutants = load_mutants()
    except UsageError as error:
        return str(error).splitlines()
    assembled = Assembled(root)
    problems = []
    for mutant in mutants:
        try:
            assembled.changed([mutant])
        except UsageError as error:
            problems.append(str(error))
    return problems

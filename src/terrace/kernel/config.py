# SPDX-License-Identifier: GPL-2.0
"""Kernel configurations: merge fragments of configs/, and check that the kernel accepted them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import BuildError, UsageError
from terrace.paths import repo_root
from terrace.words import did_you_mean

_SET = re.compile(r"(CONFIG_\w+)=(.*)")
_UNSET = re.compile(r"# (CONFIG_\w+) is not set")


@dataclass(frozen=True)
class Flavour:
    """A kind of kernel: `patched` selects the tree, `fragments` the files of configs/, in order;
    later ones win.

    With `one_thread`, QEMU has to run all CPUs of its guests in one thread in which it translates
    code.
    """

    name: str
    patched: bool
    fragments: tuple[str, ...]
    purpose: str
    one_thread: bool = False


FLAVOURS = {
    flavour.name: flavour
    for flavour in (
        Flavour("stock", False, ("base", "stock"), "pristine source, same configuration"),
        Flavour("terrace", True, ("base", "terrace"), "overlay and hooks, our options on"),
        Flavour("debug", True, ("base", "terrace", "debug"), "the same with KASAN, lockdep and other checks"),
        Flavour(
            "static-keys",
            True,
            ("base", "terrace", "static-keys"),
            "terrace with patched static keys; guests in one thread",
            one_thread=True,
        ),
        Flavour("off", True, ("base", "off"), "overlay and hooks, our options off"),
    )
}


@dataclass(frozen=True)
class Wish:
    """One option as a fragment sets it; `value` is None for "is not set"."""

    value: str | None
    origin: str


def flavour(name: str) -> Flavour:
    """Get the flavour called `name`; raises UsageError if there is none."""
    if name not in FLAVOURS:
        raise UsageError(
            f"there is no kernel flavour '{name}'; {did_you_mean(name, FLAVOURS)}the flavours are {', '.join(FLAVOURS)}"
        )
    return FLAVOURS[name]


def parse_fragment(text: str, origin: str) -> dict[str, Wish]:
    """Parse the options of one fragment. Raises UsageError with `origin`:line for an invalid line."""
    wishes: dict[str, Wish] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        where = f"{origin}:{number}"
        if match := _UNSET.fullmatch(stripped):
            wishes[match[1]] = Wish(None, where)
        elif match := _SET.fullmatch(stripped):
            wishes[match[1]] = Wish(None if match[2] == "n" else match[2], where)
        elif stripped and not stripped.startswith("#"):
            raise UsageError(f"{where}: '{stripped}' is neither CONFIG_…=value nor a comment")
    return wishes


def wishes_of(fragments: Sequence[str]) -> dict[str, Wish]:
    """Get all options of these fragments; if two differ, the later one wins."""
    merged: dict[str, Wish] = {}
    for name in fragments:
        merged.update(parse_fragment(fragment_text(name), f"configs/{name}.config"))
    return merged


def fragment_text(name: str) -> str:
    """Get the text of configs/`name`.config."""
    return (repo_root() / "configs" / f"{name}.config").read_text()


def render(wishes: Mapping[str, Wish]) -> str:
    """Format the options for KCONFIG_ALLCONFIG, in a fixed order."""
    lines = (
        f"# {option} is not set" if wish.value is None else f"{option}={wish.value}"
        for option, wish in sorted(wishes.items())
    )
    return "\n".join(lines) + "\n"


def verify(wishes: Mapping[str, Wish], config: Path, tree: Path) -> None:
    """Check that the final `config` has every option as requested; raises BuildError with those
    that differ.
    """
    got = {option: wish.value for option, wish in parse_fragment(config.read_text(), config.name).items()}
    problems = []
    for option, wish in sorted(wishes.items()):
        value = got.get(option)
        if value != wish.value:
            problems.append(
                f"  {wish.origin}: {option}={wish.value or 'n'} is requested, the kernel has {value or 'n'}"
                + _reason(option, tree)
            )
    if problems:
        raise BuildError("the kernel's configuration did not take every option:\n" + "\n".join(problems))


def _reason(option: str, tree: Path) -> str:
    """Get the dependencies of the option from Kconfig, for the error message."""
    name = option.removeprefix("CONFIG_")
    head = re.compile(rf"^(?:menu)?config {name}$(.*?)(?=^\S)", re.MULTILINE | re.DOTALL)
    for path in sorted(tree.glob("**/Kconfig*")):
        if path.is_relative_to(tree / "Documentation") or any(p.startswith("out-") for p in path.parts):
            continue
        text = path.read_text(errors="replace")
        if f"config {name}\n" not in text:
            continue
        match = head.search(text + "\n#")
        conditions = re.findall(r"^\s+depends on (.+)$", match[1], re.MULTILINE) if match else []
        depends = "; ".join(conditions) or "nothing of its own (an enclosing menu, or another option selects it)"
        return f"\n    {path.relative_to(tree)}: depends on {depends}"
    return "\n    no Kconfig file of this tree has it"

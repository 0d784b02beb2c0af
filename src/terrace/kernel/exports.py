# SPDX-License-Identifier: GPL-2.0
"""Symbols that modules need because of us: an inline of a Linux header that calls ours is compiled into every module.

Read from the text of hooks and overlay, in no time, whatever the configuration: a kernel without modules links without
the exports, a distribution's does not.
"""

import re
from collections.abc import Iterable, Mapping

from terrace.kernel import patches, tree

_INLINE = re.compile(r"^static (?:__always_)?inline\b[^;{]*?(\w+)\([^;{]*\)\s*\{(.*?)^\}", re.MULTILINE | re.DOTALL)
_MACRO = re.compile(r"^#define[ \t]+(\w+)\([^)]*\)((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_FUNCTION = re.compile(r"^(?!static\b|#|return\b)[a-z][\w \t*]*?\b(\w+)\([^;{}]*\);", re.MULTILINE)
_VARIABLE = re.compile(r"^extern\b[^;(]*?(\w+)(?:\[[^]]*\])*;", re.MULTILINE)
_KEY = re.compile(r"^DECLARE_STATIC_KEY_(?:TRUE|FALSE|MAYBE)\((?:\w+, )?(\w+)\)", re.MULTILINE)
_EXPORTED = re.compile(r"^EXPORT_SYMBOL(?:_GPL)?\((\w+)\);", re.MULTILINE)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")


def problems() -> list[str]:
    """What overlay and hooks lack, a line each."""
    added = {
        f"hooks/{hook.name}": "\n".join(_added_to_headers(hook.diff))
        for hook in patches.hooks()
        if any(name.startswith("include/") for name in hook.paths)
    }
    texts = {name: (tree.overlay_dir() / name).read_text(errors="replace") for name in tree.overlay_files()}
    headers = [text for name, text in texts.items() if name.startswith("include/linux/") and name.endswith(".h")]
    sources = [text for name, text in texts.items() if name.endswith(".c") and not name.startswith("tools/")]
    return missing(added, headers, sources)


def _added_to_headers(diff: str) -> Iterable[str]:
    """The lines that a hook adds to headers of Linux that modules may include."""
    inside = False
    for line in diff.splitlines():
        if line.startswith("+++ "):
            inside = line.startswith("+++ b/include/") and not line.startswith("+++ b/include/uapi/")
        elif inside and line.startswith("+"):
            yield line[1:]


def missing(added: Mapping[str, str], headers: Iterable[str], sources: Iterable[str]) -> list[str]:
    """Symbols that `added` (text by hook) reaches through inlines of `headers`, and no file of `sources` exports."""
    bodies: dict[str, str] = {}
    symbols: set[str] = set()
    for text in headers:
        for pattern in (_INLINE, _MACRO):
            for name, body in pattern.findall(text):
                # One of them is the empty stub.
                bodies[name] = bodies.get(name, "") + body
        bare = _INLINE.sub("", text)
        for declared in (_FUNCTION, _VARIABLE, _KEY):
            symbols.update(declared.findall(bare))
    exported = {name for text in sources for name in _EXPORTED.findall(text)}
    return [
        f"{hook}: modules need {name}, which is not exported: EXPORT_SYMBOL({name})"
        for hook, text in added.items()
        for name in sorted(_reached(text, bodies) & (symbols - exported))
    ]


def _reached(text: str, bodies: Mapping[str, str]) -> set[str]:
    seen: set[str] = set()
    todo = set(_WORD.findall(text))
    while todo:
        name = todo.pop()
        seen.add(name)
        todo |= set(_WORD.findall(bodies.get(name, ""))) - seen
    return seen

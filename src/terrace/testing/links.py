# SPDX-License-Identifier: GPL-2.0
"""Links between files of the repository in Markdown: each names a file that exists and a heading of that file."""

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import unquote

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# [text](target), ![text](target "title"), and the definition of a reference: [name]: target
_INLINE = re.compile(r"\]\(\s*(?:<([^>\n]*)>|([^\s()]*(?:\([^\s()]*\)[^\s()]*)*))(?:\s+[\"'(][^)]*)?\s*\)")
_DEFINED = re.compile(r"^ {0,3}\[[^\]\n]+\]:\s*(\S+)", re.MULTILINE)
_HTML = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=[\"']([^\"']*)[\"']", re.IGNORECASE)
_ANCHOR = re.compile(r"<a\b[^>]*?\b(?:id|name)=[\"']([^\"']+)[\"']", re.IGNORECASE)
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_LINK_TEXT = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# GitHub keeps letters, digits, "_", "-" and spaces of a heading for the name of its anchor.
_DROPPED = re.compile(r"[^\w\- ]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


def link_problems(root: Path, names: Sequence[str]) -> list[str]:
    """Get one line for each link of the files `names` below `root` whose target does not exist.

    A target has to be one of `names`, or a folder with some of them: an untracked file is missing
    in a clone. Links to other sites are not checked.
    """
    there = {".", *names, *(str(parent) for name in names for parent in Path(name).parents)}
    anchors_of = cache(lambda name: anchors((root / name).read_text(encoding="utf-8")))
    problems = []
    for name in names:
        if name.endswith(".md"):
            for line, target in links((root / name).read_text(encoding="utf-8")):
                path, _, anchor = unquote(target).partition("#")
                wanted = os.path.normpath(Path(name).parent / path) if path else name
                if path.startswith("/"):
                    problems.append(f"{name}:{line}: {target}: a link to a file of the repository is relative")
                elif wanted not in there:
                    problems.append(f"{name}:{line}: {target}: the repository has no {wanted}")
                elif anchor and wanted.endswith(".md") and anchor not in anchors_of(wanted):
                    problems.append(f"{name}:{line}: {target}: {wanted} has no heading for #{anchor}")
    return problems


def links(text: str) -> Iterator[tuple[int, str]]:
    """Get line and target of each link of a Markdown text except those to other sites."""
    plain = _blanked(_blanked(_without_fences(text), _COMMENT), _CODE)
    for pattern in (_INLINE, _DEFINED, _HTML):
        for match in pattern.finditer(plain):
            target = next((group for group in match.groups() if group is not None), "")
            if not _SCHEME.match(target):
                yield plain.count("\n", 0, match.start()) + 1, target


def anchors(text: str) -> frozenset[str]:
    """Get the anchors of a Markdown text: of its headings, as GitHub names them, and of `<a id=...>`."""
    plain = _without_fences(text)
    found = set(_ANCHOR.findall(plain))
    seen: dict[str, int] = {}
    for line in plain.splitlines():
        if heading := _HEADING.match(line):
            title = _LINK_TEXT.sub(r"\1", heading[1]).lower()
            name = _DROPPED.sub("", title).replace(" ", "-")
            count = seen.get(name, 0)
            seen[name] = count + 1
            found.add(f"{name}-{count}" if count else name)
    return frozenset(found)


def _without_fences(text: str) -> str:
    """Replace code blocks by empty lines."""
    kept = []
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            ends = mark is not None and mark[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if ends else fence
            kept.append("")
        elif mark:
            fence = mark[1]
            kept.append("")
        else:
            kept.append(line)
    return "\n".join(kept)


def _blanked(text: str, pattern: re.Pattern[str]) -> str:
    """Blank out the matches; lines keep their numbers."""
    return pattern.sub(lambda match: "\n" * match[0].count("\n"), text)

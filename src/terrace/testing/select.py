# SPDX-License-Identifier: GPL-2.0
"""Expressions of -k: words with and, or, not and parentheses, as in pytest."""

import re
from collections.abc import Callable

from terrace.errors import UsageError

Selector = Callable[[str], bool]
_TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")


def parse_selector(expression: str | None) -> Selector:
    """Create a function that selects tests by name (`group/name`); None selects all.

    A word matches as a part of the name, without regard to case. Raises UsageError for invalid
    syntax.
    """
    if expression is None:
        return lambda name: True
    tokens = _TOKEN.findall(expression)
    parser = _Parser(expression, tokens)
    selector = parser.alternatives()
    if parser.tokens:
        raise parser.error(f"'{parser.tokens[0]}' is not expected")
    return selector


class _Parser:
    def __init__(self, text: str, tokens: list[str]) -> None:
        self.text = text
        self.tokens = tokens

    def error(self, problem: str) -> UsageError:
        return UsageError(f"-k '{self.text}': {problem}; write words with and, or, not and parentheses between them")

    def alternatives(self) -> Selector:
        parts = [self.conjunction()]
        while self.tokens[:1] == ["or"]:
            self.tokens.pop(0)
            parts.append(self.conjunction())
        return lambda name: any(part(name) for part in parts)

    def conjunction(self) -> Selector:
        parts = [self.term()]
        while self.tokens[:1] == ["and"]:
            self.tokens.pop(0)
            parts.append(self.term())
        return lambda name: all(part(name) for part in parts)

    def term(self) -> Selector:
        token = self.tokens.pop(0) if self.tokens else ""
        if token == "not":
            inner = self.term()
            return lambda name: not inner(name)
        if token == "(":
            inner = self.alternatives()
            if self.tokens[:1] != [")"]:
                raise self.error("a ')' is missing")
            self.tokens.pop(0)
            return inner
        if token in ("", ")", "and", "or"):
            raise self.error(f"a word is missing{f' before {token!r}' if token else ' at the end'}")
        return lambda name: token.lower() in name.lower()

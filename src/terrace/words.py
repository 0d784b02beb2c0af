# SPDX-License-Identifier: GPL-2.0
"""Words of the command line: the nearest known word to a wrong one, and a parser that suggests it."""

import argparse
import contextlib
import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn


def did_you_mean(word: str, known: Iterable[str], meaning: Mapping[str, str] = {}) -> str:
    """`did you mean X or Y? ` with the words of `known` that are near to `word`; empty if none is.

    `meaning` maps other names to the words to suggest for them.
    """
    hits = difflib.get_close_matches(word.lower(), list(known), 2, cutoff=0.65)
    near = dict.fromkeys(meaning.get(hit, hit) for hit in hits)
    return f"did you mean {' or '.join(near)}? " if near else ""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that suggests the right word for a wrong one, and takes --yes wherever options are taken."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_argument(
            "--yes",
            action=_Yes,
            nargs=0,
            default=argparse.SUPPRESS,
            help="install missing Debian packages without asking",
        )

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """As ever, but words that are left over are refused by the parser whose they would be, which knows the rest."""
        found, rest = super().parse_known_args(*args, **kwargs)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print, and leave a closed stream to the end of the program: Python 3.11.2 raises here, later ones do not."""
        with contextlib.suppress(OSError):
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """End with exit code 2, after usage, message and suggestion."""
        hint = self._hint(message).strip()
        super().error(f"{message}; {hint}" if hint else message)

    def _hint(self, message: str) -> str:
        if choice := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            return did_you_mean(choice[1], re.findall(r"[^\s,']+", choice[2]))
        if option := re.search(r"unrecognized arguments: .*?--([\w-]+)", message):
            known = {name: f"--{name}" for name in re.findall(r"(?<![\w-])--([a-z][\w-]*)", self.format_help())}
            return did_you_mean(option[1], known, known)
        return ""


class _Yes(argparse.Action):
    """Nobody is asked, in this process and those it starts (terrace.host)."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        os.environ["TERRACE_YES"] = "1"

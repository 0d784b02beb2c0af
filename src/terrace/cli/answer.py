# SPDX-License-Identifier: GPL-2.0
"""The result of a subcommand as JSON: the meaning of --json and -o FILE, the same in all of them.

--json: stdout has the document and nothing else. -o FILE: the document is written to FILE, and
stdout has the text as usual. Both: the document is written to FILE, and stdout stays empty.
"""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from terrace import files, output
from terrace.errors import TerraceError, UsageError
from terrace.paths import document

Document = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser, file: bool = True) -> None:
    """Add --json and, unless -o of this subcommand writes something else, -o FILE."""
    parser.add_argument("--json", action="store_true", help=f"print only JSON ({document('reference/json.md')})")
    if file:
        parser.add_argument(
            "-o", "--output", dest="json_file", type=Path, metavar="FILE", help="write the JSON to FILE"
        )


def check(args: argparse.Namespace) -> None:
    """Reject arguments that are invalid for any subcommand before long work: FILE of -o, DIR of
    --root. Raises UsageError.
    """
    if getattr(args, "root", None) is not None:
        check_root(args.root)
    if getattr(args, "json_file", None):
        check_writable("-o", args.json_file)


def check_root(root: str) -> None:
    """Raise UsageError if ``root``, the value of --root, has no files of a machine in it."""
    if not Path(root).is_dir():
        raise UsageError(f"--root {root}: there is no such folder; name one with proc/ and sys/ in it")
    if not any((Path(root) / name).is_dir() for name in ("proc", "sys")):
        raise UsageError(f"--root {root}: neither proc/ nor sys/ is in it; name the folder of a machine's files")


def check_writable(option: str, path: Path) -> None:
    """Raise UsageError if the file `path`, the value of `option`, certainly cannot be written."""
    folder = path.absolute().parent
    if path.is_dir():
        raise UsageError(f"{option} {path}: this is a folder; name a file in it")
    if not folder.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {folder}; make it first or name another")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"{option} {path}: you may not write there; name another file")


def give(args: argparse.Namespace, document: Document, text: Callable[[], None] | None = None) -> None:
    """Write the result as requested: as JSON, by calling `text`, which prints it as text, or both.

    Raises TerraceError if the file cannot be written.
    """
    if path := getattr(args, "json_file", None):
        _write(path, document)
    elif args.json:
        output.emit_json(document)
    if text and not args.json:
        text()


def _write(path: Path, document: Document) -> None:
    try:
        files.replace(path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
    except OSError as error:
        raise TerraceError(f"-o {path}: {files.why(error, path)}") from error


class Lines:
    """Like `give`, for several results: one document per line, each written at once."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._file: TextIO | None = None

    def give(self, document: Document, text: Callable[[], None]) -> None:
        """Write the next result. Raises TerraceError if the file cannot be written."""
        if self._args.json_file:
            self._write(json.dumps(document))
        elif self._args.json:
            print(json.dumps(document), flush=True)
        if not self._args.json:
            text()

    def _write(self, line: str) -> None:
        path = self._args.json_file
        try:
            if self._file is None:
                self._file = path.open("w", encoding="utf-8")
            self._file.write(f"{line}\n")
            self._file.flush()
        except OSError as error:
            raise TerraceError(f"-o {path}: {files.why(error, path)}") from error


@contextlib.contextmanager
def text_aside(args: argparse.Namespace) -> Iterator[None]:
    """With --json, print the progress of long work to stderr; `give` is called afterwards."""
    with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
        yield

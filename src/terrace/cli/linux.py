# SPDX-License-Identifier: GPL-2.0
"""The option --linux of all subcommands that build kernels."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from terrace.kernel.source import PACKAGE, SERIES, VARIABLE


def add_linux(parser: argparse.ArgumentParser) -> None:
    """Add --linux PATH, the source of all kernels that this process and its children build."""
    parser.add_argument(
        "--linux",
        action=_Linux,
        metavar="PATH",
        help=f"build kernels from this Linux {SERIES}.y instead of Debian's installed package: a folder, a tarball of "
        f"kernel.org, or Debian's {PACKAGE}_*.deb; ${VARIABLE} does the same",
    )


class _Linux(argparse.Action):
    """Stores the path for this process and its children, which may run in other folders."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        path = Path(str(values)).absolute()
        if not str(values) or not path.exists():
            parser.error(f"--linux {values}: no such file or folder")
        setattr(namespace, self.dest, path)
        os.environ[VARIABLE] = str(path)

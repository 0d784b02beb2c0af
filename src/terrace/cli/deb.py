# SPDX-License-Identifier: GPL-2.0
"""terrace deb: build Debian packages for a real machine."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from terrace.cli import answer
from terrace.cli.kernel import add_jobs
from terrace.cli.linux import add_linux
from terrace.errors import UsageError
from terrace.files import read_regular
from terrace.host import require_packages
from terrace.kernel import source
from terrace.packages import kernel, tools
from terrace.paths import require_checkout

#: No configuration of a kernel is larger.
_MOST_BYTES = 16 << 20

WHAT = {
    "tools": "terrace-tools, libterrace0, libterrace-dev: a minute",
    "kernel": "linux-image-…+terrace, linux-headers: hours with all modules of a distribution",
}
EPILOG = """\
The kernel's configuration is that of the running kernel, or the given one, with Terrace's options on
top. The packages of the tools contain the files tracked by git, with local changes; their version
names the commit. All packages are written to build/deb: apt install ./build/deb/*.deb
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    help_text = "; ".join(f"{name} ({what})" for name, what in WHAT.items())
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"{help_text}; all if none is named")
    parser.add_argument("--config", type=Path, metavar="PATH", help="the kernel's configuration to start from")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only-loaded", action="store_true", help="leave out kernel modules that are not loaded now")
    which.add_argument(
        "--modules", type=Path, metavar="FILE", help="leave out those that are not in this output of lsmod"
    )
    add_jobs(parser)
    add_linux(parser)
    answer.add_arguments(parser)


def check_arguments(args: argparse.Namespace) -> None:
    """Reject packages that cannot be built. Raises UsageError."""
    if unknown := [name for name in args.what if name not in WHAT]:
        raise UsageError(f"there is no package '{unknown[0]}' to make; there are {', '.join(WHAT)}")
    if "tools" in (args.what or WHAT):
        require_checkout("terrace deb tools")
    if args.what and "kernel" not in args.what:
        for word in ("config", "only_loaded", "modules", "jobs", "linux"):
            if getattr(args, word):
                raise UsageError(
                    f"--{word.replace('_', '-')} is about the kernel, and only {args.what[0]} is to be made"
                )


def main(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    wanted = args.what or list(WHAT)
    written: list[Path] = []
    with answer.text_aside(args):
        if "kernel" in wanted:
            # Report errors of the base before anything is built.
            base = _base(args)
            require_packages(kernel.PACKAGES, "make Debian packages of the kernel")
        if "tools" in wanted:
            written += tools.make()
        if "kernel" in wanted:
            found = source.find()
            written += kernel.make(found, base, jobs=args.jobs)
    document = {"version": 1, "kind": "files", "written": [str(path) for path in written], "removed": []}
    answer.give(args, document, lambda: print(*written, sep="\n"))
    return 0


def _base(args: argparse.Namespace) -> kernel.Base:
    text, origin = (_read_config(args.config), str(args.config)) if args.config else kernel.running_config()
    modules = Path("/proc/modules").read_text() if args.only_loaded else None
    return kernel.Base(text, origin, _read_modules(args.modules) if args.modules else modules)


def _read_config(path: Path) -> str:
    expected = "give the configuration of a kernel, as in /boot/config-* or in the .config of a built tree"
    return _read("--config", path, expected, r"^CONFIG_\w+=", "CONFIG_…=value")


def _read_modules(path: Path) -> str:
    expected = "give what lsmod prints on the machine that the kernel is for, or its /proc/modules"
    return _read("--modules", path, expected, r"^\w+ +\d+ +\d+", "a module with its size and its users")


def _read(option: str, path: Path, expected: str, line: str, named: str) -> str:
    """Read a file of which at least one line must be like ``line``. Raises UsageError."""
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8")
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}; {expected}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{option} {path}: no text; {expected}") from error
    if not re.search(line, text, re.MULTILINE):
        raise UsageError(f"{option} {path}: no line of it is {named}; {expected}")
    return text

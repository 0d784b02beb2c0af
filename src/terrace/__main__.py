# SPDX-License-Identifier: GPL-2.0
"""The `terrace` command: select the subcommand, install what it needs, run it, and turn errors into messages."""

import contextlib
import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from terrace import __version__, cli, files, output
from terrace.cli import answer
from terrace.errors import MissingError, TerraceError, UsageError
from terrace.paths import cache_path, has_lab, installation, package_dir
from terrace.words import Parser, did_you_mean


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own) and return its exit code."""
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    words = list(sys.argv[1:] if argv is None else argv)
    # The streams are None if the caller has closed them.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        output.print_anything(stream)
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Not if nohup has set the signal to be ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    try:
        return _outcome(words)
    finally:
        _leave_nothing_to_write()


def _complete() -> None:
    """Complete a command for the shell; silent without argcomplete."""
    with contextlib.suppress(ImportError):
        importlib.import_module("terrace.complete").answer()
    sys.exit(1)


def _outcome(words: list[str]) -> int:
    """Get the exit code; all errors are reported here."""
    try:
        try:
            code = _run(words)
        except SystemExit as done:
            # Help was printed, or a word rejected: the rest of the buffer can also meet a closed
            # pipe.
            code = done.code if isinstance(done.code, int) else 1
        sys.stdout.flush()
        return code
    except TerraceError as error:
        _tell(f"{output.style('terrace:', 'red', sys.stderr)} {error}")
        _tell_of_full_disks(error)
        return error.exit_code
    except KeyboardInterrupt:
        _tell("terrace: interrupted")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of the output has closed it.
        return 128 + signal.SIGPIPE
    except OSError as error:
        if os.environ.get("TERRACE_DEBUG"):
            raise
        _tell(f"terrace: {_explained(error)}")
        return 1


def _explained(error: OSError) -> str:
    """Get the message of the error: for a full disk and an unusable cache with the folder and a fix."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return files.why(error)
    with contextlib.suppress(TerraceError):
        cache = cache_path()
        name = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
        # An error of the folder itself may name its parent.
        if name and (name.is_relative_to(cache) or cache.is_relative_to(name)):
            return f"the cache {cache} cannot be used ({error.strerror}): name another with TERRACE_CACHE=/some/path"
    return f"{error} (TERRACE_DEBUG=1 shows where)"


def _tell_of_full_disks(error: TerraceError) -> None:
    """Name a full file system if a program, such as a compiler, may have failed because of it."""
    if not isinstance(error, UsageError) and " left in " not in str(error):
        for folder in files.full_folders():
            _tell(f"terrace: there is no space left in {folder}")


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _tell(text: str) -> None:
    """Print a last message; without a reader there is still the exit code."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _leave_nothing_to_write() -> None:
    """Prevent the interpreter's error for a closed pipe at exit, when it flushes."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _end(number: int, _frame: FrameType | None) -> None:
    """End in order, so that child processes (make, QEMU) end too."""
    sys.exit(128 + number)


def _run(words: list[str]) -> int:
    verbs = cli.verbs()
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--yes":
            os.environ["TERRACE_YES"] = "1"
        elif word == "--version":
            print(f"terrace {__version__} ({installation()}: {package_dir()})")
            return 0
        elif word in ("-h", "--help"):
            print(_help(verbs))
            return 0
        else:
            print(f"terrace: unknown option {word}; the options here are --help, --version, --yes", file=sys.stderr)
            return 2
    if not words:
        print(_help(verbs), file=sys.stderr)
        return 2
    if words[0] == "help":
        # `help VERB …` is `VERB … --help`, which also reports an unknown VERB.
        words = [*words[1:], "--help"]
        if len(words) == 1:
            print(_help(verbs))
            return 0
    name = words[0]
    if name not in verbs:
        hint = did_you_mean(name, verbs)
        print(
            f"terrace: there is no subcommand '{name}'; {hint}the subcommands are {', '.join(verbs)}", file=sys.stderr
        )
        return 2
    verb = verbs[name]
    module = importlib.import_module(verb.module)
    parser = Parser(prog=f"terrace {name}", description=f"{verb.summary[0].upper()}{verb.summary[1:]}.")
    module.add_arguments(parser)
    args = parser.parse_args(words[1:])
    # Neither help nor a mistake needs packages.
    answer.check(args)
    if hasattr(module, "check_arguments"):
        module.check_arguments(args)
    if verb.needs and (not hasattr(module, "needs_packages") or module.needs_packages(args)):
        _enter(verb, words)
    code: int = module.main(args)
    return code


def _enter(verb: cli.Verb, words: list[str]) -> None:
    """Continue with the packages of a subcommand. Raises MissingError if they have to be Debian's."""
    assert verb.needs
    if not has_lab():
        raise MissingError(
            f"`terrace {verb.name}` needs what Debian calls {verb.debian}: apt-get install {verb.debian}"
        )
    from terrace import venv

    venv.enter(verb.needs, words)


def _help(verbs: dict[str, cli.Verb]) -> str:
    rows = [("  " + verb.name, verb.summary) for verb in verbs.values()]
    return "\n".join(
        [
            "usage: terrace [--yes] VERB …",
            "",
            "Tiered memory for Linux: a kernel that moves hot pages to fast memory, and a lab to see it.",
            "",
            output.format_table(rows),
            "",
            "terrace help VERB prints details. --yes: install missing Debian packages without asking.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: GPL-2.0
"""`terrace kernel`: build kernels and work on their source."""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from terrace import output
from terrace.cli import answer
from terrace.cli.linux import add_linux
from terrace.kernel import build as builder
from terrace.kernel import check, config, edit, nops, series, size
from terrace.kernel import source as linux_source
from terrace.paths import build_dir, require_checkout
from terrace.units import whole_number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `terrace kernel`."""
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_build(commands.add_parser("build", help="build kernels"))
    _add_tree(commands.add_parser("tree", help="make a git tree of the patched kernel to edit"))
    _add_save(commands.add_parser("save", help="bring edits of that tree back into overlay and hooks"))
    _add_refresh(commands.add_parser("refresh", help="write hooks edited by hand anew, with right line numbers"))
    _add_check(commands.add_parser("check", help="check overlay, hooks, series and size"))
    _add_series(commands.add_parser("series", help="write the submit-ready patch series"))


def check_arguments(args: argparse.Namespace) -> None:
    """Reject editing an installed tool."""
    if args.command in ("tree", "save", "refresh"):
        require_checkout(f"terrace kernel {args.command}")


def main(args: argparse.Namespace) -> int:
    """Run the subcommand and return its exit code."""
    code: int = args.run(args)
    return code


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add --jobs."""
    number = whole_number("--jobs", 1, 1024)
    parser.add_argument("--jobs", "-j", type=number, metavar="N", help="parallel jobs (default: one for each CPU)")


def _add_build(parser: argparse.ArgumentParser) -> None:
    flavours = "; ".join(f"{flavour.name}: {flavour.purpose}" for flavour in config.FLAVOURS.values())
    parser.description = f"Build kernels. Flavours: {flavours}."
    parser.add_argument(
        "flavours", nargs="*", metavar="FLAVOUR", help=f"{', '.join(config.FLAVOURS)} (default: terrace)"
    )
    add_jobs(parser)
    answer.add_arguments(parser)
    add_linux(parser)
    parser.set_defaults(run=_build)


def _build(args: argparse.Namespace) -> int:
    kernels = []
    names = [config.flavour(name).name for name in args.flavours or ["terrace"]]
    builder.prepare_all(names)
    for name in names:
        start = time.monotonic()
        kernel = builder.build(name, jobs=args.jobs)
        took = output.format_duration(time.monotonic() - start)
        output.say(f"{name}: Linux {kernel.version}, {took}: {kernel.vmlinux}")
        kernels.append(kernel)
    answer.give(args, {"version": 1, "kind": "kernels", "kernels": [_kernel_facts(kernel) for kernel in kernels]})
    return 0


def _kernel_facts(kernel: builder.Kernel) -> dict[str, str]:
    return {
        "flavour": kernel.flavour,
        "version": kernel.version,
        "vmlinux": str(kernel.vmlinux),
        "config": str(kernel.config),
        "config_hash": kernel.config_hash,
        "content_hash": kernel.content_hash,
        "source_hash": kernel.source_hash,
    }


def _add_tree(parser: argparse.ArgumentParser) -> None:
    parser.description = "Make a git tree of the patched kernel: Linux, the overlay, one commit for each hook."
    parser.add_argument("path", nargs="?", type=Path, help="where (default: build/linux-edit)")
    parser.add_argument("--force", action="store_true", help="throw away edits that were not saved")
    answer.add_arguments(parser)
    add_linux(parser)
    parser.set_defaults(run=_tree)


def _tree(args: argparse.Namespace) -> int:
    folder = args.path or edit.default_dir()
    edit.make(linux_source.find(), folder, force=args.force)
    output.say(f"edit in {folder}, then run: terrace kernel save")
    return _give_files(args, [folder], lambda: None)


def _add_save(parser: argparse.ArgumentParser) -> None:
    parser.description = "Bring edits back: new files into the overlay, changes of Linux files into their hooks."
    parser.add_argument("path", nargs="?", type=Path, help="the edited tree (default: build/linux-edit)")
    parser.add_argument("--hook", metavar="NAME.patch", help="the hook, new or not, that takes changes of Linux files")
    answer.add_arguments(parser)
    parser.set_defaults(run=_save)


def _save(args: argparse.Namespace) -> int:
    return _report(args, edit.save(args.path or edit.default_dir(), args.hook))


def _add_refresh(parser: argparse.ArgumentParser) -> None:
    parser.description = "Write every hook anew as it applies now: right line numbers, one format of diffs."
    answer.add_arguments(parser)
    add_linux(parser)
    parser.set_defaults(run=_refresh)


def _refresh(args: argparse.Namespace) -> int:
    return _report(args, edit.refresh(linux_source.find()))


def _report(args: argparse.Namespace, saved: edit.Saved) -> int:
    def text() -> None:
        for name in saved.written:
            print(f"wrote {name}")
        for name in saved.removed:
            print(f"removed {name}")
        if not saved.written and not saved.removed:
            output.say("nothing to write")

    return _give_files(args, saved.written, text, saved.removed)


def _give_files(
    args: argparse.Namespace, written: Iterable[object], text: Callable[[], None], removed: Iterable[object] = ()
) -> int:
    shown = {"written": [str(path) for path in written], "removed": [str(path) for path in removed]}
    answer.give(args, {"version": 1, "kind": "files", **shown}, text)
    return 0


def _add_check(parser: argparse.ArgumentParser) -> None:
    width = max(len(item.name) for item in check.CHECKS)
    rows = "\n".join(f"  {item.name:{width}}  {item.purpose}{' (slow)' if item.slow else ''}" for item in check.CHECKS)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = f"Check the kernel part. The checks:\n{rows}"
    parser.add_argument("names", nargs="*", metavar="CHECK", help="the checks to run (default: all but slow ones)")
    parser.add_argument("--full", action="store_true", help="also the slow ones")
    parser.add_argument("--list", action="store_true", help="name the checks and do nothing")
    answer.add_arguments(parser)
    add_linux(parser)
    parser.set_defaults(run=_check)


def _check(args: argparse.Namespace) -> int:
    if args.list:
        rows = [(item.name, item.purpose + (" (slow)" if item.slow else "")) for item in check.CHECKS]
        known = [{"check": item.name, "purpose": item.purpose, "slow": item.slow} for item in check.CHECKS]
        answer.give(args, {"version": 1, "kind": "known-checks", "checks": known}, lambda: output.table(rows))
        return 0
    results = check.run_checks(args.names, full=args.full)
    passed = all(result.passed for result in results)
    document = {"version": 1, "kind": "checks", "passed": passed, "checks": [_as_json(r) for r in results]}
    answer.give(args, document, lambda: _print_results(results))
    return 0 if passed else 1


def _print_results(results: Sequence[check.Result]) -> None:
    for result in results:
        print(f"{'ok' if result.passed else 'FAILED':6} {result.name} ({output.format_duration(result.seconds)})")
        shown = [*size.table(result.sizes).splitlines(), *nops.table(result.sites).splitlines()]
        for line in [*shown, *result.problems]:
            print(f"    {line}")


def _as_json(result: check.Result) -> dict[str, object]:
    shown: dict[str, object] = {
        "check": result.name,
        "passed": result.passed,
        "seconds": round(result.seconds, 1),
        "problems": list(result.problems),
    }
    if result.sizes:
        shown["sizes"] = [asdict(item) for item in result.sizes]
    if result.sites:
        shown["sites"] = [asdict(item) for item in result.sites]
    return shown


def _add_series(parser: argparse.ArgumentParser) -> None:
    parser.description = "Write the patch series that hooks/series.toml describes, after a round trip to our tree."
    parser.add_argument("--output", "-o", type=Path, metavar="DIR", help="where (default: build/series)")
    number = whole_number("--version", 1, 999)
    parser.add_argument("--version", "-v", type=number, default=1, metavar="N", help="the N of [PATCH vN]")
    parser.add_argument("--rfc", action="store_true", help="mark it as a request for comments")
    answer.add_arguments(parser, file=False)
    add_linux(parser)
    parser.set_defaults(run=_series)


def _series(args: argparse.Namespace) -> int:
    out = args.output or build_dir() / "series"
    source = linux_source.find()
    written = series.generate(series.load(), source, out, version=args.version, rfc=args.rfc)
    return _give_files(args, written, lambda: print(*written, sep="\n"))

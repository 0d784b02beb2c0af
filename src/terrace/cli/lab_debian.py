# SPDX-License-Identifier: GPL-2.0
"""terrace lab debian: run Terrace's packages on a complete Debian, as on a real machine."""

from __future__ import annotations

import argparse
import fcntl
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from terrace import output
from terrace.cli import lab_topology
from terrace.cli.linux import add_linux
from terrace.errors import UsageError
from terrace.host import require_packages
from terrace.kernel import source
from terrace.lab import hmat
from terrace.lab.accel import ACCELERATORS, choose_accel
from terrace.lab.debian import disk, image, session
from terrace.lab.machine import Machine
from terrace.lab.run import require_guest_tools
from terrace.packages import kernel, tools
from terrace.paths import build_dir, require_checkout
from terrace.units import parse_time_ns

SUMMARY = "a whole Debian: boot menu, initramfs, systemd, apt, and our packages to install"
EPILOG = f"""\
The machine boots like a real one, with its own boot menu, kernel and initramfs. The packages of this
checkout are in {session.MOUNT_POINT}/debs there, built if out of date; none is installed. The disk is kept
between sessions. Without a command the terminal is that of the machine: `poweroff` ends the session,
Ctrl-A X switches the power off. A command runs as root after the boot, the machine powers off after it,
and its exit code is returned; if it reboots the machine, it runs again in every boot.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    lab_topology.add_arguments(parser)
    add_linux(parser)
    parser.add_argument(
        "--release",
        choices=image.RELEASES,
        default=image.DEFAULT_RELEASE,
        help="of Debian; each has a separate disk (%(default)s)",
    )
    parser.add_argument("--fresh", action="store_true", help="start with a new disk, without Terrace's packages")
    parser.add_argument(
        "--put", type=Path, action="append", default=[], metavar="FILE", help=f"have FILE in {session.MOUNT_POINT}, too"
    )
    parser.add_argument("--timeout", metavar="T", help="end the machine after T (5min) with exit code 124")
    parser.add_argument("--console", type=Path, metavar="FILE", help="file for the output of the machine's console")
    parser.add_argument(
        "--accel", choices=ACCELERATORS, default="tcg", help="kvm and auto try a probe guest first (%(default)s)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the QEMU command line and start nothing")
    parser.add_argument("--json", action="store_true", help="with --dry-run: as JSON")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …", help="the command and its arguments")


def main(args: argparse.Namespace) -> int:
    """Run the subcommand; the exit code is the command's, if it ran."""
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    limit_s = _check(args, words)
    folder = build_dir() / "debian" / args.release
    topology = lab_topology.choose(args)
    machine = Machine(
        vmlinux=Path(),
        initrd=Path(),
        console=(args.console or folder / "console").absolute(),
        topology=topology,
        accel=_accel(args),
        # A distribution's kernel patches its code.
        one_thread=True,
        hmat=hmat.path_of(topology),
    )
    debian = session.Debian(machine, folder / "disk", folder / "carried")
    if args.dry_run:
        argv = session.argv(debian, terminal=not words)
        if args.json:
            output.emit_json({"version": 1, "kind": "machine", "argv": argv})
        else:
            print(shlex.join(argv))
        return 0
    session.require(machine)
    for packages in (image.PACKAGES_OF_HOST, disk.PACKAGES, tools.PACKAGES, kernel.PACKAGES):
        require_packages(packages, "make a Debian for the lab, and packages for it")
    hmat.write(topology)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        _prepare(debian, args, words)
        if not words:
            output.say("terrace: booting; poweroff ends the session, Ctrl-A X takes the machine's power away")
            session.talk(debian)
            return 0
        code = session.run(debian, limit_s)
    if code == session.TIMED_OUT:
        output.say(f"terrace: Debian is off after {args.timeout}, or its command ended with {code}; its console ends:")
        output.say(session.last_words(debian))
    return code


def _check(args: argparse.Namespace, words: list[str]) -> float | None:
    """Reject invalid arguments before anything is built; return the time limit in seconds. Raises UsageError."""
    # The tool's packages are built from its files.
    require_checkout("terrace lab debian")
    if args.json and not args.dry_run:
        raise UsageError("lab debian: what is printed is what the command prints; --json goes with --dry-run")
    if not words:
        for option in ("timeout", "console"):
            if getattr(args, option):
                raise UsageError(f"--{option} goes with a command, and none was given behind --")
        if not args.dry_run and not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError(
                "lab debian: without a command it needs a terminal; write one behind --, as in -- uname -r"
            )
    for path in args.put:
        if not path.is_file():
            raise UsageError(f"--put {path}: no such file")
        if path.name in session.RESERVED:
            raise UsageError(f"--put {path}: {session.MOUNT_POINT} has {', '.join(session.RESERVED)} of its own")
    try:
        return parse_time_ns(args.timeout) / 1e9 if args.timeout is not None else None
    except UsageError as error:
        raise UsageError(f"--timeout: {error}") from error


def _accel(args: argparse.Namespace) -> str:
    if args.accel == "tcg" or args.dry_run:
        return "tcg"
    from terrace.kernel.build import build

    require_guest_tools()
    return choose_accel(args.accel, build("terrace").vmlinux)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Raise UsageError while another session uses this disk."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"lab debian: another session runs from {folder}/disk; end that one first") from None
        yield


def _prepare(debian: session.Debian, args: argparse.Namespace, words: Sequence[str]) -> None:
    """Create its disks."""
    linux = source.find()
    made = image.find(args.release, linux.version)
    if made.starts_its_own(linux.version):
        output.say(
            f"terrace: warning: Debian's own kernel of {args.release} is Linux {made.linux}, newer than the source,"
            f" {linux.version}: the boot menu starts Debian's. Name a newer source with --linux"
        )
    if args.fresh or not debian.root.exists():
        debian.root.unlink(missing_ok=True)
        image.copy(made, debian.root)
    packages = [*tools.make(), *kernel.make_once(linux, made.base)]
    files: dict[str, Path | str] = {f"debs/{path.name}": path for path in packages if "dbgsym" not in path.name}
    files.update({path.name: path for path in args.put})
    session.carry(debian.carried, files, words)

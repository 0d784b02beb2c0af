# SPDX-License-Identifier: GPL-2.0
"""terrace lab: run programs on a machine with memory tiers."""

import argparse
import os
import re
import shlex
import sys
from pathlib import Path

from terrace import output
from terrace.cli import answer, lab_debian, lab_topology
from terrace.cli.linux import add_linux
from terrace.errors import UsageError
from terrace.kernel import config
from terrace.kernel.elf import check_vmlinux
from terrace.lab import hmat, out
from terrace.lab.accel import ACCELERATORS, choose_accel
from terrace.lab.machine import Machine, qemu_argv
from terrace.lab.run import EXIT_NO_BOOT, GuestResult, Sink, require_guest_tools, run_in_guest
from terrace.lab.shell import raw_terminal, shell_command, terminal_size
from terrace.lab.topology import load_topology, topology_names
from terrace.paths import build_dir, trees_dir
from terrace.testing.kunit import judge_kunit
from terrace.testing.results import Reporter
from terrace.units import format_size, parse_size, parse_time_ns, whole_number

FLAVOURS = ("terrace", "stock", "debug", "static-keys", "off")
_KUNIT_LIMIT_S = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `terrace lab`."""
    verbs = parser.add_subparsers(dest="lab_verb", required=True, metavar="run|shell|debian|kunit|list")
    run = verbs.add_parser("run", help="run one command in the guest and exit with its code")
    _add_machine(run)
    _add_out(run)
    run.add_argument("--dry-run", action="store_true", help="print the QEMU command line and start nothing")
    run.add_argument("--json", action="store_true", help="with --dry-run: as JSON")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …", help="the command and its arguments")
    shell = verbs.add_parser("shell", help="a terminal in the guest; all files writable, changes are lost")
    _add_machine(shell)
    _add_out(shell)
    shell.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …", help="instead of your shell")
    lab_debian.add_arguments(verbs.add_parser("debian", help=lab_debian.SUMMARY))
    kunit = verbs.add_parser("kunit", help="boot and run the kernel's own unit tests")
    _add_machine(kunit)
    answer.add_arguments(kunit)
    kunit.add_argument("-v", "--verbose", action="store_true", help="a line for every test")
    kunit.add_argument("glob", nargs="?", default="", help="suite or suite.test, with * (default: all)")
    listing = verbs.add_parser("list", help="the topologies there are")
    answer.add_arguments(listing)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    add_linux(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--kernel", choices=FLAVOURS, default="terrace", help="kernel flavour, built when needed (%(default)s)"
    )
    which.add_argument("--vmlinux", type=Path, metavar="FILE", help="boot this vmlinux instead")
    lab_topology.add_arguments(parser)
    parser.add_argument(
        "--append", action="append", default=[], metavar="ARGS", help="more kernel arguments; may be repeated"
    )
    parser.add_argument(
        "--sysctl", action="append", default=[], metavar="NAME=VALUE", help="set before the command starts"
    )
    parser.add_argument("--timeout", metavar="T", help="end the guest after T (30s, 5min) with exit code 124")
    parser.add_argument(
        "--icount",
        type=whole_number("--icount", 0, 10),
        metavar="SHIFT",
        help="guest time counts instructions: 2^SHIFT ns each",
    )
    parser.add_argument(
        "--one-thread",
        action="store_true",
        help="all CPUs in one thread of QEMU, as --kernel static-keys has them: for a vmlinux that patches its code",
    )
    parser.add_argument(
        "--accel", choices=ACCELERATORS, default="tcg", help="kvm and auto try a probe guest first (%(default)s)"
    )
    parser.add_argument("--plugin", metavar="FILE[,KEY=VALUE…]", help="load a QEMU plugin")
    parser.add_argument("--scratch", metavar="SIZE", help="size of the writable $TERRACE_SCRATCH (half of memory)")
    parser.add_argument("--console", type=Path, metavar="FILE", help="keep the kernel's log here")


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"bring back the files that CMD writes into ${out.VARIABLE} ({out.GUEST_FOLDER}): to DIR, new or empty",
    )
    parser.add_argument(
        "--out-limit",
        metavar="SIZE",
        help=f"most bytes of files for --out ({format_size(out.DEFAULT_LIMIT)}); they are in the guest's memory",
    )


def main(args: argparse.Namespace) -> int:
    """Run the subcommand; the exit code is the command's, if it ran."""
    if args.lab_verb == "list":
        return _list(args)
    if args.lab_verb == "debian":
        return lab_debian.main(args)
    _check_machine(args)
    if args.lab_verb == "run":
        return _run(args)
    if args.lab_verb == "shell":
        return _shell(args)
    return _kunit(args)


def find_vmlinux(flavour: str, given: Path | None = None) -> Path:
    """Get the kernel to boot: the file `given`, or the flavour, built if it is out of date.

    Raises UsageError if the file does not exist, BuildError if the build fails.
    """
    if given is not None:
        check_vmlinux("--vmlinux", given)
        return given.absolute()
    from terrace.kernel.build import build

    return build(flavour).vmlinux


def _check_plugin(argument: str | None) -> None:
    """Reject a missing file; a comma in its name is doubled, as QEMU requires."""
    if argument is None:
        return
    name = re.split(r"(?<!,),(?!,)", argument, maxsplit=1)[0].replace(",,", ",")
    if not Path(name).is_file():
        raise UsageError(f"--plugin {name}: no such file; give the shared object of a QEMU plugin")


def _check_machine(args: argparse.Namespace) -> None:
    """Reject invalid machines before a kernel is built, also in a dry run."""
    lab_topology.choose(args)
    _timeout_s(args)
    _scratch_mb(args)
    _check_out(args)
    _check_plugin(args.plugin)
    for setting in args.sysctl:
        if not setting.partition("=")[0] or "=" not in setting:
            raise UsageError(f"--sysctl {setting}: use NAME=VALUE, as in vm.swappiness=10")
    if args.icount is not None and args.accel != "tcg":
        raise UsageError("--icount counts translated instructions and needs --accel tcg")


def _timeout_s(args: argparse.Namespace) -> float | None:
    try:
        return parse_time_ns(args.timeout) / 1e9 if args.timeout is not None else None
    except UsageError as error:
        raise UsageError(f"--timeout: {error}") from error


def _one_thread(args: argparse.Namespace) -> bool:
    return args.one_thread or (args.vmlinux is None and config.flavour(args.kernel).one_thread)


def _scratch_mb(args: argparse.Namespace) -> int | None:
    try:
        return max(1, parse_size(args.scratch) >> 20) if args.scratch is not None else None
    except UsageError as error:
        raise UsageError(f"--scratch: {error}") from error


def _check_out(args: argparse.Namespace) -> None:
    if getattr(args, "out", None) is not None:
        out.check_folder(args.out)
        _out_limit(args)
    elif getattr(args, "out_limit", None) is not None:
        raise UsageError("--out-limit goes with --out DIR")


def _out_limit(args: argparse.Namespace) -> int:
    try:
        limit = parse_size(args.out_limit) if args.out_limit is not None else out.DEFAULT_LIMIT
    except UsageError as error:
        raise UsageError(f"--out-limit: {error}") from error
    memory = lab_topology.choose(args).memory
    if limit < 4096 or limit > memory // 2:
        # The default is for machines of the usual size.
        if args.out_limit is None:
            return memory // 2
        raise UsageError(f"--out-limit {args.out_limit}: 4K to {format_size(memory // 2)}, half of the guest's memory")
    return limit


def _words(command: list[str]) -> list[str]:
    return command[1:] if command[:1] == ["--"] else command


def _run(args: argparse.Namespace) -> int:
    words = _words(args.command)
    if not words:
        raise UsageError("lab run: no command; write it behind --, as in: terrace lab run -- numactl --hardware")
    if args.json and not args.dry_run:
        raise UsageError("lab run: what is printed is what the command prints; --json goes with --dry-run")
    if args.dry_run:
        argv = _dry_argv(args)
        if args.json:
            output.emit_json({"version": 1, "kind": "machine", "argv": argv})
        else:
            print(shlex.join(argv))
        return 0
    return finish(_in_guest(args, words, _kernel_and_accel(args)))


def _dry_argv(args: argparse.Namespace) -> list[str]:
    """Get the command line of a dry run; the numbers of the sockets are those of a new process."""
    topology = lab_topology.choose(args)
    tree = "linux-stock" if args.kernel == "stock" else "linux-terrace"
    machine = Machine(
        vmlinux=args.vmlinux or trees_dir() / tree / f"out-{args.kernel}" / "vmlinux",
        initrd=build_dir() / "guest" / "initramfs",
        console=args.console or Path("console.log"),
        topology=topology,
        accel="tcg" if args.accel == "auto" else args.accel,
        icount_shift=args.icount,
        one_thread=_one_thread(args),
        plugin=args.plugin,
        append=args.append,
        files=args.out is not None,
        hmat=hmat.path_of(topology),
    )
    fds = range(3, 3 + len(machine.ports))
    return qemu_argv(machine, fds, fds.stop)


def _kernel_and_accel(args: argparse.Namespace) -> tuple[Path, str]:
    require_guest_tools()
    kernel = find_vmlinux(args.kernel, args.vmlinux)
    return kernel, choose_accel(args.accel, kernel)


def _in_guest(
    args: argparse.Namespace, words: list[str], ready: tuple[Path, str], root: str = "ro", tty: str | None = None
) -> GuestResult:
    return run_in_guest(
        ready[0],
        lab_topology.choose(args),
        words,
        stdin=0 if _is_open(0) else None,
        stdout=_to_descriptor(1),
        stderr=_to_descriptor(2),
        append=args.append,
        sysctl=args.sysctl,
        timeout_s=_timeout_s(args),
        accel=ready[1],
        icount_shift=args.icount,
        one_thread=_one_thread(args),
        plugin=args.plugin,
        scratch_mb=_scratch_mb(args),
        root=root,
        tty=tty,
        console=args.console,
        pass_signals=True,
        out=args.out,
        out_limit=_out_limit(args),
    )


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _to_descriptor(fd: int) -> Sink:
    def write(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]

    return write


def finish(result: GuestResult) -> int:
    """Print on stderr what the guest cannot (a dead machine, kernel reports) and return the exit code."""
    if result.verdict != "ok":
        output.say(f"terrace: {result.explain()}")
    for line in result.skipped:
        output.warn(f"--out: {line}, and stays in the guest")
    for line in result.missing:
        output.say(f"terrace: --out: {line}")
    for report in result.reports if result.verdict == "ok" else []:
        output.warn(f"the kernel reported while this ran: {report.title} (--console FILE keeps its log)")
    return result.exit_code or (EXIT_NO_BOOT if result.missing else 0)


def _shell(args: argparse.Namespace) -> int:
    words = _words(args.command) or shell_command()
    ready = _kernel_and_accel(args)
    size = terminal_size()
    if size is None:
        return finish(_in_guest(args, words, ready, root="overlay"))
    output.say("terrace: booting; exit or Ctrl-D ends the session, changes to files are lost with it")
    with raw_terminal():
        result = _in_guest(args, words, ready, root="overlay", tty=size)
    sys.stdout.flush()
    return finish(result)


def _kunit(args: argparse.Namespace) -> int:
    kernel, accel = _kernel_and_accel(args)
    append = ["kunit.enable=1", *([f"kunit.filter_glob={args.glob}"] if args.glob else []), *args.append]
    guest = run_in_guest(
        kernel,
        lab_topology.choose(args),
        ["true"],
        append=append,
        sysctl=args.sysctl,
        timeout_s=_timeout_s(args) or _KUNIT_LIMIT_S,
        accel=accel,
        icount_shift=args.icount,
        one_thread=_one_thread(args),
        console=args.console,
    )
    with answer.text_aside(args):
        reporter = Reporter(verbose=args.verbose)
        for result in judge_kunit(guest, "kunit"):
            reporter.add(result)
        print(reporter.summary())
    answer.give(args, reporter.as_json())
    if guest.verdict != "ok":
        return guest.exit_code
    return 1 if reporter.count("fail") else 0


def _list(args: argparse.Namespace) -> int:
    machines = [load_topology(name) for name in topology_names()]
    shown = [
        {
            "name": machine.name,
            "description": machine.description,
            "nodes": [{"memory_bytes": node.memory, "cpus": node.cpus} for node in machine.nodes],
        }
        for machine in machines
    ]
    rows = [(m.name, m.cpus, "+".join(format_size(n.memory) for n in m.nodes), m.description) for m in machines]
    head = ("NAME", "CPUS", "MEMORY", "WHAT IT IS")
    answer.give(args, {"version": 1, "kind": "topologies", "topologies": shown}, lambda: output.table(rows, head))
    return 0

# SPDX-License-Identifier: GPL-2.0
"""Terrace's QEMU plugins: compile them, and get their options for a kernel and a machine."""

import hashlib
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from terrace import stored
from terrace.errors import BuildError, MissingError, UsageError
from terrace.host import clean_env, require_packages
from terrace.lab.emulator import Emulator, Plugins, find_emulator, find_plugins, require_plugins
from terrace.lab.initramfs import COMPILER
from terrace.lab.timing import machine_text
from terrace.lab.topology import Topology
from terrace.paths import build_dir, repo_root

_CFLAGS = ("-std=gnu11", "-O2", "-flto", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread")
_READER = ("binutils",)
_MODEL = ("model.c", "balance.c", "drive.c")
_SOURCES = {
    "insn_count": ("insn_count.c", "kinds.c", "emulator.c"),
    "timing": ("plugin.c", "kinds.c", "emulator.c", *_MODEL, "machine.c", "report.c", "pages.c"),
}
_PROBE = ("probe.c", "emulator.c", *_MODEL)
# Kinds of tasks that are counted separately: name -> the function that only such a task runs. A
# kernel may lack some.
_KINDS = {
    "idle": "do_idle",
    "kmtierd": "mtier_burst_thread",
    "kswapd": "kswapd",
    "kcompactd": "kcompactd",
    "kdamond": "kdamond_fn",
}
#: Kinds of tasks that have no user code.
KERNEL_THREADS = frozenset(_KINDS)
_MARKED = {"app": 1, "sampler": 2}
# Kinds of work from a function until the return to user mode: the stock kernel's scan in the task's
# own time.
_PATHS = {"numa_scan": "task_numa_work"}
# Events of TLB flushes, wake-ups and huge pages: option of the timing plugin -> functions that are
# such an event.
_EVENTS = {
    "sent": ("native_flush_tlb_multi",),
    "ipi": ("sysvec_call_function", "sysvec_call_function_single"),
    "local": ("flush_tlb_mm_range", "arch_tlbbatch_flush"),
    "flush": ("flush_tlb_func",),
    "wake": ("native_smp_send_reschedule", "native_send_call_func_single_ipi", "native_send_call_func_ipi"),
    "huge": ("pgtable_trans_huge_deposit",),
}
# The lab's init is the first program that a guest executes, the command is the second.
_EXEC = "begin_new_exec"
_COMMAND_IS_EXEC = 2


@dataclass(frozen=True)
class TimingOptions:
    """Options of the timing plugin.

    `ledger` is the file for the JSON; `series_ms` is the step of its time series in modelled time
    (0: none); `pages` is the file for the misses to memory of each virtual page of the app.
    `from_boot`: the model starts with the machine, not with the command. `drives`: the guest's
    clock is the model's (plugin/drive.h), which needs -icount; the shift then sets how often QEMU
    checks its timers, not the time of an instruction.
    """

    ledger: Path
    series_ms: float = 0.0
    pages: Path | None = None
    from_boot: bool = False
    drives: bool = False


def require_tools(*, drives: bool = False) -> Plugins:
    """Install everything that the plugins need on this host; `drives` as in TimingOptions. Call
    this before any long work.

    Raises MissingError for a package that cannot be installed, and for a QEMU in which the plugins
    do not work.
    """
    require_packages(COMPILER, "compile QEMU plugins")
    require_packages(_READER, "read a kernel's symbols")
    emulator = find_emulator()
    plugins = find_plugins(emulator, _compile_probe)
    require_plugins(emulator, plugins, drives=drives)
    return plugins


def compile_plugin(name: str) -> Path:
    """Compile the plugin of this name (insn_count, timing) for this host's QEMU, if a source has
    changed.

    Raises UsageError for another name, MissingError like require_tools, and BuildError with the
    compiler's messages.
    """
    if name not in _SOURCES:
        raise UsageError(f"there is no plugin '{name}'; there are {', '.join(_SOURCES)}")
    return _compile(name, _SOURCES[name], require_tools().abi)


def _compile_probe(abi: int) -> Path:
    return _compile("probe", _PROBE, abi)


def _compile(name: str, files: tuple[str, ...], abi: int) -> Path:
    folder = repo_root() / "plugin"
    flags = [*_CFLAGS, f"-DTERRACE_PLUGIN_ABI={abi}"]
    sources = [folder / source for source in files]
    parts = [path.read_bytes() for path in (*sources, *sorted(folder.glob("*.h")))]
    digest = hashlib.sha256(b"".join([*parts, " ".join(flags).encode()])).hexdigest()[:16]
    target = build_dir() / "plugin" / f"{name}-{digest}.so"
    if stored.is_kept(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        fresh = Path(scratch) / target.name
        words = ["gcc", *flags, "-o", str(fresh), *map(str, sources), "-lm"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"the plugin {name} does not compile:\n{done.stderr.strip()}")
        stored.keep(fresh, target)
    return target


def read_symbols(vmlinux: Path) -> dict[str, int]:
    """Read the address of every function of a kernel, by name (the first of several with one name).

    Raises MissingError if the file has no symbols.
    """
    require_packages(_READER, "read a kernel's symbols")
    done = subprocess.run(
        ["nm", "--defined-only", str(vmlinux)], capture_output=True, text=True, check=False, env=clean_env()
    )
    symbols: dict[str, int] = {}
    for line in done.stdout.splitlines():
        address, _, rest = line.partition(" ")
        kind, _, name = rest.partition(" ")
        if kind in ("t", "T"):
            symbols.setdefault(name, int(address, 16))
    if not symbols:
        why = done.stderr.strip() or "it is stripped"
        raise MissingError(f"{vmlinux}: no symbols to read ({why}); give an unstripped vmlinux")
    return symbols


def counter_argument(plugin: Path, symbols: Mapping[str, int], out: Path, blocks: Path | None = None) -> str:
    """Get the value of -plugin for insn_count: the file and its options for the kernel with these
    symbols.

    `blocks` is the file that terrace.demo.functions reads.

    Raises MissingError if the kernel has no __switch_to_asm, which is needed to distinguish tasks.
    """
    profile = [f"blocks={_escape(blocks)}"] if blocks else []
    return ",".join([_escape(plugin), f"out={_escape(out)}", *profile, *_kind_options(symbols)])


def timing_argument(
    plugin: Path,
    symbols: Mapping[str, int],
    topology: Topology,
    options: TimingOptions,
    machine_file: Path,
    emulator: Emulator | None = None,
) -> str:
    """Get the value of -plugin for timing, and write the machine to `machine_file`.

    `emulator` is the QEMU to use, by default the installed one. `topology` is the machine as QEMU
    gets it, after any change of its CPUs and memory. Raises UsageError if it lacks a parameter of
    the model, and MissingError like counter_argument.
    """
    machine_file.write_text(machine_text(topology, physical=(emulator or find_emulator()).tells_physical))
    words = [_escape(plugin), f"out={_escape(options.ledger)}", f"machine={_escape(machine_file)}"]
    words += _kind_options(symbols)
    for option, functions in _EVENTS.items():
        words += [f"{option}={symbols[name]:x}" for name in functions if name in symbols]
    if options.from_boot or _EXEC not in symbols:
        words.append("start=boot")
    else:
        words.append(f"start={symbols[_EXEC]:x}@{_COMMAND_IS_EXEC}")
    if options.series_ms:
        words.append(f"series={options.series_ms:g}")
    if options.pages:
        words.append(f"pages={_escape(options.pages)}")
    if options.drives:
        words.append("clock=model")
    return ",".join(words)


def _kind_options(symbols: Mapping[str, int]) -> list[str]:
    if "__switch_to_asm" not in symbols:
        raise MissingError("the kernel has no symbol __switch_to_asm: not an x86_64 Linux of a kind we know")
    words = [f"switch={symbols['__switch_to_asm']:x}"]
    if "ret_from_fork_asm" in symbols:
        words.append(f"newtask={symbols['ret_from_fork_asm']:x}")
    words += [f"kind={name}@mark{number}" for name, number in _MARKED.items()]
    words += [f"kind={name}@{symbols[where]:x}" for name, where in _KINDS.items() if where in symbols]
    words += [f"path={name}@{symbols[where]:x}" for name, where in _PATHS.items() if where in symbols]
    return words


def _escape(path: Path) -> str:
    """Escape commas, which end an option of a plugin, by doubling them."""
    return str(path).replace(",", ",,")

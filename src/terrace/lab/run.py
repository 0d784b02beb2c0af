# SPDX-License-Identifier: GPL-2.0
"""Run one command on a machine of the lab: its input and output, its end, and the kernel's messages."""

import os
import selectors
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from terrace.host import require_packages
from terrace.lab import hmat
from terrace.lab.console import KernelReport, classify, last_words
from terrace.lab.initramfs import COMPILER, GuestConfig, write_initramfs
from terrace.lab.machine import FILES_PORT, Machine
from terrace.lab.out import DEFAULT_LIMIT, GUEST_FOLDER, VARIABLE, Receiver
from terrace.lab.qemu import Qemu, is_bug, require_host_memory, require_qemu
from terrace.lab.topology import Topology, load_topology
from terrace.lab.tsc import clock_arguments
from terrace.output import warn

Sink = Callable[[bytes], None]

EXIT_NO_ANSWER = 124
EXIT_NO_BOOT = 125
SCRATCH = "/run/terrace/scratch"
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TICK_S = 0.2
_CHUNK = 65536
_ENDINGS = {
    "timeout": "did not end within its time limit",
    "hang": "stopped answering",
    "panic": "went down before the command ended",
    "no-boot": "did not boot",
    "qemu": "was lost",
    "setup": "could not be set up as requested",
    "interrupted": "was ended by a signal",
}


@dataclass(frozen=True)
class Limits:
    """Seconds of host time: until init must answer, between heartbeats, to end after a request, and
    to print its CPUs' state.

    The last limit applies only without messages; otherwise the kernel ends by itself. `files_s`:
    until all files of an ended command have arrived.
    """

    boot_s: float = 120.0
    hang_s: float = 60.0
    stop_s: float = 3.0
    answer_s: float = 30.0
    files_s: float = 120.0

    def scaled(self, factor: float) -> "Limits":
        """Get the same limits for a slower machine."""
        return Limits(self.boot_s * factor, self.hang_s * factor, self.stop_s, self.answer_s, self.files_s * factor)


@dataclass(frozen=True)
class GuestResult:
    """The result of a run.

    `verdict` is ok if the command itself ended (`exit_code` is then its own, 128+N after signal N),
    otherwise timeout, hang or panic (124), no-boot or setup (125), qemu (a signal ended QEMU: 124,
    or 125 during boot), interrupted (128+N). `stdout` and `stderr` are empty if sinks received
    them. `missing` lists files that could not be returned, with reasons, `skipped` entries that are
    no files. `boot_s` and `run_s` are host seconds until the start of the command and until the
    end.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    console_log: str
    verdict: str
    message: str = ""
    boot_s: float = 0.0
    run_s: float = 0.0
    missing: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def reports(self) -> list[KernelReport]:
        """Get the errors in the kernel log."""
        return classify(self.console_log)

    def explain(self) -> str:
        """Describe a run that did not end by itself, with the kernel's last messages; otherwise ''."""
        if self.verdict == "ok":
            return ""
        text = f"the guest {_ENDINGS[self.verdict]}"
        if self.message:
            text += f": {self.message}"
        if self.verdict in ("setup", "interrupted") or (self.verdict == "timeout" and not self.reports and self.boot_s):
            return text
        words = last_words(self.console_log)
        if not words:
            return text + "\nthe kernel said nothing"
        return "\n".join([text, "the kernel's last words:", *("  " + line for line in words)])


def guest_environment(base: Mapping[str, str], *, out: bool = False) -> dict[str, str]:
    """Get the caller's environment for the command in the guest; `out`: the command can return files."""
    env = {name: value for name, value in base.items() if name not in ("TMPDIR", "XDG_RUNTIME_DIR", VARIABLE)}
    if out:
        env[VARIABLE] = GUEST_FOLDER
    env["TERRACE_SCRATCH"] = SCRATCH
    env["TERRACE_GUEST"] = "1"
    return env


def choose_topology(topology: Topology | str, cpus: int | None = None, memory_scale: float = 1.0) -> Topology:
    """Get a machine by name or as given, with other numbers of CPUs and memory.

    Raises UsageError for an impossible machine, also for more memory than this host has.
    """
    result = load_topology(topology) if isinstance(topology, str) else topology
    if cpus is not None:
        result = result.with_cpus(cpus)
    if memory_scale != 1.0:
        result = result.with_memory_scale(memory_scale)
    require_host_memory(result)
    return result


def require_guest_tools() -> None:
    """Install everything that a guest needs on this host: QEMU, and a compiler for its init. Call
    this before any long work.

    Raises MissingError for a package that cannot be installed, and for a QEMU that cannot run
    guests.
    """
    require_qemu()
    require_packages(COMPILER, "compile programs of the guest")


def beat_ms(cpus: int, *, counts: bool) -> int:
    """Get the period of the heartbeat in guest milliseconds; `cpus` is 0 without a plugin.

    Where guest time counts instructions, all CPUs take turns on one core of the host. With the timing model a guest
    second of 4 busy CPUs takes 160 s there, so the period is shorter with more than two CPUs.
    """
    return 4000 // max(2, cpus) if counts else 1000


def run_in_guest(
    kernel: Path,
    topology: Topology | str,
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | bytes | None = None,
    stdout: Sink | None = None,
    stderr: Sink | None = None,
    append: Sequence[str] = (),
    sysctl: Sequence[str] = (),
    timeout_s: float | None = None,
    accel: str = "tcg",
    icount_shift: int | None = None,
    one_thread: bool = False,
    plugin: str | None = None,
    cpus: int | None = None,
    memory_scale: float = 1.0,
    scratch_mb: int | None = None,
    root: str = "ro",
    tty: str | None = None,
    console: Path | None = None,
    limits: Limits | None = None,
    pass_signals: bool = False,
    out: Path | None = None,
    out_limit: int = DEFAULT_LIMIT,
) -> GuestResult:
    """Boot `kernel` (a vmlinux) on `topology` and run `argv` there as root, with the host's files.

    `stdin` is a descriptor to read from, bytes, or None for no input. `stdout` and `stderr` receive
    bytes as they arrive; None collects them in the result. `timeout_s` limits the whole run in host
    time. A QEMU that ends during boot by a fault of its own is started once more: `argv` has not
    started at that time. SIGINT, SIGTERM and SIGHUP end the command in the guest and then have
    their usual effect here; with `pass_signals` only the command gets them. `one_thread` is for a
    kernel that patches its own code (`Flavour.one_thread`). Files that the command leaves in
    $TERRACE_OUT are copied to `out`, a new or empty folder, up to `out_limit` bytes; also those of
    a command that fails or reaches its time limit, if the kernel still answers. Raises UsageError,
    MissingError or BuildError before anything starts; all later errors are in the result.
    """
    require_qemu()
    chosen = choose_topology(topology, cpus, memory_scale)
    patience = limits or Limits().scaled(1.0 if icount_shift is None and not plugin else 5.0)
    config = GuestConfig(
        argv=argv,
        cwd=cwd or str(Path.cwd()),
        env=guest_environment(os.environ if env is None else env, out=out is not None),
        root=root,
        scratch=f"{scratch_mb}m" if scratch_mb else "50%",
        sysctl=sysctl,
        tty=tty,
        beat_ms=beat_ms(chosen.cpus if plugin else 0, counts=icount_shift is not None),
        out=None if out is None else out_limit,
    )
    receiver = None if out is None else Receiver(out, out_limit)
    with tempfile.TemporaryDirectory(prefix="terrace-lab-") as folder:
        initrd = Path(folder) / "initramfs"
        write_initramfs(initrd, config)
        machine = Machine(
            vmlinux=kernel.absolute(),
            initrd=initrd,
            console=(console or Path(folder) / "console").absolute(),
            topology=chosen,
            accel=accel,
            icount_shift=icount_shift,
            one_thread=one_thread,
            plugin=plugin,
            append=[*clock_arguments(accel, icount_shift), *append],
            files=receiver is not None,
            hmat=hmat.write(chosen),
        )
        collected = (bytearray(), bytearray())
        sinks = (stdout or collected[0].extend, stderr or collected[1].extend)
        try:
            run = _converse(machine, _Input(stdin), sinks, patience, timeout_s, receiver)
        finally:
            if receiver:
                receiver.give_up("the machine ended before all files had arrived")
        if run.stop_signal in _STOP_SIGNALS and not pass_signals:
            signal.raise_signal(run.stop_signal)
        log = machine.console.read_text(encoding="utf-8", errors="replace")
        return run.result(bytes(collected[0]), bytes(collected[1]), log)


class _Input:
    """The command's input: a descriptor, or bytes, read piece by piece."""

    def __init__(self, source: int | bytes | None) -> None:
        self.fd = source if isinstance(source, int) else None
        self.pending = source if isinstance(source, bytes) else b""
        self.sent = 0
        self.ended = self.fd is None
        self.announced = False

    def fill(self) -> None:
        if self.fd is None or self.ended or self.pending:
            return
        try:
            self.pending = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self.pending = b""
        self.ended = not self.pending


@dataclass
class _Ending:
    """Init's report of the command's end, and the number of bytes that must have arrived by that time."""

    code: int
    expected: tuple[int, int]


@dataclass
class _Run:
    """The communication with one guest, from power-on to power-off."""

    qemu: Qemu
    input: _Input
    sinks: tuple[Sink, Sink]
    limits: Limits
    timeout_s: float | None
    files: Receiver | None = None
    started: float = field(default_factory=time.monotonic)
    verdict: str = ""
    message: str = ""
    boot_s: float = 0.0
    ending: _Ending | None = None
    stop_signal: int = 0

    def __post_init__(self) -> None:
        self._last_beat = self.started
        self._received = [0, 0]
        self._control = b""
        self._to_control = b""
        self._stop_at: float | None = None
        self._files_until: float | None = None
        self._collecting = False
        self._signals: list[int] = []
        self._old_handlers: dict[int, Any] = {}
        self._selector = selectors.PollSelector()

    def __enter__(self) -> Self:
        # An exception here would leave a QEMU behind.
        if threading.current_thread() is threading.main_thread():
            for number in (*_STOP_SIGNALS, signal.SIGWINCH):
                self._old_handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.qemu.kill()
        self._selector.close()
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)

    # ---- the loop ----

    def go(self) -> None:
        """Serve the guest until its end."""
        while not self._over():
            self._watch()
            for key, events in self._selector.select(_TICK_S):
                self._serve(key.data, events)
            self._pass_signals()
            self._check_time()
        if self.verdict == "ok" and not (self.files and self.files.problems):
            self._say("off")
            self._flush_control()
            self.qemu.wait(10)

    def _over(self) -> bool:
        if self.verdict:
            return True
        if self.ending and all(got >= want for got, want in zip(self._received, self.ending.expected, strict=True)):
            if self.files and not self.files.ended:
                return False
            ended_itself = self._stop_at is None or (self.stop_signal and not self._collecting)
            self._conclude("ok" if ended_itself else "interrupted" if self.stop_signal else "timeout")
            return True
        if self.qemu.ended():
            self._drain()
            self._machine_ended()
            return True
        return False

    def _watch(self) -> None:
        """Wait only for events that can be handled now."""
        wanted: dict[int, tuple[str, int]] = {}
        for name in self.qemu.ports.keys() - {"terrace.in"}:
            wanted[self.qemu.ports[name].fileno()] = (name, selectors.EVENT_READ)
        if self._to_control:
            fd = self.qemu.ports["terrace.ctl"].fileno()
            wanted[fd] = ("terrace.ctl", selectors.EVENT_READ | selectors.EVENT_WRITE)
        if self.boot_s:
            if self.input.pending:
                wanted[self.qemu.ports["terrace.in"].fileno()] = ("terrace.in", selectors.EVENT_WRITE)
            elif not self.input.ended and self.input.fd is not None:
                wanted[self.input.fd] = ("stdin", selectors.EVENT_READ)
        for known in list(self._selector.get_map().values()):
            if known.fd not in wanted:
                self._selector.unregister(known.fd)
        for fd, (name, events) in wanted.items():
            present = self._selector.get_map().get(fd)
            if present is None:
                self._selector.register(fd, events, name)
            elif present.events != events:
                self._selector.modify(fd, events, name)

    def _serve(self, name: str, events: int) -> None:
        if name == "terrace.out" or name == "terrace.err":
            self._receive(0 if name == "terrace.out" else 1)
        elif name == FILES_PORT:
            self._receive_files()
        elif name == "terrace.ctl":
            if events & selectors.EVENT_WRITE:
                self._flush_control()
            if events & selectors.EVENT_READ:
                self._read_control()
        elif name == "stdin":
            self.input.fill()
        elif name == "terrace.in":
            self._send_input()
        if self.boot_s and self.input.ended and not self.input.pending and not self.input.announced:
            self.input.announced = True
            self._say(f"eof {self.input.sent}")

    def _read_port(self, name: str) -> bytes:
        try:
            return self.qemu.ports[name].recv(_CHUNK)
        except (BlockingIOError, ConnectionError):
            return b""

    def _receive(self, which: int) -> bool:
        data = self._read_port("terrace.out" if which == 0 else "terrace.err")
        if not data:
            self.qemu.wait(0.05)  # the machine is about to end; do not spin until then
            return False
        self._received[which] += len(data)
        try:
            self.sinks[which](data)
        except BrokenPipeError:
            # The reader of the output has gone: discard it, as for a closed pipe.
            self.sinks = (_swallow, self.sinks[1]) if which == 0 else (self.sinks[0], _swallow)
            self.stop_signal = signal.SIGPIPE
            self._ask_to_stop(signal.SIGPIPE)
        return True

    def _receive_files(self) -> bool:
        data = self._read_port(FILES_PORT)
        if not data:
            self.qemu.wait(0.05)
            return False
        self._last_beat = time.monotonic()
        if self.files:
            self.files.feed(data)
        return True

    def _send_input(self) -> None:
        try:
            count = self.qemu.ports["terrace.in"].send(self.input.pending)
        except BlockingIOError:
            return
        except OSError:
            self.input.pending, self.input.ended = b"", True
            return
        self.input.sent += count
        self.input.pending = self.input.pending[count:]

    def _say(self, line: str) -> None:
        self._to_control += line.encode() + b"\n"

    def _flush_control(self) -> None:
        try:
            count = self.qemu.ports["terrace.ctl"].send(self._to_control)
        except OSError:
            return
        self._to_control = self._to_control[count:]

    def _read_control(self) -> None:
        data = self._read_port("terrace.ctl")
        if not data:
            self.qemu.wait(0.05)
        *lines, self._control = (self._control + data).split(b"\n")
        for line in lines:
            self._hear(line.decode(errors="replace"))

    def _hear(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        self._last_beat = time.monotonic()
        if word == "boot":
            self.boot_s = self._last_beat - self.started
        elif word == "fail":
            self._conclude("setup", rest)
        elif word in ("exit", "signal"):
            number, out, err = (int(text) for text in rest.split())
            self.ending = _Ending(number if word == "exit" else 128 + number, (out, err))
            if self.files:
                self._files_until = self._last_beat + self.limits.files_s

    # ---- ends ----

    def _conclude(self, verdict: str, message: str = "") -> None:
        if not self.verdict:
            self.verdict, self.message = verdict, message

    def _drain(self) -> None:
        """Read data that the machine had sent before its end from the sockets."""
        self._read_control()
        for which in (0, 1):
            while self._receive(which):
                pass
        while self.files and self._receive_files():
            pass

    def _machine_ended(self) -> None:
        if self.ending:
            self._conclude("ok")
        elif (number := self.qemu.killed_by()) is not None:
            self._conclude("qemu", f"{number.name} ended QEMU\n{self.qemu.messages()}".strip())
        elif not self.boot_s:
            self._conclude("no-boot", self.qemu.messages())
        else:
            self._conclude("panic", self.qemu.messages())

    def qemu_failed_to_boot(self) -> bool:
        """Whether QEMU failed by its own fault before the command started; none of the command's
        bytes were used at that time.
        """
        return self.verdict == "qemu" and not self.boot_s and is_bug(self.qemu.killed_by())

    def _pass_signals(self) -> None:
        for number in self._signals[:]:
            self._signals.remove(number)
            if number == signal.SIGWINCH:
                self._resize()
            elif self._stop_at is not None or not self.boot_s:
                self.stop_signal = number
                self._conclude("interrupted")
            else:
                self.stop_signal = number
                self._ask_to_stop(number)

    def _ask_to_stop(self, number: int) -> None:
        self._say(f"signal {number}")
        self._stop_at = time.monotonic() + self.limits.stop_s

    def _resize(self) -> None:
        if sys.stdin.isatty():
            size = os.get_terminal_size(sys.stdin.fileno())
            self._say(f"winsize {size.lines} {size.columns}")

    def _check_time(self) -> None:
        now = time.monotonic()
        if self.verdict:
            return
        if self._files_until is not None:
            if now > self._files_until:
                self._give_up_files(f"the rest did not arrive within {self.limits.files_s:g} s")
            elif now - self._last_beat > self.limits.answer_s:
                self._give_up_files(f"nothing arrived for {self.limits.answer_s:g} s")
        elif self._stop_at is not None and now > self._stop_at and self.files and self.boot_s:
            # The command has ignored the request to end: init ends it, and sends the files that it
            # has written.
            self._collecting = True
            self._files_until = now + self.limits.files_s
            self._say("collect")
        elif self._stop_at is not None and now > self._stop_at:
            self._conclude("interrupted" if self.stop_signal else "timeout", self._limit_text())
        elif self.timeout_s is not None and self._stop_at is None and now - self.started > self.timeout_s:
            if self.boot_s:
                self._ask_to_stop(signal.SIGTERM)
            else:
                self._interrogate()
                self._conclude("timeout", f"{self._limit_text()}, and had not booted by then")
        elif not self.boot_s and now - self.started > self.limits.boot_s:
            self._interrogate()
            self._conclude("no-boot", f"no sign of life from init within {self.limits.boot_s:g} s")
        elif self.boot_s and now - self._last_beat > self.limits.hang_s:
            self._interrogate()
            self._conclude("hang", f"no heartbeat for {self.limits.hang_s:g} s")

    def _give_up_files(self, reason: str) -> None:
        if self.files:
            self.files.give_up(reason)
        if not self.ending:
            self._conclude("interrupted" if self.stop_signal else "timeout", self._limit_text())

    def _limit_text(self) -> str:
        return "" if self.stop_signal or self.timeout_s is None else f"{self.timeout_s:g} s"

    def _interrogate(self) -> None:
        """Make a silent kernel print the state of its CPUs."""
        self.qemu.interrupt_cpus()
        self.qemu.wait(self.limits.answer_s)

    def result(self, stdout: bytes, stderr: bytes, log: str) -> GuestResult:
        """Get the result; call this after `go`."""
        no_answer = self.verdict in ("timeout", "hang", "panic") or (self.verdict == "qemu" and self.boot_s)
        code = EXIT_NO_ANSWER if no_answer else EXIT_NO_BOOT
        message = self.message
        if self.verdict == "ok" and self.ending:
            code = self.ending.code
        elif self.verdict == "interrupted":
            code, message = 128 + self.stop_signal, signal.Signals(self.stop_signal).name
        elif self.verdict == "timeout" and not message:
            message = self._limit_text()
        return GuestResult(
            exit_code=code,
            stdout=stdout,
            stderr=stderr,
            console_log=log,
            verdict=self.verdict,
            message=message,
            boot_s=self.boot_s,
            run_s=time.monotonic() - self.started,
            missing=tuple(self.files.problems) if self.files else (),
            skipped=tuple(self.files.skipped) if self.files else (),
        )


def _converse(
    machine: Machine,
    source: _Input,
    sinks: tuple[Sink, Sink],
    limits: Limits,
    timeout_s: float | None,
    files: Receiver | None,
) -> _Run:
    """Run the machine to its end; once more if a fault of QEMU prevented its boot."""
    log = machine.initrd.with_name("qemu.log")
    for last in (False, True):
        machine.console.write_bytes(b"")
        with _Run(Qemu(machine, log), source, sinks, limits, timeout_s, files) as run:
            run.go()
        if last or not run.qemu_failed_to_boot():
            break
        warn(f"while the machine booted {'; '.join(run.message.splitlines())}; it is started once more")
    return run


def _swallow(data: bytes) -> None:
    """A sink for output without a reader."""

# SPDX-License-Identifier: GPL-2.0
"""The QEMU command line of a machine. Pure: the same result for the same input; nothing is read or started."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from terrace.errors import UsageError
from terrace.lab.topology import MIB, Topology

QEMU = "qemu-system-x86_64"
PORTS = ("terrace.ctl", "terrace.in", "terrace.out", "terrace.err")
FILES_PORT = "terrace.files"
# Guest time zero if instructions are the clock, so that two runs have the same dates (2026-01-01).
_ICOUNT_BASE = "2026-01-01T00:00:00"

_COMMAND_LINE_SIZE = 2048
# A kernel or a task that cannot continue ends the machine, so that no run waits for it.
_KERNEL_ARGUMENTS = (
    "console=ttyS0",
    "panic=-1",
    "oops=panic",
    "unknown_nmi_panic",
    "sysctl.kernel.panic_on_rcu_stall=1",
    "sysctl.kernel.hung_task_panic=1",
    "no_timer_check",
    "tsc=reliable",
)


@dataclass(frozen=True)
class Machine:
    """A machine to boot.

    `accel` is tcg or kvm. `icount_shift` None: the guest's clock is the host's; N: an instruction
    takes 2^N ns. With `one_thread` TCG runs all CPUs in turn: with a thread for each, a CPU may
    keep the translation of an instruction that another one was just patching, forever. A clock of
    instructions has one thread in any case. `hmat` is the ACPI table (terrace.lab.hmat) of a
    topology for which QEMU cannot create it. With `files` there is a port for files that the guest
    returns. `plugin` is a QEMU plugin with its arguments (FILE,key=value…). `append` is added after
    the lab's own kernel arguments.
    """

    vmlinux: Path
    initrd: Path
    console: Path
    topology: Topology
    accel: str = "tcg"
    icount_shift: int | None = None
    one_thread: bool = False
    plugin: str | None = None
    append: Sequence[str] = ()
    files: bool = False
    hmat: Path | None = None

    @property
    def ports(self) -> tuple[str, ...]:
        """Get the names of the ports between init and the host."""
        return (*PORTS, FILES_PORT) if self.files else PORTS


def kernel_arguments(machine: Machine) -> str:
    """Get the kernel's command line. Raises UsageError if the kernel would truncate it."""
    text = " ".join([*_KERNEL_ARGUMENTS, *machine.append])
    if len(text.encode()) >= _COMMAND_LINE_SIZE:
        raise UsageError(
            f"the kernel's arguments are {len(text.encode())} bytes long, it takes {_COMMAND_LINE_SIZE - 1}"
        )
    return text


def qemu_argv(machine: Machine, port_fds: Sequence[int], qmp_fd: int) -> list[str]:
    """Get all words of the QEMU command line.

    `port_fds` are open sockets for `machine.ports`, in that order, and `qmp_fd` one for QEMU's own
    control protocol.
    """
    return [
        *bare_argv(machine),
        *("-kernel", str(machine.vmlinux), "-initrd", str(machine.initrd), "-append", kernel_arguments(machine)),
        *("-chardev", f"file,id=console,path={escape(machine.console)}", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=qmp,fd={qmp_fd}", "-mon", "chardev=qmp,mode=control"),
        *("-device", "virtio-serial-pci,max_ports=8"),
        *_ports(machine.ports, port_fds),
        *("-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"),
        *("-device", "virtio-9p-pci,fsdev=root,mount_tag=terrace-root"),
        *("-device", "virtio-rng-pci"),
    ]


def bare_argv(machine: Machine) -> list[str]:
    """Get the words for CPUs and memory alone: no kernel and no devices."""
    return [
        QEMU,
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-machine", _board(machine), *_accelerator(machine)),
        *(("-acpitable", f"sig=HMAT,rev=2,data={escape(machine.hmat)}") if machine.hmat else ()),
        *_numa(machine.topology, own_hmat=machine.hmat is not None),
    ]


def escape(path: Path) -> str:
    """Escape commas, which end the value of a QEMU option, by doubling them."""
    return str(path).replace(",", ",,")


def _board(machine: Machine) -> str:
    """Get the board. QEMU's HPET runs at twice its nominal rate under -icount; the kernel then
    gives up the local APIC's timer.
    """
    hmat = "off" if machine.hmat else "on"
    return f"q35,hmat={hmat}" if machine.icount_shift is None else f"q35,hmat={hmat},hpet=off"


def _accelerator(machine: Machine) -> list[str]:
    if machine.accel == "kvm":
        words = ["-accel", "kvm", "-cpu", "host"]
    else:
        thread = "single" if machine.one_thread or machine.icount_shift is not None else "multi"
        # QEMU executes a `rep movsb` byte by byte, and a clock of instructions counts each byte.
        # Without fast strings the kernel clears and copies eight bytes at a time, twice as fast and
        # closer to the real cost of a copy.
        words = ["-accel", f"tcg,thread={thread}", "-cpu", "max,-erms,-fsrm"]
    if machine.icount_shift is not None:
        words += [
            "-icount",
            f"shift={machine.icount_shift},sleep=off",
            "-rtc",
            f"base={_ICOUNT_BASE},clock=vm",
            "-seed",
            "1",
        ]
    if machine.plugin:
        words += ["-plugin", machine.plugin]
    return words


def _ports(names: Sequence[str], fds: Sequence[int]) -> list[str]:
    words: list[str] = []
    for number, (name, fd) in enumerate(zip(names, fds, strict=True), start=1):
        words += ["-chardev", f"socket,id={name},fd={fd}"]
        words += ["-device", f"virtserialport,nr={number},chardev={name},name={name}"]
    return words


def _numa(topology: Topology, own_hmat: bool) -> list[str]:
    count = len(topology.nodes)
    # CPUs of two nodes must not be in one socket; if they cannot be divided evenly, each CPU is a
    # socket of its own.
    cpus, sockets = topology.cpus, len(topology.cpu_nodes)
    cores = 1 if cpus % sockets else cpus // sockets
    words = ["-smp", f"{cpus},sockets={cpus // cores},cores={cores},threads=1,maxcpus={cpus}"]
    words += ["-m", f"{topology.memory // MIB}M"]
    first_cpu = 0
    for number, node in enumerate(topology.nodes):
        text = f"node,nodeid={number}"
        if node.memory:
            words += ["-object", f"memory-backend-ram,id=mem{number},size={node.memory // MIB}M"]
            text += f",memdev=mem{number}"
        if not own_hmat:
            text += f",initiator={topology.nearest_cpu_node(number)}"
        if node.cpus:
            text += f",cpus={first_cpu}-{first_cpu + node.cpus - 1}"
            first_cpu += node.cpus
        words += ["-numa", text]
    for source in range(count):
        for target in range(count):
            words += ["-numa", f"dist,src={source},dst={target},val={topology.distance(source, target)}"]
    for way in () if own_hmat else topology.accesses:
        where = f"hmat-lb,initiator={way.source},target={way.target},hierarchy=memory"
        words += ["-numa", f"{where},data-type=access-latency,latency={way.latency_ns}"]
        words += ["-numa", f"{where},data-type=access-bandwidth,bandwidth={way.bandwidth // MIB}M"]
    return words

# SPDX-License-Identifier: GPL-2.0
"""The Debian that sessions begin with: made by mmdebstrap, booted once, kept in the cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from terrace import stored
from terrace.errors import BuildError
from terrace.host import require_packages
from terrace.lab.debian import disk, session
from terrace.lab.machine import Machine
from terrace.lab.topology import MIB, load_topology
from terrace.packages.kernel import Base
from terrace.paths import cache_dir
from terrace.progress import Progress

#: Releases of Debian, the default first; each with the name that its package of a 6.12 kernel has.
RELEASES = {"trixie": "linux-image-cloud-amd64", "bookworm": "linux-image-6.12-cloud-amd64"}
DEFAULT_RELEASE = next(iter(RELEASES))
#: The packages that make it.
PACKAGES_OF_HOST = ("mmdebstrap",)
PACKAGES = (
    "dbus",
    "e2fsprogs",
    "grub-pc",
    "initramfs-tools",
    "kmod",
    "login",
    "passwd",
    "procps",
    "python3",
    "systemd-sysv",
    "udev",
    "zstd",
)
SIZE_BYTES = 4096 * MIB
_UUID = "7e44ace0-0000-4000-8000-000000000001"
_FIRST_BOOT_LIMIT_S = 1200
# So many images stay in the cache: those of two releases, before and after a new version of Linux.
_KEEP = 4
# Its packages: a Debian whose terminal is a serial port, with the programs that the lab runs.
_FILES = {
    "etc/fstab": f"""\
UUID={_UUID} / ext4 errors=remount-ro 0 1
LABEL={session.LABEL} {session.MOUNT_POINT} ext4 nofail,x-systemd.device-timeout=5min 0 2
""",
    "etc/hostname": "debian\n",
    "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 debian\n",
    "etc/default/grub.d/lab.cfg": """\
GRUB_CMDLINE_LINUX="console=ttyS0"
GRUB_CMDLINE_LINUX_DEFAULT=
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND="serial --speed=115200"
GRUB_TIMEOUT=2
""",
    # QEMU's CPUs claim virtualization, which a kernel for this machine does not need.
    "etc/modprobe.d/lab.conf": "blacklist kvm_amd\nblacklist kvm_intel\n",
    # The lab is nobody's way in: who starts it is root there.
    "etc/systemd/system/serial-getty@ttyS0.service.d/lab.conf": """\
[Service]
ExecStart=
ExecStart=-/sbin/agetty --autologin root --keep-baud 115200 - $TERM
""",
    "etc/systemd/system/terrace-lab.service": f"""\
[Unit]
Description=What the lab was asked to run
RequiresMountsFor={session.MOUNT_POINT}
ConditionPathExists={session.MOUNT_POINT}/run
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh {session.MOUNT_POINT}/run
[Install]
WantedBy=multi-user.target
""",
}
_IN_CHROOT = f"""\
mkdir {session.MOUNT_POINT}
passwd --delete root
systemctl enable terrace-lab
"""
_FIRST_BOOT = f"""\
set -e
grub-install /dev/vda
update-grub
udevadm settle
lsmod > {session.MOUNT_POINT}/lsmod
cp /boot/config-* {session.MOUNT_POINT}/config
"""


@dataclass(frozen=True)
class Image:
    """A disk with Debian.

    `root` is the file, never to be booted itself; `base` what a kernel for it is configured by; `linux` the version of
    Debian's own kernel there, like 6.12.118.
    """

    root: Path
    base: Base
    linux: str

    def starts_its_own(self, linux: str) -> bool:
        """True if the boot menu prefers Debian's own kernel to one that is built from the version `linux`."""
        ours, own = ([int(number) for number in re.findall(r"\d+", text)] for text in (linux, self.linux))
        return own > ours


def find(release: str, linux: str) -> Image:
    """Return the image of a release, made when the cache has none for kernels of the version `linux`.

    Raises BuildError, MissingError.
    """
    # A kernel of ours that is older than the image's own would not be the one that the boot menu starts.
    recipe = (linux, release, *_packages(release), SIZE_BYTES, *_FILES.items(), _IN_CHROOT, _FIRST_BOOT)
    key = hashlib.sha256(repr(recipe).encode()).hexdigest()[:16]
    parent = cache_dir() / "debian"
    parent.mkdir(exist_ok=True)
    with (parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = parent / key
        if folder.is_dir() and (problem := stored.damage(folder)):
            stored.report(folder, problem)
            shutil.rmtree(folder)
        if not folder.is_dir():
            _make(release, folder)
    os.utime(folder)
    config = folder / "config"
    text = config.read_text()
    head = re.search(r"^# Linux/\S+ (\d+\.\d+\.\d+)", text, re.MULTILINE)
    if head is None:
        raise BuildError(f"{config} does not say of which Linux it is")
    return Image(folder / "disk", Base(text, str(config), (folder / "lsmod").read_text()), head[1])


def copy(image: Image, target: Path) -> None:
    """A disk of one's own, holes as holes."""
    words = ["cp", "--sparse=always", "--reflink=auto", "--", str(image.root), str(target)]
    disk.run(words)


def _packages(release: str) -> list[str]:
    return sorted([*PACKAGES, RELEASES[release]])


def _make(release: str, folder: Path) -> None:
    require_packages(PACKAGES_OF_HOST, "install a Debian for the lab")
    machine = Machine(Path(), Path(), folder.parent / "console", load_topology("dram-cxl"), one_thread=True)
    session.require(machine)
    # Of a process that was killed; nobody else is here now.
    for left in folder.parent.glob(".new-*"):
        _remove(left)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as name:
        work = Path(name)
        with Progress(f"a Debian ({release}) for the lab"):
            kernel, initrd = _install(release, work)
            carried = work / "carried"
            session.carry(carried, {"first": _FIRST_BOOT}, ["sh", f"{session.MOUNT_POINT}/first"])
            direct = (kernel, initrd, f"root=UUID={_UUID} console=ttyS0 panic=-1")
            debian = session.Debian(machine, work / "disk", carried, direct)
            code = session.run(debian, _FIRST_BOOT_LIMIT_S, work / "output")
        if code:
            said = (work / "output").read_text(errors="replace")[-2000:]
            raise BuildError(f"the first boot of Debian ended with {code}:\n{said}\n{session.last_words(debian)}")
        done = work / "done"
        done.mkdir()
        for wanted in ("lsmod", "config"):
            (done / wanted).write_bytes(disk.read(carried, wanted) or b"")
        (work / "disk").rename(done / "disk")
        stored.seal(done)
        done.rename(folder)
    kept = sorted(folder.parent.glob("*/disk"), key=lambda path: path.parent.stat().st_mtime, reverse=True)
    for path in kept[_KEEP:]:
        shutil.rmtree(path.parent, ignore_errors=True)


def _install(release: str, work: Path) -> tuple[Path, Path]:
    """Make ``work``/disk; its kernel and initramfs, for the boot before there is a boot loader."""
    added, root = work / "added", work / "root"
    for name, text in _FILES.items():
        (added / name).parent.mkdir(parents=True, exist_ok=True)
        (added / name).write_text(text)
    (work / "in_chroot").write_text(_IN_CHROOT)
    hooks = [
        f'cp -RT -- "{added}" "$1" && chroot "$1" sh -e < "{work}/in_chroot"',
        f'cp -- "$1"/boot/vmlinuz-* "{work}/kernel" && cp -- "$1"/boot/initrd.img-* "{work}/initrd"',
    ]
    words = ["mmdebstrap", "--variant=apt", "--format=directory", f"--include={','.join(_packages(release))}"]
    words += [f"--customize-hook={hook}" for hook in hooks]
    # Root's mmdebstrap mounts folders of this host there, /dev among them. If it is killed, they must be unmounted:
    # the removal of its folder would delete the host's files.
    words = ["unshare", "--mount", *words, "--mode=root"] if os.geteuid() == 0 else [*words, "--mode=unshare"]
    disk.run([*words, release, str(root)])
    disk.to_boot_from(root, work / "disk", SIZE_BYTES, _UUID, _inside())
    _remove(root)
    return work / "kernel", work / "initrd"


def _inside() -> list[str]:
    """Words before a command on the files of other users, which who is not root has in a namespace alone."""
    return [] if os.geteuid() == 0 else ["mmdebstrap", "--unshare-helper"]


def _remove(folder: Path) -> None:
    disk.run([*_inside(), "rm", "-rf", "--one-file-system", "--", str(folder)])

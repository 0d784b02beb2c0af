# SPDX-License-Identifier: GPL-2.0
"""Read the configuration of the running kernel."""

from __future__ import annotations

import gzip
import zlib

from terrace.sysfs import KernelFiles


def read(files: KernelFiles) -> tuple[dict[str, str], str | None]:
    """Get the enabled options (``CONFIG_X`` -> ``y``, ``m``, number or text) and their file.

    ({}, None) if this machine has no configuration of its kernel.
    """
    packed = files.get_bytes("proc/config.gz")
    if packed is not None:
        try:
            return parse(gzip.decompress(packed).decode("utf-8", "replace")), "/proc/config.gz"
        except (OSError, EOFError, zlib.error):
            files.unreadable["/proc/config.gz"] = "not gzip data"
    release = files.get("proc/sys/kernel/osrelease") or "unknown"
    for name in (f"boot/config-{release}", f"lib/modules/{release}/config", f"lib/modules/{release}/build/.config"):
        text = files.get(name)
        if text is not None:
            return parse(text), "/" + name
    return {}, None


def parse(text: str) -> dict[str, str]:
    """Parse ``CONFIG_X=value`` lines; disabled options are left out."""
    options: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.startswith("CONFIG_"):
            options[name] = value.strip('"')
    return options

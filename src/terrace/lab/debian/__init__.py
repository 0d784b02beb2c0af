# SPDX-License-Identifier: GPL-2.0
"""A whole Debian in the lab: its boot loader, kernel, initramfs and systemd, on a disk of its own."""

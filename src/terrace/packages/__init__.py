# SPDX-License-Identifier: GPL-2.0
"""Debian packages: the kernel for a real machine, and the tools and the library to drive it with."""

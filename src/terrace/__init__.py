# SPDX-License-Identifier: GPL-2.0
"""Terrace: tiered memory for Linux. The package behind the `terrace` command."""

__version__ = "0.1"

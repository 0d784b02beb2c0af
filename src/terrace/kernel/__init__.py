# SPDX-License-Identifier: GPL-2.0
"""The kernel: its source, our tree (overlay and hooks), configurations, builds, checks, patches and packages."""

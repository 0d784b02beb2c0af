# SPDX-License-Identifier: GPL-2.0
"""Memory policies: the kernel's calls, weights, and where pages went."""

# SPDX-License-Identifier: GPL-2.0
"""The kernel's decision about placement, mm/mtier/place.c, on simulated loads: minutes instead of kernels."""

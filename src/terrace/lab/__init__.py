# SPDX-License-Identifier: GPL-2.0
"""The lab: machines with memory tiers under QEMU, and programs that run on them."""

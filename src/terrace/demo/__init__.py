# SPDX-License-Identifier: GPL-2.0
"""The demo: one memory load on the stock kernel and on ours, its pages' way to DRAM, and what that way costs."""

# SPDX-License-Identifier: GPL-2.0
"""`terrace test`: the groups of tests, what they found, and how it is told."""

# SPDX-License-Identifier: GPL-2.0
"""`terrace test`: the groups of tests, their results, and the report."""

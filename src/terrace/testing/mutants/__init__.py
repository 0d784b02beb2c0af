# SPDX-License-Identifier: GPL-2.0
"""Mutation tests of the kernel: each mutant is a small patch that a named check has to detect."""

# SPDX-License-Identifier: GPL-2.0
"""Kernels broken on purpose: each mutant is a small patch that a named check has to notice."""

# SPDX-License-Identifier: GPL-2.0
"""Experiments: bench/<name>/bench.toml says what is run and why, bench/<name>/results/ holds what came of it."""

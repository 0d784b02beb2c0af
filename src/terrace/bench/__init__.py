# SPDX-License-Identifier: GPL-2.0
"""Experiments: bench/<name>/bench.toml describes the runs and their purpose, bench/<name>/results/ has the results."""

# SPDX-License-Identifier: GPL-2.0
"""How all pictures look; matplotlib itself is imported by those that draw."""

from __future__ import annotations

from typing import Any

#: For matplotlib's rc_context; without a salt, and with fonts as paths, no two drawings of an SVG would be the same.
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "svg.hashsalt": "terrace",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans", "sans-serif"],
}

# SPDX-License-Identifier: GPL-2.0
"""How all pictures look; matplotlib itself is imported by those that draw."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terrace import files
from terrace.errors import TerraceError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def save(figure: Figure, path: Path, option: str = "") -> None:
    """Draw ``figure`` into the file ``path``, the value of ``option``; without a date, so that two drawings are equal.

    Raises TerraceError when it cannot be drawn or written; a file that was there is then as it was.
    """
    data = io.BytesIO()
    kind = path.suffix.removeprefix(".") or None
    try:
        figure.savefig(data, format=kind, metadata={"Date": None} if kind == "svg" else None)
        files.replace(path, data.getvalue())
    except OSError as error:
        raise TerraceError(f"{option and option + ' '}{path}: {files.why(error, path)}") from error
    except ValueError as error:
        raise TerraceError(f"{option and option + ' '}{path}: {error}") from error

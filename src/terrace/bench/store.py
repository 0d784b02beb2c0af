# SPDX-License-Identifier: GPL-2.0
"""Results as files: one small JSON for each cell, complete or absent."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from terrace.bench.cells import Cell
from terrace.bench.stats import thin
from terrace.errors import UsageError
from terrace.output import warn

SCHEMA = "terrace.cell"
VERSION = 2
OK = "ok"
FAILED = "failed"
_POINTS = 40
# Documents of earlier days have no date.
_FIRST_DATE = "2026-11-29"
# One line per key, so that a change has a diff of a few lines; these keys have a line for each
# nested key.
_TALL = ("figures",)


def path_of(folder: Path, cell: str) -> Path:
    """Get the file of a cell."""
    return folder / f"{cell}.json"


def write(folder: Path, document: Mapping[str, Any]) -> Path:
    """Write a cell's document: completely, or not at all."""
    small = dict(document)
    if small.get("timeline_ms_share"):
        small["timeline_ms_share"] = thin(small["timeline_ms_share"], _POINTS)
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(folder, small["cell"])
    fresh = path.with_suffix(f".{os.getpid()}.new")
    fresh.write_text(compact(small) + "\n")
    fresh.replace(path)
    return path


def measured(documents: Iterable[Mapping[str, Any]]) -> str:
    """Format the days of these measurements."""
    found = sorted({document.get("date", "") for document in documents})
    days = [day for day in found if day]
    known = f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}" if days else ""
    early = f"before {_FIRST_DATE}" if len(days) < len(found) else ""
    return " and ".join(filter(None, [early, known]))


def compact(document: Mapping[str, Any]) -> str:
    """Format the document as JSON, small and suitable for diffs."""
    lines = []
    for key, value in document.items():
        if key in _TALL and isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(name)}: {json.dumps(_short(item))}" for name, item in value.items())
            lines.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(_short(value), separators=(',', ':'))}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _short(value: Any) -> Any:
    """Round numbers to seven significant digits, more than any measurement has."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {name: _short(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    return value


def read(path: Path) -> dict[str, Any]:
    """Read one cell's document. Raises UsageError with the file for anything else."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{path}: not a result of schema {SCHEMA}, version {VERSION}")
    for key, wanted in (("schema", SCHEMA), ("version", VERSION)):
        if document.get(key) != wanted:
            raise UsageError(
                f"{path}: {key}: {document.get(key)!r} is not {wanted!r}, which this tool reads; "
                "measure it again, or remove it"
            )
    return document


def read_all(folder: Path) -> list[dict[str, Any]]:
    """Read all documents of a folder, by file name; empty without a folder."""
    return [read(path) for path in sorted(folder.glob("*.json"))]


def read_current(folder: Path, cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Read the documents of `cells`, as read_all() does.

    A result that was measured with other options, or of a cell that the experiment no longer has,
    does not compare with the others: it is left out, with a warning.
    """
    keys = {cell.name: json.loads(json.dumps(cell.key())) for cell in cells}
    documents = read_all(folder)
    current = [document for document in documents if document["key"] == keys.get(document["cell"])]
    other = len(documents) - len(current)
    if other:
        warn(
            f"{folder}: {other} results were measured with other settings than bench.toml has now, and are left out; "
            "measure these cells again, or remove their files"
        )
    return current


def is_finished(folder: Path, cell: str, fingerprint: str) -> bool:
    """Whether this very cell was measured: same kernel, configuration, machine, workload, tools."""
    path = path_of(folder, cell)
    if not path.exists():
        return False
    document = read(path)
    return document.get("status") == OK and document.get("fingerprint") == fingerprint

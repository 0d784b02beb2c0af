# SPDX-License-Identifier: GPL-2.0
"""The page of `terrace report` as JSON (docs/reference/json.md)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from terrace.trace.facts import Summary

JSON_VERSION = 1


def as_json(summary: Summary) -> dict[str, Any]:
    """Create the document with every fact and all rows."""
    document = {"version": JSON_VERSION, "kind": "report", **asdict(summary)}
    for wait in document["waits"]:
        wait["distribution"] = [{"up_to_ns": time, "pages": pages} for time, pages in wait["distribution"]]
    return document

# SPDX-License-Identifier: GPL-2.0
"""Schemas allow fields that a later version adds, and our own documents have no field that is not documented."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trace_fake
from ops_golden import FOLDER

import strict_schema
from terrace.paths import repo_root
from terrace.trace.document import as_json
from terrace.trace.store import Recording
from terrace.trace.summary import summarize

SCHEMAS = sorted((repo_root() / "docs/reference/schema").glob("*.schema.json"))


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from parts(part)


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_no_schema_forbids_a_field_of_a_later_version(path: Path) -> None:
    """docs/reference/json.md: new fields may come without a new version."""
    schema = json.loads(path.read_text())
    named = [part for part in parts(schema) if "properties" in part and isinstance(part["properties"], dict)]
    assert named
    assert [part for part in named if part.get("additionalProperties") is False] == []
    assert not [part for part in parts(schema) if "unevaluatedProperties" in part]


def documents() -> dict[str, Any]:
    summary = summarize(Recording(trace_fake.head(), trace_fake.events()))
    return {
        "status": json.loads((FOLDER / "status-busy.json").read_text()),
        "report": json.loads(json.dumps(as_json(summary))),
    }


def objects(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(document, dict):
        yield path
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        if isinstance(value, dict | list):
            yield from objects(value, (*path, key))


def at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


@pytest.mark.parametrize("kind", ["status", "report"])
def test_a_new_field_is_allowed_to_others_and_noticed_by_us(kind: str) -> None:
    document = documents()[kind]
    schema = json.loads((repo_root() / f"docs/reference/schema/{kind}.schema.json").read_text())
    strict_schema.validate(document, schema)
    for_others = jsonschema.Draft202012Validator(schema)
    noticed, maps = 0, set()
    for path in objects(document):
        more = copy.deepcopy(document)
        at(more, path)["brand_new"] = 5
        try:
            strict_schema.validate(more, schema)
            maps.add(path[-1])
        except jsonschema.ValidationError:
            # A map with node numbers as keys or words as values, or an object with named fields, which may get more.
            if path[-1:] not in (("node_bytes_before",), ("node_bytes_after",), ("settings",), ("cgroups",)):
                for_others.validate(more)
                noticed += 1
    assert noticed > 10
    # Maps with free names as keys, whose values are numbers.
    assert maps <= {"counters", "rates_per_s"}
    with pytest.raises(jsonschema.ValidationError):
        strict_schema.validate({key: value for key, value in document.items() if key != "version"}, schema)

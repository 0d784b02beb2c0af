# SPDX-License-Identifier: GPL-2.0
"""Check a document against its schema, and against undocumented fields.

The schemas of docs/reference/schema allow fields that they do not name, because a later version may add some. Our own
documents contain exactly the fields that are documented.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema

#: Below these a schema is a condition for others, and names only the fields that it is about.
_CONDITIONS = ("if", "then", "else", "not", "allOf", "dependentSchemas")
#: Below these the keys are names, and their values are schemas.
_NAMED = ("properties", "patternProperties", "$defs")


def strict(schema: Any) -> Any:
    """Copy a schema, so that each object with named fields has no others, unless the schema allows them expressly.

    That of the workloads does: each workload adds fields, which docs/reference/workloads.md describes.
    """
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            made[key] = {name: strict(part) for name, part in value.items()}
        else:
            made[key] = value if key in _CONDITIONS or key in ("const", "enum", "required") else strict(value)
    if "properties" in made:
        made.setdefault("additionalProperties", False)
    return made


def validate(document: Any, schema: Any) -> None:
    """Raise jsonschema.ValidationError when a document differs from its schema or has a field that it does not name."""
    _validator(json.dumps(schema)).validate(document)


@functools.cache
def _validator(text: str) -> jsonschema.Draft202012Validator:
    """Check a schema and make it strict once, though hundreds of documents follow it."""
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(strict(schema))

# SPDX-License-Identifier: GPL-2.0
"""List the test functions of a folder from their source, where pytest is not installed."""

import ast
from pathlib import Path


def static_tests(root: Path, folder: str) -> list[str]:
    """The test functions in `folder` below `root`, as pytest names them, but one name for all cases of a function."""
    found = []
    for path in sorted((root / folder).rglob("test_*.py")):
        name = path.relative_to(root).as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.append(f"{name}::{node.name}")
            elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                found += [f"{name}::{node.name}::{one}" for one in _methods(node)]
            elif (
                isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute) and node.value.attr == "TestCase"
            ):
                # A state machine of hypothesis.
                found += [f"{name}::{one.id}::runTest" for one in node.targets if isinstance(one, ast.Name)]
    return found


def _methods(node: ast.ClassDef) -> list[str]:
    return [one.name for one in node.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]

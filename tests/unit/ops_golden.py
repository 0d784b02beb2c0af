# SPDX-License-Identifier: GPL-2.0
"""Run a verb in this process, and compare what it prints with a file of tests/golden/ops."""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "golden" / "ops"


def run(verb: str, *words: str) -> int:
    """The verb's exit code; errors for people come out as the exceptions they are."""
    module = importlib.import_module(f"terrace.cli.{verb}")
    parser = argparse.ArgumentParser(prog=f"terrace {verb}")
    module.add_arguments(parser)
    code: int = module.main(parser.parse_args(list(words)))
    return code


def check(name: str, text: str) -> None:
    """Compare ``text`` with tests/golden/ops/``name``; TERRACE_ACCEPT=1 takes it as the new truth."""
    path = FOLDER / name
    if os.environ.get("TERRACE_ACCEPT"):
        path.write_text(text)
        return
    expected = path.read_text() if path.exists() else ""
    if text != expected:
        pytest.fail(
            f"output differs from {path}\n--- expected\n{expected}\n--- got\n{text}\n"
            "If it is right: TERRACE_ACCEPT=1 and run this test again."
        )

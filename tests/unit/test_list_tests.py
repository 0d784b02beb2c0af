# SPDX-License-Identifier: GPL-2.0
"""terrace test --list on a fresh machine: it makes no environment."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from terrace import venv
from terrace.cli import test as verb
from terrace.paths import repo_root
from terrace.testing import host_groups
from terrace.testing.static_list import static_tests


def test_the_source_has_the_functions_that_pytest_names() -> None:
    listed = {name.partition("[")[0] for name in host_groups.list_pytest("tests/unit")}
    assert listed and listed == set(static_tests(repo_root(), "tests/unit"))


@pytest.mark.parametrize(
    ("list_only", "there", "needed"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_a_list_makes_no_environment(
    list_only: bool, there: bool, needed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venv, "is_there", lambda _: there)
    assert verb.needs_packages(argparse.Namespace(list=list_only)) is needed


def test_outside_of_the_environment_the_source_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(host_groups, "_run", lambda *_: pytest.fail("pytest was run"))
    name = "tests/unit/test_list_tests.py::test_a_list_makes_no_environment"
    assert name in host_groups.list_pytest("tests/unit")

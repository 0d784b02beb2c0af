# SPDX-License-Identifier: GPL-2.0
"""All tests of this folder have one environment (fixed_environment.py), and properties no time limit for an example.

The gate tries the same examples in each run, so that its verdict depends on the tree alone; other runs try new ones.
"""

import os
from collections.abc import Iterator

import fixed_environment
import pytest
from hypothesis import HealthCheck, settings

if not __debug__:
    raise pytest.UsageError("Python leaves out assertions (-O, PYTHONOPTIMIZE): these tests could not fail")
# Before any test module is read.
fixed_environment.fix()

_ANY_HOST = settings(database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", _ANY_HOST, derandomize=False)
settings.register_profile("gate", _ANY_HOST, derandomize=True)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Undo the variables that a test sets, or a library that it uses: dask sets six."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)

# SPDX-License-Identifier: GPL-2.0
"""debian/generate.py as a module."""

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location("generate", Path(__file__).parents[2] / "debian" / "generate.py")
assert _spec and _spec.loader
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
TOOLS = _module.TOOLS
copy = _module.copy

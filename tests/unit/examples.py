# SPDX-License-Identifier: GPL-2.0
"""How many examples a property is tried with: in the gate, which tries the same ones each time, a fourth."""

from hypothesis import settings


def examples(count: int) -> settings:
    """Try a property with `count` examples in the suite; where no new ones come (conftest.py), with a fourth of them.

    Examples that are written down (hypothesis.example) are tried in both.
    """
    same_each_time = settings().derandomize
    return settings(max_examples=max(1, count // 4) if same_each_time else count)

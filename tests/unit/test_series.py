# SPDX-License-Identifier: GPL-2.0
"""series.toml: everything is used exactly once, and what does not fit is named."""

from typing import Any

import pytest

from terrace.errors import UsageError
from terrace.kernel import patches, series

DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
TEXT = f"From: A <a@b>\nSubject: [PATCH] mm: call it\n\nBecause.\n---\n{DIFF}"
HOOK = patches.parse_hook("0001-x.patch", TEXT)
OVERLAY = ["mm/mtier/a.c", "mm/mtier/a.h", "mm/mtier/tests/a_kunit.c"]


def _raw(**changes: Any) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "title": "mm: tier",
        "body": "All of it.",
        "patch": [
            {"title": "mm/mtier: add a", "body": "Text.", "overlay": ["mm/mtier/*"]},
            {"hooks": ["0001-x.patch"]},
        ],
    }
    raw.update(changes)
    return raw


def test_everything_is_used_once() -> None:
    whole = series.resolve(_raw(), OVERLAY, [HOOK])
    assert [patch.title for patch in whole.patches] == ["mm/mtier: add a", "mm: call it"]
    assert whole.patches[0].overlay == tuple(OVERLAY)
    assert whole.patches[1].body == "Because."
    assert whole.patches[1].hooks == (HOOK,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch": [{"hooks": ["0001-x.patch"]}]}, "in no patch: linux/mm/mtier/a.c"),
        ({"patch": [{"title": "t", "body": "b", "overlay": ["mm/*"]}]}, "in no patch: hooks/0001-x.patch"),
        ({"patch": [{"hooks": ["0001-x.patch"]}, {"hooks": ["0001-x.patch"]}]}, "is in patch 1 and in patch 2"),
        ({"patch": [{"hooks": ["0002-y.patch"]}]}, "no hook '0002-y.patch'; there are 0001-x.patch"),
        ({"patch": [{"title": "t", "body": "b", "overlay": ["fs/*"]}]}, r"no overlay file matches 'fs/\*'"),
        ({"patch": [{"title": "t", "body": "", "overlay": ["mm/*"]}]}, "'body' is missing or empty"),
        ({"patch": [{"title": "t" * 76, "body": "b", "overlay": ["mm/*"]}]}, "has 76 characters"),
        ({"patch": [{"overlays": []}]}, "unknown key 'overlays'"),
        ({"patch": "x"}, "'patch' is not a list"),
        ({"titlo": "x"}, "unknown key 'titlo'"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        series.resolve(_raw(**changes), OVERLAY, [HOOK])


def test_full_name_goes_before_pattern() -> None:
    raw = _raw(
        patch=[
            {"title": "a", "body": "b", "overlay": ["mm/mtier/a.h"]},
            {"title": "c", "body": "d", "overlay": ["mm/mtier/*"], "hooks": ["0001-x.patch"]},
        ]
    )
    whole = series.resolve(raw, OVERLAY, [HOOK])
    assert whole.patches[0].overlay == ("mm/mtier/a.h",)
    assert whole.patches[1].overlay == ("mm/mtier/a.c", "mm/mtier/tests/a_kunit.c")

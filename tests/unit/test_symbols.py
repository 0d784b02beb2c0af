# SPDX-License-Identifier: GPL-2.0
"""Names of kernel options that no Kconfig file defines."""

from pathlib import Path

import pytest

from terrace.kernel import symbols
from terrace.paths import repo_root

KNOWN = {"MTIER", "NUMA_FOLLOW", "NUMA_FOLLOW_DEBUG", "NUMA_BALANCING"}

HOOK = """From: Somebody <somebody@localhost>
Subject: [PATCH] mm: call it

Nothing without CONFIG_NUMA_FOLOW.

---
 mm/Kconfig | 2 ++
 mm/a.c     | 2 ++

diff --git a/mm/Kconfig b/mm/Kconfig
--- a/mm/Kconfig
+++ b/mm/Kconfig
@@ -1,3 +1,5 @@
 config LINUX_OWN
    depends on LINUX_OTHER
+	depends on MTEIR && !NUMA_BALANCING
+	help
    CONFIG_LINUX_TEXT
diff --git a/mm/a.c b/mm/a.c
--- a/mm/a.c
+++ b/mm/a.c
@@ -1,3 +1,4 @@
 #ifdef CONFIG_LINUX_CODE
+#if IS_ENABLED(CONFIG_NUMA_FOLLOW) || IS_ENABLED(CONFIG_NUMA_LAZY)
-#ifdef CONFIG_LINUX_GONE
"""


def names(path: str, text: str) -> list[tuple[int, str]]:
    return [(each.line, each.name) for each in symbols.named(path, text)]


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.h", "#if defined(CONFIG_A1) && \\\n\tdefined(CONFIG_B2_MODULE)", [(1, "A1"), (2, "B2")]),
        ("Makefile", "obj-$(CONFIG_MTIER) += a.o", [(1, "MTIER")]),
        ("a.config", "CONFIG_NUMA=y\n# CONFIG_SMP is not set\n", [(1, "NUMA"), (2, "SMP")]),
        ("a.md", "`CONFIG_X` is any, KCONFIG_ALLCONFIG none", []),
        ("mm/Kconfig", "config AB\n\tdepends on CD && !EF\n\tselect GH if IJ\n\thelp\n\t  NUMA is a word", None),
        ("mm/Kconfig.debug", '\tbool "A NUMA thing" if !KUNIT_ALL\n\tdefault y\n\tdefault KUNIT_ALL', None),
        ("mm/a.c", "depends on NOTHING", []),
    ],
)
def test_names_are_found(path: str, text: str, found: list[tuple[int, str]] | None) -> None:
    expected = {
        "mm/Kconfig": [(2, "CD"), (2, "EF"), (3, "GH"), (3, "IJ")],
        "mm/Kconfig.debug": [(1, "KUNIT_ALL"), (3, "KUNIT_ALL")],
    }
    assert names(path, text) == (expected[path] if found is None else found)


def test_of_a_hook_only_what_it_says_and_adds() -> None:
    assert names("hooks/0001-a.patch", HOOK) == [
        (4, "NUMA_FOLOW"),
        (16, "MTEIR"),
        (16, "NUMA_BALANCING"),
        (24, "NUMA_FOLLOW"),
        (24, "NUMA_LAZY"),
    ]


def test_wrong_names_are_problems_and_name_the_nearest() -> None:
    assert symbols.problems([("hooks/0001-a.patch", HOOK)], KNOWN) == [
        "hooks/0001-a.patch:4: no Kconfig file defines CONFIG_NUMA_FOLOW; the nearest name is CONFIG_NUMA_FOLLOW",
        "hooks/0001-a.patch:16: no Kconfig file defines CONFIG_MTEIR; the nearest name is CONFIG_MTIER",
        "hooks/0001-a.patch:24: no Kconfig file defines CONFIG_NUMA_LAZY",
    ]


@pytest.mark.parametrize(("text", "wrong"), [("CONFIG_NUMA_*", 0), ("CONFIG_NUMB_*", 1), ("CONFIG_NUMA_", 1)])
def test_a_star_stands_for_names_that_there_are(text: str, wrong: int) -> None:
    assert len(symbols.problems([("docs/a.md", text)], KNOWN)) == wrong


def test_options_of_a_tree(tmp_path: Path) -> None:
    for path, text in {
        "mm/Kconfig": "menuconfig MM\nconfig NUMA\n\tbool\n",
        "mm/Kconfig.debug": "\tconfig DEBUG_MM\n",
        "mm/tests/Kconfig": "config ONLY_A_TEST\n",
        "Documentation/Kconfig": "config ONLY_A_TEXT\n",
        "out-terrace/Kconfig": "config ONLY_A_COPY\n",
        ".terrace/pristine/mm/Kconfig": "config ONLY_BEFORE\n",
        "mm/notes": "config NO_KCONFIG\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert symbols.defined(tmp_path) == {"MM", "NUMA", "DEBUG_MM"}


def test_files_of_ours_are_all_there_are(tmp_path: Path) -> None:
    for path, text in {
        "linux/mm/a.c": b"x",
        "hooks/series.toml": b"y",
        "docs/a.png": b"\xff\xfe",
        "docs/.b": b"",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text)
    (tmp_path / "README.md").write_text("z")
    assert dict(symbols.files_of(tmp_path)) == {"linux/mm/a.c": "x", "hooks/series.toml": "y", "README.md": "z"}


def test_the_checkout_has_each_place() -> None:
    for place in symbols.PLACES:
        assert (repo_root() / place).exists(), place

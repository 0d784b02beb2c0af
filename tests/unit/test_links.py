# SPDX-License-Identifier: GPL-2.0
"""Links in Markdown: a target that does not exist is named with its line, everything else passes."""

from pathlib import Path

import pytest

from terrace.testing.links import anchors, link_problems, links

_OTHER = """# Other page

## What `--all` does, and why
## Same
## Same
<a id="here"></a>
```
## no heading
```
"""


def _problems(tmp_path: Path, text: str) -> list[str]:
    """Problems of docs/page.md, in a repository with docs/other.md, docs/images/a.svg and README.md."""
    files = {"docs/page.md": text, "docs/other.md": _OTHER, "docs/images/a.svg": "<svg/>", "README.md": "# Top\n"}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "docs/untracked.md").write_text("# Only here\n")
    return link_problems(tmp_path, list(files))


@pytest.mark.parametrize(
    "link",
    [
        "[a](other.md)",
        "[a](other.md#what---all-does-and-why)",
        "[a](other.md#same-1)",
        "[a](other.md#here)",
        "[a](<other.md>)",
        '[a](other.md "with a title")',
        "[a](../README.md#top)",
        "[a](../docs)",
        "[a](images/)",
        "![a\nb](images/a.svg)",
        "[a](https://example.org/missing.md)",
        "[a](mailto:a@example.org)",
        "`[a](missing.md)`",
        "``a`[a](missing.md)``",
        "<!-- [a](missing.md) -->",
        "```\n[a](missing.md)\n```",
        "~~~~\n~~~\n[a](missing.md)\n~~~~",
        "# Own\n[a](#own)",
    ],
)
def test_a_good_link_passes(link: str, tmp_path: Path) -> None:
    assert _problems(tmp_path, f"text\n{link}\n") == []


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("[a](missing.md)", "missing.md: the repository has no docs/missing.md"),
        ("![a](images/b.svg)", "images/b.svg: the repository has no docs/images/b.svg"),
        ("[a](Other.md)", "Other.md: the repository has no docs/Other.md"),
        ("[a](untracked.md)", "untracked.md: the repository has no docs/untracked.md"),
        ("[a](../../outside.md)", "../../outside.md: the repository has no ../outside.md"),
        ("[a](/README.md)", "/README.md: a link to a file of the repository is relative"),
        ("[a](other.md#same-2)", "other.md#same-2: docs/other.md has no heading for #same-2"),
        ("[a](other.md#no-heading)", "other.md#no-heading: docs/other.md has no heading for #no-heading"),
        ("[a](#own)", "#own: docs/page.md has no heading for #own"),
        ("[a]: missing.md", "missing.md: the repository has no docs/missing.md"),
        ('<img src="b.png">', "b.png: the repository has no docs/b.png"),
        ("`code` [a](missing.md) `code`", "missing.md: the repository has no docs/missing.md"),
    ],
)
def test_a_bad_link_is_named_with_its_line(link: str, said: str, tmp_path: Path) -> None:
    assert _problems(tmp_path, f"text\n\n```\n```\n{link}\n") == [f"docs/page.md:5: {said}"]


def test_a_link_over_two_lines_and_two_links_in_a_line_are_seen() -> None:
    assert [target for _, target in links("[a\nb](c.md) and [d](e.md), [f](g.md#h)")] == ["c.md", "e.md", "g.md#h"]


def test_anchors_are_named_as_github_names_them() -> None:
    assert anchors("# A & B\n## `x_y` (z)\n### [C](d.md): e!\n") == {"a--b", "x_y-z", "c-e"}

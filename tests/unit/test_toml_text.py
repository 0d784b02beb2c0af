# SPDX-License-Identifier: GPL-2.0
"""Lines of a TOML file, and new values in it: whatever it is, nothing else of it changes."""

from __future__ import annotations

import contextlib
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrace.errors import TerraceError
from terrace.ops import toml_text
from terrace.ops.toml_text import Key, comment_out, flatten, put, quote, statements

TEXT = '''# head of the file

# engine.enabled = false   # a comment
demotion_enabled = true  # why "a = b" # so
"a=b".'c#d' = "x#y"#z
long = [
    1, # one
]
[numa_balancing]  # table
mode = 1

[cgroup."system.slice/db"]
auto_migration = 1
text = """
x = 1
"""
within = { a = 1, b = 2 }
'''


def test_statements_and_their_lines() -> None:
    found = [(one.first, one.last, one.table, [*one.values], one.header) for one in statements(TEXT)]
    group = ("cgroup", "system.slice/db")
    assert found == [
        (4, 4, (), [("demotion_enabled",)], ""),
        (5, 5, (), [("a=b", "c#d")], ""),
        (6, 8, (), [("long",)], ""),
        (9, 9, ("numa_balancing",), [], "["),
        (10, 10, ("numa_balancing",), [("numa_balancing", "mode")], ""),
        (12, 12, group, [], "["),
        (13, 13, group, [(*group, "auto_migration")], ""),
        (14, 16, group, [(*group, "text")], ""),
        (17, 17, group, [(*group, "within", "a"), (*group, "within", "b")], ""),
    ]
    several = statements("[[a.b]]\nc = 1\n [[a.b]]\nc = 2\n")
    assert [(one.header, one.table) for one in several if one.header] == [("[[", ("a", "b"))] * 2


def changed(text: str, new: str) -> list[str]:
    """Lines that are in one of both alone, with + and - as diff has them."""
    before, after = text.split("\n"), new.split("\n")
    return [f"-{line}" for line in before if line not in after] + [f"+{line}" for line in after if line not in before]


@pytest.mark.parametrize(
    ("key", "value", "difference"),
    [
        (
            ("demotion_enabled",),
            "false",
            ['-demotion_enabled = true  # why "a = b" # so', '+demotion_enabled = false  # why "a = b" # so'],
        ),
        (("a=b", "c#d"), "7", ["-\"a=b\".'c#d' = \"x#y\"#z", "+\"a=b\".'c#d' = 7#z"]),
        (("numa_balancing", "mode"), "2", ["-mode = 1", "+mode = 2"]),
    ],
)  # fmt: skip
def test_a_value_is_replaced_and_its_comment_stays(key: Key, value: str, difference: list[str]) -> None:
    assert changed(TEXT, put(TEXT, key, value, key)) == difference


def test_a_new_key_goes_where_it_belongs() -> None:
    lines = put(TEXT, ("engine", "enabled"), "true").split("\n")
    assert lines[2:4] == ["# engine.enabled = false   # a comment", "engine.enabled = true"]
    lines = put(TEXT, ("numa_balancing", "scan_mode"), '"async"').split("\n")
    assert lines[8:11] == ["[numa_balancing]  # table", "mode = 1", 'scan_mode = "async"']
    lines = put(TEXT, ("file_policy",), "true").split("\n")
    assert lines[7:9] == ["]", "file_policy = true"]
    group = ("cgroup", "other")
    assert put(TEXT, (*group, "lazy"), "true", section=group) == f"{TEXT}\n[cgroup.other]\nlazy = true\n"
    assert put("", ("a", "b"), "1") == "a.b = 1\n"
    assert put("a.c = 1", ("a", "b"), "1") == "a.c = 1\na.b = 1\n"
    assert put("# Mine.\n\n[t]\nx = 1\n", ("a",), "1") == "# Mine.\na = 1\n\n[t]\nx = 1\n"
    assert put("a = 1\r\n[t]\r\n", ("t", "b"), "1") == "a = 1\r\n[t]\r\nb = 1\r\n"
    assert put("a = 1\r\n", ("a",), "2", ("a",)) == "a = 2\r\n"


@pytest.mark.parametrize(
    "key", [("long",), ("cgroup", "system.slice/db", "text"), ("cgroup", "system.slice/db", "within", "a")]
)
def test_what_takes_more_than_a_line_is_left_to_people(key: Key) -> None:
    with pytest.raises(TerraceError, match="only by hand"):
        put(TEXT, key, "1", key)
    with pytest.raises(TerraceError, match="only by hand"):
        comment_out(TEXT, key)


def test_a_line_becomes_a_comment() -> None:
    new = comment_out(TEXT, ("numa_balancing", "mode"))
    assert changed(TEXT, new) == ["-mode = 1", "+#mode = 1"]


names = st.sampled_from(["a", "b", "c d", "x.y", 'q"', "ä", "é#", "=", "-1"])
scalars = st.one_of(
    st.booleans(), st.integers(-5, 300), st.text(st.characters(codec="utf-8"), max_size=8), st.sampled_from([1.5, 2e3])
)
tables = st.dictionaries(names, scalars, max_size=4)
documents = st.dictionaries(names, st.one_of(scalars, tables), max_size=5)
comments = st.sampled_from(["", "  # plain", '# "x = 1"', " # [t]", "\t# #"])


def written(value: Any) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else toml_text.string(value)
        if isinstance(value, str)
        else repr(value)
    )


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A document, with headers or dotted keys for its tables, and comments of all kinds."""
    document = draw(documents)
    lines = [draw(comments)]
    for name, value in document.items():
        if not isinstance(value, dict):
            lines.append(f"{quote((name,))} = {written(value)}{draw(comments)}")
        elif draw(st.booleans()):
            lines += [f"{quote((name, below))}={written(one)}{draw(comments)}" for below, one in value.items()]
            document[name] = {}
    for name, value in document.items():
        if isinstance(value, dict) and value:
            lines.append(f" [ {quote((name,))} ]{draw(comments)}")
            lines += [f"\t{quote((below,))}   =   {written(one)}{draw(comments)}" for below, one in value.items()]
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))


@given(texts(), st.lists(names, min_size=1, max_size=2), scalars)
def test_only_the_wanted_value_changes(text: str, path: list[str], value: Any) -> None:
    key = tuple(path)
    before = dict(flatten(tomllib.loads(text)))
    try:
        new = put(text, key, written(value), key if key in before else None)
    except TerraceError:
        # A value where a table would have to be, or the other way round.
        assert key not in before
        assert any(one[: len(key)] == key or key[: len(one)] == one for one in before)
        return
    after = dict(flatten(tomllib.loads(new)))
    assert after == before | {key: value}
    lines = [line for line in text.split("\n") if line]
    kept = [line for line in new.split("\n") if line in lines]
    assert len(kept) >= len(lines) - (key in before)


@given(texts())
def test_every_value_has_its_line(text: str) -> None:
    lines = text.split("\n")
    found: dict[Key, Any] = {}
    for one in statements(text):
        assert one.first == one.last
        for key, value in one.values.items():
            found[key] = value
            assert written(value) in lines[one.first - 1]
    assert found == {key: value for key, value in flatten(tomllib.loads(text)) if value != {}}


@given(st.text(max_size=60))
def test_no_text_makes_it_stumble(text: str) -> None:
    with contextlib.suppress(tomllib.TOMLDecodeError):
        statements(text)

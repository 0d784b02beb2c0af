# SPDX-License-Identifier: GPL-2.0
"""Results as files: whole or not there, and of this schema or refused."""

import json
from pathlib import Path

import pytest
from bench_results import document

from terrace.bench import store
from terrace.errors import UsageError


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    path = store.write(tmp_path / "results", document("terrace", 1.23456789012))
    assert [item.name for item in path.parent.iterdir()] == ["32M-dram1of2-terrace-seed1.json"]
    found = store.read(path)
    assert found["figures"]["modelled_s"] == 1.234568
    assert store.read_all(path.parent) == [found]
    assert store.read_all(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": "terrace.cell", "ver', "line 1"),
        ("[]", "not a result of schema terrace.cell"),
        (json.dumps({"schema": "bench.abench", "version": 1}), "schema: 'bench.abench' is not"),
        (json.dumps({"schema": store.SCHEMA, "version": 99}), "version: 99 is not 2"),
    ],
)
def test_a_file_of_another_schema_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(UsageError) as caught:
        store.read_all(tmp_path)
    assert "r.json" in str(caught.value)
    assert said in str(caught.value)


def test_a_cell_is_finished_when_measured_with_the_same_inputs(tmp_path: Path) -> None:
    name = document("terrace", 1.0)["cell"]
    assert not store.is_finished(tmp_path, name, "f")
    store.write(tmp_path, document("terrace", 1.0))
    assert store.is_finished(tmp_path, name, "f")
    assert not store.is_finished(tmp_path, name, "another kernel")
    store.write(tmp_path, document("terrace", 1.0, status=store.FAILED, error="no"))
    assert not store.is_finished(tmp_path, name, "f")

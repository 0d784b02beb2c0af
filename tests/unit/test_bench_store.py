# SPDX-License-Identifier: GPL-2.0
"""Results as files: whole or not there, and of this schema or refused."""

import json
from pathlib import Path

import pytest
from bench_results import document

from terrace.bench import experiment, store
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


def test_results_of_other_settings_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run of another length has another time: it does not belong into one table with the rest."""
    cells = experiment.load("server").cells()[:3]
    for cell in cells:
        found = {**document("terrace", 1.0), "cell": cell.name, "key": cell.key()}
        store.write(tmp_path, found)
    assert len(store.read_current(tmp_path, cells)) == 3
    assert not capsys.readouterr().err
    short = {**cells[0].key(), "options": {**cells[0].key()["options"], "iterations": "7"}}
    store.write(tmp_path, {**document("terrace", 1.0), "cell": cells[0].name, "key": short})
    assert [item["cell"] for item in store.read_current(tmp_path, cells[:2])] == [cells[1].name]
    assert "2 results were measured with other settings" in capsys.readouterr().err


def test_a_cell_is_finished_when_measured_with_the_same_inputs(tmp_path: Path) -> None:
    name = document("terrace", 1.0)["cell"]
    assert not store.is_finished(tmp_path, name, "f")
    store.write(tmp_path, document("terrace", 1.0))
    assert store.is_finished(tmp_path, name, "f")
    assert not store.is_finished(tmp_path, name, "another kernel")
    store.write(tmp_path, document("terrace", 1.0, status=store.FAILED, error="no"))
    assert not store.is_finished(tmp_path, name, "f")

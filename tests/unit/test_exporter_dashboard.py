# SPDX-License-Identifier: GPL-2.0
"""The dashboard for Grafana: it parses, and every query uses metrics and labels of the exporter."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exporter_tree import families, full
from ops_golden import run

from terrace.exporter.table import METRICS

#: Prometheus adds these to every series itself.
FROM_PROMETHEUS = {"instance", "job"}
#: Words of PromQL in the dashboard; any other word is a metric, or a mistake.
WORDS = {"by", "on", "ignoring", "group_left", "and", "rate", "sum", "topk"}
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)(=~|=)"([^"]*)"')
_CLAUSE = re.compile(r"\b(?:by|on|ignoring|group_left) \(([^)]*)\)")


def dashboard() -> Any:
    return json.loads((Path(__file__).parents[2] / "src/terrace/exporter/dashboard.json").read_text())


def panels() -> list[Any]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str, str]]:
    """Title of the panel, query and legend."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


def for_all(query: str, interval: str) -> str:
    """The query of Grafana with all machines, nodes and groups selected, and rates over ``interval``."""
    return re.sub(r"\$(?:instance|node|cgroup)", ".*", query.replace("$__rate_interval", interval))


def words(query: str) -> set[str]:
    """Identifiers of a query that are no label, no text and no duration."""
    bare = _STRING.sub("", query)
    bare = _CLAUSE.sub(lambda clause: clause[0].partition("(")[0], bare)
    return set(re.findall(r"[a-zA-Z_]\w*", re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)))


@pytest.fixture
def exported(tmp_path: Path) -> dict[str, dict[str, set[str]]]:
    """Every metric on a machine with all capabilities: its labels, and their values there."""
    full(tmp_path)
    found: dict[str, dict[str, set[str]]] = {}
    for family in families(tmp_path):
        for sample in family.samples:
            labels = found.setdefault(sample.name, defaultdict(set))
            for label, value in sample.labels.items():
                labels[label].add(value)
    return found


def test_it_is_a_dashboard_that_any_grafana_of_today_takes() -> None:
    board = dashboard()
    assert board["schemaVersion"] >= 36 and board["uid"] and "id" not in board
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert list(variables) == ["datasource", "instance", "node", "cgroup"]
    assert variables["datasource"]["type"] == "datasource"
    sources = [source for panel in panels() for source in (panel, *panel["targets"])]
    sources += [variables[name] for name in ("instance", "node", "cgroup")]
    assert {source["datasource"]["uid"] for source in sources} == {"${datasource}"}
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(numbers) == len(set(numbers)) > 20


def test_every_panel_says_what_it_shows_and_in_which_unit() -> None:
    for panel in panels():
        assert len(panel["description"]) > 20, panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]
        if panel["type"] == "timeseries":
            assert panel["fieldConfig"]["defaults"]["unit"] in {"bytes", "Bps", "percentunit", "ops", "s", "short"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + right, at["y"] + down) for right in range(at["w"]) for down in range(at["h"])}
        assert not taken & cells and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


def test_every_query_names_metrics_that_are_exported(exported: dict[str, dict[str, set[str]]]) -> None:
    for title, query, _ in queries():
        names = words(query) - WORDS
        assert names, title
        assert sorted(names - set(exported)) == [], title


def test_every_label_is_there(exported: dict[str, dict[str, set[str]]]) -> None:
    for title, query, legend in queries():
        for metric, matchers in _SELECTOR.findall(query):
            for label, how, value in _MATCHER.findall(matchers):
                assert label in set(exported[metric]) | FROM_PROMETHEUS, f"{title}: {metric} has no {label}"
                assert how == "=~" or value in exported[metric][label], f"{title}: {label} of {metric} is never {value}"
            assert len(_MATCHER.findall(matchers)) == matchers.count("=")
        known = FROM_PROMETHEUS.union(*(exported[name] for name in words(query) - WORDS))
        asked = {label.strip() for clause in _CLAUSE.findall(query) for label in clause.split(",") if label.strip()}
        asked |= set(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend))
        assert sorted(asked - known) == [], title


def test_every_label_of_a_legend_is_left_by_its_query() -> None:
    """If a query ends in a sum, only the labels after `by` are left."""
    for title, query, legend in queries():
        if by := re.match(r"(?:topk\(\d+, )?sum by \(([^)]*)\)", query):
            left = {label.strip() for label in by[1].split(",")}
            assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= left, title


def test_counters_are_seen_as_rates_and_gauges_are_not() -> None:
    for title, query, _ in queries():
        for metric, _ in _SELECTOR.findall(query):
            assert (f"rate({metric}{{" in query) == (METRICS[metric].kind == "counter"), title


def test_every_variable_asks_for_what_is_there(exported: dict[str, dict[str, set[str]]]) -> None:
    for variable in dashboard()["templating"]["list"][1:]:
        asked = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", variable["query"]["query"])
        assert asked and asked[2] == variable["name"] and asked[2] in set(exported[asked[1]]) | FROM_PROMETHEUS


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool: it is in the Debian package prometheus")
def test_promtool_reads_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, (_, query, _) in enumerate(queries())
    ]
    file = tmp_path / "rules.yml"
    # JSON is YAML.
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def five_minutes(root: Path) -> Iterator[dict[str, str]]:
    """Two machines with all capabilities, as series for promtool: counters grow, gauges stay."""
    full(root)
    for family in families(root):
        for sample in family.samples:
            grows = int(family.type == "counter")
            for instance in ("one:9784", "two:9784"):
                labels = {**sample.labels, "instance": instance, "job": "terrace"}
                inside = ", ".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
                yield {"series": f"{sample.name}{{{inside}}}", "values": f"{sample.value}+{grows}x30"}


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool: it is in the Debian package prometheus")
def test_every_query_has_an_answer_for_both_of_two_machines(tmp_path: Path) -> None:
    """Evaluated by Prometheus itself: a join finds exactly one partner."""
    tests = [
        {
            "expr": f"count(count by (instance) ({for_all(query, '1m')}))",
            "eval_time": "5m",
            "exp_samples": [{"labels": "{}", "value": 2}],
        }
        for _, query, _ in queries()
    ]
    file = tmp_path / "tests.yml"
    groups = [{"interval": "10s", "input_series": list(five_minutes(tmp_path)), "promql_expr_test": tests}]
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "10s", "tests": groups}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_installed_tool_gives_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("exporter", "--dashboard") == 0
    assert json.loads(capsys.readouterr().out) == dashboard()

# SPDX-License-Identifier: GPL-2.0
"""Experiments on where memory lies when every node has CPUs: what is asked of the load, what is refused, the table."""

from pathlib import Path
from typing import Any

import pytest
from bench_results import document
from bench_results import experiment as parse_text

from terrace.bench import blocks, experiment, loads, report, store, tables
from terrace.errors import UsageError
from terrace.lab.topology import load_topology
from terrace.lab.workloads import WORKLOADS

TEXT = """
purpose = "why"
expected = "what"
workload = "xslookup"
sizes = ["8M"]
seeds = [1, 2]
policies = ["stock-0", "even", "copies"]
topology = "seed-004-rx8620"
start = "first-touch"
report = "nodes"
threads = 4
kernel = "terrace"
"""


def _words(policy: str) -> list[str]:
    (cell,) = [cell for cell in parse_text(TEXT).cells() if cell.policy == policy and cell.seed == 1]
    return loads.words(cell, loads.Programs(Path("/b/xslookup"), None))


def test_a_bound_is_asked_of_the_load() -> None:
    plain, even, copies = (_words(name) for name in ("stock-0", "even", "copies"))
    assert not {"--weights", "--copies"} & set(plain)
    assert even[even.index("--weights") + 1] == "1,1,1,1"
    assert "--copies" in copies
    assert "--weights" not in copies
    # All begin where the first touch puts it, with a CPU for each thread.
    assert all(words[words.index("--start-node") + 1] == "-1" and "--pin" in words for words in (plain, even, copies))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"xslookup"', '"stream"', "policies: 'copies' needs a load that makes copies: xslookup, buildlike"),
        ('["stock-0", "even", "copies"]', '["stock-0", "even", "oracle"]', "policies: 'oracle' makes no sense"),
        ('topology = "seed-004-rx8620"', "", "policies: 'even' makes no sense on machines like 'bench-dram-cxl'"),
    ],
)
def test_a_mistake_in_the_file_is_named(old: str, new: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_text(TEXT.replace(old, new))
    assert said in str(caught.value)


def test_tiers_have_no_report_of_nodes() -> None:
    text = TEXT.replace('topology = "seed-004-rx8620"', "").replace(', "even", "copies"', "")
    with pytest.raises(UsageError) as caught:
        parse_text(text)
    assert "report: 'nodes' is of machines whose every node has CPUs" in str(caught.value)


def _document(policy: str, seconds: float, near: float, seed: int = 1) -> dict[str, Any]:
    name = f"8M-spare-{policy}-seed{seed}"
    found = document(policy, seconds, seed, cell=name, fast_hit_ratio=None, near_hit_ratio=near, app_user_s=1.5)
    found["key"].update(size=8 << 20, dram="spare")
    return found


def test_the_table_compares_times_with_those_of_one_node() -> None:
    found = [
        _document(policy, seconds * seed, near, seed)
        for seed in (1, 2)
        for policy, seconds, near in (("stock-0", 2.0, 0.25), ("even", 1.6, 0.25), ("copies", 1.5, 1.0))
    ]
    ((title, rows, head),) = tables.plain(parse_text(TEXT), found)
    assert title == "8M"
    row = rows[[row[0] for row in rows].index("copies")]
    assert (row[head.index("time, of stock-0's %")], row[head.index("near hits %")]) == ("75.0", "100.0")
    saved = [row[head.index("of what copies save %")] for row in rows]
    assert saved == ["0.0", "80.0", "100.0"]
    assert not report.has_picture(parse_text(TEXT), found)


def test_the_page_that_decides_shows_the_results() -> None:
    found = [(item, store.read_all(item.folder / "results")) for item in report.experiments()]
    pages = blocks.pages(found)
    assert [path.name for path in pages] == ["replication.md"]
    for path, wanted in pages.items():
        assert path.read_text() == wanted, "run ./terrace bench report"
    text = blocks.text(("x",), [(parse_text(TEXT), [_document("stock-0", 2.0, 0.25)])])
    assert text.splitlines()[1:3] == ["`x`, `xslookup` of 8M:", ""]
    assert blocks.text(("other",), [(parse_text(TEXT), [])]).strip() == ""


def test_this_repositorys_experiments_differ_in_the_load_alone() -> None:
    loads_of = {name: experiment.load(name) for name in ("replica", "replica-build")}
    machine = load_topology("seed-004-rx8620")
    assert all(load_topology(item.topology) == machine for item in loads_of.values())
    assert all(WORKLOADS[item.workload].copies and "copies" in item.policies for item in loads_of.values())
    assert all("stock-0" in item.policies and "even" in item.policies for item in loads_of.values())

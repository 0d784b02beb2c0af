# SPDX-License-Identifier: GPL-2.0
"""The metrics of `terrace exporter`: names, values, and what is not there."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from exporter_tree import COUNTERS, cgroup, families, full, samples, text
from hypothesis import given
from hypothesis import strategies as st
from ops_tree import build, cxl, dram

from terrace.exporter import machine, vmstat
from terrace.exporter.machine import look
from terrace.exporter.table import METRICS, NS, Page, printable, scaled
from terrace.ops import snapshot
from terrace.ops.knob_table import CGROUPS, KNOBS
from terrace.paths import repo_root
from terrace.sysfs import MTIER, KernelFiles

#: Words that a name must not have: the unit is a base unit, and the type is said by TYPE.
_NO_UNITS = {"ns", "us", "ms", "s", "sec", "kb", "mb", "gb", "kib", "mib", "kilobytes", "milliseconds", "percent"}
_NO_UNITS |= {"mbps", "bp", "ppm", "minutes", "hours", "gauge", "counter", "summary", "histogram"}


def test_every_name_and_label_is_as_prometheus_wants_it(tmp_path: Path) -> None:
    full(tmp_path)
    page = text(tmp_path)
    found = families(tmp_path)
    assert len(found) > 80
    for family in found:
        shown = family.name + ("_total" if family.type == "counter" else "")
        assert re.fullmatch(r"terrace_[a-z][a-z0-9_]*", shown)
        assert not set(shown.split("_")) & _NO_UNITS, shown
        assert family.documentation.strip() and f"# TYPE {shown} {family.type}\n" in page
        assert family.type in ("counter", "gauge") and family.samples
        # Ends that other types use, and the colon, which is for recording rules.
        assert not re.search(r"_(count|sum|bucket|total_total)$|:", shown)
        for sample in family.samples:
            assert sample.name == shown and math.isfinite(sample.value)
            assert family.type == "gauge" or sample.value >= 0
            assert all(re.fullmatch("[a-z]+", label) for label in sample.labels)
    infos = [family for family in found if family.name.endswith("_info")]
    assert {sample.value for family in infos for sample in family.samples} == {1}


def test_what_a_metric_says_needs_no_other_line() -> None:
    """Prometheus shows each alone, in alphabetical order."""
    for metric in METRICS.values():
        assert not re.search(r"(?i)\b(of these|since then|from there|in them|such an?|that they|see)\b", metric.help)


def test_units_are_rounded_once() -> None:
    assert [scaled(value, NS) for value in (250, 80, 1)] == [2.5e-07, 8e-08, 1e-09]
    assert scaled(7, 1 << 20) == 7340032


def test_every_metric_of_the_table_is_there_on_a_machine_with_everything(tmp_path: Path) -> None:
    full(tmp_path)
    page = look(KernelFiles(tmp_path), 50, 3)
    assert sorted(set(METRICS) - set(page.families)) == []


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool: it is in the Debian package prometheus")
@pytest.mark.parametrize("engine", [True, False])
def test_promtool_has_nothing_to_say(engine: bool, tmp_path: Path) -> None:
    if engine:
        full(tmp_path)
    else:
        build(tmp_path, [dram()], engine=False)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text(tmp_path), text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_each_counter_is_told_once_with_its_value(tmp_path: Path) -> None:
    full(tmp_path, first=5000)
    values = samples(tmp_path)
    for place, name in enumerate(COUNTERS):
        wanted = (5000 + place) * (1e-9 if "_ns_" in name else 1)
        assert any(math.isclose(value, wanted, rel_tol=1e-12) for value in values.values()), name
    assert values["terrace_not_promoted_folios_total", (("reason", "drop_pinned"),)] == 5000 + COUNTERS.index(
        "mtier_drop_pinned"
    )
    assert values["terrace_demoted_pages_total", (("by", "engine"),)] == 5000 + COUNTERS.index("mtier_demoted")
    assert values["terrace_mtier_fast_poison_total", ()] == 5000 + COUNTERS.index("mtier_fast_poison")


def test_values_are_in_base_units(tmp_path: Path) -> None:
    tree = full(tmp_path)
    tree.put(f"{MTIER}/scan/delay_ms", "250")
    tree.put(f"{MTIER}/promote/thp", "split")
    tree.put(f"{MTIER}/state", "throttled")
    values = samples(tmp_path)
    fast = (("node", "0"), ("state", "total"), ("tier", "memory_tier4"))
    assert values["terrace_node_memory_bytes", fast] == 1 << 30
    assert values["terrace_node_read_latency_seconds", (("node", "1"),)] == pytest.approx(400e-9)
    assert values["terrace_node_read_bandwidth_bytes_per_second", (("node", "1"),)] == 5120 << 20
    assert values["terrace_node_distance", (("node", "0"), ("to", "1"))] == 20
    assert values["terrace_node_demotes_to", (("node", "0"), ("to", "1"))] == 1
    assert values["terrace_node_promotes_to", (("node", "1"), ("to", "0"))] == 1
    assert values["terrace_thread_cpu_seconds_total", (("thread", "kmtierd"),)] == 0.5
    assert values["terrace_last_burst_look_interval_seconds", ()] == pytest.approx(0.0125)
    assert values["terrace_last_burst_cpu_share_ratio", ()] == pytest.approx(0.03)
    assert values["terrace_last_burst_trust_ratio", ()] == pytest.approx(0.87)
    assert values["terrace_knob_seconds", (("knob", "scan.delay_ms"),)] == 0.25
    assert values["terrace_knob_ratio", (("knob", "tlb_defer.held_limit_bp"),)] == pytest.approx(0.005)
    assert values["terrace_knob_bytes_per_second", (("knob", "promote.rate_mbps"),)] == 1 << 30
    assert values["terrace_knob_value", (("knob", "demotion_enabled"),)] == 1
    assert values["terrace_knob_info", (("knob", "promote.thp"), ("value", "split"))] == 1
    for state in machine.STATES:
        assert values["terrace_engine_state", (("state", state),)] == (state == "throttled")
    assert values["terrace_last_burst_why", (("why", "alike"),)] == 1
    assert values["terrace_cgroup_memory_bytes", (("cgroup", "db"), ("node", "1"))] == 2 << 20
    assert values["terrace_cgroup_promoted_pages_total", (("cgroup", "db"),)] == 7
    assert values["terrace_cgroup_demoted_pages_total", (("cgroup", "db"),)] == 7


def test_every_knob_is_told(tmp_path: Path) -> None:
    full(tmp_path)
    told = {dict(labels)["knob"] for (name, labels) in samples(tmp_path) if name.startswith("terrace_knob_")}
    assert told == {knob.name for knob in KNOBS} | {"weights.node0", "weights.node1"}


def test_what_a_stock_kernel_does_not_say_is_not_there(tmp_path: Path) -> None:
    build(tmp_path, [dram(), cxl(engine={})], engine=False)
    values = samples(tmp_path)
    names = {name for name, _ in values}
    assert values["terrace_engine_present", ()] == 0
    gone = ("engine_enabled", "engine_state", "engine_processes", "place_", "last_burst", "tlb_defer", "numa_follow")
    assert [name for name in names if name.removeprefix("terrace_").startswith(gone)] == []
    # A kernel that counts nothing of the kind has no such counter, which 0 would claim.
    assert "terrace_not_promoted_folios_total" not in names
    assert values["terrace_capability_present", (("capability", "tlb_defer"),)] == 0
    assert ("terrace_capability_on", (("capability", "tlb_defer"),)) not in values
    assert "terrace_cgroups_found" in names and "terrace_cgroup_memory_bytes" not in names


def test_before_the_first_burst_there_is_none_to_tell_of(tmp_path: Path) -> None:
    build(tmp_path, [dram(), cxl()])
    values = samples(tmp_path)
    assert [name for name, _ in values if "last_burst" in name] == []
    assert values["terrace_place_promoted_pages_total", ()] == 0


def test_a_word_of_a_later_kernel_is_told(tmp_path: Path) -> None:
    tree = full(tmp_path)
    tree.put(f"{MTIER}/state", "dreaming")
    assert samples(tmp_path)["terrace_engine_state", (("state", "dreaming"),)] == 1


def test_a_counter_of_a_later_kernel_goes_by_the_rule(tmp_path: Path) -> None:
    tree = full(tmp_path)
    tree.vmstat(mtier_new=3, **{"numa_scan_wait_ns": 2_000_000_000, "tlb_defer_ns_odd-name": 5})
    values = samples(tmp_path)
    assert values["terrace_mtier_new_total", ()] == 3
    assert values["terrace_numa_scan_wait_seconds_total", ()] == 2
    assert values["terrace_tlb_defer_seconds_odd_name_total", ()] == pytest.approx(5e-9)


NAMES = st.text(st.characters(codec="ascii", categories=("L", "N"), include_characters="_-. "), min_size=1, max_size=20)


@given(st.dictionaries(NAMES.map(lambda end: "mtier_" + end), st.integers(0, 1 << 63), max_size=30))
def test_no_name_of_a_counter_breaks_the_page(counters: dict[str, int]) -> None:
    page = Page()
    vmstat.put_counters(page, counters)
    for name, family in page.families.items():
        assert re.fullmatch(r"terrace_[A-Za-z0-9_]+_total", name) and len(family.samples) > 0
        assert family.metric.kind == "counter"


@given(st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 1 << 60)), st.integers(0, 1 << 40))
def test_a_counter_that_grew_is_not_shown_smaller(counters: dict[str, int], more: int) -> None:
    before, after = Page(), Page()
    vmstat.put_counters(before, counters)
    vmstat.put_counters(after, {name: value + more for name, value in counters.items()})
    for name, family in before.families.items():
        later = after.families[name].samples
        assert all(later[key] >= value for key, value in family.samples.items())


ODD = ['a"b', "dev-disk\\x2dby.mount", "two\nlines", "naïve", "tab\there", "{x=1}", "\\n", "end\\"]


def test_names_of_control_groups_come_out_as_they_are(tmp_path: Path) -> None:
    tree = full(tmp_path)
    for name in ODD:
        cgroup(tree, name, 1 << 20, 1 << 20)
    told = {dict(labels).get("cgroup") for name, labels in samples(tmp_path) if name == "terrace_cgroup_memory_bytes"}
    assert told == {*ODD, "db", "db/old"}


def test_names_that_are_no_text_do_not_break_the_page(tmp_path: Path) -> None:
    full(tmp_path)
    for name in (b"na\xefve", b"\xff\xfe", b"na\\xefve"):
        folder = os.fsencode(tmp_path / CGROUPS) + b"/" + name
        Path(os.fsdecode(folder)).mkdir()
        with open(folder + b"/memory.numa_stat", "w") as file:
            file.write("anon N0=4096 N1=8192\n")
    values = samples(tmp_path)
    assert values["terrace_cgroup_memory_bytes", (("cgroup", "\\xff\\xfe"), ("node", "1"))] == 8192
    # One name as text for two groups: one series, which has both.
    assert values["terrace_cgroup_memory_bytes", (("cgroup", "na\\xefve"), ("node", "1"))] == 2 * 8192


@given(st.binary(max_size=30))
def test_any_name_of_a_file_can_be_printed(name: bytes) -> None:
    shown = printable(os.fsdecode(name))
    assert shown.encode("utf-8") == name or ("\\x" in shown and not is_utf8(name))


def is_utf8(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def test_control_groups_are_bounded_and_those_with_most_slow_memory_stay(tmp_path: Path) -> None:
    tree = full(tmp_path)
    for number in range(30):
        cgroup(tree, f"g{number}", fast=1 << 30, slow=number << 20)
    values = samples(tmp_path, most=3)
    told = {dict(labels)["cgroup"] for name, labels in values if name == "terrace_cgroup_memory_bytes"}
    assert told == {"g29", "g28", "g27"}
    assert (values["terrace_cgroups_found", ()], values["terrace_cgroups_left_out", ()]) == (32, 29)
    assert "db/old" not in {dict(labels).get("cgroup") for _, labels in samples(tmp_path, depth=1)}


def test_without_control_groups_none_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full(tmp_path)
    asked: list[str] = []
    read = KernelFiles.read

    def noted(files: KernelFiles, name: str) -> str:
        asked.append(name)
        return read(files, name)

    monkeypatch.setattr(KernelFiles, "read", noted)
    page = look(KernelFiles(tmp_path), 0, 3)
    assert [name for name in asked if "numa_stat" in name or "numa_maps" in name] == []
    assert [name for name in page.families if name.startswith("terrace_cgroup")] == []
    look(KernelFiles(tmp_path), 50, 3)
    assert [name for name in asked if "numa_stat" in name] and not [name for name in asked if "numa_maps" in name]


def test_two_threads_of_a_name_add_up(tmp_path: Path) -> None:
    tree = full(tmp_path)
    tree.put("proc/2/task/2/children", "40 41 42")
    tree.thread(42, "kmtierd", 250_000_000)
    assert samples(tmp_path)["terrace_thread_cpu_seconds_total", (("thread", "kmtierd"),)] == 0.75


def test_a_look_is_one_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full(tmp_path)
    taken: list[snapshot.Snapshot] = []
    take = snapshot.take

    def noted(files: KernelFiles) -> snapshot.Snapshot:
        taken.append(take(files))
        return taken[-1]

    monkeypatch.setattr(snapshot, "take", noted)
    text(tmp_path)
    assert len(taken) == 1


def test_a_label_that_is_missing_or_too_much_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="has the labels"):
        Page().put("node_top_tier", 1)
    with pytest.raises(ValueError, match="has the labels"):
        Page().put("page_size_bytes", 1, node=0)


def test_the_pages_name_only_metrics_that_there_are() -> None:
    for page in ("how-to/watch-with-prometheus.md", "reference/metrics.md"):
        named = set(re.findall(r"`(terrace_[a-z_]+)`|\b(terrace_[a-z_]+)\{", (repo_root() / "docs" / page).read_text()))
        found = {first or second for first, second in named}
        by_rule = {vmstat.by_rule("numa_scan_held")[0].name}
        assert sorted(found - set(METRICS) - by_rule) == [], page
        assert len(found) > 1


def test_every_metric_is_on_its_page() -> None:
    page = (repo_root() / "docs/reference/metrics.md").read_text()
    rows = dict(re.findall(r"^\| `(terrace_\w+)` \| (.*) \|$", page, re.MULTILINE))
    wanted = {
        metric.name: " | ".join(
            [metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.help.replace("|", "\\|")]
        )
        for metric in METRICS.values()
    }
    assert rows == wanted

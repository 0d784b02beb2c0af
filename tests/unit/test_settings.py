# SPDX-License-Identifier: GPL-2.0
"""The file of settings: what it may say, the line of what it may not, and saving into it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_golden import check

from terrace.errors import TerraceError, UsageError
from terrace.ops import knobs, settings
from terrace.ops.knob_table import CGROUP_KNOBS, KNOBS, in_cgroup

PATH = Path("/etc/terrace/terrace.toml")

WHOLE = """\
demotion_enabled = true
engine.enabled = true
engine.promote = { rate_mbps = "500M/s", thp = "split" }
numa_balancing.mode = 1
numa_balancing.scan_mode = "async"
file_policy = 1
weights.node0 = 9

[engine.scan]
cpu_percent = "5%"
delay_ms = 200

[tlb_defer]
mode = "quarantine"
held_limit_bp = "0.5%"

[cgroup."system.slice/db.service"]
auto_migration = true
cpuset.migrate_on_fault = 2
numa_balancing = false
"""


def test_every_kind_of_setting_and_its_turn() -> None:
    found = [(one.knob.name, one.value, one.line, one.cgroup) for one in settings.parse(WHOLE, PATH)]
    db = "system.slice/db.service"
    assert found == [
        # Off before whatever is switched on: no scan comes in between.
        ("numa_balancing", "0", 20, db),
        ("demotion_enabled", "true", 1, None),
        ("promote.rate_mbps", "500", 3, None),
        ("promote.thp", "split", 3, None),
        ("numa_balancing.scan_mode", "async", 5, None),
        ("weights.node0", "9", 7, None),
        ("scan.cpu_percent", "5", 10, None),
        ("scan.delay_ms", "200", 11, None),
        ("tlb_defer.held_limit_bp", "50", 15, None),
        ("auto_migration", "1", 18, db),
        ("migrate_on_fault", "2", 19, db),
        ("tlb_defer.mode", "quarantine", 14, None),
        ("numa_balancing", "1", 4, None),
        ("file_policy", "1", 6, None),
        # With its limits in force, and not before.
        ("enabled", "1", 2, None),
    ]
    off = settings.parse("engine.promote.rate_mbps = 7\nengine.enabled = false\n", PATH)
    assert [one.knob.name for one in off] == ["enabled", "promote.rate_mbps"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("engine.enabled = \n", "terrace.toml: not TOML: invalid value (at line 1"),
        ("\nengine.enablet = true", "line 2: there is no knob 'engine.enablet'; did you mean"),
        ("engine.demotion_enabled = 1", "line 1: there is no knob 'engine.demotion_enabled'"),
        ("# x\n\ndemotoin = 1", "line 3: there is no knob 'demotoin'; did you mean demotion"),
        ("engine.scan.cpu_percent = 101", "line 1: scan.cpu_percent cannot be '101'; allowed: 1-100 %"),
        ("engine.scan.delay_ms = '5 weeks'", "line 1: scan.delay_ms cannot be '5 weeks'; allowed: 0-3600000 ms"),
        ("engine.scan.delay_ms = 1.5", "line 1: scan.delay_ms cannot be '1.5'"),
        ("engine.scan.delay_ms = [1]", "line 1: scan.delay_ms takes one value: a number, true, false or a string"),
        ("tlb_defer.mode = true", "line 1: tlb_defer.mode cannot be 'true'; allowed: off, quarantine"),
        ("tlb_defer = 'quarantine'", "line 1: there is no knob 'tlb_defer'; did you mean tlb_defer.mode"),
        ("numa_balancing.mode = 'default'", "line 1: the default of numa_balancing is chosen when the kernel is built"),
        ("a = 1\nengine.charge = 7", "line 1: there is no knob 'a'"),
        ("a = 1\nengine.charge = 7", "line 2: charge cannot be '7'"),
        ("engine.enabled = 1\nenabled = 0", "line 2: enabled has a value in line 1 already"),
        ("weights.node1 = 3\nweights.auto = true", "line 1: weights.node1 ends weights.auto, which line 2 switches on"),
        ("auto_migration = 1", "line 1: 'auto_migration' is set for each cgroup: write it below [cgroup."),
        ("cgroup = 1", 'line 1: a cgroup has a table of its own, [cgroup."PATH"]'),
        ("[cgroup.db]\nmigrate_on_fault = 4", "line 2: migrate_on_fault cannot be '4'; allowed: 0-3 (/sys/fs/cgro"),
        ("[cgroup.db]\nrate = 4", "line 2: there is no knob 'rate'; a cgroup has auto_migration"),
        ("[cgroup.'/']\nauto_migration = 1", "line 2: the root cgroup has no knobs"),
        ("[cgroup.'a/../b']\nauto_migration = 1", "line 2: there is no cgroup /sys/fs/cgroup/a/../b"),
        (
            "[cgroup.system.slice]\nauto_migration = 1",
            'line 2: put quotes around the whole path of the cgroup, as in [cgroup."system.slice"]',
        ),
        ("[[engine]]\nenabled = 1", "line 1: a table here has single brackets"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        settings.parse(text, PATH)


def test_empty_tables_set_nothing() -> None:
    assert settings.parse("[engine]\n[cgroup]\n[tlb_defer]\n", PATH) == []
    assert settings.parse("promote = {}\ncgroup = {}", PATH) == []


def test_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "terrace.toml"
    with pytest.raises(UsageError, match="there is no .*terrace.toml: `terrace apply --example` prints one"):
        settings.read(path)
    path.write_bytes(b"# x\nengine.enabled = '\xff'")
    with pytest.raises(UsageError, match="terrace.toml, line 2: not UTF-8"):
        settings.read(path)
    path.write_bytes(b"#" * (settings.MOST_BYTES + 1))
    with pytest.raises(UsageError, match="more than 64 KiB"):
        settings.read(path)
    with pytest.raises(TerraceError, match="this is a folder; name a regular file"):
        settings.read(tmp_path)


def test_the_example_has_every_knob_and_sets_none() -> None:
    text = settings.example()
    check("apply-example.txt", text)
    assert settings.parse(text, PATH) == []
    # Each of its comments, made a line, is right: but both kinds of weights, and what each cgroup has.
    lines = [line for line in text.splitlines() if re.match(r"#[^ ]", line)]
    plain = "\n".join(line[1:] for line in lines[: -len(CGROUP_KNOBS)])
    found = settings.parse(plain, PATH)
    assert {one.knob.name for one in found} == {knob.name for knob in KNOBS} | {"weights.node0"}
    by_name = {one.knob.name: one for one in found}
    for knob in KNOBS:
        assert knobs.same(by_name[knob.name].value, knob.default) or " or " in knob.default
    of_group = "[cgroup.db]\n" + "\n".join(line[1:] for line in lines[-len(CGROUP_KNOBS) :])
    assert [one.knob.name for one in settings.parse(of_group, PATH)] == [knob.name for knob in CGROUP_KNOBS]


def test_saving_keeps_what_is_there() -> None:
    find = knobs.find
    text = settings.with_value(WHOLE, PATH, find("weights.node1"), "3")
    assert text == WHOLE.replace("weights.node0 = 9\n", "weights.node0 = 9\nweights.node1 = 3\n")
    text = settings.with_value(WHOLE, PATH, find("scan.delay"), "300")
    assert text == WHOLE.replace("delay_ms = 200", "delay_ms = 300")
    text = settings.with_value(WHOLE, PATH, find("numa_balancing"), "0")
    assert text == WHOLE.replace("balancing.mode = 1", "balancing.mode = 0")
    for name in ("promote.rate_mbps", "promote.move_fast"):
        with pytest.raises(TerraceError, match=rf"terrace.toml: only by hand .*: engine\.{name} = "):
            settings.with_value(WHOLE, PATH, find(name), "1")
    own = in_cgroup(CGROUP_KNOBS[0], "user.slice")
    assert settings.with_value(WHOLE, PATH, own, "1", "user.slice").endswith(
        'cpuset.migrate_on_fault = 2\nnuma_balancing = false\n\n[cgroup."user.slice"]\nauto_migration = true\n'
    )


def test_saving_weights_leaves_one_kind_of_them() -> None:
    auto, node = knobs.find("weights.auto"), knobs.find("weights.node0")
    text = settings.with_value(WHOLE, PATH, auto, "true")
    commented = WHOLE.replace("weights.node0", "#weights.node0")
    assert text == commented.replace("file_policy = 1\n", "file_policy = 1\nweights.auto = true\n")
    text = settings.with_value("weights.auto = true # ours\n", PATH, node, "4")
    assert text == "weights.auto = false # ours\nweights.node0 = 4\n"


@given(st.data())
def test_what_was_saved_is_read_again(data: st.DataObject) -> None:
    """Any knobs with any values of theirs, one after the other, into the example or nothing."""
    text = data.draw(st.sampled_from(["", settings.example(), "# mine\n"]))
    values: dict[str, str] = {}
    known = [*KNOBS, knobs.find("weights.node0"), *(in_cgroup(knob, "a.slice/b c") for knob in CGROUP_KNOBS)]
    for knob in data.draw(st.lists(st.sampled_from(known), max_size=12)):
        numbers = [st.integers(knob.low, knob.high).map(str)] if knob.low is not None and knob.high is not None else []
        value = data.draw(st.one_of(*numbers, *([st.sampled_from(knob.words)] if knob.words else [])))
        text = settings.with_value(
            text, PATH, knob, value, "a.slice/b c" if knob.path.startswith("sys/fs/cg") else None
        )
        values[knob.path] = value
        if knob.name == "weights.auto" and value in ("1", "true"):
            values.pop(knobs.find("weights.node0").path, None)
        elif knob.name == "weights.node0" and knobs.find("weights.auto").path in values:
            values[knobs.find("weights.auto").path] = "false"
    found = {one.knob.path: one.value for one in settings.parse(text, PATH)}
    assert found.keys() == values.keys()
    assert all(knobs.same(found[path], value) for path, value in values.items())


@given(st.text(alphabet="abegin.=[]\"'# \n1ct", max_size=80))
def test_any_text_gets_a_clear_answer(text: str) -> None:
    try:
        settings.parse(text, PATH)
    except UsageError as error:
        assert str(PATH) in str(error)

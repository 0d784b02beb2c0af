# SPDX-License-Identifier: GPL-2.0
"""The documents agree with the code: knobs, counters, reasons, JSON schemas, ABI files."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from ops_golden import FOLDER, run
from ops_tree import build, cxl, dram

import strict_schema
from terrace.kernel.build import Kernel
from terrace.kernel.check import Result
from terrace.kernel.size import Size
from terrace.ops import counters, diagnose
from terrace.ops.knob_table import CGROUP_KNOBS, KNOBS, NODE_WEIGHT, Knob
from terrace.ops.snapshot import PLACE, PLACE_NUMBERS
from terrace.sysfs import MTIER
from terrace.testing.results import Reporter, TestResult

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
ABI = ROOT / "linux/Documentation/ABI/testing/sysfs-kernel-mm-mtier"
ADMIN = ROOT / "linux/Documentation/admin-guide/mm/mtier.rst"

OURS = [knob for knob in KNOBS if knob.path.startswith(MTIER)]


def complaints(check: Callable[[Knob], str], knobs: Iterable[Knob]) -> list[str]:
    """Get the error of `check` for each knob."""
    return [f"{knob.name}: {said}" for knob in knobs if (said := check(knob))]


def test_every_knob_has_its_row_and_its_paragraph() -> None:
    text = (REFERENCE / "knobs.md").read_text()

    def check(knob: Knob) -> str:
        found = re.findall(rf"^\| `{re.escape(knob.name)}` \|(.*)\|$", text, re.MULTILINE)
        # A knob of the machine and one of a cgroup can have the same name.
        rows = [[cell.strip() for cell in row.split("|")] for row in found]
        if [knob.unit, knob.default, knob.allowed] not in rows:
            return f"its rows have {rows}" if rows else "no row"
        return "" if re.search(rf"\*\*[^*]*`{re.escape(knob.name)}`[^*]*\*\*", text) else "no paragraph"

    assert complaints(check, [*KNOBS, NODE_WEIGHT, *CGROUP_KNOBS]) == []


def test_the_kernels_pages_have_the_same_defaults_and_ranges() -> None:
    """The knobs of capabilities other than promotion: ABI files and admin pages against the table."""
    abi = (ABI.parent / "sysfs-kernel-mm-tlb_defer").read_text()

    def check(knob: Knob) -> str:
        entry = next((part for part in abi.split("What:\t\t") if part.startswith(f"/{knob.path}\n")), "")
        wanted = [f"Default {knob.default}", f"{knob.low} to\n\t\t{knob.high}"]
        flat = " ".join(entry.split())
        return ", ".join(f"no '{words}'" for words in wanted if " ".join(words.split()) not in flat)

    assert (
        complaints(check, [knob for knob in KNOBS if knob.name.startswith("tlb_defer.") and knob.low is not None]) == []
    )
    follow = (ADMIN.parent / "numa_follow.rst").read_text()
    scan = (ADMIN.parent / "numa_scan.rst").read_text()
    rows = dict(re.findall(r"^``(cpuset\.\w+)`` +``(\d+)``", follow + scan, re.MULTILINE))
    assert rows == {knob.path: knob.default for knob in CGROUP_KNOBS}
    assert "``vm.migrate_on_fault_mbps`` (256; 1 to 1048576) MiB a second" in " ".join(follow.split())


def test_every_knob_is_in_the_abi_file_with_default_and_range() -> None:
    entries = ABI.read_text().split("What:\t\t")

    def check(knob: Knob) -> str:
        entry = next((entry for entry in entries if f"/{knob.path}\n" in entry.partition("Date:")[0]), "")
        wanted = ["Date:", "KernelVersion:", "Contact:", "Description:", "Users:", f"Default {knob.default}"]
        if knob.low is not None and knob.name != "promote.target_node":
            wanted.append(f"{knob.low} to {knob.high}")
        flat = " ".join(entry.split())
        return ", ".join(f"no '{words}'" for words in wanted if words not in flat)

    assert complaints(check, OURS) == []


def test_every_knob_is_in_the_admin_guide() -> None:
    text = ADMIN.read_text()
    assert [knob.name for knob in OURS if f"``{knob.path.removeprefix(MTIER + '/')}``" not in text] == []


PROMOTED = [f"mtier_promoted_{kind}" for kind in ("anon", "file", "shmem")]


def test_every_counter_is_documented() -> None:
    names = [*counters.LOSSES, *counters.ASIDE, *PROMOTED, "mtier_taken", "mtier_bursts", "mtier_look_ptes"]
    reference, admin = (REFERENCE / "counters.md").read_text(), ADMIN.read_text()
    assert [name for name in names if f"`{name}`" not in reference or f"``{name}``" not in admin] == []


def test_every_reason_is_documented() -> None:
    source = Path(diagnose.__file__).read_text()
    ids = set(re.findall(r'Reason\(\s*"([a-z_]+)"', source)) - {"id"}
    ids |= {name.removeprefix("mtier_") for name in counters.LOSSES}
    ids |= set(counters.WHY) - {"rate"}
    text = (REFERENCE / "counters.md").read_text()
    assert len(ids) > 20
    assert [name for name in sorted(ids) if f"`{name}`" not in text] == []


def test_every_file_of_place_is_documented() -> None:
    reference, admin, abi = (REFERENCE / "counters.md").read_text(), ADMIN.read_text(), ABI.read_text()
    names = ["why", *PLACE_NUMBERS]
    assert [name for name in names if f"`place/{name}`" not in reference] == []
    assert [name for name in names if f"``{name}``" not in admin] == []
    assert [name for name in names if f"/{PLACE}/{name}\n" not in abi] == []


def test_every_word_of_the_last_burst_is_documented() -> None:
    reference, abi = (REFERENCE / "counters.md").read_text(), ABI.read_text()
    assert [word for word in counters.WHY if f"| `{word}` |" not in reference or f'"{word}"' not in abi] == []


def validate(text: str) -> None:
    document = json.loads(text)
    schema = json.loads((REFERENCE / "schema" / f"{document['kind']}.schema.json").read_text())
    strict_schema.validate(document, schema)


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--interval", "0", "--json"],
        ["status", "--interval", "1ms", "--json"],
        ["set", "--list", "--json"],
        ["set", "enabled", "1", "--json"],
        ["features", "--json"],
        ["doctor", "--for", "machine", "--json"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("engine", [True, False])
def test_json_follows_its_schema(
    words: list[str], engine: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if words[:2] == ["set", "enabled"] and not engine:
        words = ["set", "demotion_enabled", "1", "--json"]
    build(tmp_path, [dram(), cxl(engine={} if not engine else {"demoted": "3"})], engine=engine)
    run(*words, "--root", str(tmp_path))
    validate(capsys.readouterr().out)


def test_json_of_the_lab_and_the_kernel_follows_its_schema(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built = Kernel(Path("vmlinux"), Path("config"), "6.12.1", "c0ffee", "stock", "abc", "5eed")
    checked = [Result("hooks", (), 0.5), Result("size", ("grows",), 1.5, (Size("mm/follow", 29000, 4096, 8),))]
    monkeypatch.setattr("terrace.kernel.build.build", lambda name, **_: built)
    monkeypatch.setattr("terrace.kernel.check.run_checks", lambda names, **_: checked)
    for words, code in ((["lab", "list"], 0), (["kernel", "build", "stock"], 0), (["kernel", "check"], 1)):
        assert run(*words, "--json") == code
        text = capsys.readouterr().out
        validate(text)
        assert f"`terrace {words[0]} {words[1]} --json`" in (REFERENCE / "json.md").read_text()


def test_json_of_the_tests_follows_its_schema() -> None:
    reporter = Reporter(stream=io.StringIO())
    reporter.add(TestResult("g", "n", "skip", "why", 0.1))
    validate(json.dumps(reporter.as_json()))


def test_every_schema_is_on_the_page() -> None:
    text = (REFERENCE / "json.md").read_text()
    schemas = sorted((REFERENCE / "schema").iterdir())
    assert [path.name for path in schemas if f"(schema/{path.name})" not in text] == []


def test_the_golden_json_follows_its_schema() -> None:
    validate((FOLDER / "status-busy.json").read_text())


def test_links_lead_somewhere() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    links = ((page, link) for page in pages for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()))
    assert [f"{page}: {link}" for page, link in links if "://" not in link and not (page.parent / link).exists()] == []

# SPDX-License-Identifier: GPL-2.0
"""Valid contents of bench.toml, and the matrix of its cells."""

import json
import shlex
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from bench_results import TEXT
from bench_results import experiment as parse_text

from terrace.bench import experiment, loads
from terrace.bench.cells import KERNEL_SHARE, Beside, Cell
from terrace.bench.session import flavours_of
from terrace.errors import UsageError
from terrace.lab import qemu
from terrace.lab.topology import MIB, load_topology
from terrace.paths import repo_root

WIDE = (
    TEXT.replace('["32M"]', '["64M", "32M"]').replace('["1/2"]', '["spare", "1/4"]')
    + "[options]\niterations = { 32M = 4, 64M = 2 }\nthp = true\nquiet = false\n"
)


def test_every_size_dram_policy_and_seed_is_a_cell_the_small_ones_first() -> None:
    cells = parse_text(WIDE).cells()
    assert cells[0].name == "32M-spare-all-dram-seed1"
    assert cells[-1].name == "64M-dram1of4-terrace-seed2"
    assert len({cell.name for cell in cells}) == len(cells)
    # 2 sizes x 2 seeds x (3 policies x 2 amounts of DRAM + 2 bounds without a limit of it)
    assert len(cells) == 2 * 2 * (3 * 2 + 2)


def test_an_option_may_differ_by_size() -> None:
    by_size = {cell.size: dict(cell.options) for cell in parse_text(WIDE).cells()}
    assert by_size[32 * MIB] == {"iterations": "4", "thp": None}
    assert by_size[64 * MIB] == {"iterations": "2", "thp": None}


def test_the_machine_leaves_a_part_of_the_load_in_fast_memory() -> None:
    cell = parse_text().cells()[1]
    assert (cell.policy, cell.dram) == ("oracle", Fraction(1, 2))
    machine = cell.machine()
    assert machine.nodes[0].memory == 16 * MIB + KERNEL_SHARE
    assert machine.nodes[1].memory >= 2 * cell.size
    programs = loads.Programs(Path("/b/abench"), Path("/b/ballast"))
    words = loads.words(cell, programs, Path("/tmp/place"))
    assert words[:6] == ["/b/ballast", "--node", "0", "--leave", str(16 * MIB), "--"]
    assert words[words.index("--place") + 1] == "/tmp/place"
    told = loads.describe(words, (Path("/b"), Path("/tmp")))
    assert told.startswith("ballast --node 0 --leave 16777216 -- abench --json") and " --place place" in told
    assert "/sys/kernel/mm/numa/demotion_enabled=0" in told


BESIDE = TEXT + "[beside]\nidle = 300\nbusy = 20\npage_cache = true\n"


def _by_policy(text: str) -> dict[str, Cell]:
    return {cell.policy: cell for cell in parse_text(text).cells()}


def test_others_are_there_before_the_load_and_page_cache_takes_what_ballast_leaves() -> None:
    cell = _by_policy(BESIDE)["terrace"]
    assert cell.beside == Beside(300, 40, 20, 256 << 10, 100, True)
    words = loads.words(cell, loads.compile_for(cell))
    programs = [Path(words[0]), *(Path(words[i + 1]) for i, word in enumerate(words) if word == "--")]
    assert [path.name.partition("-")[0] for path in programs] == ["crowd", "ballast", "pagecache", "abench"]
    assert words[1:9] == ["--idle", "300", "--ranges", "40", "--busy", "20", "--busy-size", str(256 << 10)]
    assert words[9:13] == ["--busy-ms", "100", "--node", "1"]
    assert words[words.index("--leave") + 1] == str(16 * MIB)


def test_a_machine_has_room_for_the_others_as_well() -> None:
    alone, beside = (_by_policy(text)["terrace"] for text in (TEXT, BESIDE))
    assert beside.beside is not None
    more = beside.machine().nodes[0].memory - alone.machine().nodes[0].memory
    assert more == beside.beside.kernel_bytes // MIB * MIB > 100 * MIB
    assert "beside" not in alone.key()
    key = beside.key()["beside"]
    schema = json.loads((repo_root() / "docs/reference/schema/cell.schema.json").read_text())
    assert sorted(key) == sorted(schema["properties"]["key"]["properties"]["beside"]["required"])
    assert key["idle"] == 300


def test_a_bound_with_fast_memory_to_spare_has_no_page_cache() -> None:
    cell = _by_policy(BESIDE)["all-dram"]
    programs = loads.compile_for(cell)
    assert programs.pagecache is None
    assert programs.crowd is not None


def test_a_load_of_many_processes_makes_fast_memory_short_when_they_are_there() -> None:
    text = TEXT.replace('"abench"', '"pool"') + "[options]\nbackends = 100\n"
    cell = _by_policy(text)["terrace"]
    words = loads.words(cell, loads.compile_for(cell))
    assert Path(words[0]).name.startswith("pool-")
    assert words[words.index("--leave") + 1] == str(16 * MIB)
    assert cell.processes_bytes == 100 * ((256 << 10) + (32 * MIB >> 9))
    assert cell.machine().nodes[0].memory == 16 * MIB + KERNEL_SHARE + cell.processes_bytes // MIB * MIB
    assert "--leave" not in loads.words(_by_policy(text)["all-slow"], loads.compile_for(cell))


def test_no_recorded_command_carries_a_folder_of_who_ran_it() -> None:
    """Commands of `oracle` contained the temporary folder of their run, and those with ballast the checkout's."""
    found = sorted((repo_root() / "bench").glob("*/results/*.json"))
    assert found
    for path in found:
        for word in shlex.split(json.loads(path.read_text()).get("command", "")):
            assert "/" not in word or word.startswith(("/sys/", "/proc/")), f"{path}: {word}"


def test_bounds_start_where_they_stay() -> None:
    cells = {cell.policy: cell for cell in parse_text(TEXT + 'start = "first-touch"\n').cells()}
    starts = {policy: loads.start_node(cell) for policy, cell in cells.items()}
    assert starts == {"all-dram": 0, "oracle": -1, "stock-2": -1, "terrace": -1, "all-slow": 1}
    assert cells["all-dram"].dram is None


def test_one_kernel_may_run_all_policies() -> None:
    own = parse_text()
    assert flavours_of(own.cells()) == {"stock", "terrace"}
    assert "kernel" not in own.cells()[0].key()
    one = parse_text(TEXT + 'kernel = "terrace"\n')
    # Those of the first passes too, which have a policy of stock.
    assert flavours_of(one.cells()) == {"terrace"}
    assert one.cells()[0].key()["kernel"] == "terrace"


def test_a_load_of_more_than_512m_gets_a_larger_machine() -> None:
    cell = replace(parse_text().cells()[0], size=1 << 30)
    assert cell.machine().nodes[0].memory == 4 << 30


def test_the_experiments_of_this_repository_can_be_read() -> None:
    assert {"abench", "smoke"} <= set(experiment.names())
    for name in experiment.names():
        item = experiment.load(name)
        assert item.purpose
        assert item.expected
        assert item.cells()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('purpose = "why"', "", "key 'purpose' is missing"),
        ('purpose = "why"', "purpose = 3", "purpose: needs a text"),
        ("seeds = [1, 2]", "seeds = [1]\nfound = 3", "found: needs a text"),
        ("seeds = [1, 2]", "seeds = [1]\nfound = 'better by 7.5 s'", "found: '7.5' is a figure"),
        ("seeds = [1, 2]", "seeds = [1]\nfound = 'half, or 50 %'", "found: '50 %' is a figure"),
        ("seeds = [1, 2]", "seeds = [1]\nthread = 1", "unknown key 'thread'"),
        ("seeds = [1, 2]", "seeds = [1]\nthreads = 0", "threads: 0"),
        ("seeds = [1, 2]", "seeds = [1]\nthreads = '8'", "threads: '8'"),
        (
            "seeds = [1, 2]",
            "seeds = [1]\nthreads = 'cpus'",
            "threads: 'cpus' is the number of CPUs of each cell; it needs",
        ),
        ("seeds = [1, 2]", "seeds = [1]\ncpus = 4", "cpus: 4 is not a list"),
        ("seeds = [1, 2]", "seeds = [1]\ncpus = [4, 0]", "cpus: 0 is not from 1 (nodes with CPUs) to 64"),
        ("seeds = [1, 2]", "seeds = [1]\ncpus = [65]", "cpus: 65 is not from"),
        ("seeds = [1, 2]", "seeds = []", "seeds"),
        ("seeds = [1, 2]", "seeds = [true]", "seeds"),
        ("seeds = [1, 2]", "seeds = [1, 1]", "names something twice"),
        ("seeds = [1, 2]", "seeds = [1,", "bench.toml"),
        ("seeds = [1, 2]", "seeds = [1]\nreport = 'all'", "report: 'all'"),
        ("seeds = [1, 2]", "seeds = [1]\nstart = 'fast'", "start: 'fast'"),
        ("seeds = [1, 2]", "seeds = [1]\ntolerance = 2", "tolerance: 2"),
        ("seeds = [1, 2]", 'seeds = [1]\nkernel = "off"', "kernel: 'off'"),
        ("seeds = [1, 2]", "seeds = [1]\ntopology = 'mars'", "topology: there is no topology 'mars'"),
        ("seeds = [1, 2]", "seeds = [1]\ntopology = 'three-tier'", "topology: 'three-tier' is no machine"),
        ("seeds = [1, 2]", "seeds = [1]\noptions = 3", "options"),
        ("seeds = [1, 2]", "seeds = [1]\noptions.x = { 64M = 1 }", "options.x: has no value for 32M"),
        ("seeds = [1, 2]", "seeds = [1]\noptions.x = [1]", "options.x: [1]"),
        ("seeds = [1, 2]", "seeds = [1]\nbeside = 3", "beside: write it as a table [beside]"),
        ("seeds = [1, 2]", "seeds = [1]\nbeside.idles = 3", "beside: 'idles' is unknown; the keys are idle, ranges"),
        ("seeds = [1, 2]", "seeds = [1]\nbeside.ranges = 3", "beside: it has neither idle nor busy"),
        ("seeds = [1, 2]", "seeds = [1]\nbeside.idle = 20000", "beside.idle: 20000 is not a whole number"),
        ("seeds = [1, 2]", "seeds = [1]\nbeside.busy_size = '5'", "beside.busy_size: 5 is not a number of pages"),
        ("seeds = [1, 2]", "seeds = [1]\nbeside.busy_size = 'x'", "beside.busy_size: size 'x'"),
        ("seeds = [1, 2]", "seeds = [1]\nbeside.page_cache = 1", "beside.page_cache: 1 is neither true nor false"),
        (
            "seeds = [1, 2]",
            "seeds = [1]\nstart = 'first-touch'\nbeside.idle = 3",
            'beside: its processes and page cache come before the load; it needs start = "slow"',
        ),
        ('"terrace",', '"terace",', "policies: 'terace' is not one of"),
        ('"abench"', '"other"', "workload: 'other' is not one of"),
        ('"32M"', '"64 elephants"', "sizes: size '64 elephants'"),
        ('"32M"', '"5K"', "sizes: 5K is not a whole number of MiB"),
        ('"1/2"', '"half"', "dram: 'half'"),
        ('"1/2"', '"3/2"', "dram: '3/2'"),
    ],
)
def test_a_mistake_in_the_file_is_named(old: str, new: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_text(TEXT.replace(old, new))
    assert said in str(caught.value)
    assert "bench.toml" in str(caught.value)


def test_a_machine_larger_than_this_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "host_memory", lambda: 1 << 30)
    with pytest.raises(UsageError, match=r"bench\.toml: sizes: 32M does not fit here: .*this host has 1G"):
        parse_text().require_memory()


def test_an_experiment_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no experiment 'nothing'"):
        experiment.load("nothing")
    with pytest.raises(UsageError, match=r"there is no .*bench\.toml"):
        experiment.load(f"{tmp_path}/x")
    (tmp_path / "bench.toml").write_text(TEXT)
    assert experiment.load(str(tmp_path)).name == tmp_path.name


def test_a_machine_may_have_several_numbers_of_cpus_for_the_same_cores() -> None:
    item = parse_text(TEXT.replace("seeds = [1, 2]", "seeds = [1]\ncpus = [4, 8]\nthreads = 'cpus'"))
    cells = item.cells()
    assert [cell.cpus for cell in cells] == [4] * 5 + [8] * 5
    assert [cell.threads for cell in cells] == [cell.cpus for cell in cells]
    assert len({cell.name for cell in cells}) == len(cells)
    machine = cells[-1].machine()
    base = load_topology(item.topology)
    assert machine.cpus == 8
    assert machine.cpus * machine.model.cores_per_cpu == base.cpus * base.model.cores_per_cpu
    assert [cell.cpus for cell in experiment.select(cells, cpus=[8])] == [8] * 5
    assert cells[0].key()["cpus"] == 4
    assert "cpus" not in parse_text(TEXT).cells()[0].key()


def test_cells_are_picked_and_bounds_stay_with_every_dram() -> None:
    cells = parse_text(WIDE).cells()
    picked = list(experiment.select(cells, sizes=[32 * MIB], seeds=[2], dram=["1/4"]))
    assert [cell.policy for cell in picked] == ["all-dram", "all-slow", "oracle", "stock-2", "terrace"]
    assert list(experiment.select(cells, policies=["damon"])) == []

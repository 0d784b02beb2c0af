# SPDX-License-Identifier: GPL-2.0
"""The placements of terrace exec and terrace spread, on a kernel without them."""

import errno
import json
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import strict_schema
from terrace.cli import spread
from terrace.errors import MissingError, TerraceError, UsageError
from terrace.paths import repo_root
from terrace.policy import library, place
from terrace.policy.binding import CpuCalls
from terrace.policy.calls import BIND, INTERLEAVE, LOCAL, PREFERRED, PREFERRED_MANY, WEIGHTED, Policy, PolicyCalls
from terrace.policy.maps import bytes_by_node, parse_numa_maps
from terrace.policy.measure import Area, choose_area, measured_bandwidths
from terrace.policy.place import Placement
from terrace.policy.weights import auto_weights, format_weights, global_weights, parse_weights, weights_of
from terrace.sysfs import KernelFiles

WEIGHTS = "sys/kernel/mm/mempolicy/weighted_interleave"


class FakeCalls:
    """Remembers the requested policies; ``answer`` is the errno of every call."""

    def __init__(self, weights: bool = True, answer: int = 0) -> None:
        self.weights = weights
        self.answer = answer
        self.log: list[tuple[str, Policy]] = []

    def has_weights(self) -> bool:
        return self.weights

    def _note(self, what: str, policy: Policy) -> None:
        if self.answer:
            raise OSError(self.answer, os.strerror(self.answer))
        self.log.append((what, policy))

    def set_task(self, policy: Policy, fallback: bool = False) -> None:
        self._note("task as far as it goes" if fallback else "task", policy)

    def set_range(self, address: int, size: int, policy: Policy, fallback: bool = False) -> None:
        assert address and not fallback
        self._note(f"range {size}", policy)

    def get_task(self) -> Policy:
        if self.answer:
            raise OSError(self.answer, os.strerror(self.answer))
        return self.log[-1][1] if self.log else Policy(0)


def machine(root: Path, *, weights: dict[int, int] | None = None, mbps: dict[int, int] | None = None) -> KernelFiles:
    node = root / "sys/devices/system/node"
    node.mkdir(parents=True)
    (node / "has_memory").write_text("0-2\n")
    for number, weight in (weights or {}).items():
        (root / WEIGHTS).mkdir(parents=True, exist_ok=True)
        (root / WEIGHTS / f"node{number}").write_text(f"{weight}\n")
    for number, value in (mbps or {}).items():
        folder = node / f"node{number}/access1/initiators"
        folder.mkdir(parents=True)
        (folder / "read_bandwidth").write_text(f"{value + 1}\n")
        (folder / "write_bandwidth").write_text(f"{value}\n")
    return KernelFiles(root)


def schema(kind: str) -> Any:
    return json.loads((repo_root() / f"docs/reference/schema/{kind}.schema.json").read_text())


def applied(wish: Placement, files: KernelFiles, calls: FakeCalls) -> list[tuple[str, Policy]]:
    place.apply(wish, files, calls)  # type: ignore[arg-type]
    return calls.log


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("0-1=3,2", {0: 3, 1: 3, 2: 0}),
        ("0=0,2=255", {0: 0, 2: 255}),
    ],
)
def test_weights_as_text(text: str, weights: dict[int, int]) -> None:
    assert parse_weights(text, range(3)) == weights


@pytest.mark.parametrize("text", ["0=256", "0=-1", "0=1,", "3=1", "0-1=1,1=2"])
def test_weights_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_weights(text, range(3))


def test_weights_are_written_as_they_are_read() -> None:
    assert format_weights({1: 1, 0: 9}) == "0=9,1=1"


@pytest.mark.parametrize(
    ("mbps", "weights"),
    [
        ({0: 60000, 1: 20000}, {0: 3, 1: 1}),
        # 7:1 was slower than DRAM alone.
        ({0: 300000, 1: 37000}, {0: 8, 1: 1}),
        ({0: 5, 1: 5, 2: 5}, {0: 1, 1: 1, 2: 1}),
        ({0: 64, 1: 40, 2: 20}, {0: 10, 1: 6, 2: 3}),
        # Too slow to help
        ({0: 100000, 1: 1}, {0: 1}),
        ({0: 8, 3: 300}, {3: 1}),
        ({}, {}),
    ],
)
def test_weights_reach_the_most_bandwidth(mbps: dict[int, int], weights: dict[int, int]) -> None:
    assert weights_of(mbps) == weights


def test_a_node_that_is_too_slow_is_left_out_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = machine(tmp_path, mbps={0: 300000, 1: 37000, 2: 2000})
    assert place.policy_of(Placement(weights="firmware"), files) == Policy(WEIGHTED, (0, 1), {0: 8, 1: 1})
    assert "node 2 left out: too slow to add bandwidth to the others" in capsys.readouterr().err


def test_auto_needs_every_bandwidth(tmp_path: Path) -> None:
    files = machine(tmp_path, mbps={0: 60000, 1: 20000})
    assert auto_weights(files, [0, 1]) == {0: 3, 1: 1}
    with pytest.raises(MissingError, match="bandwidth of node 2"):
        auto_weights(files, [0, 2])
    # A measurement replaces all firmware values: the same method for all nodes.
    assert auto_weights(files, [0, 2], lambda nodes: {node: 10 if node else 90 for node in nodes}) == {0: 9, 2: 1}
    assert auto_weights(files, [0, 1], lambda nodes: {}) == {0: 3, 1: 1}


class Copying:
    """Time of a copy by node: node 1 takes four times as long."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step = 0.0

    def set_range(self, address: int, size: int, policy: Policy, fallback: bool = False) -> None:
        assert address and size and policy.mode == BIND
        self.step = 0.004 if policy.nodes == (1,) else 0.001

    def clock(self) -> float:
        self.now += self.step
        return self.now


def test_bandwidth_is_what_copying_shows() -> None:
    calls = Copying()
    found = measured_bandwidths([0, 1], calls, Area(1 << 19, 1), calls.clock)  # type: ignore[arg-type]
    assert 3.5 < found[0] / found[1] < 4.5
    assert weights_of(found) == {0: 4, 1: 1}


def test_measured_weights_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "measured_bandwidths", lambda nodes, *_: {node: 1000 * (node + 1) for node in nodes})
    policy = place.policy_of(Placement(weights="measured"), machine(tmp_path))
    assert policy == Policy(WEIGHTED, (0, 1, 2), {0: 1, 1: 2, 2: 3})
    assert "node 2 3.0 GB/s" in capsys.readouterr().err


def test_nothing_is_measured_where_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`auto` allocated 256 MiB on a full node, which displaced other memory."""
    files = machine(tmp_path)
    measured: list[list[int]] = []

    def copying(nodes: list[int], calls: object, area: Area) -> dict[int, int]:
        assert area.total == 256 << 20
        measured.append(list(nodes))
        return dict.fromkeys(nodes, 1000)

    monkeypatch.setattr(place, "measured_bandwidths", copying)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})

    def node(number: int, free_mb: int, cache_mb: int) -> None:
        folder = tmp_path / f"sys/devices/system/node/node{number}"
        folder.mkdir(exist_ok=True)
        sizes = {"MemFree": free_mb, "Active(file)": cache_mb, "Inactive(file)": 1, "Inactive(anon)": 9000}
        lines = [f"Node {number} {name}: {size << 10} kB\n" for name, size in sizes.items()]
        (folder / "meminfo").write_text("".join(lines))

    for number in range(3):
        node(number, 256, 0)
    place.policy_of(Placement(weights="auto"), files)
    assert measured == [[0, 1, 2]]
    node(2, 255, 400)
    with pytest.raises(MissingError, match=r"auto: .* 256M of each node; free, node 2 has 255M\. Give weights"):
        place.policy_of(Placement(weights="auto"), files)
    place.policy_of(Placement(interleave="0-1", weights="auto"), files)
    place.policy_of(Placement(weights="measured"), files)
    assert measured[1:] == [[0, 1], [0, 1, 2]]
    node(2, 255, 0)
    node(1, 3, 4)
    with pytest.raises(TerraceError, match=r"256M of each node; free or in the page cache, node 1 has 8M\. Run"):
        place.policy_of(Placement(weights="measured"), files)
    assert len(measured) == 3
    # Caches of 80M: four times that exceeds the memory.
    files = with_caches(tmp_path, [0], second="2M", third="80M", sharing=1)
    node(1, 319, 0)
    with pytest.raises(
        TerraceError, match=r"takes 320M of each node \(1 CPUs, last-level caches of 80M 4 times\); free"
    ):
        place.policy_of(Placement(weights="measured"), files)
    assert len(measured) == 3


class CacheFiles(KernelFiles):
    """A machine's files, with those of its caches from memory: a server has thousands."""

    def __init__(self, root: Path, texts: dict[str, str]) -> None:
        super().__init__(root)
        self.texts = texts

    def get(self, name: str) -> str | None:
        return self.texts.get(name, super().get(name))

    def names(self, folder: str) -> list[str]:
        inside = {name[len(folder) + 1 :].partition("/")[0] for name in self.texts if name.startswith(f"{folder}/")}
        return sorted(inside) or super().names(folder)


def with_caches(root: Path, cpus: Iterable[int], second: str, third: str | None, sharing: int) -> KernelFiles:
    """CPUs with a first level of 32K, a second level for each and a third level for `sharing` of them."""
    texts = {}
    for cpu in cpus:
        own, first = f"{cpu}", cpu // sharing * sharing
        levels = [("1", "Data", "32K", own), ("1", "Instruction", "999M", own), ("2", "Unified", second, own)]
        levels += [("3", "Unified", third, f"{first}-{first + sharing - 1}")] if third else []
        for index, words in enumerate(levels):
            for name, text in zip(("level", "type", "size", "shared_cpu_list"), words, strict=True):
                texts[f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}"] = text
    return CacheFiles(root, texts)


@pytest.mark.parametrize(
    ("cpus", "second", "third", "sharing", "last_level"),
    [
        # Each thread had 1.33 MiB of 256, in its own cache.
        (192, "1024K", "32768K", 16, 12 * 32 << 20),
        (240, "2048K", "114688K", 120, 2 * 112 << 20),
        (4, "1280K", "12288K", 4, 12 << 20),
        (8, "512K", None, 1, 8 * 512 << 10),
        (1, "1000K", "768M", 1, 768 << 20),
    ],
)
def test_what_is_measured_is_no_cache(
    tmp_path: Path, cpus: int, second: str, third: str | None, sharing: int, last_level: int
) -> None:
    area = choose_area(with_caches(tmp_path, range(cpus), second, third, sharing), range(cpus))
    second_level = int(second[:-1]) << 10
    assert (area.threads, area.cache_bytes) == (cpus, last_level)
    assert area.total >= max(4 * last_level, 256 << 20)
    assert area.half % second_level == 0
    assert area.half >= 2 * second_level
    assert area.total <= max(4 * last_level, 256 << 20, 4 * cpus * second_level) + 2 * cpus * second_level


def test_unknown_caches_are_taken_for_small_ones_of_each_cpu(tmp_path: Path) -> None:
    assert choose_area(KernelFiles(tmp_path), range(2)) == Area(64 << 20, 2)
    assert choose_area(KernelFiles(tmp_path), range(192)) == Area(8 << 20, 192)
    folder = tmp_path / "sys/devices/system/cpu/cpu0/cache/index3"
    folder.mkdir(parents=True)
    for name, text in {"level": "3", "size": "unknown", "type": "Unified"}.items():
        (folder / name).write_text(text)
    assert choose_area(KernelFiles(tmp_path), range(1)) == Area(128 << 20, 1)


def test_placements_become_policies(tmp_path: Path) -> None:
    files = machine(tmp_path, mbps={0: 60000, 1: 20000})
    assert place.policy_of(Placement(), files) is None
    assert place.policy_of(Placement(membind="1"), files) == Policy(BIND, (1,))
    assert place.policy_of(Placement(interleave="all"), files) == Policy(INTERLEAVE, (0, 1, 2))
    assert place.policy_of(Placement(preferred="2"), files) == Policy(PREFERRED, (2,))
    assert place.policy_of(Placement(preferred_many="!2"), files) == Policy(PREFERRED_MANY, (0, 1))
    assert place.policy_of(Placement(local=True), files) == Policy(LOCAL)
    assert place.policy_of(Placement(weighted="0=9,1"), files) == Policy(WEIGHTED, (0, 1), {0: 9})
    assert place.policy_of(Placement(interleave="0-1", weights="auto"), files) == Policy(WEIGHTED, (0, 1), {0: 3, 1: 1})
    with pytest.raises(UsageError):
        place.policy_of(Placement(membind="0", weights="auto"), files)


def test_nobody_falls_back_without_having_asked(tmp_path: Path) -> None:
    files = machine(tmp_path)
    for wish in (Placement(weighted="0=9,1=1"), Placement(weighted="0,1"), Placement(membind="0")):
        assert applied(wish, files, FakeCalls())[0][0] == "task"
    assert applied(Placement(membind="0"), files, FakeCalls(weights=False))[0][0] == "task"


def test_a_kernel_without_weights_per_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = machine(tmp_path, weights={0: 2, 1: 1})
    wish = Placement(weighted="0=9,1=1")
    with pytest.raises(MissingError, match="--fallback uses those that hold for everybody, now 0=2,1=1"):
        applied(wish, files, FakeCalls(weights=False))
    found = applied(Placement(weighted="0=9,1=1", fallback=True), files, FakeCalls(weights=False))
    assert found == [("task as far as it goes", Policy(WEIGHTED, (0, 1), {0: 9, 1: 1}))]
    assert "fallback: weights 0=2,1=1" in capsys.readouterr().err
    # The global weights are the requested ones: nothing to report.
    assert applied(Placement(weighted="0=2,1=1"), files, FakeCalls(weights=False))[0][0] == "task as far as it goes"
    assert capsys.readouterr().err == ""


def test_a_kernel_without_weighted_interleave(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no weighted interleave"):
        applied(Placement(weighted="0=9", fallback=True), machine(tmp_path), FakeCalls(weights=False))


def test_what_the_kernel_refuses_is_explained(tmp_path: Path) -> None:
    files = machine(tmp_path)
    with pytest.raises(TerraceError, match=r"refuses bind on node 0: none of these nodes may be used"):
        applied(Placement(membind="0"), files, FakeCalls(answer=errno.EINVAL))
    with pytest.raises(MissingError, match="no memory policies"):
        applied(Placement(membind="0"), files, FakeCalls(answer=errno.ENOSYS))


def test_ranges_of_files(tmp_path: Path) -> None:
    files = machine(tmp_path / "root")
    data = tmp_path / "data"
    data.write_bytes(bytes(65536))
    wish = Placement(weighted="0=1,1=3", ranges=(f"{data}:4K+8K", str(data)))
    assert [what for what, _ in applied(wish, files, FakeCalls())] == ["range 8192", "range 65536"]
    for text in (f"{data}:1+8K", f"{data}:0+1M", f"{data}:64K+4K", f"{data}:4K+0"):
        with pytest.raises(UsageError):
            applied(Placement(weighted="0=1", ranges=(text,)), files, FakeCalls())
    with pytest.raises(TerraceError, match="No such file"):
        applied(Placement(weighted="0=1", ranges=("/no/file",)), files, FakeCalls())
    with pytest.raises(UsageError, match="needs a placement"):
        applied(Placement(ranges=(str(data),)), files, FakeCalls())


def test_show(tmp_path: Path) -> None:
    files = machine(tmp_path, weights={0: 2, 1: 1, 2: 1})
    calls = FakeCalls()
    applied(Placement(weighted="0=9,1"), files, calls)
    about = place.describe(files, calls, CpuCalls())  # type: ignore[arg-type]
    assert about["mode"] == "weighted-interleave"
    assert about["weights"] == [
        {"node": 0, "weight": 9, "own": True},
        {"node": 1, "weight": 1, "own": False},
    ]
    text = "\n".join(place.shown(about))
    assert "node 0: weight 9 (its own)" in text
    assert "node 1: weight 1 (holds for everybody)" in text
    assert global_weights(files, [0, 1]) == {0: 2, 1: 1}
    strict_schema.validate({"version": place.JSON_VERSION, "kind": "policy", **about}, schema("policy"))
    with pytest.raises(MissingError):
        place.describe(files, FakeCalls(answer=errno.ENOSYS), CpuCalls())  # type: ignore[arg-type]


def test_the_tool_calls_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "build_dir", lambda: tmp_path)
    calls = PolicyCalls()
    assert library.build() == library.build() == next((tmp_path / "libterrace").glob("libterrace-*.so"))
    try:
        before = calls.get_task()
        calls.set_task(Policy(BIND, (0,)))
        assert calls.get_task() == Policy(BIND, (0,))
        calls.set_task(before)
    except OSError as error:
        # A container may forbid it, a kernel may have no NUMA.
        assert error.errno in (errno.ENOSYS, errno.EPERM)
    with pytest.raises(OSError, match="Invalid argument"):
        calls.set_task(Policy(BIND, (0,), {0: 3}))
    with pytest.raises(OSError, match="Numerical result out of range"):
        calls.set_task(Policy(WEIGHTED, (5000,)))


@pytest.mark.parametrize("compiler", [True, False])
def test_a_place_that_cannot_be_written_is_not_blamed_on_the_kernel(
    compiler: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a read-only checkout `exec --membind 0` reported that the kernel refused: Read-only file system."""

    def read_only() -> Path:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(library, "build_dir", read_only)
    monkeypatch.setattr(library, "cache_dir", read_only)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if compiler:
        assert PolicyCalls().has_weights() in (True, False)
        assert not list(tmp_path.iterdir())
        return
    # Not earlier: a loaded library is found by its name in this process.
    monkeypatch.setattr(library, "SONAME", "libterrace-that-is-nowhere.so")
    monkeypatch.setenv("PATH", "")
    wish = Placement(membind="0")
    with pytest.raises(MissingError, match="apt-get install gcc"):
        place.apply(wish, KernelFiles(tmp_path), PolicyCalls())


def test_the_library_is_bound_as_its_header_declares() -> None:
    text = (repo_root() / "libterrace/include/terrace/policy.h").read_text()
    declared = dict(re.findall(r"\b(terrace_\w+)\(([^)]*)\);", text))
    for name, (_, takes) in library.FUNCTIONS.items():
        arguments = [] if declared[name].strip() == "void" else declared[name].split(",")
        assert len(arguments) == len(takes), name


def test_a_machine_without_library_and_compiler_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "build_dir", lambda: tmp_path)
    monkeypatch.setattr(library, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(library, "SONAME", "libterrace-that-is-nowhere.so")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingError, match="apt-get install gcc"):
        PolicyCalls().has_weights()


MAPS = """\
00400000 default file=/usr/bin/a\\040b mapped=4 N0=4 kernelpagesize_kB=4
007c0000 weighted interleave:0-1 heap anon=65794 N0=54829 N1=10965 kernelpagesize_kB=4 weights=0:5,1:1
7f0000000000 bind=static:1 huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048
7f1000000000 prefer (many):0-1
nonsense
"""


def test_numa_maps_are_read() -> None:
    file, heap, huge, empty = parse_numa_maps(MAPS)
    assert (file.policy, file.pages, file.what) == ("default", {0: 4}, "/usr/bin/a\\040b")
    assert (heap.policy, heap.what, heap.weights) == ("weighted interleave:0-1", "heap", {0: 5, 1: 1})
    assert (huge.policy, huge.page_bytes, huge.pages) == ("bind=static:1", 2 << 20, {1: 2})
    assert (empty.policy, empty.pages) == ("prefer (many):0-1", {})
    assert bytes_by_node([huge, file]) == {0: 16384, 1: 4 << 20}


def test_spread_prints_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    mappings = [mapping for mapping in parse_numa_maps(MAPS) if mapping.pages]
    strict_schema.validate(spread.as_json(mappings, None), schema("spread"))
    document = spread.as_json(mappings, 7)
    assert json.loads(json.dumps(document))["nodes"][1] == {"node": 1, "bytes": 10965 * 4096 + (4 << 20)}
    spread._print(list(parse_numa_maps(MAPS)))
    out = capsys.readouterr().out
    assert "weighted interleave:0-1 0=5,1=1" in out

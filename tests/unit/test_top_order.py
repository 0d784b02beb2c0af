# SPDX-License-Identifier: GPL-2.0
"""The lines of terrace top are the first of all processes, and no more page tables are walked than that takes."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from ops_tree import PAGE

from terrace.ops.order import Order
from terrace.ops.processes import Found, Processes
from terrace.ops.residents import Resident
from terrace.sysfs import KernelFileError, KernelFiles

MIB = 1 << 20
CPUS = 2
#: Three counters, and on each CPU less than a batch of 32 pages of each.
OFF = 3 * 31 * CPUS


class Files(KernelFiles):
    """A /proc in memory, which notes what is read of it."""

    def __init__(self, texts: dict[str, str], closed: set[str]) -> None:
        super().__init__("/nowhere")
        self.texts, self.closed, self.seen = texts, closed, [""]

    def read(self, name: str) -> str:
        self.seen.append(name)
        if name in self.closed:
            raise KernelFileError(self.shown_path(name), errno.EACCES, "read")
        if name not in self.texts:
            raise KernelFileError(self.shown_path(name), errno.ENOENT, "read")
        return self.texts[name]

    def names(self, folder: str) -> list[str]:
        start = f"{folder}/"
        return sorted({path.removeprefix(start).split("/")[0] for path in self.texts if path.startswith(start)})

    def walked(self) -> set[int]:
        """Processes whose page tables were walked."""
        return {int(name.split("/")[1]) for name in self.seen if name.endswith("numa_maps") and name not in self.closed}


@dataclass(frozen=True)
class Process:
    """Pages and huge pages on nodes 0, 1 and 2; how far statm is off, and how much more is mapped."""

    name: str
    uid: int
    pages: tuple[int, int, int]
    huge: tuple[int, int, int]
    off: int
    unused: int
    closed: bool

    def texts(self) -> dict[str, str]:
        resident = max(0, sum(self.pages) + self.off)
        on = [
            " ".join(f"N{node}={count}" for node, count in enumerate(row) if count) for row in (self.pages, self.huge)
        ]
        return {
            "comm": self.name,
            "statm": f"{sum(self.pages) + self.unused} {resident} 1 1 0 1 0",
            "status": f"Name:\t{self.name}\nUid:\t{self.uid}\t0\t0\t0\nHugetlbPages:\t{sum(self.huge) * 2048:8} kB",
            "numa_maps": f"7f00 default {on[0]} kernelpagesize_kB=4\n7f80 default {on[1]} kernelpagesize_kB=2048",
        }

    @property
    def said(self) -> int:
        """Bytes in all as everybody may read them."""
        return max(0, sum(self.pages) + self.off) * PAGE + sum(self.huge) * 2 * MIB

    def on(self, nodes: set[int]) -> int:
        return sum(self.pages[node] * PAGE + self.huge[node] * 2 * MIB for node in nodes)


def files_of(processes: dict[int, Process]) -> Files:
    texts = {f"proc/{pid}/{name}": text for pid, one in processes.items() for name, text in one.texts().items()}
    texts["sys/devices/system/cpu/possible"] = f"0-{CPUS - 1}"
    # A thread of the kernel has no address space, and a name that is no number is no process.
    texts |= {"proc/2/statm": "0 0 0 0 0 0 0", "proc/2/comm": "kthreadd", "proc/stat": "cpu 1"}
    return Files(texts, {f"proc/{pid}/numa_maps" for pid, one in processes.items() if one.closed})


def first(processes: dict[int, Process], most: int, slow: set[int], order: Order) -> tuple[Found, Files]:
    files = files_of(processes)
    return Processes(files).first(files, most, slow, order), files


# Few different sizes, so that many are alike, and as many that are not.
COUNTS = st.one_of(st.sampled_from((0, 1, 512, 1024)), st.integers(0, 3000))
NODES = st.tuples(COUNTS, COUNTS, COUNTS)
HUGE = st.tuples(*[st.integers(0, 3)] * 3)
PROCESS = st.builds(
    Process,
    st.sampled_from(("a", "b", "sh")),
    st.sampled_from((0, 7, 1000)),
    NODES,
    HUGE,
    st.integers(-OFF, OFF),
    # Something is mapped by everybody, though nothing of it may be in memory.
    st.integers(1, 400),
    st.booleans(),
)
MACHINE = st.dictionaries(st.integers(3, 40), PROCESS, max_size=12)
SLOW = st.sampled_from((set(), {1}, {1, 2}))


@examples(300)
@given(MACHINE, st.integers(1, 8), SLOW)
def test_the_lines_are_those_with_most_on_slow_nodes_of_all(
    processes: dict[int, Process], most: int, slow: set[int]
) -> None:
    found, files = first(processes, most, slow, Order())

    def place(item: tuple[int, Process]) -> tuple[bool, int, int, str, int]:
        pid, one = item
        if one.closed:
            return True, 0, -one.said, one.name, pid
        return False, -one.on(slow), -one.on({0, 1, 2}), one.name, pid

    expected = sorted(processes.items(), key=place)[:most]
    assert [own.pid for own in found.residents] == [pid for pid, _ in expected]
    for own, (_, one) in zip(found.residents, expected, strict=True):
        assert (own.nodes is None, own.total) == (one.closed, one.said if one.closed else one.on({0, 1, 2}))
    # Nobody was walked who could not have been among them.
    last = expected[-1][1] if len(expected) == most else None
    if last and not last.closed and slow:
        for pid in files.walked():
            one = processes[pid]
            assert one.said + OFF * PAGE >= last.on(slow)


ORDERS = st.builds(
    Order, st.sampled_from(("name", "pid", "user", "total", "slow", "fast", "node0", "node2")), st.booleans()
)


@examples(300)
@given(MACHINE, st.integers(1, 8), SLOW, ORDERS)
def test_every_order_has_the_same_first_lines_as_when_all_are_walked(
    processes: dict[int, Process], most: int, slow: set[int], order: Order
) -> None:
    everything, _ = first(processes, 99, slow, order)
    few, _ = first(processes, most, slow, order)
    assert len(everything.residents) == len(processes) == everything.count == few.count
    assert few.residents == everything.residents[:most]
    keys = [order.key(own, slow) for own in everything.residents]
    assert keys == sorted(keys)
    assert few.refused <= everything.refused == sum(one.closed for one in processes.values())


VALUES: dict[str, Callable[[Resident], object]] = {
    "name": lambda own: own.name,
    "pid": lambda own: own.pid,
    "user": lambda own: own.user,
    "total": lambda own: own.total,
    "node0": lambda own: own.on({0}),
}


@given(MACHINE, st.sampled_from(sorted(VALUES)), st.booleans())
def test_a_column_is_sorted_by_what_it_shows(processes: dict[int, Process], column: str, inverted: bool) -> None:
    processes = {pid: replace(one, closed=False) for pid, one in processes.items()}
    found, _ = first(processes, 99, {1}, Order(column, inverted))
    values = [VALUES[column](own) for own in found.residents]
    assert values == sorted(values, reverse=inverted != (column in ("total", "node0")))  # type: ignore[type-var]


def alike(count: int, off: int = 0) -> dict[int, Process]:
    return {pid: Process("x", 0, (0, 1000, 0), (0, 0, 0), off, 5000, False) for pid in range(10, 10 + count)}


def test_equal_ranks_are_decided_by_pid() -> None:
    """The walk ended as soon as those left could not have more: of several alike the first may have been among them."""
    found, _ = first(alike(4), 2, {1}, Order())
    assert [own.pid for own in found.residents] == [10, 11]


def test_a_process_that_statm_underestimates_is_not_missed() -> None:
    processes = alike(3) | {9: Process("late", 0, (0, 1000 + OFF // 2, 0), (0, 0, 0), -OFF, 5000, False)}
    found, _ = first(processes, 1, {1}, Order())
    assert [own.pid for own in found.residents] == [9]


def test_names_and_pids_need_no_walk_to_be_sorted() -> None:
    _, files = first(alike(9), 3, {1}, Order("pid"))
    assert files.walked() == {10, 11, 12}


def test_a_look_that_is_no_longer_wanted_ends_at_the_next_process() -> None:
    files = files_of(alike(9))
    left = [True, True, False]
    found = Processes(files).first(files, 9, {1}, going_on=lambda: left.pop(0))
    assert len(files.walked()) == len(found.residents) == 2


def test_only_names_that_are_wanted_are_walked() -> None:
    processes = alike(3) | {50: Process("db", 0, (0, 1, 0), (0, 0, 0), 0, 5, False)}
    files = files_of(processes)
    found = Processes(files).first(files, 9, {1}, wanted=lambda one: one.name == "db")
    assert (files.walked(), found.count) == ({50}, 1)


def test_on_this_kernel_it_is_found_out_whether_statm_is_exact() -> None:
    """A kernel that sums its counters up needs no margin; another has the one of its CPUs."""
    here = Processes(KernelFiles("/"))._margin.pages
    assert here == 0 or here >= 3 * 31
    for possible, pages in (("0-1", OFF), ("0-63", 3 * 127 * 64), ("", 93)):
        assert Processes(Files({"sys/devices/system/cpu/possible": possible}, set()))._margin.pages == pages


@pytest.mark.parametrize(("grows", "pages"), [(1, 0), (0, OFF)])
def test_statm_is_exact_when_it_grows_with_each_page(grows: int, pages: int) -> None:
    class Growing(Files):
        resident = 100

        def read(self, name: str) -> str:
            if name == "proc/self/statm":
                self.resident += grows
                return f"9000 {self.resident} 1 1 0 1 0"
            return super().read(name)

    assert Processes(Growing({"sys/devices/system/cpu/possible": "0-1"}, set()))._margin.pages == pages


def test_users_are_of_the_machine_that_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0:::\nalice:x:1000:100:::\nodd line\nnone:x:y:1\n")
    users = Processes(KernelFiles(tmp_path))._users
    assert [users.name(uid) for uid in (0, 1000, 7)] == ["root", "alice", "7"]
    here = Processes(KernelFiles("/"))._users
    assert here.name(0) == "root"
    assert [here.name(uid) for uid in (3999999999, 1 << 40)] == ["3999999999", str(1 << 40)]

# SPDX-License-Identifier: GPL-2.0
"""Results of workloads against small models of the same thing, written independently."""

import bisect
import json
import math
import shutil
import subprocess
from typing import Any

import pytest

from terrace.lab.workloads import find_workload

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def result_of(name: str, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [find_workload(name).compile(), *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


# ---- random numbers, as guest/wl.h describes them ----


def mix(x: int) -> int:
    for _ in range(2):
        x = ((x ^ x >> 32) * 0xD6E8FEB86659FD93) & MASK
    return x ^ x >> 32


def hashed(seed: int, stream: int, index: int) -> int:
    return mix((mix((seed * GOLDEN + stream) & MASK) + index * GOLDEN) & MASK)


class Xorshift:
    def __init__(self, state: int) -> None:
        self.state = state | 1

    def next(self) -> int:
        x = self.state
        x ^= (x << 13) & MASK
        x ^= x >> 7
        x ^= (x << 17) & MASK
        self.state = x
        return x

    def below(self, limit: int) -> int:
        return below(self.next(), limit)


def below(random: int, limit: int) -> int:
    return (random >> 32) * limit >> 32


# ---- xslookup ----

CHANCE = [140, 52, 275, 134, 154, 64, 66, 55, 8, 15, 25, 13]
SIZES = [None, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9]


def xs_checksum(seed: int, nuclides: int, points: int, lookups: int) -> int:
    """All lookups with a search in each nuclide's grid, material by material."""
    step = (1 << 32) // points
    energies: list[list[int]] = []
    sections: list[list[list[int]]] = []
    for nuclide in range(nuclides):
        random = Xorshift(hashed(seed, 10, nuclide))
        energies.append([])
        sections.append([])
        for i in range(points):
            energies[-1].append(i * step + step // 4 + random.below(step // 2))
            sections[-1].append([random.next() >> 40 for _ in range(5)])
    total = 0
    for lookup in range(lookups):
        x = hashed(seed, 13 + lookup // 34, lookup)
        energy, dice, material = x >> 32, below(mix((x + 1) & MASK), 1001), 0
        while material < 11 and dice >= CHANCE[material]:
            dice -= CHANCE[material]
            material += 1
        sums = [0] * 5
        for i in range(min(SIZES[material] or nuclides // 2, nuclides)):
            density = hashed(seed, 12, material * 355 + i) >> 32
            nuclide = (i + material * 7) % nuclides
            grid = energies[nuclide]
            at = min(max(bisect.bisect_right(grid, energy) - 1, 0), points - 2)
            share = min((max(energy - grid[at], 0) << 16) // (grid[at + 1] - grid[at]), 1 << 16)
            for k in range(5):
                low, high = sections[nuclide][at][k], sections[nuclide][at + 1][k]
                sums[k] += ((low * ((1 << 16) - share) + high * share) >> 16) * density >> 32
        digest = lookup
        for value in sums:
            digest = mix((digest + value) & MASK)
        total += digest
    return total & MASK


def test_lookups_are_those_of_the_model() -> None:
    words = ["--size", "256K", "--nuclides", "15", "--ops", "600", "--threads", "3", "--seed", "77"]
    result = result_of("xslookup", *words)
    wanted = xs_checksum(77, 15, result["grid"]["points_per_nuclide"], 600)
    assert result["checksum"] == f"{wanted:016x}"


# ---- stream ----


def test_stream_counts_bytes_as_stream_does() -> None:
    result = result_of("stream", "--size", "1M", "--iterations", "2")
    size = result["array_bytes"]
    assert [kernel["bytes"] for kernel in result["kernels"]] == [2 * size, 2 * size, 3 * size, 3 * size]
    a = 2
    for _ in range(2):
        c = a
        b = 3 * c
        c = a + b
        a = b + 3 * c
    assert result["checksum"] == f"{a * (size // 64) & MASK:016x}"


# ---- mlc ----


@pytest.mark.parametrize(("mix_name", "writes"), [("R", 0), ("W2", 1 / 2), ("W5", 1)])
def test_traffic_is_what_the_mix_says(mix_name: str, writes: float) -> None:
    result = result_of("mlc", "--size", "1M", "--probe-size", "64K", "--mix", mix_name, "--ops", "20000")
    traffic = result["traffic"]
    assert traffic["bytes_read"] == 20000 * 64
    assert traffic["bytes_written"] == 20000 * 64 * writes


def test_latency_without_load_is_a_chase_of_all_memory() -> None:
    result = result_of("mlc", "--size", "1M", "--threads", "1", "--iterations", "2")
    assert result["probe"]["links"] == (1 << 20) // 64
    assert result["ops"] == result["probe"]["steps"] == 2 * result["probe"]["links"]


# ---- kvzipf ----


def _expected(theta: float, records: int, draws: int) -> list[float]:
    """Draws whose rank, from 1, lies in [2^i, 2^(i+1))."""
    weights = [rank**-theta for rank in range(1, records + 1)]
    total = math.fsum(weights)
    count = records.bit_length()
    return [draws * math.fsum(weights[(1 << i) - 1 : (2 << i) - 1]) / total for i in range(count)]


@pytest.mark.parametrize("theta", [0, 500, 990, 1000, 1500])
def test_keys_have_the_frequencies_of_the_formula(theta: int) -> None:
    words = ["--size", "8M", "--value", "64", "--mix", "C", "--ops", "200000", "--latency-every", "0"]
    result = result_of("kvzipf", *words, "--theta", str(theta))
    wanted = _expected(theta / 1000, result["records"], 200000)
    assert len(result["ranks_by_log2"]) == len(wanted)
    for seen, mean in zip(result["ranks_by_log2"], wanted, strict=True):
        # Five standard deviations, and the thousandth by which the table may be off.
        assert abs(seen - mean) <= 5 * math.sqrt(mean) + 0.001 * mean + 1


@pytest.mark.parametrize(
    ("mix_name", "reads", "kinds"),
    [
        ("A", 0.50, {"read", "update"}),
        ("B", 0.95, {"read", "update"}),
        ("C", 1.00, {"read"}),
        ("D", 0.95, {"read", "insert"}),
        ("E", 0.95, {"scan", "insert"}),
        ("F", 0.50, {"read", "read_modify_write"}),
    ],
)
def test_mixes_are_those_of_ycsb(mix_name: str, reads: float, kinds: set[str]) -> None:
    ops = 2000 if mix_name == "E" else 20000
    result = result_of("kvzipf", "--size", "2M", "--value", "256", "--mix", mix_name, "--ops", str(ops))
    counts = result["op_counts"]
    assert {kind for kind, count in counts.items() if count} == kinds
    assert sum(counts.values()) == result["ops"] == ops
    share = (counts["read"] + counts["scan"]) / ops
    assert share == pytest.approx(reads, abs=5 * math.sqrt(reads * (1 - reads) / ops) + 1e-9)
    assert result["latency_ns"]["count"] == ops / 8
    assert (result["inserted"] > 0) == ("insert" in kinds)


def test_latest_prefers_new_keys() -> None:
    result = result_of("kvzipf", "--size", "2M", "--value", "256", "--mix", "D", "--ops", "20000", "--threads", "1")
    assert result["inserted"] > 500
    assert result["ranks_by_log2"][0] > 2 * result["ranks_by_log2"][-1] / 10


# ---- bfs ----


def _scrambled(v: int, scale: int, key: int) -> int:
    mask, half = (1 << scale) - 1, (scale + 1) // 2
    v = (v * (key | 1) + (key >> 32)) & mask
    v ^= v >> half
    v = v * 0x9E3779B1 & mask
    return v ^ v >> half


def _edges(seed: int, scale: int, count: int) -> list[tuple[int, int]]:
    """R-MAT: 16 random bits for two levels; a quadrant's chance is the product of both levels'."""
    chance = [57, 19, 19, 5]
    thresholds: list[int] = []
    total = 0
    for one in chance:
        for two in chance:
            total += one * two
            thresholds.append((total * 65536 + 5000) // 10000)
    key = hashed(seed, 29, 0)
    pairs = (scale + 1) // 2
    edges = []
    for number in range(count):
        source = target = 0
        for pair in range(pairs):
            stream = 30 if pair < 4 else 31 + pair // 4 * 4 - 1
            draw = hashed(seed, stream, number) >> 16 * (pair % 4) & 0xFFFF
            one, two = divmod(bisect.bisect_right(thresholds, draw), 4)
            source = source << 2 | (one >> 1) << 1 | two >> 1
            target = target << 2 | (one & 1) << 1 | two & 1
        source, target = source >> (scale & 1), target >> (scale & 1)
        edges.append((_scrambled(source, scale, key), _scrambled(target, scale, key)))
    return edges


def _levels(neighbours: dict[int, set[int]], root: int) -> dict[int, int]:
    level = {root: 0}
    frontier = [root]
    while frontier:
        fresh = []
        for vertex in frontier:
            for other in neighbours.get(vertex, ()):
                if other not in level:
                    level[other] = level[vertex] + 1
                    fresh.append(other)
        frontier = fresh
    return level


@pytest.mark.parametrize(("seed", "scale"), [(1, 8), (9, 9)])
def test_searches_are_those_of_the_model(seed: int, scale: int) -> None:
    words = ["--scale", str(scale), "--edgefactor", "3", "--iterations", "3", "--threads", "2"]
    result = result_of("bfs", "--size", "256K", *words, "--seed", str(seed))
    edges = _edges(seed, scale, 3 << scale)
    neighbours: dict[int, set[int]] = {}
    for one, two in edges:
        if one != two:
            neighbours.setdefault(one, set()).add(two)
            neighbours.setdefault(two, set()).add(one)
    total = 0
    for number, search in enumerate(result["searches"]):
        level = _levels(neighbours, search["root"])
        total += sum(mix((number << scale) + vertex + (depth << 40)) for vertex, depth in level.items())
        assert search["vertices"] == len(level)
        assert search["edges"] == sum(one in level and one != two for one, two in edges)
        assert search["levels"] == max(level.values()) + 1
    assert result["checksum"] == f"{total & MASK:016x}"


def test_the_graph_is_skewed() -> None:
    edges = _edges(1, 10, 16 << 10)
    degree: dict[int, int] = {}
    for vertex in (end for edge in edges for end in edge):
        degree[vertex] = degree.get(vertex, 0) + 1
    # The expected degree of the busiest of 2^10: 32 * 2^10 ends times (A + B)^10.
    assert max(degree.values()) == pytest.approx((32 << 10) * 0.76**10, rel=0.15)


# ---- chase, pmlat, phase, scanhot ----


def test_a_chase_passes_every_node() -> None:
    result = result_of("chase", "--size", "256K", "--iterations", "1", "--threads", "4")
    assert result["ops"] == result["nodes"] == (256 << 10) // 64


@pytest.mark.parametrize("pattern", ["uniform", "normal", "linear"])
def test_every_access_has_its_place_in_the_histogram(pattern: str) -> None:
    result = result_of("pmlat", "--size", "1M", "--ops", "30000", "--pattern", pattern, "--read-percent", "80")
    assert sum(count for _, count in result["latency_by_log2"]) == result["latency_ns"]["count"] == 30000
    assert sum(thread["writes"] for thread in result["threads"]) == pytest.approx(6000, rel=0.1)
    latency = result["latency_ns"]
    assert latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"]


def test_stalls_are_those_above_the_limit() -> None:
    """So few accesses that all could be listed, however busy this machine is."""
    result = result_of("pmlat", "--size", "1M", "--ops", "8000", "--stall-us", "1", "--threads", "2")
    stalls = result["stalls"]
    assert len(stalls["list"]) == stalls["count"]
    assert stalls["not_listed"] == 0
    assert all(ns > 1000 and at >= 0 for at, ns, _ in stalls["list"])
    assert max([1000, *(ns for _, ns, _ in stalls["list"])]) == max(1000, result["latency_ns"]["max"])


def test_more_stalls_than_can_be_listed_are_counted() -> None:
    result = result_of("pmlat", "--size", "1M", "--ops", "60000", "--stall-us", "0", "--threads", "2")
    stalls = result["stalls"]
    assert stalls["above_ns"] == 0
    assert len(stalls["list"]) == 2 * 4096
    assert len(stalls["list"]) + stalls["not_listed"] == stalls["count"]


def test_the_hot_set_moves() -> None:
    result = result_of("phase", "--size", "1M", "--iterations", "400", "--phases", "5", "--hot-percent", "20")
    assert result["hot_pages"] == 51
    assert len(result["phases"]) == 5
    starts = [phase["start_ms"] for phase in result["phases"]]
    assert starts == sorted(starts)


def test_visits_follow_the_hot_set_from_phase_to_phase() -> None:
    """Ten phases of 100 visits, all to the hot 10 %, in one piece: each tenth of the memory has its turn."""
    words = ["--size", "1M", "--ops", "1000", "--phases", "10", "--hot-share", "100", "--threads", "1"]
    result = result_of("phase", *words, "--layout", "contiguous")
    assert len(result["phases"]) == 10
    # 25 pages are hot at a time: the last phase ends with page 249.
    assert int(result["checksum"], 16) / 1000 == pytest.approx(124.5, abs=1.5)


def test_most_visits_go_to_the_hot_pages() -> None:
    """One phase, everything hot but nothing of the share: the sum of pages tells where the visits went."""
    words = ["--size", "1M", "--ops", "40000", "--phases", "1", "--layout", "contiguous", "--hot-percent", "10"]
    hot = result_of("phase", *words, "--hot-share", "90")
    even = result_of("phase", *words, "--hot-share", "0")
    # Pages 0 to 24 of 256 are hot: the mean page is 0.9 * 12 + 0.1 * 127.5.
    assert int(hot["checksum"], 16) / 40000 == pytest.approx(0.9 * 12 + 0.1 * 127.5, rel=0.03)
    assert int(even["checksum"], 16) / 40000 == pytest.approx(127.5, rel=0.03)


def visits_of(*words: str) -> list[int]:
    """Visits of heat by page number, before the permutation: each writes to its page, as one thread counts them."""
    result = result_of("heat", "--size", "1M", "--threads", "1", "--write-percent", "100", "--counts", *words)
    visits: list[int] = result["visits"]
    assert sum(visits) == result["ops"]
    return visits


def test_visits_are_zipfian() -> None:
    """Page i of 256 has a share of (i + 1)^-theta; with theta 0 all are alike."""
    visits = visits_of("--ops", "400000", "--theta", "990")
    weights = [(i + 1) ** -0.99 for i in range(256)]
    for i in (0, 1, 9, 99):
        assert visits[i] == pytest.approx(400000 * weights[i] / sum(weights), rel=0.1)
    even = visits_of("--ops", "400000", "--theta", "0")
    assert min(even) > 1300
    assert max(even) < 1850


def test_one_tenant_is_four_times_as_busy() -> None:
    visits = visits_of("--ops", "400000", "--load", "tenants")
    first, second = visits[:128], visits[128:]
    assert sum(first) == pytest.approx(4 * sum(second), rel=0.03)
    for half in (first, second):
        assert half[0] == pytest.approx(2**0.99 * half[1], rel=0.1)


def test_the_hot_quarter_drifts_all_the_way_round() -> None:
    """In four turns each page is hot for as long; in none only the first quarter is."""
    still = visits_of("--ops", "400000", "--load", "drift", "--turns", "0")
    assert sum(still[:64]) / 400000 == pytest.approx(0.9 + 0.1 / 4, abs=0.01)
    round_once = visits_of("--ops", "400000", "--load", "drift", "--turns", "4")
    assert max(round_once) < 1.3 * min(round_once)
    half = visits_of("--ops", "400000", "--load", "drift", "--turns", "1")
    assert sum(half[:128]) / 400000 == pytest.approx(0.9 + 0.1 / 2, abs=0.01)


@pytest.mark.parametrize("last", [[], ["--hot-last"]])
def test_the_scan_touches_every_cold_page_in_each_pass(last: list[str]) -> None:
    result = result_of("scanhot", "--size", "1M", "--iterations", "50", "--passes", "3", *last)
    assert result["scan"]["pages"] == 3 * (256 - 25)
    assert result["hot_last_placed"]["pages"] == 25
    assert result["cold_last_placed"]["pages"] == 231


def test_half_of_the_children_exec() -> None:
    result = result_of("buildlike", "--size", "1M", "--slice", "64K", "--ops", "21", "--heap", "64K")
    assert (result["forks"], result["execs"]) == (11, 10)

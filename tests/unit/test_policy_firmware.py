# SPDX-License-Identifier: GPL-2.0
"""Bandwidth of nodes as threads on some CPUs have it, from sysfs and from HMAT and SRAT tables made here."""

import errno
import os
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from terrace.errors import MissingError
from terrace.policy.firmware import nearest_bandwidth, seen_bandwidths
from terrace.policy.weights import auto_weights
from terrace.sysfs import KernelFiles

BLOCK = 128 << 20
#: The lab's two-socket-cxl: MB/s from the CPUs of nodes 0 and 1 to nodes 0, 1 and 2.
MATRIX = {0: (64000, 40000, 20000), 1: (40000, 64000, 16000)}
#: Proximity domains of nodes 0, 1 and 2: firmware may number them in any way.
DOMAINS = (7, 3, 12)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def locality(data_type: int, matrix: Mapping[int, tuple[int, ...]], flags: int = 0, unit: int = 1000) -> bytes:
    """A locality structure of HMAT."""
    sources, targets = sorted(matrix), range(len(DOMAINS))
    lists = [DOMAINS[node] for node in (*sources, *targets)]
    values = [matrix[source][target] // unit for source in sources for target in targets]
    body = struct.pack(f"<{len(lists)}I{len(values)}H", *lists, *values)
    head = struct.pack("<HxxIBBxxIIxxxxQ", 1, 32 + len(body), flags, data_type, len(sources), len(targets), unit)
    return head + body


def hmat(*structures: bytes) -> bytes:
    # A proximity domain's attributes come first, as in any real table.
    return bytes(40) + struct.pack("<HxxI32x", 0, 40) + b"".join(structures)


def memory(node: int, flags: int = 1) -> bytes:
    """The SRAT structure of the node's four blocks of memory."""
    return struct.pack("<BBIxxQQxxxxI8x", 1, 40, DOMAINS[node], node * 4 * BLOCK, 4 * BLOCK, flags)


def srat(*structures: bytes) -> bytes:
    return bytes(48) + struct.pack("<BB14x", 0, 16) + b"".join(structures)


@pytest.fixture
def two_sockets(tmp_path: Path) -> KernelFiles:
    """Two sockets of four CPUs and a CXL node behind the first, as sysfs describes them; no tables."""
    nodes = tmp_path / "sys/devices/system/node"
    put(nodes / "online", "0-2\n")
    put(tmp_path / "sys/devices/system/memory/block_size_bytes", f"{BLOCK:x}\n")
    for node, (cpus, near) in enumerate((("0-3", 0), ("4-7", 1), ("", 0))):
        put(nodes / f"node{node}/cpulist", f"{cpus}\n")
        put(nodes / f"node{node}/distance", ("10 21 24", "21 10 30", "24 30 10")[node] + "\n")
        for kind in ("read", "write"):
            put(nodes / f"node{node}/access1/initiators/{kind}_bandwidth", f"{MATRIX[near][node]}\n")
        (nodes / f"node{node}/access1/initiators/node{near}").mkdir()
        for number in range(4 * node, 4 * node + 4):
            (nodes / f"node{node}/memory{number}").mkdir()
    return KernelFiles(tmp_path)


def tables(files: KernelFiles, hmat_table: bytes, srat_table: bytes | None = None) -> KernelFiles:
    """The same machine with these tables."""
    folder = files.real_path("sys/firmware/acpi/tables")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "HMAT").write_bytes(hmat_table)
    (folder / "SRAT").write_bytes(srat(memory(0), memory(1), memory(2)) if srat_table is None else srat_table)
    return files


FIRST, SECOND, ALL = range(4), range(4, 8), range(8)
WHOLE = hmat(locality(3, MATRIX))


def test_a_program_on_one_socket_sees_the_bandwidth_from_there(two_sockets: KernelFiles) -> None:
    files = tables(two_sockets, WHOLE)
    assert seen_bandwidths(files, range(3), FIRST).mbps == {0: 64000, 1: 40000, 2: 20000}
    assert seen_bandwidths(files, range(3), SECOND).mbps == {0: 40000, 1: 64000, 2: 16000}
    # 4:4:1 gives node 1 four pages of nine, which limits a program on socket 0 to 90 GB/s; 10:6:3 allows 121.
    assert auto_weights(files, range(3), cpus=FIRST) == {0: 10, 1: 6, 2: 3}


def test_a_program_on_all_sockets_has_what_each_node_gives(two_sockets: KernelFiles) -> None:
    files = tables(two_sockets, WHOLE)
    assert seen_bandwidths(files, range(3), ALL).mbps == {0: 64000, 1: 64000, 2: 20000}
    assert auto_weights(files, range(3), cpus=ALL) == {0: 4, 1: 4, 2: 1}


def test_most_threads_on_one_socket_are_limited_by_its_way_to_the_other(two_sockets: KernelFiles) -> None:
    # Four of five threads make four fifths of the accesses, at 40 GB/s: 50 GB/s in all from node 1.
    found = seen_bandwidths(tables(two_sockets, WHOLE), range(3), [0, 1, 2, 3, 7])
    assert found.mbps == {0: 64000, 1: 50000, 2: 20000}


def test_without_the_table_nodes_near_to_some_of_the_cpus_are_known(two_sockets: KernelFiles) -> None:
    assert seen_bandwidths(two_sockets, range(3), ALL).mbps == {0: 64000, 1: 64000, 2: 20000}
    found = seen_bandwidths(two_sockets, range(3), SECOND)
    assert found.mbps == {1: 64000}
    assert found.unknown == {0: [1], 2: [1]}


def test_links_that_are_missing_are_replaced_by_distances(two_sockets: KernelFiles) -> None:
    for node, near in ((0, 0), (1, 1), (2, 0)):
        two_sockets.real_path(f"sys/devices/system/node/node{node}/access1/initiators/node{near}").rmdir()
    assert seen_bandwidths(two_sockets, range(3), FIRST).mbps == {0: 64000, 2: 20000}


def test_reads_and_writes_are_two_structures_and_the_smaller_counts(two_sockets: KernelFiles) -> None:
    reads = {source: tuple(2 * mbps for mbps in row) for source, row in MATRIX.items()}
    assert seen_bandwidths(
        tables(two_sockets, hmat(locality(4, reads), locality(5, MATRIX))), range(3), FIRST
    ).mbps == {0: 64000, 1: 40000, 2: 20000}
    # Latencies, and a cache in front of the memory, are other structures; reads alone are not enough.
    for other in (locality(0, MATRIX), locality(3, MATRIX, flags=1), locality(4, MATRIX)):
        assert seen_bandwidths(tables(two_sockets, hmat(other)), range(3), FIRST).unknown == {1: [0]}


def test_a_table_that_disagrees_with_sysfs_is_not_used(two_sockets: KernelFiles) -> None:
    faster = {source: tuple(mbps + 1000 for mbps in row) for source, row in MATRIX.items()}
    found = seen_bandwidths(tables(two_sockets, hmat(locality(3, faster))), range(3), FIRST)
    assert found.unknown == {1: [0]}


def test_broken_tables_are_no_tables(two_sockets: KernelFiles) -> None:
    for cut in range(len(WHOLE)):
        assert seen_bandwidths(tables(two_sockets, WHOLE[:cut]), range(3), FIRST).unknown == {1: [0]}
    huge = bytearray(WHOLE)
    # Both counts of proximity domains
    struct.pack_into("<II", huge, 40 + 40 + 12, 0xFFFFFFFF, 0xFFFFFFFF)
    assert seen_bandwidths(tables(two_sockets, bytes(huge)), range(3), FIRST).unknown == {1: [0]}
    for bad in (b"", srat(memory(0)), srat(memory(0), memory(1, flags=0), memory(2)), srat(b"\1\0"), srat()[:-3]):
        assert seen_bandwidths(tables(two_sockets, WHOLE, bad), range(3), FIRST).unknown == {1: [0]}


def test_what_firmware_lacks_is_measured_or_named(two_sockets: KernelFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = auto_weights(two_sockets, range(3), lambda nodes: dict.fromkeys(nodes, 1000), FIRST)
    assert measured == {0: 1, 1: 1, 2: 1}
    with pytest.raises(MissingError, match=r"node 1 from the CPUs of node 0 is not known \(.*/HMAT has none\)"):
        auto_weights(two_sockets, range(3), cpus=FIRST)
    tables(two_sockets, WHOLE)

    read = KernelFiles._bytes

    def closed(files: KernelFiles, name: str) -> bytes:
        if name.endswith("/HMAT"):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return read(files, name)

    monkeypatch.setattr(KernelFiles, "_bytes", closed)
    with pytest.raises(MissingError, match=r"/HMAT: Permission denied\); use --weights measured"):
        auto_weights(two_sockets, range(3), cpus=FIRST)
    monkeypatch.undo()
    two_sockets.real_path("sys/devices/system/node/node2/access1/initiators/write_bandwidth").write_text("0\n")
    assert nearest_bandwidth(two_sockets, 2) is None
    with pytest.raises(MissingError, match=r"no bandwidth of node 2 is known"):
        auto_weights(two_sockets, range(3), cpus=FIRST)


def test_a_kernel_without_numa_has_the_nearest_bandwidth(tmp_path: Path) -> None:
    for kind in ("read", "write"):
        put(tmp_path / f"sys/devices/system/node/node0/access1/initiators/{kind}_bandwidth", "1000\n")
    assert seen_bandwidths(KernelFiles(tmp_path), [0]).mbps == {0: 1000}

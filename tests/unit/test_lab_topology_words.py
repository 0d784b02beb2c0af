# SPDX-License-Identifier: GPL-2.0
"""Machines of the command line, and nodes without memory."""

import argparse
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from terrace.cli import lab
from terrace.errors import UsageError
from terrace.lab import hmat
from terrace.lab.machine import Machine, bare_argv
from terrace.lab.timing import machine_text
from terrace.lab.topology import MIB, Access, load_topology, parse_topology
from terrace.lab.topology_words import from_words

MACHINE = Machine(Path("vmlinux"), Path("initrd"), Path("console"), from_words(["64M,cpus=1"]))

FILE = """
description = "a machine"
[[node]]
memory = "1G"
cpus = 1
[[node]]
memory = "0"
cpus = 1
[[node]]
memory = "0"
cpus = 2
[[node]]
memory = "2G"
[[access]]
from = "0-2"
to = 3
distance = 30
latency = "250ns"
bandwidth = "20G"
[[access]]
from = 0
to = 0
distance = 10
latency = "80ns"
bandwidth = "64G"
[[access]]
from = "1-2"
to = 0
distance = 20
latency = "120ns"
bandwidth = "32G"
"""


def test_words_make_nodes_in_their_order() -> None:
    machine = from_words(["1G,cpus=2", "1G,cpus=1,distance=40", "2G,latency=300ns,bandwidth=10G", "0,cpus=1"])
    assert [(node.memory >> 20, node.cpus) for node in machine.nodes] == [(1024, 2), (1024, 1), (2048, 0), (0, 1)]
    assert machine.access(0, 0) == Access(0, 0, 10, 80, 64 << 30)
    assert machine.access(0, 1) == Access(0, 1, 40, 130, 32 << 30)
    assert machine.access(3, 2) == Access(3, 2, 24, 300, 10 << 30)
    # No memory there, nothing to access; no CPUs there, nobody to access from.
    assert machine.access(0, 3) is None and machine.access(2, 0) is None
    assert machine.distance(0, 3) == 21 and machine.distance(1, 3) == 40


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["1G"], "--numa: no node has cpus"),
        (["0,cpus=2"], "--numa: no node has memory"),
        (["1G,cpus=2", "0"], "--numa 0: a node needs memory, CPUs, or both"),
        (["1M,cpus=2"], "--numa 1M,cpus=2: 1M is not a whole number of MiB of at least 64M, or 0 with CPUs"),
        (["1G,cpus=65"], "--numa 1G,cpus=65: cpus is a whole number from 0 to 64, not '65'"),
        (["1G,cpus=40", "1G,cpus=40"], "--numa: 80 CPUs in all; kernels of the lab use at most 64"),
        (["1G,cpus=1"] * 65, "--numa: 65 nodes; a machine has 1 to 64"),
        (["1G,cpu=2"], "'cpu=2': after the size come cpus=…, distance=…, latency=…, bandwidth=…"),
        (["1G,cpus=2,cpus=3"], "'cpus=3': after the size come"),
        (["1G,cpus"], "'cpus': after the size come"),
        (["cpus=2"], "--numa cpus=2: size 'cpus=2' is not a number"),
        ([""], "--numa : size ''"),
        (["1G,cpus=1", "1G,distance=10"], "distance is a whole number from 11 to 254, not '10'"),
        (["1G,cpus=1,latency=0ns"], "latency is from 1ns to 64950ns"),
        (["1G,cpus=1,latency=1"], "time '1'"),
        (["1G,cpus=1,bandwidth=1K"], "bandwidth is per second, in whole MiB"),
        (["1G,cpus=1", "0,cpus=1,latency=5ns"], "a node without memory has neither latency nor bandwidth"),
    ],
)
def test_machines_that_cannot_be_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        from_words(words)
    assert message in str(error.value)


def test_a_node_of_a_file_may_have_no_memory() -> None:
    machine = parse_topology("t", FILE, "t.toml")
    assert [node.memory // MIB for node in machine.nodes] == [1024, 0, 0, 2048]
    # Between two of them by way of the memory that both reach; also where each has CPUs.
    assert machine.distance(1, 2) == machine.distance(2, 1) == 20 + 20 - 10
    assert machine.distance(0, 1) == 20
    scaled = machine.with_memory_scale(0.5).with_cpus(7)
    assert [(node.memory // MIB, node.cpus) for node in scaled.nodes] == [(512, 3), (0, 2), (0, 2), (1024, 0)]
    with pytest.raises(UsageError, match="topology 't': node 1 has no memory; the timing model needs some"):
        machine_text(machine, physical=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "from = 0\nto = 0",
            "from = 0\nto = 1",
            r"access\[1\]\.to: node 1 has no memory, so nothing is accessed there",
        ),
        ('memory = "0"\ncpus = 2', 'memory = "0"', r"node\[2\]\.memory: a node needs memory, CPUs, or both"),
        ('from = "1-2"', "from = 1", r"no \[\[access\]\] from 2 to 0; every CPU node needs one to every node with mem"),
        ("cpus = 2", "cpus = 64", r"t\.toml: 66 CPUs in all"),
    ],
)
def test_a_file_with_such_a_node_may_still_be_wrong(old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_topology("t", FILE.replace(old, new), "t.toml")


def test_qemu_gets_no_memory_for_such_a_node() -> None:
    machine = from_words(["64M,cpus=1", "0,cpus=1"])
    words = " ".join(bare_argv(replace(MACHINE, topology=machine, hmat=Path("a,b"))))
    assert "-m 64M -object memory-backend-ram,id=mem0,size=64M -numa node,nodeid=0,memdev=mem0,cpus=0-0 " in words
    assert "-numa node,nodeid=1,cpus=1-1 " in words
    assert "mem1" not in words and "hmat-lb" not in words and "initiator" not in words
    assert "-machine q35,hmat=off" in words and "-acpitable sig=HMAT,rev=2,data=a,,b " in words
    assert "-numa dist,src=0,dst=1,val=21" in words


def test_the_table_names_nodes_with_memory_alone() -> None:
    machine = from_words(["1G,cpus=1", "0,cpus=1", "2G,latency=300ns,bandwidth=100G"])
    data = hmat.table(machine)
    assert data[:4] == bytes(4)
    found = []
    at = 4
    while at < len(data):
        kind, _, length = struct.unpack_from("<HHI", data, at)
        found.append((kind, data[at : at + length]))
        at += length
    assert at == len(data) and [kind for kind, _ in found] == [0, 0, 1, 1]
    domains = [struct.unpack_from("<HHII", body, 8) for kind, body in found if kind == 0]
    # Valid initiator, reserved, initiator, memory.
    assert domains == [(1, 0, 0, 0), (1, 0, 0, 2)]
    tables = []
    for kind, body in found:
        if kind == 1:
            what, sources, targets, unit = struct.unpack_from("<xBxxII4xQ", body, 8)
            values = struct.unpack_from(f"<{sources}I{targets}I{sources * targets}H", body, 32)
            assert values[:4] == (0, 1, 0, 2)
            tables.append((what, [value * unit for value in values[4:]]))
    assert tables == [
        (0, [80_000, 300_000, 130_000, 300_000]),
        (3, [64 << 10, 100 << 10, 32 << 10, 100 << 10]),
    ]


def test_qemu_makes_the_table_where_it_can(tmp_path: Path) -> None:
    assert hmat.path_of(load_topology("dram-cxl")) is None and hmat.write(load_topology("dram-cxl")) is None
    machine = from_words(["1G,cpus=1", "0,cpus=1"])
    path = hmat.write(machine)
    assert path and path.read_bytes() == hmat.table(machine) and path == hmat.path_of(machine)


def run(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    lab.add_arguments(parser)
    return lab.main(parser.parse_args(["run", "--dry-run", *words, "--", "true"]))


def test_the_command_line_takes_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--numa", "128M,cpus=1", "--numa", "0,cpus=1", "--numa", "64M", "--cpus", "3"]) == 0
    shown = capsys.readouterr().out
    assert "-smp 3," in shown and "-m 192M" in shown and "nodeid=2,memdev=mem2 " in shown and "sig=HMAT" in shown
    assert "terrace.files" not in shown
    with pytest.raises(SystemExit):
        run(["--numa", "1G,cpus=1", "--topology", "dram-cxl"])
    assert "not allowed with argument --numa" in capsys.readouterr().err


def test_files_come_back_on_a_port_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    assert run(["--out", str(folder)]) == 0
    assert "name=terrace.files" in capsys.readouterr().out
    # A dry run makes nothing.
    assert not folder.exists()
    for words, message in (
        (["--out", str(tmp_path / "no/where")], "there is no folder"),
        (["--out-limit", "1M"], "--out-limit goes with --out DIR"),
        (["--out", str(folder), "--out-limit", "1"], "--out-limit 1: 4K to 2G, half of the guest's memory"),
        (["--out", str(folder), "--out-limit", "3G"], "--out-limit 3G: 4K to 2G"),
        (["--out", str(folder), "--out-limit", "x"], "--out-limit: size 'x'"),
    ):
        with pytest.raises(UsageError, match=message):
            run(words)

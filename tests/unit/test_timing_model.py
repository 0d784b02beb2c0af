# SPDX-License-Identifier: GPL-2.0
"""The memory-timing model: its C tests under the sanitizers, the machine made of a topology, the plugin's options."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from terrace.errors import UsageError
from terrace.lab import emulator, plugin
from terrace.lab.emulator import Emulator
from terrace.lab.machine import Machine, qemu_argv
from terrace.lab.timing import machine_text, node_spans
from terrace.lab.topology import MIB, Topology, load_topology, parse_topology, topology_names
from terrace.paths import repo_root
from terrace.units import parse_size

#: Without optimization gcc takes less than half of the time, and the tests hardly longer.
SANITIZED = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
needs_qemu = pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="no qemu-system-x86_64")


VERSIONS = range(1, emulator.NEWEST_ABI + 1)


@needs_gcc
@pytest.mark.parametrize(
    ("name", "abi"),
    [("model_test", 0), ("machine_test", 0), ("drive_test", 0), *(("emulator_test", abi) for abi in (1, 3, 4, 7))],
)
def test_the_models_own_tests_pass_under_the_sanitizers(name: str, abi: int, tmp_path: Path) -> None:
    source = repo_root() / "plugin" / "tests" / f"{name}.c"
    program = tmp_path / name
    # drive_test stands for QEMU, whose functions are found by name.
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", *SANITIZED, "-pthread", "-rdynamic"]
    flags += [f"-DTERRACE_PLUGIN_ABI={abi}"] if abi else []
    subprocess.run(["gcc", *flags, "-o", str(program), str(source), "-lm"], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not ok" not in done.stdout


@needs_gcc
@pytest.mark.parametrize("abi", [0, *VERSIONS, emulator.NEWEST_ABI + 1])
def test_one_source_is_for_every_version_of_the_interface(abi: int) -> None:
    sources = sorted({name for files in (*plugin._SOURCES.values(), plugin._PROBE) for name in files})
    words = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-DTERRACE_PLUGIN_ABI={abi}"]
    done = subprocess.run([*words, *sources], cwd=repo_root() / "plugin", capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (abi in VERSIONS), done.stderr
    assert abi in VERSIONS or "#error" in done.stderr


# ---- where the nodes are ----


def _uneven() -> Topology:
    text = 'description = "x"\n' + "".join(
        f'[[node]]\nmemory = "{size}"\ncpus = {cpus}\n' for size, cpus in (("65M", 1), ("128M", 0), ("3G", 0))
    )
    text += '[[access]]\nfrom = 0\nto = 0\ndistance = 10\nlatency = "80ns"\nbandwidth = "64G"\n'
    text += '[[access]]\nfrom = 0\nto = "1-2"\ndistance = 20\nlatency = "250ns"\nbandwidth = "20G"\n'
    return parse_topology("uneven", text, "uneven.toml")


def test_nodes_do_not_overlap_and_follow_qemus_order() -> None:
    for machine in (*map(load_topology, topology_names()), _uneven()):
        spans = node_spans(machine, physical=False)
        words = qemu_argv(Machine(Path("v"), Path("i"), Path("c"), machine), [3, 4, 5, 6], 7)
        backends = [word for word in words if word.startswith("memory-backend-ram")]
        assert [f"size={span.size // MIB}M" for span in spans] == [word.split(",")[2] for word in backends]
        before = 0
        for span in spans:
            # the place among all blocks plus the place in the machine's memory
            assert span.base == before + before, machine.name
            # what is left is the place in guest memory: the hole below 4G is of whole 2M
            assert (span.base - span.skew - before) % (2 * MIB) == 0, machine.name
            before += span.size
        assert all(a.base + a.size <= b.base for a, b in zip(spans, spans[1:], strict=False)), machine.name


@pytest.mark.parametrize(("memory", "gap"), [("2815M", False), ("2816M", True), ("8G", True)])
def test_physical_addresses_have_qemus_gap_below_4g(memory: str, gap: bool) -> None:
    machine = load_topology("dram-cxl")
    sizes = (parse_size(memory) - 64 * MIB, 64 * MIB)
    nodes = tuple(replace(node, memory=size) for node, size in zip(machine.nodes, sizes, strict=True))
    machine = replace(machine, nodes=nodes, _by_pair={})
    for physical in (True, False):
        lines = machine_text(machine, physical=physical).splitlines()
        want = [f"gap {2 << 30} {2 << 30}"] if gap and physical else []
        assert [line for line in lines if line.startswith("gap")] == want
    first, second = node_spans(machine, physical=True)
    assert (first.base, second.base, first.skew, second.skew) == (0, first.size, 0, 0)


# ---- the machine's file ----


def test_every_topology_of_ours_is_a_machine_that_the_model_takes() -> None:
    for name in topology_names():
        machine = load_topology(name)
        lines = machine_text(machine, physical=True).splitlines()
        first = [line.split()[0] for line in lines]
        assert first[0] == "name", name
        assert first.count("node") == len(machine.nodes), name
        assert first.count("cpu") == machine.cpus, name
        assert first.count("access") == len(machine.accesses), name
        assert {"l1", "l2", "llc"} == {line.split()[1] for line in lines if line.startswith("cache")}, name


def test_bandwidth_and_latency_keep_their_units() -> None:
    lines = machine_text(load_topology("dram-cxl"), physical=True).splitlines()
    assert f"access 0 1 250000 {20 * 1024**3 / 1e9:.9g}" in lines
    assert "insn_ps 500" in lines


def test_a_topology_without_caches_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'uneven' has \[\[cache\]\] tables of 0 levels; the timing model needs"):
        machine_text(_uneven(), physical=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("line = 128", "level 1 that is one too many, or not of such lines"),
        ('size = "33K"', "level 1 whose sets are no power of two"),
    ],
)
def test_a_cache_that_cannot_be_modelled_is_refused(change: str, message: str) -> None:
    good = load_topology("dram-cxl")
    cache = replace(good.caches[0], **({"line": 128} if "line" in change else {"size": 33 << 10}))
    with pytest.raises(UsageError, match=message):
        machine_text(replace(good, caches=(cache, *good.caches[1:]), _by_pair={}), physical=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nspeed = 3\n", r"unknown key 'model\.speed'"),
        ("[model]\ninsn_ps = 0\n", r"model\.insn_ps: needs a whole number"),
        ("[model]\noverlap_random = 0.5\n", r"model\.overlap_random: needs a number from 1"),
        ('[model]\nwindow = "1ns"\n', r"model\.window: 1ns is not from 100ns to 10ms"),
        ("[model]\ncurve_flat = 0.9\n", r"model\.curve_linear: 0\.8 is not above curve_flat, 0\.9"),
        ("[model]\ncurve_at_linear = 9\n", r"model\.curve_at_full"),
        ("[[model]]\n", r"write it as a \[model\] table"),
        ('[[tlb]]\nlevel = 1\nentries = 4\nways = 4\nlatency = "0ns"\n', r"tlb\[0\]\.page"),
        ('[[tlb]]\nlevel = 2\npage = "4K"\nentries = 4\nways = 4\nlatency = "0ns"\n', r"tlb\[0\]\.page"),
    ],
)
def test_errors_in_the_models_keys_name_file_and_key(text: str, message: str) -> None:
    start = (repo_root() / "topologies" / "dram-cxl.toml").read_text().split("# Caches, TLBs")[0]
    with pytest.raises(UsageError, match=f"t.toml: .*{message}"):
        parse_topology("t", start + text, "t.toml")


# ---- the plugin's options ----


@needs_qemu
@needs_gcc
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("nonsense=1", "option 'nonsense=1': unknown; known are out, machine,"),
        ("out=/dev/null", "option 'machine': missing"),
        ("machine=/dev/null", "option 'out': missing"),
        ("out=/dev/null,machine=/dev/null", "option 'machine': there is no line"),
        ("out=/dev/null,machine=/no/such", "option 'machine': the file cannot be read"),
        ("series=x", "option 'series=x': want milliseconds"),
        ("start=12", "option 'start=12': want boot, or ADDR@N"),
        ("start=ffffffff81000000@0", "want boot, or ADDR@N"),
        ("sent=12", "option 'sent=12': want a kernel address"),
        ("out=/dev/null,machine=MACHINE,kind=x@mark1", "option 'switch': missing"),
        ("out=/dev/null,machine=MACHINE", "another number of vCPUs"),
    ],
)
def test_the_plugin_refuses_what_it_does_not_know(options: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "m").write_text(machine_text(load_topology("dram-cxl"), physical=True))
    words = ["qemu-system-x86_64", "-machine", "q35", "-nodefaults", "-display", "none", "-S"]
    argument = f"{plugin.compile_plugin('timing')},{options.replace('MACHINE', str(tmp_path / 'm'))}"
    done = subprocess.run([*words, "-plugin", argument], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "timing: option" in done.stderr
    assert said in done.stderr


def test_a_plugin_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="there are insn_count, timing"):
        plugin.compile_plugin("nonsense")


def test_the_timing_plugin_is_told_of_the_kernels_functions(tmp_path: Path) -> None:
    symbols = dict.fromkeys(("__switch_to_asm", "flush_tlb_func", "begin_new_exec"), 18446744071578845184)
    options = plugin.TimingOptions(tmp_path / "l,1", series_ms=2.5, pages=tmp_path / "p")
    machine = tmp_path / "m"
    qemu = Emulator(Path("qemu"), (7, 2, 22))
    text = plugin.timing_argument(Path("t.so"), symbols, load_topology("dram-cxl"), options, machine, qemu)
    assert text.startswith(f"t.so,out={tmp_path}/l,,1,machine={machine},switch=ffffffff81000000,")
    assert ",flush=ffffffff81000000,start=ffffffff81000000@2,series=2.5,pages=" in text
    assert "sent=" not in text
    assert machine.read_text().startswith("name dram-cxl\nnode 0 ")
    assert "gap" not in machine.read_text()
    later = replace(qemu, version=(8, 2))
    plugin.timing_argument(Path("t.so"), symbols, load_topology("dram-cxl"), options, machine, later)
    assert "gap 2147483648 2147483648\n" in machine.read_text()

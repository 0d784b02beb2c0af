# SPDX-License-Identifier: GPL-2.0
"""The workload xsbench, with a small program in place of XSBench, whose sources are not part of Terrace."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from terrace.errors import BuildError, UsageError
from terrace.lab.workloads import XSBENCH, find_workload
from terrace.paths import repo_root

# As much of XSBench's interface as guest/xsbench.c uses. All nuclides of a material are those with its number.
HEADER = """
#include <stdint.h>
#include <stdlib.h>
#define UNIONIZED 0
#define HISTORY_BASED 1
#define STARTING_SEED 1070
typedef struct { double energy, xs[5]; } NuclideGridPoint;
typedef struct {
    int nthreads; long n_isotopes, n_gridpoints;
    int lookups, grid_type, hash_bins, particles, simulation_method, binary_mode, kernel_id;
} Inputs;
typedef struct {
    int *num_nucs; double *concs; int *mats; double *unionized_energy_array; int *index_grid;
    NuclideGridPoint *nuclide_grid; int length_unionized_energy_array; long length_index_grid; int max_num_nucs;
} SimulationData;
SimulationData grid_init_do_not_profile(Inputs in, int mype);
void calculate_macro_xs(double energy, int mat, long n_isotopes, long n_gridpoints, int *num_nucs, double *concs,
    double *egrid, int *index, NuclideGridPoint *grid, int *mats, double *xs, int grid_type, int bins, int most);
int pick_mat(uint64_t *seed);
double LCG_random_double(uint64_t *seed);
uint64_t fast_forward_LCG(uint64_t seed, uint64_t n);
"""
SOURCES = {
    "Simulation.c": """
#include "XSbench_header.h"
uint64_t fast_forward_LCG(uint64_t seed, uint64_t n) { while (n--) seed = seed * 25214903917u + 11; return seed; }
double LCG_random_double(uint64_t *seed) { *seed = fast_forward_LCG(*seed, 1); return (*seed >> 33) / 2147483648.0; }
int pick_mat(uint64_t *seed) { return LCG_random_double(seed) * 12; }
void calculate_macro_xs(double energy, int mat, long n_isotopes, long n_gridpoints, int *num_nucs, double *concs,
    double *egrid, int *index, NuclideGridPoint *grid, int *mats, double *xs, int grid_type, int bins, int most)
{
    long at = energy * n_gridpoints;
    for (int k = 0; k < 5; k++)
        xs[k] = grid[mat * n_gridpoints + at].xs[k] * concs[mat] + index[at];
}
""",
    "GridInit.c": """
#include <stdio.h>
#include "XSbench_header.h"
SimulationData grid_init_do_not_profile(Inputs in, int mype)
{
    SimulationData d = {0};
    uint64_t seed = 42;
    void *scratch = calloc(4, 4);
    long n = in.n_isotopes * in.n_gridpoints;
    if (!mype)
        puts("this would be no JSON");
    d.nuclide_grid = malloc(n * sizeof(*d.nuclide_grid));
    for (long i = 0; i < n; i++)
        for (int k = 0; k < 5; k++)
            d.nuclide_grid[i].xs[k] = LCG_random_double(&seed);
    d.length_unionized_energy_array = n;
    d.length_index_grid = n * in.n_isotopes;
    d.index_grid = calloc(d.length_index_grid, sizeof(int));
    d.concs = malloc(12 * sizeof(double));
    for (int m = 0; m < 12; m++)
        d.concs[m] = 1 + m;
    free(scratch);
    return d;
}
""",
    "XSutils.c": "#include <math.h>\nvolatile double x = 1.5;\ndouble rounded(void) { return ceil(x); }\n",
    "Materials.c": "int unused;\n",
}


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "XSBench" / "openmp-threading"
    folder.mkdir(parents=True)
    (folder / "XSbench_header.h").write_text(HEADER)
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    monkeypatch.setenv(XSBENCH.variable, str(folder.parent))
    return folder


def run(program: Path, *words: str, code: int = 0) -> dict[str, Any]:
    done = subprocess.run(
        [program, "--size", "4M", "--ops", "700", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_is_compiled_with_the_sources_and_has_its_tables_in_the_arena(sources: Path) -> None:
    program = find_workload("xsbench").compile()
    one, three = (run(program, "--threads", threads) for threads in ("1", "3"))
    assert one["ok"] and three["ok"] and one["ops"] == three["ops"] == 700
    # The checksum depends neither on the threads nor on their order, and it does depend on the seed.
    assert one["checksum"] == three["checksum"] != run(program, "--seed", "2")["checksum"]
    assert (4 << 20) - (256 << 10) < one["grid"]["bytes"] <= 4 << 20
    assert find_workload("xsbench").compile() == program


def test_our_part_has_no_warnings(sources: Path) -> None:
    words = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", str(sources)]
    done = subprocess.run([*words, str(repo_root() / "guest/xsbench.c")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["result", "table"])
def test_wrong_results_are_found(sources: Path, kind: str) -> None:
    assert not run(find_workload("xsbench").compile(), "--threads", "2", "--sabotage", kind, code=1)["ok"]


def test_changed_sources_are_another_program(sources: Path) -> None:
    before = find_workload("xsbench").compile()
    with (sources / "XSbench_header.h").open("a") as header:
        header.write("/* another version */\n")
    assert find_workload("xsbench").compile() != before


def test_the_folder_of_the_sources_may_be_given_itself(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = find_workload("xsbench").compile()
    monkeypatch.setenv(XSBENCH.variable, str(sources))
    assert find_workload("xsbench").compile() == before


@pytest.mark.parametrize(
    ("given", "said"), [(None, "--xsbench DIR or TERRACE_XSBENCH"), ("/nonexistent", "/nonexistent")]
)
def test_missing_sources_are_named(given: str | None, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(XSBENCH.variable, raising=False)
    if given:
        monkeypatch.setenv(XSBENCH.variable, given)
    with pytest.raises(UsageError, match=said):
        find_workload("xsbench").compile()


def test_an_error_in_the_sources_is_the_compilers(sources: Path) -> None:
    (sources / "Materials.c").write_text("int unused\n")
    with pytest.raises(BuildError, match=r"Materials\.c:1"):
        find_workload("xsbench").compile()

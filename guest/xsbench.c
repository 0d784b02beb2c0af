// SPDX-License-Identifier: GPL-2.0
/*
 * xsbench: the public benchmark XSBench as a workload.
 *
 * The user gives the folder of its sources.  Its own functions build the tables and look up cross
 * sections; here are the loop over particles, the arena in which its tables are, and the checks.
 * Loop and seeds are those of its history-based simulation: an operation is a particle of
 * LOOKUPS lookups, and each lookup depends on the one before.  The seed of --seed is added to that
 * of XSBench, so that runs with different seeds look up different energies.
 *
 * Checks: every 64th particle is repeated after the run, and no word of the tables may change.
 */
#define _GNU_SOURCE
#include "wl.h"

#include "XSbench_header.h"

#define NR_XS		5
#define SMALL_REACTOR	68
#define LOOKUPS		34
/* Materials, densities, alignment: less than this for either reactor. */
#define OTHER_TABLES	(128u << 10)
/* A lookup advances the generator at most this often; a lookup itself takes two numbers. */
#define MOST_NUMBERS	5

static uint64_t nr_nuclides = SMALL_REACTOR;
static Inputs in;
static SimulationData tables;
static uint64_t sum_before, used;

/* ---- allocations of XSBench, whose sources are compiled with these names for malloc() and so on ---- */

void *xs_malloc(size_t bytes)
{
	return wl_take(bytes, "XSBench");
}

void *xs_calloc(size_t number, size_t bytes)
{
	void *start = wl_take(number * bytes, "XSBench");

	return memset(start, 0, number * bytes);
}

void xs_free(void *start)
{
	(void)start;	/* the arena keeps some kilobytes of the preparation */
}

/* ---- tables ---- */

static uint64_t bytes_of_point(void)
{
	return nr_nuclides * (sizeof(NuclideGridPoint) + sizeof(double) + nr_nuclides * sizeof(int));
}

static void prepare(void)
{
	uint64_t left = wl_left(), points = left > OTHER_TABLES ? (left - OTHER_TABLES) / bytes_of_point() : 0;

	if (nr_nuclides != SMALL_REACTOR && nr_nuclides != 355)
		tg_die(TG_EXIT_USAGE, "--nuclides: %llu: XSBench has reactors of 68 (small) and 355 (large)",
		       (unsigned long long)nr_nuclides);
	if (points < 4)
		tg_die(TG_EXIT_USAGE, "--size: %llu bytes are too few for %llu nuclides",
		       (unsigned long long)wl.size, (unsigned long long)nr_nuclides);
	in = (Inputs) {
		.nthreads = (int)wl.threads, .n_isotopes = (long)nr_nuclides, .n_gridpoints = (long)points,
		.lookups = LOOKUPS, .grid_type = UNIONIZED, .simulation_method = HISTORY_BASED,
	};
	/* It prints as process 0 only. */
	tables = grid_init_do_not_profile(in, 1);
	used = (uint64_t)((char *)wl_take(0, "XSBench") - wl_arena);
	sum_before = wl_sum(wl_arena, used);
}

/* ---- lookups ---- */

/*
 * Follow one particle; the sum of the places of the largest cross section of each lookup, as XSBench has it.
 *
 * XSBench multiplies ints for the seed of a particle.  Above 6,316,129 particles this overflows, and the seeds depend
 * on the compiler and on OpenMP.  Here are 64 bits, as in a build of XSBench with gcc -O2 and without OpenMP.
 */
static uint64_t follow(const void *data, uint64_t particle)
{
	const SimulationData *t = data;
	uint64_t seed = fast_forward_LCG(STARTING_SEED + wl.seed, particle * LOOKUPS * 2 * MOST_NUMBERS), sum = 0;

	for (int i = 0; i < LOOKUPS; i++) {
		double energy = LCG_random_double(&seed), xs[NR_XS] = { 0 };
		int material = pick_mat(&seed), largest = 0, above_one = 0;

		calculate_macro_xs(energy, material, in.n_isotopes, in.n_gridpoints, t->num_nucs, t->concs,
				   t->unionized_energy_array, t->index_grid, t->nuclide_grid, t->mats,
				   xs, in.grid_type, in.hash_bins, t->max_num_nucs);
		for (int k = 0; k < NR_XS; k++) {
			largest = xs[k] > xs[largest] ? k : largest;
			above_one += xs[k] > 1.0;
		}
		sum += (uint64_t)largest + 1;
		if (above_one)
			seed = fast_forward_LCG(seed, (uint64_t)above_one);
	}
	return sum;
}

static void work(struct wl_worker *w)
{
	wl_compute(w, follow, &tables);
}

static void verify(void)
{
	wl_compute_again(follow, &tables, "lookups differ from the same ones after the run");
	if (wl_sum(wl_arena, used) != sum_before)
		wl_wrong("a word of the tables changed, and the program does not write to them");
}

static void sabotage(const char *kind)
{
	if (!strcmp(kind, "result"))
		wl_workers[0].checked++;
	else
		((char *)tables.index_grid)[wl_below(wl_hash(99, 0), (uint64_t)tables.length_index_grid)] ^= 1;
}

static void report(void)
{
	printf("  \"grid\": {\"points_per_nuclide\": %ld, \"unionized_points\": %d, \"bytes\": %llu},\n",
	       in.n_gridpoints, tables.length_unionized_energy_array, (unsigned long long)used);
	printf("  \"lookups_per_particle\": %d,\n", LOOKUPS);
}

static const struct wl_option options[] = {
	{ "nuclides", WL_NUMBER, &nr_nuclides, SMALL_REACTOR, 355, NULL,
	  "nuclides: 68, XSBench's small reactor, or 355, its large one", false },
	{ 0 },
};

static const struct wl_workload xsbench = {
	.name = "xsbench",
	.purpose = "XSBench itself: history-based lookups on a unionized grid; an operation is a particle.",
	.options = options,
	.defaults = { .iterations = 1 },
	.prepare = prepare,
	.work = work,
	.sabotage = sabotage,
	.verify = verify,
	.report = report,
};

int main(int argc, char **argv)
{
	return wl_main(&xsbench, argc, argv);
}

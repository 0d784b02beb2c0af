// SPDX-License-Identifier: GPL-2.0
/*
 * xslookup: macroscopic cross-section lookups of a Monte Carlo neutron transport code, after the
 * description of XSBench (Tramm et al., "XSBench - the development and verification of a performance
 * abstraction for Monte Carlo reactor analysis", PHYSOR 2014).
 *
 * Each nuclide has a grid of energies with five cross sections.  The unionized grid has the energies
 * of all nuclides in order, and with each the place in every nuclide's grid, so that a lookup needs
 * one binary search only.  A lookup has a random energy and material: it interpolates the cross
 * sections of the material's nuclides and adds them up, weighted with their density.
 *
 * Numbers are fixed point, so that results are exact everywhere: energies and weights are fractions
 * of 2^32, cross sections below 2^24.  Every lookup's numbers come from its own number alone, and the
 * checksum is a sum over lookups: it depends neither on the threads nor on the order.
 *
 * Checks: every 64th lookup is done again afterwards without the unionized grid, by a binary search
 * in each nuclide's grid; and no word of the tables may have changed.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "wl.h"

#define NR_XS		5u
#define NR_MATERIALS	12u
#define MAX_NUCLIDES	355u
#define LOOKUPS_OF_PARTICLE 34u
#define ONE		(1ull << 32)

struct point {
	uint64_t energy, xs[NR_XS];
};

struct material {
	uint32_t nr, nuclide[MAX_NUCLIDES];
	uint64_t density[MAX_NUCLIDES];
};

enum { STREAM_ENERGY = 10, STREAM_XS, STREAM_DENSITY, STREAM_LOOKUP };

/*
 * Fuel, cladding, cold and hot water, pressure vessel, the reflectors, plates, nozzles and fuel assembly ends
 * of the Hoogenboom-Martin reactor: how often a neutron is there (in thousandths), nuclides in each.
 */
static const unsigned int chance[NR_MATERIALS] = { 140, 52, 275, 134, 154, 64, 66, 55, 8, 15, 25, 13 };
static const unsigned int share_of[NR_MATERIALS] = { 0, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9 };

static uint64_t nr_nuclides = 68, nr_points, nr_union;

struct tables {
	struct point *grid;		/* [nuclide * nr_points + point] */
	uint64_t *energy;		/* of the unionized grid */
	uint32_t *place;		/* [union point * nr_nuclides + nuclide] */
	struct material *materials;
};

static struct tables all;		/* in the arena */
static unsigned int copies;
static char *copy_of[TG_MAX_NODES];	/* of the arena's used part; NULL without --copies, or without memory */
static uint64_t sum_before;

/* ---- tables ---- */

static uint64_t bytes_of_point(void)
{
	return nr_nuclides * (sizeof(struct point) + sizeof(*all.energy) + nr_nuclides * sizeof(*all.place));
}

/* Energies rise by random steps of 1/2 to 3/2 of the mean. */
static void make_grid(uint64_t nuclide)
{
	struct point *p = all.grid + nuclide * nr_points;
	uint64_t step = ONE / nr_points, state = wl_hash(STREAM_ENERGY, nuclide) | 1;

	for (uint64_t i = 0; i < nr_points; i++) {
		p[i].energy = i * step + step / 4 + wl_below(wl_next(&state), step / 2);
		for (unsigned int k = 0; k < NR_XS; k++)
			p[i].xs[k] = wl_next(&state) >> 40;
	}
}

/* Merge: the nuclide whose next energy is the lowest has the next unionized point. */
static void make_union(void)
{
	uint32_t next[MAX_NUCLIDES] = { 0 };
	uint32_t heap[MAX_NUCLIDES];
	uint64_t size = nr_nuclides;

	/* All first energies are within one step: build the heap by insertion. */
	for (uint32_t n = 0; n < size; n++) {
		uint32_t i = n;

		while (i && all.grid[heap[(i - 1) / 2] * nr_points].energy > all.grid[n * nr_points].energy) {
			heap[i] = heap[(i - 1) / 2];
			i = (i - 1) / 2;
		}
		heap[i] = n;
	}
	for (uint64_t u = 0; u < nr_union; u++) {
		uint32_t top = heap[0], i = 0, child;
		uint64_t key;

		all.energy[u] = all.grid[top * nr_points + next[top]].energy;
		next[top]++;
		for (uint64_t n = 0; n < nr_nuclides; n++)
			all.place[u * nr_nuclides + n] = next[n] ? next[n] - 1 : 0;
		key = next[top] < nr_points ? all.grid[top * nr_points + next[top]].energy : UINT64_MAX;
		for (; (child = 2 * i + 1) < size; i = child) {
			uint64_t low, right;

			low = next[heap[child]] < nr_points ?
				all.grid[heap[child] * nr_points + next[heap[child]]].energy : UINT64_MAX;
			if (child + 1 < size) {
				right = next[heap[child + 1]] < nr_points ?
					all.grid[heap[child + 1] * nr_points + next[heap[child + 1]]].energy : UINT64_MAX;
				if (right < low) {
					low = right;
					child++;
				}
			}
			if (key <= low)
				break;
			heap[i] = heap[child];
		}
		heap[i] = top;
	}
}

static void make_materials(void)
{
	for (unsigned int m = 0; m < NR_MATERIALS; m++) {
		uint32_t nr = share_of[m] ? share_of[m] : (uint32_t)(nr_nuclides / 2);

		if (m == 0 && nr_nuclides == MAX_NUCLIDES)
			nr = 321;
		if (nr > nr_nuclides)
			nr = (uint32_t)nr_nuclides;
		all.materials[m].nr = nr;
		for (uint32_t i = 0; i < nr; i++) {
			all.materials[m].nuclide[i] = (uint32_t)((i + m * 7) % nr_nuclides);
			all.materials[m].density[i] = wl_hash(STREAM_DENSITY, m * MAX_NUCLIDES + i) >> 32;
		}
	}
}

static uint64_t used_bytes(void)
{
	return wl.size - wl_left();
}

static void make_copy(unsigned int node)
{
	char *copy = mmap(NULL, used_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		tg_die(TG_EXIT_FAILED, "--copies: %llu bytes for node %u: %s", (unsigned long long)used_bytes(), node,
		       strerror(errno));
	madvise(copy, used_bytes(), wl.thp ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	copy_of[node] = memcpy(copy, wl_arena, used_bytes());
}

/* The same tables in a copy of the arena. */
static struct tables tables_in(char *copy)
{
	return (struct tables) {
		.grid = (void *)(copy + ((char *)all.grid - wl_arena)),
		.energy = (void *)(copy + ((char *)all.energy - wl_arena)),
		.place = (void *)(copy + ((char *)all.place - wl_arena)),
		.materials = (void *)(copy + ((char *)all.materials - wl_arena)),
	};
}

static void prepare(void)
{
	uint64_t tables = NR_MATERIALS * sizeof(struct material);

	if (wl_left() < tables + 256 + 2 * bytes_of_point())
		tg_die(TG_EXIT_USAGE, "--size: %llu bytes are too few for %llu nuclides; at least %llu",
		       (unsigned long long)wl.size, (unsigned long long)nr_nuclides,
		       (unsigned long long)(tables + 256 + 2 * bytes_of_point() + WL_PAGE - 1) / WL_PAGE * WL_PAGE);
	nr_points = (wl_left() - tables - 256) / bytes_of_point();
	nr_union = nr_points * nr_nuclides;
	if (nr_points > ONE / 16)
		tg_die(TG_EXIT_USAGE, "--size: %llu bytes are too many for %llu nuclides",
		       (unsigned long long)wl.size, (unsigned long long)nr_nuclides);
	all.materials = wl_take(tables, "the materials");
	all.grid = wl_take(nr_union * sizeof(*all.grid), "the nuclides' grids");
	all.energy = wl_take(nr_union * sizeof(*all.energy), "the unionized grid");
	all.place = wl_take(nr_union * nr_nuclides * sizeof(*all.place), "the unionized grid's index");
	for (uint64_t n = 0; n < nr_nuclides; n++)
		make_grid(n);
	make_union();
	make_materials();
	sum_before = wl_sum(wl_arena, used_bytes());
	if (copies)
		wl_on_each_node(make_copy);
}

/* ---- lookups ---- */

/* The last of @n ascending energies, @stride words apart, that is not above @e; the first when all are. */
static inline uint64_t search(const uint64_t *from, uint64_t n, uint64_t stride, uint64_t e)
{
	uint64_t low = 0;

	while (n > 1) {
		uint64_t half = n / 2;

		if (from[(low + half) * stride] <= e)
			low += half;
		n -= half;
	}
	return low;
}

/* Add nuclide's cross sections at energy @e, between point @p and the one behind it. */
static inline void add_nuclide(const struct point *p, uint64_t e, uint64_t density, uint64_t total[NR_XS])
{
	uint64_t above = e > p[0].energy ? e - p[0].energy : 0;
	uint64_t f = (above << 16) / (p[1].energy - p[0].energy);

	if (f > 1u << 16)
		f = 1u << 16;
	for (unsigned int k = 0; k < NR_XS; k++) {
		uint64_t xs = (p[0].xs[k] * ((1u << 16) - f) + p[1].xs[k] * f) >> 16;

		total[k] += (xs * density) >> 32;
	}
}

/* What a lookup draws: its energy, and a material by its chance. */
static inline unsigned int draw(uint64_t lookup, uint64_t *e)
{
	uint64_t particle = lookup / LOOKUPS_OF_PARTICLE, x = wl_hash(STREAM_LOOKUP + particle, lookup);
	uint64_t dice = wl_below(wl_mix(x + 1), 1001);
	unsigned int m = 0;

	*e = x >> 32;
	while (m + 1 < NR_MATERIALS && dice >= chance[m])
		dice -= chance[m++];
	return m;
}

static inline uint64_t digest(uint64_t lookup, const uint64_t total[NR_XS])
{
	uint64_t sum = lookup;

	for (unsigned int k = 0; k < NR_XS; k++)
		sum = wl_mix(sum + total[k]);
	return sum;
}

static uint64_t look_up(const void *data, uint64_t lookup)
{
	const struct tables *t = data;
	uint64_t total[NR_XS] = { 0 }, e;
	const struct material *m = &t->materials[draw(lookup, &e)];
	uint64_t u = search(t->energy, nr_union, 1, e);
	const uint32_t *index = t->place + u * nr_nuclides;

	for (uint32_t i = 0; i < m->nr; i++) {
		uint64_t n = m->nuclide[i], at = index[n];

		if (at == nr_points - 1)
			at--;
		add_nuclide(t->grid + n * nr_points + at, e, m->density[i], total);
	}
	return digest(lookup, total);
}

/* The same by another way: no unionized grid. */
static uint64_t look_up_slowly(const void *data, uint64_t lookup)
{
	const struct tables *t = data;
	uint64_t total[NR_XS] = { 0 }, e;
	const struct material *m = &t->materials[draw(lookup, &e)];

	for (uint32_t i = 0; i < m->nr; i++) {
		const struct point *p = t->grid + m->nuclide[i] * nr_points;
		uint64_t at = search(&p->energy, nr_points, sizeof(*p) / 8, e);

		if (at == nr_points - 1)
			at--;
		add_nuclide(p + at, e, m->density[i], total);
	}
	return digest(lookup, total);
}

static void work(struct wl_worker *w)
{
	char *copy = copy_of[wl_node_here()];
	const struct tables mine = copy ? tables_in(copy) : all;

	wl_compute(w, look_up, &mine);
}

static void verify(void)
{
	wl_compute_again(look_up_slowly, &all, "lookups differ from those without the unionized grid");
	if (wl_sum(wl_arena, used_bytes()) != sum_before)
		wl_wrong("a word of the tables changed, and nothing writes to them");
	for (int node = 0; node < TG_MAX_NODES; node++)
		if (copy_of[node] && wl_sum(copy_of[node], used_bytes()) != sum_before)
			wl_wrong("a word of the copy on node %d changed, and nothing writes to it", node);
}

/* Cross sections that are none, in the copies only: who reads those finds other sums than the check. */
static void spoil_copies(void)
{
	for (int node = 0; node < TG_MAX_NODES; node++)
		for (uint64_t i = 0; copy_of[node] && i < nr_union; i++)
			tables_in(copy_of[node]).grid[i].xs[0] ^= 1u << 20;
}

static void sabotage(const char *kind)
{
	if (!strcmp(kind, "result"))
		wl_workers[0].checked++;
	else if (!strcmp(kind, "copy"))
		spoil_copies();
	else
		((char *)all.grid)[wl_below(wl_hash(99, 0), nr_union * sizeof(*all.grid))] ^= 1;
}

static void report(void)
{
	printf("  \"grid\": {\"points_per_nuclide\": %llu, \"unionized_points\": %llu, \"bytes\": %llu},\n",
	       (unsigned long long)nr_points, (unsigned long long)nr_union,
	       (unsigned long long)used_bytes());
	printf("  \"lookups_per_particle\": %u,\n", LOOKUPS_OF_PARTICLE);
}

static const struct wl_option options[] = {
	{ "nuclides", WL_NUMBER, &nr_nuclides, 4, MAX_NUCLIDES, NULL,
	  "nuclides: 68 is XSBench's small reactor, 355 the large one", false },
	{ "copies", WL_FLAG, &copies, 0, 0, NULL,
	  "a copy of all tables on every node; each thread reads the one where it starts", false },
	{ 0 },
};

static const struct wl_workload xslookup = {
	.name = "xslookup",
	.purpose = "Cross-section lookups on a unionized energy grid, after XSBench; an operation is a lookup.",
	.options = options,
	.defaults = { .iterations = 8 },
	.prepare = prepare,
	.work = work,
	.sabotage = sabotage,
	.verify = verify,
	.report = report,
};

int main(int argc, char **argv)
{
	return wl_main(&xslookup, argc, argv);
}

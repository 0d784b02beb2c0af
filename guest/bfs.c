// SPDX-License-Identifier: GPL-2.0
/*
 * bfs: breadth-first search in a Kronecker graph, after the description of the Graph500 benchmark
 * (https://graph500.org/?page_id=12): 2^scale vertices, --edgefactor edges a vertex, initiator
 * 0.57, 0.19, 0.19, 0.05, scrambled vertex numbers, and a search from --iterations random roots.
 *
 * Edges come from their numbers: 16 random bits choose two levels of the recursion at a time.  The scale is the
 * largest whose graph, edge list and trees fit into the arena.  The search goes level by level; threads take
 * vertices of the present level, claim unseen neighbours by compare-and-swap and append them to the next.
 *
 * Checks, of every tree: it has no cycle, each of its edges is an edge of the graph, every edge
 * connects vertices of the same or neighbouring levels, and both or none of its ends were reached; and
 * the graph is what it was before.  The checksum is of levels, which do not depend on the threads.
 */
#define _GNU_SOURCE
#include "wl.h"

#define MAX_ROOTS	64u
#define MAX_SCALE	26u
#define NONE		UINT32_MAX
#define GRAB		64u	/* vertices that a thread takes at a time */
#define BUFFER		256u

struct edge {
	uint32_t from, to;
};

struct search {
	uint32_t root, depth;
	uint64_t vertices, edges, ns;
};

static uint64_t edgefactor = 16, forced_scale;
static unsigned int scale;
static uint64_t nr_vertices, nr_edges, nr_roots, graph_sum, level_sum, graph_bytes;
static struct edge *edges;
static uint32_t *row, *column;		/* neighbours of v: column[row[v]] to column[row[v + 1] - 1] */
static uint32_t *trees;			/* [search * nr_vertices + vertex]: its parent */
static uint32_t *frontier[2];
static uint64_t length[2], grabbed;
static struct search searches[MAX_ROOTS];
static unsigned char two_levels[65536];	/* of source, of destination: two bits each */

/* ---- the graph ---- */

static void make_table(void)
{
	static const unsigned int percent[4] = { 57, 19, 19, 5 };
	unsigned int sum = 0, entry = 0;

	for (unsigned int one = 0; one < 4; one++) {
		for (unsigned int two = 0; two < 4; two++) {
			sum += percent[one] * percent[two];
			for (; entry < (sum * 65536u + 5000) / 10000; entry++)
				two_levels[entry] = (unsigned char)((one & 2) << 2 | (two & 2) << 1 | (one & 1) << 1 |
								    (two & 1));
		}
	}
}

/* One to one on numbers of @scale bits. */
static inline uint64_t scramble(uint64_t v, uint64_t key)
{
	uint64_t mask = nr_vertices - 1;

	v = (v * (key | 1) + (key >> 32)) & mask;
	v ^= v >> (scale + 1) / 2;
	v = v * 0x9e3779b1u & mask;
	return v ^ v >> (scale + 1) / 2;
}

static struct edge make_edge(uint64_t number, uint64_t key)
{
	uint64_t from = 0, to = 0, x = wl_hash(30, number);
	unsigned int pairs = (scale + 1) / 2;

	for (unsigned int i = 0; i < pairs; i++) {
		unsigned int bits = two_levels[x & 0xffff];

		from = from << 2 | bits >> 2;
		to = to << 2 | (bits & 3);
		x = i % 4 == 3 ? wl_hash(31 + i, number) : x >> 16;
	}
	from >>= scale & 1;
	to >>= scale & 1;
	return (struct edge){ (uint32_t)scramble(from, key), (uint32_t)scramble(to, key) };
}

/* Rows of neighbours from the list of edges; loops are left out, double edges are not. */
static void make_rows(void)
{
	uint32_t sum = 0;

	memset(row, 0, (nr_vertices + 1) * sizeof(*row));
	for (uint64_t i = 0; i < nr_edges; i++) {
		if (edges[i].from == edges[i].to)
			continue;
		row[edges[i].from]++;
		row[edges[i].to]++;
	}
	for (uint64_t v = 0; v <= nr_vertices; v++) {
		sum += row[v];
		row[v] = sum;
	}
	for (uint64_t i = 0; i < nr_edges; i++) {
		if (edges[i].from == edges[i].to)
			continue;
		column[--row[edges[i].from]] = edges[i].to;
		column[--row[edges[i].to]] = edges[i].from;
	}
}

static uint64_t bytes_of(unsigned int s)
{
	uint64_t n = 1ull << s, m = n * edgefactor;

	return m * sizeof(struct edge) + (n + 1 + 2 * m + (nr_roots + 2) * n) * sizeof(uint32_t) + 1024;
}

static void choose_scale(void)
{
	if (wl.ops > MAX_ROOTS || (!wl.ops && wl.iterations > MAX_ROOTS))
		tg_die(TG_EXIT_USAGE, "--iterations: %llu: at most %u searches",
		       (unsigned long long)(wl.ops ? wl.ops : wl.iterations), MAX_ROOTS);
	nr_roots = wl.seconds ? MAX_ROOTS : wl.ops ? wl.ops : wl.iterations;
	scale = (unsigned int)forced_scale;
	while (!forced_scale && scale < MAX_SCALE && bytes_of(scale + 1) <= wl.size &&
	       (2 * edgefactor << (scale + 1)) < UINT32_MAX)
		scale++;
	if (scale < 4 || bytes_of(scale) > wl.size || (2 * edgefactor << scale) >= UINT32_MAX)
		tg_die(TG_EXIT_USAGE, "--size: %llu bytes do not hold %llu searches at edge factor %llu and scale %u",
		       (unsigned long long)wl.size, (unsigned long long)nr_roots, (unsigned long long)edgefactor,
		       scale < 4 ? 4 : scale);
	nr_vertices = 1ull << scale;
	nr_edges = nr_vertices * edgefactor;
}

static void prepare(void)
{
	uint64_t key = wl_hash(29, 0), found = 0;

	edges = wl_take(nr_edges * sizeof(*edges), "the edges");
	row = wl_take((nr_vertices + 1) * sizeof(*row), "the rows");
	column = wl_take(2 * nr_edges * sizeof(*column), "the neighbours");
	graph_bytes = wl.size - wl_left();
	trees = wl_take(nr_roots * nr_vertices * sizeof(*trees), "the trees");
	frontier[0] = wl_take(nr_vertices * sizeof(uint32_t), "the first frontier");
	frontier[1] = wl_take(nr_vertices * sizeof(uint32_t), "the second frontier");
	make_table();
	for (uint64_t i = 0; i < nr_edges; i++)
		edges[i] = make_edge(i, key);
	make_rows();
	for (uint64_t i = 0; found < nr_roots; i++) {
		uint32_t v = (uint32_t)(wl_hash(28, i) & (nr_vertices - 1));

		if (row[v + 1] != row[v])
			searches[found++].root = v;
	}
	graph_sum = wl_sum(edges, graph_bytes);
}

/* ---- the search ---- */

static void append(uint32_t *to, uint64_t *count, const uint32_t *buffer, unsigned int n)
{
	uint64_t at = __atomic_fetch_add(count, n, __ATOMIC_RELAXED);

	memcpy(to + at, buffer, n * sizeof(*buffer));
}

/* This thread's part of a level: from frontier @side to the other. */
static void expand(uint32_t *tree, unsigned int side)
{
	uint32_t buffer[BUFFER], *next = frontier[!side];
	uint64_t all = length[side], at;
	unsigned int used = 0;

	while ((at = __atomic_fetch_add(&grabbed, GRAB, __ATOMIC_RELAXED)) < all) {
		uint64_t end = at + GRAB < all ? at + GRAB : all;

		for (; at < end; at++) {
			uint32_t v = frontier[side][at];

			for (uint32_t e = row[v]; e < row[v + 1]; e++) {
				uint32_t to = column[e], none = NONE;

				if (__atomic_load_n(&tree[to], __ATOMIC_RELAXED) != NONE ||
				    !__atomic_compare_exchange_n(&tree[to], &none, v, false, __ATOMIC_RELAXED,
								 __ATOMIC_RELAXED))
					continue;
				buffer[used++] = to;
				if (used == BUFFER) {
					append(next, &length[!side], buffer, used);
					used = 0;
				}
			}
		}
	}
	append(next, &length[!side], buffer, used);
}

/* One search, by all threads together; thread 0 does what only one may do while the others wait. */
static void search(const struct wl_worker *w, uint64_t number)
{
	struct search *s = &searches[number];
	uint32_t *tree = trees + number * nr_vertices;
	uint64_t from = nr_vertices * w->id / wl.threads, to = nr_vertices * (w->id + 1) / wl.threads;
	uint64_t began = wl_now();
	unsigned int side = 0;

	memset(tree + from, 0xff, (to - from) * sizeof(*tree));
	wl_meet();
	if (!w->id) {
		tree[s->root] = s->root;
		frontier[0][0] = s->root;
		length[0] = 1;
		length[1] = 0;
		grabbed = 0;
	}
	wl_meet();
	while (length[side]) {
		expand(tree, side);
		wl_meet();
		if (!w->id) {
			length[side] = 0;
			grabbed = 0;
			s->depth++;
		}
		side = !side;
		wl_meet();
	}
	if (!w->id)
		s->ns = wl_now() - began;
}

static void work(struct wl_worker *w)
{
	static bool stop;

	while (w->ops < nr_roots) {
		search(w, w->ops++);
		if (!w->id)
			stop = __atomic_load_n(&wl_stop, __ATOMIC_RELAXED);
		wl_meet();
		if (stop)
			return;
	}
}

/* ---- the check ---- */

/* Levels by way of the parents; false when they lead in a circle or out of the tree. */
static bool find_levels(const uint32_t *tree, uint32_t root, uint32_t *level)
{
	memset(level, 0xff, nr_vertices * sizeof(*level));
	level[root] = 0;
	for (uint64_t v = 0; v < nr_vertices; v++) {
		uint32_t at = (uint32_t)v, steps = 0;

		if (tree[v] == NONE)
			continue;
		while (level[at] == NONE) {
			at = tree[at];
			if (at >= nr_vertices || ++steps > nr_vertices)
				return false;
		}
		steps += level[at];
		for (at = (uint32_t)v; level[at] == NONE; at = tree[at])
			level[at] = steps--;
	}
	return true;
}

static bool is_neighbour(uint32_t v, uint32_t of)
{
	for (uint32_t e = row[v]; e < row[v + 1]; e++)
		if (column[e] == of)
			return true;
	return false;
}

/* Levels that the ends of an edge may have. */
static bool may_touch(uint32_t one, uint32_t two)
{
	if (one == NONE || two == NONE)
		return one == two;
	return one == two || one + 1 == two || two + 1 == one;
}

static void verify_search(uint64_t number, uint32_t *level)
{
	struct search *s = &searches[number];
	const uint32_t *tree = trees + number * nr_vertices;

	if (tree[s->root] != s->root || !find_levels(tree, s->root, level)) {
		wl_wrong("search %llu: the parents are no tree", (unsigned long long)number);
		return;
	}
	for (uint64_t v = 0; v < nr_vertices; v++) {
		if (level[v] == NONE)
			continue;
		s->vertices++;
		level_sum += wl_mix(number * nr_vertices + v + ((uint64_t)level[v] << 40));
		if (v != s->root && !is_neighbour((uint32_t)v, tree[v]))
			wl_wrong("search %llu: vertex %llu is no neighbour of its parent %u",
				 (unsigned long long)number, (unsigned long long)v, tree[v]);
	}
	for (uint64_t i = 0; i < nr_edges; i++) {
		uint32_t one = level[edges[i].from], two = level[edges[i].to];

		s->edges += one != NONE && edges[i].from != edges[i].to;
		if (!may_touch(one, two))
			wl_wrong("search %llu: edge %llu leads from level %d to level %d", (unsigned long long)number,
				 (unsigned long long)i, (int)one, (int)two);
	}
}

static void verify(void)
{
	uint32_t *level = malloc(nr_vertices * sizeof(*level));

	if (!level)
		tg_die(TG_EXIT_FAILED, "no memory to check the levels");
	if (wl_sum(edges, graph_bytes) != graph_sum)
		wl_wrong("the graph changed, and nothing writes to it");
	for (uint64_t i = 0; i < wl_workers[0].ops; i++)
		verify_search(i, level);
	free(level);
}

static uint64_t checksum(void)
{
	return level_sum;
}

static void sabotage(const char *kind)
{
	uint32_t *tree = trees, leaf = frontier[0][0], root = searches[0].root;

	for (uint64_t v = 0; v < nr_vertices; v++)
		if (tree[v] != NONE && tree[v] != root && v != root)
			leaf = (uint32_t)v;
	if (!strcmp(kind, "graph"))
		column[wl_below(wl_hash(99, 0), row[nr_vertices])] ^= 1;
	else if (!strcmp(kind, "cycle"))
		tree[leaf] = leaf;
	else if (!strcmp(kind, "lost"))
		tree[leaf] = NONE;
	else
		tree[leaf] = root;	/* two levels or more above it, so no neighbour */
}

static void report(void)
{
	uint64_t done = wl_workers[0].ops;
	double inverse = 0;

	printf("  \"graph\": {\"scale\": %u, \"vertices\": %llu, \"edges\": %llu, \"bytes\": %llu},\n  \"searches\": [",
	       scale, (unsigned long long)nr_vertices, (unsigned long long)nr_edges,
	       (unsigned long long)(wl.size - wl_left()));
	for (uint64_t i = 0; i < done; i++) {
		const struct search *s = &searches[i];
		double teps = s->ns ? (double)s->edges * 1e9 / (double)s->ns : 0;

		inverse += teps > 0 ? 1 / teps : 0;
		printf("%s\n    {\"root\": %u, \"levels\": %u, \"vertices\": %llu, \"edges\": %llu, "
		       "\"elapsed_ns\": %llu, \"teps\": %.0f}", i ? "," : "", s->root, s->depth, (unsigned long long)s->vertices, (unsigned long long)s->edges,
		       (unsigned long long)s->ns, teps);
	}
	printf("],\n  \"harmonic_mean_teps\": %.0f,\n", inverse > 0 ? (double)done / inverse : 0);
}

static uint64_t unit(void)
{
	return 1;
}

static const struct wl_option options[] = {
	{ "edgefactor", WL_NUMBER, &edgefactor, 1, 64, NULL, "edges a vertex", false },
	{ "scale", WL_NUMBER, &forced_scale, 0, MAX_SCALE, NULL, "2^N vertices; 0: as many as fit", false },
	{ 0 },
};

static const struct wl_workload bfs = {
	.name = "bfs",
	.purpose = "Breadth-first searches in a Kronecker graph, after Graph500; an operation is a search.",
	.options = options,
	.defaults = { .iterations = 8 },
	.check = choose_scale,
	.unit = unit,
	.prepare = prepare,
	.work = work,
	.sabotage = sabotage,
	.verify = verify,
	.checksum = checksum,
	.report = report,
	.shared_ops = true,
};

int main(int argc, char **argv)
{
	return wl_main(&bfs, argc, argv);
}

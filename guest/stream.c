// SPDX-License-Identifier: GPL-2.0
/*
 * stream: sustained bandwidth of four simple vector kernels, after the description of McCalpin's
 * STREAM benchmark (https://www.cs.virginia.edu/stream/ref.html): copy c = a, scale b = 3c, add
 * c = a + b, triad a = b + 3c.  Bytes are counted as STREAM counts them: what the kernel names,
 * without the line that a write first has to read.
 *
 * The elements are 64-bit integers that wrap around, so that the check at the end is exact: every
 * element of an array started equal, so all must have the value that the recurrence gives.  Three
 * times x is a shift and an addition, done 16 bytes at a time; a line of 64 bytes costs a kernel 11
 * to 27 instructions.
 *
 * With --own-touch each thread writes its part of the arrays first, as an OpenMP program's do: what lies on
 * the node of the CPU that it began on is near until the scheduler takes it elsewhere.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "wl.h"

#define MAX_ROUNDS	65536u
#define NEAR_PROBES	64u	/* of each thread's part */

#define FIRST_A	1ull
#define FIRST_B	2ull
#define FIRST_C	0ull
#define LINE_VECTORS 4u

typedef uint64_t vector __attribute__((vector_size(16)));

enum kernel { COPY, SCALE, ADD, TRIAD, NR_KERNELS };

static const char * const names[NR_KERNELS] = { "copy", "scale", "add", "triad" };
static const unsigned int arrays[NR_KERNELS] = { 2, 2, 3, 3 };

struct timing {
	uint64_t best, worst, sum;
};

static vector *a, *b, *c;
static uint64_t nr_lines;
static struct timing timing[NR_KERNELS];
static unsigned int own_touch;
static uint64_t round_end_ns[MAX_ROUNDS], nr_rounds;	/* from wl_start_ns on */
static unsigned int node_of[WL_MAX_THREADS];	/* where the thread was when it last finished a kernel */
static struct wl_sample *near;
static unsigned int nr_near, max_near;

/* @n lines of each array. */
static void copy(vector *to, const vector *from, uint64_t n)
{
	for (; n; n--, to += LINE_VECTORS, from += LINE_VECTORS) {
		vector x0 = from[0], x1 = from[1], x2 = from[2], x3 = from[3];

		to[0] = x0;
		to[1] = x1;
		to[2] = x2;
		to[3] = x3;
	}
}

static void scale(vector *to, const vector *from, uint64_t n)
{
	for (; n; n--, to += LINE_VECTORS, from += LINE_VECTORS) {
		vector x0 = from[0], x1 = from[1], x2 = from[2], x3 = from[3];

		to[0] = x0 + (x0 << 1);
		to[1] = x1 + (x1 << 1);
		to[2] = x2 + (x2 << 1);
		to[3] = x3 + (x3 << 1);
	}
}

static void add(vector *to, const vector *one, const vector *two, uint64_t n)
{
	for (; n; n--, to += LINE_VECTORS, one += LINE_VECTORS, two += LINE_VECTORS) {
		to[0] = one[0] + two[0];
		to[1] = one[1] + two[1];
		to[2] = one[2] + two[2];
		to[3] = one[3] + two[3];
	}
}

static void triad(vector *to, const vector *one, const vector *two, uint64_t n)
{
	for (; n; n--, to += LINE_VECTORS, one += LINE_VECTORS, two += LINE_VECTORS) {
		vector y0 = two[0], y1 = two[1], y2 = two[2], y3 = two[3];

		to[0] = one[0] + y0 + (y0 << 1);
		to[1] = one[1] + y1 + (y1 << 1);
		to[2] = one[2] + y2 + (y2 << 1);
		to[3] = one[3] + y3 + (y3 << 1);
	}
}

static void run_kernel(enum kernel kernel, uint64_t first, uint64_t n)
{
	uint64_t at = first * LINE_VECTORS;

	switch (kernel) {
	case COPY:
		copy(c + at, a + at, n);
		break;
	case SCALE:
		scale(b + at, c + at, n);
		break;
	case ADD:
		add(c + at, a + at, b + at, n);
		break;
	default:
		triad(a + at, b + at, c + at, n);
		break;
	}
}

static void note(enum kernel kernel, uint64_t ns)
{
	struct timing *t = &timing[kernel];

	t->sum += ns;
	t->worst = ns > t->worst ? ns : t->worst;
	t->best = !t->best || ns < t->best ? ns : t->best;
}

/* Where a thread's part of the arrays begins. */
static uint64_t first_line(uint64_t thread)
{
	return nr_lines * thread / wl.threads;
}

static void note_node(const struct wl_worker *w)
{
	unsigned int node;

	if (!getcpu(NULL, &node))
		__atomic_store_n(&node_of[w->id], node, __ATOMIC_RELAXED);
}

static void work(struct wl_worker *w)
{
	uint64_t first = first_line(w->id), n = first_line(w->id + 1) - first;
	uint64_t before = wl_now(), now;

	/* All threads must agree on the end: one reads the flag while the others wait. */
	static bool stop;

	while (w->next < w->last) {
		for (enum kernel k = COPY; k < NR_KERNELS; k++) {
			run_kernel(k, first, n);
			note_node(w);
			if (!w->id && k == TRIAD)
				stop = __atomic_load_n(&wl_stop, __ATOMIC_RELAXED);
			wl_meet();
			now = wl_now();
			if (!w->id)
				note(k, now - before);
			before = now;
		}
		w->next++;
		w->ops++;
		if (!w->id && nr_rounds < MAX_ROUNDS)
			round_end_ns[nr_rounds++] = before - wl_start_ns;
		if (stop)
			return;
	}
}

/* Lines @first and on, @n of each array. */
static void fill(uint64_t first, uint64_t n)
{
	for (uint64_t i = first * LINE_VECTORS; i < (first + n) * LINE_VECTORS; i++) {
		a[i] = (vector){ FIRST_A + wl.seed, FIRST_A + wl.seed };
		b[i] = (vector){ FIRST_B, FIRST_B };
		c[i] = (vector){ FIRST_C, FIRST_C };
	}
}

static void touch(struct wl_worker *w)
{
	if (!own_touch)
		return;
	fill(first_line(w->id), first_line(w->id + 1) - first_line(w->id));
	note_node(w);
}

/* How many probes of each thread's part of the first array lie on the node where it is. */
static void sampled(void)
{
	static void *page[NEAR_PROBES];
	static int node[NEAR_PROBES];
	struct wl_sample *s = &near[nr_near];

	if (!own_touch || nr_near == max_near)
		return;
	s->ns = wl_now() - wl_start_ns;
	for (unsigned int t = 0; t < wl.threads; t++) {
		uint64_t from = first_line(t), lines = first_line(t + 1) - from;

		for (uint64_t i = 0; i < NEAR_PROBES; i++)
			page[i] = a + (from + lines * i / NEAR_PROBES) * LINE_VECTORS;
		if (tg_query_nodes(NEAR_PROBES, page, node))
			continue;
		for (unsigned int i = 0; i < NEAR_PROBES; i++) {
			s->known += node[i] >= 0;
			s->fast += node[i] == (int)__atomic_load_n(&node_of[t], __ATOMIC_RELAXED);
		}
	}
	nr_near++;
}

static void check(void)
{
	if (own_touch && (wl.place || wl.start_node >= 0))
		tg_die(TG_EXIT_USAGE, "--own-touch: the threads place the memory, so without --%s",
		       wl.place ? "place" : "start-node");
	wl_arena_untouched = own_touch;
}

static void prepare(void)
{
	uint64_t bytes = wl_left() / 3 & ~63ull;

	nr_lines = bytes / 64;
	a = wl_take(bytes, "the first array");
	b = wl_take(bytes, "the second array");
	c = wl_take(bytes, "the third array");
	max_near = own_touch ? MAX_ROUNDS : 0;
	near = calloc(max_near + 1, sizeof(*near));
	if (!near)
		tg_die(TG_EXIT_FAILED, "no memory for samples");
	if (!own_touch)
		fill(0, nr_lines);
}

static void check_array(const char *name, const vector *array, uint64_t wanted)
{
	const uint64_t *element = (const uint64_t *)array;

	for (uint64_t i = 0; i < nr_lines * 8; i++)
		if (element[i] != wanted)
			wl_wrong("array %s, element %llu is %#llx instead of %#llx", name, (unsigned long long)i,
				 (unsigned long long)element[i], (unsigned long long)wanted);
}

/* What one element of each array is after so many rounds. */
static void recur(uint64_t rounds, uint64_t *va, uint64_t *vb, uint64_t *vc)
{
	*va = FIRST_A + wl.seed;
	*vb = FIRST_B;
	*vc = FIRST_C;
	while (rounds--) {
		*vc = *va;
		*vb = 3 * *vc;
		*vc = *va + *vb;
		*va = *vb + 3 * *vc;
	}
}

static void verify(void)
{
	uint64_t va, vb, vc;

	recur(wl_workers[0].ops, &va, &vb, &vc);
	check_array("a", a, va);
	check_array("b", b, vb);
	check_array("c", c, vc);
}

static uint64_t checksum(void)
{
	uint64_t sum = 0;
	const uint64_t *element = (const uint64_t *)a;

	for (uint64_t i = 0; i < nr_lines * 8; i += 8)
		sum += element[i];
	return sum;
}

static void sabotage(const char *kind)
{
	vector *array = !strcmp(kind, "a") ? a : !strcmp(kind, "b") ? b : c;

	((char *)array)[wl_below(wl_hash(99, 0), nr_lines * 64)] ^= 1;
}

static void report(void)
{
	uint64_t rounds = wl_workers[0].ops;

	printf("  \"array_bytes\": %llu,\n  \"kernels\": [", (unsigned long long)nr_lines * 64);
	for (unsigned int k = 0; k < NR_KERNELS; k++) {
		uint64_t bytes = nr_lines * 64 * arrays[k], best = timing[k].best ? timing[k].best : 1;

		printf("%s\n    {\"name\": \"%s\", \"bytes\": %llu, \"best_ns\": %llu, \"mean_ns\": %llu, "
		       "\"max_ns\": %llu, \"best_mb_s\": %.1f}", k ? "," : "", names[k], (unsigned long long)bytes,
		       (unsigned long long)timing[k].best, (unsigned long long)(rounds ? timing[k].sum / rounds : 0),
		       (unsigned long long)timing[k].worst, (double)bytes * 1e3 / (double)best);
	}
	printf("],\n  \"round_ends_ms\": [");
	for (uint64_t i = 0; i < nr_rounds; i++)
		printf("%s%.3f", i ? ", " : "", (double)round_end_ns[i] / 1e6);
	printf("],\n  \"near_samples\": [");
	for (unsigned int i = 0; i < nr_near; i++)
		printf("%s[%.3f, %u, %u]", i ? ", " : "", (double)near[i].ns / 1e6, near[i].fast, near[i].known);
	printf("],\n");
}

static uint64_t unit(void)
{
	return 1;
}

static const struct wl_option options[] = {
	{ "own-touch", WL_FLAG, &own_touch, 0, 0, NULL, "each thread writes its part of the arrays first", false },
	{ 0 },
};

static const struct wl_workload stream = {
	.name = "stream",
	.purpose = "Bandwidth of copy, scale, add and triad over three arrays; an operation is all four once.",
	.options = options,
	.defaults = { .iterations = 10 },
	.check = check,
	.unit = unit,
	.prepare = prepare,
	.touch = touch,
	.sampled = sampled,
	.work = work,
	.sabotage = sabotage,
	.verify = verify,
	.checksum = checksum,
	.report = report,
	.shared_ops = true,
};

int main(int argc, char **argv)
{
	return wl_main(&stream, argc, argv);
}

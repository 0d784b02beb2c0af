// SPDX-License-Identifier: GPL-2.0
/*
 * chase: dependent reads.  All of the arena is nodes of 64 bytes in one random cycle; every thread follows it
 * from a place of its own, one step after the other.  Nothing can be fetched ahead, so time is
 * latency.
 *
 * Every node knows its place in the cycle.  Each thread adds up the places that it passes, which must
 * be the sum of the numbers from its start on; at the end the cycle must lead through every node once.
 */
#define _GNU_SOURCE
#include "wl.h"

struct node {
	struct node *next;
	uint64_t place, fill[6];
};

static struct node *node;
static uint64_t nr_nodes;
static struct node *start[WL_MAX_THREADS];

static void work(struct wl_worker *w)
{
	const struct node *at = start[w->id];
	uint64_t first, n, sum = 0;

	while ((n = wl_chunk(w, &first))) {
		for (; n; n--) {
			sum += at->place;
			at = at->next;
		}
	}
	w->checksum = sum;
}

/* One cycle through all nodes in random order (Sattolo's shuffle), then each node's place in it. */
static void prepare(void)
{
	uint64_t state = wl_hash(2, 0) | 1;
	struct node *at;
	unsigned int t = 0;

	nr_nodes = wl_left() / sizeof(*node);
	if (nr_nodes > UINT32_MAX)
		tg_die(TG_EXIT_USAGE, "--size: %llu bytes are more than 2^32 nodes", (unsigned long long)wl.size);
	node = wl_take(nr_nodes * sizeof(*node), "the nodes");
	for (uint64_t i = 0; i < nr_nodes; i++)
		node[i].next = &node[i];
	for (uint64_t i = nr_nodes - 1; i; i--) {
		uint64_t j = wl_below(wl_next(&state), i);
		struct node *next = node[i].next;

		node[i].next = node[j].next;
		node[j].next = next;
	}
	at = node;
	for (uint64_t i = 0; i < nr_nodes; i++, at = at->next) {
		at->place = i;
		while (t < wl.threads && i == nr_nodes * t / wl.threads)
			start[t++] = at;
	}
}

static uint64_t unit(void)
{
	return nr_nodes;
}

/* The sum of @steps places from @from on, around the cycle. */
static uint64_t sum_of_places(uint64_t from, uint64_t steps)
{
	uint64_t sum = steps / nr_nodes * (nr_nodes * (nr_nodes - 1) / 2);

	for (steps %= nr_nodes; steps; steps--) {
		sum += from;
		from = from + 1 == nr_nodes ? 0 : from + 1;
	}
	return sum;
}

static void verify(void)
{
	const struct node *at = node;

	for (unsigned int t = 0; t < wl.threads; t++)
		if (wl_workers[t].checksum != sum_of_places(nr_nodes * t / wl.threads, wl_workers[t].ops))
			wl_wrong("thread %u did not pass the places that follow one another", t);
	for (uint64_t i = 0; i < nr_nodes; i++, at = at->next) {
		if (at < node || at >= node + nr_nodes || at->place != i) {
			wl_wrong("the cycle is broken at place %llu", (unsigned long long)i);
			return;
		}
	}
	if (at != node)
		wl_wrong("the cycle does not end where it began");
}

/* Where the nodes lie, for the places alone are the same with every seed. */
static uint64_t checksum(void)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < nr_nodes; i++)
		sum += wl_mix(i + node[i].place * WL_GOLDEN);
	return sum;
}

static void sabotage(const char *kind)
{
	uint64_t i = wl_below(wl_hash(99, 0), nr_nodes);

	if (!strcmp(kind, "link"))
		node[i].next = &node[(i + 1) % nr_nodes];
	else
		node[i].place ^= 1;
}

static void report(void)
{
	uint64_t ns = 0, ops = 0;

	for (unsigned int t = 0; t < wl.threads; t++) {
		ns += wl_workers[t].elapsed_ns;
		ops += wl_workers[t].ops;
	}
	printf("  \"nodes\": %llu,\n  \"step_ns\": %.2f,\n", (unsigned long long)nr_nodes,
	       ops ? (double)ns / (double)ops : 0.0);
}

static const struct wl_workload chase = {
	.name = "chase",
	.purpose = "Dependent reads along a random cycle through all memory; an operation is a step.",
	.defaults = { .iterations = 16 },
	.unit = unit,
	.prepare = prepare,
	.work = work,
	.sabotage = sabotage,
	.verify = verify,
	.checksum = checksum,
	.report = report,
};

int main(int argc, char **argv)
{
	return wl_main(&chase, argc, argv);
}

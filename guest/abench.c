// SPDX-License-Identifier: GPL-2.0
/*
 * abench: random 4 KiB page accesses over memory that starts on one node.
 *
 * All of the memory is first written while the task is bound to the start node (by default the
 * first node without CPUs).  The policy then goes back to the default, so that the
 * kernel is free to move pages.  Every thread visits random pages: it reads the page's tag and, in
 * the given share of visits, adds one to its own counter in that page.  At the end all tags and
 * counters are checked: a page that lost a write or took another page's content while it moved
 * fails the run.
 *
 * The result has a form of its own, that the demo reads; --json workload prints that of the other workloads.
 */
#define _GNU_SOURCE
#include "wl.h"

#define SPIN_LIMIT_US	100u
#define NO_NODE		TG_MAX_NODES	/* not given */

static const char * const forms[] = { "abench", "workload", NULL };
static uint64_t delay_us = 1, write_percent = 25, node_option = NO_NODE;
static unsigned int form;
static int node;

/* What does not change from one visit to the next. */
struct view {
	char *arena;
	uint64_t pages, tag_base;
	uint32_t limit;		/* of 16 random bits, times 100, below which a visit writes */
};

/* One random page; the loop that the whole program is about. */
static inline void visit(struct wl_worker *w, const struct view *v, uint64_t *state)
{
	volatile uint64_t *page;
	uint64_t index, x = wl_next(state);

	index = wl_below(x, v->pages);
	page = (volatile uint64_t *)(v->arena + index * WL_PAGE);
	if (page[0] != wl_mix(index + v->tag_base))
		w->wrong++;
	if ((x & 0xffff) * 100 < v->limit) {
		page[WL_FIRST_COUNTER + w->id]++;
		w->writes++;
	}
}

/* A pause between iterations; a short one spins, for a sleep takes 50 us and more to come back from. */
static void pause_for(uint64_t us)
{
	struct timespec rest = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };
	uint64_t end = wl_now() + us * 1000;

	if (us >= SPIN_LIMIT_US) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, NULL);
		return;
	}
	while (us && wl_now() < end)
		continue;
}

/* Whole iterations, each of as many visits of this thread as of every other. */
static void work(struct wl_worker *w)
{
	const struct view view = { wl_arena, wl_pages, wl_tag_base(), (uint32_t)write_percent * 65536u };
	uint64_t state = wl_mix(wl.seed * 256 + w->id + 1) | 1;
	uint64_t visits = (wl_pages + wl.threads - 1) / wl.threads;
	uint64_t round = visits * wl.threads, iterations = wl.seconds ? UINT64_MAX : (wl_ops + round - 1) / round;

	for (uint64_t i = 0; i < iterations && !__atomic_load_n(&wl_stop, __ATOMIC_RELAXED); i++) {
		for (uint64_t v = 0; v < visits; v++)
			visit(w, &view, &state);
		w->ops += visits;
		pause_for(delay_us);
	}
	w->checksum = state;
}

static void choose_node(void)
{
	if (!wl_knows_nodes)
		tg_die(TG_EXIT_FAILED, "this kernel does not say which nodes have memory and CPUs");
	for (int i = 0; i < TG_MAX_NODES && node_option == NO_NODE; i++)
		if (wl_node_has_memory[i] && !wl_node_is_fast[i])
			node_option = (uint64_t)i;
	if (node_option == NO_NODE)
		tg_die(TG_EXIT_FAILED, "no node without CPUs has memory; name one with --node");
	node = (int)node_option;
	if (!wl_node_has_memory[node])
		tg_die(TG_EXIT_USAGE, "--node: node %d has no memory", node);
	wl.start_node = node;
}

/* --start-node, which also knows "none", goes before --node and its default. */
static void check(void)
{
	if (wl.start_node == NO_NODE)
		choose_node();
	else
		node = wl.start_node;
	if (wl.size / WL_PAGE < wl.threads)
		tg_die(TG_EXIT_USAGE, "--size: %llu bytes are fewer pages than threads", (unsigned long long)wl.size);
}

/* ---- its own form of the result ---- */

static void print_placement(const char *name, const struct wl_placement *p)
{
	uint64_t fast = 0;

	for (int i = 0; i < TG_MAX_NODES; i++)
		fast += wl_node_is_fast[i] ? p->by_node[i] : 0;
	printf("  \"%s\": {\"pages\": %llu, \"on_start_node\": %llu, \"in_dram\": %llu},\n", name,
	       (unsigned long long)p->pages, (unsigned long long)(node < 0 ? 0 : p->by_node[node]),
	       (unsigned long long)fast);
}

static void print_samples(void)
{
	unsigned int count;
	const struct wl_sample *s = wl_samples(0, &count);

	printf("  \"samples\": [");
	for (unsigned int i = 0; i < count; i++)
		printf("%s[%.3f, %.4f]", i ? ", " : "", (double)s[i].ns / 1e6,
		       s[i].known ? (double)s[i].fast / s[i].known : 0.0);
	printf("],\n");
}

static void print_threads(void)
{
	printf("  \"threads\": [");
	for (unsigned int i = 0; i < wl.threads; i++)
		printf("%s\n    {\"visits\": %llu, \"writes\": %llu, \"cpu_ns\": %llu, \"elapsed_ns\": %llu}",
		       i ? "," : "", (unsigned long long)wl_workers[i].ops,
		       (unsigned long long)wl_workers[i].writes, (unsigned long long)wl_workers[i].cpu_ns,
		       (unsigned long long)wl_workers[i].elapsed_ns);
	printf("],\n");
}

static void print_kthreads(void)
{
	const char *comma = "";

	printf("  \"kthread_cpu_ns\": {");
	for (unsigned int i = 0; i < wl_result.after.nr_kthreads; i++) {
		const struct wl_kthread *k = &wl_result.after.kthreads[i];

		printf("%s\"%s\": %llu", comma, k->name, (unsigned long long)wl_kthread_ns(&wl_result.before, k));
		comma = ", ";
	}
	printf("},\n");
}

static bool print(void)
{
	const struct wl_result *r = &wl_result;

	if (form)
		return false;
	printf("{\n  \"schema\": \"terrace.abench/1\",\n");
	printf("  \"options\": {\"size\": %llu, \"threads\": %llu, \"iterations\": %llu, \"delay_us\": %llu, "
	       "\"write_percent\": %llu, \"seed\": %llu, \"node\": %d, \"thp\": %s, \"sample_ms\": %llu, "
	       "\"probes\": %llu},\n", (unsigned long long)wl.size, (unsigned long long)wl.threads,
	       (unsigned long long)wl.iterations, (unsigned long long)delay_us, (unsigned long long)write_percent,
	       (unsigned long long)wl.seed, node, wl.thp ? "true" : "false",
	       (unsigned long long)wl.sample_ms, (unsigned long long)wl.probes);
	print_placement("placed_first", &r->first);
	print_placement("placed_last", &r->last);
	print_samples();
	print_threads();
	wl_print_vmstat(&r->before, &r->after);
	print_kthreads();
	printf("  \"tlb_shootdowns\": %llu,\n", (unsigned long long)(r->after.shootdowns - r->before.shootdowns));
	printf("  \"bad_contents\": %llu,\n", (unsigned long long)wl_nr_wrong);
	printf("  \"elapsed_ns\": %llu\n}\n", (unsigned long long)r->elapsed_ns);
	return true;
}

static const struct wl_option options[] = {
	{ "delay", WL_NUMBER, &delay_us, 0, 3600000000u, NULL,
	  "pause of each thread between iterations, in microseconds", false },
	{ "write-percent", WL_NUMBER, &write_percent, 0, 100, NULL, "share of visits that also write", false },
	{ "node", WL_NUMBER, &node_option, 0, TG_MAX_NODES - 1, NULL,
	  "where the memory lies at first, unless --start-node is given; neither: the first node without CPUs", false },
	{ "json", WL_CHOICE, &form, 0, 0, forms, "form of the result", false },
	{ 0 },
};

static const struct wl_workload abench = {
	.name = "abench",
	.purpose = "Random 4 KiB page accesses over memory that starts on one node; an operation is a visit.",
	.options = options,
	.defaults = { .iterations = 16, .threads = 4, .start_node = NO_NODE },
	.check = check,
	.prepare = wl_pages_fill,
	.work = work,
	.sabotage = wl_pages_sabotage,
	.verify = wl_pages_verify,
	.print = print,
};

int main(int argc, char **argv)
{
	return wl_main(&abench, argc, argv);
}

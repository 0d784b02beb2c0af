// SPDX-License-Identifier: GPL-2.0
/*
 * From options to result: the order of things in every workload, and what all of them print.
 * docs/reference/schema/workload.schema.json describes it.
 */
#define _GNU_SOURCE
#include "wl.h"

struct wl_result wl_result;

/* Own default where a workload has one; zero is never a default that differs from the common one. */
static void take_defaults(const struct wl_common *d)
{
	if (d->size)
		wl.size = d->size;
	if (d->threads)
		wl.threads = d->threads;
	wl.iterations = d->iterations ? d->iterations : 1;
	if (d->start_node)
		wl.start_node = d->start_node;
}

/* ---- latency ---- */

/* The smallest value that falls into bucket @i. */
static uint64_t bucket_low(unsigned int i)
{
	const unsigned int subs = 1u << WL_SUB_BITS;

	return i < 2 * subs ? i : (uint64_t)(i % subs + subs) << (i / subs - 1);
}

static struct wl_histogram *merged(void)
{
	static struct wl_histogram all;

	memset(&all, 0, sizeof(all));
	for (unsigned int t = 0; t < wl.threads; t++) {
		const struct wl_histogram *h = wl_workers[t].latency;

		if (!h)
			continue;
		all.count += h->count;
		all.sum += h->sum;
		all.max = h->max > all.max ? h->max : all.max;
		for (unsigned int i = 0; i < WL_BUCKETS; i++)
			all.bucket[i] += h->bucket[i];
	}
	return &all;
}

/* The upper end of the bucket that @permille of a thousand values do not exceed. */
static uint64_t percentile(const struct wl_histogram *h, uint64_t permille)
{
	uint64_t seen = 0, wanted = (h->count * permille + 999) / 1000;

	for (unsigned int i = 0; i + 1 < WL_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= wanted)
			return bucket_low(i + 1) - 1 < h->max ? bucket_low(i + 1) - 1 : h->max;
	}
	return h->max;
}

void wl_print_latency(const char *name)
{
	const struct wl_histogram *h = merged();

	printf("  \"%s\": {\"count\": %llu, \"mean\": %llu, \"p50\": %llu, \"p99\": %llu, \"p999\": %llu, "
	       "\"max\": %llu},\n", name, (unsigned long long)h->count, (unsigned long long)(h->count ? h->sum / h->count : 0),
	       (unsigned long long)percentile(h, 500), (unsigned long long)percentile(h, 990),
	       (unsigned long long)percentile(h, 999), (unsigned long long)h->max);
}

void wl_print_buckets(const char *name)
{
	const struct wl_histogram *h = merged();
	const char *comma = "";

	printf("  \"%s\": [", name);
	for (unsigned int log = 0; log < 64; log++) {
		uint64_t count = 0;

		for (unsigned int i = 0; i < WL_BUCKETS; i++)
			if (bucket_low(i) >> log == 1 || (!log && !i))
				count += h->bucket[i];
		if (!count)
			continue;
		printf("%s[%llu, %llu]", comma, 1ull << log, (unsigned long long)count);
		comma = ", ";
	}
	printf("],\n");
}

/* ---- the result ---- */

static void print_threads(void)
{
	printf("  \"threads\": [");
	for (unsigned int i = 0; i < wl.threads; i++) {
		const struct wl_worker *w = &wl_workers[i];

		printf("%s\n    {\"ops\": %llu, \"writes\": %llu, \"cpu_ns\": %llu, \"elapsed_ns\": %llu}",
		       i ? "," : "", (unsigned long long)w->ops, (unsigned long long)w->writes,
		       (unsigned long long)w->cpu_ns, (unsigned long long)w->elapsed_ns);
	}
	printf("],\n");
}

static void print_kthreads(const struct wl_counters *before, const struct wl_counters *after)
{
	printf("  \"kthreads\": [");
	for (unsigned int i = 0; i < after->nr_kthreads; i++)
		printf("%s{\"name\": \"%s\", \"cpu_ns\": %llu}", i ? ", " : "", after->kthreads[i].name,
		       (unsigned long long)wl_kthread_ns(before, &after->kthreads[i]));
	printf("],\n");
}

static uint64_t sum_checksums(void)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < wl.threads; i++)
		sum += wl_workers[i].checksum;
	return sum;
}

static uint64_t sum_ops(const struct wl_workload *workload)
{
	uint64_t sum = 0;

	if (workload->shared_ops)
		return wl_workers[0].ops;
	for (unsigned int i = 0; i < wl.threads; i++)
		sum += wl_workers[i].ops;
	return sum;
}

/* --sabotage early-KIND: before the run; KIND: between run and check. */
static void sabotage(const struct wl_workload *workload, bool early)
{
	const char *kind = wl.sabotage;

	if (!kind || !strncmp(kind, "early-", 6) != early)
		return;
	workload->sabotage(kind + (early ? 6 : 0));
}

static void print(const struct wl_workload *workload)
{
	const struct wl_result *r = &wl_result;
	uint64_t checksum = workload->checksum ? workload->checksum() : sum_checksums();

	printf("{\n  \"schema\": \"terrace.workload\",\n  \"version\": 1,\n  \"workload\": \"%s\",\n", workload->name);
	wl_print_options();
	printf("  \"elapsed_ns\": %llu,\n  \"ops\": %llu,\n", (unsigned long long)r->elapsed_ns,
	       (unsigned long long)sum_ops(workload));
	if (workload->report)
		workload->report();
	wl_print_placement("placed_first", &r->first);
	wl_print_placement("placed_last", &r->last);
	wl_print_samples("samples", 0);
	wl_print_scan();
	wl_print_burst();
	print_threads();
	wl_print_vmstat(&r->before, &r->after);
	print_kthreads(&r->before, &r->after);
	printf("  \"shootdowns\": %llu,\n", (unsigned long long)(r->after.shootdowns - r->before.shootdowns));
	printf("  \"checksum\": \"%016llx\",\n  \"wrong\": %llu,\n  \"ok\": %s\n}\n", (unsigned long long)checksum,
	       (unsigned long long)wl_nr_wrong, wl_nr_wrong ? "false" : "true");
}

int wl_main(const struct wl_workload *workload, int argc, char **argv)
{
	struct wl_result *r = &wl_result;

	take_defaults(&workload->defaults);
	wl_parse(workload->options, workload->name, workload->purpose, argc, argv);
	wl_read_nodes();
	if (workload->check)
		workload->check();
	wl_arena_make(workload->file ? workload->file() : -1);
	if (workload->prepare)
		workload->prepare();
	wl_ops = wl.ops ? wl.ops : wl.iterations * (workload->unit ? workload->unit() : wl_pages);
	wl_start(workload);
	sabotage(workload, true);
	r->first = wl_look(0, wl_pages, 1);
	wl_choose_probes(0, wl_pages, 1, 0);
	wl_read_counters(&r->before);
	wl_set_late();
	r->elapsed_ns = wl_run();
	wl_read_counters(&r->after);
	r->last = wl_look(0, wl_pages, 1);
	sabotage(workload, false);
	workload->verify();
	if (!workload->print || !workload->print())
		print(workload);
	return wl_nr_wrong ? TG_EXIT_FAILED : 0;
}

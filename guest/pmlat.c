// SPDX-License-Identifier: GPL-2.0
/*
 * pmlat: the latency of single accesses to random pages, after the description of pmbench (Yang and
 * Seymour, "Pmbench: a micro-benchmark for profiling paging performance on a system with low-latency
 * SSDs", 2018): what a page fault, a hint fault or a scan in the task's own time costs shows as a
 * stall of one access.
 *
 * Every access takes a page by the pattern (uniform; normal, around the middle; linear, each thread through its
 * own part) and a word in it; it reads, or adds one to the thread's own counter.  The time from one
 * access to the next goes into a histogram; one above the limit is also listed with its time.
 * The tags and counters of wl_arena.c are the check.
 */
#define _GNU_SOURCE
#include "wl.h"

#define MAX_STALLS	4096u	/* listed for each thread; all are counted */

enum pattern { UNIFORM, NORMAL, LINEAR };

struct stall {
	uint64_t at_ns, ns;
};

struct log {
	uint64_t count;
	struct stall stall[MAX_STALLS];
};

static const char * const patterns[] = { "uniform", "normal", "linear", NULL };
static unsigned int pattern;
static uint64_t read_percent = 50, stall_us = 1000;
static struct log *logs;

/* Four times 16 bits added up are nearly normal: mean pages/2, deviation 0.144 pages. */
static inline uint64_t normal(uint64_t x, uint64_t pages)
{
	uint64_t sum = (x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48);

	return sum * pages >> 18;
}

static inline uint64_t choose(uint64_t x, uint64_t number)
{
	if (pattern == UNIFORM)
		return wl_below(x, wl_pages);
	return pattern == NORMAL ? normal(x, wl_pages) : number % wl_pages;
}

static void note_stall(struct log *log, uint64_t now, uint64_t ns)
{
	if (log->count < MAX_STALLS)
		log->stall[log->count] = (struct stall){ now - ns - wl_start_ns, ns };
	log->count++;
}

static void work(struct wl_worker *w)
{
	struct log *log = &logs[w->id];
	uint64_t state = w->random, first, n, now, before = wl_now(), limit = stall_us * 1000, base = wl_tag_base();
	uint64_t reads = read_percent * 65536, sum = 0, ns;

	while ((n = wl_chunk(w, &first))) {
		for (uint64_t i = first; i < first + n; i++) {
			uint64_t x = wl_next(&state), page = choose(x, i);
			volatile uint64_t *word = wl_page(page);

			if (((x ^ x >> 24) & 0xffff) * 100 < reads) {
				if (word[0] != wl_mix(page + base))
					w->wrong++;
				sum += page;
			} else {
				word[WL_FIRST_COUNTER + w->id]++;
				w->writes++;
			}
			now = wl_now();
			ns = now - before;
			before = now;
			wl_note(w->latency, ns);
			if (ns > limit)
				note_stall(log, now, ns);
		}
	}
	w->checksum = sum;
}

static void prepare(void)
{
	logs = calloc(wl.threads, sizeof(*logs));
	if (!logs)
		tg_die(TG_EXIT_FAILED, "no memory for the lists of stalls");
	for (unsigned int t = 0; t < wl.threads; t++)
		wl_workers[t].latency = wl_histogram_new();
	wl_pages_fill();
}

static void report(void)
{
	const char *comma = "";
	uint64_t count = 0, listed = 0;

	wl_print_latency("latency_ns");
	wl_print_buckets("latency_by_log2");
	for (unsigned int t = 0; t < wl.threads; t++)
		count += logs[t].count;
	printf("  \"stalls\": {\"above_ns\": %llu, \"count\": %llu, \"list\": [", (unsigned long long)stall_us * 1000,
	       (unsigned long long)count);
	for (unsigned int t = 0; t < wl.threads; t++) {
		for (uint64_t i = 0; i < logs[t].count && i < MAX_STALLS; i++, listed++) {
			const struct stall *s = &logs[t].stall[i];

			printf("%s[%.3f, %llu, %u]", comma, (double)s->at_ns / 1e6, (unsigned long long)s->ns, t);
			comma = ", ";
		}
	}
	printf("], \"not_listed\": %llu},\n", (unsigned long long)(count - listed));
}

static const struct wl_option options[] = {
	{ "pattern", WL_CHOICE, &pattern, 0, 0, patterns, "how pages are chosen", false },
	{ "read-percent", WL_NUMBER, &read_percent, 0, 100, NULL,
	  "share of accesses that read; the others write", false },
	{ "stall-us", WL_NUMBER, &stall_us, 0, 10000000, NULL, "list accesses that take longer", false },
	{ 0 },
};

static const struct wl_workload pmlat = {
	.name = "pmlat",
	.purpose = "A histogram of the latency of single page accesses, and a list of the long ones.",
	.options = options,
	.defaults = { .iterations = 64 },
	.prepare = prepare,
	.work = work,
	.sabotage = wl_pages_sabotage,
	.verify = wl_pages_verify,
	.report = report,
};

int main(int argc, char **argv)
{
	return wl_main(&pmlat, argc, argv);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * heat: visits of pages whose weights are known and stay as they are, or change little by little.
 *
 *   zipf      the page of rank r is visited in proportion to r^-theta; theta 0: all alike
 *   tenants   two halves of the memory, each zipf, the first four times as busy as the other
 *   drift     --hot-share percent of the visits go to --hot-percent of the pages, and these are
 *             others little by little: --turns times all of them in the course of the run
 *
 * The pages are numbered by a permutation, page = i * stride mod pages, so that the ranks are spread over
 * all of the memory.  What drifts is counted in operations, so that the work does not depend on time.
 * The tags and counters of wl_arena.c are the check.
 */
#define _GNU_SOURCE
#include "wl_zipf.h"

enum load { ZIPF, TENANTS, DRIFT };

static const char * const loads[] = { "zipf", "tenants", "drift", NULL };
static unsigned int load, counts;
static uint64_t theta_milli = 990, hot_percent = 25, hot_share = 90, write_percent = 25, turns = 4;
static uint64_t hot_pages, stride, half;
static struct wl_zipf ranks;

/* How far the hot set has come by operation @op of a thread that has @last of them. */
static uint64_t drifted(uint64_t op, uint64_t last)
{
	return (uint64_t)((unsigned __int128)op * turns * hot_pages / (last + !last)) % wl_pages;
}

/* The number of the page to visit, before the permutation; @first: where the hot set begins. */
static inline uint64_t choose(uint64_t first, uint64_t *state)
{
	uint64_t x;

	if (load == ZIPF)
		return wl_zipf_draw(&ranks, state);
	x = wl_next(state);
	if (load == TENANTS)
		return wl_zipf_draw(&ranks, state) + (wl_below(x, 5) ? 0 : half);
	if ((x & 0xffff) < hot_share * 65536 / 100)
		return (first + wl_below(x, hot_pages)) % wl_pages;
	return wl_below(x, wl_pages);
}

static void work(struct wl_worker *w)
{
	const uint64_t from = w->next, mine = w->last - from, step = stride, base = wl_tag_base();
	const uint64_t pages = wl_pages, writing = write_percent * 256 / 100;
	uint64_t state = w->random, first, n, wrong = 0, writes = 0, sum = 0;

	while ((n = wl_chunk(w, &first))) {
		const uint64_t hot = load == DRIFT ? drifted(first - from, mine) : 0;

		for (; n; n--) {
			uint64_t page = choose(hot, &state) * step % pages;
			volatile uint64_t *word = wl_page(page);

			if (word[0] != wl_mix(page + base))
				wrong++;
			if ((state >> 16 & 0xff) < writing) {
				word[WL_FIRST_COUNTER + w->id]++;
				writes++;
			}
			sum += page;
		}
	}
	w->wrong += wrong;
	w->writes += writes;
	w->checksum += sum;
}

static void check(void)
{
	uint64_t pages = wl.size / WL_PAGE;

	hot_pages = pages * hot_percent / 100;
	if (load == DRIFT && !hot_pages)
		tg_die(TG_EXIT_USAGE, "--hot-percent: %llu of %llu pages is none", (unsigned long long)hot_percent,
		       (unsigned long long)pages);
	if (load == DRIFT && wl.seconds)
		tg_die(TG_EXIT_USAGE, "--seconds: what drifts is counted in operations");
}

static void prepare(void)
{
	stride = wl_stride(wl_pages);
	half = wl_pages / 2;
	wl_zipf_make(&ranks, load == TENANTS ? half : wl_pages, theta_milli);
	wl_pages_fill();
}

static uint64_t unit(void)
{
	return wl_pages;
}

static void report(void)
{
	printf("  \"hot_pages\": %llu,\n", (unsigned long long)(load == DRIFT ? hot_pages : 0));
	if (!counts)
		return;
	printf("  \"visits\": [");
	for (uint64_t i = 0; i < wl_pages; i++) {
		uint64_t written = 0;

		for (uint64_t t = 0; t < wl.threads; t++)
			written += wl_page(i * stride % wl_pages)[WL_FIRST_COUNTER + t];
		printf("%s%llu", i ? ", " : "", (unsigned long long)written);
	}
	printf("],\n");
}

static const struct wl_option options[] = {
	{ "load", WL_CHOICE, &load, 0, 0, loads, "who is visited how often", false },
	{ "theta", WL_NUMBER, &theta_milli, 0, 2000, NULL, "of zipf and tenants: 1000 times the exponent", false },
	{ "hot-percent", WL_NUMBER, &hot_percent, 1, 100, NULL, "of drift: share of the pages that are hot", false },
	{ "hot-share", WL_NUMBER, &hot_share, 0, 100, NULL, "of drift: percent of the visits that go to them", false },
	{ "turns", WL_NUMBER, &turns, 0, 1000, NULL, "of drift: how often all hot pages are others", false },
	{ "counts", WL_FLAG, &counts, 0, 0, NULL, "print the visits that wrote, by rank or number", false },
	{ "write-percent", WL_NUMBER, &write_percent, 0, 100, NULL, "share of visits that also write", false },
	{ 0 },
};

static const struct wl_workload workload = {
	.name = "heat",
	.purpose = "Page accesses with weights that stay, or drift; an operation is a visit of a page.",
	.options = options,
	.defaults = { .iterations = 256 },
	.check = check,
	.unit = unit,
	.prepare = prepare,
	.work = work,
	.sabotage = wl_pages_sabotage,
	.verify = wl_pages_verify,
	.report = report,
};

int main(int argc, char **argv)
{
	return wl_main(&workload, argc, argv);
}

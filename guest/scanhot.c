// SPDX-License-Identifier: GPL-2.0
/*
 * scanhot: one thread streams through a large cold area, touching each line once a pass, while the
 * others work on a small hot set.  A good policy keeps the hot set in fast memory and does not
 * promote what is touched once.
 *
 * The first --hot-percent of the pages are hot; with --hot-last they are the last ones, which first
 * touch puts into slow memory.  Operations are visits of the hot threads.  The
 * scanner does its --passes in step with them, so that both end together.
 *
 * Checks: the tags of wl_arena.c in all pages and its counters in the hot ones; a cold page has a number in the
 * last word of each line, and their sum in its second word.
 */
#define _GNU_SOURCE
#include "wl.h"

#define LINE_WORDS	8u
#define FILL_WORD	7u	/* of every line of a cold page but the first */

static uint64_t hot_percent = 10, write_percent = 25, passes = 2;
static unsigned int hot_last;
static uint64_t hot_pages, first_hot, first_cold, cold_pages;
static uint64_t visits_done, scanned_pages, scan_ns, scan_wrong;

/* What a cold page's lines hold in their last word. */
static inline uint64_t fill_of(uint64_t page, uint64_t line)
{
	return wl_mix(page * 64 + line + wl.seed);
}

static void scan_page(uint64_t page)
{
	volatile uint64_t *word = wl_page(page);
	uint64_t sum = 0, wanted = word[1];

	for (uint64_t line = 1; line < WL_PAGE / 64; line++)
		sum += word[line * LINE_WORDS + FILL_WORD];
	if (sum != wanted || word[0] != wl_tag(page))
		scan_wrong++;
}

/* Would page @i of @all be a larger share of the scan than the visits done are of theirs? */
static bool is_ahead(uint64_t i, uint64_t all)
{
	uint64_t done = __atomic_load_n(&visits_done, __ATOMIC_RELAXED);

	return !wl.seconds && i * (wl_ops / WL_CHUNK) > done / WL_CHUNK * all;
}

/* In step with the visits: the scan waits for them by sleeping shortly, and they never wait for it. */
static void scan(struct wl_worker *w)
{
	const struct timespec rest = { 0, 100000 };
	uint64_t all = passes * cold_pages, sum = 0;

	for (uint64_t i = 0; i < all; i++) {
		uint64_t page = first_cold + i % cold_pages;

		while (is_ahead(i, all))
			nanosleep(&rest, NULL);
		if (__atomic_load_n(&wl_stop, __ATOMIC_RELAXED))
			break;
		scan_page(page);
		sum += page;
		scanned_pages++;
	}
	scan_ns = wl_now() - wl_start_ns;
	w->checksum = sum;
}

static void visit_hot(struct wl_worker *w)
{
	uint64_t state = w->random, first, n, share = w->id - 1, sum = 0;
	const uint64_t hot = hot_pages, from = first_hot, base = wl_tag_base(), writing = write_percent * 65536;

	w->next = wl_ops * share / (wl.threads - 1);
	w->last = wl.seconds ? UINT64_MAX : wl_ops * (share + 1) / (wl.threads - 1);
	while ((n = wl_chunk(w, &first))) {
		for (uint64_t i = n; i; i--) {
			uint64_t x = wl_next(&state), page = from + wl_below(x, hot);
			volatile uint64_t *word = wl_page(page);

			if (word[0] != wl_mix(page + base))
				w->wrong++;
			if ((x & 0xffff) * 100 < writing) {
				word[WL_FIRST_COUNTER + w->id]++;
				w->writes++;
			}
			sum += page;
		}
		__atomic_add_fetch(&visits_done, n, __ATOMIC_RELAXED);
	}
	w->checksum = sum;
}

static void work(struct wl_worker *w)
{
	if (w->id)
		visit_hot(w);
	else
		scan(w);
}

static void check(void)
{
	uint64_t pages = wl.size / WL_PAGE;

	if (wl.threads < 2)
		tg_die(TG_EXIT_USAGE, "--threads: %llu: one scans, so at least 2 are needed",
		       (unsigned long long)wl.threads);
	hot_pages = pages * hot_percent / 100;
	cold_pages = pages - hot_pages;
	if (!hot_pages)
		tg_die(TG_EXIT_USAGE, "--hot-percent: %llu of %llu pages is none", (unsigned long long)hot_percent,
		       (unsigned long long)pages);
	first_hot = hot_last ? cold_pages : 0;
	first_cold = hot_last ? 0 : hot_pages;
}

static void prepare(void)
{
	wl_pages_fill();
	for (uint64_t page = first_cold; page < first_cold + cold_pages; page++) {
		volatile uint64_t *word = wl_page(page);
		uint64_t sum = 0;

		for (uint64_t line = 1; line < WL_PAGE / 64; line++) {
			word[line * LINE_WORDS + FILL_WORD] = fill_of(page, line);
			sum += fill_of(page, line);
		}
		word[1] = sum;
	}
	wl_choose_probes(first_hot, hot_pages, 1, 1);
}

static void sampled(void)
{
	wl_take_sample(1);
}

static void sabotage(const char *kind)
{
	if (!strcmp(kind, "skip"))
		scanned_pages--;
	else if (!strcmp(kind, "line"))
		wl_page(first_cold + wl_below(wl_hash(99, 0), cold_pages))[5 * LINE_WORDS + FILL_WORD] ^= 1;
	else if (!strcmp(kind, "tag"))
		wl_page(first_hot)[0] ^= 1;
	else
		wl_page(first_hot)[WL_FIRST_COUNTER + 1]++;
}

static void verify_hot(void)
{
	uint64_t seen[WL_MAX_THREADS] = { 0 };

	for (uint64_t page = first_hot; page < first_hot + hot_pages; page++) {
		if (wl_page(page)[0] != wl_tag(page))
			wl_wrong("page %llu has tag %#llx instead of %#llx", (unsigned long long)page,
				 (unsigned long long)wl_page(page)[0], (unsigned long long)wl_tag(page));
		for (unsigned int t = 0; t < wl.threads; t++)
			seen[t] += wl_page(page)[WL_FIRST_COUNTER + t];
	}
	for (unsigned int t = 0; t < wl.threads; t++) {
		if (wl_workers[t].wrong)
			wl_wrong("thread %u met %llu wrong tags", t, (unsigned long long)wl_workers[t].wrong);
		if (seen[t] != wl_workers[t].writes)
			wl_wrong("thread %u wrote %llu times and the pages have %llu of it", t,
				 (unsigned long long)wl_workers[t].writes, (unsigned long long)seen[t]);
	}
}

static void verify(void)
{
	verify_hot();
	for (uint64_t page = first_cold; page < first_cold + cold_pages; page++)
		scan_page(page);
	if (scan_wrong)
		wl_wrong("%llu times a cold page did not hold what was written there", (unsigned long long)scan_wrong);
	if (!wl.seconds && scanned_pages != passes * cold_pages)
		wl_wrong("the scan did %llu pages instead of %llu", (unsigned long long)scanned_pages,
			 (unsigned long long)(passes * cold_pages));
}

static uint64_t unit(void)
{
	return wl_pages;
}

static void report(void)
{
	static struct wl_placement hot, cold;

	hot = wl_look(first_hot, hot_pages, 1);
	cold = wl_look(first_cold, cold_pages, 1);
	wl_print_placement("hot_last_placed", &hot);
	wl_print_placement("cold_last_placed", &cold);
	printf("  \"scan\": {\"pages\": %llu, \"elapsed_ns\": %llu},\n", (unsigned long long)scanned_pages,
	       (unsigned long long)scan_ns);
	wl_print_samples("hot_samples", 1);
}

static const struct wl_option options[] = {
	{ "hot-percent", WL_NUMBER, &hot_percent, 1, 90, NULL, "share of the pages that are hot", false },
	{ "hot-last", WL_FLAG, &hot_last, 0, 0, NULL, "the last pages are the hot ones, not the first", false },
	{ "write-percent", WL_NUMBER, &write_percent, 0, 100, NULL, "share of visits that also write", false },
	{ "passes", WL_NUMBER, &passes, 1, 1000000, NULL, "of the scan over the cold pages", false },
	{ 0 },
};

static const struct wl_workload scanhot = {
	.name = "scanhot",
	.purpose = "A streaming scan beside a hot set; an operation is a visit of a hot page.",
	.options = options,
	.defaults = { .iterations = 160, .threads = 3 },
	.check = check,
	.unit = unit,
	.prepare = prepare,
	.work = work,
	.sampled = sampled,
	.sabotage = sabotage,
	.verify = verify,
	.report = report,
};

int main(int argc, char **argv)
{
	return wl_main(&scanhot, argc, argv);
}

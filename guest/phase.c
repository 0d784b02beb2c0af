// SPDX-License-Identifier: GPL-2.0
/*
 * phase: a hot set that moves.  In every phase most accesses go to a hot set of pages, scattered over
 * the arena or in one piece; then the next pages become hot and the old ones cold.  What
 * promotion has learned is worthless with each phase, and what it moved has to leave again.
 *
 * The pages are numbered by a permutation, page = i * stride mod pages; the hot set of phase p is the numbers
 * from p * hot on.  Phases are counted in operations, so that the work does not depend on time; with
 * --phase-seconds they follow the clock.  The tags and counters of wl_arena.c are the check.
 */
#define _GNU_SOURCE
#include "wl.h"

#define MAX_PHASES	1024u

enum layout { SCATTERED, CONTIGUOUS };

static const char * const layouts[] = { "scattered", "contiguous", NULL };
static unsigned int layout;
static uint64_t hot_percent = 10, hot_share = 90, write_percent = 25, nr_phases = 4, phase_seconds;
static uint64_t hot_pages, stride, clock_phase, started;
static struct {
	uint64_t start_ns, sampled_ns;
	uint32_t fast, known;	/* of the hot set, in its last sample */
} phases[MAX_PHASES];

/* The first thread to come to a phase notes when it began. */
static void begin_phase(uint64_t phase)
{
	uint64_t before = __atomic_load_n(&started, __ATOMIC_RELAXED);

	while (before <= phase && phase < MAX_PHASES) {
		if (!__atomic_compare_exchange_n(&started, &before, phase + 1, false, __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
			continue;
		phases[phase].start_ns = wl_now() - wl_start_ns;
		return;
	}
}

/* @n visits with the hot set of @phase. */
static uint64_t visit_all(struct wl_worker *w, uint64_t phase, uint64_t n, uint64_t state)
{
	const uint64_t pages = wl_pages, hot = hot_pages, first = phase * hot % pages, base = wl_tag_base();
	const uint64_t step = stride, share = hot_share * 65536 / 100, writing = write_percent * 256 / 100;
	uint64_t wrong = 0, writes = 0, sum = 0;

	for (; n; n--) {
		uint64_t x = wl_next(&state), i, page;
		volatile uint64_t *word;

		i = (x & 0xffff) < share ? first + wl_below(x, hot) : wl_below(x, pages);
		page = i * step % pages;
		word = wl_page(page);
		if (word[0] != wl_mix(page + base))
			wrong++;
		if ((x >> 16 & 0xff) < writing) {
			word[WL_FIRST_COUNTER + w->id]++;
			writes++;
		}
		sum += page;
	}
	w->wrong += wrong;
	w->writes += writes;
	w->checksum += sum;
	return state;
}

/* Visits @first to @first + @n of this thread, which began with @from: each in the phase that is its due. */
static uint64_t visit_by_count(struct wl_worker *w, uint64_t from, uint64_t first, uint64_t n, uint64_t state)
{
	uint64_t length = (w->last - from) / nr_phases;

	length += !length;
	while (n) {
		uint64_t at = first - from, phase = at / length, part = length - at % length;

		if (phase >= nr_phases - 1) {
			phase = nr_phases - 1;
			part = n;
		}
		part = part < n ? part : n;
		begin_phase(phase);
		state = visit_all(w, phase, part, state);
		first += part;
		n -= part;
	}
	return state;
}

static void work(struct wl_worker *w)
{
	uint64_t state = w->random, from = w->next, first, n, phase;

	while ((n = wl_chunk(w, &first))) {
		if (!phase_seconds) {
			state = visit_by_count(w, from, first, n, state);
			continue;
		}
		phase = __atomic_load_n(&clock_phase, __ATOMIC_RELAXED);
		begin_phase(phase);
		state = visit_all(w, phase, n, state);
	}
}

/* Samples of the present phase's hot set; with --phase-seconds this is also the clock. */
static void sampled(void)
{
	static uint64_t seen = UINT64_MAX;
	uint64_t now = wl_now() - wl_start_ns, phase;
	const struct wl_sample *s;
	unsigned int count;

	if (phase_seconds)
		__atomic_store_n(&clock_phase, now / (phase_seconds * 1000000000u), __ATOMIC_RELAXED);
	phase = __atomic_load_n(&started, __ATOMIC_RELAXED);
	phase -= phase != 0;
	if (phase != seen)
		wl_choose_probes(phase * hot_pages % wl_pages, hot_pages, stride, 1);
	seen = phase;
	wl_take_sample(1);
	s = wl_samples(1, &count);
	if (phase < MAX_PHASES) {
		phases[phase].sampled_ns = s[count - 1].ns;
		phases[phase].fast = s[count - 1].fast;
		phases[phase].known = s[count - 1].known;
	}
}

static void check(void)
{
	hot_pages = wl.size / WL_PAGE * hot_percent / 100;
	if (!hot_pages)
		tg_die(TG_EXIT_USAGE, "--hot-percent: %llu of %llu pages is none", (unsigned long long)hot_percent,
		       (unsigned long long)(wl.size / WL_PAGE));
	if (wl.seconds && !phase_seconds)
		tg_die(TG_EXIT_USAGE, "--seconds: phases are counted in operations; give --phase-seconds too");
}

static void prepare(void)
{
	stride = 1;
	if (layout == SCATTERED)
		stride = wl_stride(wl_pages);
	wl_pages_fill();
}

static uint64_t unit(void)
{
	return wl_pages;
}

static void report(void)
{
	uint64_t count = started < MAX_PHASES ? started : MAX_PHASES;

	printf("  \"hot_pages\": %llu,\n  \"phases\": [", (unsigned long long)hot_pages);
	for (uint64_t p = 0; p < count; p++)
		printf("%s{\"start_ms\": %.3f, \"last_sample\": [%.3f, %u, %u]}", p ? ", " : "",
		       (double)phases[p].start_ns / 1e6, (double)phases[p].sampled_ns / 1e6, phases[p].fast,
		       phases[p].known);
	printf("],\n");
	wl_print_samples("hot_samples", 1);
}

static const struct wl_option options[] = {
	{ "hot-percent", WL_NUMBER, &hot_percent, 1, 100, NULL, "share of the pages that are hot in a phase", false },
	{ "hot-share", WL_NUMBER, &hot_share, 0, 100, NULL, "percent of the accesses that go to them", false },
	{ "write-percent", WL_NUMBER, &write_percent, 0, 100, NULL, "share of visits that also write", false },
	{ "phases", WL_NUMBER, &nr_phases, 1, MAX_PHASES, NULL, "phases of equally many operations", false },
	{ "phase-seconds", WL_NUMBER, &phase_seconds, 0, 3600, NULL,
	  "the next phase after so long instead; 0: not", false },
	{ "layout", WL_CHOICE, &layout, 0, 0, layouts, "how the hot pages lie", false },
	{ 0 },
};

static const struct wl_workload workload = {
	.name = "phase",
	.purpose = "Page accesses with a hot set that moves; an operation is a visit of a page.",
	.options = options,
	.defaults = { .iterations = 256 },
	.check = check,
	.unit = unit,
	.prepare = prepare,
	.work = work,
	.sampled = sampled,
	.sabotage = wl_pages_sabotage,
	.verify = wl_pages_verify,
	.report = report,
};

int main(int argc, char **argv)
{
	return wl_main(&workload, argc, argv);
}

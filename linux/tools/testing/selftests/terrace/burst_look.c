// SPDX-License-Identifier: GPL-2.0
/*
 * Scans of bursts: the memory that they sample, the statistics that they report, and
 * the accesses that other users of the Accessed bits find. Here bursts only observe:
 * no page migrates.
 *
 * lab: topology=dram-cxl icount=2 timeout=700s debug=no
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burst_util.h"

/* Four ranges: half of the smallest burst. */
#define SIZE		(4 * MT_HUGE)
#define PAGES		((long)(SIZE / MT_PAGE))

enum group { TOP, LOW, LOW_LARGE };

/* Number of pages that @count of @looks scans have found accessed. */
static long counted(unsigned int looks, enum group group, unsigned int count)
{
	static const char * const words[] = { "top", "low", "low_large" };

	return mt_burst_counted(looks, words[group], count);
}

/*
 * Place memory in use and memory not in use on both nodes. One thread uses its part
 * without a rest, so scans at any interval find all of it accessed.
 */
static int used_and_unused(struct mt_toucher *t)
{
	char *unused = mt_place_both(SIZE);

	*t = (struct mt_toucher) {
		.p = mt_place_both(SIZE), .size = 2 * SIZE, .step = MT_PAGE, .cpu = -1,
	};
	MT_ASSERT(t->p && unused, "no memory on both nodes");
	mt_toucher_run(t);
	return mt_observe_on();
}

/* Sum up the pages of some bursts for each access count of two scans. */
static bool all_counted(unsigned int bursts, long sum[2][3])
{
	unsigned int i, c;
	enum group side;

	memset(sum, 0, sizeof(long) * 6);
	for (i = 0; i < bursts; i++) {
		if (!mt_bursts_pass(1))
			return false;
		for (side = TOP; side <= LOW; side++)
			for (c = 0; c <= 2; c++)
				sum[side][c] += counted(2, side, c);
	}
	for (side = TOP; side <= LOW; side++)
		mt_note("%s: %ld, %ld, %ld pages accessed in 0, 1, 2 of 2 looks",
			side == LOW ? "low" : "top", sum[side][0], sum[side][1],
			sum[side][2]);
	return true;
}

/* A burst samples some ranges of each kind, but not all. */
static int tells_hot_from_cold(void)
{
	const unsigned int bursts = 20;
	struct mt_snap before;
	struct mt_toucher t;
	long sum[2][3];
	bool seen;
	int i;

	mt_snap(&before);
	if (used_and_unused(&t))
		return MT_FAIL;
	seen = all_counted(bursts, sum);
	mt_note("a look at a page takes %lld ns", mt_burst_value("look_ns"));
	mt_touch_stop(&t);
	mt_off();
	MT_ASSERT(seen, "not enough bursts");
	for (i = 0; i < 2; i++) {
		MT_ASSERT(sum[i][2] > bursts * PAGES / 20, "%d: few are in use", i);
		MT_ASSERT(sum[i][1] < sum[i][2] / 4, "%d: many are both", i);
	}
	MT_ASSERT(sum[TOP][0] > bursts * PAGES / 20, "few above are not in use");
	/* On the slow tier, only ranges in use are scanned. */
	MT_ASSERT(sum[LOW][0] < sum[LOW][2] / 4, "many below are not in use");
	MT_ASSERT(!mt_since(&before, "pgpromote_success"), "pages moved");
	MT_ASSERT(!mt_since(&before, "mtier_taken"), "pages were taken");
	return MT_PASS;
}

static int pairs_are_found(void)
{
	struct mt_toucher t;
	char *p = mt_place(SIZE, mt_slow_node());
	long long taken;
	int ret;

	MT_ASSERT(p, "no memory on the slow node");
	ret = mt_observe_on();
	if (ret)
		return ret;
	mt_touch_start(&t, p, SIZE);
	ret = MT_WAIT(mt_burst_value("taken") > PAGES, 60000) ? MT_PASS : MT_FAIL;
	taken = mt_burst_value("taken");
	mt_touch_stop(&t);
	mt_off();
	MT_ASSERT(!ret, "%lld pages would be moved, of %ld that could", taken,
		  PAGES);
	MT_ASSERT(mt_all_on(p, SIZE, mt_slow_node()), "they moved");
	return MT_PASS;
}

/*
 * Count pages of DRAM that the first scans of some bursts found accessed while @p is
 * read; -1 without bursts. If no slow page is in use, a burst ends after one scan.
 */
static long seen_in_use(char *p, size_t size)
{
	struct mt_toucher t;
	bool seen = true;
	long sum = 0;
	int i;

	mt_touch_start(&t, p, size);
	if (mt_observe_on())
		seen = false;
	for (i = 0; seen && i < 8; i++) {
		seen = mt_bursts_pass(1);
		sum += counted(1, TOP, 1);
	}
	mt_touch_stop(&t);
	mt_off();
	return seen ? sum : -1;
}

static int reads_of_the_zero_page_do_not_count(void)
{
	const size_t size = 2 * SIZE;
	char *p = mt_map_aligned(size);
	long zero, memory;

	MT_ASSERT(p && !madvise(p, size, MADV_NOHUGEPAGE), "no address space");
	/* Without any memory on the slow node, no memory is scanned. */
	MT_ASSERT(mt_place(MT_MB, mt_slow_node()), "no memory on the slow node");
	zero = seen_in_use(p, size);
	mt_bind_to(mt_fast_node());
	mt_touch(p, size, true);
	mt_bind_default();
	memory = seen_in_use(p, size);
	MT_ASSERT(zero >= 0 && memory >= 0, "not enough bursts");
	/* The other result means something only if this one shows the accesses. */
	MT_ASSERT(memory > PAGES / 4, "reads of memory were not seen");
	MT_ASSERT(zero < memory / 4, "the zero page counts");
	return MT_PASS;
}

/* ---- predictions ---- */

#define Q16		65536
/* Predicted number of scans that find a page: four times the initial value. */
#define FORETOLD	64

/*
 * Get the part of the prediction that is left after two seconds, in percent, once
 * enough is known; -1 if that does not happen.
 */
static int left_over(void)
{
	bool known = MT_WAIT(mt_burst_value("foretold2") >= FORETOLD, 120000);
	int percent = mt_burst_value("left2_q16") * 100 / Q16;

	mt_note("%lld foretold, %lld bursts: %d %% left, for %lld ms",
		mt_burst_value("foretold2"), mt_burst_value("bursts"), percent,
		mt_burst_value("horizon_ns") / 1000000);
	return known ? percent : -1;
}

static int heat_that_lasts_is_believed(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_toucher t;
	int percent;

	MT_ASSERT(p, "no memory on the slow node");
	mt_touch_start(&t, p, SIZE);
	if (mt_observe_on())
		return MT_FAIL;
	percent = left_over();
	mt_touch_stop(&t);
	mt_off();
	MT_ASSERT(percent > 80, "it is not");
	return MT_PASS;
}

/* Use one range after the other, each for one second out of eight. */
static void *use_in_turn(void *arg)
{
	char *p = arg;
	unsigned int i;

	for (i = 0; ; i = (i + 1) % 8) {
		long long until = mt_now_ms() + 1000;

		while (mt_now_ms() < until) {
			mt_touch(p + i * MT_HUGE, MT_HUGE, false);
			mt_nap(1);
		}
	}
	return NULL;
}

static int heat_that_moves_on_is_not(void)
{
	char *p = mt_place(8 * MT_HUGE, mt_slow_node());
	pthread_t thread;
	int percent;

	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(!pthread_create(&thread, NULL, use_in_turn, p), "no thread");
	if (mt_observe_on())
		return MT_FAIL;
	percent = left_over();
	mt_off();
	MT_ASSERT(percent >= 0 && percent < 60, "it is");
	return MT_PASS;
}

/* The policy forbids to migrate this memory, so bursts do not scan it. */
static int bound_memory_is_left_alone(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_toucher t;
	long long taken, fixed;
	long sum[2][3];
	bool seen;

	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(!mt_mbind(p, SIZE, MPOL_BIND, 1UL << mt_slow_node()), "mbind");
	mt_touch_start(&t, p, SIZE);
	if (mt_observe_on())
		return MT_FAIL;
	seen = all_counted(10, sum);
	taken = mt_burst_value("taken");
	fixed = mt_burst_value("fixed_low");
	mt_touch_stop(&t);
	mt_off();
	MT_ASSERT(seen && fixed > PAGES, "%lld times a page was fixed", fixed);
	MT_ASSERT(sum[LOW][2] < PAGES, "it was looked at");
	MT_ASSERT(!taken, "%lld would be moved", taken);
	return MT_PASS;
}

static int with_scale_0_slow_memory_is_not_looked_at(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long seen = 0;
	unsigned int c;

	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(!prctl(MT_SCALE_SET, 0, 0, 0, 0), "prctl");
	mt_touch(p, SIZE, false);
	if (mt_observe_on() || !mt_bursts_pass(6))
		return MT_FAIL;
	for (c = 0; c <= 2; c++)
		seen += counted(2, LOW, c);
	mt_off();
	prctl(MT_SCALE_SET, 5, 0, 0, 0);
	MT_ASSERT(!seen, "%ld pages were looked at", seen);
	return MT_PASS;
}

/* A process that is old when promotion is switched on has waited long enough. */
static int the_delay_begins_with_the_process(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	bool seen;

	MT_ASSERT(p, "no memory on the slow node");
	mt_nap(20000);
	mt_observe(true);
	mt_set("scan/delay_ms", 20000);
	mt_on();
	seen = MT_WAIT(counted(1, LOW, 0) + counted(1, LOW, 1) > 0, 10000);
	mt_off();
	MT_ASSERT(seen, "nobody looked at it for 10 s");
	return MT_PASS;
}

static int huge_pages_are_counted_apart(void)
{
	char *p = mt_place_thp(SIZE, mt_slow_node());
	struct mt_toucher t;
	long long large;
	long used;

	MT_NEED(p && mt_is_thp(p), "no huge pages to be had");
	mt_touch_start(&t, p, SIZE);
	if (mt_observe_on() || !mt_bursts_pass(6))
		return MT_FAIL;
	large = mt_burst_value("large");
	used = counted(1, LOW_LARGE, 1);
	mt_touch_stop(&t);
	mt_off();
	MT_ASSERT(large >= PAGES, "%lld pages of large folios were met", large);
	MT_ASSERT(used >= (long)(MT_HUGE / MT_PAGE),
		  "%ld of them were found in use", used);
	return MT_PASS;
}

static void hold(void *arg)
{
	(void)arg;
	pause();
}

/* Memory shared copy-on-write does not migrate, since it will be copied. */
static int what_is_to_be_copied_is_left_out(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long shared;
	pid_t child;

	MT_ASSERT(p, "no memory on the slow node");
	child = mt_spawn(hold, NULL);
	if (mt_observe_on() || !mt_bursts_pass(6))
		return MT_FAIL;
	shared = mt_burst_value("shared");
	mt_off();
	mt_kill(child);
	MT_ASSERT(shared >= PAGES, "%lld shared pages were met", shared);
	return MT_PASS;
}

static int flushes_are_one_a_look(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long flushes, mms, looks;
	struct mt_snap before;
	struct mt_toucher t;

	MT_ASSERT(p, "no memory on the slow node");
	mt_touch_start(&t, p, SIZE);
	mt_snap(&before);
	if (mt_observe_on() || !mt_bursts_pass(6))
		return MT_FAIL;
	/*
	 * Flushes of sweeps do not count here. The burst of these flushes adds to mms
	 * at its end.
	 */
	flushes = mt_since(&before, "mtier_look_flushes");
	if (!mt_bursts_pass(1))
		return MT_FAIL;
	mms = mt_burst_value("mms");
	looks = mt_burst_value("looks");
	mt_touch_stop(&t);
	mt_off();
	mt_note("%lld looks, %lld address spaces in all of them, %lld flushes",
		looks, mms, flushes);
	MT_ASSERT(flushes && flushes <= mms, "%lld flushes", flushes);
	return MT_PASS;
}

/* ---- other users of Accessed bits ---- */

/* Other users find all accesses whose bits bursts have cleared, and no others. */
static int others_learn_of_accesses(void)
{
	char *used = mt_place(SIZE, mt_slow_node());
	char *unused = mt_place(SIZE, mt_slow_node());
	long marked, idle, still;

	MT_ASSERT(used && unused, "no memory on the slow node");
	mt_settle();
	marked = mt_idle_mark(unused, SIZE);
	MT_ASSERT(marked > PAGES / 2 && mt_idle_mark(used, SIZE) > PAGES / 2,
		  "%ld of %ld could be marked idle", marked, PAGES);
	mt_flush(used, SIZE);
	mt_touch(used, SIZE, false);
	if (mt_observe_on() || !mt_bursts_pass(6))
		return MT_FAIL;
	mt_off();
	idle = mt_idle_count(used, SIZE);
	still = mt_idle_count(unused, SIZE);
	MT_ASSERT(!idle, "%ld of %ld used pages are called idle", idle, PAGES);
	MT_ASSERT(still == marked, "of %ld unused pages %ld are called idle",
		  marked, still);
	return MT_PASS;
}

/* Access a sixteenth of each range, and clear its bits as another user would. */
static void access_and_clear(char *p, unsigned int part)
{
	const size_t size = MT_HUGE / 16;
	char *at;

	for (at = p + part * size; at < p + SIZE; at += MT_HUGE) {
		mt_touch(at, size, false);
		mt_idle_mark(at, size);
	}
}

/* Another user that clears a bit sets the young flag. */
static int accesses_others_cleared_are_seen(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long until, told = 0;
	unsigned int part;

	MT_ASSERT(p, "no memory on the slow node");
	mt_settle();
	if (mt_observe_on())
		return MT_FAIL;
	until = mt_now_ms() + 120000;
	while (told < 10 && mt_now_ms() < until) {
		/* No access to some pages is known when a burst begins ... */
		mt_write("/proc/self/clear_refs", "1");
		mt_flush(p, SIZE);
		/* ... and one happens during the burst. Its bit is cleared. */
		for (part = 0; part < 16; part++) {
			mt_nap(10);
			access_and_clear(p, part);
		}
		told = mt_burst_value("told");
	}
	mt_note("%lld bursts, %lld looks, tau %lld ns",
		mt_burst_value("bursts"), mt_burst_value("looks"),
		mt_burst_value("tau_ns"));
	mt_off();
	MT_ASSERT(told >= 10, "%lld were seen", told);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("used pages are told from others on both tiers",
			 tells_hot_from_cold),
		MT_CHECK("used slow pages would move into free DRAM",
			 pairs_are_found),
		MT_CHECK("T1 reads of the zero page are no accesses to DRAM",
			 reads_of_the_zero_page_do_not_count),
		MT_CHECK("P5 heat that lasts is believed to",
			 heat_that_lasts_is_believed),
		MT_CHECK("P5 heat that moves on is not",
			 heat_that_moves_on_is_not),
		MT_CHECK("P12 bound memory is left alone",
			 bound_memory_is_left_alone),
		MT_CHECK("with scan scale 0 slow memory is not looked at",
			 with_scale_0_slow_memory_is_not_looked_at),
		MT_CHECK("a process is as old as it is when it is switched on",
			 the_delay_begins_with_the_process),
		MT_CHECK("large folios are counted apart", huge_pages_are_counted_apart),
		MT_CHECK("what is shared copy-on-write is left out",
			 what_is_to_be_copied_is_left_out),
		MT_CHECK("P7 one flush for each address space and look at most",
			 flushes_are_one_a_look),
		MT_CHECK("P11 others learn of the accesses",
			 others_learn_of_accesses),
		MT_CHECK("P11 accesses whose bit others cleared are seen",
			 accesses_others_cleared_are_seen),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

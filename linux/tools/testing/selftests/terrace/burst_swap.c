// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: used pages of the slow node are promoted, into free memory or in exchange for
 * pages with fewer accesses, and unmovable pages stay. DRAM is filled up to its high
 * watermark, where kswapd sleeps.
 *
 * lab: topology=dram-cxl-small-dram icount=2 timeout=700s debug=no
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst_util.h"

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define SCALE		"/proc/sys/vm/watermark_scale_factor"
#define BOOST		"/proc/sys/vm/watermark_boost_factor"
/* Many batches, and several times the smallest burst. */
#define HOT		(96 * MT_MB)
#define HOT_PAGES	((long)(HOT / MT_PAGE))
#define FILL_MAX	(512 * MT_MB)
/* This number of pages proves an exchange; its duration is for a benchmark. */
#define MANY(pages)	((pages) / 2)
/* Allocations by the check and the system */
#define NOISE		512

static struct mt_snap before;

/* Write the number of each page into it. */
static void sign(char *p, size_t size)
{
	size_t i;

	for (i = 0; i < size; i += MT_PAGE)
		*(size_t *)(p + i) = i ^ (size_t)p;
}

static bool signed_still(const char *p, size_t size)
{
	size_t i;

	for (i = 0; i < size; i += MT_PAGE)
		if (*(const size_t *)(p + i) != (i ^ (size_t)p))
			return false;
	return true;
}

static char *hot_memory(size_t size)
{
	char *p = mt_place(size, mt_slow_node());

	if (p)
		sign(p, size);
	return p;
}

static long on_fast(const char *p, size_t size)
{
	return mt_pages_on(p, size, mt_fast_node());
}

/*
 * Fill DRAM until nothing is free above the high watermark; kswapd runs only below the
 * low one. Returns the size of the filling, 0 on failure.
 */
static size_t fill(char **p)
{
	const size_t step = 16 * MT_PAGE;
	size_t size = 0;

	*p = mt_map_aligned(FILL_MAX);
	if (!*p || madvise(*p, FILL_MAX, MADV_NOHUGEPAGE))
		return 0;
	mt_set_policy(MPOL_PREFERRED, 1UL << mt_fast_node());
	for (; mt_node_room(mt_fast_node()) > 16 && size < FILL_MAX; size += step)
		mt_touch(*p + size, step, true);
	mt_bind_default();
	mt_write(DEMOTION, "1");
	sign(*p, size);
	return size < FILL_MAX ? size : 0;
}

/* Reading the nodes of all pages takes a CPU for long, which disturbs the test. */
static bool comes(char *p, size_t size, long pages, unsigned int ms)
{
	bool ok = MT_WAIT(({ mt_hurry();
			     mt_since(&before, "pgpromote_success") >= pages &&
			     on_fast(p, size) >= pages; }), ms);

	mt_note("%ld of %ld pages are in DRAM; %lld up, %lld down",
		on_fast(p, size), (long)(size / MT_PAGE),
		mt_since(&before, "pgpromote_success"),
		mt_since(&before, "mtier_demoted"));
	return ok;
}

static int into_free_memory(void)
{
	char *p = hot_memory(2 * HOT);
	struct mt_toucher t;
	bool all;

	MT_ASSERT(p, "no memory on the slow node");
	mt_snap(&before);
	if (mt_bursts_on())
		return MT_FAIL;
	mt_touch_start(&t, p, 2 * HOT);
	/* The last of them are found by the bursts of a machine at rest. */
	all = comes(p, 2 * HOT, 2 * HOT_PAGES * 9 / 10, 180000);
	mt_touch_stop(&t);
	mt_off();
	mt_note_since(&before);
	MT_ASSERT(all, "it did not come up");
	MT_ASSERT(signed_still(p, 2 * HOT), "its contents changed");
	MT_ASSERT(mt_since(&before, "mtier_demoted") < NOISE, "pages went down");
	MT_ASSERT(mt_since(&before, "mtier_taken") ==
		  mt_ended_since(&before), "not every page has an end");
	return MT_PASS;
}

/*
 * Free pages of DRAM, without boosts of the watermarks, which last until kswapd runs:
 * they rise without an allocation.
 */
struct free_pages {
	long zone;	/* counted by watermarks, above the low one */
	long all;	/* with the lists of CPUs, above the high one */
};

static struct free_pages free_pages(void)
{
	FILE *f = fopen("/proc/zoneinfo", "re");
	struct free_pages sum = { };
	char line[256];
	int nid = -1;
	long pages;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Node %d, zone", &nid) == 1 ||
		    nid != mt_fast_node())
			continue;
		if (sscanf(line, " pages free %ld", &pages) == 1) {
			sum.zone += pages;
			sum.all += pages;
		}
		if (sscanf(line, " count: %ld", &pages) == 1)
			sum.all += pages;
		if (sscanf(line, " boost %ld", &pages) == 1) {
			sum.zone += pages;
			sum.all += pages;
		}
		if (sscanf(line, " low %ld", &pages) == 1)
			sum.zone -= pages;
		if (sscanf(line, " high %ld", &pages) == 1)
			sum.all -= pages;
	}
	if (f)
		fclose(f);
	return sum;
}

struct shortage {
	long least;	/* of free_pages.all */
	long times;	/* number of samples */
	long low;	/* samples below the low watermark: noted, not judged */
};

/* Like comes(), and also measures the shortage of DRAM. */
static bool comes_into_full(char *p, size_t size, long pages,
			    struct shortage *seen)
{
	long long until = mt_now_ms() + 120000;

	*seen = (struct shortage) { .least = LONG_MAX };
	do {
		struct free_pages now = free_pages();

		seen->least = now.all < seen->least ? now.all : seen->least;
		seen->low += now.zone < 0;
		seen->times++;
		mt_nap(2);
	} while (mt_since(&before, "pgpromote_success") < pages &&
		 mt_now_ms() < until);
	mt_note("%ld pages above the high watermark; %ld of %ld times below the low",
		seen->least, seen->low, seen->times);
	return comes(p, size, pages, 60000);
}

static const char * const kswapd_events[] = {
	"pgscan_kswapd", "pgdemote_kswapd", "pgdemote_direct", "pageoutrun",
};

static int change_places(bool forked)
{
	char *idle, *p = hot_memory(HOT);
	long up, down, left, out, net, i;
	struct shortage seen;
	struct mt_toucher t;
	size_t size;
	bool all;

	MT_ASSERT(p, "no memory on the slow node");
	size = fill(&idle);
	MT_NEED(size > HOT, "DRAM cannot be filled");
	MT_ASSERT(!forked || mt_fork_once(), "no child");
	left = on_fast(idle, size);
	mt_snap(&before);
	mt_touch_start(&t, p, HOT);
	if (mt_bursts_on())
		return MT_FAIL;
	all = comes_into_full(p, HOT, MANY(HOT_PAGES), &seen);
	mt_touch_stop(&t);
	mt_off();
	mt_note_since(&before);
	up = on_fast(p, HOT);
	out = left - on_fast(idle, size);
	down = mt_since(&before, "mtier_demoted");
	MT_ASSERT(all, "it did not come up");
	MT_ASSERT(signed_still(p, HOT) && signed_still(idle, size),
		  "contents changed");
	MT_ASSERT(seen.least > -NOISE, "P9 the high watermark was not kept");
	for (i = 0; i < (long)ARRAY_LEN(kswapd_events); i++)
		MT_ASSERT(!mt_since(&before, kswapd_events[i]), "P9 %s: %lld",
			  kswapd_events[i], mt_since(&before, kswapd_events[i]));
	/* Some pages have moved both ways. */
	net = mt_since(&before, "pgpromote_success") - down;
	MT_ASSERT(labs(net - (up - out)) < NOISE,
		  "P10 %ld more promoted than demoted, %ld more are there", net,
		  up - out);
	MT_ASSERT(down > out - NOISE, "P10 %ld demoted, %ld are gone", down, out);
	return MT_PASS;
}

static int for_idle_pages(void)
{
	return change_places(false);
}

static int for_idle_pages_of_a_fork(void)
{
	return change_places(true);
}

/*
 * Get the number of promotions until DRAM has its high watermark again; -1 if it never
 * has.
 */
static long until_enough(void)
{
	bool enough = MT_WAIT(free_pages().all > -NOISE, 120000);

	return enough ? mt_since(&before, "pgpromote_success") : -1;
}

/*
 * Other programs allocate down to the low watermark, and kswapd is not woken. Here the
 * high watermark is far above the free memory, and the low one below. Promotion does not
 * have to wait for it.
 */
static int nothing_waits(void)
{
	char *idle, *p = hot_memory(HOT);
	struct free_pages was;
	struct mt_toucher t;
	size_t size;
	long up;

	MT_ASSERT(p, "no memory on the slow node");
	size = fill(&idle);
	MT_NEED(size > HOT && !mt_write(SCALE, "700"), "DRAM cannot be filled");
	was = free_pages();
	mt_note("%ld pages above the low watermark, %ld below the high", was.zone,
		-was.all);
	MT_NEED(was.zone > 0 && was.all < -4 * NOISE, "no such watermarks");
	mt_snap(&before);
	mt_touch_start(&t, p, HOT);
	if (mt_bursts_on())
		return MT_FAIL;
	up = until_enough();
	mt_touch_stop(&t);
	mt_off();
	mt_note("%ld were promoted until it was made up for", up);
	mt_note_since(&before);
	MT_ASSERT(up >= 0, "DRAM is short for ever");
	MT_ASSERT(up > -was.all / 2, "they waited");
	return MT_PASS;
}

static int between_the_watermarks(void)
{
	char scale[16] = "", boost[16] = "";
	int verdict;

	MT_NEED(mt_read(SCALE, scale, sizeof(scale)) > 0 &&
		mt_read(BOOST, boost, sizeof(boost)) > 0 &&
		!mt_write(BOOST, "0") && !mt_write(SCALE, "400"),
		"watermarks cannot be set");
	verdict = nothing_waits();
	mt_write(SCALE, scale);
	mt_write(BOOST, boost);
	return verdict;
}

/*
 * One program uses all of its memory equally, on both nodes, page after page. A burst finds
 * where the program was during its scans, not how often pages are used. By chance, one
 * burst in ten may exchange its sample, which is a twelfth of the pages.
 */
static int nothing_for_alike(void)
{
	const unsigned int bursts = 32;
	char *all = mt_place_both(HOT), *rest;
	struct mt_toucher t;
	size_t size;
	bool pass;
	long moved;
	long long ptes;

	MT_ASSERT(all, "no memory on both nodes");
	size = fill(&rest);
	MT_NEED(size, "DRAM cannot be filled");
	MT_ASSERT(!mlock(rest, size), "mlock");
	mt_touch_start(&t, all, 2 * HOT);
	mt_snap(&before);
	if (mt_bursts_on())
		return MT_FAIL;
	ptes = mt_burst_value("ptes");
	pass = mt_bursts_pass(bursts);
	ptes = mt_burst_value("ptes") - ptes;
	mt_touch_stop(&t);
	mt_off();
	moved = mt_since(&before, "mtier_demoted");
	mt_note_since(&before);
	mt_note("%ld pages gave way to their like, %lld scanned", moved, ptes);
	MT_ASSERT(pass, "no bursts");
	MT_ASSERT(ptes > bursts * 2048, "hardly any pages were scanned");
	MT_ASSERT(moved < HOT_PAGES / 4, "%ld pages gave way to their like", moved);
	return MT_PASS;
}

/* Unmovable pages are not demoted; promotions find other victims. */
static int what_may_not_go_stays(void)
{
	char *idle, *p = hot_memory(HOT / 2), *bound, *locked;
	long nr_bound, nr_locked;
	struct mt_toucher t;
	size_t size;
	bool all;

	MT_ASSERT(p, "no memory on the slow node");
	size = fill(&idle);
	MT_NEED(size > 3 * HOT, "DRAM cannot be filled");
	bound = idle;
	locked = idle + HOT;
	MT_ASSERT(!mt_mbind(bound, HOT, MPOL_BIND, 1UL << mt_fast_node()), "mbind");
	MT_ASSERT(!mlock(locked, HOT), "mlock");
	/* Some may be on the other node, because watermarks were boosted. */
	nr_bound = on_fast(bound, HOT);
	nr_locked = on_fast(locked, HOT);
	MT_NEED(nr_bound > MANY(HOT_PAGES) && nr_locked > MANY(HOT_PAGES),
		"DRAM is not filled");
	mt_snap(&before);
	mt_touch_start(&t, p, HOT / 2);
	if (mt_bursts_on())
		return MT_FAIL;
	all = comes(p, HOT / 2, MANY(HOT_PAGES / 2), 60000);
	mt_touch_stop(&t);
	mt_off();
	MT_ASSERT(all, "it did not come up");
	MT_ASSERT(on_fast(bound, HOT) >= nr_bound, "P12 bound pages went");
	MT_ASSERT(on_fast(locked, HOT) >= nr_locked, "P12 locked pages went");
	return MT_PASS;
}

/* A cgroup keeps its protected memory (memory.low, memory.min). */
static int what_is_promised_stays(void)
{
	char *idle, *p = hot_memory(HOT / 2);
	struct mt_cgroup kept;
	struct mt_toucher t;
	size_t size;
	bool pass;
	long left;

	MT_ASSERT(p, "no memory on the slow node");
	MT_NEED(!mt_cgroup_make(&kept, "kept", "+memory") &&
		!mt_cgroup_write(&kept, "memory.low", "max") &&
		!mt_cgroup_enter(&kept, 0), "no cgroup with memory.low");
	size = fill(&idle);
	MT_NEED(size, "DRAM cannot be filled");
	left = on_fast(idle, size);
	mt_touch_start(&t, p, HOT / 2);
	pass = !mt_bursts_on() && mt_bursts_pass(6);
	mt_touch_stop(&t);
	mt_off();
	left -= on_fast(idle, size);
	mt_cgroup_remove(&kept);
	MT_ASSERT(pass, "no bursts");
	MT_ASSERT(!left, "P12 %ld pages below memory.low went", left);
	return MT_PASS;
}

static int nothing_goes_where_demotion_is_off(void)
{
	char *idle, *p = hot_memory(HOT / 2);
	struct mt_toucher t;
	bool pass;
	long down;

	MT_ASSERT(p, "no memory on the slow node");
	MT_NEED(fill(&idle), "DRAM cannot be filled");
	mt_write(DEMOTION, "0");
	mt_snap(&before);
	mt_touch_start(&t, p, HOT / 2);
	pass = !mt_bursts_on() && mt_bursts_pass(6);
	mt_touch_stop(&t);
	mt_off();
	down = mt_since(&before, "mtier_demoted");
	mt_write(DEMOTION, "1");
	MT_ASSERT(pass, "no bursts");
	MT_ASSERT(!down, "%ld pages were demoted", down);
	return MT_PASS;
}

static int no_faster_than_the_rate(void)
{
	char *p = hot_memory(HOT);
	struct mt_toucher t;
	long long ms, up;

	MT_ASSERT(p, "no memory on the slow node");
	mt_set("promote/rate_mbps", 4);
	mt_snap(&before);
	ms = mt_now_ms();
	mt_touch_start(&t, p, HOT);
	if (mt_bursts_on())
		return MT_FAIL;
	MT_WAIT(mt_since(&before, "pgpromote_success") > 4096, 30000);
	/* One batch more than allowed */
	up = mt_since(&before, "pgpromote_success");
	ms = mt_now_ms() - ms;
	mt_touch_stop(&t);
	mt_off();
	mt_note("%lld pages in %lld ms", up, ms);
	MT_ASSERT(up > 1024, "hardly any came up");
	MT_ASSERT(up <= ms * 1024 / 1000 + 1024, "faster than 4 MiB/s");
	return MT_PASS;
}

/*
 * Pages that were just touched are in the LRU batch of their CPU, which nothing empties,
 * and cannot be isolated until then.
 */
static int fresh_pages_come_up(void)
{
	char *p = hot_memory(2 * MT_MB);
	struct mt_toucher t;
	long long off_lru;
	bool all;

	MT_ASSERT(p, "no memory on the slow node");
	mt_snap(&before);
	mt_touch_start(&t, p, 2 * MT_MB);
	if (mt_bursts_on())
		return MT_FAIL;
	all = comes(p, 2 * MT_MB, 2 * MT_MB / MT_PAGE, 120000);
	off_lru = mt_since(&before, "mtier_fail_isolate");
	mt_touch_stop(&t);
	mt_off();
	mt_note("%lld times a page was on no list", off_lru);
	MT_ASSERT(all, "some stayed");
	/* The kernel may have emptied the batches by itself. */
	return off_lru ? MT_PASS : MT_SKIP;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("P6 used pages come up into free memory",
			 into_free_memory),
		MT_CHECK("P6 so do pages that are on no LRU list yet",
			 fresh_pages_come_up),
		MT_CHECK("P9 P10 used pages change places with idle ones",
			 for_idle_pages),
		MT_CHECK("P9 P10 and with those that a fork has shared",
			 for_idle_pages_of_a_fork),
		MT_CHECK("P9 pages change places though others took more",
			 between_the_watermarks),
		MT_CHECK("P1 pages of like use stay where they are",
			 nothing_for_alike),
		MT_CHECK("P12 bound and locked pages do not give way",
			 what_may_not_go_stays),
		MT_CHECK("P12 memory below its memory.low does not give way",
			 what_is_promised_stays),
		MT_CHECK("demotion switched off: nothing gives way",
			 nothing_goes_where_demotion_is_off),
		MT_CHECK("the limit of the rate holds",
			 no_faster_than_the_rate),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

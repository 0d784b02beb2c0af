// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: other users of Accessed bits. Scans clear the bits; reclaim, with both kinds of
 * LRU, and DAMON must still detect used memory.
 *
 * lab: topology=dram-cxl icount=2 timeout=300s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "burst_util.h"

#define PAGES	1024
#define SIZE	(PAGES * MT_PAGE)
#define LRU_GEN	"/sys/kernel/mm/lru_gen/enabled"

/* ---- reclaim ---- */

static int present(const char *p)
{
	int i, n = 0;

	for (i = 0; i < PAGES; i++)
		n += mt_pagemap(p + i * MT_PAGE) >> 63;
	return n;
}

/* Of two ranges one is used, and scanned; then half of both has to be reclaimed. */
static int used_survives(struct mt_cgroup *cg)
{
	char *used = mt_place(SIZE, mt_slow_node());
	char *unused = mt_place(SIZE, mt_slow_node());

	MT_ASSERT(used && unused, "no memory on the slow node");
	mt_settle();
	MT_ASSERT(!mt_write("/proc/self/clear_refs", "1"), "clear_refs");
	MT_ASSERT(mt_used_and_looked_at(used, SIZE), "not looked at");
	mt_cgroup_write(cg, "memory.reclaim", "3M");
	mt_note("of %d pages each %d used and %d unused ones are left", PAGES,
		present(used), present(unused));
	MT_ASSERT(present(used) > PAGES * 9 / 10, "pages in use were reclaimed");
	MT_ASSERT(present(unused) < PAGES / 2, "nothing was reclaimed");
	return MT_PASS;
}

static int reclaim(const char *mglru)
{
	struct mt_cgroup cg;
	int ret;

	MT_NEED(!access(LRU_GEN, W_OK), "no " LRU_GEN);
	MT_NEED(!mt_cgroup_make(&cg, "share", "+memory"), "no memory cgroup");
	MT_NEED(mt_swap_on("64M"), "no swap on zram0");
	mt_write(LRU_GEN, mglru);
	mt_cgroup_enter(&cg, 0);
	ret = used_survives(&cg);
	mt_write(LRU_GEN, "n");
	mt_cgroup_remove(&cg);
	mt_swap_off();
	return ret;
}

static int mglru(void)
{
	return reclaim("y");
}

static int classic(void)
{
	return reclaim("n");
}

/* ---- DAMON ---- */

#define DAMON		"/sys/kernel/mm/damon/admin/kdamonds/"
#define DAMON_CTX	DAMON "0/contexts/0/"
#define DAMON_TARGET	DAMON_CTX "targets/0/"
/* Time between two samples of a page; this number of samples is one report. */
#define SAMPLE_MS	200
#define SAMPLES		5
#define REPORTS		6
/* At least once between two of its samples, mostly before the last moment. */
#define USE_MS		130

/* Monitor a range of this process only. */
static bool damon_watch(const char *p, size_t size)
{
	return !mt_write(DAMON "nr_kdamonds", "1") &&
	       !mt_write(DAMON "0/contexts/nr_contexts", "1") &&
	       !mt_write(DAMON_CTX "operations", "fvaddr") &&
	       !mt_writef(DAMON_CTX "monitoring_attrs/intervals/sample_us",
			  "%d", SAMPLE_MS * 1000) &&
	       !mt_writef(DAMON_CTX "monitoring_attrs/intervals/aggr_us", "%d",
			  SAMPLES * SAMPLE_MS * 1000) &&
	       !mt_write(DAMON_CTX "targets/nr_targets", "1") &&
	       !mt_writef(DAMON_TARGET "pid_target", "%d", getpid()) &&
	       !mt_write(DAMON_TARGET "regions/nr_regions", "1") &&
	       !mt_writef(DAMON_TARGET "regions/0/start", "%lu",
			  (unsigned long)p) &&
	       !mt_writef(DAMON_TARGET "regions/0/end", "%lu",
			  (unsigned long)p + size) &&
	       !mt_write(DAMON "0/state", "on");
}

static void damon_off(void)
{
	mt_write(DAMON "0/state", "off");
	mt_write(DAMON "nr_kdamonds", "0");
}

/* Sum up the accesses in the reports so far; @n counts the regions. */
static long long damon_accesses(struct mt_trace *t, int *n)
{
	long long sum = 0;
	char line[512];

	while (mt_trace_line(t, line, sizeof(line))) {
		unsigned long start, end;
		unsigned int accesses;
		char *at = strstr(line, "nr_regions=");

		if (!at || sscanf(at, "nr_regions=%*u %lu-%lu: %u", &start, &end,
				  &accesses) != 3)
			continue;
		sum += accesses;
		(*n)++;
	}
	return sum;
}

/*
 * Nothing moves, and bursts always find something: scans clear the bits between most uses
 * and DAMON's next sample.
 */
static int damon(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long until, sum, looks;
	struct mt_trace trace;
	int n = 0;

	MT_ASSERT(p, "no memory on the slow node");
	MT_NEED(!access(DAMON "nr_kdamonds", W_OK), "no DAMON in sysfs");
	mt_settle();
	if (mt_observe_on())
		return MT_FAIL;
	MT_ASSERT(!mt_trace_open_of(&trace, "damon", "damon_aggregated"),
		  "no trace event");
	MT_ASSERT(damon_watch(p, SIZE), "DAMON cannot be started");
	looks = mt_burst_value("looks");
	until = mt_now_ms() + (REPORTS + 1) * SAMPLES * SAMPLE_MS;
	while (mt_now_ms() < until) {
		mt_flush(p, SIZE);
		mt_touch(p, SIZE, false);
		mt_nap(USE_MS);
	}
	looks = mt_burst_value("looks") - looks;
	damon_off();
	mt_off();
	sum = damon_accesses(&trace, &n);
	mt_trace_close(&trace);
	mt_note("%d reports of regions, %lld of %d looks saw an access", n, sum,
		n * SAMPLES);
	mt_note("%lld looks of bursts meanwhile", looks);
	MT_ASSERT(n >= REPORTS && looks > SAMPLES, "too few reports, or looks");
	MT_ASSERT(sum > n * SAMPLES * 9 / 10, "DAMON missed what is in use");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A11 MGLRU keeps what is in use and takes the rest",
			 mglru),
		MT_CHECK("A11 so does reclaim with the classic lists", classic),
		MT_CHECK("A11 DAMON sees what is in use", damon),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

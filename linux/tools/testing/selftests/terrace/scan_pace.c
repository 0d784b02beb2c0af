// SPDX-License-Identifier: GPL-2.0
/*
 * Scan: period and size follow what the visits find, seen in the trace.
 *
 * The pages are accessed but can never become hot (15 accesses in a window that
 * holds one visit), so that they stay where they are and every visit finds the
 * same.
 *
 * lab: topology=dram-cxl icount=2 timeout=90s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mtier_util.h"

enum { PMIN = 100, PSTART = 300, PMAX = 1200, SMIN = 16, SSTART = 64,
	SMAX = 256 };

struct visit {
	long long period, size, slow;
};

static struct mt_trace trace;
static struct mt_toucher toucher;

static int begin(void)
{
	char *p = mt_place(MT_MB, mt_slow_node());

	MT_ASSERT(p, "no memory on the slow node");
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", 15);
	mt_set("hot/window_ms", 100);
	mt_set("scan/delay_ms", 0);
	mt_set("scan/cpu_percent", 100);
	mt_set3("period", "ms", PMIN, PSTART, PMAX);
	mt_set3("size", "mb", SMIN, SSTART, SMAX);
	MT_ASSERT(!mt_trace_open(&trace, "mtier_scan_end"), "no trace event");
	mt_on();
	mt_touch_start(&toucher, p, MT_MB);
	return MT_PASS;
}

/* The next visit of this process, within 5 s. */
static bool next(struct visit *v)
{
	char line[512];
	bool got = false;

	(void)MT_WAIT(({
		while (!got && mt_trace_line(&trace, line, sizeof(line)))
			got = mt_field(line, "pid") == getpid();
		got;
	}), 5000);
	if (!got)
		return false;
	v->period = mt_field(line, "next_ms");
	v->size = mt_field(line, "size_mb");
	v->slow = mt_field(line, "young_slow");
	return true;
}

static int in_bounds(const struct visit *v)
{
	MT_ASSERT(v->period >= PMIN && v->period <= PMAX, "a period of %lld ms",
		  v->period);
	MT_ASSERT(v->size >= SMIN && v->size <= SMAX, "a size of %lld MiB",
		  v->size);
	return MT_PASS;
}

/* Visits until one of the wanted kind; then the one after it in @v. */
static int settle(struct visit *v, bool useful, long long period,
		  long long size)
{
	int i;

	for (i = 0; i < 60; i++) {
		MT_ASSERT(next(v), "no more visits");
		if (in_bounds(v))
			return MT_FAIL;
		if (!!v->slow == useful && v->period == period &&
		    v->size == size)
			return MT_PASS;
	}
	mt_note("after 60 %s visits: period %lld ms, size %lld MiB",
		useful ? "useful" : "empty", v->period, v->size);
	return MT_FAIL;
}

static int busy(void)
{
	struct visit v;

	if (begin())
		return MT_FAIL;
	return settle(&v, true, PMIN, SMAX);
}

static int idle(void)
{
	struct visit v;

	if (begin() || settle(&v, true, PMIN, SMAX))
		return MT_FAIL;
	mt_touch_stop(&toucher);
	return settle(&v, false, PMAX, SMIN);
}

/* The first empty visit after useful ones: period x 8, size as it was. */
static int useful_to_empty(void)
{
	struct visit v;

	if (begin() || settle(&v, true, PMIN, SMAX))
		return MT_FAIL;
	mt_touch_stop(&toucher);
	do
		MT_ASSERT(next(&v), "no more visits");
	while (v.slow);
	MT_ASSERT(v.period == 8 * PMIN, "period is %lld ms, not %d", v.period,
		  8 * PMIN);
	MT_ASSERT(v.size == SMAX, "size is %lld MiB, not %d", v.size, SMAX);
	MT_ASSERT(next(&v) && !v.slow, "no second empty visit");
	MT_ASSERT(v.period == 8 * PMIN * 115 / 100, "then %lld ms", v.period);
	MT_ASSERT(v.size == SMAX / 2, "then %lld MiB", v.size);
	return MT_PASS;
}

/* The first useful visit after empty ones: period / 8, size the largest. */
static int empty_to_useful(void)
{
	struct mt_toucher again;
	struct visit v;

	if (begin() || settle(&v, true, PMIN, SMAX))
		return MT_FAIL;
	mt_touch_stop(&toucher);
	if (settle(&v, false, PMAX, SMIN))
		return MT_FAIL;
	mt_touch_start(&again, toucher.p, toucher.size);
	do
		MT_ASSERT(next(&v), "no more visits");
	while (!v.slow);
	MT_ASSERT(v.period == PMAX / 8, "period is %lld ms, not %d", v.period,
		  PMAX / 8);
	MT_ASSERT(v.size == SMAX, "size is %lld MiB, not %d", v.size, SMAX);
	MT_ASSERT(next(&v) && v.slow, "no second useful visit");
	MT_ASSERT(v.period == PMAX / 8 * 85 / 100, "then %lld ms", v.period);
	return MT_PASS;
}

/* New bounds hold from the next visit on. */
static int live(void)
{
	struct visit v;
	int i;

	if (begin() || settle(&v, true, PMIN, SMAX))
		return MT_FAIL;
	mt_set3("period", "ms", 400, 400, 500);
	mt_set3("size", "mb", 300, 300, 310);
	for (i = 0; i < 3; i++)
		MT_ASSERT(next(&v), "no more visits");
	MT_ASSERT(v.period >= 400 && v.period <= 500, "%lld ms", v.period);
	MT_ASSERT(v.size >= 300 && v.size <= 310, "%lld MiB", v.size);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A4 A5 useful visits: shortest period, largest size",
			 busy),
		MT_CHECK("A4 A5 empty visits: longest period, smallest size",
			 idle),
		MT_CHECK("A4 A5 useful, then empty: period x 8, size stays",
			 useful_to_empty),
		MT_CHECK("A4 A5 empty, then useful: period / 8, largest size",
			 empty_to_useful),
		MT_CHECK("A4 A5 C1 bounds can be changed while it runs", live),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

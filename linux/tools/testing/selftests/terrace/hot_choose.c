// SPDX-License-Identifier: GPL-2.0
/*
 * Hotness: more pages are in use than there is room for. Those that are used
 * all the time are chosen, not those that come first.  It has a boot of its own:
 * kswapd, which cannot reclaim what fills DRAM here, gives it up for good.
 *
 * lab: topology=dram-cxl-small-dram icount=2 boot=own timeout=180s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

#define WARM	(64 * MT_MB)
#define HOT	(4 * MT_MB)
#define HOT_PAGES	((long)(HOT / MT_PAGE))

static struct mt_snap before;

/*
 * Warm memory is used once in a while, but between any two visits; it lies below
 * the hot, so that it is met first. There is room for twice the hot memory.
 */
static int busiest(void)
{
	struct mt_toucher warm_t, hot_t;
	size_t hogged, off = 0;
	struct mt_trace trace;
	char *hog, *warm, *hot, line[512];
	long long probe = 0;
	long on_fast;
	bool moved;

	hot = mt_place(HOT, mt_slow_node());
	warm = mt_place(WARM, mt_slow_node());
	MT_ASSERT(hot && warm, "no memory on the slow node");
	MT_ASSERT(warm < hot, "memory is not mapped downwards");
	hog = mt_hog(mt_fast_node(), &hogged);
	MT_NEED(hog, "DRAM cannot be filled");
	mt_fast();
	mt_set("hot/accesses", 2);
	mt_set("hot/room_percent", 100);
	mt_set3("period", "ms", 1000, 1000, 1000);
	mt_set("promote/batch_pages", 64);
	mt_snap(&before);
	warm_t = (struct mt_toucher) {
		.p = warm, .size = WARM, .step = MT_PAGE, .rest_ms = 900,
		.cpu = -1,
	};
	mt_toucher_run(&warm_t);
	mt_touch_start(&hot_t, hot, HOT);
	MT_ASSERT(!mt_trace_open(&trace, "mtier_scan_end"), "no trace event");
	mt_on();
	/* Let it find out that it has to choose, then make room. */
	(void)MT_WAIT(({
		while (mt_trace_line(&trace, line, sizeof(line)))
			if (mt_field(line, "pid") == getpid())
				probe = mt_field(line, "probe");
		probe > 0;
	}), 30000);
	for (; mt_node_room(mt_fast_node()) < 2 * HOT_PAGES && off < hogged;
	     off += MT_MB)
		munmap(hog + off, MT_MB);
	moved = MT_WAIT(mt_pages_on(hot, HOT, mt_fast_node()) >=
			HOT_PAGES * 9 / 10, 30000);
	on_fast = mt_pages_on(warm, WARM, mt_fast_node());
	mt_touch_stop(&hot_t);
	mt_touch_stop(&warm_t);
	mt_trace_close(&trace);
	mt_note("probe level %lld; in DRAM %ld of %ld hot pages, and %ld warm ones",
		probe, mt_pages_on(hot, HOT, mt_fast_node()), HOT_PAGES,
		on_fast);
	mt_note_since(&before);
	MT_ASSERT(probe > 0, "it did not become choosy");
	MT_ASSERT(moved, "the hot pages did not get in");
	MT_ASSERT(on_fast <= HOT_PAGES / 2, "too many others did");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("H1 H5 of too many pages the busiest are chosen",
			 busiest),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

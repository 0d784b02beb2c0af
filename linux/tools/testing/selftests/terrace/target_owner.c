// SPDX-License-Identifier: GPL-2.0
/*
 * Target node: what waits to be moved goes with its owner, and whoever gets its
 * frames next is not moved in its place.  With one CPU there is one list of freed
 * pages, from which the next allocations come.
 *
 * lab: topology=dram-cxl cpus=1 icount=0 timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(48 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))
#define BATCH	4096

#define SCALE_SET	0x4d540001UL

static void hot(void *arg)
{
	char *p = mt_fill(SIZE, mt_slow_node(), false);

	(void)arg;
	while (p) {
		mt_touch(p, SIZE, false);
		mt_nap(50);
	}
}

/*
 * Has there been a batch that is paid for with six seconds or more?  Smaller ones
 * at first come out of what the rate limit has saved up.
 */
static bool long_rest(struct mt_trace *t)
{
	bool found = false;
	char line[512];

	while (mt_trace_line(t, line, sizeof(line)))
		found |= mt_field(line, "moved") >= BATCH / 2;
	return found;
}

/* Have pages of a process wait for a migrator that rests, and end it. */
static int queue_the_dead(void)
{
	struct mt_snap before;
	long long queued;
	struct mt_trace trace;
	char state[64];
	pid_t pid;

	MT_ASSERT(!mt_trace_open(&trace, "mtier_migrate"), "no trace event");
	mt_fast();
	mt_set("hot/accesses", 1);
	mt_set("hot/window_ms", 60000);
	mt_set("promote/rate_mbps", 1);
	mt_set("promote/batch_pages", BATCH);
	snprintf(state, sizeof(state), "node%d/state", mt_slow_node());
	pid = mt_spawn(hot, NULL);
	mt_snap(&before);
	mt_on();
	MT_ASSERT(MT_WAIT(long_rest(&trace), 20000), "no large batch");
	MT_ASSERT(mt_reads(state, "throttled"), "it does not rest");
	queued = mt_queued_now();
	mt_kill(pid);
	mt_trace_close(&trace);
	MT_ASSERT(queued > PAGES / 4, "only %lld pages wait", queued);
	MT_ASSERT(MT_WAIT(!mt_queued_now(), 5000), "%lld wait on after exit",
		  mt_queued_now());
	MT_ASSERT(mt_since(&before, "mtier_drop_gone") >= queued,
		  "%lld waited, %lld are counted as gone", queued,
		  mt_since(&before, "mtier_drop_gone"));
	return MT_PASS;
}

/* Hot as memory of one process, then that of another of whose use nobody knows. */
static int changed_hands(void)
{
	struct mt_snap before;
	char *p;

	mt_snap(&before);
	MT_ASSERT(!queue_the_dead(), "there is nothing to take over");
	MT_ASSERT(!prctl(SCALE_SET, 0, 0, 0, 0), "prctl");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_set("promote/rate_mbps", 1048576);
	mt_nap(1000);
	mt_off();
	mt_note_since(&before);
	if (mt_all_on(p, SIZE, mt_slow_node()))
		return MT_PASS;
	mt_note_where("memory nobody looked at", p, SIZE);
	return MT_FAIL;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("H8 the heat of a frame is not that of its new owner",
			 changed_hands),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

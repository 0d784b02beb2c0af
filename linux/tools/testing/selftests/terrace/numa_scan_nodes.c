// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning on two sockets: a thread on the other one goes by the task's
 * node, and what is scanned from there comes to the task all the same.
 *
 * lab: topology=two-socket-cxl timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define SIZE	(32 * MT_MB)

/* All its memory is local and it has one thread: nothing is worth a fault. */
static int local_pages_are_left_alone(void)
{
	struct ns_task t = { .size = SIZE, .cpu = 0, .single = true };
	struct mt_snap s;

	if (ns_fast("async", 64) || ns_task_start(&t))
		return MT_FAIL;
	mt_snap(&s);
	MT_ASSERT(MT_WAIT(mt_since(&s, "numa_scan_slices_async") > 20, 30000),
		  "%lld slices", mt_since(&s, "numa_scan_slices_async"));
	mt_note("%lld of %lld entries were made to fault",
		mt_since(&s, "numa_pte_updates"), mt_since(&s, "numa_scan_ptes"));
	MT_ASSERT(mt_since(&s, "numa_scan_ptes") > (long long)(SIZE / MT_PAGE),
		  "it was not scanned");
	MT_ASSERT(mt_since(&s, "numa_pte_updates") < 2048, "local pages fault");
	ns_task_stop(&t);
	return MT_PASS;
}

/* How many of a task's pages are on node 0 after it has run there for a while */
static int comes_home(const char *mode)
{
	struct mt_snap s;
	char *p;

	if (ns_fast(mode, 64) || mt_run_on_cpu(1))
		return MT_FAIL;
	p = mt_fill(SIZE, 1, false);
	MT_ASSERT(p && mt_pages_on(p, SIZE, 1) > (long)(SIZE / MT_PAGE / 2),
		  "no memory on node 1");
	mt_snap(&s);
	MT_ASSERT(!mt_run_on_cpu(0), "cannot run on node 0");
	MT_ASSERT(MT_WAIT(({ mt_touch(p, SIZE, false);
			     mt_pages_on(p, SIZE, 0) >
			     (long)(SIZE / MT_PAGE * 95 / 100); }), 60000),
		  "%ld of %lu pages came", mt_pages_on(p, SIZE, 0),
		  SIZE / MT_PAGE);
	mt_note("%s: %lld updates, %lld hint faults, %lld/%lld/%lld slices",
		mode, mt_since(&s, "numa_pte_updates"),
		mt_since(&s, "numa_hint_faults"),
		mt_since(&s, "numa_scan_slices_sync"),
		mt_since(&s, "numa_scan_slices_async"),
		mt_since(&s, "numa_scan_slices_sliced"));
	return MT_PASS;
}

static int in_sync(void)
{
	return comes_home("sync");
}

static int in_threads(void)
{
	return comes_home("async");
}

static int in_slices(void)
{
	return comes_home("sliced");
}

static int through_windows(void)
{
	mt_write(NS_WINDOWS, "1");
	return comes_home("async");
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("P3 local pages are left alone, seen from afar too",
			 local_pages_are_left_alone),
		MT_CHECK("sync brings memory to its task", in_sync),
		MT_CHECK("async brings memory to its task", in_threads),
		MT_CHECK("sliced brings memory to its task", in_slices),
		MT_CHECK("async and windows bring memory to its task",
			 through_windows),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}

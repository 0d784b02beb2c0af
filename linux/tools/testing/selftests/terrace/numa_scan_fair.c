// SPDX-License-Identifier: GPL-2.0
/*
 * Remote charge: a task for which threads work gets less of a busy CPU.
 *
 * lab: topology=dram-cxl timeout=120s debug=no
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "numa_scan_util.h"

#define SIZE	(64 * MT_MB)
#define MS	1000000LL
#define LOOKS	31

static int by_size(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return (x > y) - (x < y);
}

/*
 * Get how much more than @other @pid has run. A task that runs while a virtual CPU stands
 * still gets all that time at once, and the other one is compensated soon: so sample
 * often and take the median.
 */
static long long ahead(pid_t pid, pid_t other)
{
	long long ns[LOOKS];
	int i;

	for (i = 0; i < LOOKS; i++) {
		ns[i] = ns_sched(pid, "se.sum_exec_runtime") -
			ns_sched(other, "se.sum_exec_runtime");
		mt_nap(50);
	}
	qsort(ns, LOOKS, sizeof(ns[0]), by_size);
	return ns[LOOKS / 2];
}

/* R7: of two equal tasks the scanned one runs less, by exactly that time. */
static int fair(void)
{
	struct ns_task t = { .size = SIZE, .cpu = 0 };
	long long before, gained, charged;
	pid_t hog;

	if (ns_fast("async", 64) || ns_task_start(&t))
		return MT_FAIL;
	hog = ns_hog(0);
	mt_nap(500);
	charged = ns_sched(t.pid, "remote_charged_ns");
	before = ahead(t.pid, hog);
	mt_nap(6000);
	gained = ahead(t.pid, hog) - before;
	charged = ns_sched(t.pid, "remote_charged_ns") - charged;
	mt_note("threads took %lld us for it; with that, it ran %lld us more than the other",
		charged / 1000, gained / 1000);
	MT_ASSERT(charged > 30 * MS, "too little to tell: %lld ns", charged);
	MT_ASSERT(llabs(gained) < 15 * MS, "they differ by %lld us",
		  gained / 1000);
	mt_kill(hog);
	ns_task_stop(&t);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R7 a task that is scanned runs less by just that",
			 fair),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}

// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: a node with many CPUs has several threads, and all of them scan.
 *
 * lab: topology=dram-cxl cpus=8 timeout=120s debug=no static-keys=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define SIZE		(16 * MT_MB)
/* Of eight CPUs on node 0, and one for each four of them */
#define THREADS		2
#define TASKS		4

static pid_t thread(int number)
{
	char name[32];

	snprintf(name, sizeof(name), "knumascand/0:%d", number);
	return mt_kthread(name);
}

/* Has each thread scanned for a while since @before? */
static bool all_work(const pid_t *threads, const long long *before)
{
	int i;

	for (i = 0; i < THREADS; i++)
		if (mt_cpu_us(threads[i]) < before[i] + 1000)
			return false;
	return true;
}

static int several_threads(void)
{
	struct ns_task t[TASKS] = { 0 };
	long long before[THREADS];
	pid_t threads[THREADS];
	struct mt_snap s;
	int i;

	MT_ASSERT(sysconf(_SC_NPROCESSORS_ONLN) == 8, "not eight CPUs");
	if (ns_fast("async", 16))
		return MT_FAIL;
	MT_ASSERT(!thread(THREADS), "more than %d threads", THREADS);
	for (i = 0; i < THREADS; i++) {
		threads[i] = thread(i);
		MT_ASSERT(threads[i] > 0, "no knumascand/0:%d", i);
		before[i] = mt_cpu_us(threads[i]);
	}
	mt_snap(&s);
	for (i = 0; i < TASKS; i++) {
		t[i].size = SIZE;
		t[i].cpu = i;
		if (ns_task_start(&t[i]))
			return MT_FAIL;
	}
	MT_ASSERT(MT_WAIT(all_work(threads, before), 60000),
		  "they worked for %lld and %lld us",
		  mt_cpu_us(threads[0]) - before[0],
		  mt_cpu_us(threads[1]) - before[1]);
	MT_ASSERT(MT_WAIT(mt_since(&s, "numa_scan_slices_async") > 100, 60000),
		  "%lld slices", mt_since(&s, "numa_scan_slices_async"));
	for (i = 0; i < TASKS; i++)
		ns_task_stop(&t[i]);
	mt_write(NS_MODE, "sync");
	for (i = 0; i < THREADS; i++)
		MT_ASSERT(!thread(i), "knumascand/0:%d is left", i);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("all threads of a node scan, and end with the mode",
			 several_threads),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}

// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: threads avoid CPUs isolated at boot, even if these are idle and in the
 * cpuset.
 *
 * lab: topology=dram-cxl cpus=3 append="isolcpus=2" timeout=120s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "numa_scan_util.h"

#define SIZE	(64 * MT_MB)
#define APART	2		/* as on the command line above */

/* Get the number of slices of threads on a CPU from the trace */
static int slices_on(struct mt_trace *tr, int cpu)
{
	char line[512];
	int n = 0;

	while (mt_trace_line(tr, line, sizeof(line)))
		n += mt_field_is(line, "mode", "async") &&
		     mt_field(line, "cpu") == cpu;
	return n;
}

/* The task has one of the other two CPUs, and the last one is also busy. */
static int left_alone(void)
{
	struct ns_task t = { .size = SIZE, .cpu = 0 };
	struct mt_trace tr;
	struct mt_snap s;
	pid_t hog;
	int n;

	MT_NEED(mt_reads("/sys/devices/system/cpu/isolated", "2"),
		"CPU %d is not set apart", APART);
	if (ns_fast("async", 64) || ns_task_start(&t))
		return MT_FAIL;
	hog = ns_hog(1);
	MT_ASSERT(!mt_trace_open_of(&tr, "numa_scan", "numa_scan_begin"),
		  "cannot trace");
	mt_snap(&s);
	MT_ASSERT(MT_WAIT(mt_since(&s, "numa_scan_slices_sliced") > 10 ||
			  mt_since(&s, "numa_scan_slices_async") > 10, 30000),
		  "the task is not scanned at all");
	mt_kill(hog);
	ns_task_stop(&t);
	n = slices_on(&tr, APART);
	mt_trace_close(&tr);
	mt_note("%lld slices in the task, %lld in threads, %d of them on CPU %d",
		mt_since(&s, "numa_scan_slices_sliced"),
		mt_since(&s, "numa_scan_slices_async"), n, APART);
	MT_ASSERT(!n, "a CPU that was set apart has scanned");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R8 CPUs that were set apart are left alone",
			 left_alone),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}

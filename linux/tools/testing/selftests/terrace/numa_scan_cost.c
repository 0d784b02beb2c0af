// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: the cost of each mode for the task, and the work done for it. Guest time
 * counts instructions here, so that figures are of the kernel and not of the host.
 *
 * lab: topology=dram-cxl icount=2 timeout=120s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define SIZE	(64 * MT_MB)
#define RUN_MS	5000

/* Results of a mode in RUN_MS */
struct figures {
	long stalls;		/* the task did not run for more than 1 ms */
	long long longest_us;
	double updates_per_s;
	double share;		/* scan time of task time, percent */
};

static int measure(const char *mode, struct figures *f)
{
	struct ns_task t = { .size = SIZE, .cpu = 0 };
	long long start, wall, ran, scan_ns;
	struct mt_trace tr;
	struct mt_snap s;
	char line[512];

	memset(f, 0, sizeof(*f));
	if (ns_fast(mode, 64) || ns_task_start(&t) ||
	    mt_trace_open_of(&tr, "numa_scan", "numa_scan_end"))
		return MT_FAIL;
	mt_snap(&s);
	start = mt_now_ms();
	ran = ns_sched(t.pid, "se.sum_exec_runtime");
	while (mt_now_ms() < start + RUN_MS) {
		if (!mt_trace_line(&tr, line, sizeof(line))) {
			mt_nap(20);
			continue;
		}
		if (mt_field(line, "pid") != t.pid || mt_field(line, "cpu"))
			continue;
		f->stalls += mt_field(line, "ns") > 1000000;
		if (mt_field(line, "ns") / 1000 > f->longest_us)
			f->longest_us = mt_field(line, "ns") / 1000;
	}
	wall = mt_now_ms() - start;
	ran = ns_sched(t.pid, "se.sum_exec_runtime") - ran;
	scan_ns = mt_since(&s, "numa_scan_ns_sync") +
		  mt_since(&s, "numa_scan_ns_async") +
		  mt_since(&s, "numa_scan_ns_sliced");
	f->updates_per_s = mt_since(&s, "numa_pte_updates") * 1000.0 / wall;
	f->share = 100.0 * scan_ns / ran;
	mt_note("figure mode=%s stalls_over_1ms=%ld longest_us=%lld", mode,
		f->stalls, f->longest_us);
	mt_note("figure mode=%s updates_per_s=%.0f scan_percent=%.2f", mode,
		f->updates_per_s, f->share);
	ns_task_stop(&t);
	mt_trace_close(&tr);
	mt_write(NS_MODE, "sync");
	return MT_PASS;
}

static int no_stalls(void)
{
	struct figures sync, async, sliced;

	if (measure("sync", &sync) || measure("async", &async) ||
	    measure("sliced", &sliced))
		return MT_FAIL;
	MT_ASSERT(sync.stalls > 0, "sync has no stalls: this shows nothing");
	MT_ASSERT(!async.stalls && !sliced.stalls, "%ld and %ld stalls",
		  async.stalls, sliced.stalls);
	/*
	 * The updates of async are measured by numa_scan_budget: virtual CPUs run in
	 * turns here, so a thread that waits for another CPU to flush its TLB waits for
	 * the end of the turn of that CPU.
	 */
	mt_note("sliced makes %.2f times the updates of sync",
		sliced.updates_per_s / sync.updates_per_s);
	MT_ASSERT(sliced.updates_per_s >= 0.7 * sync.updates_per_s,
		  "too few updates");
	/* One scan may be in the measured time, and its pause after it. */
	MT_ASSERT(sliced.share <= 4.5 && sync.share <= 4.5,
		  "more than one part in 32");
	return MT_PASS;
}

/* Waits of tasks that map memory, in RUN_MS */
struct waits {
	unsigned long maps;
	unsigned int n;
	long long ns[4096];	/* all waits above 0; the longest first */
};

static int longer_first(const void *a, const void *b)
{
	const long long *x = a, *y = b;

	return (*x < *y) - (*x > *y);
}

/* Get the least wait of the longest thousandth of all maps and unmaps */
static long long p999_us(const struct waits *w)
{
	unsigned long place = w->maps * 2 / 1000;

	return place < w->n ? w->ns[place] / 1000 : 0;
}

static int wait_for_maps(const char *mode, struct waits *w)
{
	struct ns_task t = { .size = SIZE, .cpu = 0, .maps = true };
	struct mt_trace tr;
	char line[512];
	long long start;

	memset(w, 0, sizeof(*w));
	if (ns_fast(mode, 64) || ns_task_start(&t))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(t.shared->mapped > 0, 20000), "it maps nothing");
	if (mt_trace_open_of(&tr, "sched", "sched_stat_blocked"))
		return MT_FAIL;
	w->maps = t.shared->mapped;
	start = mt_now_ms();
	while (mt_now_ms() < start + RUN_MS) {
		if (!mt_trace_line(&tr, line, sizeof(line)))
			mt_nap(20);
		else if (mt_field(line, "pid") == t.shared->mapper &&
			 w->n < ARRAY_LEN(w->ns))
			w->ns[w->n++] = mt_field(line, "delay");
	}
	w->maps = t.shared->mapped - w->maps;
	ns_task_stop(&t);
	mt_trace_close(&tr);
	mt_write(NS_MODE, "sync");
	qsort(w->ns, w->n, sizeof(w->ns[0]), longer_first);
	mt_note("figure mode=%s maps=%lu waited=%u longest_us=%lld p999_us=%lld",
		mode, w->maps, w->n, w->n ? w->ns[0] / 1000 : 0, p999_us(w));
	return MT_PASS;
}

/* mmap() and munmap() wait for mmap_lock, which a walk holds. */
static int short_waits(void)
{
	static struct waits sync, async, sliced;
	int ret;

	mt_write("/proc/sys/kernel/sched_schedstats", "1");
	ret = wait_for_maps("sync", &sync) || wait_for_maps("async", &async) ||
	      wait_for_maps("sliced", &sliced);
	mt_write("/proc/sys/kernel/sched_schedstats", "0");
	if (ret)
		return MT_FAIL;
	MT_ASSERT(p999_us(&sync) > 1000, "sync keeps nobody: this shows nothing");
	/* The rest is the turn of the other virtual CPU, up to 4 ms. */
	MT_ASSERT(p999_us(&async) < p999_us(&sync), "async keeps them as long");
	MT_ASSERT(p999_us(&sliced) < p999_us(&sync), "sliced keeps them as long");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R2 R10 R11 no slice stops the task, or holds mmap_lock, for 1 ms",
			 no_stalls),
		MT_CHECK("p99.9 of the wait of mmap() is shorter than in sync",
			 short_waits),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}

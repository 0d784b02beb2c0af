// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: threads stay within the cpuset of the task that they scan for, and a
 * task whose cpuset has one node is not scanned.
 *
 * lab: topology=dram-cxl timeout=120s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define SIZE	(64 * MT_MB)

static int trace_begin(struct mt_trace *tr)
{
	char path[128];
	int ret = mt_trace_open_of(tr, "numa_scan", "numa_scan_begin");

	snprintf(path, sizeof(path), "%s/trace_clock", tr->dir);
	MT_ASSERT(!ret && !mt_write(path, "mono"), "cannot trace");
	return MT_PASS;
}

static int in_cgroup(struct mt_cgroup *cg, const char *cpus, const char *mems)
{
	MT_ASSERT(!mt_cgroup_make(cg, "cs", "+cpu +cpuset"), "no cgroup");
	MT_ASSERT(!mt_cgroup_write(cg, "cpuset.cpus", cpus), "no cpuset.cpus");
	MT_ASSERT(!mt_cgroup_write(cg, "cpuset.mems", mems), "no cpuset.mems");
	return MT_PASS;
}

/* Count slices of a task by mode and CPU for this time, or until there are @enough */
static int slices_on(const struct ns_task *t, struct mt_trace *tr,
		     unsigned int ms, const char *mode, int cpu, int enough)
{
	long long until = mt_now_ms() + ms;
	char line[512];
	int n = 0;

	while (n < enough && mt_now_ms() < until) {
		if (!mt_trace_line(tr, line, sizeof(line))) {
			mt_nap(2);
			continue;
		}
		n += mt_field(line, "pid") == t->pid &&
		     mt_field_is(line, "mode", mode) &&
		     mt_field(line, "cpu") == cpu;
	}
	return n;
}

/* Pinned to CPU 0 in a cpuset of both: served from the other one. */
static int pinned(void)
{
	struct mt_cgroup cg;
	struct ns_task t = { .size = SIZE, .cpu = 0, .cg = &cg };
	struct mt_trace tr;
	int other;

	if (in_cgroup(&cg, "0-1", "0-1") || ns_fast("async", 64) ||
	    ns_task_start(&t) || trace_begin(&tr))
		return MT_FAIL;
	other = slices_on(&t, &tr, 30000, "async", 1, 10);
	mt_note("%d slices on CPU 1", other);
	MT_ASSERT(other > 0, "no slice on the other CPU of its cpuset");
	MT_ASSERT(!slices_on(&t, &tr, 1000, "async", 0, 1), "slices on its own");
	ns_task_stop(&t);
	mt_trace_close(&tr);
	mt_cgroup_remove(&cg);
	return MT_PASS;
}

/* A cpuset of its own CPU only: nothing on any other CPU, idle or not. */
static int confined(void)
{
	struct mt_cgroup cg;
	struct ns_task t = { .size = SIZE, .cpu = 0, .cg = &cg };
	struct mt_trace tr;
	struct mt_snap s;
	int other;

	if (in_cgroup(&cg, "0", "0-1") || ns_fast("async", 64) ||
	    ns_task_start(&t) || trace_begin(&tr))
		return MT_FAIL;
	mt_snap(&s);
	MT_ASSERT(MT_WAIT(mt_since(&s, "numa_scan_slices_sliced") > 10, 30000),
		  "the task is not scanned at all");
	/* On a busy host a thread may find CPU 1 idle for once in seconds. */
	other = slices_on(&t, &tr, 8000, "async", 1, 1);
	mt_note("%d slices on CPU 1, %lld in the task", other,
		mt_since(&s, "numa_scan_slices_sliced"));
	MT_ASSERT(!other, "%d slices outside of the cpuset", other);
	ns_task_stop(&t);
	mt_trace_close(&tr);
	mt_cgroup_remove(&cg);
	return MT_PASS;
}

/* Times in which CPU 1 was certainly not in the cpuset */
struct windows {
	double from[128];
	double to[128];
	size_t n;
};

static bool forbidden(const struct windows *w, double t)
{
	size_t i;

	for (i = 0; i < w->n; i++)
		if (t > w->from[i] && t < w->to[i])
			return true;
	return false;
}

/*
 * A thread checks the cpuset, then starts its slice: a change in between is not visible.
 * So only slices that start this much later are checked.
 */
#define SETTLE_S	0.05

/* Sort the slices on CPU 1 in the trace so far. */
static void sort_slices(struct mt_trace *tr, pid_t pid, const struct windows *w,
			int *good, int *bad)
{
	char line[512];

	while (mt_trace_line(tr, line, sizeof(line)))
		if (mt_field(line, "pid") == pid && mt_field(line, "cpu") == 1)
			++*(forbidden(w, mt_when(line)) ? bad : good);
}

/* R8: the cpuset is rewritten all the time, until there is a result. */
static int rewritten(void)
{
	static struct windows w;
	struct mt_cgroup cg;
	struct ns_task t = { .size = SIZE, .cpu = 0, .cg = &cg };
	struct mt_trace tr;
	int bad = 0, good = 0;

	w.n = 0;
	if (in_cgroup(&cg, "0-1", "0-1") || ns_fast("async", 64) ||
	    ns_task_start(&t) || trace_begin(&tr))
		return MT_FAIL;
	while (w.n < 20 || (good < 20 && !bad && w.n < ARRAY_LEN(w.from))) {
		mt_cgroup_write(&cg, "cpuset.cpus", "0");
		w.from[w.n] = mt_now_ns() / 1e9 + SETTLE_S;
		mt_nap(130);
		w.to[w.n] = mt_now_ns() / 1e9;
		w.n++;
		mt_cgroup_write(&cg, "cpuset.cpus", "0-1");
		mt_nap(130);
		sort_slices(&tr, t.pid, &w, &good, &bad);
	}
	ns_task_stop(&t);
	sort_slices(&tr, t.pid, &w, &good, &bad);
	mt_note("%d slices on CPU 1 while it was in the cpuset, %d while not",
		good, bad);
	MT_ASSERT(good > 0, "none, so this shows nothing");
	MT_ASSERT(!bad, "%d slices outside of the cpuset", bad);
	mt_trace_close(&tr);
	mt_cgroup_remove(&cg);
	return MT_PASS;
}

/* Its memory can be on one node only: nothing can move, so a scan is useless. */
static int one_node(void)
{
	struct mt_cgroup cg;
	struct ns_task t = { .size = SIZE, .cpu = 0, .cg = &cg };
	struct mt_snap s;

	if (in_cgroup(&cg, "0-1", "0") || ns_fast("sync", 64) ||
	    ns_task_start(&t))
		return MT_FAIL;
	mt_snap(&s);
	MT_ASSERT(MT_WAIT(mt_since(&s, "numa_pte_updates") > 4096, 20000),
		  "not scanned, though nobody said so");
	mt_write(NS_WINDOWS, "1");
	mt_nap(100);
	mt_snap(&s);
	MT_ASSERT(MT_WAIT(mt_since(&s, "numa_scan_one_node") > 5, 20000),
		  "%lld visits were spared", mt_since(&s, "numa_scan_one_node"));
	mt_note("%lld visits spared, %lld updates",
		mt_since(&s, "numa_scan_one_node"),
		mt_since(&s, "numa_pte_updates"));
	MT_ASSERT(mt_since(&s, "numa_pte_updates") < 4096, "scanned");
	mt_cgroup_write(&cg, "cpuset.mems", "0-1");
	mt_snap(&s);
	MT_ASSERT(MT_WAIT(mt_since(&s, "numa_pte_updates") > 4096, 20000),
		  "not scanned again with two nodes");
	ns_task_stop(&t);
	mt_cgroup_remove(&cg);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R8 a pinned task is served on another CPU of its cpuset",
			 pinned),
		MT_CHECK("R8 never outside of the cpuset", confined),
		MT_CHECK("R8 not while the cpuset is rewritten, either",
			 rewritten),
		MT_CHECK("a cpuset with one node is not scanned", one_node),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Back-charge: limits count what threads do, and the machine does not count it
 * twice.
 *
 * lab: topology=dram-cxl timeout=240s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define SIZE	(64 * MT_MB)
#define MS	1000000LL
/* The quota of a period at each end, and what runs until the next tick */
#define QUOTA_SLACK_US	(3 * 20000LL)

/* R5: cpu.max counts what threads do. */
static int quota_counts(void)
{
	struct mt_cgroup cg;
	struct ns_task t = { .size = SIZE, .cpu = 0, .cg = &cg };
	long long start, wall, usage, folded, throttled;
	struct mt_snap s;
	bool waited;

	MT_ASSERT(!mt_cgroup_make(&cg, "quota", "+cpu +cpuset"), "no cgroup");
	if (ns_fast("async", 64) || ns_task_start(&t))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_write(&cg, "cpu.max", "20000 100000"), "no quota");
	mt_nap(200);
	mt_snap(&s);
	start = mt_now_ms();
	usage = mt_cgroup_stat(&cg, "cpu.stat", "usage_usec");
	throttled = mt_cgroup_stat(&cg, "cpu.stat", "nr_throttled");
	/* Much more than its quota may be off by */
	waited = MT_WAIT(mt_since(&s, "remote_charge_folded_ns") >=
			 5 * QUOTA_SLACK_US * 1000, 90000);
	usage = mt_cgroup_stat(&cg, "cpu.stat", "usage_usec") - usage;
	throttled = mt_cgroup_stat(&cg, "cpu.stat", "nr_throttled") - throttled;
	wall = mt_now_ms() - start;
	folded = mt_since(&s, "remote_charge_folded_ns");
	mt_note("%lld us in %lld ms, of it %lld us by threads; stopped %lld times",
		usage, wall, folded / 1000, throttled);
	MT_ASSERT(waited, "threads did too little for it");
	MT_ASSERT(throttled > 10, "it was stopped %lld times", throttled);
	/* What a period takes too much, the next one gets less. */
	MT_ASSERT(usage <= wall * 200 + QUOTA_SLACK_US,
		  "it had %lld us of %lld ms", usage, wall);
	ns_task_stop(&t);
	mt_cgroup_remove(&cg);
	return MT_PASS;
}

/* All time of a CPU in /proc/stat but its idle time, in ticks of 10 ms */
static long long cpu_busy(int cpu)
{
	static char text[65536];
	long long v[8] = { 0 };
	char name[16], *at;

	snprintf(name, sizeof(name), "\ncpu%d ", cpu);
	if (mt_read("/proc/stat", text, sizeof(text)) < 0)
		return -1;
	at = strstr(text, name);
	if (!at || sscanf(at + strlen(name), "%lld %lld %lld %lld %lld %lld %lld %lld",
			  &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6],
			  &v[7]) != 8)
		return -1;
	return v[0] + v[1] + v[2] + v[5] + v[6] + v[7];
}

/* R6: a CPU is never busier than the time that goes by. */
static int stat_counts_once(void)
{
	struct ns_task t = { .size = SIZE, .cpu = 0 };
	long long busy, wall, charged;

	if (ns_fast("async", 64) || ns_task_start(&t))
		return MT_FAIL;
	busy = cpu_busy(0);
	wall = mt_now_ms();
	charged = ns_sched(t.pid, "remote_charged_ns");
	mt_nap(8000);
	busy = (cpu_busy(0) - busy) * 10;
	wall = mt_now_ms() - wall;
	charged = (ns_sched(t.pid, "remote_charged_ns") - charged) / MS;
	mt_note("busy for %lld ms of %lld, %lld ms were charged on top", busy,
		wall, charged);
	MT_ASSERT(charged >= 60, "too little to tell: %lld ms", charged);
	MT_ASSERT(busy <= wall + 30, "more than there is");
	ns_task_stop(&t);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R5 cpu.max counts it", quota_counts),
		MT_CHECK("R6 /proc/stat counts it once", stat_counts_once),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Scan: what the scanner costs, and that it costs nothing when there is
 * nothing to find.
 *
 * lab: topology=dram-cxl icount=2 timeout=90s debug=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

static int off(void)
{
	struct mt_snap before;
	char *p = mt_place(MT_MB, mt_slow_node());
	struct mt_toucher t;

	MT_ASSERT(p, "no memory on the slow node");
	mt_snap(&before);
	mt_touch_start(&t, p, MT_MB);
	mt_nap(1500);
	mt_touch_stop(&t);
	MT_ASSERT(!mt_kthreads(), "%u threads are there", mt_kthreads());
	MT_ASSERT(!mt_since(&before, "mtier_scan_ptes") &&
		  !mt_since(&before, "mtier_scan_visits"), "it scanned");
	MT_ASSERT(mt_all_on(p, MT_MB, mt_slow_node()), "pages moved");
	MT_ASSERT(mt_reads("state", "off"), "its state is not off");
	MT_ASSERT(!mt_read_ll("mms") && !mt_read_ll("records_bytes"),
		  "%lld slots, %lld bytes of records", mt_read_ll("mms"),
		  mt_read_ll("records_bytes"));
	return MT_PASS;
}

/* Nothing of any process on the slow node, though all are busy in DRAM. */
static int no_slow_pages(void)
{
	struct mt_snap before;
	char *p = mt_place(32 * MT_MB, mt_fast_node());
	struct mt_toucher t;
	long long cpu;
	pid_t scanner;

	MT_ASSERT(p, "no memory on the fast node");
	mt_fast();
	mt_on();
	scanner = mt_kthread("kmmscand");
	MT_ASSERT(scanner, "no kmmscand");
	MT_NEED(MT_WAIT(mt_reads("state", "idle"), 3000),
		"something lies on the slow node");
	mt_touch_start(&t, p, 32 * MT_MB);
	mt_snap(&before);
	cpu = mt_cpu_us(scanner);
	mt_nap(3000);
	cpu = mt_cpu_us(scanner) - cpu;
	mt_touch_stop(&t);
	MT_ASSERT(!mt_since(&before, "mtier_scan_ptes"), "%lld entries read",
		  mt_since(&before, "mtier_scan_ptes"));
	MT_ASSERT(cpu < 30000, "%lld us of CPU time in 3 s", cpu);
	return MT_PASS;
}

static void in_dram(void *arg)
{
	char *p = mt_place(64 * MT_MB, mt_fast_node());

	(void)arg;
	while (p)
		mt_touch(p, 64 * MT_MB, false);
}

/* Another process has slow pages; a busy one that has none is left alone. */
static int not_my_business(void)
{
	long long first = 0, period = 0, visits = 0;
	char *p = mt_place(MT_MB, mt_slow_node());
	struct mt_trace trace;
	struct mt_toucher t;
	char line[512];
	pid_t pid;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set3("period", "ms", 50, 50, 400);
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", 15);
	mt_touch_start(&t, p, MT_MB);
	pid = mt_spawn(in_dram, NULL);
	mt_nap(200);
	MT_ASSERT(!mt_trace_open(&trace, "mtier_scan_end"), "no trace event");
	mt_on();
	(void)MT_WAIT(({
		while (mt_trace_line(&trace, line, sizeof(line))) {
			if (mt_field(line, "pid") != pid)
				continue;
			period = mt_field(line, "next_ms");
			if (!visits++)
				first = period;
		}
		period == 400;
	}), 10000);
	mt_touch_stop(&t);
	mt_kill(pid);
	mt_trace_close(&trace);
	mt_note("%lld visits, from %lld ms to %lld ms", visits, first, period);
	MT_ASSERT(visits > 0, "it was never visited");
	MT_ASSERT(first < 400, "its first period was the longest already");
	MT_ASSERT(period == 400, "it never fell to the longest period");
	return MT_PASS;
}

/* Always something to do: memory that is used and never gets hot. */
static int cap(int percent)
{
	size_t size = 64 * MT_MB;
	char *p = mt_place(size, mt_slow_node());
	struct mt_snap before;
	struct mt_toucher t;
	long long cpu, ms;
	pid_t scanner;
	bool paused;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set3("period", "ms", 10, 10, 10);
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", 15);
	mt_set("hot/window_ms", 100);
	mt_set("scan/cpu_percent", percent);
	mt_touch_start(&t, p, size);
	mt_on();
	scanner = mt_kthread("kmmscand");
	mt_snap(&before);
	mt_nap(500);
	cpu = mt_cpu_us(scanner);
	ms = mt_now_ms();
	paused = MT_WAIT(mt_reads("state", "paused_cpu"), 1000);
	mt_nap(3000);
	cpu = mt_cpu_us(scanner) - cpu;
	ms = mt_now_ms() - ms;
	mt_touch_stop(&t);
	mt_note("%lld us in %lld ms, cap %d %%", cpu, ms, percent);
	MT_ASSERT(cpu <= ms * 10 * percent * 5 / 4, "above the cap");
	MT_ASSERT(cpu >= ms * 10 * percent / 3, "far below the cap");
	MT_ASSERT(mt_since(&before, "mtier_throttle_cpu") > 0 && paused,
		  "it never rested");
	return MT_PASS;
}

static int cap_5(void)
{
	return cap(5);
}

static int cap_20(void)
{
	return cap(20);
}

static void small(void *arg)
{
	(void)arg;
	if (mt_place(64 * MT_PAGE, mt_slow_node()))
		pause();
}

static void large(void *arg)
{
	char *p = mt_place(256 * MT_MB, mt_slow_node());

	(void)arg;
	while (p)
		mt_touch(p, 256 * MT_MB, false);
}

/* One large busy process and 40 small ones: each small one has its turn. */
static int fair(void)
{
	enum { N = 40 };
	struct mt_trace trace;
	int visits[N] = { 0 }, done = 0, i;
	char line[512];
	pid_t pid[N], big;

	big = mt_spawn(large, NULL);
	for (i = 0; i < N; i++)
		pid[i] = mt_spawn(small, NULL);
	mt_nap(500);
	mt_fast();
	mt_set3("period", "ms", 100, 100, 100);
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", 15);
	mt_set("scan/cpu_percent", 20);
	MT_ASSERT(!mt_trace_open(&trace, "mtier_scan_end"), "no trace event");
	mt_on();
	(void)MT_WAIT(({
		while (mt_trace_line(&trace, line, sizeof(line)))
			for (i = 0; i < N; i++)
				if (mt_field(line, "pid") == pid[i] &&
				    visits[i]++ == 2)
					done++;
		done == N;
	}), 10000);
	mt_trace_close(&trace);
	for (i = 0; i < N; i++)
		mt_kill(pid[i]);
	mt_kill(big);
	MT_ASSERT(done == N, "%d of %d small processes had three visits", done,
		  N);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A7 switched off: no thread, no scan, no memory", off),
		MT_CHECK("A7 nothing on slow nodes: no scan, no CPU time",
			 no_slow_pages),
		MT_CHECK("A7 a process with nothing there falls to the longest period",
			 not_my_business),
		MT_CHECK("A8 O6 the scanner stays below its cap of 5 % of a CPU",
			 cap_5),
		MT_CHECK("A8 and below one of 20 %", cap_20),
		MT_CHECK("A8 one large process does not starve 40 small ones",
			 fair),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

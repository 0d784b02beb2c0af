// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: the limit for the cost of scans, no cost if there is nothing to promote, and a
 * low cost if nothing is found.
 *
 * lab: topology=dram-cxl icount=2 timeout=300s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "burst_util.h"

#define SIZE		(64 * MT_MB)
#define SPELL_MS	10000

static struct mt_snap before;

static int off(void)
{
	char *p = mt_place(MT_MB, mt_slow_node());
	struct mt_toucher t;

	MT_ASSERT(p, "no memory on the slow node");
	mt_snap(&before);
	mt_touch_start(&t, p, MT_MB);
	mt_nap(3000);
	mt_touch_stop(&t);
	MT_ASSERT(mt_kthread("kmtierd") <= 0, "kmtierd is there");
	MT_ASSERT(!mt_since(&before, "mtier_bursts") &&
		  !mt_since(&before, "mtier_look_ptes"), "it looked");
	MT_ASSERT(mt_all_on(p, MT_MB, mt_slow_node()), "pages moved");
	MT_ASSERT(mt_reads("state", "off"), "its state is not off");
	MT_ASSERT(!mt_read_ll("mms"), "%lld slots", mt_read_ll("mms"));
	return MT_PASS;
}

/* No pages on the slow node, although all processes are busy in DRAM. */
static int no_slow_pages(void)
{
	char *p = mt_place(32 * MT_MB, mt_fast_node());
	struct mt_toucher t;
	long long cpu;
	pid_t pid;

	MT_ASSERT(p, "no memory on the fast node");
	mt_set("scan/delay_ms", 0);
	mt_on();
	pid = mt_kthread("kmtierd");
	MT_ASSERT(pid > 0, "no kmtierd");
	MT_NEED(MT_WAIT(mt_reads("state", "idle"), 30000),
		"something lies on the slow node");
	mt_touch_start(&t, p, 32 * MT_MB);
	mt_snap(&before);
	cpu = mt_cpu_us(pid);
	mt_nap(3000);
	cpu = mt_cpu_us(pid) - cpu;
	mt_touch_stop(&t);
	MT_ASSERT(!mt_since(&before, "mtier_look_ptes"), "%lld entries read",
		  mt_since(&before, "mtier_look_ptes"));
	MT_ASSERT(cpu < 30000, "%lld us of CPU time in 3 s", cpu);
	return MT_PASS;
}

/* Includes the work of other processes in this time. */
#define FEW_BURSTS	6

/*
 * Used memory on the fast node, idle memory on the slow one, and enough free fast memory.
 * Nothing has to be demoted, so no bit is cleared and no TLB flushed.
 */
static int nobody_has_to_leave(void)
{
	char *low = mt_place(8 * MT_MB, mt_slow_node());
	char *top = mt_place(8 * MT_MB, mt_fast_node());
	long long flushes, bursts;
	struct mt_toucher t;
	bool passed;

	MT_ASSERT(low && top, "no memory on both nodes");
	mt_set("scan/delay_ms", 0);
	mt_on();
	mt_touch_start(&t, top, 8 * MT_MB);
	MT_NEED(mt_bursts_pass(FEW_BURSTS), "no bursts");
	mt_snap(&before);
	passed = mt_bursts_pass(FEW_BURSTS);
	flushes = mt_since(&before, "mtier_look_flushes");
	bursts = mt_since(&before, "mtier_bursts");
	mt_touch_stop(&t);
	mt_note("%lld flushes in %lld bursts", flushes, bursts);
	MT_ASSERT(passed, "no bursts");
	MT_ASSERT(mt_all_on(low, 8 * MT_MB, mt_slow_node()), "unused pages moved");
	MT_ASSERT(flushes < bursts, "what has room is looked at");
	return MT_PASS;
}

/* Memory in use that never migrates, so that bursts always find something. */
static int something_to_find(struct mt_toucher *t)
{
	char *p = mt_place(SIZE, mt_slow_node());

	MT_ASSERT(p, "no memory on the slow node");
	mt_touch_start(t, p, SIZE);
	if (mt_observe_on())
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(mt_burst_value("taken") > 0, 60000),
		  "nothing is found");
	return MT_PASS;
}

/* A burst may start just before the end of an interval: half as much more is allowed. */
static int cap(int percent)
{
	struct mt_toucher t;
	long long cpu, ms;
	pid_t pid;

	mt_set("scan/cpu_percent", percent);
	if (something_to_find(&t))
		return MT_FAIL;
	pid = mt_kthread("kmtierd");
	mt_snap(&before);
	cpu = mt_cpu_us(pid);
	ms = mt_now_ms();
	mt_nap(SPELL_MS);
	cpu = mt_cpu_us(pid) - cpu;
	ms = mt_now_ms() - ms;
	mt_touch_stop(&t);
	mt_note("%lld us in %lld ms and %lld bursts, cap %d %%", cpu, ms,
		mt_since(&before, "mtier_bursts"), percent);
	MT_ASSERT(mt_since(&before, "mtier_bursts") > 1, "hardly any bursts");
	MT_ASSERT(cpu <= ms * 10 * percent * 3 / 2, "above the cap");
	return MT_PASS;
}

static int cap_1(void)
{
	return cap(1);
}

static int cap_5(void)
{
	return cap(5);
}

/* Get the entries that scans read in an interval. */
static long long looked_at(const char *while_what)
{
	long long entries;

	mt_snap(&before);
	mt_nap(SPELL_MS);
	entries = mt_since(&before, "mtier_look_ptes");
	mt_note("%s: %lld entries, %lld bursts", while_what, entries,
		mt_since(&before, "mtier_bursts"));
	return entries;
}

static int rests(void)
{
	struct mt_toucher t;
	long long busy;
	bool fewer;

	if (something_to_find(&t))
		return MT_FAIL;
	busy = looked_at("in use");
	mt_touch_stop(&t);
	fewer = MT_WAIT(looked_at("not in use") < busy / 2, 120000);
	MT_ASSERT(fewer, "bursts do not rest");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A7 switched off: no thread, no looks, no slots", off),
		MT_CHECK("A7 nothing on slow nodes: no looks, no CPU time",
			 no_slow_pages),
		MT_CHECK("A7 nobody has to leave: no bits are cleared above",
			 nobody_has_to_leave),
		MT_CHECK("A8 O6 looks stay below their cap of 1 % of a CPU",
			 cap_1),
		MT_CHECK("A8 and below one of 5 %", cap_5),
		MT_CHECK("A7 of memory that nobody uses little is looked at",
			 rests),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: windows save most of the walk, and find newly used memory.
 *
 * lab: topology=dram-cxl icount=3 timeout=180s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "numa_scan_util.h"

/* A sixteenth is hot, like 64 MB of 1 GB. */
#define SIZE	(256 * MT_MB)
#define HOT	(16 * MT_MB)
#define HOT_AT	(96 * MT_MB)
#define MOVED	(176 * MT_MB)

/* Cost of a number of scan sequences */
struct cost {
	double ptes;
	double updates;
	double faults;
	double us;
};

static long seq(const struct ns_task *t)
{
	return ns_sched(t->pid, "mm->numa_scan_seq");
}

static bool reach(const struct ns_task *t, long at)
{
	return MT_WAIT(seq(t) >= at, 90000);
}

static int measure(const struct ns_task *t, int sequences, struct cost *c)
{
	long from = seq(t);
	struct mt_snap s;
	long n;

	MT_ASSERT(reach(t, from + 1), "sequence %ld never ends", from);
	mt_snap(&s);
	from = seq(t);
	MT_ASSERT(reach(t, from + sequences), "sequences do not end");
	n = seq(t) - from;
	c->ptes = (double)mt_since(&s, "numa_scan_ptes") / n;
	c->updates = (double)mt_since(&s, "numa_pte_updates") / n;
	c->faults = (double)mt_since(&s, "numa_hint_faults") / n;
	c->us = mt_since(&s, "numa_scan_ns_sync") / 1000.0 / n;
	mt_note("figure sequences=%ld looked_at=%.0f updated=%.0f faults=%.0f us=%.0f",
		n, c->ptes, c->updates, c->faults, c->us);
	return MT_PASS;
}

static int hot_task(struct ns_task *t)
{
	*t = (struct ns_task) { .size = SIZE, .cpu = 0 };
	if (ns_fast("sync", 256) || ns_task_start(t))
		return MT_FAIL;
	t->shared->length = HOT;
	t->shared->from = HOT_AT;
	return MT_PASS;
}

static int saves_work(void)
{
	struct cost whole, windows;
	struct ns_task t;

	if (hot_task(&t))
		return MT_FAIL;
	MT_ASSERT(reach(&t, seq(&t) + 3), "it is not scanned");
	if (measure(&t, 8, &whole))
		return MT_FAIL;
	mt_write(NS_WINDOWS, "1");
	MT_ASSERT(reach(&t, seq(&t) + 9), "it is not scanned");
	if (measure(&t, 16, &windows))
		return MT_FAIL;
	mt_note("figure fewer_looked_at=%.1f less_time=%.1f times_faults=%.2f",
		whole.ptes / windows.ptes, whole.us / windows.us,
		windows.faults / whole.faults);
	MT_ASSERT(windows.ptes * 4 <= whole.ptes, "less than 4 times fewer");
	/* Hot memory is found as often as before. */
	MT_ASSERT(windows.faults >= HOT / MT_PAGE * 0.9,
		  "%.0f of %lu hot pages are seen", windows.faults,
		  HOT / MT_PAGE);
	ns_task_stop(&t);
	return MT_PASS;
}

/* Memory without a walk for a long time becomes hot. */
static int finds_the_new(void)
{
	struct cost c;
	struct ns_task t;
	long at;

	mt_write(NS_WINDOWS, "1");
	if (hot_task(&t))
		return MT_FAIL;
	MT_ASSERT(reach(&t, seq(&t) + 10), "it is not scanned");
	/* No page faults any more, so only a walk can find it again. */
	t.shared->fresh = true;
	MT_ASSERT(MT_WAIT(!t.shared->fresh, 20000), "it does not run");
	t.shared->from = MOVED;
	at = seq(&t);
	MT_ASSERT(reach(&t, at + 9), "it is not scanned");
	if (measure(&t, 2, &c))
		return MT_FAIL;
	MT_ASSERT(c.faults >= HOT / MT_PAGE * 0.9,
		  "%.0f of %lu hot pages are seen", c.faults, HOT / MT_PAGE);
	ns_task_stop(&t);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R12 a hot sixteenth takes a quarter of the work",
			 saves_work),
		MT_CHECK("R12 a new hot spot is found within 8 sequences",
			 finds_the_new),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}

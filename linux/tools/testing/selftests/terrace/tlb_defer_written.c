// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: memory that a program has written to and that was write
 * protected since, by a fork or by hint faults that promote.  Its entries are dirty
 * for good, and it can wait all the same.
 *
 * Guest time counts instructions, and interrupts are counted: see tlb_defer_mixed.c.
 *
 * lab: cpus=4 append="nopti isolcpus=2,3 skew_tick=1" icount=2 timeout=240s debug=no
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tlb_defer_util.h"

#define BALANCING	"/sys/kernel/debug/sched/numa_balancing/"
#define SIZE		(16 * MT_MB)
#define PAGES		((long)(SIZE / MT_PAGE))
/* Hint faults need not promote all. */
#define MOST_PERCENT	97

/**
 * struct cost - what moving memory there and back has taken
 * @interrupts: that other CPUs got for their TLBs
 * @waited: pages whose flush has waited
 * @writable: pages that could not, since an entry of theirs is writable
 * @clean: batches without a flush
 * @flushed: batches with one
 */
struct cost {
	long long interrupts;
	long long waited;
	long long writable;
	long long clean;
	long long flushed;
};

static char *written(int node)
{
	char *p = mt_map_aligned(SIZE);

	madvise(p, SIZE, MADV_NOHUGEPAGE);
	mt_bind_to(node);
	mt_touch(p, SIZE, true);
	mt_bind_default();
	return p;
}

/* Move @p to one node and then to another one. */
static int there_and_back(const char *mode, char *p, int there, int back,
			  struct cost *cost)
{
	long long interrupts;
	struct mt_snap before;

	td_mode(mode);
	interrupts = td_ipis();
	mt_snap(&before);
	MT_ASSERT(td_move(p, PAGES, there) == PAGES &&
		  td_move(p, PAGES, back) == PAGES, "not all have moved");
	MT_ASSERT(MT_WAIT(!td_knob("held_kb"), 2000), "some still wait");
	*cost = (struct cost) {
		.interrupts = td_ipis() - interrupts,
		.waited = mt_since(&before, "tlb_defer_pages"),
		.writable = mt_since(&before, "tlb_defer_refused_write"),
		.clean = mt_since(&before, "tlb_defer_batch_clean"),
		.flushed = mt_since(&before, "tlb_defer_batch_flushed"),
	};
	mt_note("%-10s %4lld interrupts; %5lld of %ld waited, %lld are writable",
		mode, cost->interrupts, cost->waited, 2 * PAGES, cost->writable);
	mt_note("  %lld batches without a flush, %lld with one", cost->clean,
		cost->flushed);
	return MT_PASS;
}

/* ---- shared by fork ---- */

static int off_and_on(char *p, struct cost *on)
{
	struct cost off;
	int ret = there_and_back("off", p, td_node_b(), td_node_a(), &off) ?:
		  there_and_back("quarantine", p, td_node_b(), td_node_a(), on);

	if (ret)
		return ret;
	MT_ASSERT(off.interrupts > PAGES / 512, "too few while off");
	MT_ASSERT(on->interrupts * 10 <= off.interrupts, "more than a tenth");
	MT_ASSERT(on->waited == 2 * PAGES, "some did not wait");
	return MT_PASS;
}

static void stays(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

/* While a child shares it, and when it is gone: nobody has written to it since. */
static int forked(void)
{
	char *p = written(td_node_a());
	struct cost on;
	pid_t pid;
	int ret;

	td_use_others();
	pid = mt_spawn(stays, NULL);
	ret = off_and_on(p, &on);
	mt_kill(pid);
	if (!ret)
		ret = off_and_on(p, &on);
	td_leave_others();
	return ret;
}

/* ---- promoted by hint faults ---- */

static void no_hints(void)
{
	mt_write("/proc/sys/kernel/numa_balancing", "0");
}

/* Promoted by the faults of who reads it, and never written to after that */
static char *promoted(void)
{
	char *p = written(mt_slow_node());
	bool there;

	mt_write(BALANCING "scan_delay_ms", "1");
	mt_write(BALANCING "scan_period_min_ms", "50");
	mt_write(BALANCING "scan_period_max_ms", "100");
	if (mt_write("/proc/sys/kernel/numa_balancing", "2"))
		return NULL;
	there = MT_WAIT((mt_touch(p, SIZE, false),
			 mt_pages_on(p, SIZE, mt_fast_node()) * 100 >=
			 PAGES * MOST_PERCENT), MT_MOVE_MS);
	no_hints();
	/* Hints that are left are no entries that a TLB could hold. */
	mt_touch(p, SIZE, false);
	return there ? p : NULL;
}

static int hinted(void)
{
	struct mt_snap before;
	struct cost on;
	char *p;
	int ret;

	mt_snap(&before);
	p = promoted();
	MT_ASSERT(p, "not promoted");
	mt_note("%lld of %ld promoted", mt_since(&before, "pgpromote_success"),
		PAGES);
	/* Those that the faults did not promote are as they were. */
	td_mode("off");
	td_move(p, PAGES, mt_fast_node());
	td_use_others();
	ret = there_and_back("quarantine", p, mt_slow_node(), mt_fast_node(),
			     &on);
	td_leave_others();
	if (ret)
		return ret;
	MT_ASSERT(on.waited * 100 >= 2 * PAGES * MOST_PERCENT,
		  "too few waited");
	return MT_PASS;
}

static const struct mt_check checks[] = {
	{ "memory that a fork has shared waits, though dirty", forked },
	{ "memory that hint faults have promoted waits, though dirty", hinted },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}

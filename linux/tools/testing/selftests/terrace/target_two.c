// SPDX-License-Identifier: GPL-2.0
/*
 * Target node with two sockets: where the process runs and uses memory, never
 * "node 0 by default".
 *
 * lab: topology=two-socket-cxl icount=2 timeout=600s debug=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst_util.h"

/* Many batches, each of which goes to one node */
#define SIZE	(32 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))

static int fast[MT_NODES], cpus[MT_NODES];

/* The nodes with CPUs and memory, and a CPU of each. */
static int two_sockets(void)
{
	int n = mt_nodes("has_cpu", fast), i, cpu;

	for (i = 0; i < n; i++)
		for (cpu = 63; cpu >= 0; cpu--)
			if (mt_node_of_cpu(cpu) == fast[i])
				cpus[i] = cpu;
	MT_NEED(n == 2, "%d nodes have CPUs", n);
	return MT_PASS;
}

static long in_dram(void *p)
{
	return mt_pages_on(p, SIZE, fast[0]) + mt_pages_on(p, SIZE, fast[1]);
}

/* So much of it is in DRAM that it shows where it goes; how soon is for a bench. */
static bool gone(void *p)
{
	return in_dram(p) >= PAGES * 3 / 4;
}

/* Of what is in DRAM, in percent */
static long share(void *p, int which)
{
	return mt_pages_on(p, SIZE, fast[which]) * 100 / in_dram(p);
}

/* Threads on some sockets use memory that is on the slow node. */
static char *promote(bool on_0, bool on_1)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_toucher t[2];
	bool use[2] = { on_0, on_1 };
	bool moved;
	int i;

	if (!p)
		return NULL;
	mt_run_on_cpu(cpus[on_0 ? 0 : 1]);
	for (i = 0; i < 2; i++) {
		t[i] = (struct mt_toucher) {
			.p = p, .size = SIZE, .step = MT_PAGE, .rest_ms = 1,
			.cpu = cpus[i],
		};
		if (use[i])
			mt_toucher_run(&t[i]);
	}
	mt_on();
	moved = MT_WAIT(gone(p), MT_MOVE_MS);
	for (i = 0; i < 2; i++)
		if (use[i])
			mt_touch_stop(&t[i]);
	mt_note_where("promoted", p, SIZE);
	return moved ? p : NULL;
}

/* All of it on the socket @which, that a thread runs on. */
static int runs_on(int which)
{
	int ret = two_sockets();
	char *p;

	if (ret)
		return ret;
	mt_fast();
	p = promote(which == 0, which == 1);
	MT_ASSERT(p, "it was not promoted");
	/* What libc and the kernel gave it elsewhere earns a share, too. */
	MT_ASSERT(share(p, which) >= 60, "%ld %% are on node %d",
		  share(p, which), fast[which]);
	return MT_PASS;
}

static int runs_on_0(void)
{
	return runs_on(0);
}

static int runs_on_1(void)
{
	return runs_on(1);
}

static int runs_on_both(void)
{
	int ret = two_sockets();
	char *p;

	if (ret)
		return ret;
	mt_fast();
	p = promote(true, true);
	MT_ASSERT(p, "it was not promoted");
	/* Two threads of three run on socket 0, and libc's memory is there. */
	MT_ASSERT(share(p, 0) >= 10 && share(p, 1) >= 10,
		  "%ld %% and %ld %%", share(p, 0), share(p, 1));
	return MT_PASS;
}

/*
 * The thread runs on socket 0, but all the memory it uses is on socket 1: both
 * count alike, so that neither gets less than a quarter.
 */
static int history(void)
{
	int ret = two_sockets();
	struct mt_toucher t;
	char *top, *p;

	if (ret)
		return ret;
	mt_fast();
	top = mt_place(32 * MT_MB, fast[1]);
	MT_ASSERT(top, "no memory on node %d", fast[1]);
	t = (struct mt_toucher) {
		.p = top, .size = 32 * MT_MB, .step = MT_PAGE, .rest_ms = 1,
		.cpu = cpus[0],
	};
	mt_toucher_run(&t);
	/* Let looks see that before they see pages to move; these stay. */
	MT_ASSERT(mt_place(MT_MB, mt_slow_node()), "no memory on the slow node");
	mt_on();
	MT_ASSERT(mt_bursts_pass(4), "no bursts");
	p = promote(true, false);
	mt_touch_stop(&t);
	MT_ASSERT(p, "it was not promoted");
	MT_ASSERT(share(p, 1) >= 25, "%ld %% went where its memory is",
		  share(p, 1));
	return MT_PASS;
}

static int forced_1(void)
{
	int ret = two_sockets();
	char *p;

	if (ret)
		return ret;
	mt_fast();
	mt_set("promote/target_node", fast[1]);
	p = promote(true, false);
	MT_ASSERT(p, "it was not promoted");
	MT_ASSERT(!mt_pages_on(p, SIZE, fast[0]), "%ld pages are on node %d",
		  mt_pages_on(p, SIZE, fast[0]), fast[0]);
	return MT_PASS;
}

/* Its own socket is full: what may not go to the other one stays. */
static int bound_stays(void)
{
	unsigned long mask;
	struct mt_toucher t;
	int ret = two_sockets();
	struct mt_snap before;
	size_t size;
	char *hog, *p, why[32];
	bool passed;

	if (ret)
		return ret;
	mt_fast();
	mt_write("/sys/kernel/mm/numa/demotion_enabled", "0");
	p = mt_place(SIZE, mt_slow_node());
	mask = 1UL << fast[0] | 1UL << mt_slow_node();
	MT_ASSERT(p && !mt_mbind(p, SIZE, MPOL_BIND, mask), "no memory");
	hog = mt_hog(fast[0], &size);
	MT_NEED(hog, "node %d cannot be filled", fast[0]);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	snprintf(why, sizeof(why), "no_victim %d", fast[0]);
	passed = MT_WAIT(mt_reads("place/why", why), MT_MOVE_MS) && mt_bursts_pass(4);
	mt_touch_stop(&t);
	mt_note_where("bound", p, SIZE);
	mt_note_since(&before);
	munmap(hog, size);
	MT_ASSERT(!mt_pages_on(p, SIZE, fast[1]), "it left its nodes");
	MT_ASSERT(passed, "place/why does not name the full node, or no bursts");
	MT_ASSERT(!mt_since(&before, "mtier_drop_policy"), "it was sent where it may not go");
	return MT_PASS;
}

/* Its own socket is full: the pages go to the other one, not nowhere. */
static int fallback(void)
{
	int ret = two_sockets();
	size_t size;
	char *hog, *p;

	if (ret)
		return ret;
	mt_fast();
	hog = mt_hog(fast[0], &size);
	MT_NEED(hog, "node %d cannot be filled", fast[0]);
	mt_note("%lld MiB are free on node %d", mt_node_free(fast[0]) >> 20,
		fast[0]);
	p = promote(true, false);
	munmap(hog, size);
	MT_ASSERT(p, "it was not promoted");
	MT_ASSERT(share(p, 1) >= 20, "%ld %% went to the other socket",
		  share(p, 1));
	return MT_PASS;
}

/* Pages promoted into a node */
static long long promoted_to(int node)
{
	char file[64];

	/* Which first folds what the CPUs counted on their own. */
	mt_count("pgpromote_success");
	snprintf(file, sizeof(file), "/sys/devices/system/node/node%d/vmstat",
		 node);
	return mt_file_stat(file, "pgpromote_success");
}

/* MiB/s into each node, over @ms */
static void rates(double *rate, unsigned int ms)
{
	long long from[2], start = mt_now_ms();
	int i;

	for (i = 0; i < 2; i++)
		from[i] = promoted_to(fast[i]);
	mt_nap(ms);
	for (i = 0; i < 2; i++)
		rate[i] = (promoted_to(fast[i]) - from[i]) * (double)MT_PAGE /
			  MT_MB * 1000 / (mt_now_ms() - start);
}

/*
 * As many threads, and as much memory in use, on one socket as on the other: so
 * half of the pages are for either. One thread moves all of them, and waits for one
 * limit at a time: what the other allows meanwhile is saved up, a huge page at most.
 */
static int rate_each(void)
{
	enum { RATE = 3, SECONDS = 8 };
	/* And a batch that is paid for when it has gone */
	const double saved = 2.0 * MT_HUGE / MT_MB / SECONDS;
	int ret = two_sockets(), i;
	struct mt_toucher t[3];
	struct mt_snap before;
	double rate[2];

	if (ret)
		return ret;
	mt_fast();
	mt_set("promote/rate_mbps", RATE);
	mt_run_on_cpu(cpus[0]);
	for (i = 0; i < 3; i++) {
		size_t size = i < 2 ? 16 * MT_MB : 160 * MT_MB;

		t[i] = (struct mt_toucher) {
			.p = mt_place(size, i < 2 ? fast[i] : mt_slow_node()),
			.size = size, .step = MT_PAGE, .rest_ms = 1,
			.cpu = cpus[i ? 1 : 0],
		};
		MT_ASSERT(t[i].p, "no memory");
		mt_toucher_run(&t[i]);
	}
	mt_snap(&before);
	mt_on();
	MT_ASSERT(MT_WAIT(promoted_to(fast[0]) && promoted_to(fast[1]),
			  MT_MOVE_MS), "one node gets nothing");
	MT_ASSERT(MT_WAIT(mt_since(&before, "mtier_throttle_rate") > 10,
			  MT_MOVE_MS), "it is never throttled");
	rates(rate, SECONDS * 1000);
	for (i = 0; i < 3; i++)
		mt_touch_stop(&t[i]);
	mt_note("limit %d: %.2f MiB/s into node %d, %.2f into node %d", RATE,
		rate[0], fast[0], rate[1], fast[1]);
	for (i = 0; i < 2; i++)
		MT_ASSERT(rate[i] > 0 && rate[i] < RATE * 1.1 + saved,
			  "not within the limit");
	return MT_PASS;
}

/* The picture in sysfs: the slow node feeds both. */
static int map(void)
{
	int ret = two_sockets();
	char file[64], want[16];

	if (ret)
		return ret;
	mt_on();
	snprintf(file, sizeof(file), "node%d/target", mt_slow_node());
	snprintf(want, sizeof(want), "%d-%d", fast[0], fast[1]);
	MT_ASSERT(mt_reads(file, want), "%s is not %s", file, want);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("T7 a process on socket 0 gets its pages there",
			 runs_on_0),
		MT_CHECK("T7 T2 one on socket 1 gets them there, not on node 0",
			 runs_on_1),
		MT_CHECK("T2 pages of a process on both sockets are spread",
			 runs_on_both),
		MT_CHECK("T1 where it uses memory weighs as much as where it runs",
			 history),
		MT_CHECK("T6 the admin can say where to", forced_1),
		MT_CHECK("T3 a full socket's share goes to the other one",
			 fallback),
		MT_CHECK("T8 a full socket does not pass on what is bound to it",
			 bound_stays),
		MT_CHECK("M5 the rate limit holds for each of two targets",
			 rate_each),
		MT_CHECK("T1 O5 sysfs shows both targets", map),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

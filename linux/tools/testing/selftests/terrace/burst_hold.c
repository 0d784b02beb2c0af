// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: no task waits long for a lock of scans. mmap_lock is held for one slice at
 * most, also if there is nothing to list: in tens of thousands of irrelevant mappings. A
 * VMA is locked while a range is scanned, not for a burst.
 *
 * One CPU, so that only kmtierd runs between two of its events.
 *
 * lab: topology=dram-cxl cpus=1 icount=2 timeout=200s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "burst_util.h"

#define MAPPINGS	60000
#define SLICE_US	1000
#define INTERRUPTS_US	1000	/* the tick and its softirqs come on top */
#define FULL		20	/* slices, or nearly */

/* Shorter than the interval of the first bursts' scans */
#define LONG_NS		10000000LL
#define BURSTS		8
#define SIZE		(8 * MT_MB)

static struct mt_trace trace;

/*
 * Mappings without access, every second one with another flag, so that they do not merge
 */
static int map_many(void)
{
	char *p = mmap(NULL, MAPPINGS * MT_PAGE, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int i;

	MT_ASSERT(p != MAP_FAILED, "no address space");
	for (i = 0; i < MAPPINGS; i += 2)
		MT_ASSERT(!madvise(p + i * MT_PAGE, MT_PAGE, MADV_DONTDUMP),
			  "mapping %d", i);
	return MT_PASS;
}

/**
 * struct holds - hold times of mmap_lock by kmtierd
 * @nr: number of holds
 * @full: number of holds for most of a slice
 * @over: number of holds half a slice too long
 * @longest_us: longest hold
 * @since_us: start of the present hold; 0 if it does not hold it
 */
struct holds {
	int nr;
	int full;
	int over;
	double longest_us;
	double since_us;
};

static void note_holds(struct holds *h)
{
	char line[512];
	double held_us;

	while (mt_trace_line(&trace, line, sizeof(line))) {
		if (!strstr(line, "kmtierd"))
			continue;
		if (strstr(line, "acquire_returned") &&
		    strstr(line, "success=true"))
			h->since_us = mt_when(line) * 1e6;
		if (!strstr(line, "mmap_lock_released") || h->since_us == 0)
			continue;
		held_us = mt_when(line) * 1e6 - h->since_us;
		h->since_us = 0;
		h->nr++;
		h->full += held_us > SLICE_US / 2;
		h->over += held_us > SLICE_US * 1.5;
		if (held_us > h->longest_us)
			h->longest_us = held_us;
	}
}

static int mmap_lock(void)
{
	struct holds h = { };
	bool enough;

	if (map_many())
		return MT_FAIL;
	MT_ASSERT(mt_place(MT_MB, mt_slow_node()), "nothing to look at");
	mt_set("scan/delay_ms", 0);
	MT_ASSERT(!mt_observe(true), "it cannot observe");
	MT_ASSERT(!mt_trace_open_of(&trace, "mmap_lock", NULL), "no events");
	mt_on();
	enough = MT_WAIT(({ note_holds(&h); h.full >= FULL; }), 120000);
	mt_off();
	note_holds(&h);
	mt_trace_close(&trace);
	mt_note("held %d times, %d for most of a slice, %.0f us at most", h.nr,
		h.full, h.longest_us);
	/* This number of mappings takes far more than one slice. */
	MT_ASSERT(enough, "only %d full slices", h.full);
	MT_ASSERT(h.longest_us <= SLICE_US + INTERRUPTS_US, "held for %.0f us",
		  h.longest_us);
	MT_ASSERT(h.over <= 1 + h.full / 100, "%d of %d too long", h.over,
		  h.full);
	return MT_PASS;
}

/* A change of a mapping waits until its VMA is not locked. Returns the wait in ns */
static long long change(char *p, int prot)
{
	long long ns = mt_now_ns();

	if (mprotect(p, SIZE, prot))
		return -1;
	return mt_now_ns() - ns;
}

static int vma_lock(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long before, ns, longest = 0, until = mt_now_ms() + 120000;
	int changes = 0, over = 0;

	MT_ASSERT(p, "no memory on the slow node");
	if (mt_observe_on())
		return MT_FAIL;
	before = mt_burst_value("bursts");
	do {
		/* Otherwise scans would find it locked all the time, and skip it. */
		mt_nap(5);
		ns = change(p, changes & 1 ? PROT_READ | PROT_WRITE : PROT_READ);
		MT_ASSERT(ns >= 0, "mprotect");
		changes++;
		over += ns > LONG_NS;
		longest = ns > longest ? ns : longest;
	} while (mt_burst_value("bursts") < before + BURSTS &&
		 mt_now_ms() < until);
	mt_note("%d changes, %lld us at most, %d over %lld us; left %lld times",
		changes, longest / 1000, over, LONG_NS / 1000,
		mt_burst_value("left"));
	MT_ASSERT(mt_burst_value("bursts") >= before + BURSTS, "no bursts");
	mt_off();
	/* One in most bursts if a VMA were locked until the next scan. */
	MT_ASSERT(over < BURSTS / 2, "%d waited long", over);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A9 mmap_lock is free again after a slice, whatever is mapped",
			 mmap_lock),
		MT_CHECK("A9 who changes a mapping does not wait for a burst",
			 vma_lock),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Migration to a node without free memory, or without a free huge page.
 *
 * lab: topology=dram-cxl-small-dram icount=2 timeout=900s debug=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst_util.h"

#define DEMOTION "/sys/kernel/mm/numa/demotion_enabled"
#define SIZE	(32 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))
/* Pages to keep free: two batches */
#define ROOM	1024
/* In pages: allocations by the check and the system */
#define NOISE	512
/* This number of pages proves an exchange; its duration is for a benchmark. */
#define MANY	(PAGES / 2)
/* Measured: 17 to 135 s, with slow scans and CPUs in turns */
#define EXCHANGE_MS	(7 * MT_MOVE_MS)
#define HUGES	32	/* more free fragments than a node has left */
#define PIECES	((long)(MT_HUGE / MT_PAGE))

static struct mt_snap before;

static long long reclaimed_by_us(void)
{
	return mt_since(&before, "allocstall_normal") +
	       mt_since(&before, "allocstall_movable") +
	       mt_since(&before, "allocstall_dma32") +
	       mt_since(&before, "oom_kill");
}

static long long kswapd_ran(void)
{
	return mt_since(&before, "pageoutrun") +
	       mt_since(&before, "pgscan_kswapd") +
	       mt_since(&before, "pgdemote_kswapd");
}

/*
 * Fill all free DRAM above the high watermark with idle memory; kswapd runs below the low
 * one. Returns false if there is more of it.
 */
static bool fill(void)
{
	const size_t step = 16 * MT_PAGE, most = 512 * MT_MB;
	char *p = mt_map_aligned(most);
	size_t off = 0;

	if (!p || madvise(p, most, MADV_NOHUGEPAGE))
		return false;
	mt_set_policy(MPOL_PREFERRED, 1UL << mt_fast_node());
	for (; mt_node_room(mt_fast_node()) > 16 && off < most; off += step)
		mt_touch(p + off, step, true);
	mt_bind_default();
	return off < most;
}

/* Count the demoted pages in the trace; -1 if a line is malformed */
static long long traced_down(struct mt_trace *trace)
{
	long long sum = 0;
	char line[512];

	while (mt_trace_line(trace, line, sizeof(line))) {
		if (!strstr(line, "mtier_demote:"))
			continue;
		if (mt_field(line, "source") != mt_fast_node() ||
		    mt_field(line, "target") != mt_slow_node() ||
		    mt_field(line, "tried") < 1 || !strstr(line, " outcome=")) {
			mt_note("'%s'", line);
			return -1;
		}
		sum += mt_field(line, "moved");
	}
	return sum;
}

/* Demotions are counted by a counter, by the trace, and by the target node. */
static int told(struct mt_trace *trace, long long by_node)
{
	long long down = mt_since(&before, "mtier_demoted");
	long long traced = traced_down(trace);

	MT_ASSERT(down > 0, "nothing was demoted");
	MT_ASSERT(traced == down, "of %lld demoted the trace says %lld", down,
		  traced);
	MT_ASSERT(by_node <= down, "the node says %lld of %lld", by_node, down);
	MT_ASSERT(by_node > 0, "the node says nothing of it");
	return MT_PASS;
}

/* DRAM full of idle memory: promotion demotes it to make room. */
static int demotes(void)
{
	char *p = mt_place(SIZE, mt_slow_node()), file[64];
	struct mt_trace trace;
	struct mt_toucher t;
	long long by_node;
	bool moved;
	int ret;

	MT_ASSERT(p, "no memory on the slow node");
	MT_NEED(!mt_write(DEMOTION, "1"), "no demotion");
	MT_ASSERT(!mt_trace_open(&trace, "mtier_demote"), "no trace event");
	mt_fast();
	/* Last, so that DRAM used by earlier checks is free again. */
	MT_NEED(fill(), "DRAM cannot be filled");
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	moved = MT_WAIT(mt_since(&before, "mtier_demoted") > 0 &&
			mt_pages_on(p, SIZE, mt_fast_node()) >= MANY,
			EXCHANGE_MS);
	mt_touch_stop(&t);
	snprintf(file, sizeof(file), "node%d/demoted", mt_slow_node());
	by_node = mt_read_ll(file);
	mt_off();
	ret = told(&trace, by_node);
	mt_trace_close(&trace);
	mt_note_where("hot", p, SIZE);
	mt_note_since(&before);
	MT_ASSERT(moved, "hot pages did not get in");
	MT_ASSERT(!kswapd_ran(), "kswapd was woken");
	MT_ASSERT(!reclaimed_by_us(), "%lld direct reclaims or OOM kills",
		  reclaimed_by_us());
	return ret;
}

/*
 * DRAM full of unmovable memory: that is reported, nothing migrates, and nothing hangs;
 * promotion continues when there is free memory.
 */
static int waits(void)
{
	struct mt_toucher t;
	size_t hogged;
	char *hog, *p;
	bool full, none;

	hog = mt_hog(mt_fast_node(), &hogged);
	MT_NEED(hog, "DRAM cannot be filled");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_write(DEMOTION, "0");
	mt_fast();
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	full = MT_WAIT(mt_why("no_victim"), MT_MOVE_MS) &&
	       mt_bursts_pass(4);
	none = mt_pages_on(p, SIZE, mt_slow_node()) > PAGES / 2;
	if (!full || !none || reclaimed_by_us())
		mt_note_since(&before);
	MT_ASSERT(full, "nobody says that there is no room, or no bursts");
	MT_ASSERT(none, "it moved all the same");
	MT_ASSERT(!reclaimed_by_us(), "%lld direct reclaims or OOM kills",
		  reclaimed_by_us());
	munmap(hog, hogged);
	full = MT_WAIT(mt_pages_on(p, SIZE, mt_fast_node()) >= PAGES * 9 / 10,
		       MT_MOVE_MS);
	mt_touch_stop(&t);
	MT_ASSERT(full, "it did not go on when there was room");
	/* Off, so that nothing migrates between two counter reads. */
	mt_off();
	MT_ASSERT(mt_ended_since(&before) == mt_since(&before, "mtier_taken"),
		  "taken %lld, ended %lld", mt_since(&before, "mtier_taken"),
		  mt_ended_since(&before));
	return MT_PASS;
}

/* If nothing may be demoted, free memory is used down to the watermark. */
static int fills_up(void)
{
	struct mt_toucher t;
	size_t hogged, off;
	long room = 0, listed, up;
	char *hog, *p;
	bool moved;

	mt_write(DEMOTION, "0");
	hog = mt_hog(mt_fast_node(), &hogged);
	MT_NEED(hog, "DRAM cannot be filled");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	/* Filled to below the watermark: first free the missing part. */
	for (off = 0; off < hogged && room < ROOM; off += MT_MB) {
		munmap(hog + off, MT_MB);
		room = mt_node_room(mt_fast_node());
	}
	MT_ASSERT(room >= ROOM && room < PAGES / 2, "room for %ld pages", room);
	listed = mt_node_listed(mt_fast_node());
	mt_fast();
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	/* A quarter: programs on DRAM's CPUs also use free memory. */
	moved = MT_WAIT(mt_since(&before, "pgpromote_success") >= room / 4,
			MT_MOVE_MS) && mt_bursts_pass(4);
	mt_touch_stop(&t);
	up = mt_since(&before, "pgpromote_success");
	mt_note("%ld pages promoted, there was room for %ld and in lists for %ld",
		up, room, listed);
	mt_note_since(&before);
	MT_ASSERT(moved, "not even a quarter of the room was used");
	/* Memory is freed while other processes exit. */
	MT_ASSERT(up < room + listed + 4 * NOISE, "more than there was room for");
	MT_ASSERT(!mt_since(&before, "mtier_demoted"), "%lld were demoted",
		  mt_since(&before, "mtier_demoted"));
	MT_ASSERT(!reclaimed_by_us(), "%lld direct reclaims or OOM kills",
		  reclaimed_by_us());
	return MT_PASS;
}

/*
 * Fragment DRAM: free every other page of its filling, so that half of it is free without
 * two adjacent free pages.
 */
static char *fragment(size_t *size)
{
	char *p = mt_hog(mt_fast_node(), size);
	size_t off;

	munlock(p, *size);
	for (off = 0; p && off < *size; off += 2 * MT_PAGE)
		madvise(p + off, MT_PAGE, MADV_DONTNEED);
	return p;
}

static int huge(const char *mode)
{
	struct mt_toucher t;
	char *p, *pieces;
	size_t size;
	long long want;
	bool split = !strcmp(mode, "split"), counted, moved;

	mt_write("/proc/sys/vm/compaction_proactiveness", "0");
	p = mt_place_thp(HUGES * MT_HUGE, mt_slow_node());
	MT_ASSERT(p, "no huge pages on the slow node");
	pieces = fragment(&size);
	MT_NEED(pieces, "DRAM cannot be fragmented");
	mt_fast();
	MT_ASSERT(!mt_write("promote/thp", mode), "no promote/thp");
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, HUGES * MT_HUGE);
	want = split ? 1 : 4;
	counted = MT_WAIT(mt_since(&before, split ? "mtier_split_thp" :
				   "mtier_fail_nomem") >= want, MT_MOVE_MS);
	moved = split && MT_WAIT(mt_pages_on(p, HUGES * MT_HUGE, mt_fast_node()) >
				 PIECES * mt_since(&before, "mtier_promoted_thp"),
				 MT_MOVE_MS);
	mt_touch_stop(&t);
	mt_note_since(&before);
	mt_note_where(mode, p, HUGES * MT_HUGE);
	MT_NEED(counted || !mt_since(&before, "mtier_promoted_thp"),
		"there still were huge pages in DRAM");
	MT_ASSERT(counted, "it was not counted");
	if (split) {
		MT_ASSERT(moved, "the pieces did not move");
		MT_ASSERT(mt_since(&before, "mtier_promoted_thp") +
			  mt_since(&before, "mtier_split_thp") <= HUGES,
			  "split pages count as huge");
		return MT_PASS;
	}
	MT_ASSERT(!mt_since(&before, "mtier_split_thp"), "it was split");
	MT_ASSERT(mt_is_thp(p) && mt_is_thp(p + 3 * MT_HUGE), "it is split");
	return MT_PASS;
}

static int whole(void)
{
	return huge("whole");
}

static int split(void)
{
	return huge("split");
}

/* A huge page without a free target does not delay base pages. */
static int small_go(void)
{
	struct mt_toucher huge_t, small_t;
	struct mt_trace trace;
	char *p, *small, *pieces, line[512];
	int batches = 0, lost = 0;
	size_t size;
	bool moved;

	mt_write("/proc/sys/vm/compaction_proactiveness", "0");
	/* Mapped first, it is at a higher address, and so it is selected later. */
	small = mt_place(4 * MT_MB, mt_slow_node());
	p = mt_place_thp(4 * MT_HUGE, mt_slow_node());
	MT_ASSERT(small && p, "no memory on the slow node");
	MT_ASSERT(p < small, "memory is not mapped downwards");
	pieces = fragment(&size);
	MT_NEED(pieces, "DRAM cannot be fragmented");
	mt_fast();
	MT_ASSERT(!mt_trace_open(&trace, "mtier_migrate"), "no trace event");
	mt_snap(&before);
	mt_touch_start(&huge_t, p, 4 * MT_HUGE);
	mt_touch_start(&small_t, small, 4 * MT_MB);
	mt_on();
	moved = MT_WAIT(mt_all_on(small, 4 * MT_MB, mt_fast_node()), MT_MOVE_MS);
	mt_touch_stop(&small_t);
	mt_touch_stop(&huge_t);
	while (mt_trace_line(&trace, line, sizeof(line))) {
		if (mt_field(line, "tried") <= 4)
			continue;
		batches++;
		lost += mt_field_is(line, "outcome", "nomem");
	}
	mt_trace_close(&trace);
	mt_note_since(&before);
	mt_note("%d batches with small pages, of %d nothing moved", batches,
		lost);
	MT_ASSERT(moved, "small pages did not move");
	MT_NEED(mt_since(&before, "mtier_fail_nomem") > 0,
		"there still were huge pages in DRAM");
	MT_ASSERT(batches && !lost, "a huge page kept small ones");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("M8 O4 idle pages make room for hot ones, kswapd sleeps",
			 demotes),
		MT_CHECK("M7 no free huge page, whole: it stays whole and is counted",
			 whole),
		MT_CHECK("M7 no free huge page, split: its pieces are promoted",
			 split),
		MT_CHECK("M7 M2 a huge page without room does not keep small ones",
			 small_go),
		MT_CHECK("M8 without demotion what is free is used, and no more",
			 fills_up),
		/* Last: kswapd gives up for good on unreclaimable memory. */
		MT_CHECK("M8 O5 a full target: nothing moves, no reclaim, no OOM",
			 waits),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

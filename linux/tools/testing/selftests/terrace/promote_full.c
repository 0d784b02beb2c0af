// SPDX-License-Identifier: GPL-2.0
/*
 * Movement into a node that has no room, or no room for a huge page.
 *
 * lab: topology=dram-cxl-small-dram icount=2 timeout=180s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(32 * MT_MB)
#define BATCH	4096	/* pages; the most that batch_pages takes */
#define HUGES	32	/* more than a node in pieces has left */
#define PIECES	((long)(MT_HUGE / MT_PAGE))

static struct mt_snap before;

static bool node_is(const char *state)
{
	char file[64];

	snprintf(file, sizeof(file), "node%d/state", mt_slow_node());
	return mt_reads(file, state);
}

static long long reclaimed_by_us(void)
{
	return mt_since(&before, "allocstall_normal") +
	       mt_since(&before, "allocstall_movable") +
	       mt_since(&before, "allocstall_dma32") +
	       mt_since(&before, "oom_kill");
}

/* Full of cold memory: kswapd is woken and demotes it, hot pages take over. */
static int demotes(void)
{
	const char *knob = "/sys/kernel/mm/numa/demotion_enabled";
	struct mt_toucher t;
	size_t size, off;
	char *cold, *p;
	bool moved;
	int cpu;

	MT_NEED(!mt_write(knob, "1"), "no demotion");
	size = mt_node_free(mt_fast_node()) & ~(MT_HUGE - 1);
	cold = mt_map_aligned(size);
	MT_ASSERT(cold, "no address space");
	mt_set("hot/accesses", 1);
	for (off = 0; off < size; off += MT_PAGE)
		cold[off] = 1;
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_snap(&before);
	mt_on();
	cpu = mt_node_free(mt_fast_node()) >> 20;
	mt_touch_start(&t, p, SIZE);
	moved = MT_WAIT(mt_pages_on(p, SIZE, mt_fast_node()) >
			(long)(SIZE / MT_PAGE) * 9 / 10, 15000);
	mt_touch_stop(&t);
	mt_write(knob, "0");
	mt_note("%d MiB were free, %lld pages demoted", cpu,
		mt_since(&before, "pgdemote_kswapd"));
	if (!moved) {
		mt_note_where("hot", p, SIZE);
		mt_note_since(&before);
	}
	MT_ASSERT(moved, "hot pages did not get in");
	MT_ASSERT(mt_since(&before, "pgdemote_kswapd") > 0,
		  "nothing was demoted");
	MT_ASSERT(!mt_since(&before, "oom_kill"), "OOM");
	return MT_PASS;
}

/* Full of memory that cannot go: wait, say so, go on when there is room. */
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
	mt_fast();
	mt_set("hot/accesses", 1);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	full = MT_WAIT(node_is("target_full"), 8000);
	mt_nap(1000);
	none = mt_pages_on(p, SIZE, mt_slow_node()) > (long)(SIZE / MT_PAGE) / 2;
	if (!full || !none || reclaimed_by_us())
		mt_note_since(&before);
	MT_ASSERT(full, "its state never was target_full");
	MT_ASSERT(none, "it moved all the same");
	MT_ASSERT(!reclaimed_by_us(), "%lld direct reclaims or OOM kills",
		  reclaimed_by_us());
	munmap(hog, hogged);
	full = MT_WAIT(mt_all_on(p, SIZE, mt_fast_node()), 10000);
	mt_touch_stop(&t);
	MT_ASSERT(full, "it did not go on when there was room");
	/* Off, so that nothing is between queue and counter. */
	mt_off();
	MT_ASSERT(mt_ended_since(&before) == mt_since(&before, "mtier_queued"),
		  "queued %lld, ended %lld", mt_since(&before, "mtier_queued"),
		  mt_ended_since(&before));
	return MT_PASS;
}

/* Room for less than a batch is room, too: it is used, down to the watermark. */
static int fills_up(void)
{
	struct mt_toucher t;
	size_t hogged, off;
	long room = 0;
	char *hog, *p;
	bool moved;

	hog = mt_hog(mt_fast_node(), &hogged);
	MT_NEED(hog, "DRAM cannot be filled");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	/*
	 * Filled to below the watermark: first that much has to go. Half a batch,
	 * as the records that the engine is about to allocate need room, too.
	 */
	for (off = 0; off < hogged && room < BATCH / 2; off += MT_MB) {
		munmap(hog + off, MT_MB);
		room = mt_node_room(mt_fast_node());
	}
	MT_ASSERT(room >= BATCH / 2 && room < BATCH, "room for %ld pages",
		  room);
	mt_fast();
	mt_set("hot/accesses", 1);
	mt_set("promote/batch_pages", BATCH);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	/* A quarter: who runs on DRAM's CPUs takes of the room, too. */
	moved = MT_WAIT(mt_since(&before, "pgpromote_success") >= room / 4,
			10000);
	mt_touch_stop(&t);
	mt_note("%lld pages promoted, there was room for %ld",
		mt_since(&before, "pgpromote_success"), room);
	if (!moved)
		mt_note_since(&before);
	MT_ASSERT(moved, "not even a quarter of the room was used");
	MT_ASSERT(!reclaimed_by_us(), "%lld direct reclaims or OOM kills",
		  reclaimed_by_us());
	return MT_PASS;
}

/*
 * DRAM in pieces: of what fills it every other page goes back, so that half is
 * free and no two pages of it lie side by side.
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
	mt_set("hot/accesses", 1);
	MT_ASSERT(!mt_write("promote/thp", mode), "no promote/thp");
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, HUGES * MT_HUGE);
	want = split ? 1 : 4;
	counted = MT_WAIT(mt_since(&before, split ? "mtier_split_thp" :
				   "mtier_fail_nomem") >= want, 10000);
	moved = split && MT_WAIT(mt_pages_on(p, HUGES * MT_HUGE, mt_fast_node()) >
				 PIECES * mt_since(&before, "mtier_promoted_thp"),
				 5000);
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

/* A huge page that finds no room does not keep small ones of its batch. */
static int small_go(void)
{
	struct mt_toucher huge_t, small_t;
	struct mt_trace trace;
	char *p, *small, *pieces, line[512];
	int batches = 0, lost = 0;
	size_t size;
	bool moved;

	mt_write("/proc/sys/vm/compaction_proactiveness", "0");
	/* Mapped first it lies above, so that it is queued behind. */
	small = mt_place(4 * MT_MB, mt_slow_node());
	p = mt_place_thp(4 * MT_HUGE, mt_slow_node());
	MT_ASSERT(small && p, "no memory on the slow node");
	MT_ASSERT(p < small, "memory is not mapped downwards");
	pieces = fragment(&size);
	MT_NEED(pieces, "DRAM cannot be fragmented");
	mt_fast();
	mt_set("hot/accesses", 1);
	mt_set("promote/batch_pages", 4096);
	MT_ASSERT(!mt_trace_open(&trace, "mtier_migrate"), "no trace event");
	mt_snap(&before);
	mt_touch_start(&huge_t, p, 4 * MT_HUGE);
	mt_touch_start(&small_t, small, 4 * MT_MB);
	mt_on();
	moved = MT_WAIT(mt_all_on(small, 4 * MT_MB, mt_fast_node()), 15000);
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
		MT_CHECK("M8 kswapd is woken, cold pages make room for hot ones",
			 demotes),
		MT_CHECK("M7 no free huge page, whole: it stays whole and is counted",
			 whole),
		MT_CHECK("M7 no free huge page, split: its pieces are promoted",
			 split),
		MT_CHECK("M7 M2 a huge page without room does not keep small ones",
			 small_go),
		MT_CHECK("M8 a rest of room below a batch is used", fills_up),
		/* Last: kswapd gives up for good on what it cannot reclaim. */
		MT_CHECK("M8 O5 a full target: wait and say so, no reclaim, no OOM",
			 waits),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

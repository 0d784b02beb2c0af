// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts and large folios: used ones are promoted as a whole, into free memory or in
 * exchange for idle pages; idle ones make room for base pages, and used ones do not.
 *
 * Not on static-keys, where CPUs run in turns: scans would find which CPU had one.
 *
 * lab: topology=dram-cxl-small-dram timeout=600s debug=no static-keys=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst_util.h"

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define MTHP		"/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"
/* More than the smallest burst samples, and than one exchange takes */
#define FOLIOS		24
#define SIZE		(FOLIOS * MT_HUGE)
#define PAGES		((long)(SIZE / MT_PAGE))
#define HUGE_PAGES	((long)(MT_HUGE / MT_PAGE))
#define FILL_MAX	(512 * MT_MB)
/* The last of them are found by the bursts of a machine at rest. */
#define MOST		(PAGES * 3 / 4)
/* Allocations by the check and the system */
#define NOISE		512

static struct mt_snap before;

static long on_fast(const char *p, size_t size)
{
	return mt_pages_on(p, size, mt_fast_node());
}

static int whole(char *p, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += MT_HUGE)
		MT_ASSERT(mt_is_thp(p + off), "%zu was split", off / MT_HUGE);
	for (off = 0; off < size; off += MT_PAGE)
		MT_DATA(*(size_t *)(p + off) == off + 1,
			"page %zu has another content", off / MT_PAGE);
	return MT_PASS;
}

/* Use one page in every @step bytes of SIZE until this number of pages is in DRAM. */
static bool comes(struct mt_toucher *t, char *p, size_t step, long pages)
{
	const char *start = p - (uintptr_t)p % MT_HUGE;
	bool ok;

	mt_snap(&before);
	*t = (struct mt_toucher) { .p = p, .size = SIZE, .step = step, .cpu = -1 };
	mt_toucher_run(t);
	if (mt_bursts_on())
		return false;
	ok = MT_WAIT(on_fast(start, SIZE) >= pages, 120000);
	mt_note("%ld of %ld pages are in DRAM; %lld up, %lld down",
		on_fast(start, SIZE), PAGES,
		mt_since(&before, "pgpromote_success"),
		mt_since(&before, "mtier_demoted"));
	return ok;
}

static void end(struct mt_toucher *t)
{
	mt_touch_stop(t);
	mt_off();
	mt_note_since(&before);
}

/* Of two on the slow node one is used. */
static int into_free_memory(void)
{
	char *idle = mt_place_thp(SIZE, mt_slow_node());
	char *p = mt_place_thp(SIZE, mt_slow_node());
	struct mt_toucher t;
	bool all;

	MT_NEED(p && idle, "no huge pages on the slow node");
	all = comes(&t, p, MT_PAGE, MOST);
	end(&t);
	MT_ASSERT(all, "they did not come up");
	MT_ASSERT(on_fast(idle, SIZE) <= PAGES / 8, "idle ones came, too: %ld",
		  on_fast(idle, SIZE));
	MT_ASSERT(mt_since(&before, "mtier_promoted_thp") >= FOLIOS / 2,
		  "mtier_promoted_thp +%lld",
		  mt_since(&before, "mtier_promoted_thp"));
	return whole(p, SIZE);
}

/*
 * Mapped by PTEs, since one page had another protection for a time. One page of each is
 * used.
 */
static int mapped_in_pieces(void)
{
	char *p = mt_place_thp(SIZE, mt_slow_node());
	struct mt_toucher t;
	size_t off;
	bool all;

	MT_NEED(p, "no huge pages on the slow node");
	for (off = MT_HUGE / 2; off < SIZE; off += MT_HUGE) {
		MT_ASSERT(!mprotect(p + off, MT_PAGE, PROT_READ), "mprotect");
		MT_ASSERT(!mprotect(p + off, MT_PAGE, PROT_READ | PROT_WRITE),
			  "mprotect");
	}
	/* Prevents khugepaged from collapsing them. */
	MT_ASSERT(!madvise(p, SIZE, MADV_NOHUGEPAGE), "madvise");
	MT_NEED(!mt_smaps_kb(p, "AnonHugePages"), "the mappings were not split");
	all = comes(&t, p + 5 * MT_PAGE, MT_HUGE, MOST);
	end(&t);
	MT_ASSERT(all, "they did not come up");
	return whole(p, SIZE);
}

static int folios_of_64k(void)
{
	char *p = mt_map_aligned(SIZE);
	struct mt_toucher t;
	bool large, all;
	size_t off;

	MT_NEED(p && !mt_write(MTHP, "always"), "this kernel has no 64 KiB folios");
	mt_bind_to(mt_slow_node());
	for (off = 0; off < SIZE; off += MT_PAGE)
		*(size_t *)(p + off) = off + 1;
	mt_bind_default();
	large = mt_is_thp(p);
	mt_write(MTHP, "never");
	MT_NEED(large, "no large folio was given");
	all = comes(&t, p, MT_PAGE, MOST);
	end(&t);
	MT_ASSERT(all, "they did not come up");
	return whole(p, SIZE);
}

/* Fill DRAM with huge pages; smaller free blocks are allocated too, and stay. */
static char *fill(size_t *size)
{
	char *p = mt_map_aligned(FILL_MAX), *rest = mt_map_aligned(FILL_MAX);
	size_t rest_size = 0;

	*size = 0;
	if (!p || !rest || madvise(p, FILL_MAX, MADV_HUGEPAGE) ||
	    madvise(rest, FILL_MAX, MADV_NOHUGEPAGE))
		return NULL;
	mt_set_policy(MPOL_PREFERRED, 1UL << mt_fast_node());
	while (mt_node_room(mt_fast_node()) > 2 * HUGE_PAGES && *size < FILL_MAX) {
		/* Not read first: that would map the huge zero page. */
		memset(p + *size, 1, MT_HUGE);
		if (!mt_is_thp(p + *size))
			break;
		*size += MT_HUGE;
	}
	for (; mt_node_room(mt_fast_node()) > 16 && rest_size < FILL_MAX;
	     rest_size += 16 * MT_PAGE)
		mt_touch(rest + rest_size, 16 * MT_PAGE, true);
	mt_note("DRAM has %zu MiB in huge pages, and %zu MiB of others",
		*size / MT_MB, rest_size / MT_MB);
	mt_bind_default();
	mt_write(DEMOTION, "1");
	if (*size < 2 * SIZE || rest_size == FILL_MAX || mlock(rest, rest_size))
		return NULL;
	return p;
}

static int for_idle_ones(void)
{
	char *p = mt_place_thp(SIZE, mt_slow_node()), *idle;
	size_t size;
	struct mt_toucher t;
	bool most;

	MT_NEED(p, "no huge pages on the slow node");
	idle = fill(&size);
	MT_NEED(idle, "DRAM cannot be filled with huge pages");
	most = comes(&t, p, MT_PAGE, PAGES / 2);
	end(&t);
	MT_ASSERT(most, "they did not come up");
	MT_ASSERT(mt_since(&before, "mtier_demoted") >= PAGES / 2 - NOISE,
		  "%lld pages went down", mt_since(&before, "mtier_demoted"));
	return whole(p, SIZE);
}

static int idle_ones_for_single_pages(void)
{
	char *p = mt_place(SIZE, mt_slow_node()), *idle;
	size_t size;
	struct mt_toucher t;
	long left;
	bool most;

	MT_ASSERT(p, "no memory on the slow node");
	idle = fill(&size);
	MT_NEED(idle, "DRAM cannot be filled with huge pages");
	most = comes(&t, p, MT_PAGE, PAGES / 2);
	end(&t);
	left = on_fast(idle, size);
	mt_note("%ld of %zu pages of idle folios are left in DRAM", left,
		size / MT_PAGE);
	MT_ASSERT(most, "they did not come up");
	MT_ASSERT(left < (long)(size / MT_PAGE) - PAGES / 4, "nothing left");
	return MT_PASS;
}

/*
 * One page of each is used all the time, and all base pages of slow memory often: the
 * used part of a huge page is not known.
 */
static int used_ones_stay(void)
{
	char *p = mt_place(SIZE, mt_slow_node()), *used;
	size_t size;
	struct mt_toucher t, u;
	long was, left;
	bool pass;

	MT_ASSERT(p, "no memory on the slow node");
	used = fill(&size);
	MT_NEED(used, "DRAM cannot be filled with huge pages");
	was = on_fast(used, size);
	u = (struct mt_toucher) {
		.p = used, .size = size, .step = MT_HUGE, .cpu = -1,
	};
	mt_toucher_run(&u);
	mt_touch_start(&t, p, SIZE);
	mt_snap(&before);
	pass = !mt_bursts_on() && mt_bursts_pass(8);
	mt_touch_stop(&u);
	end(&t);
	left = on_fast(used, size);
	mt_note("%ld of %ld pages of used folios are left in DRAM", left, was);
	MT_ASSERT(pass, "no bursts");
	MT_ASSERT(left >= was - was / 20, "%ld of %ld are left in DRAM", left, was);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("P15 huge pages in use come up into free memory",
			 into_free_memory),
		MT_CHECK("P15 huge pages that single entries map come up, too",
			 mapped_in_pieces),
		MT_CHECK("P15 folios of 64 KiB come up, too", folios_of_64k),
		MT_CHECK("P15 huge pages in use change places with idle ones",
			 for_idle_ones),
		MT_CHECK("P15 idle huge pages make way for single pages",
			 idle_ones_for_single_pages),
		MT_CHECK("P15 huge pages in use make way for nobody",
			 used_ones_stay),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes of pages that promotion moves by address space: such pages are
 * deferred together or not at all, and a reader of a moved page misses no store.
 *
 * Memory is write-protected by a fork whose child has exited. Two other CPUs use the
 * address space all the time. KUnit's mtier_flight tests each rule.
 *
 * lab: topology=dram-cxl cpus=4 append="nopti isolcpus=2,3" timeout=400s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tlb_defer_util.h"

/* Many flights; or at least more than one, and more than a page table */
#define SIZE	((mt_debug_kernel() ? 6 : 64) * MT_MB)
#define PAGES	((long long)(SIZE / MT_PAGE))
/* Few enough for one flight */
#define FEW	64
/* Each flight has one of these. */
#define STRIDE	8

static struct mt_snap before;

/*
 * Once, before any of it moves: pages that are written all the time would be found in use
 * more often than the others, and move in separate flights.
 */
static void write_some(char *p, size_t size, size_t stride)
{
	size_t page;

	for (page = 0; stride && page < size / MT_PAGE; page += stride)
		p[page * MT_PAGE + 64]++;
}

static bool used_until_fast(char *p, size_t size)
{
	int i;

	return MT_WAIT(({
		mt_hurry();
		for (i = 0; i < 16; i++)
			mt_touch(p, size, false);
		mt_all_on(p, size, mt_fast_node());
	}), MT_MOVE_MS);
}

/* Memory that is written, write-protected, partly written again, and promoted. */
static int promote(size_t stride)
{
	char *p = mt_fill(SIZE, mt_slow_node(), false);
	long long ipis;
	bool up;
	int ret;

	MT_ASSERT(p && mt_fork_once(), "no such memory");
	write_some(p, SIZE, stride);
	mt_knobs_save();
	mt_fast();
	td_use_others();
	mt_snap(&before);
	ipis = td_ipis();
	mt_on();
	up = used_until_fast(p, SIZE);
	mt_off();
	mt_note("%lld interrupts, %lld flushes of looks", td_ipis() - ipis,
		mt_since(&before, "mtier_look_flushes"));
	td_leave_others();
	mt_knobs_restore();
	mt_note("of %lld pages %lld by address space, %lld of them waited", PAGES,
		mt_since(&before, "mtier_fast_moved"),
		mt_since(&before, "mtier_fast_deferred"));
	mt_note("batches: %lld without a flush, %lld with one",
		mt_since(&before, "tlb_defer_batch_clean"),
		mt_since(&before, "tlb_defer_batch_flushed"));
	MT_ASSERT(up, "not all moved");
	ret = mt_filled(p, SIZE);
	munmap(p, SIZE);
	/* Pages in per-CPU batches of LRU lists move in another way. */
	MT_ASSERT(mt_since(&before, "mtier_fast_moved") > PAGES * 9 / 10,
		  "not most of them by address space");
	return ret;
}

static int read_only_waits(void)
{
	long long moved, waited;

	if (promote(0))
		return MT_FAIL;
	moved = mt_since(&before, "mtier_fast_moved");
	waited = mt_since(&before, "mtier_fast_deferred");
	/* The rest moved during another flush, or too many were deferred. */
	MT_ASSERT(waited > moved / 2, "%lld of %lld waited", waited, moved);
	MT_ASSERT(mt_since(&before, "tlb_defer_pages") >= waited,
		  "%lld in all", mt_since(&before, "tlb_defer_pages"));
	return MT_PASS;
}

static int off_nothing_waits(void)
{
	td_mode("off");
	if (promote(0))
		return MT_FAIL;
	MT_ASSERT(!mt_since(&before, "mtier_fast_deferred") &&
		  !td_judged(&before), "something was judged");
	return MT_PASS;
}

static int written_ones_take_others_along(void)
{
	if (promote(STRIDE))
		return MT_FAIL;
	mt_note("%lld refused, %lld joined", mt_since(&before, "tlb_defer_refused_write"),
		mt_since(&before, "tlb_defer_joined"));
	MT_ASSERT(mt_since(&before, "tlb_defer_refused_write") > PAGES / STRIDE / 2,
		  "writable pages were not refused");
	MT_ASSERT(mt_since(&before, "tlb_defer_joined") > PAGES / 2,
		  "others did not go along");
	return MT_PASS;
}

/* ---- no store is missed ---- */

/* Store as soon as a page was promoted: its reader may still read the old frame. */
static int a_store_is_seen(void)
{
	unsigned int times = td_times(60);
	char *p = mt_fill(FEW * MT_PAGE, mt_slow_node(), false);
	uint64_t i, *word = (uint64_t *)p;
	struct td_reader r;
	bool ok = p;

	MT_ASSERT(p, "no such memory");
	mt_knobs_save();
	mt_fast();
	td_forever(true);
	mt_snap(&before);
	*word = 1;
	td_reader_start(&r, p, TD_READER_CPU);
	for (i = 2; ok && i < times + 2; i++) {
		mt_off();
		ok = td_all_moved(p, FEW, mt_slow_node()) && mt_fork_once();
		mt_on();
		ok = ok && used_until_fast(p, FEW * MT_PAGE);
		*(volatile uint64_t *)word = i;
		atomic_store_explicit(&r.flag, i, memory_order_release);
		td_reader_pass(&r);
	}
	mt_off();
	td_reader_stop(&r);
	mt_knobs_restore();
	munmap(p, FEW * MT_PAGE);
	mt_note("%lld pages waited, %lld flushes that a store forced",
		mt_since(&before, "mtier_fast_deferred"),
		mt_since(&before, "tlb_defer_forced_write"));
	MT_ASSERT(ok, "not moved, in round %llu", (unsigned long long)i);
	MT_ASSERT(!atomic_load(&r.stale), "missed a store %lu times",
		  atomic_load(&r.stale));
	MT_ASSERT(mt_since(&before, "mtier_fast_deferred") > times * FEW / 4 &&
		  mt_since(&before, "tlb_defer_forced_write") > times / 4,
		  "too few of either");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("read-only pages wait", read_only_waits),
		MT_CHECK("switched off none does", off_nothing_waits),
		MT_CHECK("written ones take others along",
			 written_ones_take_others_along),
		MT_CHECK("A2: a store in a page that has come up is seen",
			 a_store_is_seen),
	};

	return td_main(checks, ARRAY_LEN(checks));
}

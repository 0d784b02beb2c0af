// SPDX-License-Identifier: GPL-2.0
/*
 * Scan: the Accessed bits it clears are missed by nobody, and it changes no
 * other bit.
 *
 * lab: topology=dram-cxl timeout=90s debug=yes
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mtier_util.h"

#define PAGES	64
#define SIZE	(PAGES * MT_PAGE)

#define SOFT_DIRTY	(1ULL << 55)
#define UFFD_WP		(1ULL << 57)

static int idle_bitmap(void)
{
	char *p = mt_watched(SIZE);
	int idle;

	MT_ASSERT(p, "no memory on the slow node");
	idle = mt_idle_mark(p, SIZE);
	MT_ASSERT(idle > PAGES / 2, "%d of %d could be marked idle", idle,
		  PAGES);
	MT_ASSERT(mt_used_and_scanned(p, SIZE), "not scanned");
	idle = mt_idle_count(p, SIZE);
	MT_ASSERT(!idle, "%d of %d used pages are called idle", idle, PAGES);
	return MT_PASS;
}

/* smaps asks the Accessed bit and the young flag, as reclaim does. */
static int referenced(void)
{
	char *p = mt_watched(SIZE);
	long kb;

	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(!mt_write("/proc/self/clear_refs", "1"), "clear_refs");
	kb = mt_smaps_kb(p, "Referenced");
	MT_ASSERT(!kb, "%ld KiB are referenced after clear_refs", kb);
	MT_ASSERT(mt_used_and_scanned(p, SIZE), "not scanned");
	kb = mt_smaps_kb(p, "Referenced");
	MT_ASSERT(kb >= (long)(SIZE >> 10), "%ld of %ld KiB are referenced", kb,
		  (long)(SIZE >> 10));
	return MT_PASS;
}

/* A page that is not used must not look used to the others either. */
static int unused(void)
{
	char *p = mt_watched(SIZE), *other = mt_place(SIZE, mt_slow_node());
	int before, after;

	MT_ASSERT(p && other, "no memory on the slow node");
	before = mt_idle_mark(other, SIZE);
	MT_ASSERT(before > PAGES / 2, "%d of %d could be marked idle", before,
		  PAGES);
	MT_ASSERT(mt_used_and_scanned(p, SIZE), "not scanned");
	after = mt_idle_count(other, SIZE);
	MT_ASSERT(after == before, "of %d unused pages %d are called idle",
		  before, after);
	return MT_PASS;
}

static int count_bit(const char *p, uint64_t bit)
{
	int i, n = 0;

	for (i = 0; i < PAGES; i++)
		n += !!(mt_pagemap(p + i * MT_PAGE) & bit);
	return n;
}

static int soft_dirty(void)
{
	char *p = mt_watched(SIZE);
	int i;

	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(!mt_write("/proc/self/clear_refs", "4"), "clear_refs");
	for (i = 0; i < PAGES / 2; i++)
		p[i * MT_PAGE] = 1;
	MT_ASSERT(count_bit(p, SOFT_DIRTY) == PAGES / 2, "%d are soft-dirty",
		  count_bit(p, SOFT_DIRTY));
	MT_ASSERT(mt_used_and_scanned(p, SIZE), "not scanned");
	MT_ASSERT(count_bit(p, SOFT_DIRTY) == PAGES / 2,
		  "after scans %d are soft-dirty", count_bit(p, SOFT_DIRTY));
	mt_set("hot/room_percent", 0);
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), 10000), "not promoted");
	/* Migration may mark more (it does for dirty pages), but none less. */
	MT_ASSERT(count_bit(p, SOFT_DIRTY) >= PAGES / 2,
		  "after promotion %d are soft-dirty",
		  count_bit(p, SOFT_DIRTY));
	return MT_PASS;
}

static int uffd_wp(void)
{
	struct uffdio_api api = {
		.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	struct uffdio_writeprotect wp = { .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_WP };
	char *p = mt_watched(SIZE);
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	MT_ASSERT(p, "no memory on the slow node");
	MT_NEED(fd >= 0 && !ioctl(fd, UFFDIO_API, &api), "no userfaultfd");
	reg.range.start = (uintptr_t)p;
	reg.range.len = SIZE;
	wp.range = reg.range;
	MT_NEED(!ioctl(fd, UFFDIO_REGISTER, &reg), "no write-protect mode");
	MT_NEED(!ioctl(fd, UFFDIO_WRITEPROTECT, &wp), "cannot protect");
	MT_ASSERT(count_bit(p, UFFD_WP) == PAGES, "%d are protected",
		  count_bit(p, UFFD_WP));
	MT_ASSERT(mt_smaps_kb(p, "Rss") >= 0, "no smaps");
	mt_set("hot/room_percent", 0);
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), 10000), "not promoted");
	MT_ASSERT(count_bit(p, UFFD_WP) == PAGES,
		  "after promotion %d are protected", count_bit(p, UFFD_WP));
	return MT_PASS;
}

/*
 * A page so hot that its translation never leaves the TLB by itself.  Others do
 * flush it: the guest's init once a second, where it happens to beat on that
 * CPU.  So a window that sees it that often is not enough: six of twelve visits
 * have to, and only some three have help from outside.
 */
static int spinning(void)
{
	char *p = mt_place(MT_PAGE, mt_slow_node());
	struct mt_toucher t;
	bool moved;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", 6);
	mt_set("hot/window_ms", 2400);
	mt_set3("period", "ms", 200, 200, 200);
	t = (struct mt_toucher) {
		.p = p, .size = MT_PAGE, .step = MT_PAGE, .cpu = 1,
	};
	mt_run_on_cpu(0);
	mt_toucher_run(&t);
	mt_on();
	moved = MT_WAIT(mt_all_on(p, MT_PAGE, mt_fast_node()), 6000);
	mt_touch_stop(&t);
	MT_ASSERT(moved, "it was never seen six times in 2.4 s");
	return MT_PASS;
}

static int no_flush_knob(void)
{
	struct mt_snap before;
	char *p = mt_watched(SIZE);
	struct mt_toucher t;

	MT_ASSERT(p, "no memory on the slow node");
	mt_set("scan/flush_tlb", 0);
	mt_touch_start(&t, p, SIZE);
	mt_snap(&before);
	mt_on();
	MT_ASSERT(MT_WAIT(mt_since(&before, "mtier_young_slow") >= PAGES, 5000),
		  "not scanned");
	MT_ASSERT(!mt_since(&before, "mtier_scan_flushes"), "it flushed");
	mt_set("scan/flush_tlb", 1);
	MT_ASSERT(MT_WAIT(mt_since(&before, "mtier_scan_flushes") > 0, 5000),
		  "it never flushed");
	mt_touch_stop(&t);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A11 the idle bitmap still learns of an access",
			 idle_bitmap),
		MT_CHECK("A11 so does who asks for referenced pages",
			 referenced),
		MT_CHECK("A11 an unused page stays idle", unused),
		MT_CHECK("A11 soft-dirty bits survive scans and promotion",
			 soft_dirty),
		MT_CHECK("A11 userfaultfd's write protection does, too",
			 uffd_wp),
		MT_CHECK("A3 A11 a page that never leaves the TLB is found hot",
			 spinning),
		MT_CHECK("C1 flush_tlb 0 is no flush, 1 is one a visit",
			 no_flush_knob),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}

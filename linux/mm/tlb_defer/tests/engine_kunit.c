// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: the state of an address space (A), and allocations while frames
 * are deferred (C). An allocation that cannot sleep gets none of the deferred frames, and
 * flushes nothing; one that can sleep gets them.
 *
 * The deferred frame is allocated by the test and committed for all CPUs, and generations
 * do not end by themselves (debugfs forever). The test takes all blocks of the largest
 * size, so that one more allocation reaches the slow path. Smaller blocks are left to the
 * rest of the system, down to kthreadd.
 */
#include <kunit/test.h>
#include <linux/gfp.h>
#include <linux/irqflags.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sizes.h>
#include <linux/thread_info.h>

#include "../tlb_defer.h"

/* Several times the reserves that a GFP_KERNEL allocation may not use */
#define ROOM_BLOCKS	(SZ_64M / (PAGE_SIZE << MAX_PAGE_ORDER))

/*
 * Split some of the largest blocks, and free all pages but the first one of each, which
 * go to @kept. exhaust() cannot allocate these pages, so the machine does not run out of
 * memory.
 */
static void leave_room(struct kunit *test, struct list_head *kept)
{
	struct page *blocks[ROOM_BLOCKS];
	unsigned int i, n;

	for (i = 0; i < ROOM_BLOCKS; i++) {
		blocks[i] = alloc_pages(GFP_KERNEL, MAX_PAGE_ORDER);
		KUNIT_ASSERT_NOT_NULL(test, blocks[i]);
	}
	for (i = 0; i < ROOM_BLOCKS; i++) {
		split_page(blocks[i], MAX_PAGE_ORDER);
		list_add(&blocks[i]->lru, kept);
		for (n = 1; n < MAX_ORDER_NR_PAGES; n++)
			__free_page(blocks[i] + n);
	}
}

/* Take all blocks of the largest size; returns whether an allocation failed at last. */
static bool exhaust(gfp_t gfp, struct list_head *list)
{
	unsigned long n, most = totalram_pages() >> MAX_PAGE_ORDER;

	for (n = 0; n <= most; n++) {
		struct page *page = alloc_pages(gfp | __GFP_NOWARN,
						MAX_PAGE_ORDER);

		if (!page)
			return true;
		list_add(&page->lru, list);
	}
	return false;
}

static void give_back(struct list_head *list, unsigned int order)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, list, lru) {
		list_del(&page->lru);
		__free_pages(page, order);
	}
}

/* Check for memory for a new thread; without it the machine could die in this test. */
static void expect_room(struct kunit *test)
{
	gfp_t gfp = GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN;
	struct page *page = alloc_pages(gfp, THREAD_SIZE_ORDER);

	KUNIT_EXPECT_NOT_NULL(test, page);
	if (page)
		__free_pages(page, THREAD_SIZE_ORDER);
}

/* Defer a frame that any CPU could still read. */
static void one_waits(struct kunit *test)
{
	struct folio *folio = folio_alloc(GFP_KERNEL, 0);
	struct mm_struct *mm = &init_mm;
	LIST_HEAD(folios);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	list_add(&folio->lru, &folios);
	tlb_defer_open(mm, false);
	tlb_defer_hold(&folios, folio_nid(folio), 1,
		       tlb_defer_seal(&mm, 1, cpu_online_mask));
	KUNIT_ASSERT_EQ(test, tlb_defer_held_pages(), 1L);
}

static void who_cannot_wait_gets_no_frame_that_does(struct kunit *test)
{
	unsigned long flags;
	bool ended;
	LIST_HEAD(kept);
	LIST_HEAD(list);

	leave_room(test, &kept);
	one_waits(test);
	local_irq_save(flags);
	ended = exhaust(GFP_ATOMIC, &list);
	local_irq_restore(flags);
	KUNIT_EXPECT_TRUE(test, ended);
	KUNIT_EXPECT_EQ(test, tlb_defer_held_pages(), 1L);
	/* With sleep allowed, the same allocations do flush. */
	KUNIT_EXPECT_TRUE(test, exhaust(GFP_KERNEL | __GFP_NORETRY, &list));
	KUNIT_EXPECT_EQ(test, tlb_defer_held_pages(), 0L);
	expect_room(test);
	give_back(&list, MAX_PAGE_ORDER);
	give_back(&kept, 0);
}

/* ---- state of an address space ---- */

/* An address space without users, with nothing deferred */
static struct mm_struct *new_mm(struct kunit *test)
{
	struct mm_struct *mm = kunit_kzalloc(test, sizeof(*mm), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mm);
	tlb_defer_init_mm(mm);
	return mm;
}

static u64 seal(struct mm_struct *mm)
{
	return tlb_defer_seal(&mm, 1, cpu_online_mask);
}

static u64 waits_for(struct mm_struct *mm)
{
	return tlb_defer_mm_done(mm) ? 0 : mm->tlb_defer.gen;
}

static void what_is_collected_is_not_done(struct kunit *test)
{
	struct mm_struct *mm = new_mm(test);
	u64 gen;

	KUNIT_EXPECT_EQ(test, waits_for(mm), 0);
	tlb_defer_open(mm, false);
	KUNIT_EXPECT_EQ(test, waits_for(mm), TLB_DEFER_UNSEALED);
	gen = seal(mm);
	KUNIT_EXPECT_EQ(test, waits_for(mm), gen);
	/* A batch that was flushed does not extend the wait. */
	tlb_defer_open(mm, false);
	KUNIT_EXPECT_EQ(test, waits_for(mm), TLB_DEFER_UNSEALED);
	tlb_defer_close(&mm, 1);
	KUNIT_EXPECT_EQ(test, waits_for(mm), gen);
	tlb_defer_flush_all(TLB_DEFER_STOP);
	KUNIT_EXPECT_EQ(test, waits_for(mm), 0);
	tlb_defer_open(mm, false);
	tlb_defer_close(&mm, 1);
	KUNIT_EXPECT_EQ(test, waits_for(mm), 0);
}

static void a_forced_flush_covers_what_was_noted(struct kunit *test)
{
	struct mm_struct *mm = new_mm(test);
	u32 before = tlb_defer_open(mm, false), epoch;

	epoch = tlb_defer_mm_flush(mm);
	KUNIT_EXPECT_NE(test, before, epoch);
	/* Until the flush is over, other tasks have to flush as well. */
	KUNIT_EXPECT_EQ(test, waits_for(mm), TLB_DEFER_UNSEALED);
	tlb_defer_mm_flushed(mm, epoch);
	KUNIT_EXPECT_EQ(test, waits_for(mm), 0);
	seal(mm);
	KUNIT_EXPECT_EQ(test, waits_for(mm), 0);
	/* And entries that were committed before */
	tlb_defer_open(mm, false);
	seal(mm);
	tlb_defer_mm_flushed(mm, tlb_defer_mm_flush(mm));
	KUNIT_EXPECT_EQ(test, waits_for(mm), 0);
}

static void what_comes_after_a_forced_flush_is_noted_again(struct kunit *test)
{
	struct mm_struct *mm = new_mm(test);
	u32 epoch, later;

	tlb_defer_open(mm, false);
	epoch = tlb_defer_mm_flush(mm);
	KUNIT_EXPECT_EQ(test, tlb_defer_open(mm, true), epoch);
	tlb_defer_mm_flushed(mm, epoch);
	KUNIT_EXPECT_EQ(test, waits_for(mm), TLB_DEFER_UNSEALED);
	/* Of two flushes that overlap, only the later one covers the batch. */
	later = tlb_defer_mm_flush(mm);
	tlb_defer_mm_flushed(mm, epoch);
	KUNIT_EXPECT_EQ(test, waits_for(mm), TLB_DEFER_UNSEALED);
	tlb_defer_mm_flushed(mm, later);
	KUNIT_EXPECT_EQ(test, waits_for(mm), 0);
	tlb_defer_open(mm, true);
	KUNIT_EXPECT_EQ(test, seal(mm), waits_for(mm));
}

static void batches_do_not_end_each_other(struct kunit *test)
{
	struct mm_struct *mm = new_mm(test);
	u64 gen;

	tlb_defer_open(mm, false);
	tlb_defer_open(mm, false);
	gen = seal(mm);
	KUNIT_EXPECT_EQ(test, waits_for(mm), TLB_DEFER_UNSEALED);
	tlb_defer_close(&mm, 1);
	KUNIT_EXPECT_EQ(test, waits_for(mm), gen);
}

static int start(struct kunit *test)
{
	tlb_defer_forever_set = true;
	return tlb_defer_set_mode(TLB_DEFER_QUARANTINE);
}

static void stop(struct kunit *test)
{
	tlb_defer_forever_set = false;
	tlb_defer_set_mode(TLB_DEFER_OFF);
	tlb_defer_init_mm(&init_mm);
}

static struct kunit_case tlb_defer_engine_cases[] = {
	KUNIT_CASE(what_is_collected_is_not_done),
	KUNIT_CASE(a_forced_flush_covers_what_was_noted),
	KUNIT_CASE(what_comes_after_a_forced_flush_is_noted_again),
	KUNIT_CASE(batches_do_not_end_each_other),
	KUNIT_CASE(who_cannot_wait_gets_no_frame_that_does),
	{}
};

static struct kunit_suite tlb_defer_engine_suite = {
	.name = "tlb_defer_engine",
	.init = start,
	.exit = stop,
	.test_cases = tlb_defer_engine_cases,
};

kunit_test_suite(tlb_defer_engine_suite);

// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: the state of hint scans of an address space. It may be cleared
 * only by a flush that covers every scan.
 */
#include <kunit/test.h>
#include <linux/mm_types.h>

#include "../tlb_defer.h"

static void a_scan_is_known_until_its_generation_is_done(struct kunit *test)
{
	struct mm_struct *mm = kunit_kzalloc(test, sizeof(*mm), GFP_KERNEL);
	u64 done = tlb_defer_done();

	KUNIT_ASSERT_NOT_NULL(test, mm);
	KUNIT_EXPECT_FALSE(test, tlb_defer_hinted(mm));
	tlb_defer_hints_open(&mm->tlb_defer.hints);
	KUNIT_EXPECT_TRUE(test, tlb_defer_hinted(mm));
	/* Far enough ahead that other tests do not end it. */
	tlb_defer_hints_close(&mm->tlb_defer.hints, done + 1000000);
	KUNIT_EXPECT_TRUE(test, tlb_defer_hinted(mm));
	mm->tlb_defer.hints.gen = done;
	KUNIT_EXPECT_FALSE(test, tlb_defer_hinted(mm));
	KUNIT_EXPECT_EQ(test, mm->tlb_defer.hints.gen, 0);
}

/* The caller flushes at once. */
static void a_scan_that_flushed_leaves_nothing(struct kunit *test)
{
	struct tlb_defer_hints h = {};

	tlb_defer_hints_open(&h);
	tlb_defer_hints_close(&h, 0);
	KUNIT_EXPECT_EQ(test, h.gen, 0);
}

static void the_last_scan_ends_it(struct kunit *test)
{
	struct tlb_defer_hints h = {};

	tlb_defer_hints_open(&h);
	tlb_defer_hints_open(&h);
	tlb_defer_hints_close(&h, 8);
	KUNIT_EXPECT_EQ(test, h.gen, TLB_DEFER_UNSEALED);
	/* It has flushed, which says nothing about the first one. */
	tlb_defer_hints_close(&h, 0);
	KUNIT_EXPECT_EQ(test, h.gen, 8);
}

static void a_later_scan_counts(struct kunit *test)
{
	struct tlb_defer_hints h = {};

	tlb_defer_hints_open(&h);
	tlb_defer_hints_open(&h);
	tlb_defer_hints_close(&h, 9);
	tlb_defer_hints_close(&h, 8);
	KUNIT_EXPECT_EQ(test, h.gen, 9);
}

static void a_flush_covers_scans_that_have_ended(struct kunit *test)
{
	struct tlb_defer_hints h = {};

	tlb_defer_hints_open(&h);
	tlb_defer_hints_close(&h, 8);
	tlb_defer_hints_flushed(&h, 8);
	KUNIT_EXPECT_EQ(test, h.gen, 0);
	/* And the next one starts anew. */
	tlb_defer_hints_open(&h);
	tlb_defer_hints_close(&h, 0);
	KUNIT_EXPECT_EQ(test, h.gen, 0);
}

static void a_flush_does_not_cover_a_scan_under_way(struct kunit *test)
{
	struct tlb_defer_hints h = {};

	tlb_defer_hints_open(&h);
	tlb_defer_hints_flushed(&h, h.gen);
	KUNIT_EXPECT_EQ(test, h.gen, TLB_DEFER_UNSEALED);
	tlb_defer_hints_close(&h, 8);
	KUNIT_EXPECT_EQ(test, h.gen, 8);
}

static void a_flush_does_not_cover_what_came_after(struct kunit *test)
{
	struct tlb_defer_hints h = {};
	u64 seen;

	tlb_defer_hints_open(&h);
	tlb_defer_hints_close(&h, 8);
	seen = h.gen;
	tlb_defer_hints_open(&h);
	tlb_defer_hints_close(&h, 9);
	tlb_defer_hints_flushed(&h, seen);
	KUNIT_EXPECT_EQ(test, h.gen, 9);
}

static struct kunit_case hint_cases[] = {
	KUNIT_CASE(a_scan_is_known_until_its_generation_is_done),
	KUNIT_CASE(a_scan_that_flushed_leaves_nothing),
	KUNIT_CASE(the_last_scan_ends_it),
	KUNIT_CASE(a_later_scan_counts),
	KUNIT_CASE(a_flush_covers_scans_that_have_ended),
	KUNIT_CASE(a_flush_does_not_cover_a_scan_under_way),
	KUNIT_CASE(a_flush_does_not_cover_what_came_after),
	{}
};

static struct kunit_suite hint_suite = {
	.name = "tlb_defer_hint",
	.test_cases = hint_cases,
};

kunit_test_suite(hint_suite);

// SPDX-License-Identifier: GPL-2.0
/* KUnit: which requests are taken, what is marked, and who goes along. */
#include <kunit/test.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>

#include "../decide.h"

static void a_request_moves_and_is_not_strict(struct kunit *test)
{
	unsigned long flags;

	for (flags = 0; flags < MPOL_MF_LAZY; flags++) {
		bool moves = flags & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL);
		bool fits = moves && !(flags & MPOL_MF_STRICT);

		KUNIT_EXPECT_EQ_MSG(test, fits,
				    lazy_request_fits(MPOL_BIND, 0,
						      flags | MPOL_MF_LAZY),
				    "flags %#lx", flags);
	}
}

static void a_policy_says_where(struct kunit *test)
{
	unsigned short mode;

	KUNIT_EXPECT_FALSE(test, lazy_request_fits(MPOL_DEFAULT, 0,
						   MPOL_MF_MOVE));
	for (mode = MPOL_DEFAULT + 1; mode < MPOL_MAX; mode++) {
		KUNIT_EXPECT_TRUE(test, lazy_request_fits(mode, 0,
							  MPOL_MF_MOVE));
		KUNIT_EXPECT_TRUE(test,
				  lazy_request_fits(mode, MPOL_F_STATIC_NODES,
						    MPOL_MF_MOVE));
		KUNIT_EXPECT_FALSE(test,
				   lazy_request_fits(mode,
						     MPOL_F_NUMA_BALANCING,
						     MPOL_MF_MOVE));
	}
}

/* All 128 pages that there can be, against the rules one by one */
static void every_page_gets_its_verdict(struct kunit *test)
{
	unsigned int bits, seen[LAZY_LEAVE + 1] = { 0 };

	for (bits = 0; bits < 128; bits++) {
		struct lazy_page page = {
			.policy = bits & 1, .local = bits & 2,
			.misplaced = bits & 4, .dirty = bits & 8,
			.shared = bits & 16, .held = bits & 32,
		};
		bool all = bits & 64;
		bool wanted = page.policy && (page.local || page.misplaced);
		int verdict = lazy_verdict(&page, all);

		seen[verdict]++;
		KUNIT_EXPECT_EQ(test, verdict == LAZY_LEAVE, !wanted);
		if (verdict == LAZY_LEAVE)
			continue;
		KUNIT_EXPECT_EQ(test, verdict == LAZY_MARK,
				!page.held && !page.dirty &&
				(all || !page.shared));
		if (verdict == LAZY_DIRTY)
			KUNIT_EXPECT_TRUE(test, page.dirty);
		if (verdict == LAZY_SHARED)
			KUNIT_EXPECT_TRUE(test, page.shared && !all);
		if (verdict == LAZY_BUSY)
			KUNIT_EXPECT_TRUE(test, page.held);
	}
	/* Room is asked for when it moves. */
	KUNIT_EXPECT_EQ(test, seen[LAZY_NOMEM], 0);
	KUNIT_EXPECT_GT(test, seen[LAZY_MARK], 0);
	KUNIT_EXPECT_GT(test, seen[LAZY_DIRTY], 0);
	KUNIT_EXPECT_GT(test, seen[LAZY_SHARED], 0);
	KUNIT_EXPECT_GT(test, seen[LAZY_BUSY], 0);
}

/* A fault anywhere in VMAs of every shape around a window's borders */
static void a_batch_is_a_window_in_the_vma(struct kunit *test)
{
	unsigned long base = 1UL << 30, bytes = LAZY_BATCH_PAGES * PAGE_SIZE;
	unsigned long from, to, addr;

	for (from = base; from < base + bytes; from += PAGE_SIZE)
		for (to = from + PAGE_SIZE; to <= base + 3 * bytes;
		     to += 5 * PAGE_SIZE)
			for (addr = from; addr < to; addr += PAGE_SIZE) {
				struct lazy_window w = lazy_batch(addr + 7,
								  from, to);

				KUNIT_ASSERT_LE(test, w.start, addr);
				KUNIT_ASSERT_GT(test, w.end, addr);
				KUNIT_ASSERT_GE(test, w.start, from);
				KUNIT_ASSERT_LE(test, w.end, to);
				KUNIT_ASSERT_TRUE(test, PAGE_ALIGNED(w.start | w.end));
				KUNIT_ASSERT_EQ(test, w.start / bytes,
						(w.end - 1) / bytes);
			}
}

/* From one end to the other a fault is needed for every window, no more. */
static void windows_follow_each_other(struct kunit *test)
{
	unsigned long start = 3 * PAGE_SIZE, end = 403 * PAGE_SIZE;
	unsigned long addr = start, faults = 0;

	while (addr < end) {
		struct lazy_window w = lazy_batch(addr, start, end);

		KUNIT_ASSERT_EQ(test, w.start, addr);
		addr = w.end;
		faults++;
	}
	KUNIT_EXPECT_EQ(test, faults, 26);
}

static struct kunit_case decide_cases[] = {
	KUNIT_CASE(a_request_moves_and_is_not_strict),
	KUNIT_CASE(a_policy_says_where),
	KUNIT_CASE(every_page_gets_its_verdict),
	KUNIT_CASE(a_batch_is_a_window_in_the_vma),
	KUNIT_CASE(windows_follow_each_other),
	{}
};

static struct kunit_suite decide_suite = {
	.name = "lazy_migrate_decide",
	.test_cases = decide_cases,
};

kunit_test_suite(decide_suite);

MODULE_DESCRIPTION("KUnit tests of lazy migration");
MODULE_LICENSE("GPL");

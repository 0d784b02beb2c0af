// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of windows: the slots of a VMA that a walk covers. */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/prandom.h>

#include "../window.h"

static void slots_cover_the_vma(struct kunit *test)
{
	static const unsigned long pages[] = {
		1, 2, 63, 64, 65, 127, 128, 129, 1000, 262144, 262145,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		unsigned long bytes = pages[i] << PAGE_SHIFT;
		unsigned long slot = numa_window_slot_bytes(bytes, PAGE_SIZE);

		KUNIT_EXPECT_TRUE(test, PAGE_ALIGNED(slot));
		KUNIT_EXPECT_GE(test, slot * BITS_PER_LONG, bytes);
		KUNIT_EXPECT_LT(test, (bytes - 1) / slot, BITS_PER_LONG);
		/* No slot is larger than necessary. */
		KUNIT_EXPECT_LT(test, (slot - PAGE_SIZE) * BITS_PER_LONG, bytes);
	}
}

static void full_at_first_and_every_eighth(struct kunit *test)
{
	unsigned int age, full = 0;

	KUNIT_EXPECT_TRUE(test, numa_window_full(0));
	KUNIT_EXPECT_TRUE(test, numa_window_full(1));
	for (age = 2; age < 8; age++)
		KUNIT_EXPECT_FALSE(test, numa_window_full(age));
	/* At most seven in a row without one, also across a wrap. */
	for (age = UINT_MAX - 99; age != 100; age++)
		full += numa_window_full(age);
	KUNIT_EXPECT_GE(test, full, 200 / 8);
}

/* A VMA walked in every third sequence misses none of nine full sequences. */
static void full_also_if_the_eighth_was_missed(struct kunit *test)
{
	unsigned int seq, first = 0, before = 0, age, full = 0;

	for (seq = 3; seq <= 72; seq += 3) {
		age = numa_window_age(before, seq - first);
		first = seq - age;
		before = age;
		full += numa_window_full(age);
	}
	KUNIT_EXPECT_GE(test, full, 72 / (8 + 3));
	KUNIT_EXPECT_LE(test, full, 72 / 8);
}

static void neighbours_are_walked(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, numa_window_mask(0, 0), 0UL);
	KUNIT_EXPECT_EQ(test, numa_window_mask(BIT(5), 0), 7UL << 4);
	KUNIT_EXPECT_EQ(test, numa_window_mask(0, BIT(5)), 7UL << 4);
	KUNIT_EXPECT_EQ(test, numa_window_mask(BIT(0), 0), 3UL);
	KUNIT_EXPECT_EQ(test, numa_window_mask(BIT(BITS_PER_LONG - 1), 0),
			3UL << (BITS_PER_LONG - 2));
}

/* Walk like the scanner, check each step, and return the number of pages walked. */
static unsigned long walk(struct kunit *test, unsigned long mask,
			  unsigned long pages)
{
	unsigned long bytes = pages << PAGE_SHIFT;
	unsigned long slot = numa_window_slot_bytes(bytes, PAGE_SIZE);
	unsigned long at = 0, end, walked = 0, steps = 0;

	while (at < bytes) {
		at = numa_window_next(mask, slot, at, bytes);
		if (at == bytes)
			break;
		KUNIT_EXPECT_TRUE(test, mask & BIT(at / slot));
		end = numa_window_run_end(mask, slot, at, bytes);
		KUNIT_ASSERT_GT(test, end, at);
		KUNIT_EXPECT_TRUE(test, end == bytes ||
				  !(mask & BIT(end / slot)));
		walked += (end - at) >> PAGE_SHIFT;
		at = end;
		KUNIT_ASSERT_LE(test, ++steps, (unsigned long)BITS_PER_LONG);
	}
	return walked;
}

static unsigned long wanted(unsigned long mask, unsigned long pages)
{
	unsigned long slot = numa_window_slot_bytes(pages << PAGE_SHIFT,
						    PAGE_SIZE) >> PAGE_SHIFT;
	unsigned long page, n = 0;

	for (page = 0; page < pages; page++)
		n += !!(mask & BIT(page / slot));
	return n;
}

static void walks_just_the_mask(struct kunit *test)
{
	struct rnd_state rnd;
	int i;

	prandom_seed_state(&rnd, 3);
	for (i = 0; i < 200; i++) {
		unsigned long pages = 1 + prandom_u32_state(&rnd) % 1000;
		unsigned long mask = prandom_u32_state(&rnd);

		mask |= (unsigned long)prandom_u32_state(&rnd) <<
			(BITS_PER_LONG - 32);
		mask &= prandom_u32_state(&rnd) & 1 ? ~0UL : mask << 3;
		KUNIT_EXPECT_EQ(test, walk(test, mask, pages),
				wanted(mask, pages));
	}
	KUNIT_EXPECT_EQ(test, walk(test, 0, 1000), 0UL);
	KUNIT_EXPECT_EQ(test, walk(test, ~0UL, 1000), 1000UL);
}

/* 64 MB of 1 GB: the share that eight sequences walk. */
static void hot_spot_is_a_quarter_of_the_work(struct kunit *test)
{
	unsigned long pages = SZ_1G >> PAGE_SHIFT, hot = SZ_64M >> PAGE_SHIFT;
	unsigned long slot = numa_window_slot_bytes(SZ_1G, PAGE_SIZE);
	unsigned long start, at, used, walked;
	unsigned int age;

	for (start = 0; start + hot <= pages; start += 1777) {
		used = 0;
		for (at = start; at < start + hot; at++)
			used |= BIT((at << PAGE_SHIFT) / slot);
		walked = 0;
		for (age = 8; age < 16; age++)
			walked += numa_window_full(age) ? pages :
				walk(test, numa_window_mask(0, used), pages);
		KUNIT_EXPECT_LE(test, 4 * walked, 8 * pages);
	}
}

static struct kunit_case numa_window_cases[] = {
	KUNIT_CASE(slots_cover_the_vma),
	KUNIT_CASE(full_at_first_and_every_eighth),
	KUNIT_CASE(full_also_if_the_eighth_was_missed),
	KUNIT_CASE(neighbours_are_walked),
	KUNIT_CASE(walks_just_the_mask),
	KUNIT_CASE(hot_spot_is_a_quarter_of_the_work),
	{}
};

static struct kunit_suite numa_window_suite = {
	.name = "numa_scan_window",
	.test_cases = numa_window_cases,
};

kunit_test_suite(numa_window_suite);

MODULE_DESCRIPTION("KUnit tests of the windows of NUMA scanning");
MODULE_LICENSE("GPL");

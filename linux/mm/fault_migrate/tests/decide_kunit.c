// SPDX-License-Identifier: GPL-2.0
/* KUnit: which level reaches which page, whose a file is, and how many move. */
#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/minmax.h>

#include "../decide.h"

#define QUIET	60UL
#define SECOND	10UL

/* Times also where jiffies wrap */
static const unsigned long starts[] = { 0, 1000, ULONG_MAX - 30, ULONG_MAX };

static void levels(struct kunit *test)
{
	unsigned int level;

	for (level = 0; level < 4; level++) {
		KUNIT_EXPECT_EQ(test, fm_reaches(level, FM_SWAP, false),
				level > 0);
		KUNIT_EXPECT_EQ(test, fm_reaches(level, FM_SHMEM, true),
				level > 0);
		KUNIT_EXPECT_EQ(test, fm_reaches(level, FM_FILE, true),
				level > 1);
		KUNIT_EXPECT_EQ(test, fm_reaches(level, FM_FILE, false),
				level > 2);
	}
}

static void what_others_map_stays(struct kunit *test)
{
	unsigned int bits;

	for (bits = 0; bits < 16; bits++) {
		struct fm_page page = {
			.misplaced = bits & 1,
			.mapped = bits & 2,
			.dirty = bits & 4,
			.held = bits & 8,
		};
		enum fm_verdict expected = FM_LEAVE;

		if (bits == 1)
			expected = FM_MOVE;
		if (bits == 5 || bits == 13)
			expected = FM_DIRTY;
		if (bits == 9)
			expected = FM_BUSY;
		KUNIT_EXPECT_EQ(test, fm_verdict(&page), expected);
	}
}

static void a_file_has_one_home(struct kunit *test)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct fm_home home = { 0 };
		unsigned long t = starts[i];

		KUNIT_EXPECT_TRUE(test, fm_may_claim(&home, 7, 0, t, QUIET));
		fm_claim(&home, 7, 0, t);
		KUNIT_EXPECT_TRUE(test, fm_may_claim(&home, 7, 0, t, QUIET));
		KUNIT_EXPECT_FALSE(test, fm_may_claim(&home, 7, 1, t, QUIET));
		KUNIT_EXPECT_FALSE(test, fm_may_claim(&home, 7, 1,
						      t + QUIET - 1, QUIET));
		KUNIT_EXPECT_TRUE(test, fm_may_claim(&home, 7, 1, t + QUIET,
						     QUIET));
		/* Who uses it at home keeps it there. */
		fm_claim(&home, 7, 0, t + QUIET - 1);
		KUNIT_EXPECT_FALSE(test, fm_may_claim(&home, 7, 1, t + QUIET,
						      QUIET));
	}
}

static void another_file_takes_the_place(struct kunit *test)
{
	struct fm_home home = { 0 };

	fm_claim(&home, 7, 0, 100);
	KUNIT_EXPECT_TRUE(test, fm_may_claim(&home, 8, 1, 100, QUIET));
	fm_claim(&home, 8, 1, 100);
	KUNIT_EXPECT_FALSE(test, fm_may_claim(&home, 8, 0, 101, QUIET));
	KUNIT_EXPECT_TRUE(test, fm_may_claim(&home, 7, 1, 101, QUIET));
}

/* Two who use a file by turns, as often as they like: one change a quiet time */
static void by_turns_it_stays(struct kunit *test)
{
	unsigned int now_at = 0, changes = 0;
	struct fm_home home = { 0 };
	unsigned long t;

	for (t = 1; t < 100 * QUIET; t++) {
		unsigned int claim = t / 3 % 2;

		if (!fm_may_claim(&home, 7, claim, t, QUIET))
			continue;
		changes += claim != now_at;
		now_at = claim;
		fm_claim(&home, 7, claim, t);
	}
	KUNIT_EXPECT_LE(test, changes, 1U);
}

static void a_second_has_its_limit(struct kunit *test)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct fm_rate rate = { 0 };
		unsigned long t = starts[i], taken = 0;
		unsigned long most = 0, tick;

		for (tick = 0; tick < 5 * SECOND; tick++) {
			if (tick % SECOND == 0) {
				most = max(most, taken);
				taken = 0;
			}
			while (fm_rate_takes(&rate, t + tick, SECOND, 100, 8))
				taken += 8;
			KUNIT_ASSERT_LE(test, taken, 200UL);
		}
		KUNIT_EXPECT_EQ(test, most, 96UL);
	}
}

static void one_large_folio_may_come(struct kunit *test)
{
	struct fm_rate rate = { 0 };

	KUNIT_EXPECT_TRUE(test, fm_rate_takes(&rate, 1, SECOND, 100, 512));
	KUNIT_EXPECT_FALSE(test, fm_rate_takes(&rate, 1, SECOND, 100, 1));
	KUNIT_EXPECT_TRUE(test, fm_rate_takes(&rate, 1 + SECOND, SECOND, 100, 1));
}

/* It is as if it had not been taken, but not in another second. */
static void what_comes_back_may_be_taken_again(struct kunit *test)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct fm_rate rate = { 0 };
		unsigned long t = starts[i];

		KUNIT_EXPECT_TRUE(test, fm_rate_takes(&rate, t, SECOND, 100, 100));
		KUNIT_EXPECT_FALSE(test, fm_rate_has(&rate, t, SECOND, 100, 1));
		fm_rate_returns(&rate, t + SECOND - 1, SECOND, 40);
		KUNIT_EXPECT_TRUE(test, fm_rate_has(&rate, t, SECOND, 100, 40));
		KUNIT_EXPECT_FALSE(test, fm_rate_has(&rate, t, SECOND, 100, 41));
		KUNIT_EXPECT_TRUE(test, fm_rate_has(&rate, t + SECOND, SECOND,
						    100, 100));
		KUNIT_EXPECT_TRUE(test, fm_rate_takes(&rate, t + SECOND, SECOND,
						      100, 60));
		/* Taken in the second before */
		fm_rate_returns(&rate, t + 2 * SECOND, SECOND, 60);
		KUNIT_EXPECT_EQ(test, rate.pages, 60UL);
		fm_rate_returns(&rate, t + SECOND, SECOND, 100);
		KUNIT_EXPECT_EQ(test, rate.pages, 0UL);
	}
}

static struct kunit_case fault_migrate_cases[] = {
	KUNIT_CASE(levels),
	KUNIT_CASE(what_others_map_stays),
	KUNIT_CASE(a_file_has_one_home),
	KUNIT_CASE(another_file_takes_the_place),
	KUNIT_CASE(by_turns_it_stays),
	KUNIT_CASE(a_second_has_its_limit),
	KUNIT_CASE(one_large_folio_may_come),
	KUNIT_CASE(what_comes_back_may_be_taken_again),
	{}
};

static struct kunit_suite fault_migrate_suite = {
	.name = "fault_migrate",
	.test_cases = fault_migrate_cases,
};

kunit_test_suite(fault_migrate_suite);

MODULE_DESCRIPTION("KUnit tests of migration on faults");
MODULE_LICENSE("GPL");

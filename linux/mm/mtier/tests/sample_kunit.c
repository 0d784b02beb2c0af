// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges are drawn at random, each once before any comes again; address spaces by
 * how many they have. Included by ../sample.c.
 */
#include <kunit/test.h>

#include "map_file.h"

#define SAMPLE_RANGES	100

static void sample_fill(struct kunit *test, struct mtier_sample *s,
			unsigned int nr)
{
	unsigned int i;

	*s = (struct mtier_sample) {
		.at = kunit_kcalloc(test, nr, sizeof(*s->at), GFP_KERNEL),
		.nr = nr,
	};
	KUNIT_ASSERT_NOT_NULL(test, s->at);
	for (i = 0; i < nr; i++)
		s->at[i] = i;
}

/* Which of those drawn were there before? They are noted in @met. */
static unsigned int sample_met(const unsigned long *at, unsigned int nr,
			       unsigned long *met)
{
	unsigned int i, twice = 0;

	for (i = 0; i < nr; i++)
		twice += __test_and_set_bit(at[i], met);
	return twice;
}

static void a_round_has_each_range_once(struct kunit *test)
{
	DECLARE_BITMAP(met, SAMPLE_RANGES) = { };
	unsigned long at[SAMPLE_RANGES];
	struct mtier_sample s;
	unsigned int i;

	sample_fill(test, &s, SAMPLE_RANGES);
	for (i = 0; i < SAMPLE_RANGES / 20; i++) {
		mtier_sample_take(&s, at, 20);
		KUNIT_EXPECT_EQ(test, sample_met(at, 20, met), 0);
		KUNIT_EXPECT_FALSE(test, s.old);
	}
	KUNIT_EXPECT_EQ(test, bitmap_weight(met, SAMPLE_RANGES), SAMPLE_RANGES);
}

static void what_is_left_of_a_round_comes_first(struct kunit *test)
{
	unsigned long at[SAMPLE_RANGES];
	unsigned int size;

	for (size = 1; size <= SAMPLE_RANGES; size++) {
		DECLARE_BITMAP(round, SAMPLE_RANGES) = { };
		DECLARE_BITMAP(burst, SAMPLE_RANGES) = { };
		unsigned int left = SAMPLE_RANGES % size;
		unsigned int full = SAMPLE_RANGES - left;
		struct mtier_sample s;
		unsigned int i;

		sample_fill(test, &s, SAMPLE_RANGES);
		for (i = 0; i < full; i += size) {
			mtier_sample_take(&s, at, size);
			sample_met(at, size, round);
		}
		mtier_sample_take(&s, at, size);
		KUNIT_EXPECT_EQ(test, sample_met(at, left, round), 0);
		KUNIT_EXPECT_TRUE(test, bitmap_full(round, SAMPLE_RANGES));
		/* No range is twice in one burst. */
		KUNIT_EXPECT_EQ(test, sample_met(at, size, burst), 0);
		KUNIT_EXPECT_TRUE(test, s.old);
	}
}

static void the_order_is_another_one_each_time(struct kunit *test)
{
	unsigned long at[SAMPLE_RANGES];
	unsigned int i, same = 0;
	struct mtier_sample s;

	sample_fill(test, &s, SAMPLE_RANGES);
	mtier_sample_take(&s, at, SAMPLE_RANGES);
	for (i = 0; i < SAMPLE_RANGES; i++)
		same += at[i] == i;
	/* One on average; more than 20 in less than one of 10^18. */
	KUNIT_EXPECT_LE(test, same, 20);
}

static void a_range_in_two_walks_is_listed_once(struct kunit *test)
{
	struct mtier_listing *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);
	struct mtier_sample s = { };
	unsigned int room = 0, i;

	KUNIT_ASSERT_NOT_NULL(test, l);
	for (i = 0; i < 3; i++) {
		l->at[0] = 2 * i;
		l->at[1] = 2 * i + 1;
		l->at[2] = 2 * i + 2;
		l->nr = 3;
		KUNIT_ASSERT_TRUE(test, mtier_list_keep(&s, &room, l));
	}
	KUNIT_EXPECT_EQ(test, s.nr, 7);
	KUNIT_EXPECT_LE(test, s.nr, room);
	for (i = 0; i < s.nr; i++)
		KUNIT_EXPECT_EQ(test, s.at[i], i);
	kvfree(s.at);
}

/* Address spaces of 1, 10 and 89 ranges. */
static void address_spaces_have_their_share(struct kunit *test)
{
	static const unsigned int ranges[] = { 1, 10, 89 };
	unsigned int i, k, dealt[3] = { };

	for (k = 0; k < SAMPLE_RANGES; k++) {
		u64 sum = 0;

		for (i = 0; i < 3; i++) {
			dealt[i] += mtier_sample_share(sum, ranges[i], 10, k,
						       SAMPLE_RANGES);
			sum += ranges[i];
		}
	}
	/* Of 10 in each of 100 deals, with every mark once. */
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, dealt[i], 10 * ranges[i]);
}

static void nobody_gets_more_than_there_is(struct kunit *test)
{
	u64 mark;

	for (mark = 0; mark < 7; mark++) {
		KUNIT_EXPECT_EQ(test, mtier_sample_share(0, 3, 7, mark, 7), 3);
		KUNIT_EXPECT_EQ(test, mtier_sample_share(3, 4, 7, mark, 7), 4);
	}
}

static bool sample_has(const struct mtier_sample *s, unsigned long at)
{
	unsigned int i;

	for (i = 0; i < s->nr; i++)
		if (s->at[i] == at)
			return true;
	return false;
}

/* One stands for both: they are drawn once, not twice. */
static void what_is_mapped_twice_is_listed_once(struct kunit *test)
{
	struct file *file = map_file_make(test);
	unsigned long low, high = map_file(test, file);
	struct mtier_slot slot = { .mm = current->mm };

	map_touch(test, high, 1);
	mtier_sample_list(&slot);
	KUNIT_EXPECT_TRUE(test, sample_has(&slot.sample, high));
	KUNIT_EXPECT_TRUE(test, slot.sample.shared && slot.sample.stands);
	low = map_file(test, file);
	KUNIT_ASSERT_LT(test, low, high);
	map_touch(test, low, 1);
	mtier_sample_list(&slot);
	KUNIT_EXPECT_TRUE(test, sample_has(&slot.sample, low));
	KUNIT_EXPECT_FALSE(test, sample_has(&slot.sample, high));
	kvfree(slot.sample.at);
	fput(file);
}

/* Who stood for it may have gone; but it is not asked all the time. */
static void what_another_stood_for_is_listed_anew(struct kunit *test)
{
	struct mtier_sample s = {
		.shared = true,
		.shares = mtier_slots_shares() - 1,
		.listed_ns = ktime_get_ns() - 2 * MTIER_SHARES_NS,
	};

	KUNIT_EXPECT_TRUE(test, mtier_sample_shares(&s));
	s.listed_ns = ktime_get_ns();
	KUNIT_EXPECT_FALSE(test, mtier_sample_shares(&s));
	s.listed_ns -= 2 * MTIER_SHARES_NS;
	s.shares = mtier_slots_shares();
	KUNIT_EXPECT_FALSE(test, mtier_sample_shares(&s));
	s.shares--;
	s.shared = false;
	KUNIT_EXPECT_FALSE(test, mtier_sample_shares(&s));
}

static struct kunit_case mtier_sample_cases[] = {
	KUNIT_CASE(a_round_has_each_range_once),
	KUNIT_CASE(what_is_left_of_a_round_comes_first),
	KUNIT_CASE(the_order_is_another_one_each_time),
	KUNIT_CASE(a_range_in_two_walks_is_listed_once),
	KUNIT_CASE(address_spaces_have_their_share),
	KUNIT_CASE(nobody_gets_more_than_there_is),
	KUNIT_CASE(what_is_mapped_twice_is_listed_once),
	KUNIT_CASE(what_another_stood_for_is_listed_anew),
	{ }
};

static struct kunit_suite mtier_sample_suite = {
	.name = "mtier_sample",
	.test_cases = mtier_sample_cases,
};

kunit_test_suite(mtier_sample_suite);

// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges are drawn in a random order, each once before any comes again, for each tier
 * those that it is sampled from; address spaces by how many pages they have. Included by
 * ../sample.c.
 */
#include <kunit/test.h>

#define SAMPLE_RANGES	100

/* Every third range is in use below, and of these every other one has pages above. */
static unsigned long sample_entry(unsigned int i)
{
	if (i % 3)
		return mtier_range_entry(7, 0);
	return i % 2 ? mtier_range_entry(0, 300) : mtier_range_entry(5, 300);
}

static void sample_fill(struct kunit *test, struct mtier_sample *s, unsigned int from,
			unsigned int nr)
{
	unsigned int i;

	*s = (struct mtier_sample) {
		.at = kvmalloc_array(nr, sizeof(*s->at), GFP_KERNEL),
		.nr = nr,
		.salt = 4711,
	};
	KUNIT_ASSERT_NOT_NULL(test, s->at);
	for (i = 0; i < nr; i++)
		s->at[i] = (unsigned long)(from + i) * PMD_SIZE | sample_entry(from + i);
}

static void sample_fill_sorted(struct kunit *test, struct mtier_sample *s,
			       unsigned int nr)
{
	static const struct mtier_sample none;

	sample_fill(test, s, 0, nr);
	KUNIT_ASSERT_TRUE(test, mtier_sample_sort(s, &none));
}

/* Which of those drawn were there before? They are noted in @met. */
static unsigned int sample_met(const unsigned long *at, unsigned int nr,
			       unsigned long *met)
{
	unsigned int i, twice = 0;

	for (i = 0; i < nr; i++)
		twice += __test_and_set_bit(at[i] >> PMD_SHIFT, met);
	return twice;
}

static void a_round_has_each_range_of_a_tier_once(struct kunit *test)
{
	unsigned long at[SAMPLE_RANGES];
	struct mtier_sample s;
	unsigned int i, k, side;

	sample_fill_sorted(test, &s, SAMPLE_RANGES);
	KUNIT_EXPECT_EQ(test, s.side[MTIER_LOW].nr, 34);
	KUNIT_EXPECT_EQ(test, s.side[MTIER_LOW].pages, 34 * 300);
	KUNIT_EXPECT_EQ(test, s.side[MTIER_TOP].nr, 66 + 17);
	KUNIT_EXPECT_EQ(test, s.side[MTIER_TOP].pages, 66 * 7 + 17 * 5);
	for (side = 0; side < MTIER_SIDES; side++) {
		for (k = 0; k < 3; k++) {
			DECLARE_BITMAP(met, SAMPLE_RANGES) = { };
			unsigned int nr = s.side[side].nr;

			/* In two draws of different size. */
			mtier_sample_take(&s, side, at, nr / 3);
			mtier_sample_take(&s, side, at + nr / 3, nr - nr / 3);
			KUNIT_EXPECT_EQ(test, sample_met(at, nr, met), 0);
			KUNIT_EXPECT_EQ(test, s.side[side].drawn, (k + 1) * nr);
			for (i = 0; i < nr; i++) {
				KUNIT_EXPECT_GT(test, mtier_range_pages(at[i], side), 0);
				KUNIT_EXPECT_EQ(test, at[i] & ~PMD_MASK,
						sample_entry(at[i] >> PMD_SHIFT));
			}
		}
	}
	kvfree(s.at);
}

/* A new list goes on where the old one was: what was drawn comes last. */
static void a_new_list_goes_on_with_the_round(struct kunit *test)
{
	DECLARE_BITMAP(met, SAMPLE_RANGES) = { };
	unsigned long at[SAMPLE_RANGES];
	struct mtier_sample s, new;
	unsigned int nr, half;

	sample_fill_sorted(test, &s, SAMPLE_RANGES);
	nr = s.side[MTIER_LOW].nr;
	half = nr / 2;
	mtier_sample_take(&s, MTIER_LOW, at, half);
	/* The first three have gone; one of them is in use below. */
	sample_fill(test, &new, 3, SAMPLE_RANGES - 3);
	KUNIT_ASSERT_TRUE(test, mtier_sample_sort(&new, &s));
	KUNIT_EXPECT_EQ(test, new.side[MTIER_LOW].nr, nr - 1);
	mtier_sample_take(&new, MTIER_LOW, at + half, nr - half - 1);
	KUNIT_EXPECT_LE(test, sample_met(at, nr - 1, met), 1);
	kvfree(s.at);
	kvfree(new.at);
}

static void the_order_is_not_that_of_addresses(struct kunit *test)
{
	struct mtier_sample s;
	unsigned int i, next = 0;

	sample_fill_sorted(test, &s, SAMPLE_RANGES);
	for (i = 1; i < s.nr; i++) {
		next += (s.at[i] >> PMD_SHIFT) == (s.at[i - 1] >> PMD_SHIFT) + 1;
		KUNIT_EXPECT_TRUE(test, mtier_sample_before(s.at[i - 1], s.at[i], s.salt));
	}
	/* One on average. */
	KUNIT_EXPECT_LE(test, next, 20);
	kvfree(s.at);
}

/* Of ranges that both tiers are sampled from, other ones are drawn for each. */
static void tiers_do_not_draw_the_same_range_at_once(struct kunit *test)
{
	static const struct mtier_sample none;
	DECLARE_BITMAP(met, SAMPLE_RANGES) = { };
	unsigned long at[SAMPLE_RANGES];
	struct mtier_sample s;
	unsigned int i;

	sample_fill(test, &s, 0, SAMPLE_RANGES);
	for (i = 0; i < SAMPLE_RANGES; i++)
		s.at[i] = i * PMD_SIZE | mtier_range_entry(1, 1);
	KUNIT_ASSERT_TRUE(test, mtier_sample_sort(&s, &none));
	mtier_sample_take(&s, MTIER_LOW, at, SAMPLE_RANGES / 2);
	mtier_sample_take(&s, MTIER_TOP, at + SAMPLE_RANGES / 2, SAMPLE_RANGES / 2);
	KUNIT_EXPECT_EQ(test, sample_met(at, SAMPLE_RANGES, met), 0);
	kvfree(s.at);
}

static void an_empty_list_is_sorted(struct kunit *test)
{
	struct mtier_sample s = { }, old;

	sample_fill_sorted(test, &old, SAMPLE_RANGES);
	KUNIT_EXPECT_TRUE(test, mtier_sample_sort(&s, &old));
	KUNIT_EXPECT_EQ(test, s.side[MTIER_LOW].nr, 0);
	KUNIT_EXPECT_EQ(test, s.side[MTIER_TOP].next, 0);
	kvfree(old.at);
}

static void a_range_for_both_tiers_is_one_range(struct kunit *test)
{
	const unsigned long drawn[] = {
		PMD_SIZE | mtier_range_entry(MTIER_RANGE_PAGES, 0),
		2 * PMD_SIZE | mtier_range_entry(32, 480),
		2 * PMD_SIZE | mtier_range_entry(32, 480),
		4 * PMD_SIZE | mtier_range_entry(0, 1),
	};
	unsigned long at[4];
	u8 sides[4];
	struct mtier_watch w = { .at = at, .sides = sides };
	u8 sampled = MTIER_RANGE_TOP | MTIER_RANGE_LOW;

	memcpy(at, drawn, sizeof(at));
	KUNIT_EXPECT_EQ(test, mtier_sample_merge(&w, 4, sampled), 3);
	KUNIT_EXPECT_EQ(test, at[0], PMD_SIZE);
	KUNIT_EXPECT_EQ(test, at[1], 2 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, at[2], 4 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, sides[0], MTIER_RANGE_TOP);
	KUNIT_EXPECT_EQ(test, sides[1], MTIER_RANGE_TOP | MTIER_RANGE_LOW);
	KUNIT_EXPECT_EQ(test, sides[2], MTIER_RANGE_LOW);
	KUNIT_EXPECT_EQ(test, w.expected[MTIER_LOW], 481);
	KUNIT_EXPECT_EQ(test, w.expected[MTIER_TOP], MTIER_RANGE_PAGES + 32);
	/* In a burst that does not sample the fast tier. */
	sampled = MTIER_RANGE_LOW;
	memcpy(at, drawn, sizeof(at));
	KUNIT_EXPECT_EQ(test, mtier_sample_merge(&w, 4, sampled), 3);
	KUNIT_EXPECT_EQ(test, sides[1], MTIER_RANGE_LOW);
}

/* Address spaces of 1, 10 and 89 ranges. */
static void address_spaces_have_their_share(struct kunit *test)
{
	static const unsigned int ranges[] = { 1, 10, 89 };
	unsigned int i, k, dealt[3] = { };

	for (k = 0; k < SAMPLE_RANGES; k++) {
		struct mtier_deal d = {
			.want = 10, .left = 10, .total = SAMPLE_RANGES, .mark = k,
		};

		for (i = 0; i < 3; i++)
			dealt[i] += mtier_deal_share(&d, ranges[i], ranges[i]);
		KUNIT_EXPECT_EQ(test, d.left, 0);
	}
	/* Of 10 in each of 100 deals, with every mark once. */
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, dealt[i], 10 * ranges[i]);
}

static void nobody_gets_more_than_there_is(struct kunit *test)
{
	u64 mark;

	for (mark = 0; mark < 7; mark++) {
		struct mtier_deal d = { .want = 7, .left = 7, .total = 7, .mark = mark };

		KUNIT_EXPECT_EQ(test, mtier_deal_share(&d, 3, 3), 3);
		KUNIT_EXPECT_EQ(test, mtier_deal_share(&d, 0, 0), 0);
		KUNIT_EXPECT_EQ(test, mtier_deal_share(&d, 4, 4), 4);
		KUNIT_EXPECT_EQ(test, mtier_deal_share(&d, 4, 4), 0);
	}
}

/* A process cannot have its fast memory sampled less often than that of others. */
static void the_scan_scale_only_weights_the_slow_tier(struct kunit *test)
{
	struct mm_struct *mm = mm_alloc();
	struct mtier_slot slot = {
		.mm = mm,
		.sample.side = {
			[MTIER_TOP] = { .nr = 7, .pages = 700 },
			[MTIER_LOW] = { .nr = 3, .pages = 300 },
		},
	};
	unsigned int scale;

	KUNIT_ASSERT_NOT_NULL(test, mm);
	for (scale = 0; scale <= MTIER_SCALE_MAX; scale++) {
		mm->mtier_scan_scale = scale;
		KUNIT_EXPECT_FALSE(test, mtier_sample_left_out(&slot));
		KUNIT_EXPECT_EQ(test, mtier_sample_nr(&slot, MTIER_TOP), 7);
		KUNIT_EXPECT_EQ(test, mtier_sample_weight(&slot, MTIER_TOP, false), 700);
		KUNIT_EXPECT_EQ(test, mtier_sample_weight(&slot, MTIER_TOP, true), 7);
		KUNIT_EXPECT_EQ(test, mtier_sample_nr(&slot, MTIER_LOW), scale ? 3 : 0);
		KUNIT_EXPECT_EQ(test, mtier_sample_weight(&slot, MTIER_LOW, false),
				300 * scale);
		KUNIT_EXPECT_EQ(test, mtier_sample_weight(&slot, MTIER_LOW, true), 3 * scale);
	}
	mmput(mm);
}

/* If all ranges can be drawn, each is; else address spaces go by their pages. */
static void all_ranges_are_drawn_if_they_can_be(struct kunit *test)
{
	struct mtier_sample_sum sum = {
		.ranges = { [MTIER_TOP] = 10, [MTIER_LOW] = 10 },
		.weight = { [MTIER_TOP] = 5000, [MTIER_LOW] = 3000 },
		.weight_each = { [MTIER_TOP] = 10, [MTIER_LOW] = 10 },
	};
	struct mtier_deal d[MTIER_SIDES];

	mtier_sample_divide(d, &sum, 20, false);
	KUNIT_EXPECT_TRUE(test, d[MTIER_TOP].each && d[MTIER_LOW].each);
	KUNIT_EXPECT_EQ(test, d[MTIER_TOP].total, 10);
	mtier_sample_divide(d, &sum, 18, false);
	KUNIT_EXPECT_FALSE(test, d[MTIER_TOP].each || d[MTIER_LOW].each);
	KUNIT_EXPECT_EQ(test, d[MTIER_TOP].total, 5000);
	KUNIT_EXPECT_EQ(test, d[MTIER_LOW].total, 3000);
}

/* The entry of a range in a sorted list; 0 if it has none. */
static unsigned long sample_find(const struct mtier_sample *s, unsigned int i)
{
	unsigned int k;

	for (k = 0; k < s->nr; k++)
		if (s->at[k] >> PMD_SHIFT == i)
			return s->at[k];
	return 0;
}

/*
 * A range that was not read has the pages to demote that it had before. Ranges without
 * pages are not listed.
 */
static void what_was_not_read_is_as_before(struct kunit *test)
{
	struct mtier_sample s, new;
	unsigned int i;

	sample_fill_sorted(test, &s, SAMPLE_RANGES);
	/* The last 10 are new. */
	sample_fill(test, &new, 0, SAMPLE_RANGES + 10);
	for (i = 0; i < new.nr; i++)
		new.at[i] = i * PMD_SIZE | (i % 5 ? MTIER_RANGE_UNREAD :
						     mtier_range_entry(i % 2, 0));
	KUNIT_ASSERT_TRUE(test, mtier_sample_sort(&new, &s));
	for (i = 0; i < SAMPLE_RANGES + 10; i++) {
		unsigned long was = i < SAMPLE_RANGES ? sample_entry(i) : 0;
		unsigned int pages = i % 5 ? mtier_range_pages(was, MTIER_TOP) : i % 2;

		KUNIT_EXPECT_EQ(test, sample_find(&new, i),
				pages ? i * PMD_SIZE | mtier_range_entry(pages, 0) : 0);
	}
	KUNIT_EXPECT_EQ(test, new.side[MTIER_LOW].nr, 0);
	KUNIT_EXPECT_EQ(test, new.side[MTIER_TOP].nr, new.nr);
	kvfree(new.at);
	kvfree(s.at);
}

/* Half for each tier; what one does not need is for the other. */
static void tiers_share_what_is_drawn(struct kunit *test)
{
	struct mtier_sample_sum sum = {
		.ranges = { [MTIER_TOP] = 100, [MTIER_LOW] = 100 },
	};
	struct mtier_deal d[MTIER_SIDES];

	mtier_sample_divide(d, &sum, 20, false);
	KUNIT_EXPECT_EQ(test, d[MTIER_LOW].want, 10);
	KUNIT_EXPECT_EQ(test, d[MTIER_TOP].want, 10);
	mtier_sample_divide(d, &sum, 20, true);
	KUNIT_EXPECT_EQ(test, d[MTIER_LOW].want, 20);
	KUNIT_EXPECT_EQ(test, d[MTIER_TOP].want, 0);
	sum.ranges[MTIER_LOW] = 3;
	mtier_sample_divide(d, &sum, 20, false);
	KUNIT_EXPECT_EQ(test, d[MTIER_LOW].want, 3);
	KUNIT_EXPECT_EQ(test, d[MTIER_TOP].want, 17);
	sum.ranges[MTIER_LOW] = 100;
	sum.ranges[MTIER_TOP] = 4;
	mtier_sample_divide(d, &sum, 20, false);
	KUNIT_EXPECT_EQ(test, d[MTIER_LOW].want, 16);
	KUNIT_EXPECT_EQ(test, d[MTIER_TOP].want, 4);
	mtier_sample_divide(d, &sum, 1, false);
	KUNIT_EXPECT_EQ(test, d[MTIER_LOW].want, 1);
	KUNIT_EXPECT_EQ(test, d[MTIER_TOP].want, 0);
}

static struct kunit_case mtier_sample_cases[] = {
	KUNIT_CASE(a_round_has_each_range_of_a_tier_once),
	KUNIT_CASE(a_new_list_goes_on_with_the_round),
	KUNIT_CASE(the_order_is_not_that_of_addresses),
	KUNIT_CASE(tiers_do_not_draw_the_same_range_at_once),
	KUNIT_CASE(an_empty_list_is_sorted),
	KUNIT_CASE(a_range_for_both_tiers_is_one_range),
	KUNIT_CASE(address_spaces_have_their_share),
	KUNIT_CASE(nobody_gets_more_than_there_is),
	KUNIT_CASE(the_scan_scale_only_weights_the_slow_tier),
	KUNIT_CASE(all_ranges_are_drawn_if_they_can_be),
	KUNIT_CASE(what_was_not_read_is_as_before),
	KUNIT_CASE(tiers_share_what_is_drawn),
	{ }
};

static struct kunit_suite mtier_sample_suite = {
	.name = "mtier_sample",
	.test_cases = mtier_sample_cases,
};

kunit_test_suite(mtier_sample_suite);

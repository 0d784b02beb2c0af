// SPDX-License-Identifier: GPL-2.0
/*
 * Pages of a sample are counted for the address space and the tier they belong to.
 * Included by ../heat.c.
 */
#include <kunit/test.h>

#define HEAT_WINDOW_NS	(40 * NSEC_PER_MSEC)

struct heat_world {
	struct mtier_watch watch;
	struct mtier_part part[2];
	u8 sides[4];
	u8 page[4 * MTIER_RANGE_PAGES];
	struct mtier_slot slot[2];
};

/* Three ranges of the first address space, of four in all, and one of the second. */
static struct heat_world *heat_world(struct kunit *test)
{
	struct heat_world *h = kunit_kzalloc(test, sizeof(*h), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, h);
	h->part[0] = (struct mtier_part) { .slot = &h->slot[0], .nr = 3 };
	h->part[1] = (struct mtier_part) {
		.slot = &h->slot[1], .first = 3, .nr = 1,
	};
	h->slot[0].heat.ranges[MTIER_LOW] = 4;
	h->slot[0].heat.ranges[MTIER_TOP] = 5;
	h->slot[1].heat.ranges[MTIER_LOW] = 1;
	h->slot[1].heat.ranges[MTIER_TOP] = 1;
	/* Events name the owner. */
	h->slot[0].mm = &init_mm;
	h->slot[1].mm = &init_mm;
	h->watch = (struct mtier_watch) {
		.part = h->part, .nr_parts = 2, .page = h->page, .nr = 4,
		.sides = h->sides,
	};
	memset(h->sides, MTIER_RANGE_LOW | MTIER_RANGE_TOP, sizeof(h->sides));
	memset(h->page, MTIER_PAGE_NONE, sizeof(h->page));
	return h;
}

static u64 heat_pages(u64 sum)
{
	return sum >> MTIER_WSET_SHIFT;
}

static void pages_count_in_their_tier(struct kunit *test)
{
	struct mtier_heat_counts c;
	struct heat_world *h = heat_world(test);

	h->page[0] = 0;
	h->page[1] = 1;
	h->page[2] = 8 | MTIER_PAGE_TOLD;
	h->page[3] = MTIER_PAGE_TOLD;
	h->page[4] = MTIER_PAGE_LOW;
	h->page[5] = MTIER_PAGE_LOW | MTIER_PAGE_TOLD | 3;
	h->page[6] = MTIER_PAGE_ASKED;
	c = mtier_heat_count(h->page);
	KUNIT_EXPECT_EQ(test, c.looked[MTIER_TOP], 4);
	KUNIT_EXPECT_EQ(test, c.used[MTIER_TOP], 2);
	KUNIT_EXPECT_EQ(test, c.looked[MTIER_LOW], 2);
	KUNIT_EXPECT_EQ(test, c.used[MTIER_LOW], 1);
}

static void a_large_folio_counts_with_all_its_pages(struct kunit *test)
{
	struct mtier_heat_counts c;
	struct heat_world *h = heat_world(test);

	h->page[8] = MTIER_PAGE_LOW | MTIER_PAGE_LARGE | 1;
	memset(h->page + 9, MTIER_PAGE_REST, 15);
	h->page[24] = MTIER_PAGE_LARGE;
	memset(h->page + 25, MTIER_PAGE_REST, 3);
	c = mtier_heat_count(h->page);
	KUNIT_EXPECT_EQ(test, c.looked[MTIER_LOW], 16);
	KUNIT_EXPECT_EQ(test, c.used[MTIER_LOW], 16);
	KUNIT_EXPECT_EQ(test, c.looked[MTIER_TOP], 4);
	KUNIT_EXPECT_EQ(test, c.used[MTIER_TOP], 0);
}

static void each_address_space_has_its_own(struct kunit *test)
{
	struct heat_world *h = heat_world(test);
	const struct mtier_wset *w = h->slot[0].heat.tier;

	memset(h->page, MTIER_PAGE_LOW | 1, MTIER_RANGE_PAGES);
	memset(h->page + MTIER_RANGE_PAGES, MTIER_PAGE_LOW, 100);
	memset(h->page + 3 * MTIER_RANGE_PAGES, 2, 30);
	mtier_heat_note(&h->watch, HEAT_WINDOW_NS);
	KUNIT_EXPECT_EQ(test, heat_pages(w[MTIER_LOW].ranges), 3);
	KUNIT_EXPECT_EQ(test, heat_pages(w[MTIER_LOW].looked),
			MTIER_RANGE_PAGES + 100);
	KUNIT_EXPECT_EQ(test, heat_pages(w[MTIER_LOW].used), MTIER_RANGE_PAGES);
	KUNIT_EXPECT_EQ(test, heat_pages(w[MTIER_LOW].used_sq),
			MTIER_RANGE_PAGES * MTIER_RANGE_PAGES);
	KUNIT_EXPECT_EQ(test, w[MTIER_LOW].window_ns, HEAT_WINDOW_NS);
	/* It was looked for there, and there is none. */
	KUNIT_EXPECT_EQ(test, heat_pages(w[MTIER_TOP].ranges), 3);
	KUNIT_EXPECT_EQ(test, heat_pages(w[MTIER_TOP].looked), 0);
	w = h->slot[1].heat.tier;
	KUNIT_EXPECT_EQ(test, heat_pages(w[MTIER_TOP].looked), 30);
	KUNIT_EXPECT_EQ(test, heat_pages(w[MTIER_TOP].used), 30);
	KUNIT_EXPECT_EQ(test, heat_pages(w[MTIER_LOW].looked), 0);
}

static void ranges_that_were_left_are_not_idle(struct kunit *test)
{
	struct heat_world *h = heat_world(test);
	const struct mtier_wset *w = &h->slot[0].heat.tier[MTIER_LOW];

	memset(h->page, MTIER_PAGE_LOW | 1, MTIER_RANGE_PAGES);
	memset(h->sides + 1, 0, 3);
	mtier_heat_note(&h->watch, HEAT_WINDOW_NS);
	KUNIT_EXPECT_EQ(test, heat_pages(w->ranges), 1);
	KUNIT_EXPECT_EQ(test, mtier_wset_estimate(w, 4, MTIER_RANGE_PAGES).used,
			4 * MTIER_RANGE_PAGES);
	/* Nothing at all is known of the other one. */
	KUNIT_EXPECT_EQ(test, h->slot[1].heat.tier[MTIER_LOW].ranges, 0);
	KUNIT_EXPECT_EQ(test, h->slot[1].heat.tier[MTIER_TOP].ranges, 0);
}

static void a_tier_that_is_not_sampled_stays_unknown(struct kunit *test)
{
	struct heat_world *h = heat_world(test);
	const struct mtier_wset *w = h->slot[0].heat.tier;

	memset(h->sides, MTIER_RANGE_LOW, sizeof(h->sides));
	/* Of the fast tier a few pages are looked at again that were moved. */
	memset(h->page, 5, 10);
	memset(h->page + 10, MTIER_PAGE_LOW | 5, 20);
	mtier_heat_note(&h->watch, HEAT_WINDOW_NS);
	KUNIT_EXPECT_EQ(test, w[MTIER_TOP].ranges, 0);
	KUNIT_EXPECT_EQ(test, heat_pages(w[MTIER_LOW].ranges), 3);
	KUNIT_EXPECT_EQ(test, heat_pages(w[MTIER_LOW].used), 20);
}

static void slow_memory_that_nobody_uses_is_known(struct kunit *test)
{
	struct mtier_heat heat = { };

	KUNIT_EXPECT_FALSE(test, mtier_heat_swept(&heat, MTIER_LOW));
	heat.swept = true;
	KUNIT_EXPECT_TRUE(test, mtier_heat_swept(&heat, MTIER_LOW));
	KUNIT_EXPECT_FALSE(test, mtier_heat_swept(&heat, MTIER_TOP));
}

static struct kunit_case mtier_heat_cases[] = {
	KUNIT_CASE(pages_count_in_their_tier),
	KUNIT_CASE(a_large_folio_counts_with_all_its_pages),
	KUNIT_CASE(each_address_space_has_its_own),
	KUNIT_CASE(ranges_that_were_left_are_not_idle),
	KUNIT_CASE(a_tier_that_is_not_sampled_stays_unknown),
	KUNIT_CASE(slow_memory_that_nobody_uses_is_known),
	{ }
};

static struct kunit_suite mtier_heat_suite = {
	.name = "mtier_heat",
	.test_cases = mtier_heat_cases,
};

kunit_test_suite(mtier_heat_suite);

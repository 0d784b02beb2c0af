// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the order in which selected pages are processed. Included by ../swap.c.
 */
#include <kunit/test.h>

#include "watch_scene.h"

static const bool up_routes[] = { [MTIER_LOW] = true };
static const bool down_routes[MTIER_SIDES] = { [MTIER_TOP] = true };

/* Set up two address spaces with two ranges each, and no sampled page. */
static void swap_watch(struct kunit *test, struct mtier_watch *w)
{
	size_t nr = 4 * MTIER_RANGE_PAGES;

	*w = (struct mtier_watch) {
		.page = kunit_kzalloc(test, nr, GFP_KERNEL),
		.route = kunit_kzalloc(test, nr, GFP_KERNEL),
		.part = kunit_kcalloc(test, 2, sizeof(*w->part), GFP_KERNEL),
		.nr_parts = 2,
		.nr = 4,
	};
	KUNIT_ASSERT_NOT_NULL(test, w->page);
	KUNIT_ASSERT_NOT_NULL(test, w->route);
	KUNIT_ASSERT_NOT_NULL(test, w->part);
	w->part[0].nr = 2;
	w->part[1].first = 2;
	w->part[1].nr = 2;
	memset(w->page, MTIER_PAGE_NONE, nr);
}

static void marked_pages_of_a_side_come_in_order(struct kunit *test)
{
	const u8 up = MTIER_PAGE_GOES | MTIER_PAGE_LOW | 8;
	struct mtier_cursor at = { }, down = { };
	DECLARE_BITMAP(todo, MTIER_RANGE_PAGES);
	struct mtier_turns turns = { };
	struct mtier_watch w;

	swap_watch(test, &w);
	mtier_watch_range(&w, 1)[7] = up;
	mtier_watch_range(&w, 1)[8] = MTIER_PAGE_LOW | 8;
	mtier_watch_range(&w, 1)[9] = MTIER_PAGE_GOES;
	mtier_watch_range(&w, 3)[511] = up | MTIER_PAGE_TOLD;
	scene_route(&w);

	KUNIT_EXPECT_TRUE(test, mtier_marked_next(&w, &at, 4, up_routes, todo));
	KUNIT_EXPECT_EQ(test, at.range, 1);
	KUNIT_EXPECT_EQ(test, at.part, 0);
	KUNIT_EXPECT_EQ(test, bitmap_weight(todo, MTIER_RANGE_PAGES), 1);
	KUNIT_EXPECT_TRUE(test, test_bit(7, todo));
	/* A page is returned again until it was processed. */
	KUNIT_EXPECT_TRUE(test, mtier_marked_next(&w, &at, 4, up_routes, todo));
	KUNIT_EXPECT_EQ(test, at.range, 1);
	mtier_marked_done(mtier_watch_range(&w, 1), todo, &turns);
	KUNIT_EXPECT_EQ(test, turns.pages, 1);
	KUNIT_EXPECT_TRUE(test, mtier_marked_next(&w, &at, 4, up_routes, todo));
	KUNIT_EXPECT_EQ(test, at.range, 3);
	KUNIT_EXPECT_EQ(test, at.part, 1);
	KUNIT_EXPECT_TRUE(test, test_bit(511, todo));
	mtier_marked_done(mtier_watch_range(&w, 3), todo, &turns);
	KUNIT_EXPECT_EQ(test, turns.folios, 2);
	KUNIT_EXPECT_FALSE(test, mtier_marked_next(&w, &at, 4, up_routes, todo));

	KUNIT_EXPECT_TRUE(test, mtier_marked_next(&w, &down, 4, down_routes, todo));
	KUNIT_EXPECT_EQ(test, down.range, 1);
	KUNIT_EXPECT_TRUE(test, test_bit(9, todo));
	KUNIT_EXPECT_EQ(test, bitmap_weight(todo, MTIER_RANGE_PAGES), 1);
}

static void a_search_ends_where_it_is_told_to(struct kunit *test)
{
	DECLARE_BITMAP(todo, MTIER_RANGE_PAGES);
	struct mtier_cursor at = { };
	struct mtier_watch w;

	swap_watch(test, &w);
	mtier_watch_range(&w, 2)[0] = MTIER_PAGE_GOES | MTIER_PAGE_LOW;
	scene_route(&w);
	KUNIT_EXPECT_FALSE(test, mtier_marked_next(&w, &at, 2, up_routes, todo));
	KUNIT_EXPECT_TRUE(test, mtier_marked_next(&w, &at, 4, up_routes, todo));
	KUNIT_EXPECT_EQ(test, at.range, 2);
	KUNIT_EXPECT_EQ(test, at.part, 1);
}

static void a_folio_has_its_turn_as_one(struct kunit *test)
{
	const u8 up = MTIER_PAGE_GOES | MTIER_PAGE_LOW | MTIER_PAGE_LARGE | 8;
	DECLARE_BITMAP(none, MTIER_RANGE_PAGES) = { };
	DECLARE_BITMAP(todo, MTIER_RANGE_PAGES);
	struct mtier_turns turns = { };
	struct mtier_cursor at = { };
	struct mtier_watch w;
	u8 *page;

	swap_watch(test, &w);
	page = mtier_watch_range(&w, 1);
	page[16] = up;
	memset(page + 17, MTIER_PAGE_REST, 15);
	page[32] = up & ~MTIER_PAGE_LARGE;
	scene_route(&w);
	KUNIT_EXPECT_TRUE(test, mtier_marked_next(&w, &at, 4, up_routes, todo));
	KUNIT_EXPECT_EQ(test, bitmap_weight(todo, MTIER_RANGE_PAGES), 2);
	KUNIT_EXPECT_TRUE(test, mtier_marked_large(page, todo, none));
	KUNIT_EXPECT_FALSE(test, mtier_marked_large(page, todo, todo));
	mtier_marked_done(page, todo, &turns);
	KUNIT_EXPECT_EQ(test, turns.pages, 17);
	KUNIT_EXPECT_EQ(test, turns.folios, 2);
	KUNIT_EXPECT_FALSE(test, mtier_marked_next(&w, &at, 4, up_routes, todo));
	KUNIT_EXPECT_EQ(test, page[31], MTIER_PAGE_NONE);
}

/* The plan sets the smallest size of a batch. */
static void the_least_room_is_for_the_largest(struct kunit *test)
{
	static const struct mtier_plan up = {
		.nr = 1,
		.run = { {
			.low_group = MTIER_LOW + MTIER_LARGE,
			.top = MTIER_NO_VICTIM,
			.top_group = MTIER_TOP + MTIER_LARGE,
		} },
	};
	static const struct mtier_plan down = {
		.nr = 1,
		.run = { {
			.low_group = MTIER_LOW,
			.top_group = MTIER_TOP + MTIER_LARGE,
		} },
	};
	struct mtier_swap s = { };

	mtier_swap_least(&s, &up);
	KUNIT_EXPECT_EQ(test, s.least[MTIER_LOW], MTIER_RANGE_PAGES);
	KUNIT_EXPECT_EQ(test, s.least[MTIER_TOP], 0);
	/* A low rate limit allows fewer pages; the rest becomes a debt. */
	s.left = 26;
	KUNIT_EXPECT_EQ(test, mtier_swap_want(&s), MTIER_RANGE_PAGES);
	s.least[MTIER_LOW] = 0;
	KUNIT_EXPECT_EQ(test, mtier_swap_want(&s), 26);
	s = (struct mtier_swap) { };
	mtier_swap_least(&s, &down);
	KUNIT_EXPECT_EQ(test, s.least[MTIER_LOW], 0);
	KUNIT_EXPECT_EQ(test, s.least[MTIER_TOP], MTIER_RANGE_PAGES);
}

static struct kunit_case mtier_swap_cases[] = {
	KUNIT_CASE(a_folio_has_its_turn_as_one),
	KUNIT_CASE(the_least_room_is_for_the_largest),
	KUNIT_CASE(marked_pages_of_a_side_come_in_order),
	KUNIT_CASE(a_search_ends_where_it_is_told_to),
	{ }
};

static struct kunit_suite mtier_swap_suite = {
	.name = "mtier_swap",
	.test_cases = mtier_swap_cases,
};

kunit_test_suite(mtier_swap_suite);

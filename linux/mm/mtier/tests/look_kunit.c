// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of scans: the bytes of the sampled pages, and the pages that a plan selects.
 * Included by ../look.c.
 */
#include <kunit/test.h>

#include "map_file.h"
#include "watch_scene.h"

static void look_watch(struct kunit *test, struct mtier_watch *w,
		       unsigned int ranges)
{
	size_t nr = (size_t)ranges * MTIER_RANGE_PAGES;

	*w = (struct mtier_watch) {
		.page = kunit_kzalloc(test, nr, GFP_KERNEL),
		.route = kunit_kzalloc(test, nr, GFP_KERNEL),
		.routes = scene_routes(test),
		.nr = ranges,
	};
	KUNIT_ASSERT_NOT_NULL(test, w->page);
	KUNIT_ASSERT_NOT_NULL(test, w->route);
	memset(w->page, MTIER_PAGE_NONE, nr);
}

static void look_count(struct mtier_watch *w, struct mtier_counts *counts)
{
	struct mtier_evidence e;

	scene_route(w);
	mtier_mark_counts(w, MTIER_LOOKS_MOST, counts, &e);
}

static unsigned int look_watched(const struct mtier_watch *w)
{
	unsigned int i, nr = 0;

	for (i = 0; i < w->nr * MTIER_RANGE_PAGES; i++)
		nr += w->page[i] != MTIER_PAGE_NONE;
	return nr;
}

static void counts_are_by_side_and_by_looks(struct kunit *test)
{
	struct mtier_counts counts;
	struct mtier_watch w;

	look_watch(test, &w, 2);
	w.page[0] = 3;
	w.page[1] = 3 | MTIER_PAGE_TOLD;
	w.page[2] = 8 | MTIER_PAGE_LOW;
	w.page[MTIER_RANGE_PAGES] = 8 | MTIER_PAGE_LOW | MTIER_PAGE_TOLD;
	w.page[2 * MTIER_RANGE_PAGES - 1] = 0;
	look_count(&w, &counts);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_TOP][3], 2);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW][8], 2);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_TOP][0], 1);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW][0], 0);
}

/* All pages of a range have the same count, which hides if ranges are mixed. */
static void evidence_is_by_range_and_tier(struct kunit *test)
{
	struct mtier_counts counts;
	struct mtier_evidence e;
	struct mtier_watch w;
	unsigned int i;

	look_watch(test, &w, 3);
	for (i = 0; i < MTIER_RANGE_PAGES; i++) {
		w.page[i] = i % 2 ? 2 : 3 | MTIER_PAGE_LOW;
		w.page[MTIER_RANGE_PAGES + i] = 5 | MTIER_PAGE_LOW | MTIER_PAGE_TOLD;
	}
	/* The next range begins as this one ends. A large folio is no single page. */
	w.page[2 * MTIER_RANGE_PAGES] = 5 | MTIER_PAGE_LOW;
	w.page[2 * MTIER_RANGE_PAGES + 8] = 6 | MTIER_PAGE_LOW | MTIER_PAGE_LARGE;
	memset(w.page + 2 * MTIER_RANGE_PAGES + 9, MTIER_PAGE_REST, 3);
	w.page[3 * MTIER_RANGE_PAGES - 1] = MTIER_PAGE_LOW;
	scene_route(&w);
	mtier_mark_counts(&w, MTIER_LOOKS_MOST, &counts, &e);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW][3], MTIER_RANGE_PAGES / 2);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW][5], MTIER_RANGE_PAGES + 1);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW + MTIER_LARGE][6], 4);
	KUNIT_EXPECT_LE(test, e.alone.pages_q8[MTIER_LOW][3], 2ULL << 8);
	KUNIT_EXPECT_GE(test, e.alone.pages_q8[MTIER_LOW][3], 1ULL << 8);
	KUNIT_EXPECT_LE(test, e.alone.pages_q8[MTIER_TOP][2], 2ULL << 8);
	KUNIT_EXPECT_LE(test, e.alone.pages_q8[MTIER_LOW][5], 3ULL << 8);
	KUNIT_EXPECT_EQ(test, e.alone.pages_q8[MTIER_LOW][6], 0ULL);
	KUNIT_EXPECT_EQ(test, e.together.pages, 2ULL * MTIER_RANGE_PAGES + 2);
}

static void a_plan_takes_as_many_as_it_says(struct kunit *test)
{
	static const struct mtier_plan plan = {
		.nr = 2,
		.run = {
			{
				.low_group = MTIER_LOW, .low = 8,
				.top = MTIER_NO_VICTIM, .pages = 2,
			},
			{
				.low_group = MTIER_LOW, .low = 8, .top = 1,
				.pages = 3,
			},
		},
		.pages = 5,
	};
	struct mtier_counts counts;
	struct mtier_watch w;
	unsigned int i;

	look_watch(test, &w, 1);
	for (i = 0; i < 10; i++) {
		w.page[4 * i] = 8 | MTIER_PAGE_LOW;
		w.page[4 * i + 1] = 1;
		w.page[4 * i + 2] = 7 | MTIER_PAGE_LOW;
		w.page[4 * i + 3] = 2;
	}
	scene_route(&w);
	mtier_mark_plan(&w, &plan, U32_MAX);
	KUNIT_EXPECT_EQ(test, look_watched(&w), 40);
	mtier_mark_drop(&w);
	look_count(&w, &counts);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW][8], 5);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_TOP][1], 7);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW][7], 10);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_TOP][2], 10);
	KUNIT_EXPECT_EQ(test, look_watched(&w), 32);
}

static void who_had_no_turn_stays(struct kunit *test)
{
	struct mtier_counts counts;
	struct mtier_watch w;

	look_watch(test, &w, 1);
	w.page[0] = 3 | MTIER_PAGE_LOW | MTIER_PAGE_GOES;
	w.page[1] = 2 | MTIER_PAGE_GOES | MTIER_PAGE_TOLD;
	w.page[2] = MTIER_PAGE_ASKED;
	w.page[4] = 2 | MTIER_PAGE_LARGE | MTIER_PAGE_GOES;
	memset(w.page + 5, MTIER_PAGE_REST, 3);
	mtier_mark_keep(&w);
	KUNIT_EXPECT_EQ(test, w.page[0], 3 | MTIER_PAGE_LOW);
	KUNIT_EXPECT_EQ(test, w.page[1], 2 | MTIER_PAGE_TOLD);
	KUNIT_EXPECT_EQ(test, w.page[2], MTIER_PAGE_ASKED);
	KUNIT_EXPECT_EQ(test, w.page[3], MTIER_PAGE_NONE);
	look_count(&w, &counts);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW][3], 1);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_TOP][2], 1);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_TOP + MTIER_LARGE][2], 4);
}

static void a_plan_for_more_than_there_are_ends(struct kunit *test)
{
	static const struct mtier_plan plan = {
		.nr = 1,
		.run = { {
			.low_group = MTIER_LOW, .low = 8, .top = 0, .pages = U32_MAX,
		} },
		.pages = U32_MAX,
	};
	struct mtier_watch w;

	look_watch(test, &w, 1);
	w.page[0] = 8 | MTIER_PAGE_LOW;
	w.page[1] = 0;
	w.page[2] = 1;
	scene_route(&w);
	mtier_mark_plan(&w, &plan, 1);
	mtier_mark_drop(&w);
	KUNIT_EXPECT_EQ(test, look_watched(&w), 1);
	KUNIT_EXPECT_EQ(test, w.page[2], 1);
}

static void a_plan_takes_from_where_it_is_told_to(struct kunit *test)
{
	static const struct mtier_plan plan = {
		.nr = 1,
		.run = { {
			.low_group = MTIER_LOW, .low = 8, .top = 0, .pages = 2,
		} },
		.pages = 2,
	};
	struct mtier_watch w;

	look_watch(test, &w, 1);
	memset(w.page, 0, MTIER_RANGE_PAGES);
	scene_route(&w);
	mtier_mark_plan(&w, &plan, 7 * MTIER_RANGE_PAGES - 1);
	mtier_mark_drop(&w);
	KUNIT_EXPECT_EQ(test, look_watched(&w), MTIER_RANGE_PAGES - 2);
	KUNIT_EXPECT_EQ(test, w.page[MTIER_RANGE_PAGES - 1], MTIER_PAGE_NONE);
	KUNIT_EXPECT_EQ(test, w.page[0], MTIER_PAGE_NONE);
}

/* The state of a page has room for each count, whatever else is known of it. */
static void the_highest_count_changes_nothing_else(struct kunit *test)
{
	const u8 known = MTIER_PAGE_LOW | MTIER_PAGE_GOES | MTIER_PAGE_TOLD |
			 MTIER_PAGE_LARGE;
	u8 page = known;
	unsigned int i;

	for (i = 0; i < MTIER_LOOKS_MOST; i++)
		page++;
	KUNIT_EXPECT_EQ(test, page & MTIER_PAGE_COUNT, MTIER_LOOKS_MOST);
	KUNIT_EXPECT_EQ(test, page & ~MTIER_PAGE_COUNT, known);
	KUNIT_EXPECT_TRUE(test, mtier_page_watched(page));
	KUNIT_EXPECT_FALSE(test, mtier_page_watched(MTIER_PAGE_ASKED));
	KUNIT_EXPECT_FALSE(test, mtier_page_watched(MTIER_PAGE_REST));
	KUNIT_EXPECT_FALSE(test, mtier_page_watched(MTIER_PAGE_NONE));
}

/* Two folios of 16 and 8 pages, and a page between them. */
static void look_folios(struct mtier_watch *w)
{
	const u8 large = MTIER_PAGE_LOW | MTIER_PAGE_LARGE | 5;

	memset(w->page, MTIER_PAGE_REST, 25);
	w->page[0] = large;
	w->page[16] = MTIER_PAGE_LOW | 5;
	w->page[17] = large;
}

static void a_folio_counts_for_all_of_its_pages(struct kunit *test)
{
	struct mtier_counts counts;
	struct mtier_watch w;

	look_watch(test, &w, 1);
	look_folios(&w);
	look_count(&w, &counts);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW + MTIER_LARGE][5], 24);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW][5], 1);
	KUNIT_EXPECT_EQ(test, mtier_look_nr(w.page, MTIER_RANGE_PAGES), 16);
	KUNIT_EXPECT_EQ(test, mtier_look_nr(w.page, 4), 4);
	/* Nothing is left of one that goes. */
	mtier_look_none(w.page + 17, 1);
	look_count(&w, &counts);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW + MTIER_LARGE][5], 16);
}

static void a_plan_takes_whole_folios(struct kunit *test)
{
	static const struct mtier_plan plan = {
		.nr = 1,
		.run = { {
			.low_group = MTIER_LOW + MTIER_LARGE, .low = 5,
			.top = MTIER_NO_VICTIM, .pages = 9,
		} },
		.pages = 9,
	};
	struct mtier_counts counts;
	struct mtier_watch w;

	look_watch(test, &w, 1);
	look_folios(&w);
	scene_route(&w);
	mtier_mark_plan(&w, &plan, 1);
	KUNIT_EXPECT_TRUE(test, w.page[17] & MTIER_PAGE_GOES);
	KUNIT_EXPECT_TRUE(test, w.page[0] & MTIER_PAGE_GOES);
	KUNIT_EXPECT_FALSE(test, w.page[16] & MTIER_PAGE_GOES);
	mtier_mark_drop(&w);
	look_count(&w, &counts);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW + MTIER_LARGE][5], 0);
	KUNIT_EXPECT_EQ(test, counts.pages[MTIER_LOW][5], 1);
	KUNIT_EXPECT_EQ(test, look_watched(&w), 1);
}

/* A burst that has not looked at any file. */
static struct mtier_file_set *look_files(struct kunit *test)
{
	struct mtier_file_set *files = kunit_kzalloc(test, sizeof(*files), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, files);
	KUNIT_ASSERT_EQ(test, mtier_file_set_room(files, 4), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, (kunit_action_t *)kvfree,
							files->piece), 0);
	return files;
}

/* A burst that has not scanned a page table of another mapper. */
static struct mtier_table_set *look_tables(struct kunit *test)
{
	struct mtier_table_set *tables = kunit_kzalloc(test, sizeof(*tables), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, tables);
	mtier_table_set_grow(tables);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, (kunit_action_t *)kvfree,
							tables->key), 0);
	return tables;
}

/* The first scan of ranges that were not drawn for any tier. */
static void look_start(struct kunit *test, struct mtier_look *look,
		       struct mtier_seen *seen, const nodemask_t *low)
{
	scene_map(test, &node_states[N_MEMORY], low);
	*seen = (struct mtier_seen) { };
	*look = (struct mtier_look) {
		.mm = current->mm,
		.first = true,
		.files = look_files(test),
		.seen = seen,
	};
	mtier_router_init(&look->router, scene_routes(test));
	mtier_look_others.low = look->router.low;
	mtier_look_others.above = look->router.above;
	mtier_look_others.flush = &mtier_look_flush;
	mtier_look_others.tables = look_tables(test);
	mtier_look_others.seen = seen;
}

/* The first look at this thread's memory; what lies on any node may go up. */
static void look_at_all(struct kunit *test, struct mtier_look *look,
			struct mtier_seen *seen)
{
	look_start(test, look, seen, &node_states[N_MEMORY]);
	look->sides = MTIER_RANGE_TOP | MTIER_RANGE_LOW;
	mtier_rules_of(current->mm, &look->rules);
}

static void what_is_unmapped_leaves_the_burst(struct kunit *test)
{
	struct mtier_seen seen;
	struct mtier_look look;
	unsigned long at = map_file(test, NULL);
	struct mtier_watch w;
	unsigned int i;

	map_touch(test, at, MTIER_RANGE_PAGES);
	look_watch(test, &w, 1);
	look_at_all(test, &look, &seen);
	KUNIT_EXPECT_TRUE(test, mtier_look_range(&look, at, w.page));
	KUNIT_EXPECT_EQ(test, look_watched(&w), MTIER_RANGE_PAGES);
	look.first = false;

	/* In the middle, and at the end. */
	KUNIT_EXPECT_EQ(test, vm_munmap(at + 16 * PAGE_SIZE, 16 * PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, vm_munmap(at + 500 * PAGE_SIZE, 12 * PAGE_SIZE), 0);
	KUNIT_EXPECT_TRUE(test, mtier_look_range(&look, at, w.page));
	for (i = 0; i < MTIER_RANGE_PAGES; i++)
		KUNIT_EXPECT_EQ(test, w.page[i] == MTIER_PAGE_NONE,
				(i >= 16 && i < 32) || i >= 500);

	KUNIT_EXPECT_EQ(test, vm_munmap(at, MTIER_RANGE_SIZE), 0);
	KUNIT_EXPECT_TRUE(test, mtier_look_range(&look, at, w.page));
	KUNIT_EXPECT_EQ(test, look_watched(&w), 0);
}

/* Reading the bit of one page does not change what the next scan finds. */
static void a_glance_leaves_the_bit_as_it_is(struct kunit *test)
{
	struct mtier_seen seen;
	struct mtier_look look;
	unsigned long at = map_file(test, NULL);
	struct mtier_slot slot = { .mm = current->mm };
	struct mtier_watch w;

	KUNIT_EXPECT_EQ(test, mtier_page_young(&slot, at), -1);
	map_touch(test, at, 1);
	KUNIT_EXPECT_EQ(test, mtier_page_young(&slot, at), 1);
	KUNIT_EXPECT_EQ(test, mtier_page_young(&slot, at), 1);
	KUNIT_EXPECT_EQ(test, mtier_page_young(&slot, at + PAGE_SIZE), -1);
	look_watch(test, &w, 1);
	look_at_all(test, &look, &seen);
	KUNIT_EXPECT_TRUE(test, mtier_look_range(&look, at, w.page));
	KUNIT_EXPECT_EQ(test, mtier_page_young(&slot, at), 0);
	KUNIT_EXPECT_EQ(test, slot.inside, 0);
	KUNIT_EXPECT_EQ(test, vm_munmap(at, MTIER_RANGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, mtier_page_young(&slot, at), -1);
	slot.dead = true;
	KUNIT_EXPECT_EQ(test, mtier_page_young(&slot, at), -1);
}

/* A range is not drawn for a tier: only pages for a re-check are sampled there. */
static void pages_of_the_other_tier_are_not_looked_at(struct kunit *test)
{
	const nodemask_t low = nodemask_of_node(MAX_NUMNODES - 1);
	struct mtier_seen seen;
	struct mtier_look look;
	unsigned long at = map_file(test, NULL);
	struct mtier_watch w;

	map_touch(test, at, MTIER_RANGE_PAGES);
	look_watch(test, &w, 1);
	look_start(test, &look, &seen, &low);
	look.rules.allowed.down = low;
	w.page[7] = MTIER_PAGE_ASKED;
	KUNIT_EXPECT_TRUE(test, mtier_look_range(&look, at, w.page));
	KUNIT_EXPECT_EQ(test, look_watched(&w), 1);
	KUNIT_EXPECT_TRUE(test, mtier_page_watched(w.page[7]));
	KUNIT_EXPECT_EQ(test, mtier_page_side(w.page[7]), MTIER_TOP);
	KUNIT_EXPECT_EQ(test, seen.pages[MTIER_TOP], 1);
	KUNIT_EXPECT_EQ(test, look.nr_cleared, 1);
	look.sides = MTIER_RANGE_TOP;
	KUNIT_EXPECT_TRUE(test, mtier_look_range(&look, at, w.page));
	KUNIT_EXPECT_EQ(test, look_watched(&w), MTIER_RANGE_PAGES);
}

#include "look_others_kunit.c"

static struct kunit_case mtier_look_cases[] = {
	KUNIT_CASE(counts_are_by_side_and_by_looks),
	KUNIT_CASE(evidence_is_by_range_and_tier),
	KUNIT_CASE(a_plan_takes_as_many_as_it_says),
	KUNIT_CASE(who_had_no_turn_stays),
	KUNIT_CASE(a_plan_for_more_than_there_are_ends),
	KUNIT_CASE(a_plan_takes_from_where_it_is_told_to),
	KUNIT_CASE(the_highest_count_changes_nothing_else),
	KUNIT_CASE(a_folio_counts_for_all_of_its_pages),
	KUNIT_CASE(a_plan_takes_whole_folios),
	KUNIT_CASE(what_is_unmapped_leaves_the_burst),
	KUNIT_CASE(a_glance_leaves_the_bit_as_it_is),
	KUNIT_CASE(pages_of_the_other_tier_are_not_looked_at),
	KUNIT_CASE(what_is_mapped_twice_is_looked_at_once),
	KUNIT_CASE(accesses_of_other_mappers_count),
	KUNIT_CASE(what_others_have_above_is_left_alone),
	KUNIT_CASE(copies_are_scanned_alone),
	KUNIT_CASE(a_mapping_of_copies_takes_no_pages_of_the_file),
	KUNIT_CASE(who_only_reads_has_no_veto),
	KUNIT_CASE(the_lock_of_who_only_reads_is_not_waited_for),
	KUNIT_CASE(who_only_reads_hides_nothing),
	KUNIT_CASE(old_bits_of_other_mappers_do_not_count),
	KUNIT_CASE(pages_of_an_idle_mapper_are_sampled),
	KUNIT_CASE(more_mappers_than_are_scanned),
	{ }
};

static struct kunit_suite mtier_look_suite = {
	.name = "mtier_look",
	.test_cases = mtier_look_cases,
};

kunit_test_suite(mtier_look_suite);

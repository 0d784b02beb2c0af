// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the decision which large folios belong into the fast tier, ../place.c and
 * ../pace.c, for KUnit and, through tools/testing/mtier, for user space.
 */
#include <kunit/test.h>

#include <linux/limits.h>
#include <linux/minmax.h>

#include "place_scene.h"

#define LOOKS		6
#define TOP_LARGE	(MTIER_TOP + MTIER_LARGE)
#define LOW_LARGE	(MTIER_LOW + MTIER_LARGE)
#define FOLIOS(nr)	((nr) * MTIER_LARGE_PAGES)

/* Count the pages of a plan from class @low to @top (MTIER_GROUPS: free memory). */
static u32 planned(const struct mtier_plan *plan, u32 low, u32 top)
{
	u32 i, pages = 0;

	for (i = 0; i < plan->nr; i++) {
		const struct mtier_run *run = &plan->run[i];
		u32 to = run->top == MTIER_NO_VICTIM ? MTIER_GROUPS : run->top_group;

		if (run->low_group == low && to == top)
			pages += run->pages;
	}
	return pages;
}

static void plan_for(const struct mtier_counts *counts, u64 free,
		     struct mtier_plan *plan)
{
	struct mtier_place_machine m = machine;
	struct mtier_worth w;
	static struct mtier_place p;

	start(&p, LOOKS, counts, &w);
	m.free = free;
	plan_tiers(&p, &m, &w, counts, U64_MAX, plan);
}

static void what_is_free_takes_folios_in_use(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	static struct mtier_plan plan;

	add_binomial(&counts, LOW_LARGE, LOOKS, FOLIOS(1000), 980000);
	add_binomial(&counts, LOW_LARGE, LOOKS, FOLIOS(1000), 1000);
	plan_for(&counts, U64_MAX, &plan);
	KUNIT_EXPECT_GE(test, planned(&plan, LOW_LARGE, MTIER_GROUPS), FOLIOS(990));
	KUNIT_EXPECT_LE(test, plan.pages, FOLIOS(1010));
	/* There is no evidence that the other folios are used. */
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_ALIKE);
}

/* A hit of a single page is evidence for this page only, so it is promoted first. */
static void what_is_free_takes_single_pages_first(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	static struct mtier_plan plan;

	add_binomial(&counts, MTIER_LOW, LOOKS, 3000, 300000);
	add_binomial(&counts, LOW_LARGE, LOOKS, FOLIOS(1000), 980000);
	plan_for(&counts, 3000, &plan);
	KUNIT_EXPECT_GT(test, planned(&plan, MTIER_LOW, MTIER_GROUPS), 2500U);
	KUNIT_EXPECT_EQ(test, planned(&plan, MTIER_LOW, MTIER_GROUPS) +
			      planned(&plan, LOW_LARGE, MTIER_GROUPS), 3000U);
}

static void a_folio_makes_way_for_another(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	static struct mtier_plan plan;

	/* No number of single pages is demoted for a folio in use. */
	add_binomial(&counts, LOW_LARGE, LOOKS, FOLIOS(500), 980000);
	add_binomial(&counts, MTIER_TOP, LOOKS, 4096, 1000);
	plan_for(&counts, 0, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, 0U);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_NO_VICTIM);
	add_binomial(&counts, TOP_LARGE, LOOKS, FOLIOS(500), 50000);
	plan_for(&counts, 0, &plan);
	KUNIT_EXPECT_GE(test, planned(&plan, LOW_LARGE, TOP_LARGE), FOLIOS(480));
	KUNIT_EXPECT_EQ(test, planned(&plan, LOW_LARGE, MTIER_TOP), 0U);
}

/* A folio needs a block that leaves as a whole. Single pages need no block. */
static void blocks_nobody_maps_make_room_for_folios(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	struct mtier_counts counts = { 0 };
	static struct mtier_place p;
	struct mtier_worth w;
	static struct mtier_plan plan;

	add_binomial(&counts, LOW_LARGE, LOOKS, FOLIOS(500), 980000);
	start(&p, LOOKS, &counts, &w);
	m.spare = FOLIOS(20);
	m.spare_ns = 100 * p.tau_ns;
	plan_tiers(&p, &m, &w, &counts, U64_MAX, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, 0U);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_NO_VICTIM);
	m.whole = FOLIOS(10);
	plan_tiers(&p, &m, &w, &counts, U64_MAX, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, FOLIOS(10));
	KUNIT_EXPECT_EQ(test, plan.spare, FOLIOS(10));
	/* Single pages that are used more may take all of them. */
	add_binomial(&counts, MTIER_LOW, LOOKS, FOLIOS(30), 970000);
	start(&p, LOOKS, &counts, &w);
	plan_tiers(&p, &m, &w, &counts, U64_MAX, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, FOLIOS(20));
	KUNIT_EXPECT_EQ(test, planned(&plan, LOW_LARGE, MTIER_GROUPS), 0U);
}

static void folios_alike_stay(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	static struct mtier_plan plan;

	add_binomial(&counts, LOW_LARGE, LOOKS, FOLIOS(500), 400000);
	add_binomial(&counts, TOP_LARGE, LOOKS, FOLIOS(500), 400000);
	plan_for(&counts, 0, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, 0U);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_ALIKE);
}

/* A folio is demoted if single pages are used more than any of its pages can be. */
static void an_idle_folio_makes_way_for_single_pages(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	static struct mtier_plan plan;

	add_binomial(&counts, MTIER_LOW, LOOKS, 4096, 600000);
	add_binomial(&counts, MTIER_TOP, LOOKS, 4096, 300000);
	add_binomial(&counts, TOP_LARGE, LOOKS, FOLIOS(500), 2000);
	plan_for(&counts, 0, &plan);
	KUNIT_EXPECT_GT(test, planned(&plan, MTIER_LOW, TOP_LARGE), 4000U);
	KUNIT_EXPECT_EQ(test, planned(&plan, MTIER_LOW, MTIER_TOP), 0U);
	/* If a folio is used, any of its pages can be used. */
	counts = (struct mtier_counts) { 0 };
	add_binomial(&counts, MTIER_LOW, LOOKS, 4096, 600000);
	add_binomial(&counts, TOP_LARGE, LOOKS, FOLIOS(500), 700000);
	plan_for(&counts, 0, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, 0U);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_ALIKE);
}

/* If the reasons of the two classes differ, the plan has that of single pages. */
static void why_is_said_of_single_pages(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	static struct mtier_plan plan;

	add_binomial(&counts, MTIER_LOW, LOOKS, 4096, 300000);
	add_binomial(&counts, MTIER_TOP, LOOKS, 4096, 300000);
	add_binomial(&counts, LOW_LARGE, LOOKS, FOLIOS(500), 980000);
	plan_for(&counts, 0, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, 0U);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_ALIKE);
}

/* Get the gain of the first page of a class that is promoted into free memory. */
static u64 gain_of(u32 group, u32 pages, u32 move_ns)
{
	struct mtier_place_machine m = machine;
	struct mtier_counts counts = { 0 };
	struct mtier_worth w;
	static struct mtier_place p;
	static struct mtier_plan plan;

	m.free = U64_MAX;
	m.move_ns = move_ns;
	add_binomial(&counts, group, LOOKS, pages, 900000);
	start(&p, LOOKS, &counts, &w);
	plan_tiers(&p, &m, &w, &counts, 1, &plan);
	return plan.gain_ns;
}

static void a_page_of_a_folio_gains_its_part(struct kunit *test)
{
	u64 single = gain_of(MTIER_LOW, 4096, 0);
	u64 large = gain_of(LOW_LARGE, FOLIOS(4096), 0);

	/* 82 accesses to 512 pages. */
	KUNIT_EXPECT_GE(test, large, single * 80 / 512);
	KUNIT_EXPECT_LE(test, large, single * 84 / 512);
	/* A page of a folio costs a quarter of the migration of a single page. */
	KUNIT_EXPECT_EQ(test, gain_of(LOW_LARGE, FOLIOS(4096), 400), large - 100);
}

/* Standard errors depend on the number of folios, not of their pages. */
static void errors_are_of_folios(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	struct mtier_worth w;
	static struct mtier_place p;

	add_binomial(&counts, MTIER_LOW, LOOKS, 4096, 400000);
	add_binomial(&counts, LOW_LARGE, LOOKS, FOLIOS(4096), 400000);
	add_binomial(&counts, TOP_LARGE, LOOKS, 4096, 400000);
	start(&p, LOOKS, &counts, &w);
	KUNIT_EXPECT_GT(test, w.se[LOW_LARGE][2], w.se[MTIER_LOW][2] * 3 / 4);
	KUNIT_EXPECT_LT(test, w.se[LOW_LARGE][2], w.se[MTIER_LOW][2] * 5 / 4);
	KUNIT_EXPECT_GT(test, w.se[TOP_LARGE][2], 10 * w.se[MTIER_LOW][2]);
}

/* One used folio beside one unused one is weak evidence; 512 such pages are strong. */
static void shares_are_of_folios(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	struct mtier_worth w;
	static struct mtier_place p;

	counts.pages[LOW_LARGE][0] = FOLIOS(1);
	counts.pages[LOW_LARGE][LOOKS] = FOLIOS(1);
	counts.pages[MTIER_LOW][0] = FOLIOS(1);
	counts.pages[MTIER_LOW][LOOKS] = FOLIOS(1);
	start(&p, LOOKS, &counts, &w);
	KUNIT_EXPECT_LT(test, w.q[LOW_LARGE][LOOKS], MTIER_Q16 * 9 / 10);
	KUNIT_EXPECT_GT(test, w.q[MTIER_LOW][LOOKS], MTIER_Q16 * 99 / 100);
}

static void folios_are_remembered_longer(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	static struct mtier_place p;

	mtier_place_init(&p, &machine);
	counts.pages[LOW_LARGE][1] = FOLIOS(64);
	counts.pages[MTIER_LOW][1] = MTIER_BURST_PAGES;
	mtier_place_look(&p, LOOKS, &counts, NULL);
	mtier_place_look(&p, LOOKS, &counts, NULL);
	KUNIT_EXPECT_EQ(test, p.hist[LOOKS].pages[LOW_LARGE][1], FOLIOS(112));
	KUNIT_EXPECT_EQ(test, p.hist[LOOKS].pages[MTIER_LOW][1],
			(u32)MTIER_BURST_PAGES);
}

static void folios_have_room_as_pages_have(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	struct mtier_counts counts = { 0 };
	struct mtier_worth w;
	static struct mtier_place p;

	/* 2 million pages in hot large folios, and 1 million single pages. */
	m.pages[MTIER_TOP] = 0;
	m.pages[MTIER_LOW] = 1000000;
	m.pages[TOP_LARGE] = 1500000;
	m.pages[LOW_LARGE] = 500000;
	add_binomial(&counts, TOP_LARGE, LOOKS, FOLIOS(1000), 950000);
	add_binomial(&counts, LOW_LARGE, LOOKS, FOLIOS(1000), 950000);
	add_binomial(&counts, MTIER_LOW, LOOKS, 4000, 300000);
	start(&p, LOOKS, &counts, &w);
	/* All large folios fit, and no single page does. */
	m.pages[TOP_LARGE] = 2000000;
	m.pages[LOW_LARGE] = 0;
	KUNIT_EXPECT_LT(test, mtier_place_margin(&p, &m, &w), MTIER_Q16 / 2);
	/* Half of the large folios do not fit. */
	m.pages[TOP_LARGE] = 1000000;
	m.pages[LOW_LARGE] = 1000000;
	KUNIT_EXPECT_GT(test, mtier_place_margin(&p, &m, &w), MTIER_Q16 * 9 / 10);
}

static struct kunit_case mtier_place_large_cases[] = {
	KUNIT_CASE(what_is_free_takes_folios_in_use),
	KUNIT_CASE(what_is_free_takes_single_pages_first),
	KUNIT_CASE(a_folio_makes_way_for_another),
	KUNIT_CASE(blocks_nobody_maps_make_room_for_folios),
	KUNIT_CASE(folios_alike_stay),
	KUNIT_CASE(an_idle_folio_makes_way_for_single_pages),
	KUNIT_CASE(why_is_said_of_single_pages),
	KUNIT_CASE(a_page_of_a_folio_gains_its_part),
	KUNIT_CASE(errors_are_of_folios),
	KUNIT_CASE(shares_are_of_folios),
	KUNIT_CASE(folios_are_remembered_longer),
	KUNIT_CASE(folios_have_room_as_pages_have),
	{ }
};

static struct kunit_suite mtier_place_large_suite = {
	.name = "mtier_place_large",
	.test_cases = mtier_place_large_cases,
};

kunit_test_suite(mtier_place_large_suite);

MODULE_DESCRIPTION("KUnit tests of the decision which large folios belong into the top tier");
MODULE_LICENSE("GPL");

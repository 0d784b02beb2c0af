// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the choice of pairs for a re-check, and of its result. Included by
 * ../audit.c.
 */
#include <kunit/test.h>

#include "watch_scene.h"

#define AT		0x7f0000000000UL
#define TAU_NS		(10 * NSEC_PER_MSEC)
#define LOOKS		4

/* Index of the promoted page, and of the page demoted for it. */
#define UP		3
#define DOWN		700

struct audit_world {
	struct mtier_watch watch;
	struct mtier_part part[2 + MTIER_AUDIT_PARTS];
	unsigned long at[2];
	u8 page[2 * MTIER_RANGE_PAGES];
	u8 route[2 * MTIER_RANGE_PAGES];
	struct mtier_routes *routes;
	struct mtier_slot slot[2];
	struct mtier_worth worth;
	struct mtier_place place;
	struct mtier_audit *before;
};

static void audit_watch(struct audit_world *a, unsigned long first)
{
	a->at[0] = first;
	a->at[1] = first + 2 * MTIER_RANGE_SIZE;
	a->part[0] = (struct mtier_part) { .slot = &a->slot[0], .nr = 1 };
	a->part[1] = (struct mtier_part) {
		.slot = &a->slot[1], .first = 1, .nr = 1,
	};
	a->watch = (struct mtier_watch) {
		.part = a->part, .nr_parts = 2, .at = a->at, .page = a->page,
		.route = a->route, .routes = a->routes, .nr = 2,
	};
	memset(a->page, MTIER_PAGE_NONE, sizeof(a->page));
}

/* Set up a sample with one selected pair, and record the pair. */
static struct audit_world *audit_world(struct kunit *test)
{
	static const struct mtier_plan plan = { .pages = 1 };
	struct audit_world *a = kunit_kzalloc(test, sizeof(*a), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, a);
	a->before = mtier_audit;
	KUNIT_ASSERT_EQ(test, mtier_audit_start(), 0);
	a->place.tau_ns = TAU_NS;
	a->slot[0].refs = 1;
	a->slot[1].refs = 1;
	a->routes = scene_routes(test);
	audit_watch(a, AT);
	a->page[UP] = 3 | MTIER_PAGE_LOW | MTIER_PAGE_GOES;
	a->page[DOWN] = 1 | MTIER_PAGE_GOES;
	a->page[9] = 3 | MTIER_PAGE_LOW;
	scene_route(&a->watch);
	a->worth.looks = LOOKS;
	a->worth.q[MTIER_LOW][3] = 60000;
	a->worth.q[MTIER_TOP][1] = 20000;
	mtier_audit->skipped = MTIER_AUDIT_EVERY - 1;
	mtier_audit_note(&a->watch, &a->worth, &plan, TAU_NS);
	return a;
}

static void audit_end(struct audit_world *a)
{
	mtier_audit_stop();
	mtier_audit = a->before;
}

/* Make all pairs older by @ns. */
static void audit_age(u64 ns)
{
	unsigned int i;

	for (i = 0; i < mtier_audit->nr; i++)
		mtier_audit->pair[i].at_ns -= ns;
}

/* Start a later burst that scans the same ranges. */
static void audit_again(struct audit_world *a)
{
	audit_age(MTIER_AUDIT_AGE_NS(0));
	audit_watch(a, AT);
	mtier_audit_expire();
	mtier_audit_take(&a->watch);
}

static void a_pair_is_judged_by_what_is_found(struct kunit *test)
{
	struct audit_world *a = audit_world(test);

	KUNIT_ASSERT_EQ(test, mtier_audit->nr, 1);
	KUNIT_EXPECT_EQ(test, mtier_audit->pair[0].up.addr, AT + UP * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, a->slot[1].refs, 2);
	audit_again(a);
	KUNIT_EXPECT_EQ(test, a->watch.nr_parts, 2);
	a->page[UP] = 4;
	a->page[DOWN] = 1 | MTIER_PAGE_LOW;
	mtier_audit_judge(&a->place, LOOKS, false);
	KUNIT_EXPECT_EQ(test, a->place.audit[0].foretold, 0);
	mtier_audit_judge(&a->place, LOOKS, true);
	KUNIT_EXPECT_LT(test, abs(a->place.audit[0].foretold - 40000 * LOOKS), 100 * LOOKS);
	KUNIT_EXPECT_EQ(test, a->place.audit[0].seen, 3 * (s64)MTIER_Q16);
	/* A pair is re-checked once. */
	mtier_audit_expire();
	KUNIT_EXPECT_EQ(test, mtier_audit->nr, 0);
	KUNIT_EXPECT_EQ(test, a->slot[0].refs, 1);
	KUNIT_EXPECT_EQ(test, a->slot[1].refs, 1);
	audit_end(a);
}

/* Scans at twice the interval find rarely used pages accessed twice as often. */
static void forecasts_are_for_the_distance_of_looks(struct kunit *test)
{
	struct audit_world *a = audit_world(test);

	mtier_audit->pair[0].up_q = 1000;
	mtier_audit->pair[0].down_q = 100;
	audit_again(a);
	a->page[UP] = 0;
	a->page[DOWN] = MTIER_PAGE_LOW;
	a->place.tau_ns = 2 * TAU_NS;
	mtier_audit_judge(&a->place, LOOKS, true);
	KUNIT_EXPECT_GT(test, a->place.audit[0].foretold, 1700 * LOOKS);
	KUNIT_EXPECT_LT(test, a->place.audit[0].foretold, 1800 * LOOKS);
	audit_end(a);
}

static void what_goes_again_is_judged_before(struct kunit *test)
{
	struct audit_world *a = audit_world(test);

	audit_again(a);
	a->page[UP] = MTIER_PAGE_GOES;
	a->page[DOWN] = 2 | MTIER_PAGE_LOW;
	mtier_audit_judge(&a->place, LOOKS - 1, false);
	a->page[UP] = MTIER_PAGE_NONE;
	mtier_audit_judge(&a->place, LOOKS, true);
	KUNIT_EXPECT_LT(test, abs(a->place.audit[0].foretold - 40000 * (LOOKS - 1)),
			100 * LOOKS);
	KUNIT_EXPECT_EQ(test, a->place.audit[0].seen, -2 * (s64)MTIER_Q16);
	audit_end(a);
}

static void what_is_not_looked_at_anyway_is_alone(struct kunit *test)
{
	struct audit_world *a = audit_world(test);
	struct mtier_audited *page;

	audit_age(MTIER_AUDIT_AGE_NS(0));
	audit_watch(a, AT + 2 * MTIER_RANGE_SIZE);
	a->watch.nr_parts = 1;
	a->watch.nr = 1;
	mtier_audit_take(&a->watch);
	KUNIT_ASSERT_EQ(test, a->watch.nr_parts, 2);
	KUNIT_EXPECT_EQ(test, a->part[1].nr, 0);
	KUNIT_ASSERT_PTR_EQ(test, a->part[1].slot, &a->slot[1]);
	KUNIT_EXPECT_EQ(test, a->slot[1].refs, 3);
	page = a->part[0].audited;
	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, page->addr, AT + UP * PAGE_SIZE);
	page->own = 4;
	a->part[1].audited->own = 0;
	mtier_audit_judge(&a->place, LOOKS, true);
	KUNIT_EXPECT_EQ(test, a->place.audit[0].seen, 4 * (s64)MTIER_Q16);
	audit_end(a);
}

static void a_page_of_two_pairs_is_looked_at_once(struct kunit *test)
{
	struct audit_world *a = audit_world(test);

	mtier_audit->pair[1] = mtier_audit->pair[0];
	mtier_audit->nr = 2;
	mtier_slot_get(&a->slot[0]);
	mtier_slot_get(&a->slot[1]);
	audit_age(MTIER_AUDIT_AGE_NS(0));
	audit_watch(a, AT + 4 * MTIER_RANGE_SIZE);
	mtier_audit_take(&a->watch);
	KUNIT_ASSERT_NOT_NULL(test, a->part[0].audited);
	KUNIT_EXPECT_NULL(test, a->part[0].audited->next);
	a->part[0].audited->own = 4;
	a->part[1].audited->own = 1;
	mtier_audit_judge(&a->place, LOOKS, true);
	KUNIT_EXPECT_EQ(test, a->place.audit[0].seen, 2 * 3 * (s64)MTIER_Q16);
	audit_end(a);
}

static void a_page_that_is_gone_says_nothing(struct kunit *test)
{
	struct audit_world *a = audit_world(test);

	audit_again(a);
	a->page[UP] = 4;
	mtier_audit_judge(&a->place, LOOKS, true);
	KUNIT_EXPECT_EQ(test, a->place.audit[0].foretold, 0);
	KUNIT_EXPECT_EQ(test, a->place.audit[0].seen, 0);
	audit_end(a);
}

/* Each pair is due at one age, and its result counts for its real age. */
static void pairs_are_judged_at_their_age(struct kunit *test)
{
	struct mtier_plan plan = { .pages = MTIER_AUDIT_EVERY };
	struct audit_world *a = audit_world(test);

	a->page[UP] = 3 | MTIER_PAGE_LOW | MTIER_PAGE_GOES;
	a->page[DOWN] = 1 | MTIER_PAGE_GOES;
	mtier_audit->skipped = MTIER_AUDIT_EVERY - 1;
	mtier_audit_note(&a->watch, &a->worth, &plan, TAU_NS);
	KUNIT_ASSERT_EQ(test, mtier_audit->nr, 2);
	KUNIT_EXPECT_EQ(test, mtier_audit->pair[1].age, 1);
	audit_again(a);
	KUNIT_EXPECT_TRUE(test, mtier_audit->pair[0].now);
	KUNIT_EXPECT_FALSE(test, mtier_audit->pair[1].now);
	/* Bursts were rare, so the first pair reaches the third age. */
	audit_age(MTIER_AUDIT_AGE_NS(2));
	a->page[UP] = 4;
	a->page[DOWN] = 0;
	mtier_audit_judge(&a->place, LOOKS, true);
	KUNIT_EXPECT_EQ(test, a->place.audit[0].seen, 0);
	KUNIT_EXPECT_EQ(test, a->place.audit[2].seen, 4 * (s64)MTIER_Q16);
	audit_end(a);
}

/* Results of early scans are only used for pairs of the first age, if they exist. */
static void young_pairs_are_looked_at_early(struct kunit *test)
{
	struct audit_world *a = audit_world(test);
	struct mtier_forecast *f = &mtier_audit->pair[0];

	KUNIT_EXPECT_FALSE(test, mtier_audit_has_young());
	audit_again(a);
	KUNIT_EXPECT_TRUE(test, mtier_audit_has_young());
	/* 2.47 and 0.36 accesses in TAU_NS: a quarter of 2.1. */
	f->early_ns = TAU_NS / 4;
	f->early_hits = 1;
	mtier_audit_judge_early(&a->place);
	KUNIT_EXPECT_GT(test, a->place.early.foretold, 34000);
	KUNIT_EXPECT_LT(test, a->place.early.foretold, 35000);
	KUNIT_EXPECT_EQ(test, a->place.early.seen, (s64)MTIER_Q16);
	/* One page of the pair is gone, so there is no result. */
	a->page[UP] = MTIER_PAGE_NONE;
	mtier_audit_look_early(0);
	KUNIT_EXPECT_EQ(test, f->early_ns, 0);
	mtier_audit_judge_early(&a->place);
	KUNIT_EXPECT_EQ(test, a->place.early.seen, (s64)MTIER_Q16);
	/* Pairs of later ages are not scanned early. */
	f->age = 1;
	f->early_ns = TAU_NS / 4;
	KUNIT_EXPECT_FALSE(test, mtier_audit_has_young());
	mtier_audit_judge_early(&a->place);
	KUNIT_EXPECT_EQ(test, a->place.early.seen, (s64)MTIER_Q16);
	audit_end(a);
}

static void only_news_are_taken(struct kunit *test)
{
	struct audit_world *a = audit_world(test);

	mtier_audit_take(&a->watch);
	mtier_audit_judge(&a->place, LOOKS, true);
	KUNIT_EXPECT_EQ(test, a->place.audit[0].foretold, 0);
	KUNIT_EXPECT_EQ(test, mtier_audit->nr, 1);
	audit_age(MTIER_AUDIT_OLD_NS + 1);
	mtier_audit_expire();
	KUNIT_EXPECT_EQ(test, mtier_audit->nr, 0);
	audit_end(a);
}

static void some_of_many_are_written_down(struct kunit *test)
{
	struct mtier_plan plan = { .pages = 2 * MTIER_AUDIT_EVERY };
	struct audit_world *a = audit_world(test);
	unsigned int i;

	audit_watch(a, AT);
	mtier_audit->skipped = 0;
	for (i = 0; i < plan.pages; i++)
		a->page[i] = 3 | MTIER_PAGE_LOW | MTIER_PAGE_GOES;
	mtier_audit_note(&a->watch, &a->worth, &plan, TAU_NS);
	KUNIT_EXPECT_EQ(test, mtier_audit->nr, 3);
	KUNIT_EXPECT_NULL(test, mtier_audit->pair[2].down.slot);
	KUNIT_EXPECT_EQ(test, mtier_audit->pair[2].up_q, 60000);
	KUNIT_EXPECT_EQ(test, mtier_audit->pair[2].down_q, 0);
	plan.pages = MTIER_RANGE_PAGES;
	memset(a->page, 3 | MTIER_PAGE_LOW | MTIER_PAGE_GOES, plan.pages);
	mtier_audit_note(&a->watch, &a->worth, &plan, TAU_NS);
	KUNIT_EXPECT_EQ(test, mtier_audit->nr, 3 + MTIER_AUDIT_BURST);
	for (i = 0; i < 2 * MTIER_AUDIT_RING / MTIER_AUDIT_BURST; i++)
		mtier_audit_note(&a->watch, &a->worth, &plan, TAU_NS);
	KUNIT_EXPECT_EQ(test, mtier_audit->nr, MTIER_AUDIT_RING);
	audit_end(a);
}

static struct kunit_case mtier_audit_cases[] = {
	KUNIT_CASE(a_pair_is_judged_by_what_is_found),
	KUNIT_CASE(forecasts_are_for_the_distance_of_looks),
	KUNIT_CASE(what_goes_again_is_judged_before),
	KUNIT_CASE(what_is_not_looked_at_anyway_is_alone),
	KUNIT_CASE(a_page_of_two_pairs_is_looked_at_once),
	KUNIT_CASE(a_page_that_is_gone_says_nothing),
	KUNIT_CASE(pairs_are_judged_at_their_age),
	KUNIT_CASE(young_pairs_are_looked_at_early),
	KUNIT_CASE(only_news_are_taken),
	KUNIT_CASE(some_of_many_are_written_down),
	{ }
};

static struct kunit_suite mtier_audit_suite = {
	.name = "mtier_audit",
	.test_cases = mtier_audit_cases,
};

kunit_test_suite(mtier_audit_suite);

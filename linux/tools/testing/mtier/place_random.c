// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of mm/mtier/place.c and pace.c that hold for any input, under sanitizers:
 * nothing overflows or divides by zero, a plan takes no more than there is.
 */
#include <kunit/test.h>

#include "place.h"
#include "rng.h"

#define ROUNDS	20000

static u32 wild32(struct rng *rng)
{
	return rng_chance(rng, 0.3) ? rng_below(rng, 4) : rng_wild(rng);
}

static void wild_counts(struct rng *rng, struct mtier_counts *counts)
{
	for (u32 g = 0; g < MTIER_GROUPS; g++)
		for (u32 c = 0; c <= MTIER_LOOKS_MOST; c++)
			counts->pages[g][c] = wild32(rng);
}

static void wild_evidence(struct rng *rng, struct mtier_evidence *e)
{
	u32 ranges = rng_below(rng, 3);

	*e = (struct mtier_evidence) {
		.together.pages = rng_chance(rng, 0.5) ? 0 : rng_wild(rng),
		.together.within_q8 = rng_wild(rng),
		.together.chance_q8 = rng_chance(rng, 0.5) ? 0 : rng_wild(rng),
	};
	for (u32 rank = 0; rank < MTIER_RANKS; rank++) {
		for (u32 c = 0; c <= MTIER_LOOKS_MOST; c++) {
			e->alone.pages_q8[rank][c] = rng_wild(rng);
			e->unsure[rank][c] = wild32(rng);
		}
		e->unsure_ranges[rank] = wild32(rng);
		for (u32 i = 0; i < ranges; i++) {
			u32 range[MTIER_LOOKS_MOST + 1];

			for (u32 c = 0; c <= MTIER_LOOKS_MOST; c++)
				range[c] = wild32(rng);
			mtier_evidence_add(e, rank, range,
					   1 + rng_below(rng, MTIER_LOOKS_MOST));
		}
	}
}

static void wild_machine(struct rng *rng, struct mtier_place_machine *m)
{
	*m = (struct mtier_place_machine) {
		.pages = {
			rng_wild(rng), rng_wild(rng), rng_wild(rng),
			rng_wild(rng), rng_wild(rng), rng_wild(rng),
		},
		.free = rng_chance(rng, 0.5) ? 0 : rng_wild(rng),
		.spare = rng_chance(rng, 0.5) ? 0 : rng_wild(rng),
		.whole = rng_chance(rng, 0.5) ? 0 : rng_wild(rng),
		.spare_ns = rng_wild(rng),
		.latency_ns = wild32(rng),
		.move_ns = wild32(rng),
		.look_ns = wild32(rng),
		.flush_ns = wild32(rng),
		.share_most = rng_chance(rng, 0.5) ? 0 : wild32(rng),
		.observe = rng_chance(rng, 0.5),
	};
}

static void wild_cost(struct rng *rng, struct mtier_place_cost *cost)
{
	*cost = (struct mtier_place_cost) {
		.ns = rng_wild(rng),
		.ptes = rng_wild(rng),
		.scans = wild32(rng),
		.flushes = wild32(rng),
		.flush_ns = rng_wild(rng),
	};
}

static void wild_place(struct rng *rng, struct mtier_place *p)
{
	for (u32 n = 0; n <= MTIER_LOOKS_MOST; n++) {
		wild_counts(rng, &p->hist[n]);
		for (u32 rank = 0; rank < MTIER_RANKS; rank++)
			for (u32 c = 0; c <= MTIER_LOOKS_MOST; c++)
				p->alone[n].pages_q8[rank][c] = rng_wild(rng);
	}
	p->together.pages = rng_wild(rng);
	p->together.within_q8 = rng_wild(rng);
	p->together.chance_q8 = rng_wild(rng);
	p->tau_ns = rng_wild(rng);
	p->share = wild32(rng);
	p->credit_ns = rng_wild(rng);
	for (u32 i = 0; i < MTIER_AUDIT_AGES; i++) {
		p->audit[i].seen = rng_wild(rng);
		p->audit[i].foretold = rng_wild(rng);
	}
	p->early.seen = rng_wild(rng);
	p->early.foretold = rng_wild(rng);
}

static void check_worth(struct kunit *test, const struct mtier_worth *w)
{
	for (u32 g = 0; g < MTIER_GROUPS; g++)
		for (u32 c = 0; c <= w->looks; c++) {
			KUNIT_EXPECT_LE(test, w->q[g][c], MTIER_Q16);
			if (c)
				KUNIT_EXPECT_GE(test, w->q[g][c], w->q[g][c - 1]);
		}
}

static void check_plan(struct kunit *test, const struct mtier_plan *plan,
		       const struct mtier_counts *low,
		       const struct mtier_counts *top, u32 looks,
		       const struct mtier_place_machine *m, u64 limit)
{
	struct mtier_counts left = *low, victims = *top;
	u64 free = m->free, spare = m->spare, whole = m->whole, pages = 0, spared = 0;

	KUNIT_EXPECT_LE(test, plan->nr, MTIER_RUNS_MAX);
	for (u32 i = 0; i < plan->nr; i++) {
		const struct mtier_run *run = &plan->run[i];

		KUNIT_ASSERT_LE(test, run->low, looks);
		KUNIT_ASSERT_LT(test, run->low_group, MTIER_GROUPS);
		KUNIT_ASSERT_LE(test, run->pages,
				left.pages[run->low_group][run->low]);
		KUNIT_EXPECT_GT(test, run->pages, 0U);
		left.pages[run->low_group][run->low] -= run->pages;
		pages += run->pages;
		if (run->spare) {
			KUNIT_EXPECT_EQ(test, run->top, MTIER_NO_VICTIM);
			KUNIT_EXPECT_EQ(test, free, 0ULL);
			if (run->low_group >= MTIER_LARGE) {
				KUNIT_ASSERT_LE(test, run->pages, whole);
				whole -= run->pages;
			} else {
				KUNIT_ASSERT_LE(test, run->pages, spare);
			}
			spare -= min_t(u64, run->pages, spare);
			spared += run->pages;
			continue;
		}
		if (run->top == MTIER_NO_VICTIM) {
			KUNIT_ASSERT_LE(test, run->pages, free);
			KUNIT_EXPECT_GT(test, run->low, 0);
			free -= run->pages;
			continue;
		}
		KUNIT_EXPECT_EQ(test, free, 0ULL);
		KUNIT_ASSERT_LE(test, run->top, looks);
		KUNIT_ASSERT_LT(test, run->top_group, MTIER_GROUPS);
		KUNIT_ASSERT_LE(test, run->pages,
				victims.pages[run->top_group][run->top]);
		victims.pages[run->top_group][run->top] -= run->pages;
		/* Single frames are of no use to a large folio. */
		if (run->low_group >= MTIER_LARGE)
			KUNIT_EXPECT_GE(test, run->top_group, MTIER_LARGE);
	}
	KUNIT_EXPECT_EQ(test, plan->pages, pages);
	KUNIT_EXPECT_EQ(test, plan->spare, spared);
	KUNIT_EXPECT_LE(test, pages, limit);
	if (plan->why == MTIER_PLAN_RATE)
		KUNIT_EXPECT_EQ(test, pages, min_t(u64, limit, pages));
}

/* Nothing, or what is in use. */
static void check_margin(struct kunit *test, u32 margin)
{
	KUNIT_EXPECT_LE(test, margin, MTIER_Q16);
	if (margin)
		KUNIT_EXPECT_GE(test, margin, MTIER_Q16 / 16);
}

static void plans_take_what_there_is(struct kunit *test)
{
	struct rng rng = rng_new(test);

	for (u32 i = 0; i < ROUNDS; i++) {
		struct mtier_place_machine m;
		struct mtier_counts low, top;
		struct mtier_place p;
		struct mtier_worth w;
		struct mtier_plan plan;
		u64 limit = rng_wild(&rng);

		wild_machine(&rng, &m);
		wild_place(&rng, &p);
		wild_counts(&rng, &low);
		wild_counts(&rng, &top);
		mtier_place_worth(&p, wild32(&rng), &w);
		check_worth(test, &w);
		mtier_place_plan(&p, &m, &w, &low, &top, limit, &plan);
		check_plan(test, &plan, &low, &top, w.looks, &m, limit);
		check_margin(test, mtier_place_margin(&p, &m, &w));
	}
}

/* Enough to notice a change, unless less is allowed. */
static void check_share(struct kunit *test, const struct mtier_place_machine *m,
			u32 share)
{
	u32 most = min_t(u32, m->share_most ?: MTIER_Q16 / 4, MTIER_Q16);

	KUNIT_EXPECT_GE(test, share, min_t(u32, most, 123));
	KUNIT_EXPECT_LE(test, share, most);
}

/* The longest rest after a burst that has taken @spent_ns of a CPU. */
static u64 longest_rest_ns(const struct mtier_place_machine *m, u64 spent_ns)
{
	u32 most = min_t(u32, m->share_most ?: MTIER_Q16 / 4, MTIER_Q16);
	u64 parts = spent_ns > U64_MAX / MTIER_Q16 ? U64_MAX : spent_ns * MTIER_Q16;

	return max_t(u64, 1000000000ULL, parts / most);
}

/* It starts with four finds, and remembers no more than twice 128. */
static void check_factor(struct kunit *test, const struct mtier_place *p)
{
	u32 factor_q8 = mtier_place_factor_q8(p);

	KUNIT_EXPECT_GE(test, factor_q8, 256U / 4);
	KUNIT_EXPECT_LE(test, factor_q8, 256U * (4 + 2 * 128) / 4);
}

static void any_life_stays_within_bounds(struct kunit *test)
{
	struct rng rng = rng_new(test);

	for (u32 i = 0; i < ROUNDS; i++) {
		struct mtier_place_machine m;
		struct mtier_counts seen;
		struct mtier_place p;
		struct mtier_evidence e;
		struct mtier_place_cost cost;
		u64 spent_ns = rng_wild(&rng);

		wild_machine(&rng, &m);
		wild_place(&rng, &p);
		wild_counts(&rng, &seen);
		wild_evidence(&rng, &e);
		mtier_place_look(&p, wild32(&rng), &seen,
				 rng_chance(&rng, 0.5) ? &e : NULL);
		mtier_place_audit(&p, rng_wild(&rng), wild32(&rng), wild32(&rng),
				  wild32(&rng));
		KUNIT_EXPECT_LE(test, mtier_place_horizon_ns(&p), MTIER_HORIZON_NS);
		mtier_place_early(&p, rng_wild(&rng), rng_wild(&rng),
				  rng_wild(&rng), wild32(&rng));
		check_factor(test, &p);
		mtier_place_fade(&p);
		check_factor(test, &p);
		wild_cost(&rng, &cost);
		mtier_place_looked(&m, &cost);
		KUNIT_EXPECT_GE(test, mtier_place_pages(&p, &m),
				(u64)MTIER_NOTICE_PAGES);
		(void)mtier_place_pause_ns(&p, wild32(&rng));
		mtier_place_steer(&p, &m, wild32(&rng), rng_chance(&rng, 0.5));
		KUNIT_EXPECT_LE(test, mtier_place_rest_ns(&p, &m, rng_wild(&rng),
							  spent_ns, rng_wild(&rng)),
				longest_rest_ns(&m, spent_ns));
		check_share(test, &m, p.share);
		mtier_place_hurry(&p, &m);
		check_share(test, &m, p.share);
		(void)mtier_place_late(&p, rng_wild(&rng), rng_wild(&rng));
		(void)mtier_place_enough(wild32(&rng), rng_wild(&rng),
					 rng_wild(&rng), rng_wild(&rng));
	}
}

static struct kunit_case place_random_cases[] = {
	KUNIT_CASE(plans_take_what_there_is),
	KUNIT_CASE(any_life_stays_within_bounds),
	{ }
};

static struct kunit_suite place_random_suite = {
	.name = "mtier_place_random",
	.test_cases = place_random_cases,
};

kunit_test_suite(place_random_suite);

// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the decision which pages belong into the fast tier, ../place.c, for KUnit
 * and, through tools/testing/mtier, for user space.
 */
#include <kunit/test.h>

#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "place_scene.h"

#define MS_NS		1000000ULL

static u32 diff(u32 a, u32 b)
{
	return a > b ? a - b : b - a;
}

static void rate_is_the_logarithm(struct kunit *test)
{
	/* -ln(1 - q) in Q16: 1/2, 0.4, 3/4, 0.9, 0.99 */
	static const u32 known[][2] = {
		{ 0, 0 }, { 32768, 45426 }, { 26214, 33477 }, { 49152, 90852 },
		{ 58982, 150900 }, { 64881, 301835 },
	};
	u32 i, q, before = 0;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		KUNIT_EXPECT_LE(test, diff(mtier_place_rate(known[i][0]), known[i][1]), 8U);
	KUNIT_EXPECT_EQ(test, mtier_place_rate(65000), mtier_place_rate(64881));
	KUNIT_EXPECT_EQ(test, mtier_place_rate(U32_MAX), mtier_place_rate(64881));
	for (q = 0; q <= MTIER_Q16; q += 13) {
		KUNIT_EXPECT_GE(test, mtier_place_rate(q), before);
		before = mtier_place_rate(q);
	}
}

static void looks_of_another_distance_find_as_many_more(struct kunit *test)
{
	const u64 tau = 10 * MTIER_TAU_MIN_NS;
	u32 q, before = 0;

	/* Two scans both miss with the square of the probability of one. */
	KUNIT_EXPECT_LE(test, diff(mtier_place_q_at(32768, tau, 2 * tau), 49152), 16U);
	KUNIT_EXPECT_LE(test, diff(mtier_place_q_at(32768, 2 * tau, tau), 19195), 16U);
	KUNIT_EXPECT_LE(test, diff(mtier_place_q_at(58982, tau, 3 * tau), 65470), 32U);
	for (q = 0; q <= MTIER_Q16 * 99 / 100; q += 13) {
		KUNIT_EXPECT_LE(test, diff(mtier_place_q_at(q, tau, tau), q), 32U);
		KUNIT_EXPECT_GE(test, mtier_place_q_at(q, tau, 3 * tau), before);
		before = mtier_place_q_at(q, tau, 3 * tau);
	}
	KUNIT_EXPECT_GT(test, mtier_place_q_at(U32_MAX, 0, U64_MAX), MTIER_Q16 * 99 / 100);
	KUNIT_EXPECT_LE(test, mtier_place_q_at(U32_MAX, 0, U64_MAX), MTIER_Q16);
	KUNIT_EXPECT_EQ(test, mtier_place_q_at(0, 0, U64_MAX), 0U);
}

/* With equal access rates, all access counts have the same access probability. */
static void alike_pages_are_worth_the_same(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	static struct mtier_place p;
	struct mtier_worth w;
	static struct mtier_plan plan;
	u32 looks, c;

	for (looks = MTIER_LOOKS_LEAST; looks <= MTIER_LOOKS_MOST; looks++) {
		counts = (struct mtier_counts) { 0 };
		add_binomial(&counts, MTIER_TOP, looks, 32768, 400000);
		add_binomial(&counts, MTIER_LOW, looks, 32768, 400000);
		start(&p, looks, &counts, &w);
		for (c = 0; c <= looks; c++)
			KUNIT_EXPECT_LE(test, diff(w.q[MTIER_LOW][c], 26214), 900U);
		plan_tiers(&p, &machine, &w, &counts, U64_MAX, &plan);
		KUNIT_EXPECT_EQ(test, plan.pages, 0U);
		KUNIT_EXPECT_EQ(test, plan.nr, 0U);
		KUNIT_EXPECT_EQ(test, plan.gain_ns, 0ULL);
		KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_ALIKE);
	}
}

/* Pages that nearly every scan finds are saturated at the shortest scan interval. */
static void saturated_is_said(struct kunit *test)
{
	static const struct {
		u32 ppm;
		u64 tau_ns;
		enum mtier_plan_why why;
	} cases[] = {
		{ 990000, MTIER_TAU_MIN_NS, MTIER_PLAN_SATURATED },
		{ 990000, MTIER_TAU_MIN_NS * 2, MTIER_PLAN_ALIKE },
		{ 900000, MTIER_TAU_MIN_NS, MTIER_PLAN_ALIKE },
	};
	static struct mtier_place p;
	struct mtier_worth w;
	static struct mtier_plan plan;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mtier_counts counts = { 0 };

		add_binomial(&counts, MTIER_TOP, 8, 32768, cases[i].ppm);
		add_binomial(&counts, MTIER_LOW, 8, 32768, cases[i].ppm);
		start(&p, 8, &counts, &w);
		p.tau_ns = cases[i].tau_ns;
		plan_tiers(&p, &machine, &w, &counts, U64_MAX, &plan);
		KUNIT_EXPECT_EQ(test, plan.pages, 0U);
		KUNIT_EXPECT_EQ(test, plan.why, cases[i].why);
	}
}

/* Q16 share of the pages with @c hits in seven scans that the eighth scan finds. */
static u32 eighth_look(const struct mtier_counts *hot,
		       const struct mtier_counts *all, u32 c)
{
	u64 nr = all->pages[MTIER_LOW][c], h = hot->pages[MTIER_LOW][c];

	return div_u64(MTIER_Q16 * (9 * h + (nr - h)), 10 * nr);
}

/*
 * A scan finds a tenth of the pages with probability 0.9, and the others with 0.1.
 * So the share of hot pages among those with c hits in seven scans is known.
 */
static void two_rates_are_told_apart(struct kunit *test)
{
	struct mtier_counts seen = { 0 }, hot = { 0 }, all = { 0 };
	static struct mtier_place p;
	struct mtier_worth w;
	u32 c;

	add_binomial(&seen, MTIER_LOW, 8, 40000, 900000);
	add_binomial(&seen, MTIER_LOW, 8, 360000, 100000);
	add_binomial(&hot, MTIER_LOW, 7, 40000, 900000);
	all = hot;
	add_binomial(&all, MTIER_LOW, 7, 360000, 100000);
	start(&p, 8, &seen, &w);
	for (c = 0; c <= 8; c++) {
		u32 same = eighth_look(&hot, &all, min_t(u32, c, 7));
		u32 less = eighth_look(&hot, &all, c ? c - 1 : 0);
		u32 q = ((8 - c) * same + c * less) / 8;

		KUNIT_EXPECT_LE(test, diff(w.q[MTIER_LOW][c], q),
				3 * w.se[MTIER_LOW][c] + 64);
	}
	KUNIT_EXPECT_TRUE(test, w.known[MTIER_LOW]);
	KUNIT_EXPECT_FALSE(test, w.known[MTIER_TOP]);
}

/* An access count has a higher access probability on a tier with more hot pages. */
static void the_side_is_evidence(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	static struct mtier_place p;
	struct mtier_worth w;
	u32 c;

	add_binomial(&counts, MTIER_TOP, MTIER_LOOKS_MOST, 30000, 600000);
	add_binomial(&counts, MTIER_TOP, MTIER_LOOKS_MOST, 1000, 100000);
	add_binomial(&counts, MTIER_LOW, MTIER_LOOKS_MOST, 1000, 600000);
	add_binomial(&counts, MTIER_LOW, MTIER_LOOKS_MOST, 30000, 100000);
	start(&p, MTIER_LOOKS_MOST, &counts, &w);
	for (c = 1; c < MTIER_LOOKS_MOST; c++)
		KUNIT_EXPECT_GT(test, w.q[MTIER_TOP][c], w.q[MTIER_LOW][c]);
}

/* Fewer pages give a larger standard error. */
static void errors_follow_the_number(struct kunit *test)
{
	struct mtier_counts few = { 0 }, many = { 0 };
	static struct mtier_place p;
	struct mtier_worth w;
	u32 se;

	add_binomial(&few, MTIER_LOW, 4, 1600, 300000);
	add_binomial(&many, MTIER_LOW, 4, 160000, 300000);
	start(&p, 4, &few, &w);
	se = w.se[MTIER_LOW][2];
	start(&p, 4, &many, &w);
	/*
	 * A hundred times as many pages give a tenth of the error if all counts are
	 * pooled. With more pages, fewer counts are pooled.
	 */
	KUNIT_EXPECT_GE(test, se, 4 * w.se[MTIER_LOW][2]);
	KUNIT_EXPECT_LE(test, se, 13 * w.se[MTIER_LOW][2]);
	/* 0.3 * 0.7 / sqrt(600): the smaller of two counts determines the error */
	KUNIT_EXPECT_GT(test, se, 450U);
	KUNIT_EXPECT_LT(test, se, 700U);
}

/* A difference of 0.5 and 0.3 is noise if one tier has few pages. */
static void what_may_be_chance_stays(struct kunit *test)
{
	static const u32 pages[][MTIER_SIDES] = {
		{ 12, 30000 }, { 30000, 12 }, { 30000, 30000 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		struct mtier_counts counts = { 0 };
		static struct mtier_place p;
		struct mtier_worth w;
		static struct mtier_plan plan;

		add_binomial(&counts, MTIER_TOP, 4, pages[i][MTIER_TOP], 300000);
		add_binomial(&counts, MTIER_LOW, 4, pages[i][MTIER_LOW], 500000);
		start(&p, 4, &counts, &w);
		plan_tiers(&p, &machine, &w, &counts, U64_MAX, &plan);
		KUNIT_EXPECT_EQ(test, plan.why, i < 2 ? MTIER_PLAN_ALIKE : MTIER_PLAN_NOBODY);
	}
}

static void a_burst_stands_for_itself(struct kunit *test)
{
	struct mtier_counts counts = { 0 };
	static struct mtier_place p;

	mtier_place_init(&p, &machine);
	counts.pages[MTIER_LOW][1] = MTIER_BURST_PAGES / 4;
	mtier_place_look(&p, 3, &counts, NULL);
	mtier_place_look(&p, 3, &counts, NULL);
	/* 1024, reduced by a quarter, plus 1024 */
	KUNIT_EXPECT_EQ(test, p.hist[3].pages[MTIER_LOW][1], 1792U);
	KUNIT_EXPECT_EQ(test, p.hist[4].pages[MTIER_LOW][1], 0U);
	counts.pages[MTIER_LOW][1] = 10 * MTIER_BURST_PAGES;
	mtier_place_look(&p, 3, &counts, NULL);
	KUNIT_EXPECT_EQ(test, p.hist[3].pages[MTIER_LOW][1], 10U * MTIER_BURST_PAGES);
	counts.pages[MTIER_LOW][1] = U32_MAX;
	mtier_place_look(&p, 3, &counts, NULL);
	KUNIT_EXPECT_EQ(test, p.hist[3].pages[MTIER_LOW][1], U32_MAX);
	/* These numbers of scans are not valid. */
	counts.pages[MTIER_LOW][0] = 1;
	mtier_place_look(&p, 0, &counts, NULL);
	mtier_place_look(&p, MTIER_LOOKS_MOST + 1, &counts, NULL);
	KUNIT_EXPECT_EQ(test, p.hist[0].pages[MTIER_LOW][0], 0U);
}

/* Hot pages on the slow tier, and only cold pages on the fast tier. */
static void wrong_way_round(struct mtier_counts *counts)
{
	*counts = (struct mtier_counts) { 0 };
	add_binomial(counts, MTIER_TOP, 4, 10000, 100000);
	add_binomial(counts, MTIER_LOW, 4, 10000, 100000);
	add_binomial(counts, MTIER_LOW, 4, 1000, 900000);
}

static void the_best_pairs_come_first(struct kunit *test)
{
	struct mtier_counts counts;
	static struct mtier_place p;
	struct mtier_worth w;
	static struct mtier_plan plan;
	u64 pages = 0;
	u32 i;

	wrong_way_round(&counts);
	start(&p, 4, &counts, &w);
	plan_tiers(&p, &machine, &w, &counts, U64_MAX, &plan);
	KUNIT_ASSERT_GT(test, plan.nr, 0U);
	KUNIT_EXPECT_EQ(test, plan.run[0].low, 4);
	KUNIT_EXPECT_EQ(test, plan.run[0].top, 0);
	for (i = 0; i < plan.nr; i++) {
		KUNIT_EXPECT_GT(test, plan.run[i].pages, 0U);
		pages += plan.run[i].pages;
		if (!i)
			continue;
		KUNIT_EXPECT_LE(test, plan.run[i].low, plan.run[i - 1].low);
		KUNIT_EXPECT_GE(test, plan.run[i].top, plan.run[i - 1].top);
		KUNIT_EXPECT_LE(test, plan.run[i].gap, plan.run[i - 1].gap);
	}
	KUNIT_EXPECT_EQ(test, plan.pages, pages);
	/* Nearly all hot pages. Some of the pages with two hits of four are hot. */
	KUNIT_EXPECT_GE(test, plan.pages, 940U);
	KUNIT_EXPECT_LE(test, plan.pages, 1600U);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_ALIKE);
}

static void a_limit_is_kept(struct kunit *test)
{
	struct mtier_counts counts;
	static struct mtier_place p;
	struct mtier_worth w;
	static struct mtier_plan all, some;

	wrong_way_round(&counts);
	start(&p, 4, &counts, &w);
	plan_tiers(&p, &machine, &w, &counts, U64_MAX, &all);
	plan_tiers(&p, &machine, &w, &counts, 700, &some);
	KUNIT_EXPECT_EQ(test, some.pages, 700U);
	KUNIT_EXPECT_EQ(test, some.why, MTIER_PLAN_RATE);
	KUNIT_EXPECT_LT(test, some.gain_ns, all.gain_ns);
	plan_tiers(&p, &machine, &w, &counts, 0, &some);
	KUNIT_EXPECT_EQ(test, some.pages, 0U);
	KUNIT_EXPECT_EQ(test, some.why, MTIER_PLAN_RATE);
}

static void free_memory_is_taken_first(struct kunit *test)
{
	struct mtier_place_machine roomy = machine;
	struct mtier_counts counts;
	static struct mtier_place p;
	struct mtier_worth w;
	static struct mtier_plan plan;
	u32 c, found = 0;

	wrong_way_round(&counts);
	start(&p, 4, &counts, &w);
	roomy.free = 100;
	plan_tiers(&p, &roomy, &w, &counts, U64_MAX, &plan);
	KUNIT_ASSERT_GT(test, plan.nr, 1U);
	KUNIT_EXPECT_EQ(test, plan.run[0].top, MTIER_NO_VICTIM);
	KUNIT_EXPECT_EQ(test, plan.run[0].pages, 100U);
	KUNIT_EXPECT_EQ(test, plan.run[1].top, 0);
	/* With room for all, each page with a hit pays for its migration. */
	roomy.free = U64_MAX;
	plan_tiers(&p, &roomy, &w, &counts, U64_MAX, &plan);
	KUNIT_EXPECT_EQ(test, plan.run[plan.nr - 1].top, MTIER_NO_VICTIM);
	KUNIT_EXPECT_EQ(test, plan.run[plan.nr - 1].low, 1);
	for (c = 1; c <= 4; c++)
		found += counts.pages[MTIER_LOW][c];
	KUNIT_EXPECT_EQ(test, plan.pages, found);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_NOBODY);
}

/* Make a plan for wrong_way_round() with pages that nobody has used for @ns. */
static void plan_with_unmapped(u64 pages, u64 ns, bool victims, struct mtier_plan *plan)
{
	struct mtier_place_machine m = machine;
	struct mtier_counts counts;
	static struct mtier_place p;
	struct mtier_worth w;

	wrong_way_round(&counts);
	start(&p, 4, &counts, &w);
	if (!victims)
		memset(counts.pages[MTIER_TOP], 0, sizeof(counts.pages[MTIER_TOP]));
	m.spare = pages;
	m.spare_ns = ns;
	plan_tiers(&p, &m, &w, &counts, U64_MAX, plan);
}

static void unmapped_pages_make_room(struct kunit *test)
{
	static struct mtier_plan plan;
	static struct mtier_place p;

	mtier_place_init(&p, &machine);
	/* Mapped pages are demoted when there are no more of them. */
	plan_with_unmapped(100, 1000 * p.tau_ns, true, &plan);
	KUNIT_ASSERT_GT(test, plan.nr, 1U);
	KUNIT_EXPECT_TRUE(test, plan.run[0].spare);
	KUNIT_EXPECT_EQ(test, plan.run[0].pages, 100U);
	KUNIT_EXPECT_EQ(test, plan.spare, 100U);
	KUNIT_EXPECT_FALSE(test, plan.run[1].spare);
	KUNIT_EXPECT_EQ(test, plan.run[1].top, 0);
	/* Without mapped pages, there is no other room. */
	plan_with_unmapped(100, 1000 * p.tau_ns, false, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, 100U);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_NO_VICTIM);
}

/* Their demotion takes time, in contrast to the use of free memory. */
static void unmapped_pages_cost_a_migration(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_plan free, unmapped;
	struct mtier_counts counts;
	static struct mtier_place p;
	struct mtier_worth w;

	wrong_way_round(&counts);
	start(&p, 4, &counts, &w);
	m.free = 100;
	plan_tiers(&p, &m, &w, &counts, 100, &free);
	m.free = 0;
	m.spare = 100;
	m.spare_ns = U64_MAX;
	plan_tiers(&p, &m, &w, &counts, 100, &unmapped);
	KUNIT_EXPECT_EQ(test, free.pages, 100U);
	KUNIT_EXPECT_EQ(test, unmapped.pages, 100U);
	KUNIT_EXPECT_EQ(test, free.gain_ns, unmapped.gain_ns + 100ULL * machine.move_ns);
}

/* A page that was not used for a short time may be used as often as others. */
static void unmapped_pages_have_to_be_idle_for_long(struct kunit *test)
{
	static struct mtier_plan plan;
	static struct mtier_place p;

	mtier_place_init(&p, &machine);
	plan_with_unmapped(100, p.tau_ns / 10, true, &plan);
	KUNIT_EXPECT_GT(test, plan.pages, 900U);
	KUNIT_EXPECT_EQ(test, plan.spare, 0U);
	plan_with_unmapped(100, p.tau_ns / 10, false, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, 0U);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_ALIKE);
	plan_with_unmapped(100, 0, false, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, 0U);
}

static void why_nothing_moves(struct kunit *test)
{
	struct mtier_place_machine slow = machine;
	struct mtier_counts counts, movable;
	static struct mtier_place p;
	struct mtier_worth w;
	static struct mtier_plan plan;
	u32 c;

	wrong_way_round(&counts);
	start(&p, 4, &counts, &w);
	movable = counts;
	for (c = 0; c <= MTIER_LOOKS_MOST; c++)
		movable.pages[MTIER_LOW][c] = 0;
	plan_tiers(&p, &machine, &w, &movable, U64_MAX, &plan);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_NOBODY);
	movable = counts;
	for (c = 0; c <= MTIER_LOOKS_MOST; c++)
		movable.pages[MTIER_TOP][c] = 0;
	plan_tiers(&p, &machine, &w, &movable, U64_MAX, &plan);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_NO_VICTIM);
	KUNIT_EXPECT_EQ(test, plan.pages, 0U);
	/* 30 s of 150 ns, accessed 230 times a second: 1 ms. */
	slow.move_ns = 2 * MS_NS;
	plan_tiers(&p, &slow, &w, &counts, U64_MAX, &plan);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_COST);
	KUNIT_EXPECT_EQ(test, plan.pages, 0U);
	/* There are no access counts of eight scans. */
	mtier_place_worth(&p, MTIER_LOOKS_MOST, &w);
	plan_tiers(&p, &machine, &w, &counts, U64_MAX, &plan);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_NOBODY);
}

static void what_it_gains(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	struct mtier_counts counts;
	static struct mtier_place p;
	struct mtier_worth w;
	static struct mtier_plan plan;
	u64 each;
	u32 i;

	wrong_way_round(&counts);
	start(&p, 4, &counts, &w);
	plan_tiers(&p, &machine, &w, &counts, 1, &plan);
	each = plan.gain_ns;
	/*
	 * Probabilities between 0.8 and 0.99 in 10 ms, minus at most 0.2: the
	 * difference is 1.4 to 4.6 accesses in 10 ms, for 30 s, of 150 ns each.
	 */
	KUNIT_EXPECT_GT(test, each, 630000ULL);
	KUNIT_EXPECT_LT(test, each, 2070000ULL);
	plan_tiers(&p, &machine, &w, &counts, 100, &plan);
	KUNIT_EXPECT_EQ(test, plan.gain_ns, 100 * each);
	/* The gain pays for two migrations. */
	m.move_ns += 1000;
	plan_tiers(&p, &m, &w, &counts, 1, &plan);
	KUNIT_EXPECT_EQ(test, plan.gain_ns, each - 2000);
	/* Two migrations for 4/3 of the gain do not pay; one does. */
	m.move_ns = (each + 5000) * 2 / 3;
	plan_tiers(&p, &m, &w, &counts, 1, &plan);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_COST);
	m.free = 1;
	plan_tiers(&p, &m, &w, &counts, 1, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, 1U);
	/* Twice the predicted accesses: 4 hits in addition to the initial 4. */
	for (i = 0; i < 4; i++)
		mtier_place_early(&p, 0, MS_NS, MS_NS, 1);
	plan_tiers(&p, &machine, &w, &counts, 1, &plan);
	KUNIT_EXPECT_EQ(test, plan.gain_ns, 2 * each + 2 * machine.move_ns);
	/* The heat is gone at once. */
	mtier_place_audit(&p, 0, MTIER_Q16, 1024, -1024);
	plan_tiers(&p, &machine, &w, &counts, 1, &plan);
	KUNIT_EXPECT_EQ(test, plan.why, MTIER_PLAN_COST);
}

#define LAST	(MTIER_RANKS - 1)

/* Only the pages of one tier of @counts. */
static struct mtier_counts only(const struct mtier_counts *counts, u32 rank)
{
	struct mtier_counts some = { 0 };
	u32 c;

	for (c = 0; c <= MTIER_LOOKS_MOST; c++)
		some.pages[rank][c] = counts->pages[rank][c];
	return some;
}

/* The hottest pages are in the last tier, the next in the middle, and idle ones in DRAM. */
static void three_tiers(struct mtier_place *p, struct mtier_counts *counts,
			struct mtier_worth *w)
{
	*counts = (struct mtier_counts) { 0 };
	add_binomial(counts, MTIER_TOP, 4, 2000, 50000);
	add_binomial(counts, MTIER_LOW, 4, 1000, 300000);
	add_binomial(counts, LAST, 4, 1000, 900000);
	start(p, 4, counts, w);
}

static void each_tier_has_its_own_counts(struct kunit *test)
{
	struct mtier_counts counts;
	static struct mtier_place p;
	struct mtier_worth w;

	three_tiers(&p, &counts, &w);
	KUNIT_EXPECT_LE(test, diff(w.q[MTIER_TOP][1], 3277), 900U);
	KUNIT_EXPECT_LE(test, diff(w.q[MTIER_LOW][1], 19661), 1500U);
	KUNIT_EXPECT_LE(test, diff(w.q[LAST][3], 58982), 1500U);
	KUNIT_EXPECT_FALSE(test, w.known[LAST + MTIER_LARGE]);
}

static void the_hottest_tier_comes_first(struct kunit *test)
{
	struct mtier_counts counts;
	static struct mtier_place p;
	struct mtier_worth w;
	static struct mtier_plan plan;

	three_tiers(&p, &counts, &w);
	plan_tiers(&p, &machine, &w, &counts, U64_MAX, &plan);
	KUNIT_ASSERT_GT(test, plan.nr, 0U);
	KUNIT_EXPECT_EQ(test, plan.run[0].low_group, LAST);
	KUNIT_EXPECT_EQ(test, plan.run[0].top_group, MTIER_TOP);
	KUNIT_EXPECT_GT(test, plan.pages, 1500U);
}

/* Pages of the middle tier make room for the last one, and for nobody else. */
static void a_middle_tier_makes_room(struct kunit *test)
{
	struct mtier_counts counts, low, top;
	static struct mtier_place p;
	struct mtier_worth w;
	static struct mtier_plan plan;

	three_tiers(&p, &counts, &w);
	low = only(&counts, LAST);
	top = only(&counts, MTIER_LOW);
	mtier_place_plan(&p, &machine, &w, &low, &top, U64_MAX, &plan);
	KUNIT_ASSERT_GT(test, plan.nr, 0U);
	KUNIT_EXPECT_EQ(test, plan.run[0].low_group, LAST);
	KUNIT_EXPECT_EQ(test, plan.run[0].top_group, MTIER_LOW);
	KUNIT_EXPECT_GT(test, plan.pages, 900U);
	/* Idle pages of DRAM are no reason to demote pages of the middle tier. */
	low = only(&counts, MTIER_TOP);
	mtier_place_plan(&p, &machine, &w, &low, &top, U64_MAX, &plan);
	KUNIT_EXPECT_EQ(test, plan.pages, 0U);
}

static void all_slower_tiers_count_as_slow(struct kunit *test)
{
	struct mtier_place_machine m = { .pages = { 1, 10, 100 } };

	m.pages[MTIER_LARGE] = 1000;
	m.pages[MTIER_LOW + MTIER_LARGE] = 10000;
	m.pages[LAST + MTIER_LARGE] = 100000;
	KUNIT_EXPECT_EQ(test, mtier_place_slow_pages(&m), 110110ULL);
	m.pages[LAST] = U64_MAX;
	KUNIT_EXPECT_EQ(test, mtier_place_slow_pages(&m), U64_MAX);
}

static struct kunit_case mtier_place_cases[] = {
	KUNIT_CASE(rate_is_the_logarithm),
	KUNIT_CASE(looks_of_another_distance_find_as_many_more),
	KUNIT_CASE(alike_pages_are_worth_the_same),
	KUNIT_CASE(saturated_is_said),
	KUNIT_CASE(two_rates_are_told_apart),
	KUNIT_CASE(the_side_is_evidence),
	KUNIT_CASE(errors_follow_the_number),
	KUNIT_CASE(what_may_be_chance_stays),
	KUNIT_CASE(a_burst_stands_for_itself),
	KUNIT_CASE(the_best_pairs_come_first),
	KUNIT_CASE(a_limit_is_kept),
	KUNIT_CASE(free_memory_is_taken_first),
	KUNIT_CASE(unmapped_pages_make_room),
	KUNIT_CASE(unmapped_pages_cost_a_migration),
	KUNIT_CASE(unmapped_pages_have_to_be_idle_for_long),
	KUNIT_CASE(why_nothing_moves),
	KUNIT_CASE(what_it_gains),
	KUNIT_CASE(each_tier_has_its_own_counts),
	KUNIT_CASE(the_hottest_tier_comes_first),
	KUNIT_CASE(a_middle_tier_makes_room),
	KUNIT_CASE(all_slower_tiers_count_as_slow),
	{ }
};

static struct kunit_suite mtier_place_suite = {
	.name = "mtier_place",
	.test_cases = mtier_place_cases,
};

kunit_test_suite(mtier_place_suite);

MODULE_DESCRIPTION("KUnit tests of the decision which pages belong into the top tier");
MODULE_LICENSE("GPL");

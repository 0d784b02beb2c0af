// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the access counts of the last bursts, ../history.c, for KUnit and, through
 * tools/testing/mtier, for user space.
 */
#include <kunit/test.h>

#include <linux/types.h>

#include "place_scene.h"

#define LOOKS		3
#define Q8		256U

/* Add @ranges ranges of @pages pages, all of access count @count. */
static void add_ranges(struct mtier_counts *counts, struct mtier_evidence *e, u32 rank,
		       u32 ranges, u32 pages, u32 count)
{
	u32 range[MTIER_LOOKS_MOST + 1] = { };
	u32 i;

	range[count] = pages;
	counts->pages[rank][count] += ranges * pages;
	for (i = 0; i < ranges; i++)
		mtier_evidence_add(e, rank, range, LOOKS);
}

/* Get the number of independent pages of one range, in Q8. */
static u64 alone_q8(const u32 *range, u32 looks)
{
	struct mtier_evidence e = { };
	u64 sum = 0;
	u32 c;

	mtier_evidence_add(&e, MTIER_LOW, range, looks);
	for (c = 0; c <= looks; c++)
		sum += e.alone.pages_q8[MTIER_LOW][c];
	return sum;
}

static void pages_used_together_count_once(struct kunit *test)
{
	const u32 all[MTIER_LOOKS_MOST + 1] = { 0, 512 };
	const u32 half[MTIER_LOOKS_MOST + 1] = { 0, 256, 256 };
	const u32 small[MTIER_LOOKS_MOST + 1] = { 0, 100 };

	/* For the error of the correlation, they count as two at most. */
	KUNIT_EXPECT_GE(test, alone_q8(all, LOOKS), 1ULL * Q8);
	KUNIT_EXPECT_LE(test, alone_q8(all, LOOKS), 2ULL * Q8);
	KUNIT_EXPECT_LE(test, alone_q8(small, LOOKS), 2ULL * Q8);
	/* A scan met the program in the middle of the range: variance 1/4 of 3/4. */
	KUNIT_EXPECT_GE(test, alone_q8(half, LOOKS), 1ULL * Q8);
	KUNIT_EXPECT_LE(test, alone_q8(half, LOOKS), 3ULL * Q8);
}

static void pages_used_by_chance_count_each(struct kunit *test)
{
	const u32 binomial[MTIER_LOOKS_MOST + 1] = { 64, 192, 192, 64 };
	const u32 rare[MTIER_LOOKS_MOST + 1] = { 400, 104, 8 };
	const u32 unlike[MTIER_LOOKS_MOST + 1] = { 256, 0, 0, 256 };
	const u32 few[MTIER_LOOKS_MOST + 1] = { 0, 6, 6 };

	KUNIT_EXPECT_EQ(test, alone_q8(binomial, LOOKS), 512ULL * Q8);
	KUNIT_EXPECT_EQ(test, alone_q8(rare, LOOKS), 512ULL * Q8);
	KUNIT_EXPECT_EQ(test, alone_q8(unlike, LOOKS), 512ULL * Q8);
	/* Twelve binomial pages may be equal by chance, and are few anyway. */
	KUNIT_EXPECT_GE(test, alone_q8(few, LOOKS), 4ULL * Q8);
}

/* After one scan, the counts of any pages have the variance of chance. */
static void one_scan_shows_no_correlation(struct kunit *test)
{
	const u32 half[MTIER_LOOKS_MOST + 1] = { 256, 256 };
	struct mtier_evidence e = { };

	mtier_evidence_add(&e, MTIER_LOW, half, 1);
	KUNIT_EXPECT_EQ(test, e.together.pages, 0ULL);
	KUNIT_EXPECT_EQ(test, e.alone.pages_q8[MTIER_LOW][1], 0ULL);
	KUNIT_EXPECT_EQ(test, e.unsure[MTIER_LOW][1], 256U);
	mtier_evidence_add(&e, MTIER_LOW, half, 2);
	KUNIT_EXPECT_EQ(test, e.together.pages, 512ULL);
}

/* 512 pages of variance 0.375, binomial 0.75: r = 1/2, less twice its error of 7.2 %. */
static void half_together_counts_by_its_correlation(struct kunit *test)
{
	const u32 range[MTIER_LOOKS_MOST + 1] = { 0, 320, 128, 64 };
	u64 alone;

	/* Mean 1.5, sum of squares 1408, within 256, chance 384. */
	alone = alone_q8(range, LOOKS);
	KUNIT_EXPECT_GE(test, alone, 2ULL * Q8);
	KUNIT_EXPECT_LE(test, alone, 10ULL * Q8);
}

/* Get the independent pages of four ranges of @idle idle pages, beside @ranges others. */
static u64 idle_beside(u32 idle, u32 ranges, const u32 *range)
{
	struct mtier_counts counts = { };
	struct mtier_evidence e = { };
	static struct mtier_place p;
	u32 i, c;

	add_ranges(&counts, &e, MTIER_TOP, 4, idle, 0);
	for (i = 0; i < ranges; i++) {
		mtier_evidence_add(&e, MTIER_LOW, range, LOOKS);
		for (c = 0; c <= LOOKS; c++)
			counts.pages[MTIER_LOW][c] += range[c];
	}
	mtier_place_init(&p, &machine);
	mtier_place_look(&p, LOOKS, &counts, &e);
	return p.alone[LOOKS].pages_q8[MTIER_TOP][0];
}

/* Of idle ranges, nothing is known but how pages are used elsewhere. */
static void idle_ranges_are_like_the_others(struct kunit *test)
{
	const u32 together[MTIER_LOOKS_MOST + 1] = { 0, 512 };
	const u32 chance[MTIER_LOOKS_MOST + 1] = { 64, 192, 192, 64 };

	KUNIT_EXPECT_LE(test, idle_beside(512, 4, together), 4ULL * 2 * Q8);
	KUNIT_EXPECT_GE(test, idle_beside(512, 4, together), 4ULL * Q8);
	KUNIT_EXPECT_GE(test, idle_beside(64, 4, together), 4ULL * Q8);
	KUNIT_EXPECT_EQ(test, idle_beside(512, 4, chance), 4ULL * 512 * Q8);
	KUNIT_EXPECT_EQ(test, idle_beside(512, 0, chance), 4ULL * 512 * Q8);
}

static void a_tier_can_be_left_out(struct kunit *test)
{
	const u32 chance[MTIER_LOOKS_MOST + 1] = { 64, 192, 192, 64 };
	struct mtier_counts counts = { };
	struct mtier_evidence e = { };
	static struct mtier_place p;

	mtier_evidence_add(&e, MTIER_TOP, chance, LOOKS);
	mtier_evidence_add(&e, MTIER_LOW, chance, LOOKS);
	add_ranges(&counts, &e, MTIER_TOP, 2, 512, 0);
	add_ranges(&counts, &e, MTIER_LOW, 2, 512, 0);
	mtier_evidence_drop(&e, MTIER_TOP);
	mtier_place_init(&p, &machine);
	mtier_place_look(&p, LOOKS, &counts, &e);
	KUNIT_EXPECT_EQ(test, p.alone[LOOKS].pages_q8[MTIER_TOP][0], 0ULL);
	KUNIT_EXPECT_EQ(test, p.alone[LOOKS].pages_q8[MTIER_TOP][1], 0ULL);
	KUNIT_EXPECT_EQ(test, p.alone[LOOKS].pages_q8[MTIER_LOW][0], (2ULL * 512 + 64) * Q8);
	KUNIT_EXPECT_EQ(test, p.alone[LOOKS].pages_q8[MTIER_LOW][1], 192ULL * Q8);
	KUNIT_EXPECT_EQ(test, p.together.pages, 2ULL * 512);
}

/* Each tier has a different number of idle ranges, and of ranges with accesses. */
static void each_tier_has_its_own_evidence(struct kunit *test)
{
	const u32 chance[MTIER_LOOKS_MOST + 1] = { 64, 192, 192, 64 };
	struct mtier_counts counts = { };
	struct mtier_evidence e = { };
	static struct mtier_place p;
	u32 rank, i;

	for (rank = MTIER_TOP; rank < MTIER_RANKS; rank++)
		for (i = 0; i <= rank; i++) {
			mtier_evidence_add(&e, rank, chance, LOOKS);
			add_ranges(&counts, &e, rank, 1, 512, 0);
		}
	mtier_place_init(&p, &machine);
	mtier_place_look(&p, LOOKS, &counts, &e);
	for (rank = MTIER_TOP; rank < MTIER_RANKS; rank++) {
		const u64 *pages_q8 = p.alone[LOOKS].pages_q8[rank];

		KUNIT_EXPECT_EQ(test, e.unsure_ranges[rank], rank + 1);
		KUNIT_EXPECT_EQ(test, pages_q8[0], (rank + 1ULL) * (512 + 64) * Q8);
		KUNIT_EXPECT_EQ(test, pages_q8[1], (rank + 1ULL) * 192 * Q8);
	}
}

/* Add the same burst again and again, with pages of tier @rank only. */
static void fade(struct kunit *test, u32 rank)
{
	struct mtier_counts counts = { };
	struct mtier_evidence e = { };
	static struct mtier_place p;
	const u32 chance[MTIER_LOOKS_MOST + 1] = { 64, 192, 192, 64 };
	u32 i, c;

	mtier_evidence_add(&e, rank, chance, LOOKS);
	memcpy(counts.pages[rank], chance, sizeof(chance));
	mtier_place_init(&p, &machine);
	for (i = 0; i < 200; i++)
		mtier_place_look(&p, LOOKS, &counts, &e);
	for (c = 0; c <= LOOKS; c++) {
		u64 pages = p.hist[LOOKS].pages[rank][c];

		KUNIT_EXPECT_GE(test, p.alone[LOOKS].pages_q8[rank][c], pages * Q8);
		KUNIT_EXPECT_LE(test, p.alone[LOOKS].pages_q8[rank][c], (pages + 16) * Q8);
	}
	KUNIT_EXPECT_LE(test, p.together.pages, (u64)MTIER_BURST_PAGES);
	KUNIT_EXPECT_GE(test, p.together.pages, MTIER_BURST_PAGES * 9ULL / 10);
	KUNIT_EXPECT_LE(test, p.together.within_q8, p.together.chance_q8);
	KUNIT_EXPECT_LE(test, p.together.chance_q8,
			(p.together.pages + 16) * Q8 * 3 / 4);
	KUNIT_EXPECT_GE(test, p.together.within_q8, p.together.pages * Q8 * 3 / 4 * 9 / 10);
	mtier_place_forget(&p);
	KUNIT_EXPECT_EQ(test, p.hist[LOOKS].pages[rank][1], 0U);
	KUNIT_EXPECT_EQ(test, p.alone[LOOKS].pages_q8[rank][1], 0ULL);
	KUNIT_EXPECT_EQ(test, p.together.pages, 0ULL);
}

static void evidence_fades_as_counts_do(struct kunit *test)
{
	u32 rank;

	for (rank = MTIER_TOP; rank < MTIER_RANKS; rank++)
		fade(test, rank);
}

/* Ranges that a burst scans on each tier: their number, by access count. */
struct found {
	u32 low[LOOKS + 1];
	u32 top[LOOKS + 1];
};

/* Get the number of pages that are exchanged. @by_range: the decision gets the ranges. */
static u32 exchanged(const struct found *found, bool by_range)
{
	struct mtier_counts counts = { };
	struct mtier_evidence e = { };
	static struct mtier_plan plan;
	static struct mtier_place p;
	static struct mtier_worth w;
	u32 c;

	for (c = 0; c <= LOOKS; c++) {
		add_ranges(&counts, &e, MTIER_LOW, found->low[c], 512, c);
		add_ranges(&counts, &e, MTIER_TOP, found->top[c], 512, c);
	}
	mtier_place_init(&p, &machine);
	mtier_place_look(&p, LOOKS, &counts, by_range ? &e : NULL);
	mtier_place_worth(&p, LOOKS, &w);
	plan_tiers(&p, &machine, &w, &counts, U64_MAX, &plan);
	return plan.pages;
}

/* The phase of a program in four ranges is no difference; in many ranges it is one. */
static void few_ranges_are_no_evidence(struct kunit *test)
{
	const struct found few = { .low = { 0, 2, 2 }, .top = { 2, 2 } };
	const struct found many = { .low = { 0, 32, 32 }, .top = { 32, 32 } };

	KUNIT_EXPECT_GT(test, exchanged(&few, false), 0U);
	KUNIT_EXPECT_EQ(test, exchanged(&few, true), 0U);
	KUNIT_EXPECT_GT(test, exchanged(&many, true), 0U);
}

/* Four ranges that no scan finds accessed need not be idle. */
static void few_idle_ranges_are_not_certain(struct kunit *test)
{
	const struct found few = { .low = { 2, 2 }, .top = { 4 } };
	const struct found many = { .low = { 32, 32 }, .top = { 64 } };
	const struct found apart = { .low = { 0, 0, 0, 4 }, .top = { 4 } };

	KUNIT_EXPECT_GT(test, exchanged(&few, false), 0U);
	KUNIT_EXPECT_EQ(test, exchanged(&few, true), 0U);
	KUNIT_EXPECT_GT(test, exchanged(&many, true), 0U);
	KUNIT_EXPECT_EQ(test, exchanged(&apart, true), 2048U);
}

static struct kunit_case mtier_history_cases[] = {
	KUNIT_CASE(pages_used_together_count_once),
	KUNIT_CASE(pages_used_by_chance_count_each),
	KUNIT_CASE(one_scan_shows_no_correlation),
	KUNIT_CASE(half_together_counts_by_its_correlation),
	KUNIT_CASE(idle_ranges_are_like_the_others),
	KUNIT_CASE(a_tier_can_be_left_out),
	KUNIT_CASE(each_tier_has_its_own_evidence),
	KUNIT_CASE(evidence_fades_as_counts_do),
	KUNIT_CASE(few_ranges_are_no_evidence),
	KUNIT_CASE(few_idle_ranges_are_not_certain),
	{ }
};

static struct kunit_suite mtier_history_suite = {
	.name = "mtier_history",
	.test_cases = mtier_history_cases,
};

kunit_test_suite(mtier_history_suite);

MODULE_DESCRIPTION("Tests of the access counts of the last bursts");
MODULE_LICENSE("GPL");

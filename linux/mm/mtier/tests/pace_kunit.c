// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of how bursts of looks are made, ../pace.c, for KUnit and, through
 * tools/testing/mtier, for user space.
 */
#include <kunit/test.h>

#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "place_scene.h"

#define SECOND_NS	1000000000ULL
#define MS_NS		1000000ULL

static void a_burst_ends_when_others_find_more(struct kunit *test)
{
	/* Not before it has paid twice, and not while a look finds more than average. */
	KUNIT_EXPECT_FALSE(test, mtier_place_enough(3, 0, 0, 100));
	KUNIT_EXPECT_FALSE(test, mtier_place_enough(3, 0, 200, 100));
	KUNIT_EXPECT_TRUE(test, mtier_place_enough(3, 0, 201, 100));
	KUNIT_EXPECT_FALSE(test, mtier_place_enough(3, 100, 400, 100));
	KUNIT_EXPECT_TRUE(test, mtier_place_enough(3, 99, 400, 100));
	KUNIT_EXPECT_TRUE(test, mtier_place_enough(MTIER_LOOKS_MOST, 100, 100, 0));
	KUNIT_EXPECT_TRUE(test, mtier_place_enough(U32_MAX, 0, 0, 0));
	KUNIT_EXPECT_FALSE(test, mtier_place_enough(3, U64_MAX, U64_MAX, U64_MAX));
}

static void only_a_burst_that_has_paid_is_late(struct kunit *test)
{
	static struct mtier_place p;

	mtier_place_init(&p, &machine);
	p.tau_ns = MS_NS;
	KUNIT_EXPECT_FALSE(test, mtier_place_late(&p, 1, MS_NS));
	KUNIT_EXPECT_TRUE(test, mtier_place_late(&p, 1, MS_NS + 1));
	KUNIT_EXPECT_FALSE(test, mtier_place_late(&p, 0, SECOND_NS));
}

static void the_margin_is_the_last_with_room(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	struct mtier_counts counts = { 0 };
	static struct mtier_place p;
	struct mtier_worth w;

	/* On either side a quarter is hot, and three quarters are not. */
	add_binomial(&counts, MTIER_TOP, 6, 1000, 900000);
	add_binomial(&counts, MTIER_TOP, 6, 3000, 100000);
	add_binomial(&counts, MTIER_LOW, 6, 1000, 900000);
	add_binomial(&counts, MTIER_LOW, 6, 3000, 100000);
	start(&p, 6, &counts, &w);
	/* Room for a half: a cold one. */
	KUNIT_EXPECT_LT(test, mtier_place_margin(&p, &m, &w), MTIER_Q16 / 4);
	KUNIT_EXPECT_GT(test, mtier_place_margin(&p, &m, &w), 0U);
	/* Room for an eighth: a hot one. */
	m.pages[MTIER_TOP] = 1000;
	m.pages[MTIER_LOW] = 7000;
	KUNIT_EXPECT_GT(test, mtier_place_margin(&p, &m, &w), MTIER_Q16 / 2);
	/* Free pages count as room. */
	m.free = 2000;
	KUNIT_EXPECT_LT(test, mtier_place_margin(&p, &m, &w), MTIER_Q16 / 4);
	/* Room for all: the least used. */
	m.free = 7000;
	KUNIT_EXPECT_LT(test, mtier_place_margin(&p, &m, &w), MTIER_Q16 / 4);
	KUNIT_EXPECT_GT(test, mtier_place_margin(&p, &m, &w), 0U);
}

/* A top tier full of idle pages, and room for all that is in use. */
static void idle_pages_are_no_margin(struct kunit *test)
{
	const struct mtier_place_machine m = { .pages = { 4000, 4000 } };
	const struct mtier_place_machine large = { .pages = { 40000, 4000 } };
	const struct mtier_place_machine tight = { .pages = { 4000, 16200 } };
	struct mtier_counts counts = { 0 };
	static struct mtier_place p;
	struct mtier_worth w;
	u32 margin;

	counts.pages[MTIER_TOP][0] = 4000;
	counts.pages[MTIER_LOW][0] = 3000;
	start(&p, 8, &counts, &w);
	KUNIT_EXPECT_EQ(test, mtier_place_margin(&p, &m, &w), 0U);
	add_binomial(&counts, MTIER_LOW, 8, 1000, 400000);
	start(&p, 8, &counts, &w);
	margin = mtier_place_margin(&p, &m, &w);
	KUNIT_EXPECT_GT(test, margin, MTIER_Q16 * 3 / 10);
	KUNIT_EXPECT_LT(test, margin, MTIER_Q16 * 45 / 100);
	/* A few pages used less do not change the margin; more of them do. */
	counts.pages[MTIER_TOP][2] = 4;
	start(&p, 8, &counts, &w);
	KUNIT_EXPECT_EQ(test, mtier_place_margin(&p, &m, &w), margin);
	/* They stand for more where there are more. */
	KUNIT_EXPECT_LT(test, mtier_place_margin(&p, &large, &w), margin * 3 / 4);
	/* Nor if there is room for all that are used but some of these. */
	counts.pages[MTIER_TOP][2] = 40;
	start(&p, 8, &counts, &w);
	KUNIT_EXPECT_EQ(test, mtier_place_margin(&p, &tight, &w), margin);
	counts.pages[MTIER_TOP][2] = 60;
	start(&p, 8, &counts, &w);
	KUNIT_EXPECT_LT(test, mtier_place_margin(&p, &m, &w), margin * 3 / 4);
	KUNIT_EXPECT_GT(test, mtier_place_margin(&p, &m, &w), 0U);
}

static void the_distance_follows_the_margin(struct kunit *test)
{
	const u64 most = mtier_place_tau_max_ns(&machine);
	struct mtier_counts counts = { 0 };
	static struct mtier_place p;
	struct mtier_worth w;
	u64 tau;
	u32 i;

	/* ln 2 * 150 ns * 30 s / 5000 ns = 0.624 s */
	KUNIT_EXPECT_GT(test, most, 620 * MS_NS);
	KUNIT_EXPECT_LT(test, most, 627 * MS_NS);
	counts.pages[MTIER_LOW][1] = 1000;
	start(&p, 3, &counts, &w);
	tau = p.tau_ns;
	mtier_place_steer(&p, &machine, MTIER_Q16 * 2 / 5, false);
	KUNIT_EXPECT_EQ(test, p.tau_ns, tau);
	KUNIT_EXPECT_EQ(test, p.hist[3].pages[MTIER_LOW][1], 1000U);
	mtier_place_steer(&p, &machine, MTIER_Q16 * 9 / 10, false);
	KUNIT_EXPECT_EQ(test, p.tau_ns, tau / 2);
	KUNIT_EXPECT_EQ(test, p.hist[3].pages[MTIER_LOW][1], 0U);
	mtier_place_steer(&p, &machine, 0, false);
	KUNIT_EXPECT_EQ(test, p.tau_ns, tau);
	mtier_place_steer(&p, &machine, 0, true);
	KUNIT_EXPECT_EQ(test, p.tau_ns, tau * 5 / 4);
	for (i = 0; i < 20; i++)
		mtier_place_steer(&p, &machine, 1, false);
	KUNIT_EXPECT_EQ(test, p.tau_ns, most);
	/* Nothing is in use: a burst has to detect when that changes. */
	for (i = 0; i < 20; i++)
		mtier_place_steer(&p, &machine, 0, false);
	KUNIT_EXPECT_EQ(test, p.tau_ns, div_u64(most, MTIER_LOOKS_MOST));
	for (i = 0; i < 20; i++)
		mtier_place_steer(&p, &machine, MTIER_Q16, false);
	KUNIT_EXPECT_EQ(test, p.tau_ns, MTIER_TAU_MIN_NS);
}

static void looks_are_not_closer_than_at_first_while_there_is_room(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_place p;
	u64 first;

	m.free = m.pages[MTIER_LOW];
	mtier_place_init(&p, &m);
	first = p.tau_ns;
	mtier_place_steer(&p, &m, MTIER_Q16, false);
	KUNIT_EXPECT_EQ(test, p.tau_ns, first);
	p.tau_ns = 3 * first / 2;
	mtier_place_steer(&p, &m, MTIER_Q16, false);
	KUNIT_EXPECT_EQ(test, p.tau_ns, first);
	/* A shorter distance, set with less room, stays until the margin asks for more. */
	p.tau_ns = MTIER_TAU_MIN_NS;
	mtier_place_steer(&p, &m, MTIER_Q16, false);
	KUNIT_EXPECT_EQ(test, p.tau_ns, MTIER_TAU_MIN_NS);
	p.tau_ns = first;
	m.free--;
	mtier_place_steer(&p, &m, MTIER_Q16, false);
	KUNIT_EXPECT_EQ(test, p.tau_ns, first / 2);
}

static void pauses_vary_by_a_quarter(struct kunit *test)
{
	static struct mtier_place p;

	mtier_place_init(&p, &machine);
	p.tau_ns = 100 * MS_NS;
	KUNIT_EXPECT_EQ(test, mtier_place_pause_ns(&p, 0), 75 * MS_NS);
	KUNIT_EXPECT_EQ(test, mtier_place_pause_ns(&p, 1U << 31), 100 * MS_NS);
	KUNIT_EXPECT_GT(test, mtier_place_pause_ns(&p, U32_MAX), 124 * MS_NS);
	KUNIT_EXPECT_LT(test, mtier_place_pause_ns(&p, U32_MAX), 125 * MS_NS);
}

static void a_burst_is_as_large_as_it_may_cost(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_place p;

	mtier_place_init(&p, &m);
	p.tau_ns = 10 * MS_NS;
	/* A quarter of a CPU, 10 ms, 20 ns a page. */
	KUNIT_EXPECT_EQ(test, p.share, MTIER_Q16 / 4);
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), 125000ULL);
	p.share = 123;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), (u64)MTIER_BURST_PAGES);
	m.look_ns = 0;
	p.share = MTIER_Q16;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), 10 * MS_NS);
}

/* 3/16 % of a CPU in 0.4 s is nine visits of 20 ns to 4096 pages, of 40 ns to half as many. */
static void a_burst_is_as_small_as_lets_the_next_one_come(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_place p;

	mtier_place_init(&p, &m);
	p.share = 123;
	p.tau_ns = MS_NS;
	m.look_ns = 0;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), (u64)MTIER_BURST_PAGES);
	m.look_ns = 20;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), (u64)MTIER_BURST_PAGES);
	m.look_ns = 40;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), 2085ULL);
	m.look_ns = 100;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), 834ULL);
	/* Twice the share, half the rest. */
	p.share = 246;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), 1668ULL);
	p.share = 1966;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), (u64)MTIER_BURST_PAGES);
	p.share = 123;
	m.look_ns = U32_MAX;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), (u64)MTIER_NOTICE_PAGES);
	/* Looks that are far apart have time for more. */
	m.look_ns = 100;
	p.tau_ns = 1000 * MS_NS;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), 18768ULL);
}

/*
 * A flush of 50 us costs as much as 1250 pages of 40 ns, so that many are scanned, however
 * small the share; with the time for more, it is spent on pages.
 */
static void a_burst_is_larger_if_flushes_are_dear(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_place p;

	mtier_place_init(&p, &m);
	p.share = 123;
	p.tau_ns = MS_NS;
	m.look_ns = 40;
	m.flush_ns = 10000;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), (83414ULL - 10000) / 40);
	m.flush_ns = 50000;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), 1250ULL);
	m.flush_ns = 100000;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), 2500ULL);
	m.flush_ns = U32_MAX;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), (u64)MTIER_BURST_PAGES);
	/* A quarter of 10 ms, less a flush. */
	p.share = MTIER_Q16 / 4;
	p.tau_ns = 10 * MS_NS;
	m.flush_ns = 500000;
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), 50000ULL);
}

/* The cost of scans after @times bursts of @ptes entries, at @ns for each of them. */
static u32 looked(u32 first, u64 ns, u64 ptes, u32 times)
{
	struct mtier_place_machine m = { .look_ns = first };
	struct mtier_place_cost cost = { .ns = ns * ptes, .ptes = ptes, .scans = 4 };

	while (times--)
		mtier_place_looked(&m, &cost);
	return m.look_ns;
}

static void what_a_look_costs_is_measured(struct kunit *test)
{
	struct mtier_place_cost none = { .ns = SECOND_NS }, all = { .ptes = U64_MAX };
	const u64 burst = MTIER_BURST_PAGES;
	struct mtier_place_machine m = machine;

	KUNIT_EXPECT_EQ(test, looked(MTIER_LOOK_NS, 20, burst, 1), 210U);
	/* 20 times too much or too little at first: gone after ten bursts. */
	KUNIT_EXPECT_LE(test, looked(400, 20, burst, 10), 22U);
	KUNIT_EXPECT_GE(test, looked(20, 400, burst, 10), 398U);
	KUNIT_EXPECT_EQ(test, looked(0, 0, burst, 1), 1U);
	KUNIT_EXPECT_EQ(test, looked(0, 1000000, burst, 20), 64000U);
	KUNIT_EXPECT_EQ(test, looked(U32_MAX, 0, burst, 1), 1U << 31);
	mtier_place_looked(&m, &none);
	KUNIT_EXPECT_EQ(test, m.look_ns, machine.look_ns);
	mtier_place_looked(&m, &all);
	KUNIT_EXPECT_EQ(test, m.look_ns, machine.look_ns / 2 + 1);
	/* A burst counts by its entries: eight of an eighth as much as a whole one. */
	KUNIT_EXPECT_EQ(test, looked(400, 40, burst / 8, 1), 378U);
	KUNIT_EXPECT_LE(test, looked(400, 40, burst / 8, 16), 175U);
	KUNIT_EXPECT_GE(test, looked(400, 40, burst / 8, 16), 160U);
}

/* Scans of @ptes entries in all, each with @flushes of 2 ms, and 40 ns for each entry. */
static void flushed(struct mtier_place_machine *m, u64 ptes, u32 flushes)
{
	const u32 scans = 4;
	struct mtier_place_cost cost = {
		.ptes = ptes,
		.scans = scans,
		.flushes = flushes * scans,
		.flush_ns = flushes * scans * 2 * MS_NS,
	};
	u32 i;

	cost.ns = cost.flush_ns + 40 * ptes;
	for (i = 0; i < 200; i++)
		mtier_place_looked(m, &cost);
}

static void a_flush_makes_no_page_dear(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	const u32 two = 2 * 2 * MS_NS / MTIER_BURST_PAGES;

	/* Whatever the size of the burst. The mean rounds down by up to 1. */
	flushed(&m, 4 * MTIER_NOTICE_PAGES, 1);
	KUNIT_EXPECT_GE(test, m.look_ns, 39U);
	KUNIT_EXPECT_LE(test, m.look_ns, 40U);
	KUNIT_EXPECT_EQ(test, m.flush_ns, (u32)(2 * MS_NS));
	flushed(&m, 4 * MTIER_BURST_PAGES, 1);
	KUNIT_EXPECT_GE(test, m.look_ns, 39U);
	KUNIT_EXPECT_LE(test, m.look_ns, 40U);
	/* Of three address spaces, each with a flush, two come with their pages. */
	flushed(&m, 4 * MTIER_BURST_PAGES, 3);
	KUNIT_EXPECT_GE(test, m.look_ns, 39U + two);
	KUNIT_EXPECT_LE(test, m.look_ns, 40U + two);
	KUNIT_EXPECT_EQ(test, m.flush_ns, (u32)(2 * MS_NS));
}

static void the_cost_of_a_flush_is_measured(struct kunit *test)
{
	struct mtier_place_cost cost = { .ptes = 1, .scans = 9, .flushes = 2 };
	struct mtier_place_machine m = machine;
	u32 i;

	/* The first one counts as it is, and the next ones for a quarter. */
	cost.flush_ns = 2 * 80000;
	mtier_place_looked(&m, &cost);
	KUNIT_EXPECT_EQ(test, m.flush_ns, 80000U);
	cost.flush_ns = 2 * 40000;
	mtier_place_looked(&m, &cost);
	KUNIT_EXPECT_EQ(test, m.flush_ns, 70000U);
	/* A burst without a flush says nothing. */
	cost = (struct mtier_place_cost) { .ns = SECOND_NS, .ptes = 1, .scans = 9 };
	mtier_place_looked(&m, &cost);
	KUNIT_EXPECT_EQ(test, m.flush_ns, 70000U);
	/* One that took a second has waited for something else. */
	cost = (struct mtier_place_cost) { .ptes = 1, .flushes = 1, .flush_ns = SECOND_NS };
	for (i = 0; i < 100; i++)
		mtier_place_looked(&m, &cost);
	KUNIT_EXPECT_LE(test, m.flush_ns, (u32)(50 * MS_NS));
	KUNIT_EXPECT_GE(test, m.flush_ns, (u32)(49 * MS_NS));
}

/* Spent 1 ms in a burst of 100 ms. */
static u64 rest_after(struct mtier_place *p, u64 gain_ns)
{
	return mtier_place_rest_ns(p, &machine, gain_ns, MS_NS, 100 * MS_NS);
}

static void looks_follow_what_they_find(struct kunit *test)
{
	static struct mtier_place p;
	u32 i;

	mtier_place_init(&p, &machine);
	p.share = MTIER_Q16 / 50;
	/* It has paid: four times as much. 1 ms at 8 %: 12.5 ms, over already. */
	KUNIT_EXPECT_EQ(test, rest_after(&p, 3 * MS_NS), 0ULL);
	KUNIT_EXPECT_EQ(test, p.share, MTIER_Q16 / 50 * 4);
	/* Neither much nor little: as before. */
	rest_after(&p, MS_NS);
	KUNIT_EXPECT_EQ(test, p.share, MTIER_Q16 / 50 * 4);
	/* Much: the largest share. */
	rest_after(&p, 17 * MS_NS);
	KUNIT_EXPECT_EQ(test, p.share, MTIER_Q16 / 4);
	/* Nothing: half each time, down to the share that detects a change. */
	rest_after(&p, 0);
	KUNIT_EXPECT_EQ(test, p.share, MTIER_Q16 / 8);
	for (i = 0; i < 20; i++)
		rest_after(&p, 0);
	/* 1 ms at 3/16 %: 0.53 s, of which the burst took 0.1 */
	KUNIT_EXPECT_EQ(test, p.share, 123U);
	KUNIT_EXPECT_GT(test, rest_after(&p, 0), 430 * MS_NS);
	KUNIT_EXPECT_LT(test, rest_after(&p, 0), 435 * MS_NS);
	/* A burst was asked for. */
	mtier_place_hurry(&p, &machine);
	KUNIT_EXPECT_EQ(test, p.share, MTIER_Q16 / 4);
	rest_after(&p, 0);
	KUNIT_EXPECT_EQ(test, p.share, MTIER_Q16 / 8);
}

/* Whatever a look costs, but within the allowed share of a CPU. */
static void a_rest_is_a_second_at_most(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_place p;

	mtier_place_init(&p, &m);
	p.share = 123;
	KUNIT_EXPECT_EQ(test, mtier_place_rest_ns(&p, &m, 0, 50 * MS_NS, MS_NS), SECOND_NS);
	m.share_most = MTIER_Q16 / 100;
	/* 50 ms at 1 %: 5 s */
	KUNIT_EXPECT_GT(test, mtier_place_rest_ns(&p, &m, 0, 50 * MS_NS, MS_NS),
			4900 * MS_NS);
	KUNIT_EXPECT_LT(test, mtier_place_rest_ns(&p, &m, 0, 50 * MS_NS, MS_NS),
			5100 * MS_NS);
}

static void credit_is_used_up(struct kunit *test)
{
	static struct mtier_place p;

	mtier_place_init(&p, &machine);
	/* 16 looks at 65536 pages, 20 ns each */
	KUNIT_EXPECT_EQ(test, p.credit_ns, 16LL * 65536 * 20);
	mtier_place_paid(&p, &machine, 0, 30 * MS_NS);
	KUNIT_EXPECT_LT(test, p.credit_ns, 0LL);
	/* Without credit the limit is 3 %, whatever was found. */
	mtier_place_rest_ns(&p, &machine, SECOND_NS, MS_NS, MS_NS);
	KUNIT_EXPECT_EQ(test, p.share, 1966U);
	/* 3 % of a second are 30 ms; credit does not grow beyond its limit. */
	mtier_place_paid(&p, &machine, SECOND_NS, 0);
	KUNIT_EXPECT_GT(test, p.credit_ns, 0LL);
	mtier_place_paid(&p, &machine, U64_MAX, 0);
	KUNIT_EXPECT_EQ(test, p.credit_ns, 16LL * 65536 * 20);
	mtier_place_paid(&p, &machine, 0, U64_MAX);
	KUNIT_EXPECT_EQ(test, p.credit_ns, -16LL * 65536 * 20);
}

/* A burst of MTIER_BURST_PAGES has a flush in each scan. */
static void credit_is_for_flushes_too(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_place p;

	m.flush_ns = 10 * MTIER_BURST_PAGES;
	mtier_place_init(&p, &m);
	KUNIT_EXPECT_EQ(test, p.credit_ns, 16LL * 65536 * (20 + 10));
}

/* One part in 32 of the gain pays for scans; what they take beyond that uses up credit. */
static void scans_are_paid_from_what_they_save(struct kunit *test)
{
	static struct mtier_place p;
	s64 credit_ns;

	mtier_place_init(&p, &machine);
	credit_ns = p.credit_ns;
	mtier_place_rest_ns(&p, &machine, 32 * MS_NS, 3 * MS_NS, 0);
	KUNIT_EXPECT_EQ(test, credit_ns - p.credit_ns, (s64)(2 * MS_NS));
	/* More gain than that adds nothing. */
	mtier_place_rest_ns(&p, &machine, U64_MAX, 3 * MS_NS, 0);
	KUNIT_EXPECT_EQ(test, credit_ns - p.credit_ns, (s64)(2 * MS_NS));
	mtier_place_rest_ns(&p, &machine, 0, MS_NS, 0);
	KUNIT_EXPECT_EQ(test, credit_ns - p.credit_ns, (s64)(3 * MS_NS));
	/* Without credit, they may take more than 3 % again after a while that paid. */
	mtier_place_paid(&p, &machine, 0, 30 * MS_NS);
	KUNIT_EXPECT_LT(test, p.credit_ns, 0LL);
	mtier_place_rest_ns(&p, &machine, 32 * MS_NS, MS_NS, MS_NS);
	KUNIT_EXPECT_EQ(test, p.share, 1966U);
	mtier_place_rest_ns(&p, &machine, 1600 * MS_NS, 50 * MS_NS, 1000 * MS_NS);
	KUNIT_EXPECT_GT(test, p.credit_ns, 0LL);
	KUNIT_EXPECT_EQ(test, p.share, MTIER_Q16 / 4);
}

static void scans_save_nothing_while_nothing_moves(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_place p;
	s64 credit_ns;

	m.observe = true;
	mtier_place_init(&p, &m);
	credit_ns = p.credit_ns;
	mtier_place_rest_ns(&p, &m, SECOND_NS, MS_NS, 0);
	KUNIT_EXPECT_EQ(test, credit_ns - p.credit_ns, (s64)MS_NS);
}

/* New memory pays no debt made before it came. It brings credit once. */
static void new_memory_brings_credit(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_place p;

	memset(m.pages, 0, sizeof(m.pages));
	m.pages[MTIER_LOW] = 1024;
	mtier_place_init(&p, &m);
	mtier_place_paid(&p, &m, 0, 16 * 1024 * 20);
	KUNIT_EXPECT_EQ(test, p.credit_ns, 0LL);
	m.pages[MTIER_LOW] += 4096;
	mtier_place_paid(&p, &m, 0, 0);
	KUNIT_EXPECT_EQ(test, p.credit_ns, 16LL * 4096 * 20);
	/* Once. */
	mtier_place_paid(&p, &m, 0, 16 * 4096 * 20);
	mtier_place_paid(&p, &m, 0, 0);
	KUNIT_EXPECT_EQ(test, p.credit_ns, 0LL);
	/* Less memory lowers only the most credit that can be saved. */
	m.pages[MTIER_LOW] = 1024;
	mtier_place_paid(&p, &m, 0, 0);
	KUNIT_EXPECT_EQ(test, p.credit_ns, 0LL);
}

/* Memory in use that goes up and down brings no credit; after some time it does. */
static void who_comes_and_goes_brings_nothing(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_place p;
	u32 i;

	memset(m.pages, 0, sizeof(m.pages));
	m.pages[MTIER_LOW] = 4096;
	mtier_place_init(&p, &m);
	mtier_place_paid(&p, &m, 0, 16 * 4096 * 20);
	p.share = 123;
	for (i = 0; i < 10; i++) {
		m.pages[MTIER_LOW] = i % 2 ? 4096 : 3900;
		mtier_place_paid(&p, &m, 50 * MS_NS, 50 * MS_NS * 1966 / MTIER_Q16);
	}
	KUNIT_EXPECT_LE(test, p.credit_ns, 16LL * 100 * 20);
	KUNIT_EXPECT_EQ(test, p.share, 123U);
	/* It grows by a little each time, and in the end by much. */
	for (i = 1; i <= 16; i++) {
		m.pages[MTIER_LOW] = 4096 + 100 * i;
		mtier_place_paid(&p, &m, 0, 0);
		if (i <= 8)
			KUNIT_EXPECT_EQ(test, p.share, 123U);
	}
	KUNIT_EXPECT_EQ(test, p.share, MTIER_Q16 / 4);
	p.share = 123;
	/* Much has come into use after a time of little: looks begin as at first. */
	m.pages[MTIER_LOW] = 100;
	mtier_place_paid(&p, &m, 2 * SECOND_NS, 2 * SECOND_NS);
	m.pages[MTIER_LOW] = 4096;
	mtier_place_paid(&p, &m, 0, 0);
	KUNIT_EXPECT_EQ(test, p.share, MTIER_Q16 / 4);
	KUNIT_EXPECT_GT(test, p.credit_ns, 15LL * 3900 * 20);
}

/* Memory idle for a moment is not new when it is used again; after some time it is. */
static void what_was_in_use_is_forgotten_slowly(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_place p;

	memset(m.pages, 0, sizeof(m.pages));
	m.pages[MTIER_LOW] = 4096;
	mtier_place_init(&p, &m);
	p.share = 123;
	m.pages[MTIER_LOW] = 1024;
	mtier_place_paid(&p, &m, 100 * MS_NS, 0);
	m.pages[MTIER_LOW] = 4096;
	mtier_place_paid(&p, &m, 0, 0);
	KUNIT_EXPECT_EQ(test, p.share, 123U);
	m.pages[MTIER_LOW] = 1024;
	mtier_place_paid(&p, &m, 5 * SECOND_NS, 0);
	/* Memory still in use is not forgotten. */
	mtier_place_paid(&p, &m, 0, 0);
	KUNIT_EXPECT_EQ(test, p.share, 123U);
	m.pages[MTIER_LOW] = 4096;
	mtier_place_paid(&p, &m, 0, 0);
	KUNIT_EXPECT_EQ(test, p.share, MTIER_Q16 / 4);
}

/* The limit is scan/cpu_percent. */
static void looks_take_no_more_than_allowed(struct kunit *test)
{
	struct mtier_place_machine m = machine;
	static struct mtier_place p;

	m.share_most = MTIER_Q16 / 100;
	mtier_place_init(&p, &m);
	KUNIT_EXPECT_EQ(test, p.share, m.share_most);
	/* 100 us of each tau, at 20 ns: 5000 pages. */
	KUNIT_EXPECT_EQ(test, mtier_place_pages(&p, &m), 4997ULL);
	/* Whatever it finds, with credit or without. */
	mtier_place_rest_ns(&p, &m, SECOND_NS, MS_NS, MS_NS);
	KUNIT_EXPECT_EQ(test, p.share, m.share_most);
	m.share_most = 1;
	mtier_place_rest_ns(&p, &m, 0, MS_NS, MS_NS);
	KUNIT_EXPECT_EQ(test, p.share, 1U);
	/* Also more than the usual limit, but only while there is credit. */
	m.share_most = MTIER_Q16 / 2;
	mtier_place_rest_ns(&p, &m, SECOND_NS, 1, SECOND_NS);
	KUNIT_EXPECT_EQ(test, p.share, m.share_most);
	p.credit_ns = -(s64)MS_NS;
	mtier_place_rest_ns(&p, &m, SECOND_NS, MS_NS, MS_NS);
	KUNIT_EXPECT_EQ(test, p.share, 1966U);
}

static struct kunit_case pace_cases[] = {
	KUNIT_CASE(a_burst_ends_when_others_find_more),
	KUNIT_CASE(only_a_burst_that_has_paid_is_late),
	KUNIT_CASE(the_margin_is_the_last_with_room),
	KUNIT_CASE(idle_pages_are_no_margin),
	KUNIT_CASE(the_distance_follows_the_margin),
	KUNIT_CASE(looks_are_not_closer_than_at_first_while_there_is_room),
	KUNIT_CASE(pauses_vary_by_a_quarter),
	KUNIT_CASE(a_burst_is_as_large_as_it_may_cost),
	KUNIT_CASE(a_burst_is_as_small_as_lets_the_next_one_come),
	KUNIT_CASE(a_burst_is_larger_if_flushes_are_dear),
	KUNIT_CASE(what_a_look_costs_is_measured),
	KUNIT_CASE(a_flush_makes_no_page_dear),
	KUNIT_CASE(the_cost_of_a_flush_is_measured),
	KUNIT_CASE(looks_follow_what_they_find),
	KUNIT_CASE(a_rest_is_a_second_at_most),
	KUNIT_CASE(credit_is_used_up),
	KUNIT_CASE(credit_is_for_flushes_too),
	KUNIT_CASE(scans_are_paid_from_what_they_save),
	KUNIT_CASE(scans_save_nothing_while_nothing_moves),
	KUNIT_CASE(new_memory_brings_credit),
	KUNIT_CASE(who_comes_and_goes_brings_nothing),
	KUNIT_CASE(what_was_in_use_is_forgotten_slowly),
	KUNIT_CASE(looks_take_no_more_than_allowed),
	{ }
};

static struct kunit_suite pace_suite = {
	.name = "mtier_pace",
	.test_cases = pace_cases,
};

kunit_test_suite(pace_suite);

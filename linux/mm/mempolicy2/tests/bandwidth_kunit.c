// SPDX-License-Identifier: GPL-2.0
/*
 * Weights from bandwidth, ../bandwidth.c: examples, the shortest round by brute
 * force, and random machines.  Runs in user space as well, with more machines
 * there (tools/testing/mtier).
 */
#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "../bandwidth.h"

#ifndef BANDWIDTH_MACHINES
#define BANDWIDTH_MACHINES	300
#endif

#define NODES		16
#define NODES_MOST	1024

/* Numbers that are the same in every run */
struct dice {
	u64 state;
};

static u32 roll(struct dice *dice, u32 below)
{
	dice->state = dice->state * 6364136223846793005ULL +
		      1442695040888963407ULL;
	return (dice->state >> 32) * below >> 32;
}

struct machine {
	u32 mbps[NODES];
	u32 nr;
};

static u64 sum_of(const struct machine *m)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < m->nr; i++)
		sum += m->mbps[i];
	return sum;
}

static u32 fastest_of(const struct machine *m)
{
	u32 fastest = 0, i;

	for (i = 0; i < m->nr; i++)
		fastest = max_t(u32, fastest, m->mbps[i]);
	return fastest;
}

static u32 slowest_of(const struct machine *m)
{
	u32 slowest = U32_MAX, i;

	for (i = 0; i < m->nr; i++)
		if (m->mbps[i])
			slowest = min_t(u32, slowest, m->mbps[i]);
	return slowest;
}

static u32 pages_of(const struct machine *m, const u8 *weight)
{
	u32 pages = 0, i;

	for (i = 0; i < m->nr; i++)
		pages += weight[i];
	return pages;
}

/* Do weights reach @parts of 255 of a bandwidth?  No node may fall short. */
static bool reaches(const struct machine *m, const u8 *weight, u64 bandwidth,
		    u32 parts)
{
	u32 pages = pages_of(m, weight), i;

	for (i = 0; i < m->nr; i++)
		if ((u64)m->mbps[i] * pages * 255 <
		    bandwidth * weight[i] * parts)
			return false;
	return pages;
}

/* All but 1/32 of the sum, and not less than the fastest node alone */
static bool enough(const struct machine *m, const u8 *weight)
{
	u32 pages = pages_of(m, weight), i;

	for (i = 0; i < m->nr; i++)
		if ((u64)m->mbps[i] * pages * 32 < sum_of(m) * 31 * weight[i])
			return false;
	return pages && reaches(m, weight, fastest_of(m), 255);
}

static void examples(struct kunit *test)
{
	static const struct {
		u32 mbps[3];
		u8 least;
		u8 weight[3];
	} cases[] = {
		{ { 300000, 37000, 0 }, 0, { 8, 1, 0 } },
		{ { 300000, 37000, 0 }, 1, { 8, 1, 0 } },
		{ { 64000, 20000, 0 }, 1, { 7, 2, 0 } },
		{ { 64000, 64000, 20000 }, 1, { 4, 4, 1 } },
		{ { 5, 5, 5 }, 1, { 1, 1, 1 } },
		/* Too slow to help: out, or one page that slows nobody */
		{ { 300000, 8000, 0 }, 0, { 1, 0, 0 } },
		{ { 300000, 8000, 0 }, 1, { 37, 1, 0 } },
		{ { 0, 7, 0 }, 1, { 0, 1, 0 } },
		/* Slower than one page of 256 */
		{ { U32_MAX, 1, 0 }, 0, { 1, 0, 0 } },
		{ { U32_MAX, 1, 0 }, 1, { 255, 1, 0 } },
		{ { 0, 0, 0 }, 1, { 0, 0, 0 } },
	};
	u8 weight[3];
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		mpol_auto_weights(cases[i].mbps, weight, 3, cases[i].least);
		for (k = 0; k < 3; k++)
			KUNIT_EXPECT_EQ(test, weight[k], cases[i].weight[k]);
	}
}

/* Does any round of @pages pages of up to three nodes reach enough? */
static bool any_enough(const struct machine *m, u32 pages, u8 least)
{
	u32 a, b;

	for (a = least; a <= min_t(u32, pages, U8_MAX); a++) {
		for (b = least; a + b <= pages; b++) {
			u32 c = pages - a - b;
			u8 weight[NODES] = { a, b, c };

			if (c > U8_MAX || b > U8_MAX || (m->nr == 2 && c))
				continue;
			if (m->nr == 3 && c < least)
				continue;
			if (enough(m, weight))
				return true;
		}
	}
	return false;
}

static void no_shorter_round_is_enough(struct kunit *test)
{
	struct dice dice = { 1 };
	u32 round, i, pages;
	u8 weight[NODES];

	for (round = 0; round < BANDWIDTH_MACHINES / 10; round++) {
		struct machine m = { .nr = 2 + round % 2 };
		u8 least = round / 2 % 2;

		for (i = 0; i < m.nr; i++)
			m.mbps[i] = 20 + roll(&dice, 300);
		pages = mpol_auto_weights(m.mbps, weight, m.nr, least);
		KUNIT_ASSERT_TRUE(test, enough(&m, weight));
		while (--pages)
			KUNIT_ASSERT_FALSE(test, any_enough(&m, pages, least));
	}
}

/* A machine of some kind: tiers, equal nodes, any ratio, very large numbers */
static void random_machine(struct dice *dice, struct machine *m)
{
	u32 tiers = 1 + roll(dice, 4), kind = roll(dice, 4), i;
	u32 of_tier[4];

	*m = (struct machine) { .nr = 1 + roll(dice, NODES) };
	for (i = 0; i < tiers; i++)
		of_tier[i] = 1000 + roll(dice, 400000);
	for (i = 0; i < m->nr; i++) {
		switch (kind) {
		case 0:
			m->mbps[i] = of_tier[roll(dice, tiers)];
			break;
		case 1:
			m->mbps[i] = 2000 + roll(dice, 400000);
			break;
		case 2:
			m->mbps[i] = 1 + (roll(dice, U32_MAX) >>
					  roll(dice, 32));
			break;
		default:
			m->mbps[i] = U32_MAX - roll(dice, 1000);
		}
		/* Some have no memory, or nobody knows their bandwidth. */
		if (i && !roll(dice, 10))
			m->mbps[i] = 0;
	}
}

static u32 known_nodes(const struct machine *m)
{
	u32 nr = 0, i;

	for (i = 0; i < m->nr; i++)
		nr += !!m->mbps[i];
	return nr;
}

/* A round may lose 1/32, or (n - 1)/255 where 255 limits a weight. */
static bool loss_is_bounded(const struct machine *m, const u8 *weight)
{
	u32 nr = known_nodes(m);

	if (nr <= 8)
		return enough(m, weight);
	return reaches(m, weight, sum_of(m), 255 - max_t(u32, nr - 1, 8));
}

static void never_slower_than_one_node(struct kunit *test)
{
	struct dice dice = { 2 };
	struct machine m;
	u8 weight[NODES];
	u32 round, i;

	for (round = 0; round < BANDWIDTH_MACHINES; round++) {
		u32 pages, nr;

		random_machine(&dice, &m);
		nr = known_nodes(&m);
		pages = mpol_auto_weights(m.mbps, weight, m.nr, 0);
		KUNIT_ASSERT_EQ(test, pages, pages_of(&m, weight));
		for (i = 0; i < m.nr; i++)
			KUNIT_ASSERT_TRUE(test, m.mbps[i] || !weight[i]);
		KUNIT_ASSERT_TRUE(test, reaches(&m, weight, fastest_of(&m), 255));
		KUNIT_ASSERT_TRUE(test, loss_is_bounded(&m, weight));
		if (nr <= 8)
			KUNIT_ASSERT_LE(test, pages, 32 * (nr - 1) + nr);
	}
}

static void nor_where_each_node_has_a_weight(struct kunit *test)
{
	struct dice dice = { 3 };
	struct machine m;
	u8 weight[NODES];
	u32 round, i;

	for (round = 0; round < BANDWIDTH_MACHINES; round++) {
		u32 highest = 0;

		random_machine(&dice, &m);
		mpol_auto_weights(m.mbps, weight, m.nr, 1);
		for (i = 0; i < m.nr; i++) {
			KUNIT_ASSERT_EQ(test, !m.mbps[i], !weight[i]);
			highest = max_t(u32, highest, weight[i]);
		}
		if ((u64)slowest_of(&m) * 255 >= fastest_of(&m)) {
			KUNIT_ASSERT_TRUE(test, reaches(&m, weight,
							fastest_of(&m), 255));
			KUNIT_ASSERT_TRUE(test, loss_is_bounded(&m, weight));
		} else if (!reaches(&m, weight, fastest_of(&m), 255)) {
			/* As small a part of the pages as there can be */
			KUNIT_ASSERT_EQ(test, highest, 255);
		}
	}
}

/* No round reaches enough: the shortest one of those that reach the most. */
static void slow_nodes_make_no_long_round(struct kunit *test)
{
	struct machine m = { .mbps = { 25500 }, .nr = NODES };
	u8 weight[NODES];
	u32 i;

	for (i = 1; i < NODES; i++)
		m.mbps[i] = 65;
	KUNIT_EXPECT_EQ(test, mpol_auto_weights(m.mbps, weight, m.nr, 0), 1);
	KUNIT_EXPECT_EQ(test, weight[0], 1);
}

/* The most nodes that a kernel supports: no overflow, and the search ends. */
static void many_nodes(struct kunit *test)
{
	u32 *mbps = kunit_kzalloc(test, NODES_MOST * sizeof(u32), GFP_KERNEL);
	u8 *weight = kunit_kzalloc(test, NODES_MOST, GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, mbps);
	KUNIT_ASSERT_NOT_NULL(test, weight);
	for (i = 0; i < NODES_MOST; i++)
		mbps[i] = U32_MAX;
	KUNIT_EXPECT_EQ(test, mpol_auto_weights(mbps, weight, NODES_MOST, 1),
			NODES_MOST);
	mbps[7] = 1;
	KUNIT_EXPECT_LE(test, mpol_auto_weights(mbps, weight, NODES_MOST, 1),
			MPOL_ROUND_MAX);
	KUNIT_EXPECT_EQ(test, weight[7], 1);
	KUNIT_EXPECT_EQ(test, mpol_auto_weights(mbps, weight, NODES_MOST, 0),
			1023 - 31);
	KUNIT_EXPECT_EQ(test, weight[7], 0);
}

static void room_for_an_unknown_node(struct kunit *test)
{
	static const u8 cases[][2][2] = {
		{ { 1, 0 }, { 32, 0 } },
		{ { 8, 1 }, { 32, 4 } },
		{ { 31, 1 }, { 31, 1 } },
		{ { 30, 1 }, { 60, 2 } },
		{ { 255, 255 }, { 255, 255 } },
	};
	u8 weight[2];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		weight[0] = cases[i][0][0];
		weight[1] = cases[i][0][1];
		mpol_stretch_weights(weight, 2);
		KUNIT_EXPECT_EQ(test, weight[0], cases[i][1][0]);
		KUNIT_EXPECT_EQ(test, weight[1], cases[i][1][1]);
	}
}

static struct kunit_case bandwidth_cases[] = {
	KUNIT_CASE(examples),
	KUNIT_CASE(no_shorter_round_is_enough),
	KUNIT_CASE(never_slower_than_one_node),
	KUNIT_CASE(nor_where_each_node_has_a_weight),
	KUNIT_CASE(slow_nodes_make_no_long_round),
	KUNIT_CASE(many_nodes),
	KUNIT_CASE(room_for_an_unknown_node),
	{}
};

static struct kunit_suite bandwidth_suite = {
	.name = "mempolicy2_bandwidth",
	.test_cases = bandwidth_cases,
};

kunit_test_suite(bandwidth_suite);

MODULE_DESCRIPTION("KUnit tests of interleave weights from bandwidth");
MODULE_LICENSE("GPL");

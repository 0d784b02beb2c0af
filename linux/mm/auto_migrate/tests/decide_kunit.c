// SPDX-License-Identifier: GPL-2.0
/* KUnit: when a task has settled, whether its memory follows, and who walks. */
#include <kunit/test.h>
#include <linux/jiffies.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/numa.h>

#include "../decide.h"

#define SETTLE		25UL
#define INTERVAL	7500UL

/* Times also where jiffies wrap */
static const unsigned long starts[] = { 0, 1000, ULONG_MAX - 30, ULONG_MAX };

static struct auto_migrate_place nowhere(void)
{
	return (struct auto_migrate_place) {
		.node = NUMA_NO_NODE, .away = NUMA_NO_NODE,
	};
}

static bool seen(struct auto_migrate_place *place, int node, unsigned long now)
{
	return auto_seen(place, node, now, SETTLE, INTERVAL);
}

static void the_first_node_is_home(struct kunit *test)
{
	struct auto_migrate_place place = nowhere();

	KUNIT_EXPECT_FALSE(test, seen(&place, 3, 10));
	KUNIT_EXPECT_EQ(test, place.node, 3);
	KUNIT_EXPECT_EQ(test, place.away, NUMA_NO_NODE);
	KUNIT_EXPECT_FALSE(test, seen(&place, 3, 10 + 2 * INTERVAL));
}

static void it_takes_the_settle_time(struct kunit *test)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct auto_migrate_place place = nowhere();
		unsigned long t;

		seen(&place, 0, starts[i]);
		for (t = 0; t < SETTLE; t++)
			KUNIT_ASSERT_FALSE(test,
					   seen(&place, 1, starts[i] + t));
		KUNIT_ASSERT_TRUE(test, seen(&place, 1, starts[i] + t));
		/* It is for the caller to say that it lives there now. */
		KUNIT_ASSERT_EQ(test, place.node, 0);
		KUNIT_ASSERT_TRUE(test, seen(&place, 1, starts[i] + t + 1));
	}
}

static void back_home_or_elsewhere_begins_anew(struct kunit *test)
{
	struct auto_migrate_place place = nowhere();

	seen(&place, 0, 0);
	seen(&place, 1, 10);
	seen(&place, 0, 10 + SETTLE - 1);
	KUNIT_EXPECT_FALSE(test, seen(&place, 1, 10 + SETTLE));
	KUNIT_EXPECT_FALSE(test, seen(&place, 2, 10 + 2 * SETTLE - 1));
	KUNIT_EXPECT_FALSE(test, seen(&place, 1, 10 + 2 * SETTLE));
	KUNIT_EXPECT_TRUE(test, seen(&place, 1, 10 + 3 * SETTLE));
}

/* Bounced for as long as in R17: no more than three times */
static void tries_are_an_interval_apart(struct kunit *test)
{
	unsigned long second = INTERVAL / 30;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct auto_migrate_place place = nowhere();
		unsigned int acted = 0;
		unsigned long t;

		seen(&place, 0, starts[i]);
		for (t = 0; t < 65 * second; t++) {
			int node = (t / second + 1) % 2;

			if (!seen(&place, node, starts[i] + t))
				continue;
			acted++;
			place.tried = starts[i] + t;
			place.has_tried = true;
			auto_settle(&place, node);
		}
		KUNIT_EXPECT_EQ(test, acted, 3);
	}
}

/* All 32 sets of facts, with a few numbers of threads, against the rules */
static void every_task_gets_its_action(struct kunit *test)
{
	static const unsigned int threads[][2] = {
		{ 1, 1 }, { 1, 0 }, { 2, 1 }, { 2, 2 }, { 3, 1 }, { 3, 2 },
		{ 64, 32 }, { 64, 33 },
	};
	unsigned int bits, i;

	for (bits = 0; bits < 32; bits++)
		for (i = 0; i < ARRAY_SIZE(threads); i++) {
			struct auto_facts f = {
				.node_fits = bits & 1, .policy = bits & 2,
				.balancing = bits & 4, .borrowed = bits & 8,
				.lazy = bits & 16, .threads = threads[i][0],
				.there = threads[i][1],
			};
			enum auto_action action = auto_action(&f);
			bool most = f.there > f.threads - f.there;
			bool goes = f.node_fits && !f.policy && !f.balancing &&
				    !f.borrowed;

			KUNIT_EXPECT_EQ(test, action == AUTO_LAZY,
					goes && (f.lazy || !most));
			KUNIT_EXPECT_EQ(test, action == AUTO_DIRECT,
					goes && !f.lazy && most);
			if (action == AUTO_NODE)
				KUNIT_EXPECT_FALSE(test, f.node_fits);
			if (action == AUTO_POLICY)
				KUNIT_EXPECT_TRUE(test, f.policy);
			if (action == AUTO_BALANCING)
				KUNIT_EXPECT_TRUE(test, f.balancing);
			if (action == AUTO_THREADS)
				KUNIT_EXPECT_TRUE(test, f.borrowed);
		}
}

static void one_thread_walks_for_all(struct kunit *test)
{
	struct auto_migrate_claim claim = { .when = 1000, .from = 0, .to = 1 };

	KUNIT_EXPECT_EQ(test, auto_turn(&claim, 0, 1, true, 1000, 250, 7500),
			AUTO_TAKE);
	claim.taken = true;
	KUNIT_EXPECT_EQ(test, auto_turn(&claim, 0, 1, true, 1249, 250, 7500),
			AUTO_WAIT);
	/* Whoever it was, it has shown no sign of life. */
	KUNIT_EXPECT_EQ(test, auto_turn(&claim, 0, 1, true, 1250, 250, 7500),
			AUTO_TAKE);
	claim.done = true;
	KUNIT_EXPECT_EQ(test, auto_turn(&claim, 0, 1, true, 8499, 250, 7500),
			AUTO_DONE);
	KUNIT_EXPECT_EQ(test, auto_turn(&claim, 0, 1, true, 8500, 250, 7500),
			AUTO_TAKE);
	/* What was marked is not moved yet. */
	claim.lazy = true;
	KUNIT_EXPECT_EQ(test, auto_turn(&claim, 0, 1, true, 1001, 250, 7500),
			AUTO_DONE);
	KUNIT_EXPECT_EQ(test, auto_turn(&claim, 0, 1, false, 1001, 250, 7500),
			AUTO_TAKE);
	claim.lazy = false;
	KUNIT_EXPECT_EQ(test, auto_turn(&claim, 0, 1, true, 1001, 250, 7500),
			AUTO_DONE);
	/* Another way is another walk. */
	KUNIT_EXPECT_EQ(test, auto_turn(&claim, 1, 0, true, 1001, 250, 7500),
			AUTO_TAKE);
	KUNIT_EXPECT_EQ(test, auto_turn(&claim, 0, 2, true, 1001, 250, 7500),
			AUTO_TAKE);
}

static void sharers_are_counted_by_page(struct kunit *test)
{
	/* One process is what the kernel takes for one. */
	KUNIT_EXPECT_FALSE(test, auto_shared(false, 512, 512, 1));
	KUNIT_EXPECT_TRUE(test, auto_shared(true, 2, 1, 1));
	/* A small page, a huge page in one piece, one mapped by its pages */
	KUNIT_EXPECT_FALSE(test, auto_shared(true, 2, 1, 2));
	KUNIT_EXPECT_TRUE(test, auto_shared(true, 3, 1, 2));
	KUNIT_EXPECT_FALSE(test, auto_shared(true, 2, 512, 2));
	KUNIT_EXPECT_FALSE(test, auto_shared(true, 1024, 512, 2));
	KUNIT_EXPECT_TRUE(test, auto_shared(true, 1025, 512, 2));
	KUNIT_EXPECT_FALSE(test, auto_shared(true, INT_MAX, 1, INT_MAX));
}

/* Three cgroups below each other: all that there can be of enabled and lazy */
static void the_most_restrained_wins(struct kunit *test)
{
	unsigned int bits, i;

	for (bits = 0; bits < 64; bits++) {
		struct auto_migrate_limits have = {
			.enabled = 1, .max_mapcount = 1000,
		};

		for (i = 0; i < 3; i++) {
			struct auto_migrate_limits own = {
				.enabled = bits >> i & 1,
				.lazy = bits >> (3 + i) & 1,
				.interval_s = 10 + (i == bits % 3),
				.max_mapcount = 5 - (i == bits % 3),
			};

			auto_limit(&have, &own);
		}
		KUNIT_EXPECT_EQ(test, have.enabled, (bits & 7) == 7);
		KUNIT_EXPECT_EQ(test, have.lazy, bits >> 3 != 0);
		KUNIT_EXPECT_EQ(test, have.interval_s, 11);
		KUNIT_EXPECT_EQ(test, have.max_mapcount, 4);
	}
}

static struct kunit_case decide_cases[] = {
	KUNIT_CASE(the_first_node_is_home),
	KUNIT_CASE(it_takes_the_settle_time),
	KUNIT_CASE(back_home_or_elsewhere_begins_anew),
	KUNIT_CASE(tries_are_an_interval_apart),
	KUNIT_CASE(every_task_gets_its_action),
	KUNIT_CASE(one_thread_walks_for_all),
	KUNIT_CASE(sharers_are_counted_by_page),
	KUNIT_CASE(the_most_restrained_wins),
	{}
};

static struct kunit_suite decide_suite = {
	.name = "auto_migrate_decide",
	.test_cases = decide_cases,
};

kunit_test_suite(decide_suite);

MODULE_DESCRIPTION("KUnit tests of automatic migration");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of decide.c: requests, verdicts, batches of neighbours; home nodes, actions
 * and walk ownership of tasks; homes of files and rate limits.
 */
#include <kunit/test.h>
#include <linux/jiffies.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/mempolicy.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/numa.h>

#include "../decide.h"

/* Start times, including two just before jiffies wrap */
static const unsigned long starts[] = { 0, 1000, ULONG_MAX - 30, ULONG_MAX };

/* ---- pages ---- */

static void a_request_moves_and_is_not_strict(struct kunit *test)
{
	unsigned long flags;

	for (flags = 0; flags < MPOL_MF_LAZY; flags++) {
		bool moves = flags & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL);
		bool fits = moves && !(flags & MPOL_MF_STRICT);

		KUNIT_EXPECT_EQ_MSG(test, fits,
				    follow_request_fits(MPOL_BIND, 0,
							flags | MPOL_MF_LAZY),
				    "flags %#lx", flags);
	}
}

static void a_policy_says_where(struct kunit *test)
{
	unsigned short mode;

	KUNIT_EXPECT_FALSE(test, follow_request_fits(MPOL_DEFAULT, 0,
						     MPOL_MF_MOVE));
	for (mode = MPOL_DEFAULT + 1; mode < MPOL_MAX; mode++) {
		KUNIT_EXPECT_TRUE(test, follow_request_fits(mode, 0,
							    MPOL_MF_MOVE));
		KUNIT_EXPECT_TRUE(test,
				  follow_request_fits(mode, MPOL_F_STATIC_NODES,
						      MPOL_MF_MOVE));
		KUNIT_EXPECT_FALSE(test,
				   follow_request_fits(mode,
						       MPOL_F_NUMA_BALANCING,
						       MPOL_MF_MOVE));
	}
}

/* All 16 states of a page, compared with the rules */
static void every_page_gets_its_verdict(struct kunit *test)
{
	unsigned int bits, seen[FOLLOW_VERDICTS] = { 0 };

	for (bits = 0; bits < 16; bits++) {
		struct follow_seen page = {
			.misplaced = bits & 1, .shared = bits & 2,
			.dirty = bits & 4, .held = bits & 8,
		};
		enum follow_verdict verdict = follow_verdict(&page);

		seen[verdict]++;
		KUNIT_EXPECT_EQ(test, verdict == FOLLOW_LEAVE, !page.misplaced);
		if (verdict == FOLLOW_LEAVE)
			continue;
		KUNIT_EXPECT_EQ(test, verdict == FOLLOW_TAKE,
				!page.held && !page.dirty && !page.shared);
		if (verdict == FOLLOW_DIRTY)
			KUNIT_EXPECT_TRUE(test, page.dirty);
		if (verdict == FOLLOW_SHARED)
			KUNIT_EXPECT_TRUE(test, page.shared);
		if (verdict == FOLLOW_BUSY)
			KUNIT_EXPECT_TRUE(test, page.held);
	}
	/* Free memory and the rate limit are checked when the page moves. */
	KUNIT_EXPECT_EQ(test, seen[FOLLOW_NOMEM] + seen[FOLLOW_RATE], 0);
	KUNIT_EXPECT_EQ(test, seen[FOLLOW_TAKE], 1);
	KUNIT_EXPECT_GT(test, seen[FOLLOW_DIRTY], 0);
	KUNIT_EXPECT_GT(test, seen[FOLLOW_SHARED], 0);
	KUNIT_EXPECT_GT(test, seen[FOLLOW_BUSY], 0);
}

/* Faults in VMAs of every shape around the borders of a window */
static void a_batch_is_a_window_in_the_vma(struct kunit *test)
{
	unsigned long base = 1UL << 30, bytes = FOLLOW_BATCH_PAGES * PAGE_SIZE;
	unsigned long from, to, addr;

	for (from = base; from < base + bytes; from += PAGE_SIZE)
		for (to = from + PAGE_SIZE; to <= base + 3 * bytes;
		     to += 5 * PAGE_SIZE)
			for (addr = from; addr < to; addr += PAGE_SIZE) {
				struct follow_window w = follow_batch_window(addr + 7,
									     from, to);

				KUNIT_ASSERT_LE(test, w.start, addr);
				KUNIT_ASSERT_GT(test, w.end, addr);
				KUNIT_ASSERT_GE(test, w.start, from);
				KUNIT_ASSERT_LE(test, w.end, to);
				KUNIT_ASSERT_TRUE(test, PAGE_ALIGNED(w.start | w.end));
				KUNIT_ASSERT_EQ(test, w.start / bytes,
						(w.end - 1) / bytes);
			}
}

/* A sequential walk takes one fault for each window, no more. */
static void windows_follow_each_other(struct kunit *test)
{
	unsigned long start = 3 * PAGE_SIZE, end = 403 * PAGE_SIZE;
	unsigned long addr = start, faults = 0;

	while (addr < end) {
		struct follow_window w = follow_batch_window(addr, start, end);

		KUNIT_ASSERT_EQ(test, w.start, addr);
		addr = w.end;
		faults++;
	}
	KUNIT_EXPECT_EQ(test, faults, 26);
}

/* ---- tasks ---- */

#define SETTLE		25UL
#define INTERVAL	7500UL

static struct follow_place nowhere(void)
{
	return (struct follow_place) {
		.node = NUMA_NO_NODE, .away = NUMA_NO_NODE,
	};
}

static bool seen(struct follow_place *place, int node, unsigned long now)
{
	return follow_stays(place, node, now, SETTLE, INTERVAL);
}

static void the_first_node_is_home(struct kunit *test)
{
	struct follow_place place = nowhere();

	KUNIT_EXPECT_FALSE(test, seen(&place, 3, 10));
	KUNIT_EXPECT_EQ(test, place.node, 3);
	KUNIT_EXPECT_EQ(test, place.away, NUMA_NO_NODE);
	KUNIT_EXPECT_FALSE(test, seen(&place, 3, 10 + 2 * INTERVAL));
}

static void it_takes_the_settle_time(struct kunit *test)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct follow_place place = nowhere();
		unsigned long t;

		seen(&place, 0, starts[i]);
		for (t = 0; t < SETTLE; t++)
			KUNIT_ASSERT_FALSE(test,
					   seen(&place, 1, starts[i] + t));
		KUNIT_ASSERT_TRUE(test, seen(&place, 1, starts[i] + t));
		/* The caller sets the new home. */
		KUNIT_ASSERT_EQ(test, place.node, 0);
		KUNIT_ASSERT_TRUE(test, seen(&place, 1, starts[i] + t + 1));
	}
}

static void back_home_or_elsewhere_begins_anew(struct kunit *test)
{
	struct follow_place place = nowhere();

	seen(&place, 0, 0);
	seen(&place, 1, 10);
	seen(&place, 0, 10 + SETTLE - 1);
	KUNIT_EXPECT_FALSE(test, seen(&place, 1, 10 + SETTLE));
	KUNIT_EXPECT_FALSE(test, seen(&place, 2, 10 + 2 * SETTLE - 1));
	KUNIT_EXPECT_FALSE(test, seen(&place, 1, 10 + 2 * SETTLE));
	KUNIT_EXPECT_TRUE(test, seen(&place, 1, 10 + 3 * SETTLE));
}

/* A task that changes nodes every second for 65 s: three migrations */
static void tries_are_an_interval_apart(struct kunit *test)
{
	unsigned long second = INTERVAL / 30;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct follow_place place = nowhere();
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
			follow_settle(&place, node);
		}
		KUNIT_EXPECT_EQ(test, acted, 3);
	}
}

/*
 * All 32 combinations of facts, with several numbers of threads, compared with the rules
 */
static void every_task_gets_its_action(struct kunit *test)
{
	static const unsigned int threads[][2] = {
		{ 1, 1 }, { 1, 0 }, { 2, 1 }, { 2, 2 }, { 3, 1 }, { 3, 2 },
		{ 64, 32 }, { 64, 33 },
	};
	unsigned int bits, i;

	for (bits = 0; bits < 32; bits++)
		for (i = 0; i < ARRAY_SIZE(threads); i++) {
			struct follow_facts f = {
				.node_fits = bits & 1, .policy = bits & 2,
				.balancing = bits & 4, .borrowed = bits & 8,
				.lazy = bits & 16, .threads = threads[i][0],
				.there = threads[i][1],
			};
			enum follow_action action = follow_action(&f);
			bool most = f.there > f.threads - f.there;
			bool goes = f.node_fits && !f.policy && !f.balancing &&
				    !f.borrowed;

			KUNIT_EXPECT_EQ(test, action == FOLLOW_LAZY,
					goes && (f.lazy || !most));
			KUNIT_EXPECT_EQ(test, action == FOLLOW_DIRECT,
					goes && !f.lazy && most);
			if (action == FOLLOW_NODE)
				KUNIT_EXPECT_FALSE(test, f.node_fits);
			if (action == FOLLOW_POLICY)
				KUNIT_EXPECT_TRUE(test, f.policy);
			if (action == FOLLOW_BALANCING)
				KUNIT_EXPECT_TRUE(test, f.balancing);
			if (action == FOLLOW_THREADS)
				KUNIT_EXPECT_TRUE(test, f.borrowed);
		}
}

static struct follow_route route(unsigned long from, int to, bool lazy,
				 unsigned long since)
{
	struct follow_route r = { .to = to, .lazy = lazy, .since = since };

	r.from.bits[0] = from;
	return r;
}

static enum follow_turn turn(const struct follow_claim *claim, unsigned long from,
			     int to, bool lazy, unsigned long since,
			     unsigned long now)
{
	const struct follow_route r = route(from, to, lazy, since);

	return follow_turn(claim, &r, now, 250, 25, 7500);
}

/*
 * Nodes are bit masks, as in cpuset.mems. 999: the thread arrived before the walk
 * started.
 */
static void one_thread_walks_for_all(struct kunit *test)
{
	struct follow_claim claim = {
		.route = route(1, 1, false, 900), .began = 1000, .when = 1000,
	};

	KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, 999, 1000), FOLLOW_MINE);
	claim.taken = true;
	KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, 999, 1249), FOLLOW_WAIT);
	/* The walking thread has no heartbeat. */
	KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, 999, 1250), FOLLOW_MINE);
	claim.done = true;
	KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, 999, 8499), FOLLOW_DONE);
	KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, 999, 8500), FOLLOW_MINE);
	/* A lazy walk has only marked pages; a direct one still has to move them. */
	claim.route.lazy = true;
	KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, 999, 1001), FOLLOW_DONE);
	KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, false, 999, 1001), FOLLOW_MINE);
	claim.route.lazy = false;
	KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, 999, 1001), FOLLOW_DONE);
	/* Another route needs another walk. */
	KUNIT_EXPECT_EQ(test, turn(&claim, 2, 0, true, 999, 1001), FOLLOW_MINE);
	KUNIT_EXPECT_EQ(test, turn(&claim, 1, 2, true, 999, 1001), FOLLOW_MINE);
}

/* A thread that arrived after the start may have used marked pages on the old node. */
static void who_comes_late_walks_again(struct kunit *test)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		unsigned long t = starts[i];
		struct follow_claim claim = {
			.route = route(1, 1, true, t), .began = t + 10,
			.when = t + 20, .taken = true, .done = true,
		};

		KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, t + 9, t + 21),
				FOLLOW_DONE);
		KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, t + 10, t + 21),
				FOLLOW_WAIT);
		KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, t + 15, t + 44),
				FOLLOW_WAIT);
		KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, t + 15, t + 45),
				FOLLOW_MINE);
		KUNIT_EXPECT_EQ(test, turn(&claim, 1, 1, true, t + 9, t + 45),
				FOLLOW_DONE);
	}
}

/* A walk covers threads with fewer source nodes. */
static void a_walk_does_for_fewer_nodes(struct kunit *test)
{
	unsigned long walked, wanted;

	for (walked = 0; walked < 16; walked++)
		for (wanted = 0; wanted < 16; wanted++) {
			struct follow_claim claim = {
				.route = route(walked, 4, true, 0), .began = 1000,
				.when = 1000, .taken = true, .done = true,
			};

			KUNIT_EXPECT_EQ(test, turn(&claim, wanted, 4, true, 999, 1001),
					wanted & ~walked ? FOLLOW_MINE : FOLLOW_DONE);
		}
}

static void from_anywhere_if_all_are_there(struct kunit *test)
{
	struct follow_facts facts = { .threads = 3 };

	for (facts.there = 0; facts.there < 5; facts.there++)
		KUNIT_EXPECT_EQ(test, follow_from_anywhere(&facts), facts.there >= 3);
}

static void sharers_are_counted_by_page(struct kunit *test)
{
	/* With a limit of one process, the kernel's own estimate decides. */
	KUNIT_EXPECT_FALSE(test, follow_shared(false, 512, 512, 1));
	KUNIT_EXPECT_TRUE(test, follow_shared(true, 2, 1, 1));
	/* A small page, a huge page mapped by a PMD, a huge page mapped by PTEs */
	KUNIT_EXPECT_FALSE(test, follow_shared(true, 2, 1, 2));
	KUNIT_EXPECT_TRUE(test, follow_shared(true, 3, 1, 2));
	KUNIT_EXPECT_FALSE(test, follow_shared(true, 2, 512, 2));
	KUNIT_EXPECT_FALSE(test, follow_shared(true, 1024, 512, 2));
	KUNIT_EXPECT_TRUE(test, follow_shared(true, 1025, 512, 2));
	KUNIT_EXPECT_FALSE(test, follow_shared(true, INT_MAX, 1, INT_MAX));
}

/* Three nested cgroups: all combinations of enabled and lazy */
static void the_most_restrained_wins(struct kunit *test)
{
	unsigned int bits, i;

	for (bits = 0; bits < 64; bits++) {
		struct numa_follow_limits have = {
			.enabled = 1, .max_mapcount = 1000,
		};

		for (i = 0; i < 3; i++) {
			struct numa_follow_limits own = {
				.enabled = bits >> i & 1,
				.lazy = bits >> (3 + i) & 1,
				.interval_s = 10 + (i == bits % 3),
				.max_mapcount = 5 - (i == bits % 3),
			};

			numa_follow_limit(&have, &own);
		}
		KUNIT_EXPECT_EQ(test, have.enabled, (bits & 7) == 7);
		KUNIT_EXPECT_EQ(test, have.lazy, bits >> 3 != 0);
		KUNIT_EXPECT_EQ(test, have.interval_s, 11);
		KUNIT_EXPECT_EQ(test, have.max_mapcount, 4);
	}
}

/* ---- faults that map a page which is not mapped yet ---- */

#define QUIET	60UL
#define SECOND	10UL

static void levels(struct kunit *test)
{
	unsigned int level;

	for (level = 0; level < 4; level++) {
		KUNIT_EXPECT_EQ(test, follow_reaches(level, FOLLOW_ANON, false),
				level > 0);
		KUNIT_EXPECT_EQ(test, follow_reaches(level, FOLLOW_SHMEM, true),
				level > 0);
		KUNIT_EXPECT_EQ(test, follow_reaches(level, FOLLOW_FILE, true),
				level > 1);
		KUNIT_EXPECT_EQ(test, follow_reaches(level, FOLLOW_FILE, false),
				level > 2);
	}
}

static void a_file_has_one_home(struct kunit *test)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct follow_home home = { 0 };
		unsigned long t = starts[i];

		KUNIT_EXPECT_TRUE(test, follow_home_free(&home, 7, 0, t, QUIET));
		follow_home_take(&home, 7, 0, t);
		KUNIT_EXPECT_TRUE(test, follow_home_free(&home, 7, 0, t, QUIET));
		KUNIT_EXPECT_FALSE(test, follow_home_free(&home, 7, 1, t, QUIET));
		KUNIT_EXPECT_FALSE(test, follow_home_free(&home, 7, 1,
							  t + QUIET - 1, QUIET));
		KUNIT_EXPECT_TRUE(test, follow_home_free(&home, 7, 1, t + QUIET,
							 QUIET));
		/* Use at home keeps the home. */
		follow_home_take(&home, 7, 0, t + QUIET - 1);
		KUNIT_EXPECT_FALSE(test, follow_home_free(&home, 7, 1, t + QUIET,
							  QUIET));
	}
}

static void another_file_takes_the_place(struct kunit *test)
{
	struct follow_home home = { 0 };

	follow_home_take(&home, 7, 0, 100);
	KUNIT_EXPECT_TRUE(test, follow_home_free(&home, 8, 1, 100, QUIET));
	follow_home_take(&home, 8, 1, 100);
	KUNIT_EXPECT_FALSE(test, follow_home_free(&home, 8, 0, 101, QUIET));
	KUNIT_EXPECT_TRUE(test, follow_home_free(&home, 7, 1, 101, QUIET));
}

/* Two users in turns, at any rate: one change per quiet time */
static void by_turns_it_stays(struct kunit *test)
{
	unsigned int now_at = 0, changes = 0;
	struct follow_home home = { 0 };
	unsigned long t;

	for (t = 1; t < 100 * QUIET; t++) {
		unsigned int claim = t / 3 % 2;

		if (!follow_home_free(&home, 7, claim, t, QUIET))
			continue;
		changes += claim != now_at;
		now_at = claim;
		follow_home_take(&home, 7, claim, t);
	}
	KUNIT_EXPECT_LE(test, changes, 1U);
}

static void a_second_has_its_limit(struct kunit *test)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct follow_rate rate = { 0 };
		unsigned long t = starts[i], taken = 0;
		unsigned long most = 0, tick;

		for (tick = 0; tick < 5 * SECOND; tick++) {
			if (tick % SECOND == 0) {
				most = max(most, taken);
				taken = 0;
			}
			while (follow_rate_takes(&rate, t + tick, SECOND, 100, 8))
				taken += 8;
			KUNIT_ASSERT_LE(test, taken, 200UL);
		}
		KUNIT_EXPECT_EQ(test, most, 96UL);
	}
}

static void one_large_folio_may_come(struct kunit *test)
{
	struct follow_rate rate = { 0 };

	KUNIT_EXPECT_TRUE(test, follow_rate_takes(&rate, 1, SECOND, 100, 512));
	KUNIT_EXPECT_FALSE(test, follow_rate_takes(&rate, 1, SECOND, 100, 1));
	KUNIT_EXPECT_TRUE(test, follow_rate_takes(&rate, 1 + SECOND, SECOND, 100, 1));
}

/* Returned pages can be taken again within the same second. */
static void what_comes_back_may_be_taken_again(struct kunit *test)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct follow_rate rate = { 0 };
		unsigned long t = starts[i];

		KUNIT_EXPECT_TRUE(test, follow_rate_takes(&rate, t, SECOND, 100, 100));
		KUNIT_EXPECT_FALSE(test, follow_rate_has(&rate, t, SECOND, 100, 1));
		follow_rate_returns(&rate, t + SECOND - 1, SECOND, 40);
		KUNIT_EXPECT_TRUE(test, follow_rate_has(&rate, t, SECOND, 100, 40));
		KUNIT_EXPECT_FALSE(test, follow_rate_has(&rate, t, SECOND, 100, 41));
		KUNIT_EXPECT_TRUE(test, follow_rate_has(&rate, t + SECOND, SECOND,
							100, 100));
		KUNIT_EXPECT_TRUE(test, follow_rate_takes(&rate, t + SECOND, SECOND,
							  100, 60));
		/* Pages taken in the second before */
		follow_rate_returns(&rate, t + 2 * SECOND, SECOND, 60);
		KUNIT_EXPECT_EQ(test, rate.pages, 60UL);
		follow_rate_returns(&rate, t + SECOND, SECOND, 100);
		KUNIT_EXPECT_EQ(test, rate.pages, 0UL);
	}
}

/* At least 1/16 of all pages, and at least one */
static void a_walk_is_repeated_for_many_pages(struct kunit *test)
{
	unsigned long all, left;

	for (all = 0; all < 200; all++)
		for (left = 0; left <= all; left++)
			KUNIT_EXPECT_EQ_MSG(test, follow_walks_again(left, all - left),
					    left && left >= (all - left) / 15,
					    "%lu of %lu", left, all);
	KUNIT_EXPECT_FALSE(test, follow_walks_again(31, 16 * 512));
	KUNIT_EXPECT_TRUE(test, follow_walks_again(4096, 0));
}

static struct kunit_case follow_cases[] = {
	KUNIT_CASE(a_request_moves_and_is_not_strict),
	KUNIT_CASE(a_policy_says_where),
	KUNIT_CASE(every_page_gets_its_verdict),
	KUNIT_CASE(a_batch_is_a_window_in_the_vma),
	KUNIT_CASE(windows_follow_each_other),
	KUNIT_CASE(the_first_node_is_home),
	KUNIT_CASE(it_takes_the_settle_time),
	KUNIT_CASE(back_home_or_elsewhere_begins_anew),
	KUNIT_CASE(tries_are_an_interval_apart),
	KUNIT_CASE(every_task_gets_its_action),
	KUNIT_CASE(one_thread_walks_for_all),
	KUNIT_CASE(who_comes_late_walks_again),
	KUNIT_CASE(a_walk_does_for_fewer_nodes),
	KUNIT_CASE(from_anywhere_if_all_are_there),
	KUNIT_CASE(a_walk_is_repeated_for_many_pages),
	KUNIT_CASE(sharers_are_counted_by_page),
	KUNIT_CASE(the_most_restrained_wins),
	KUNIT_CASE(levels),
	KUNIT_CASE(a_file_has_one_home),
	KUNIT_CASE(another_file_takes_the_place),
	KUNIT_CASE(by_turns_it_stays),
	KUNIT_CASE(a_second_has_its_limit),
	KUNIT_CASE(one_large_folio_may_come),
	KUNIT_CASE(what_comes_back_may_be_taken_again),
	{}
};

static struct kunit_suite follow_suite = {
	.name = "numa_follow",
	.test_cases = follow_cases,
};

kunit_test_suite(follow_suite);

MODULE_DESCRIPTION("KUnit tests of pages that follow");
MODULE_LICENSE("GPL");

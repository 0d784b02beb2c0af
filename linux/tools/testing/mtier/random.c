// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of policy.c under random and under exhaustive input: too long
 * for a booting guest, a second or two in user space.
 */
#include <kunit/test.h>

#include "policy.h"
#include "rng.h"

#define PER_SEC		1000000000ULL
#define MIB		BIT_ULL(20)
#define TIB		BIT_ULL(40)

/* ---- bucket -------------------------------------------------------------- */

/*
 * A caller waits as requested, is sometimes woken early, and its clock is slightly
 * behind. In every time between two moves at most rate * time + burst + one move is
 * migrated. The test follows how far moves are ahead of the rate, and the minimum of
 * that; 128 bits hold bytes * ns exactly.
 */
static void bucket_bounds_every_window(struct kunit *test)
{
	struct rng rng = rng_new(test);

	for (int round = 0; round < 3000; round++) {
		u64 rate = 1 + rng_wild(&rng) % TIB, burst = rng_wild(&rng) % (16 * TIB);
		u64 most = 1 + rng_wild(&rng) % (2 * TIB);
		u64 now = rng_below(&rng, PER_SEC), gap = 1 + rng_wild(&rng) % (10 * PER_SEC);
		__int128 moved_e9 = 0, lowest = 0;
		struct mtier_bucket b = { };

		for (int i = 0; i < 100; i++) {
			u64 skew = rng_below(&rng, 1000), bytes = rng_below(&rng, most + 1);
			__int128 due;

			now += rng_below(&rng, gap);
			if (mtier_bucket_pay(&b, now > skew ? now - skew : 0, rate, burst, 0))
				continue;
			mtier_bucket_pay(&b, now, rate, burst, bytes);
			due = (__int128)rate * now;
			lowest = i ? min_t(__int128, lowest, moved_e9 - due) : -due;
			moved_e9 += (__int128)bytes * PER_SEC;
			KUNIT_ASSERT_TRUE(test, moved_e9 - due - lowest <=
						(__int128)(burst + most) * PER_SEC +
						(__int128)rate * 1000);
		}
	}
}

/*
 * A caller that moves two MiB at a time, waits as requested and is woken slightly late
 * keeps the rate within 1 %.
 */
static void whoever_waits_keeps_the_rate(struct kunit *test)
{
	static const u64 rates[] = { MIB, 100 * MIB, 1024 * MIB, TIB };
	struct rng rng = rng_new(test);

	for (int i = 0; i < ARRAY_SIZE(rates); i++) {
		u64 rate = rates[i], burst = max_t(u64, rate / 16, 2 * MIB);
		u64 end = rate > MIB ? 20 * PER_SEC : 2000 * PER_SEC;
		u64 now = 0, moved = 0, ns;
		struct mtier_bucket b = { };

		while (now < end) {
			moved += 2 * MIB;
			ns = mtier_bucket_pay(&b, now, rate, burst, 2 * MIB);
			while (ns) {
				now += ns + rng_below(&rng, 100000);
				ns = mtier_bucket_pay(&b, now, rate, burst, 0);
			}
		}
		KUNIT_EXPECT_LE(test, moved, 1.01 * rate * now / PER_SEC);
		KUNIT_EXPECT_GE(test, moved, 0.99 * rate * now / PER_SEC);
	}
}

/* ---- picker -------------------------------------------------------------- */

#define SLOTS	32

/*
 * 1 to SLOTS weights, some zero, with a sum of at most a few thousand; returns the sum.
 */
static u32 random_weights(struct rng *rng, u32 *weights, unsigned int *n)
{
	u32 total = 0;

	*n = 1 + rng_below(rng, SLOTS);
	for (unsigned int i = 0; i < *n; i++) {
		u32 most = rng_below(rng, 2) ? 2 : 100;

		weights[i] = rng_below(rng, most + 1);
		total += weights[i];
	}
	return total;
}

/* With any weights, from any point of the cycle. */
static void picks_stay_near_the_share(struct kunit *test)
{
	struct rng rng = rng_new(test);
	u32 weights[SLOTS];
	unsigned int n;

	for (int round = 0; round < 300; round++) {
		s64 total = random_weights(&rng, weights, &n);
		s64 picked[SLOTS] = { };
		u32 turn = rng_wild(&rng);

		for (s64 k = 1; total && k <= 2000; k++) {
			int slot = mtier_target_pick(&turn, weights, n);

			KUNIT_ASSERT_GT(test, weights[slot], 0);
			picked[slot]++;
			for (unsigned int i = 0; i < n; i++) {
				s64 lag = k * weights[i] - picked[i] * total;

				KUNIT_ASSERT_LT(test, lag, 5 * total);
				KUNIT_ASSERT_GT(test, lag, -5 * total);
			}
		}
	}
}

/* A million picks, of weights that fill their range. */
static void picks_stay_near_the_share_for_long(struct kunit *test)
{
	const u32 weights[3] = { U32_MAX, U32_MAX / 3, 12345678 };
	double total = (double)weights[0] + weights[1] + weights[2];
	s64 picked[3] = { };
	u32 turn = 0;

	for (int k = 1; k <= 1000000; k++) {
		picked[mtier_target_pick(&turn, weights, 3)]++;
		for (int i = 0; i < 3; i++) {
			KUNIT_ASSERT_LT(test, picked[i], k * (weights[i] / total) + 6);
			KUNIT_ASSERT_GT(test, picked[i], k * (weights[i] / total) - 6);
		}
	}
}

/*
 * Slots masked out at random: the others get their shares of the rest, within the limits
 * of chance.
 */
static void picks_survive_masks(struct kunit *test)
{
	const u32 weights[4] = { 8, 4, 2, 1 };
	struct rng rng = rng_new(test);
	double due[4] = { };
	s64 picked[4] = { };
	u32 turn = 0;

	for (int k = 0; k < 100000; k++) {
		u32 masked[4], mask = 1 + rng_below(&rng, 15), total = 0;

		for (int i = 0; i < 4; i++) {
			masked[i] = mask >> i & 1 ? weights[i] : 0;
			total += masked[i];
		}
		for (int i = 0; i < 4; i++)
			due[i] += (double)masked[i] / total;
		picked[mtier_target_pick(&turn, masked, 4)]++;
	}
	for (int i = 0; i < 4; i++) {
		KUNIT_EXPECT_LT(test, picked[i], 1.02 * due[i]);
		KUNIT_EXPECT_GT(test, picked[i], 0.98 * due[i]);
	}
}

/* Counting long past the range of a weight keeps the proportions. */
static void weights_outlast_their_range(struct kunit *test)
{
	u32 weights[3] = { };

	for (int i = 0; i < 100000; i++) {
		mtier_weights_add(weights, 3, 0, 1000000);
		mtier_weights_add(weights, 3, 1, 3000000);
	}
	KUNIT_EXPECT_GT(test, weights[1], U32_MAX / 4);
	KUNIT_EXPECT_GE(test, (double)weights[1] / weights[0], 2.99);
	KUNIT_EXPECT_LE(test, (double)weights[1] / weights[0], 3.01);
	KUNIT_EXPECT_EQ(test, weights[2], 0);
}

/*
 * All memory was on node 0, the threads run on both: as accesses follow pages and pages
 * follow the mix, memory is spread like the threads at the end.
 */
static void memory_spreads_to_its_threads(struct kunit *test)
{
	u32 history[2] = { 1000, 0 }, weights[2];
	const u32 threads[2] = { 24, 8 };
	u32 pages[2] = { 1000, 0 }, turn = 0;

	for (int round = 0; round < 100; round++) {
		mtier_weights_mix(history, threads, weights, 2);
		for (int i = 0; i < 1000; i++)
			pages[mtier_target_pick(&turn, weights, 2)]++;
		mtier_weights_decay(history, 2);
		mtier_weights_add(history, 2, 0, pages[0]);
		mtier_weights_add(history, 2, 1, pages[1]);
	}
	kunit_info(test, "pages %u : %u for threads 24 : 8", pages[0], pages[1]);
	KUNIT_EXPECT_LE(test, pages[0] * 100 / (pages[0] + pages[1]), 80);
	KUNIT_EXPECT_GE(test, pages[0] * 100 / (pages[0] + pages[1]), 75);
}

/* ---- everything ---------------------------------------------------------- */

/* No input traps or runs into undefined behaviour; results stay in range. */
static void no_input_is_fatal(struct kunit *test)
{
	struct rng rng = rng_new(test);

	for (int round = 0; round < 200000; round++) {
		u64 a = rng_wild(&rng), b = rng_wild(&rng), c = rng_wild(&rng), d = rng_wild(&rng);
		struct mtier_bucket bucket = { rng_below(&rng, 2) ? (s64)(a >> 12) :
					       -(s64)(a >> 12), b };
		u32 weights[4] = { a, b, c, d }, threads[4] = { d, c, b, a }, mixed[4];
		u32 turn;
		int slot;

		KUNIT_ASSERT_LE(test, mtier_bucket_pay(&bucket, a, b, c, d), PER_SEC);
		KUNIT_ASSERT_LE(test, mtier_bucket_pay(&bucket, d, c, a, b), PER_SEC);
		mtier_weights_mix(weights, weights, mixed, 0);
		mtier_weights_mix(weights, threads, mixed, 4);
		mtier_weights_add(mixed, 4, a % 5, b);
		turn = rng_wild(&rng);
		slot = mtier_target_pick(&turn, weights, 4);
		KUNIT_ASSERT_EQ(test, slot < 0, !((u32)a | (u32)b | (u32)c | (u32)d));
		KUNIT_ASSERT_TRUE(test, slot < 0 || weights[slot]);
	}
}

static struct kunit_case random_cases[] = {
	KUNIT_CASE(bucket_bounds_every_window),
	KUNIT_CASE(whoever_waits_keeps_the_rate),
	KUNIT_CASE(picks_stay_near_the_share),
	KUNIT_CASE(picks_stay_near_the_share_for_long),
	KUNIT_CASE(picks_survive_masks),
	KUNIT_CASE(weights_outlast_their_range),
	KUNIT_CASE(memory_spreads_to_its_threads),
	KUNIT_CASE(no_input_is_fatal),
	{ }
};

static struct kunit_suite random_suite = {
	.name = "mtier_policy_random",
	.test_cases = random_cases,
};

kunit_test_suite(random_suite);

// SPDX-License-Identifier: GPL-2.0
/*
 * Worked examples and corner cases of the rate limit and the choice of target nodes,
 * ../policy.c, fast enough for a booting guest. tools/testing/mtier runs the same
 * file in user space, and also random and long tests.
 */
#include <kunit/test.h>

#include "../policy.h"

#define PER_SEC		1000000000ULL
#define MIB		BIT_ULL(20)
#define TIB		BIT_ULL(40)

/* ---- bucket -------------------------------------------------------------- */

static const struct refill_case {
	const char *desc;
	u64 rate;
	u64 every_ns;
} refill_cases[] = {
	{ "1 MiB/s, every ms", MIB, 1000000 },
	{ "1 GiB/s, every us", 1024 * MIB, 1000 },
	{ "1 TiB/s, every us", TIB, 1000 },
	{ "odd rate, odd time", 999999937, 99989 },
	{ "1 GiB/s, every second", 1024 * MIB, PER_SEC },
};

KUNIT_ARRAY_PARAM_DESC(refill, refill_cases, desc);

/* The time between two calls earns exactly the bytes of the rate. */
static void bucket_pays_the_rate(struct kunit *test)
{
	const struct refill_case *c = test->param_value;
	u64 now = 12345, earned = mul_u64_u64_div_u64(c->rate, c->every_ns, PER_SEC);
	struct mtier_bucket b = { .stamp_ns = now };

	for (u64 i = 0; i < 20000; i++) {
		now += c->every_ns;
		KUNIT_ASSERT_EQ(test, mtier_bucket_pay(&b, now, c->rate, TIB, earned), 0);
	}
	KUNIT_EXPECT_EQ(test, b.tokens, 0);
	KUNIT_EXPECT_GT(test, mtier_bucket_pay(&b, now, c->rate, TIB, 1), 0);
}

static void bucket_saves_no_more_than_burst(struct kunit *test)
{
	struct mtier_bucket b = { };

	KUNIT_EXPECT_EQ(test, mtier_bucket_pay(&b, 3600 * PER_SEC, MIB, 5000, 5000), 0);
	KUNIT_EXPECT_GT(test, mtier_bucket_pay(&b, 3600 * PER_SEC, MIB, 5000, 1), 0);
	KUNIT_EXPECT_EQ(test, mtier_bucket_pay(&b, U64_MAX - 1, U64_MAX, 5000, 3000), 0);
	KUNIT_EXPECT_EQ(test, b.tokens, 2000);
	/* a smaller burst limit takes effect at the next later call */
	KUNIT_EXPECT_EQ(test, mtier_bucket_pay(&b, U64_MAX, MIB, 100, 0), 0);
	KUNIT_EXPECT_EQ(test, b.tokens, 100);
}

static void bucket_pays_no_time_twice(struct kunit *test)
{
	struct mtier_bucket b = { };

	/* two CPUs, the clock of one always 50 us behind the other */
	for (u64 now = 1000000; now <= PER_SEC; now += 1000000) {
		mtier_bucket_pay(&b, now, 1000000, MIB, 0);
		mtier_bucket_pay(&b, now - 50000, 1000000, MIB, 0);
	}
	KUNIT_EXPECT_EQ(test, b.tokens, 1000000);
}

static void bucket_rate_changes_live(struct kunit *test)
{
	struct mtier_bucket b = { };

	KUNIT_EXPECT_EQ(test, mtier_bucket_pay(&b, PER_SEC, 0, MIB, 2000), PER_SEC);
	/* the time at rate zero earned nothing */
	KUNIT_EXPECT_EQ(test, mtier_bucket_pay(&b, 2 * PER_SEC, 1000, MIB, 0), PER_SEC);
	KUNIT_EXPECT_EQ(test, b.tokens, -1000);
	KUNIT_EXPECT_EQ(test, mtier_bucket_pay(&b, 2 * PER_SEC, 2000, MIB, 0), PER_SEC / 2 + 1);
	KUNIT_EXPECT_EQ(test, mtier_bucket_pay(&b, 3 * PER_SEC, 2000, MIB, 0), 0);
}

static const struct wait_case {
	const char *desc;
	u64 rate, burst, bytes;
} wait_cases[] = {
	{ "a page at 1 MiB/s", MIB, MIB, 4096 },
	{ "2 MiB at 1 TiB/s", TIB, TIB, 2 * MIB },
	{ "more than the burst", MIB, 1000, MIB },
	{ "more than a second", MIB, MIB, 5 * MIB },
	{ "a byte", 3, MIB, 1 },
	{ "burst zero", MIB, 0, 1 },
};

KUNIT_ARRAY_PARAM_DESC(wait, wait_cases, desc);

static void bucket_wait_is_enough_and_no_more(struct kunit *test)
{
	const struct wait_case *c = test->param_value;
	u64 one_byte = PER_SEC / c->rate + 2, now = 77, ns;
	struct mtier_bucket b = { .stamp_ns = now }, early;

	for (int i = 0; i < 1000; i++) {
		ns = mtier_bucket_pay(&b, now, c->rate, c->burst, c->bytes);
		KUNIT_ASSERT_LE(test, ns, PER_SEC);
		while (ns) {
			early = b;
			if (ns > one_byte && ns < PER_SEC)
				KUNIT_ASSERT_GT(test, mtier_bucket_pay(&early, now + ns - one_byte,
								       c->rate, c->burst, 0), 0);
			now += ns;
			ns = mtier_bucket_pay(&b, now, c->rate, c->burst, 0);
		}
	}
}

/* Debts saturate, so that each is reported and can be paid. */
static void bucket_bounds_a_debt(struct kunit *test)
{
	struct mtier_bucket b = { .stamp_ns = 5 };

	for (int i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, mtier_bucket_pay(&b, 5, 1, U64_MAX, U64_MAX), PER_SEC);
	KUNIT_EXPECT_EQ(test, mtier_bucket_pay(&b, 2 * PER_SEC, U64_MAX, U64_MAX, 0), 0);
	KUNIT_EXPECT_GT(test, b.tokens, 0);
}

/* ---- picker -------------------------------------------------------------- */

#define SLOTS_MAX	8

static const struct picker_case {
	const char *desc;
	unsigned int n;
	u32 weights[SLOTS_MAX];
} picker_cases[] = {
	{ "six of many weights", 6, { 87, 1, 4, 36, 9, 87 } },
	{ "five to one", 3, { 5, 1, 1 } },
	{ "with a hole", 4, { 3, 0, 2, 0 } },
	{ "large and small", 8, { 993, 1, 1, 1, 1, 1, 1, 1 } },
	{ "primes", 8, { 2, 3, 5, 7, 11, 13, 17, 19 } },
	{ "sockets", 2, { 49152, 16384 } },
	{ "large numbers", 3, { U32_MAX, U32_MAX, U32_MAX } },
};

KUNIT_ARRAY_PARAM_DESC(picker, picker_cases, desc);

static void picker_stays_near_the_share(struct kunit *test)
{
	const struct picker_case *c = test->param_value;
	s64 picked[SLOTS_MAX] = { };
	s64 total = 0;
	u32 turn = 0;

	for (int i = 0; i < c->n; i++)
		total += c->weights[i];
	for (s64 k = 1; k <= 5000; k++) {
		int slot = mtier_target_pick(&turn, c->weights, c->n);

		KUNIT_ASSERT_GE(test, slot, 0);
		KUNIT_ASSERT_LT(test, slot, c->n);
		KUNIT_ASSERT_GT(test, c->weights[slot], 0);
		picked[slot]++;
		for (int i = 0; i < c->n; i++) {
			s64 lag = k * c->weights[i] - picked[i] * total;

			KUNIT_ASSERT_LT(test, lag, 4 * total);
			KUNIT_ASSERT_GT(test, lag, -4 * total);
		}
	}
}

static void picker_needs_a_weight(struct kunit *test)
{
	const u32 none[2] = { }, second[2] = { 0, 9 };
	u32 turn = 0;

	for (int i = 0; i < 100; i++) {
		KUNIT_EXPECT_EQ(test, mtier_target_pick(&turn, none, 2), -1);
		KUNIT_EXPECT_EQ(test, mtier_target_pick(&turn, none, 0), -1);
		KUNIT_EXPECT_EQ(test, mtier_target_pick(&turn, second, 2), 1);
	}
}

static void picker_follows_changes(struct kunit *test)
{
	const u32 weights[3][2] = { { 3, 1 }, { 3000000, 1000000 }, { 3, 0 } };
	unsigned int picked[3][2] = { };
	u32 turn = 0;

	for (int i = 0; i < 6000; i++)
		picked[i % 3][mtier_target_pick(&turn, weights[i % 3], 2)]++;
	for (int i = 0; i < 2; i++) {
		KUNIT_EXPECT_GE(test, picked[i][0], 1490);
		KUNIT_EXPECT_LE(test, picked[i][0], 1510);
	}
	KUNIT_EXPECT_EQ(test, picked[2][1], 0);
}

static void weights_mix_by_share(struct kunit *test)
{
	const u32 left[2] = { 1000000, 0 }, even[2] = { 2, 2 }, none[2] = { };
	const u32 small[2] = { U32_MAX, 1 };
	u32 out[2];

	mtier_weights_mix(left, even, out, 2);
	KUNIT_EXPECT_EQ(test, out[0], 3 * out[1]);
	mtier_weights_mix(left, none, out, 2);
	KUNIT_EXPECT_GT(test, out[0], 0);
	KUNIT_EXPECT_EQ(test, out[1], 0);
	mtier_weights_mix(none, even, out, 2);
	KUNIT_EXPECT_GT(test, out[0], 0);
	KUNIT_EXPECT_EQ(test, out[0], out[1]);
	mtier_weights_mix(none, none, out, 2);
	KUNIT_EXPECT_EQ(test, out[0] + out[1], 0);
	mtier_weights_mix(small, none, out, 2);
	KUNIT_EXPECT_EQ(test, out[1], 1);
}

static void weights_keep_proportion(struct kunit *test)
{
	u32 w[3] = { 4000000000U, 2000000000U, 1 };

	mtier_weights_decay(w, 3);
	KUNIT_EXPECT_EQ(test, w[0], 2 * w[1]);
	KUNIT_EXPECT_EQ(test, w[2], 0);
	mtier_weights_add(w, 3, 3, 1);
	mtier_weights_add(w, 3, 2, 17);
	KUNIT_EXPECT_EQ(test, w[2], 17);
	mtier_weights_add(w, 3, 0, U32_MAX);
	KUNIT_EXPECT_EQ(test, w[0], 1000000000U + U32_MAX / 2);
	KUNIT_EXPECT_EQ(test, w[1], 500000000U);
	for (int i = 0; i < 32; i++)
		mtier_weights_decay(w, 3);
	KUNIT_EXPECT_EQ(test, w[0] + w[1] + w[2], 0);
}

static struct kunit_case mtier_policy_cases[] = {
	KUNIT_CASE_PARAM(bucket_pays_the_rate, refill_gen_params),
	KUNIT_CASE(bucket_saves_no_more_than_burst),
	KUNIT_CASE(bucket_pays_no_time_twice),
	KUNIT_CASE(bucket_rate_changes_live),
	KUNIT_CASE_PARAM(bucket_wait_is_enough_and_no_more, wait_gen_params),
	KUNIT_CASE(bucket_bounds_a_debt),
	KUNIT_CASE_PARAM(picker_stays_near_the_share, picker_gen_params),
	KUNIT_CASE(picker_needs_a_weight),
	KUNIT_CASE(picker_follows_changes),
	KUNIT_CASE(weights_mix_by_share),
	KUNIT_CASE(weights_keep_proportion),
	{ }
};

static struct kunit_suite mtier_policy_suite = {
	.name = "mtier_policy",
	.test_cases = mtier_policy_cases,
};

kunit_test_suite(mtier_policy_suite);

MODULE_DESCRIPTION("KUnit tests of how much memory tiering moves and where to");
MODULE_LICENSE("GPL");

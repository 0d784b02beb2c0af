// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of the policy under random and under exhaustive input: too long
 * for a booting guest, a second or two in user space.
 */
#include <kunit/test.h>

#include "policy.h"
#include "rng.h"

#define PER_SEC		1000000000ULL
#define MIB		BIT_ULL(20)
#define TIB		BIT_ULL(40)

/* ---- record -------------------------------------------------------------- */

/* The count of any record, after any rest, against the definition. */
static void heat_is_the_straight_line(struct kunit *test)
{
	static const u32 windows[] = { 1, 2, 3, 16, 80, 4689, MTIER_WINDOW_MAX };

	for (int i = 0; i < ARRAY_SIZE(windows); i++) {
		u32 window = windows[i];
		struct mtier_hot_params p = { .window_ticks = window, .accesses = 2 };

		for (u32 freq = 1; freq <= MTIER_FREQ_MAX; freq++) {
			enum mtier_verdict v;
			u32 rec = mtier_rec_touch(0, 777, &p, &v);

			rec |= 15 << 14;
			rec &= ~((15 - freq) << 14);
			KUNIT_ASSERT_EQ(test, mtier_rec_freq(rec), freq);
			for (u32 rest = 0; rest < 2 * window && rest < 16000; rest++) {
				u32 gone = (u64)freq * rest / window;
				u32 left = gone < freq && rest < window ? freq - gone : 0;

				u32 heat = mtier_rec_heat(rec, 777 + rest, window);

				KUNIT_ASSERT_EQ(test, heat, left);
			}
		}
	}
}

/* One more access never makes a page colder, now or later. */
static void touch_is_monotone(struct kunit *test)
{
	struct rng rng = rng_new(test);

	for (int round = 0; round < 20000; round++) {
		struct mtier_hot_params p = {
			.window_ticks = 2 + rng_below(&rng, 100),
			.accesses = 1 + rng_below(&rng, 4),
		};
		u32 skip = rng_below(&rng, 12), tick = rng_next(&rng);
		enum mtier_verdict v_all = MTIER_COLD, v_but_one = MTIER_COLD;
		u32 all = 0, but_one = 0;

		for (u32 i = 0; i < 12; i++) {
			tick += rng_below(&rng, p.window_ticks);
			all = mtier_rec_touch(all, tick, &p, &v_all);
			if (i == skip)
				continue;
			but_one = mtier_rec_touch(but_one, tick, &p, &v_but_one);
			KUNIT_ASSERT_GE(test, v_all, v_but_one);
		}
		for (u32 rest = 0; rest <= p.window_ticks; rest++)
			KUNIT_ASSERT_GE(test, mtier_rec_heat(all, tick + rest, p.window_ticks),
					mtier_rec_heat(but_one, tick + rest, p.window_ticks));
	}
}

/* With a threshold of two the verdict is exact, whatever the history. */
static void two_accesses_are_exact(struct kunit *test)
{
	struct rng rng = rng_new(test);

	for (int round = 0; round < 2000; round++) {
		struct mtier_hot_params p = {
			.window_ticks = 1 + rng_below(&rng, 300), .accesses = 2,
		};
		u32 rec = 0, tick = rng_next(&rng);

		for (int i = 0; i < 50; i++) {
			u32 gap = 1 + rng_below(&rng, 2 * p.window_ticks);
			enum mtier_verdict v;

			tick += gap;
			rec = mtier_rec_touch(rec, tick, &p, &v);
			KUNIT_ASSERT_EQ(test, v == MTIER_HOT, i && gap < p.window_ticks);
		}
	}
}

/* ---- pace ---------------------------------------------------------------- */

static void pace_stays_in_bounds(struct kunit *test)
{
	struct rng rng = rng_new(test);

	for (int round = 0; round < 20000; round++) {
		u32 a = rng_wild(&rng), b = rng_wild(&rng), c = rng_wild(&rng), d = rng_wild(&rng);
		struct mtier_pace_bounds bounds = {
			min_t(u32, a, b), max_t(u32, a, b), min_t(u32, c, d), max_t(u32, c, d),
		};
		struct mtier_pace p;

		mtier_pace_init(&p, rng_wild(&rng), rng_wild(&rng), &bounds);
		for (int i = 0; i < 20; i++) {
			if (i)
				mtier_pace_adapt(&p, rng_below(&rng, 2), &bounds);
			if (!rng_below(&rng, 4))
				mtier_pace_backoff(&p, &bounds);
			KUNIT_ASSERT_GE(test, p.period_ms, bounds.period_min_ms);
			KUNIT_ASSERT_LE(test, p.period_ms, bounds.period_max_ms);
			KUNIT_ASSERT_GE(test, p.size_mb, bounds.size_min_mb);
			KUNIT_ASSERT_LE(test, p.size_mb, bounds.size_max_mb);
		}
	}
}

static void cpu_share_is_never_exceeded(struct kunit *test)
{
	struct rng rng = rng_new(test);

	for (u32 percent = 1; percent <= 100; percent++) {
		u64 ran = 0, all = 0;

		for (int i = 0; i < 2000; i++) {
			u64 slice = 1 + rng_below(&rng, 100000);

			ran += slice;
			all += slice + mtier_cpu_pause_ns(slice, percent);
			KUNIT_ASSERT_LE(test, ran * 100, all * percent);
		}
		/* and not far undercut: each pause is rounded by less than a ns */
		KUNIT_ASSERT_GE(test, ran * 100 + 2000 * 100, all * percent);
	}
}

/* ---- bucket -------------------------------------------------------------- */

/*
 * Who waits as told, though woken early now and then, and whose clock is a little
 * behind: in every stretch of time between two moves no more is moved than rate *
 * time + burst + what is moved at a time. It is enough to follow how far moves are
 * ahead of the rate, and how little that ever was; 128 bits hold bytes * ns exactly.
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
 * A migrator that moves two MiB at a time, waits as told and is woken a little late
 * keeps the rate within 1 %.
 */
static void migrator_keeps_the_rate(struct kunit *test)
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

/* 1 to SLOTS weights, some zero, their sum at most a few thousand; the sum. */
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

/* Whatever the weights, and wherever in the cycle it begins. */
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

/* Slots masked out at random: everyone gets its share of the rest, as far as chance goes. */
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

/* ---- everything ---------------------------------------------------------- */

/* No input traps or runs into undefined behaviour; results stay in range. */
static void no_input_is_fatal(struct kunit *test)
{
	struct rng rng = rng_new(test);

	for (int round = 0; round < 200000; round++) {
		u64 a = rng_wild(&rng), b = rng_wild(&rng), c = rng_wild(&rng), d = rng_wild(&rng);
		struct mtier_hot_params hot = { a, b, c & 1, c & 2 };
		struct mtier_bucket bucket = { rng_below(&rng, 2) ? (s64)(a >> 12) :
					       -(s64)(a >> 12), b };
		struct mtier_pace_bounds bounds = { a, b, c, d };
		u32 weights[4] = { a, b, c, d }, threads[4] = { d, c, b, a }, mixed[4];
		enum mtier_verdict v;
		u32 rec, turn;
		bool cold;
		int slot;

		rec = mtier_rec_touch(c, d, &hot, &v);
		KUNIT_ASSERT_NE(test, rec, 0);
		KUNIT_ASSERT_GE(test, mtier_rec_freq(rec), 1);
		KUNIT_ASSERT_EQ(test, mtier_rec_is_hot(rec, d, &hot), v == MTIER_HOT);
		KUNIT_ASSERT_EQ(test, mtier_rec_age(rec, d, a), rec);
		mtier_rec_age(c, a, b);
		KUNIT_ASSERT_EQ(test, mtier_rec_freq(rec),
				mtier_rec_freq(mtier_rec_claim(rec, a, &cold)));
		rec = mtier_rec_told(c, d, &hot);
		KUNIT_ASSERT_GE(test, mtier_rec_freq(rec), clamp_t(u32, hot.accesses, 1,
								   MTIER_FREQ_MAX));
		KUNIT_ASSERT_EQ(test, mtier_rec_is_hot(rec, d, &hot),
				hot.room || hot.accesses <= MTIER_FREQ_MAX);
		KUNIT_ASSERT_EQ(test, mtier_rec_age(rec, d, a), rec);
		mtier_room(a, b, c, d);
		KUNIT_ASSERT_GE(test, mtier_window_adjust(a, b, c, d), 1);
		KUNIT_ASSERT_GE(test, mtier_pace_scale(a, b), 1);
		mtier_cpu_pause_ns(a, b);
		mtier_pressure(a, b, c & 1);
		KUNIT_ASSERT_LE(test, mtier_probe_ms(a), 256);
		KUNIT_ASSERT_LE(test, mtier_probe_adapt(a, b, c, d),
				MTIER_PROBE_MAX);
		KUNIT_ASSERT_GE(test, mtier_probe_window_ms(a, b), (u32)a);
		KUNIT_ASSERT_GE(test, mtier_visit_mb(a, b, &bounds), (u32)a);
		KUNIT_ASSERT_LE(test, mtier_visit_mb(a, b, &bounds),
				max_t(u32, a, bounds.size_max_mb));
		mtier_may_queue(a, b, c & 1);
		rec = mtier_cold_look(c, d, b & 1, &hot, &cold);
		KUNIT_ASSERT_EQ(test, cold, (b & 1) && mtier_rec_freq(rec) >=
				max_t(u32, hot.accesses, 1));
		KUNIT_ASSERT_EQ(test, !rec, !(b & 1));
		KUNIT_ASSERT_GE(test, mtier_cold_window_ms(a, b),
				min_t(u32, a, (u32)b ? U32_MAX : 0));
		KUNIT_ASSERT_LE(test, mtier_exchange_accesses(a, b & 1),
				MTIER_FREQ_MAX);
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
	KUNIT_CASE(heat_is_the_straight_line),
	KUNIT_CASE(touch_is_monotone),
	KUNIT_CASE(two_accesses_are_exact),
	KUNIT_CASE(pace_stays_in_bounds),
	KUNIT_CASE(cpu_share_is_never_exceeded),
	KUNIT_CASE(bucket_bounds_every_window),
	KUNIT_CASE(migrator_keeps_the_rate),
	KUNIT_CASE(picks_stay_near_the_share),
	KUNIT_CASE(picks_stay_near_the_share_for_long),
	KUNIT_CASE(picks_survive_masks),
	KUNIT_CASE(weights_outlast_their_range),
	KUNIT_CASE(no_input_is_fatal),
	{ }
};

static struct kunit_suite random_suite = {
	.name = "mtier_policy_random",
	.test_cases = random_cases,
};

kunit_test_suite(random_suite);

// SPDX-License-Identifier: GPL-2.0
/*
 * Worked examples and corner cases of the decisions of memory tiering, fast
 * enough for a booting guest.  tools/testing/mtier runs the same file in user
 * space, beside random and long tests.
 */
#include <kunit/test.h>

#include "../policy.h"

#define PER_SEC		1000000000ULL
#define MIB		BIT_ULL(20)
#define TIB		BIT_ULL(40)

static const struct mtier_hot_params two_in_ten = {
	.window_ticks = 10, .accesses = 2,
};

static enum mtier_verdict touch(u32 *rec, u32 tick,
				const struct mtier_hot_params *p)
{
	enum mtier_verdict v;

	*rec = mtier_rec_touch(*rec, tick, p, &v);
	return v;
}

/* ---- record -------------------------------------------------------------- */

static void rec_keeps_its_fields(struct kunit *test)
{
	static const u32 ticks[] = { 0, 1, 8191, 16383, 16384, 0xffffffff };
	enum mtier_verdict v;

	for (int i = 0; i < ARRAY_SIZE(ticks); i++) {
		u32 rec = mtier_rec_touch(0, ticks[i], &two_in_ten, &v);

		KUNIT_EXPECT_NE(test, rec, 0);
		KUNIT_EXPECT_EQ(test, mtier_rec_freq(rec), 1);
		KUNIT_EXPECT_EQ(test, mtier_rec_heat(rec, ticks[i] + 9, 10), 1);
		KUNIT_EXPECT_EQ(test, mtier_rec_heat(rec, ticks[i] + 10, 10), 0);
	}
}

static void rec_unused_says_nothing(struct kunit *test)
{
	u32 junk = 0xffffffff & ~MTIER_REC_VALID; /* not only 0 is unused */

	KUNIT_EXPECT_EQ(test, mtier_rec_heat(junk, 16383, 10), 0);
	KUNIT_EXPECT_FALSE(test, mtier_rec_is_hot(junk, 16383, &two_in_ten));
	KUNIT_EXPECT_EQ(test, mtier_rec_age(junk, 16383, 10), 0);
	KUNIT_EXPECT_EQ(test, touch(&junk, 16383, &two_in_ten), MTIER_COLD);
}

static void rec_second_access_decides(struct kunit *test)
{
	u32 near = 0, far = 0;

	KUNIT_EXPECT_EQ(test, touch(&near, 100, &two_in_ten), MTIER_COLD);
	KUNIT_EXPECT_EQ(test, touch(&near, 109, &two_in_ten), MTIER_HOT);

	/* touched again and again, but never twice in a window: a stream */
	for (u32 tick = 100; tick < 100000; tick += 10)
		KUNIT_EXPECT_EQ(test, touch(&far, tick, &two_in_ten), MTIER_COLD);
}

/* Told that it is hot, whatever was counted, and no less than was counted. */
static void rec_believes_who_is_told(struct kunit *test)
{
	static const u8 accesses[] = { 0, 1, 2, 9, 15, 255 };

	for (int i = 0; i < ARRAY_SIZE(accesses); i++) {
		struct mtier_hot_params p = { .window_ticks = 10, .accesses = accesses[i] };
		u32 enough = clamp_t(u32, accesses[i], 1, MTIER_FREQ_MAX);
		u32 rec = mtier_rec_told(0, 100, &p);

		KUNIT_EXPECT_EQ(test, mtier_rec_freq(rec), enough);
		KUNIT_EXPECT_EQ(test, mtier_rec_is_hot(rec, 109, &p), accesses[i] <= 15);
		KUNIT_EXPECT_FALSE(test, mtier_rec_is_hot(rec, 110, &p));
		/* Again at once: no more than before; later: an access more. */
		KUNIT_EXPECT_EQ(test, mtier_rec_told(rec, 100, &p), rec);
		KUNIT_EXPECT_EQ(test, mtier_rec_freq(mtier_rec_told(rec, 101, &p)),
				min_t(u32, enough + 1, MTIER_FREQ_MAX));
	}
}

static void rec_first_access_suffices_with_room(struct kunit *test)
{
	struct mtier_hot_params roomy = { .window_ticks = 10, .accesses = 15, .room = true };
	struct mtier_hot_params eager = { .window_ticks = 10, .accesses = 0 };
	u32 a = 0, b = 0;

	KUNIT_EXPECT_EQ(test, touch(&a, 100, &roomy), MTIER_HOT);
	KUNIT_EXPECT_TRUE(test, mtier_rec_is_hot(a, 109, &roomy));
	KUNIT_EXPECT_FALSE(test, mtier_rec_is_hot(a, 110, &roomy));
	KUNIT_EXPECT_EQ(test, touch(&b, 100, &eager), MTIER_HOT);
}

static void rec_one_tick_counts_once(struct kunit *test)
{
	u32 rec = 0;

	for (int i = 0; i < 512; i++)
		KUNIT_EXPECT_EQ(test, touch(&rec, 7, &two_in_ten), MTIER_COLD);
	KUNIT_EXPECT_EQ(test, mtier_rec_freq(rec), 1);
	KUNIT_EXPECT_EQ(test, touch(&rec, 8, &two_in_ten), MTIER_HOT);
}

static const struct rate_case {
	const char *desc;
	u32 spacing;
	u32 count;
} rate_cases[] = {
	{ "every tick, saturated", 1, MTIER_FREQ_MAX },
	{ "15 in a window", 4, 15 },
	{ "10 in a window", 6, 10 },
	{ "4 in a window", 15, 4 },
	{ "3 in a window", 20, 3 },
	{ "2 in a window", 30, 2 },
	{ "barely 2 in a window", 59, 2 },
	{ "1 in a window", 60, 1 },
	{ "1 in five windows", 300, 1 },
};

KUNIT_ARRAY_PARAM_DESC(rate, rate_cases, desc);

/* Evenly spaced accesses settle at exactly their number in a window of 60. */
static void rec_counts_accesses_in_window(struct kunit *test)
{
	const struct rate_case *c = test->param_value;
	struct mtier_hot_params p = { .window_ticks = 60, .accesses = 2 };
	u32 rec = 0, tick = 0;

	for (int i = 0; i < 40; i++, tick += c->spacing)
		touch(&rec, tick, &p);
	for (int i = 0; i < 400; i++, tick += c->spacing) {
		touch(&rec, tick, &p);
		KUNIT_EXPECT_EQ(test, mtier_rec_freq(rec), c->count);
	}
}

static void rec_heat_falls_to_zero(struct kunit *test)
{
	u32 rec = 0, last = MTIER_FREQ_MAX;

	for (u32 tick = 0; tick < 20; tick++)
		touch(&rec, tick, &two_in_ten);
	KUNIT_EXPECT_EQ(test, mtier_rec_heat(rec, 19, 100), 10);

	for (u32 rest = 0; rest <= 100; rest++) {
		u32 heat = mtier_rec_heat(rec, 19 + rest, 100);

		KUNIT_EXPECT_LE(test, heat, last);
		KUNIT_EXPECT_EQ(test, heat, (10 * (100 - rest) + 99) / 100);
		last = heat;
	}
	KUNIT_EXPECT_EQ(test, last, 0);
}

static void rec_waits_a_window_in_the_queue(struct kunit *test)
{
	struct mtier_hot_params strict = { .window_ticks = 10, .accesses = 3 };
	u32 rec = 0;

	touch(&rec, 100, &two_in_ten);
	KUNIT_EXPECT_FALSE(test, mtier_rec_is_hot(rec, 100, &two_in_ten));
	touch(&rec, 105, &two_in_ten);
	KUNIT_EXPECT_TRUE(test, mtier_rec_is_hot(rec, 105, &two_in_ten));
	KUNIT_EXPECT_TRUE(test, mtier_rec_is_hot(rec, 114, &two_in_ten));
	KUNIT_EXPECT_FALSE(test, mtier_rec_is_hot(rec, 115, &two_in_ten));
	/* the threshold in force when it is looked at decides */
	KUNIT_EXPECT_FALSE(test, mtier_rec_is_hot(rec, 105, &strict));
}

static void rec_survives_clock_behind(struct kunit *test)
{
	u32 rec = 0;

	touch(&rec, 1000, &two_in_ten);
	/* a CPU that is behind neither counts nor turns the record back */
	KUNIT_EXPECT_EQ(test, touch(&rec, 998, &two_in_ten), MTIER_COLD);
	KUNIT_EXPECT_EQ(test, mtier_rec_heat(rec, 998, 10), 1);
	KUNIT_EXPECT_EQ(test, mtier_rec_heat(rec, 1009, 10), 1);
	KUNIT_EXPECT_EQ(test, mtier_rec_heat(rec, 1010, 10), 0);
	KUNIT_EXPECT_EQ(test, touch(&rec, 1009, &two_in_ten), MTIER_HOT);
}

static void rec_survives_tick_wrap(struct kunit *test)
{
	static const u32 wraps[] = { 1 << MTIER_TICK_BITS, 0 /* of the u32 */ };

	for (int i = 0; i < ARRAY_SIZE(wraps); i++) {
		u32 rec = 0;

		touch(&rec, wraps[i] - 3, &two_in_ten);
		KUNIT_EXPECT_EQ(test, mtier_rec_heat(rec, wraps[i] + 6, 10), 1);
		KUNIT_EXPECT_EQ(test, mtier_rec_heat(rec, wraps[i] + 7, 10), 0);
		KUNIT_EXPECT_EQ(test, touch(&rec, wraps[i] + 6, &two_in_ten), MTIER_HOT);
	}
}

static void rec_ages_out_before_it_looks_new(struct kunit *test)
{
	struct mtier_hot_params longest = { .window_ticks = MTIER_WINDOW_MAX, .accesses = 1 };
	u32 quarter = (1 << MTIER_TICK_BITS) / 4;

	/* whatever the phase of the calls, a record dies and stays dead */
	for (u32 phase = 1; phase <= quarter; phase += 37) {
		u32 rec = 0;

		touch(&rec, 5000, &longest);
		for (u32 rest = phase; rest < 20 * quarter; rest += quarter) {
			rec = mtier_rec_age(rec, 5000 + rest, MTIER_WINDOW_MAX);
			KUNIT_ASSERT_EQ(test, rec != 0, rest < MTIER_WINDOW_MAX);
		}
	}
}

/* Whoever comes first has it moved; after a while others may try. */
static void rec_is_claimed_by_one(struct kunit *test)
{
	static const u32 starts[] = { 0, 4095, 4096, 16383, 0xffffffff };
	bool mine;

	for (int i = 0; i < ARRAY_SIZE(starts); i++) {
		u32 rec = 0, t = starts[i];

		touch(&rec, t, &two_in_ten);
		rec = mtier_rec_claim(rec, t, &mine);
		KUNIT_EXPECT_TRUE(test, mine);
		touch(&rec, t + 1, &two_in_ten);
		KUNIT_EXPECT_EQ(test, mtier_rec_freq(rec), 2);
		KUNIT_EXPECT_EQ(test, mtier_rec_claim(rec, t + 1, &mine), rec);
		KUNIT_EXPECT_FALSE(test, mine);
		mtier_rec_claim(rec, t + MTIER_CLAIM_TICKS - 1, &mine);
		KUNIT_EXPECT_FALSE(test, mine);
		KUNIT_EXPECT_NE(test, mtier_rec_claim(rec, t + MTIER_CLAIM_TICKS,
						      &mine), rec);
		KUNIT_EXPECT_TRUE(test, mine);
		/* Forgotten with its accesses. */
		touch(&rec, t + 1 + 10, &two_in_ten);
		mtier_rec_claim(rec, t + 1 + 10, &mine);
		KUNIT_EXPECT_TRUE(test, mine);
	}
}

/* ---- window -------------------------------------------------------------- */

static void window_covers_its_ms(struct kunit *test)
{
	static const u32 windows[] = { 1, 100, 127, 128, 129, 400, 10000, 600000 };

	KUNIT_EXPECT_EQ(test, mtier_window_ticks(0), 1);
	KUNIT_EXPECT_EQ(test, mtier_window_ticks(10000), 80);
	KUNIT_EXPECT_EQ(test, mtier_window_ticks(U32_MAX), MTIER_WINDOW_MAX);
	KUNIT_EXPECT_EQ(test, mtier_tick(10 * 60 * 1000), 4687);

	for (int i = 0; i < ARRAY_SIZE(windows); i++) {
		for (u64 start = 10000; start < 10000 + MTIER_TICK_MS; start++) {
			u32 a = mtier_tick(start);
			u32 b = mtier_tick(start + windows[i]);

			KUNIT_ASSERT_LT(test, b - a, mtier_window_ticks(windows[i]));
			KUNIT_ASSERT_GE(test, b - a + 2, mtier_window_ticks(windows[i]));
		}
	}
}

static const struct room_case {
	const char *desc;
	u64 free, wmark, size;
	u32 percent;
	bool room;
} room_cases[] = {
	{ "just not enough", 1060, 1000, 1000, 6, false },
	{ "just enough", 1061, 1000, 1000, 6, true },
	{ "at the watermark", 1000, 1000, 1000, 0, false },
	{ "any page above it", 1001, 1000, 1000, 0, true },
	{ "100 is never ample", 1000, 0, 1, 100, false },
	{ "node without memory", 0, 0, 0, 6, false },
	{ "huge node, no", U64_MAX / 2, 0, U64_MAX, 50, false },
	{ "huge node, yes", U64_MAX / 2 + 1, 0, U64_MAX, 50, true },
};

KUNIT_ARRAY_PARAM_DESC(room, room_cases, desc);

static void room_is_a_share_above_the_watermark(struct kunit *test)
{
	const struct room_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, mtier_room(c->free, c->wmark, c->size, c->percent), c->room);
}

static const struct adjust_case {
	const char *desc;
	u32 cur, ref;
	u64 candidates, budget;
	u32 next;
} adjust_cases[] = {
	{ "not yet set", 0, 80, 100, 100, 80 },
	{ "too many", 80, 80, 111, 100, 70 },
	{ "a few too many", 80, 80, 110, 100, 80 },
	{ "too few", 80, 80, 89, 100, 90 },
	{ "at least a sixteenth", 10, 80, 1000, 100, 5 },
	{ "at most the double", 155, 80, 0, 100, 160 },
	{ "reference was lowered", 1000, 80, 100, 100, 160 },
	{ "reference was raised", 1, 1600, 100, 100, 100 },
	{ "nothing allowed, some wanted", 80, 80, 1, 0, 70 },
	{ "no reference", 0, 0, 0, 100, 1 },
	{ "largest of all, up", U32_MAX, U32_MAX, 0, U64_MAX, U32_MAX },
	{ "largest of all, stay", U32_MAX, U32_MAX, U64_MAX, U64_MAX, U32_MAX },
};

KUNIT_ARRAY_PARAM_DESC(adjust, adjust_cases, desc);

static void window_follows_demand(struct kunit *test)
{
	const struct adjust_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, mtier_window_adjust(c->cur, c->ref, c->candidates, c->budget),
			c->next);
}

/* ---- pace ---------------------------------------------------------------- */

static const struct mtier_pace_bounds bounds = {
	.period_min_ms = 400, .period_max_ms = 5000,
	.size_min_mb = 256, .size_max_mb = 4096,
};

static const struct pace_case {
	const char *desc;
	struct mtier_pace before;
	bool useful;
	struct mtier_pace after;
} pace_cases[] = {
	{ "useful, useful", { 2000, 1024, true }, true, { 1700, 2048, true } },
	{ "empty, empty", { 2000, 1024, false }, false, { 2300, 512, false } },
	{ "empty, useful", { 4000, 1024, false }, true, { 500, 4096, true } },
	{ "useful, empty", { 500, 1024, true }, false, { 4000, 1024, false } },
	{ "at the fast end", { 400, 4096, true }, true, { 400, 4096, true } },
	{ "at the slow end", { 5000, 256, false }, false, { 5000, 256, false } },
	{ "below the bounds", { 0, 0, true }, true, { 400, 256, true } },
	{ "beyond the bounds", { U32_MAX, U32_MAX, true }, false, { 5000, 4096, false } },
};

KUNIT_ARRAY_PARAM_DESC(pace, pace_cases, desc);

static void pace_follows_what_is_found(struct kunit *test)
{
	const struct pace_case *c = test->param_value;
	struct mtier_pace p = c->before;

	mtier_pace_adapt(&p, c->useful, &bounds);
	KUNIT_EXPECT_EQ(test, p.period_ms, c->after.period_ms);
	KUNIT_EXPECT_EQ(test, p.size_mb, c->after.size_mb);
	KUNIT_EXPECT_EQ(test, p.useful, c->after.useful);
}

static void pace_reaches_both_ends(struct kunit *test)
{
	struct mtier_pace_bounds wide = { 1, U32_MAX, 1, U32_MAX };
	struct mtier_pace p;

	mtier_pace_init(&p, 2000, 1024, &wide);
	for (int i = 0; i < 250; i++)
		mtier_pace_adapt(&p, false, &wide);
	KUNIT_EXPECT_EQ(test, p.period_ms, U32_MAX);
	KUNIT_EXPECT_EQ(test, p.size_mb, 1);
	for (int i = 0; i < 250; i++)
		mtier_pace_adapt(&p, true, &wide);
	KUNIT_EXPECT_EQ(test, p.period_ms, 1);
	KUNIT_EXPECT_EQ(test, p.size_mb, U32_MAX);
}

static void pace_backs_off(struct kunit *test)
{
	struct mtier_pace p;

	mtier_pace_init(&p, 1, 1, &bounds);
	KUNIT_EXPECT_EQ(test, p.period_ms, 400);
	KUNIT_EXPECT_EQ(test, p.size_mb, 256);
	mtier_pace_backoff(&p, &bounds);
	KUNIT_EXPECT_EQ(test, p.period_ms, 800);
	for (int i = 0; i < 5; i++)
		mtier_pace_backoff(&p, &bounds);
	KUNIT_EXPECT_EQ(test, p.period_ms, 5000);
}

static void pace_scales_by_task(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mtier_pace_scale(2000, 0), U32_MAX);
	KUNIT_EXPECT_EQ(test, mtier_pace_scale(2000, 1), 10000);
	KUNIT_EXPECT_EQ(test, mtier_pace_scale(2000, 10), 1000);
	KUNIT_EXPECT_EQ(test, mtier_pace_scale(2000, 11), 1000);
	KUNIT_EXPECT_EQ(test, mtier_pace_scale(1, 10), 1);
	KUNIT_EXPECT_EQ(test, mtier_pace_scale(U32_MAX, 1), U32_MAX);
}

static void cpu_share_is_kept(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mtier_cpu_pause_ns(1000, 20), 4000);
	KUNIT_EXPECT_EQ(test, mtier_cpu_pause_ns(1000, 0), 99000);
	KUNIT_EXPECT_EQ(test, mtier_cpu_pause_ns(1000, 100), 0);
	KUNIT_EXPECT_EQ(test, mtier_cpu_pause_ns(1000, 500), 0);
	KUNIT_EXPECT_EQ(test, mtier_cpu_pause_ns(1, 99), 1);
	KUNIT_EXPECT_GT(test, mtier_cpu_pause_ns(U64_MAX, 1), U64_MAX / 2);
}

static void pressure_has_memory(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, mtier_pressure(74, 100, false));
	KUNIT_EXPECT_TRUE(test, mtier_pressure(75, 100, false));
	KUNIT_EXPECT_TRUE(test, mtier_pressure(51, 100, true));
	KUNIT_EXPECT_FALSE(test, mtier_pressure(50, 100, true));
	KUNIT_EXPECT_FALSE(test, mtier_pressure(0, 1, true));
	KUNIT_EXPECT_TRUE(test, mtier_pressure(1, 1, false));
	KUNIT_EXPECT_TRUE(test, mtier_pressure(0, 0, false));
	KUNIT_EXPECT_TRUE(test, mtier_pressure(U64_MAX, U64_MAX, false));
}

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

/* What the time between two calls earns pays for as much, to a byte. */
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
	/* a smaller burst takes effect with the next time that passes */
	KUNIT_EXPECT_EQ(test, mtier_bucket_pay(&b, U64_MAX, MIB, 100, 0), 0);
	KUNIT_EXPECT_EQ(test, b.tokens, 100);
}

static void bucket_pays_no_time_twice(struct kunit *test)
{
	struct mtier_bucket b = { };

	/* two CPUs, one of them always 50 us behind */
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

/* No debt is so large that it could not be told, and in time paid. */
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
	KUNIT_CASE(rec_keeps_its_fields),
	KUNIT_CASE(rec_unused_says_nothing),
	KUNIT_CASE(rec_second_access_decides),
	KUNIT_CASE(rec_believes_who_is_told),
	KUNIT_CASE(rec_first_access_suffices_with_room),
	KUNIT_CASE(rec_one_tick_counts_once),
	KUNIT_CASE_PARAM(rec_counts_accesses_in_window, rate_gen_params),
	KUNIT_CASE(rec_heat_falls_to_zero),
	KUNIT_CASE(rec_waits_a_window_in_the_queue),
	KUNIT_CASE(rec_survives_clock_behind),
	KUNIT_CASE(rec_survives_tick_wrap),
	KUNIT_CASE(rec_ages_out_before_it_looks_new),
	KUNIT_CASE(rec_is_claimed_by_one),
	KUNIT_CASE(window_covers_its_ms),
	KUNIT_CASE_PARAM(room_is_a_share_above_the_watermark, room_gen_params),
	KUNIT_CASE_PARAM(window_follows_demand, adjust_gen_params),
	KUNIT_CASE_PARAM(pace_follows_what_is_found, pace_gen_params),
	KUNIT_CASE(pace_reaches_both_ends),
	KUNIT_CASE(pace_backs_off),
	KUNIT_CASE(pace_scales_by_task),
	KUNIT_CASE(cpu_share_is_kept),
	KUNIT_CASE(pressure_has_memory),
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

MODULE_DESCRIPTION("KUnit tests of the decisions of memory tiering");
MODULE_LICENSE("GPL");

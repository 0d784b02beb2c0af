// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the choice among too many pages, ../choose.c, for KUnit and, through
 * tools/testing/mtier, for user space.
 */
#include <kunit/test.h>

#include <linux/limits.h>
#include <linux/types.h>

#include "../policy.h"

static void probe_halves_the_time(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mtier_probe_ms(1), 128);
	KUNIT_EXPECT_EQ(test, mtier_probe_ms(2), 64);
	KUNIT_EXPECT_EQ(test, mtier_probe_ms(6), 4);
	KUNIT_EXPECT_EQ(test, mtier_probe_ms(MTIER_PROBE_MAX), 0);
	KUNIT_EXPECT_EQ(test, mtier_probe_ms(32), 0);
	KUNIT_EXPECT_EQ(test, mtier_probe_ms(33), 0);
	KUNIT_EXPECT_EQ(test, mtier_probe_ms(U32_MAX), 0);
}

static void probe_starts_with_the_busiest(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mtier_probe_start(1000, 1000), 0);
	KUNIT_EXPECT_EQ(test, mtier_probe_start(1001, 1000), MTIER_PROBE_START);
	KUNIT_EXPECT_EQ(test, mtier_probe_start(U64_MAX, 0), MTIER_PROBE_START);
}

static const struct probe_case {
	const char *desc;
	u32 level;
	u64 found;
	u64 seen;
	u64 room;
	u32 next;
} probe_cases[] = {
	{ "all fit: no choice", 0, 1000, 1000, 1000, 0 },
	{ "one too many: choose", 0, 1001, 1001, 1000, 2 },
	{ "most of it in use: faster", 2, 600, 1000, 0, 4 },
	{ "half of it in use", 2, 500, 1000, 0, 3 },
	{ "more than an eighth", 3, 126, 1000, 0, 4 },
	{ "an eighth is right", 3, 125, 1000, 0, 3 },
	{ "so is a thirty-second", 3, 32, 1024, 0, 3 },
	{ "less: not so choosy", 3, 31, 1024, 0, 2 },
	{ "there is room again", 3, 500, 1000, 500, 2 },
	{ "there is plenty", 6, 500, 1000, 2000, 3 },
	{ "nearly plenty", 3, 500, 1000, 1999, 2 },
	{ "plenty, and not choosy", 1, 500, 1000, 2000, 0 },
	{ "nothing in use", 1, 0, 1000, 0, 0 },
	{ "nothing there", 5, 0, 0, 0, 2 },
	{ "at the end", MTIER_PROBE_MAX, 1000, 1000, 0, MTIER_PROBE_MAX },
	{ "close to it", MTIER_PROBE_MAX - 1, 1000, 1000, 0, MTIER_PROBE_MAX },
	{ "beyond it", U32_MAX, 100, 1000, 0, MTIER_PROBE_MAX },
	{ "beyond it, less", U32_MAX, 0, 1000, 0, MTIER_PROBE_MAX / 2 },
	{ "large numbers", 1, U64_MAX, U64_MAX, U64_MAX - 1, 3 },
};

KUNIT_ARRAY_PARAM_DESC(probe, probe_cases, desc);

static void probe_chooses_when_not_all_fit(struct kunit *test)
{
	const struct probe_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, mtier_probe_adapt(c->level, c->found, c->seen,
						c->room), c->next);
}

/*
 * So many looks in a row, @gap ticks apart, find an access, every @nth excepted;
 * how many does it take until the page is hot? 0: more than 60.
 */
static u32 looks_until_hot(u32 gap, u32 nth, const struct mtier_hot_params *p)
{
	enum mtier_verdict v;
	u32 n, rec = 0;

	for (n = 1; n <= 60; n++) {
		if (nth && !(n % nth))
			continue;
		rec = mtier_rec_touch(rec, 1000 + n * gap, p, &v);
		if (v == MTIER_HOT)
			return n;
	}
	return 0;
}

/* As many looks in a row as are asked for are in the window. */
static void window_holds_looks_in_a_row(struct kunit *test)
{
	static const u32 looks[] = { 10, 128, 400, 1000, 5000, 100000 };

	for (u32 accesses = 1; accesses <= 8; accesses++) {
		for (int i = 0; i < ARRAY_SIZE(looks); i++) {
			u32 gap = mtier_tick(looks[i] + MTIER_TICK_MS - 1);
			u32 ms = mtier_probe_window_ms(looks[i], accesses);
			struct mtier_hot_params p = {
				.window_ticks = mtier_window_ticks(ms),
				.accesses = accesses,
			};

			KUNIT_EXPECT_EQ(test, looks_until_hot(gap, 0, &p),
					accesses);
		}
	}
}

/* A page that is met accessed every other time never gets there. */
static void window_leaves_out_the_middling(struct kunit *test)
{
	for (u32 accesses = 2; accesses <= 8; accesses++) {
		u32 ms = mtier_probe_window_ms(5000, accesses);
		struct mtier_hot_params p = {
			.window_ticks = mtier_window_ticks(ms),
			.accesses = accesses,
		};

		KUNIT_EXPECT_EQ(test, looks_until_hot(mtier_tick(5000), 2, &p),
				0);
	}
}

static void window_is_as_long_as_the_looks_take(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mtier_probe_window_ms(400, 1), 856);
	KUNIT_EXPECT_EQ(test, mtier_probe_window_ms(400, 2), 856);
	KUNIT_EXPECT_EQ(test, mtier_probe_window_ms(400, 3), 1384);
	/* However long that is: a large address space takes its time. */
	KUNIT_EXPECT_EQ(test, mtier_probe_window_ms(30000, 3), 75384);
	KUNIT_EXPECT_EQ(test, mtier_probe_window_ms(U32_MAX, 2), U32_MAX);
	KUNIT_EXPECT_EQ(test, mtier_probe_window_ms(U32_MAX, U32_MAX), U32_MAX);
}

static void visits_see_all_of_a_large_mm(struct kunit *test)
{
	const struct mtier_pace_bounds b = {
		.size_min_mb = 256, .size_max_mb = 4096,
	};

	/* What is small is seen at its pace, whatever that is. */
	KUNIT_EXPECT_EQ(test, mtier_visit_mb(256, 0, &b), 256);
	KUNIT_EXPECT_EQ(test, mtier_visit_mb(256, 4096, &b), 256);
	KUNIT_EXPECT_EQ(test, mtier_visit_mb(4096, 4096, &b), 4096);
	KUNIT_EXPECT_EQ(test, mtier_visit_mb(256, 4097, &b), 257);
	/* 64 GiB in 16 visits; what is larger takes more of them. */
	KUNIT_EXPECT_EQ(test, mtier_visit_mb(256, 65536, &b), 4096);
	KUNIT_EXPECT_EQ(test, mtier_visit_mb(256, U32_MAX, &b), 4096);
	/* A limit that was lowered meanwhile holds from the next adaption on. */
	KUNIT_EXPECT_EQ(test, mtier_visit_mb(8192, U32_MAX, &b), 8192);
}

static void full_target_lets_a_batch_wait(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, mtier_may_queue(U64_MAX, 512, false));
	KUNIT_EXPECT_TRUE(test, mtier_may_queue(511, 512, true));
	KUNIT_EXPECT_FALSE(test, mtier_may_queue(512, 512, true));
	KUNIT_EXPECT_FALSE(test, mtier_may_queue(0, 0, true));
}

/* So many looks at a page in a row, as far apart as @gap ticks, are idle. */
static unsigned int looks_until_cold(u32 *rec, u32 gap,
				     const struct mtier_hot_params *p)
{
	unsigned int n;
	bool cold = false;

	for (n = 0; n < 100 && !cold; n++)
		*rec = mtier_cold_look(*rec, 1000 + n * gap, true, p, &cold);
	return n;
}

static void idle_looks_in_a_row_make_cold(struct kunit *test)
{
	static const u32 look_ms[] = { 0, 100, 400, 5000, 60000 };

	for (u32 want = 1; want <= MTIER_FREQ_MAX; want++) {
		for (int i = 0; i < ARRAY_SIZE(look_ms); i++) {
			u32 ms = mtier_cold_window_ms(look_ms[i], want);
			struct mtier_hot_params p = {
				.window_ticks = mtier_window_ticks(ms),
				.accesses = want,
				.room = true,	/* is not asked for */
			};
			u32 gap = mtier_tick(look_ms[i]) + 1;
			u32 rec = 0;

			KUNIT_EXPECT_EQ(test, looks_until_cold(&rec, gap, &p),
					want);
		}
	}
}

static void an_access_makes_all_looks_forgotten(struct kunit *test)
{
	struct mtier_hot_params p = {
		.window_ticks = 1000, .accesses = 3,
	};
	bool cold = true;
	u32 rec = 0;

	KUNIT_EXPECT_EQ(test, 3, looks_until_cold(&rec, 2, &p));
	KUNIT_EXPECT_TRUE(test, mtier_rec_is_hot(rec, 1010, &p));
	KUNIT_EXPECT_EQ(test, 0, mtier_cold_look(rec, 1010, false, &p, &cold));
	KUNIT_EXPECT_FALSE(test, cold);
	rec = 0;
	KUNIT_EXPECT_EQ(test, 3, looks_until_cold(&rec, 2, &p));
}

static void exchange_wants_one_access_more(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mtier_exchange_accesses(2, false), 2);
	KUNIT_EXPECT_EQ(test, mtier_exchange_accesses(2, true), 3);
	KUNIT_EXPECT_EQ(test, mtier_exchange_accesses(MTIER_FREQ_MAX, true),
			MTIER_FREQ_MAX);
	KUNIT_EXPECT_EQ(test, mtier_exchange_accesses(U32_MAX, true),
			MTIER_FREQ_MAX);
}

static void cold_window_does_not_wrap(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mtier_cold_window_ms(1000, 3), 12000);
	KUNIT_EXPECT_EQ(test, mtier_cold_window_ms(0, 1), 8 * MTIER_TICK_MS);
	KUNIT_EXPECT_EQ(test, mtier_cold_window_ms(U32_MAX, 2), U32_MAX);
	KUNIT_EXPECT_EQ(test, mtier_cold_window_ms(BIT(31), BIT(31)), U32_MAX);
}

static struct kunit_case mtier_choose_cases[] = {
	KUNIT_CASE(probe_halves_the_time),
	KUNIT_CASE(probe_starts_with_the_busiest),
	KUNIT_CASE_PARAM(probe_chooses_when_not_all_fit, probe_gen_params),
	KUNIT_CASE(window_holds_looks_in_a_row),
	KUNIT_CASE(window_leaves_out_the_middling),
	KUNIT_CASE(window_is_as_long_as_the_looks_take),
	KUNIT_CASE(visits_see_all_of_a_large_mm),
	KUNIT_CASE(full_target_lets_a_batch_wait),
	KUNIT_CASE(idle_looks_in_a_row_make_cold),
	KUNIT_CASE(an_access_makes_all_looks_forgotten),
	KUNIT_CASE(exchange_wants_one_access_more),
	KUNIT_CASE(cold_window_does_not_wrap),
	{ }
};

static struct kunit_suite mtier_choose_suite = {
	.name = "mtier_choose",
	.test_cases = mtier_choose_cases,
};

kunit_test_suite(mtier_choose_suite);

MODULE_DESCRIPTION("KUnit tests of the choice among too many hot pages");
MODULE_LICENSE("GPL");

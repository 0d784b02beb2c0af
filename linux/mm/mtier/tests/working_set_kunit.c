// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of how working sets are estimated, ../working_set.c, for KUnit and, through
 * tools/testing/mtier, for user space.
 */
#include <kunit/test.h>

#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/types.h>

#include "../working_set.h"

#define RANGE		512U
#define MS_NS		1000000ULL
#define WINDOW_NS	(40 * MS_NS)

/* A window of so many ranges, of which each has @looked pages, @used of them in use. */
static struct mtier_wset_window window_of(u32 ranges, u32 looked, u32 used)
{
	return (struct mtier_wset_window) {
		.ranges = ranges,
		.range_pages = RANGE,
		.looked = (u64)ranges * looked,
		.used = (u64)ranges * used,
		.used_sq = (u64)ranges * used * used,
		.window_ns = WINDOW_NS,
		.at_ns = 1000 * MS_NS,
	};
}

static void add(struct mtier_wset *w, u32 ranges, u32 looked, u32 used)
{
	struct mtier_wset_window win = window_of(ranges, looked, used);

	mtier_wset_add(w, &win);
}

static void a_sample_stands_for_all_ranges(struct kunit *test)
{
	struct mtier_wset w = { };
	struct mtier_wset_estimate e;

	add(&w, 8, 512, 128);
	e = mtier_wset_estimate(&w, 32, RANGE);
	KUNIT_EXPECT_EQ(test, e.present, 32ULL * 512);
	KUNIT_EXPECT_EQ(test, e.used, 32ULL * 128);
	/* Of ranges that are half filled half is present. */
	w = (struct mtier_wset) { };
	add(&w, 8, 256, 256);
	e = mtier_wset_estimate(&w, 1000, RANGE);
	KUNIT_EXPECT_EQ(test, e.present, 1000ULL * 256);
	KUNIT_EXPECT_EQ(test, e.used, e.present);
}

static void pages_looked_at_are_not_pages_in_use(struct kunit *test)
{
	struct mtier_wset w = { };
	struct mtier_wset_estimate e;

	add(&w, 32, 512, 0);
	e = mtier_wset_estimate(&w, 32, RANGE);
	KUNIT_EXPECT_EQ(test, e.present, 32ULL * 512);
	KUNIT_EXPECT_EQ(test, e.used, 0ULL);
	/* Nothing found is no proof that nothing is there, and little is left to doubt. */
	KUNIT_EXPECT_GT(test, e.error, 0ULL);
	KUNIT_EXPECT_LT(test, e.error, e.present / 32);
}

static void nothing_is_known_of_what_was_not_sampled(struct kunit *test)
{
	struct mtier_wset_window none = window_of(0, 512, 512);
	struct mtier_wset w = { };
	struct mtier_wset_estimate e = mtier_wset_estimate(&w, 32, RANGE);

	KUNIT_EXPECT_EQ(test, e.present + e.used + e.error, 0ULL);
	mtier_wset_add(&w, &none);
	KUNIT_EXPECT_EQ(test, w.ranges + w.looked + w.used + w.at_ns, 0ULL);
	add(&w, 8, 512, 512);
	e = mtier_wset_estimate(&w, 0, RANGE);
	KUNIT_EXPECT_EQ(test, e.present + e.used + e.error, 0ULL);
}

static void a_window_without_ranges_changes_nothing(struct kunit *test)
{
	struct mtier_wset w = { }, before;
	struct mtier_wset_window none = window_of(0, 512, 512);

	add(&w, 8, 512, 512);
	before = w;
	none.window_ns *= 100;
	none.at_ns *= 2;
	mtier_wset_add(&w, &none);
	KUNIT_EXPECT_EQ(test, w.ranges, before.ranges);
	KUNIT_EXPECT_EQ(test, w.used, before.used);
	KUNIT_EXPECT_EQ(test, w.window_ns, before.window_ns);
	KUNIT_EXPECT_EQ(test, w.at_ns, before.at_ns);
}

static void the_error_falls_with_the_sample(struct kunit *test)
{
	u64 before = U64_MAX;
	u32 n;

	/* Half of the ranges are in use. */
	for (n = 2; n <= 512; n *= 4) {
		struct mtier_wset w = { };
		struct mtier_wset_window win = window_of(n, 512, 0);
		struct mtier_wset_estimate e;

		win.used = n / 2 * 512;
		win.used_sq = (u64)n / 2 * 512 * 512;
		mtier_wset_add(&w, &win);
		e = mtier_wset_estimate(&w, 100000, RANGE);
		KUNIT_EXPECT_EQ(test, e.used, 100000ULL * 256);
		KUNIT_EXPECT_LT(test, e.error, before * 2 / 3);
		before = e.error;
	}
	/* 256 pages of each range, by the root of 512. */
	KUNIT_EXPECT_GT(test, before, 1100000ULL);
	KUNIT_EXPECT_LT(test, before, 1150000ULL);
}

static void a_sample_of_all_is_more_certain(struct kunit *test)
{
	struct mtier_wset_window win = window_of(64, 512, 0);
	struct mtier_wset w = { };
	u64 part, all;

	win.used = 32 * 512;
	win.used_sq = 32ULL * 512 * 512;
	mtier_wset_add(&w, &win);
	part = mtier_wset_estimate(&w, 100000, RANGE).error * 32 / 100000;
	all = mtier_wset_estimate(&w, 32, RANGE).error;
	KUNIT_EXPECT_LT(test, all, part / 3);
	KUNIT_EXPECT_GT(test, all, 0ULL);
}

static void old_ranges_fade_as_new_ones_come(struct kunit *test)
{
	struct mtier_wset w = { };
	struct mtier_wset_estimate e;
	u32 i;

	add(&w, 32, 512, 512);
	/* A few ranges count as a few. */
	add(&w, 1, 512, 0);
	e = mtier_wset_estimate(&w, 32, RANGE);
	KUNIT_EXPECT_GT(test, e.used, 32ULL * 512 * 9 / 10);
	for (i = 0; i < 4 * MTIER_WSET_KEEP; i++)
		add(&w, 1, 512, 0);
	e = mtier_wset_estimate(&w, 32, RANGE);
	KUNIT_EXPECT_LT(test, e.used, 32ULL * 512 / 50);
	KUNIT_EXPECT_LE(test, w.ranges, (MTIER_WSET_KEEP + 1ULL) << MTIER_WSET_SHIFT);
	/* Many leave nothing of those before. */
	add(&w, MTIER_WSET_KEEP, 512, 256);
	e = mtier_wset_estimate(&w, 32, RANGE);
	KUNIT_EXPECT_EQ(test, e.used, 32ULL * 256);
}

static void windows_of_other_lengths_are_not_mixed(struct kunit *test)
{
	struct mtier_wset_window win = window_of(8, 512, 32);
	struct mtier_wset w = { };

	add(&w, 8, 512, 512);
	win.window_ns = 2 * WINDOW_NS;
	mtier_wset_add(&w, &win);
	KUNIT_EXPECT_GT(test, w.ranges, 8ULL << MTIER_WSET_SHIFT);
	KUNIT_EXPECT_GT(test, w.window_ns, WINDOW_NS);
	KUNIT_EXPECT_LT(test, w.window_ns, 2 * WINDOW_NS);
	/* Less than an eighth. */
	win.window_ns = w.window_ns / 8 - 1;
	mtier_wset_add(&w, &win);
	KUNIT_EXPECT_EQ(test, w.ranges, 8ULL << MTIER_WSET_SHIFT);
	KUNIT_EXPECT_EQ(test, w.window_ns, win.window_ns);
	KUNIT_EXPECT_EQ(test, mtier_wset_estimate(&w, 8, RANGE).used, 8ULL * 32);
	/* More than eight times as long. */
	win.window_ns = 9 * w.window_ns;
	mtier_wset_add(&w, &win);
	KUNIT_EXPECT_EQ(test, w.ranges, 8ULL << MTIER_WSET_SHIFT);
	KUNIT_EXPECT_EQ(test, w.window_ns, win.window_ns);
}

static void the_time_is_the_mean_of_the_ranges(struct kunit *test)
{
	struct mtier_wset_window win = window_of(16, 512, 512);
	struct mtier_wset w = { };

	win.at_ns = 1000 * MS_NS;
	mtier_wset_add(&w, &win);
	KUNIT_EXPECT_EQ(test, w.at_ns, 1000 * MS_NS);
	/* 12 ranges are left of the first 16. */
	win.at_ns = 2000 * MS_NS;
	mtier_wset_add(&w, &win);
	KUNIT_EXPECT_EQ(test, w.at_ns, 1000 * MS_NS + 1000 * MS_NS * 16 / 28);
	/* A clock that steps back is no reason for nonsense. */
	win.at_ns = 0;
	mtier_wset_add(&w, &win);
	KUNIT_EXPECT_LT(test, w.at_ns, 2000 * MS_NS);
}

static void senseless_windows_have_a_result(struct kunit *test)
{
	struct mtier_wset_window win = {
		.ranges = U32_MAX, .range_pages = U32_MAX, .looked = U64_MAX,
		.used = U64_MAX, .used_sq = U64_MAX, .window_ns = U64_MAX,
		.at_ns = U64_MAX,
	};
	struct mtier_wset w = { };
	struct mtier_wset_estimate e;

	mtier_wset_add(&w, &win);
	mtier_wset_add(&w, &win);
	e = mtier_wset_estimate(&w, U64_MAX, U32_MAX);
	KUNIT_EXPECT_LE(test, e.used, e.present);
	/* No more can be used than was looked at, nor than fits into a range. */
	win = window_of(1, 100, 200);
	w = (struct mtier_wset) { };
	mtier_wset_add(&w, &win);
	KUNIT_EXPECT_EQ(test, mtier_wset_estimate(&w, 1, RANGE).used, 100ULL);
	win = window_of(1, 1000, 1000);
	w = (struct mtier_wset) { };
	mtier_wset_add(&w, &win);
	KUNIT_EXPECT_EQ(test, mtier_wset_estimate(&w, 1, RANGE).used, 512ULL);
}

static struct kunit_case mtier_working_set_cases[] = {
	KUNIT_CASE(a_sample_stands_for_all_ranges),
	KUNIT_CASE(pages_looked_at_are_not_pages_in_use),
	KUNIT_CASE(nothing_is_known_of_what_was_not_sampled),
	KUNIT_CASE(a_window_without_ranges_changes_nothing),
	KUNIT_CASE(the_error_falls_with_the_sample),
	KUNIT_CASE(a_sample_of_all_is_more_certain),
	KUNIT_CASE(old_ranges_fade_as_new_ones_come),
	KUNIT_CASE(windows_of_other_lengths_are_not_mixed),
	KUNIT_CASE(the_time_is_the_mean_of_the_ranges),
	KUNIT_CASE(senseless_windows_have_a_result),
	{ }
};

static struct kunit_suite mtier_working_set_suite = {
	.name = "mtier_working_set",
	.test_cases = mtier_working_set_cases,
};

kunit_test_suite(mtier_working_set_suite);

MODULE_DESCRIPTION("KUnit tests of how working sets are estimated");
MODULE_LICENSE("GPL");

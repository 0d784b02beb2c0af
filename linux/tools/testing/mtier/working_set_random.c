// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of mm/mtier/working_set.c: address spaces of any kind are sampled as the
 * engine samples them, and the truth lies where the estimate and its error say. And no
 * input overflows or divides by zero.
 */
#include <kunit/test.h>

#include "rng.h"
#include "working_set.h"

#define RANGE		512U
#define RANGES_MAX	400U
#define SPACES		1500
#define WILD		20000

/* Pages in use by range, and the order in which ranges are drawn. */
struct space {
	u32 nr;
	u32 used[RANGES_MAX];
	u32 order[RANGES_MAX];
	u32 next;
	u64 truth;
};

/* A part of the ranges is in use, each as a whole or in part. */
static void space_make(struct rng *rng, struct space *s)
{
	double part = rng_below(rng, 5) / 4.0;
	u32 most = 1U << rng_below(rng, 10);

	*s = (struct space) { .nr = 1 + rng_below(rng, RANGES_MAX) };
	for (u32 i = 0; i < s->nr; i++) {
		if (rng_chance(rng, part))
			s->used[i] = rng_chance(rng, 0.5) ? most :
				     rng_below(rng, most + 1);
		s->order[i] = i;
		s->truth += s->used[i];
	}
	s->next = s->nr;
}

/* The next range: each comes once before any comes again. */
static u32 space_draw(struct rng *rng, struct space *s)
{
	u32 pick, range;

	if (s->next == s->nr)
		s->next = 0;
	pick = s->next + rng_below(rng, s->nr - s->next);
	range = s->order[pick];
	s->order[pick] = s->order[s->next];
	s->order[s->next++] = range;
	return s->used[range];
}

static void space_window(struct rng *rng, struct space *s, u32 ranges,
			 struct mtier_wset *w)
{
	struct mtier_wset_window win = {
		.ranges = ranges, .range_pages = RANGE,
		.looked = (u64)ranges * RANGE, .window_ns = 1000000,
	};

	for (u32 i = 0; i < ranges; i++) {
		u64 used = space_draw(rng, s);

		win.used += used;
		win.used_sq += used * used;
	}
	mtier_wset_add(w, &win);
}

static void the_truth_is_within_two_errors(struct kunit *test)
{
	struct rng rng = rng_new(test);
	u32 within = 0, i, j;
	double bias = 0, all = 0;
	struct space s;

	for (i = 0; i < SPACES; i++) {
		struct mtier_wset w = { };
		struct mtier_wset_estimate e;
		u32 ranges, windows = 1 + rng_below(&rng, 12);

		space_make(&rng, &s);
		ranges = 1 + rng_below(&rng, s.nr);
		for (j = 0; j < windows; j++)
			space_window(&rng, &s, ranges, &w);
		e = mtier_wset_estimate(&w, s.nr, RANGE);
		/* Sums are rounded down when they fade. */
		KUNIT_EXPECT_LE(test, e.present, (u64)s.nr * RANGE * 1001 / 1000);
		KUNIT_EXPECT_GE(test, e.present, (u64)s.nr * RANGE * 999 / 1000);
		KUNIT_EXPECT_LE(test, e.error, (u64)s.nr * RANGE);
		within += e.used + 2 * e.error + 1 >= s.truth &&
			  e.used <= s.truth + 2 * e.error + 1;
		bias += (double)e.used - (double)s.truth;
		all += s.truth;
	}
	kunit_info(test, "%u of %u within two errors, bias %.2f %%", within, SPACES,
		   100 * bias / all);
	KUNIT_EXPECT_GT(test, within, SPACES * 95 / 100);
	KUNIT_EXPECT_LT(test, bias < 0 ? -bias : bias, all / 100);
}

/* The error is no excuse: where much is known it is small. */
static void the_error_is_not_the_whole_answer(struct kunit *test)
{
	struct rng rng = rng_new(test);
	u64 error = 0, all = 0;
	struct space s;

	for (u32 i = 0; i < SPACES; i++) {
		struct mtier_wset w = { };

		space_make(&rng, &s);
		for (u32 j = 0; j < 4; j++)
			space_window(&rng, &s, (s.nr + 1) / 2, &w);
		error += mtier_wset_estimate(&w, s.nr, RANGE).error;
		all += (u64)s.nr * RANGE;
	}
	KUNIT_EXPECT_LT(test, error, all / 50);
}

static void no_input_is_too_wild(struct kunit *test)
{
	struct rng rng = rng_new(test);
	struct mtier_wset w = { };

	for (u32 i = 0; i < WILD; i++) {
		struct mtier_wset_window win = {
			.ranges = rng_wild(&rng), .range_pages = rng_wild(&rng),
			.looked = rng_wild(&rng), .used = rng_wild(&rng),
			.used_sq = rng_wild(&rng), .window_ns = rng_wild(&rng),
			.at_ns = rng_wild(&rng),
		};
		struct mtier_wset_estimate e;

		mtier_wset_add(&w, &win);
		KUNIT_EXPECT_LE(test, w.used, w.looked);
		e = mtier_wset_estimate(&w, rng_wild(&rng), rng_wild(&rng));
		KUNIT_EXPECT_LE(test, e.used, e.present);
		if (rng_chance(&rng, 0.1))
			w = (struct mtier_wset) { };
	}
}

static struct kunit_case working_set_random_cases[] = {
	KUNIT_CASE(the_truth_is_within_two_errors),
	KUNIT_CASE(the_error_is_not_the_whole_answer),
	KUNIT_CASE(no_input_is_too_wild),
	{ }
};

static struct kunit_suite working_set_random_suite = {
	.name = "mtier_working_set_random",
	.test_cases = working_set_random_cases,
};

kunit_test_suite(working_set_random_suite);

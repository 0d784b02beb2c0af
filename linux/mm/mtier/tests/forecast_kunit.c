// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the estimate how long exchanged pages keep their access rates,
 * ../forecast.c, for KUnit and, through tools/testing/mtier, for user space.
 */
#include <kunit/test.h>

#include <linux/math64.h>
#include <linux/types.h>

#include "../place.h"

#define MS_NS		1000000ULL

static const struct mtier_place_machine machine = {
	.pages = { 32768, 32768 },
};

/* Add a re-check of @looks scans, in which @hits more find the promoted page. */
static void audit(struct mtier_place *p, u32 age, u32 looks, s32 hits)
{
	mtier_place_audit(p, MTIER_AUDIT_AGE_NS(age), MTIER_Q16, looks, hits);
}

static u64 horizon_ms(const struct mtier_place *p)
{
	return div64_u64(mtier_place_horizon_ns(p), MS_NS);
}

static void what_lasts_is_what_was_found(struct kunit *test)
{
	u32 left[MTIER_AUDIT_AGES];
	static struct mtier_place p;

	/* There is no result yet. */
	mtier_place_init(&p, &machine);
	mtier_place_left(&p, left);
	KUNIT_EXPECT_EQ(test, left[3], MTIER_Q16);
	KUNIT_EXPECT_EQ(test, horizon_ms(&p), 30000ULL);
	/* Half is gone after 0.5 s: (16 + 24) / (16 + 48), also at later ages. */
	audit(&p, 1, 48, 24);
	mtier_place_left(&p, left);
	KUNIT_EXPECT_EQ(test, left[0], MTIER_Q16);
	KUNIT_EXPECT_EQ(test, left[1], MTIER_Q16 * 5 / 8);
	KUNIT_EXPECT_EQ(test, left[3], MTIER_Q16 * 5 / 8);
	/* All is gone after 2 s: 0.25 s at 1, 0.75 s at 3/4. */
	mtier_place_init(&p, &machine);
	audit(&p, 0, 496, 496);
	audit(&p, 1, 496, 368);
	audit(&p, 2, 496, 0);
	KUNIT_EXPECT_EQ(test, horizon_ms(&p), 250ULL + 562);
	/* Heat that returns later does not count. */
	audit(&p, 3, 496, 496);
	KUNIT_EXPECT_EQ(test, horizon_ms(&p), 250ULL + 562);
	mtier_place_init(&p, &machine);
	audit(&p, 1, 496, 368);
	audit(&p, 3, 496, 496);
	KUNIT_EXPECT_EQ(test, horizon_ms(&p), 250ULL + 29750 * 3 / 4);
	/* Less than two errors, 2 / sqrt(512) of 512 scans and half of 16: 0. */
	mtier_place_init(&p, &machine);
	audit(&p, 0, 496, 28);
	KUNIT_EXPECT_EQ(test, horizon_ms(&p), 0ULL);
	mtier_place_init(&p, &machine);
	audit(&p, 0, 496, 31);
	KUNIT_EXPECT_EQ(test, horizon_ms(&p), 22ULL);
	mtier_place_init(&p, &machine);
	audit(&p, 0, 16, -5);
	KUNIT_EXPECT_EQ(test, horizon_ms(&p), 0ULL);
}

static void in_the_end_it_is_tried_again(struct kunit *test)
{
	static struct mtier_place p;
	u32 i, age;

	mtier_place_init(&p, &machine);
	/* Many old hits do not outweigh newer misses. */
	for (i = 0; i < 1000; i++)
		audit(&p, 0, 8, 8);
	for (i = 0; i < 128; i++)
		audit(&p, 0, 8, 0);
	KUNIT_EXPECT_LE(test, horizon_ms(&p), 6000ULL);
	for (age = 0; age < MTIER_AUDIT_AGES; age++)
		audit(&p, age, 512, -512);
	KUNIT_EXPECT_EQ(test, horizon_ms(&p), 0ULL);
	for (i = 0; i < 40; i++)
		mtier_place_fade(&p);
	KUNIT_EXPECT_GE(test, horizon_ms(&p), 29990ULL);
}

/*
 * Add @looks early scans of pairs with a predicted difference of one access in 16
 * scan times. The first @finds of them have the result @hit, the others 0.
 */
static void early(struct mtier_place *p, u32 looks, u32 finds, s32 hit)
{
	u32 i;

	for (i = 0; i < looks; i++)
		mtier_place_early(p, MTIER_Q16, 16 * MS_NS, MS_NS,
				  i < finds ? hit : 0);
}

static void who_is_used_more_saves_more(struct kunit *test)
{
	static struct mtier_place p;

	mtier_place_init(&p, &machine);
	KUNIT_EXPECT_EQ(test, mtier_place_factor_q8(&p), 256U);
	/* As predicted: 4 of 64, in addition to the initial 4. */
	early(&p, 64, 4, 1);
	KUNIT_EXPECT_EQ(test, mtier_place_factor_q8(&p), 256U);
	early(&p, 64, 36, 1);
	KUNIT_EXPECT_EQ(test, mtier_place_factor_q8(&p), 256U * 44 / 12);
	/* Fewer hits reduce the factor, down to a quarter. */
	mtier_place_init(&p, &machine);
	early(&p, 64, 0, 1);
	KUNIT_EXPECT_EQ(test, mtier_place_factor_q8(&p), 256U / 2);
	early(&p, 640, 0, 1);
	KUNIT_EXPECT_EQ(test, mtier_place_factor_q8(&p), 256U / 4);
	/* Accesses to the demoted and the promoted page have the same weight. */
	mtier_place_init(&p, &machine);
	early(&p, 32, 32, -1);
	early(&p, 32, 32, 1);
	KUNIT_EXPECT_EQ(test, mtier_place_factor_q8(&p), 256U / 2);
	/* A late scan counts as one after the scan interval. */
	mtier_place_init(&p, &machine);
	mtier_place_early(&p, MTIER_Q16, 16 * MS_NS, 1000 * MS_NS, 1);
	KUNIT_EXPECT_EQ(test, p.early.foretold, (s64)MTIER_Q16);
}

static void early_looks_are_forgotten(struct kunit *test)
{
	static struct mtier_place p;
	u32 i;

	mtier_place_init(&p, &machine);
	early(&p, 10000, 10000, 1);
	KUNIT_EXPECT_GT(test, mtier_place_factor_q8(&p), 256U * 8);
	KUNIT_EXPECT_LE(test, mtier_place_factor_q8(&p), 256U * 16);
	early(&p, 10000, 625, 1);
	KUNIT_EXPECT_LE(test, mtier_place_factor_q8(&p), 256U * 5 / 4);
	mtier_place_init(&p, &machine);
	early(&p, 64, 64, 1);
	for (i = 0; i < 8; i++)
		mtier_place_fade(&p);
	KUNIT_EXPECT_LE(test, mtier_place_factor_q8(&p), 256U * 5 / 4);
}

static struct kunit_case mtier_forecast_cases[] = {
	KUNIT_CASE(what_lasts_is_what_was_found),
	KUNIT_CASE(in_the_end_it_is_tried_again),
	KUNIT_CASE(who_is_used_more_saves_more),
	KUNIT_CASE(early_looks_are_forgotten),
	{ }
};

static struct kunit_suite mtier_forecast_suite = {
	.name = "mtier_forecast",
	.test_cases = mtier_forecast_cases,
};

kunit_test_suite(mtier_forecast_suite);

MODULE_DESCRIPTION("KUnit tests of how long pages that changed places go on as they did");
MODULE_LICENSE("GPL");

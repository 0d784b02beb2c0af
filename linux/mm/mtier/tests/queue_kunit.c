// SPDX-License-Identifier: GPL-2.0
/*
 * The queue between records and migrator: order, bound and resizing. Included
 * by ../queue.c.
 */
#include <kunit/test.h>

#define CAP 4

static void push_all(struct kunit *test, struct mtier_queue *q,
		     unsigned long first, unsigned int n)
{
	unsigned long dropped;
	unsigned int fill = q->fill;

	for (unsigned int i = 0; i < n; i++) {
		KUNIT_ASSERT_EQ(test, mtier_queue_push(q, first + i, &dropped),
				++fill);
		KUNIT_ASSERT_EQ(test, dropped, MTIER_QUEUE_NONE);
	}
}

static void expect_pops(struct kunit *test, struct mtier_queue *q,
			unsigned long first, unsigned int n)
{
	unsigned long got[2 * CAP] = {};

	KUNIT_ASSERT_EQ(test, mtier_queue_pop(q, got, ARRAY_SIZE(got)), n);
	for (unsigned int i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, got[i], first + i);
}

static void queue_is_first_in_first_out(struct kunit *test)
{
	struct mtier_queue q;
	unsigned long one;

	KUNIT_ASSERT_EQ(test, mtier_queue_init(&q, CAP), 0);
	/* Every offset of the ring, so that it wraps in every place. */
	for (unsigned int start = 0; start < CAP; start++) {
		push_all(test, &q, 100, CAP);
		expect_pops(test, &q, 100, CAP);
		push_all(test, &q, 7, 1);
		KUNIT_EXPECT_EQ(test, mtier_queue_pop(&q, &one, 1), 1);
		KUNIT_EXPECT_EQ(test, one, 7);
	}
	KUNIT_EXPECT_EQ(test, mtier_queue_pop(&q, &one, 1), 0);
	mtier_queue_destroy(&q);
}

static void queue_drops_the_oldest(struct kunit *test)
{
	unsigned long dropped = 0;
	struct mtier_queue q;

	KUNIT_ASSERT_EQ(test, mtier_queue_init(&q, CAP), 0);
	push_all(test, &q, 0, CAP);
	for (unsigned long pfn = CAP; pfn < 3 * CAP; pfn++) {
		KUNIT_EXPECT_EQ(test, mtier_queue_push(&q, pfn, &dropped), CAP);
		KUNIT_EXPECT_EQ(test, dropped, pfn - CAP);
		KUNIT_EXPECT_EQ(test, q.fill, CAP);
	}
	expect_pops(test, &q, 2 * CAP, CAP);
	mtier_queue_destroy(&q);
}

static void queue_resize_loses_nothing(struct kunit *test)
{
	unsigned long dropped;
	struct mtier_queue q;

	KUNIT_ASSERT_EQ(test, mtier_queue_init(&q, CAP), 0);
	push_all(test, &q, 0, CAP);
	KUNIT_EXPECT_EQ(test, mtier_queue_push(&q, CAP, &dropped), CAP);
	KUNIT_EXPECT_EQ(test, dropped, 0);
	KUNIT_EXPECT_EQ(test, mtier_queue_resize(&q, CAP - 1), -EBUSY);
	KUNIT_EXPECT_EQ(test, mtier_queue_resize(&q, 2 * CAP), 0);
	push_all(test, &q, CAP + 1, CAP);
	KUNIT_EXPECT_EQ(test, mtier_queue_resize(&q, 2 * CAP), 0);
	expect_pops(test, &q, 1, 2 * CAP);
	mtier_queue_destroy(&q);
}

static struct kunit_case mtier_queue_cases[] = {
	KUNIT_CASE(queue_is_first_in_first_out),
	KUNIT_CASE(queue_drops_the_oldest),
	KUNIT_CASE(queue_resize_loses_nothing),
	{ }
};

static struct kunit_suite mtier_queue_suite = {
	.name = "mtier_queue",
	.test_cases = mtier_queue_cases,
};

kunit_test_suite(mtier_queue_suite);

// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that wait by range: once each, in order, bounded, and gone with their
 * address space. Included by ../range.c.
 */
#include <kunit/test.h>

#define CAP		8
#define RANGE(_n)	((unsigned long)(_n) * MTIER_RANGE_SIZE)

/**
 * struct range_scene - a set and two address spaces
 * @set: the set, empty
 * @mm: address spaces without anything in them
 * @pages: what a range that was taken said
 * @done: what of it need not wait any longer
 */
struct range_scene {
	struct mtier_ranges set;
	struct mm_struct *mm[2];
	DECLARE_BITMAP(pages, MTIER_RANGE_PAGES);
	DECLARE_BITMAP(done, MTIER_RANGE_PAGES);
};

static int range_init(struct kunit *test)
{
	struct range_scene *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	if (!s || mtier_ranges_start())
		return -ENOMEM;
	mtier_ranges_init(&s->set, CAP);
	test->priv = s;
	s->mm[0] = mm_alloc();
	s->mm[1] = mm_alloc();
	return s->mm[0] && s->mm[1] ? 0 : -ENOMEM;
}

static void range_exit(struct kunit *test)
{
	struct range_scene *s = test->priv;

	if (!s)
		return;
	mtier_ranges_shrink(&s->set, 0);
	KUNIT_EXPECT_EQ(test, s->set.nr, 0);
	KUNIT_EXPECT_EQ(test, s->set.fill, 0);
	for (int i = 0; i < ARRAY_SIZE(s->mm); i++) {
		if (!s->mm[i])
			continue;
		/* Nobody but us has it: every range let go of it. */
		KUNIT_EXPECT_EQ(test, atomic_read(&s->mm[i]->mm_count), 1);
		mmput(s->mm[i]);
	}
}

static int add(struct range_scene *s, int mm, int range, int target,
	       unsigned int page, unsigned int *dropped)
{
	struct mtier_range_key key = {
		.mm = s->mm[mm], .start = RANGE(range), .target = target,
	};

	return mtier_ranges_add(&s->set, &key, page, 0, dropped);
}

/* Take the next range; it has to be this one, with so many pages. */
static struct mtier_range *take(struct kunit *test, int mm, int range,
				unsigned int nr)
{
	struct range_scene *s = test->priv;
	struct mtier_range *r = mtier_ranges_take(&s->set, NULL, s->pages);

	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_EXPECT_PTR_EQ(test, r->key.mm, s->mm[mm]);
	KUNIT_EXPECT_EQ(test, r->key.start, RANGE(range));
	KUNIT_EXPECT_EQ(test, bitmap_weight(s->pages, MTIER_RANGE_PAGES), nr);
	return r;
}

static void page_waits_once(struct kunit *test)
{
	struct range_scene *s = test->priv;
	unsigned int dropped;

	KUNIT_EXPECT_EQ(test, add(s, 0, 1, 0, 5, &dropped), 1);
	KUNIT_EXPECT_EQ(test, add(s, 0, 1, 0, 5, &dropped), 0);
	KUNIT_EXPECT_EQ(test, add(s, 0, 1, 0, 6, &dropped), 2);
	/* Another range, another way, another address space. */
	KUNIT_EXPECT_EQ(test, add(s, 0, 2, 0, 5, &dropped), 3);
	KUNIT_EXPECT_EQ(test, add(s, 0, 1, 1, 5, &dropped), 4);
	KUNIT_EXPECT_EQ(test, add(s, 1, 1, 0, 5, &dropped), 5);
	KUNIT_EXPECT_EQ(test, s->set.nr, 4);
	KUNIT_EXPECT_EQ(test, dropped, 0);
}

static void oldest_range_goes_first(struct kunit *test)
{
	struct range_scene *s = test->priv;
	unsigned int dropped;

	add(s, 0, 3, 0, 0, &dropped);
	add(s, 1, 1, 0, 0, &dropped);
	add(s, 0, 1, 0, 0, &dropped);
	/* A page more does not make a range young. */
	add(s, 0, 3, 0, MTIER_RANGE_PAGES - 1, &dropped);
	mtier_ranges_release(&s->set, take(test, 0, 3, 2), s->pages);
	mtier_ranges_release(&s->set, take(test, 1, 1, 1), s->pages);
	mtier_ranges_release(&s->set, take(test, 0, 1, 1), s->pages);
	KUNIT_EXPECT_NULL(test, mtier_ranges_take(&s->set, NULL, s->pages));
}

static void take_finds_one_that_goes_the_same_way(struct kunit *test)
{
	struct range_scene *s = test->priv;
	struct mtier_range_key like = { .target = 1 };
	struct mtier_range *r;
	unsigned int dropped;

	add(s, 0, 1, 0, 0, &dropped);
	add(s, 0, 2, 1, 0, &dropped);
	r = mtier_ranges_take(&s->set, &like, s->pages);
	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_EXPECT_EQ(test, r->key.start, RANGE(2));
	KUNIT_EXPECT_NULL(test, mtier_ranges_take(&s->set, &like, s->pages));
	mtier_ranges_release(&s->set, r, s->pages);
	like.strict = true;
	like.target = 0;
	KUNIT_EXPECT_NULL(test, mtier_ranges_take(&s->set, &like, s->pages));
}

static void full_set_drops_its_oldest_range(struct kunit *test)
{
	struct range_scene *s = test->priv;
	unsigned int dropped;

	for (int i = 0; i < CAP; i++) {
		KUNIT_EXPECT_EQ(test, add(s, 0, i / 2, 0, i, &dropped), i + 1);
		KUNIT_EXPECT_EQ(test, dropped, 0);
	}
	KUNIT_EXPECT_EQ(test, add(s, 0, 7, 0, 0, &dropped), CAP - 1);
	KUNIT_EXPECT_EQ(test, dropped, 2);
	KUNIT_EXPECT_EQ(test, mtier_ranges_shrink(&s->set, 4), 4);
	KUNIT_EXPECT_EQ(test, s->set.fill, 3);
	mtier_ranges_release(&s->set, take(test, 0, 3, 2), s->pages);
}

/* Who holds a spinlock cannot free what would make room: he is turned away. */
static void full_set_drops_nothing_under_a_lock(struct kunit *test)
{
	struct range_scene *s = test->priv;
	unsigned int dropped;

	for (int i = 0; i < CAP; i++)
		KUNIT_EXPECT_EQ(test, add(s, 0, i / 2, 0, i, NULL), i + 1);
	KUNIT_EXPECT_EQ(test, add(s, 0, 7, 0, 0, NULL), -ENOSPC);
	KUNIT_EXPECT_EQ(test, add(s, 0, 0, 0, 7, NULL), -ENOSPC);
	KUNIT_EXPECT_EQ(test, s->set.fill, CAP);
	KUNIT_EXPECT_EQ(test, s->set.nr, (CAP + 1) / 2);
	KUNIT_EXPECT_EQ(test, add(s, 0, 7, 0, 0, &dropped), CAP - 1);
	KUNIT_EXPECT_EQ(test, add(s, 0, 7, 0, 1, NULL), CAP);
}

/* What was reported while a range was taken is not lost, nor waits twice. */
static void taken_range_goes_on_collecting(struct kunit *test)
{
	struct range_scene *s = test->priv;
	struct mtier_range *r;
	unsigned int dropped;

	add(s, 0, 1, 0, 5, &dropped);
	add(s, 0, 1, 0, 6, &dropped);
	r = take(test, 0, 1, 2);
	KUNIT_EXPECT_EQ(test, add(s, 0, 1, 0, 5, &dropped), 0);
	KUNIT_EXPECT_EQ(test, add(s, 0, 1, 0, 9, &dropped), 3);
	__set_bit(5, s->done);
	KUNIT_EXPECT_EQ(test, mtier_ranges_release(&s->set, r, s->done), 0);
	KUNIT_EXPECT_EQ(test, s->set.fill, 2);
	r = take(test, 0, 1, 2);
	KUNIT_EXPECT_TRUE(test, test_bit(6, s->pages));
	KUNIT_EXPECT_TRUE(test, test_bit(9, s->pages));
	mtier_ranges_release(&s->set, r, s->pages);
	KUNIT_EXPECT_EQ(test, s->set.nr, 0);
}

static void exit_takes_its_ranges_along(struct kunit *test)
{
	struct range_scene *s = test->priv;
	unsigned int dropped;
	int i;

	KUNIT_EXPECT_EQ(test, mtier_ranges_forget(&s->set, s->mm[0]), 0);
	for (i = 0; i < 3; i++) {
		add(s, 0, i, 0, 0, &dropped);
		add(s, 1, i, 0, 0, &dropped);
	}
	KUNIT_EXPECT_EQ(test, mtier_ranges_forget(&s->set, s->mm[0]), 3);
	KUNIT_EXPECT_EQ(test, s->set.nr, 3);
	KUNIT_EXPECT_EQ(test, s->set.fill, 3);
	KUNIT_EXPECT_EQ(test, mtier_ranges_forget(&s->set, s->mm[0]), 0);
	KUNIT_EXPECT_EQ(test, mtier_ranges_forget(&s->set, s->mm[1]), 3);
}

/* Whoever has taken it ends it, with what came meanwhile. */
static void exit_leaves_a_taken_range(struct kunit *test)
{
	struct range_scene *s = test->priv;
	struct mtier_range *r;
	unsigned int dropped;

	add(s, 0, 1, 0, 5, &dropped);
	r = take(test, 0, 1, 1);
	add(s, 0, 1, 0, 6, &dropped);
	KUNIT_EXPECT_EQ(test, mtier_ranges_forget(&s->set, s->mm[0]), 0);
	KUNIT_EXPECT_EQ(test, s->set.fill, 2);
	KUNIT_EXPECT_EQ(test, mtier_ranges_release(&s->set, r, s->pages), 1);
	KUNIT_EXPECT_EQ(test, s->set.fill, 0);
	KUNIT_EXPECT_NULL(test, mtier_ranges_take(&s->set, NULL, s->pages));
}

static struct kunit_case mtier_range_cases[] = {
	KUNIT_CASE(page_waits_once),
	KUNIT_CASE(oldest_range_goes_first),
	KUNIT_CASE(take_finds_one_that_goes_the_same_way),
	KUNIT_CASE(full_set_drops_its_oldest_range),
	KUNIT_CASE(full_set_drops_nothing_under_a_lock),
	KUNIT_CASE(taken_range_goes_on_collecting),
	KUNIT_CASE(exit_takes_its_ranges_along),
	KUNIT_CASE(exit_leaves_a_taken_range),
	{ }
};

static struct kunit_suite mtier_range_suite = {
	.name = "mtier_range",
	.init = range_init,
	.exit = range_exit,
	.test_cases = mtier_range_cases,
};

kunit_test_suite(mtier_range_suite);

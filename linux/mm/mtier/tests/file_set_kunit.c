// SPDX-License-Identifier: GPL-2.0
/*
 * A set of pages of files has what was added, and nothing else. Included by
 * ../file_set.c.
 */
#include <kunit/test.h>

#define SET_PARTS	1000

/* A name of a file; it is never followed. */
static const struct address_space *set_file(unsigned long nr)
{
	return (const struct address_space *)(0x1000 + 64 * nr);
}

static struct mtier_file_key set_key(unsigned long file, pgoff_t first, unsigned int nr)
{
	return (struct mtier_file_key) { set_file(file), first, nr };
}

/* Number of the pages of a key that the set has. */
static unsigned int set_count(const struct mtier_file_set *set,
			      const struct mtier_file_key *key)
{
	DECLARE_BITMAP(page, MTIER_RANGE_PAGES);

	mtier_file_set_get(set, key, page);
	return bitmap_weight(page, MTIER_RANGE_PAGES);
}

static bool set_has(const struct mtier_file_set *set, unsigned long file, pgoff_t page)
{
	struct mtier_file_key key = set_key(file, page, 1);

	return mtier_file_set_all(set, &key) && set_count(set, &key) == 1;
}

static void an_empty_set_has_nothing(struct kunit *test)
{
	struct mtier_file_key key = set_key(0, 0, 1);
	struct mtier_file_set set = { };

	KUNIT_EXPECT_FALSE(test, set_has(&set, 0, 0));
	KUNIT_EXPECT_FALSE(test, mtier_file_set_add(&set, &key));
	mtier_file_set_clear(&set);
	mtier_file_set_free(&set);
}

/* Also after it has grown. */
static void a_set_has_what_was_added(struct kunit *test)
{
	struct mtier_file_set set = { };
	unsigned long i;

	for (i = 0; i < SET_PARTS; i++) {
		struct mtier_file_key key = set_key(i % 7, 700 * i, 5);

		KUNIT_ASSERT_EQ(test, mtier_file_set_room(&set, 1), 0);
		KUNIT_ASSERT_TRUE(test, mtier_file_set_add(&set, &key));
		KUNIT_ASSERT_TRUE(test, mtier_file_set_add(&set, &key));
	}
	for (i = 0; i < SET_PARTS; i++) {
		KUNIT_ASSERT_TRUE(test, set_has(&set, i % 7, 700 * i));
		KUNIT_ASSERT_TRUE(test, set_has(&set, i % 7, 700 * i + 4));
		KUNIT_ASSERT_FALSE(test, set_has(&set, i % 7, 700 * i + 5));
		KUNIT_ASSERT_FALSE(test, set_has(&set, (i + 1) % 7, 700 * i));
	}
	mtier_file_set_clear(&set);
	KUNIT_EXPECT_FALSE(test, set_has(&set, 0, 0));
	KUNIT_EXPECT_EQ(test, set.nr, 0);
	mtier_file_set_free(&set);
	KUNIT_EXPECT_NULL(test, set.piece);
}

/* A mapping that begins anywhere in its file: neighbours do not overlap. */
static void ranges_side_by_side_do_not_meet(struct kunit *test)
{
	struct mtier_file_set set = { };
	pgoff_t first;

	KUNIT_ASSERT_EQ(test, mtier_file_set_room(&set, 10), 0);
	for (first = 100; first < 10 * MTIER_RANGE_PAGES; first += MTIER_RANGE_PAGES) {
		struct mtier_file_key key = set_key(1, first, MTIER_RANGE_PAGES);

		KUNIT_EXPECT_EQ(test, set_count(&set, &key), 0);
		KUNIT_EXPECT_TRUE(test, mtier_file_set_add(&set, &key));
		KUNIT_EXPECT_TRUE(test, mtier_file_set_all(&set, &key));
	}
	KUNIT_EXPECT_FALSE(test, set_has(&set, 1, 99));
	KUNIT_EXPECT_TRUE(test, set_has(&set, 1, 100));
	KUNIT_EXPECT_EQ(test, set.nr, 11);
	mtier_file_set_free(&set);
}

/* The pages of a key that crosses two pieces are those of the key, in its order. */
static void pages_are_where_the_key_has_them(struct kunit *test)
{
	struct mtier_file_key a = set_key(1, 510, 1), b = set_key(1, 513, 2);
	struct mtier_file_key both = set_key(1, 500, MTIER_RANGE_PAGES);
	DECLARE_BITMAP(page, MTIER_RANGE_PAGES);
	struct mtier_file_set set = { };

	KUNIT_ASSERT_EQ(test, mtier_file_set_room(&set, 10), 0);
	KUNIT_EXPECT_TRUE(test, mtier_file_set_add(&set, &a));
	KUNIT_EXPECT_TRUE(test, mtier_file_set_add(&set, &b));
	mtier_file_set_get(&set, &both, page);
	KUNIT_EXPECT_EQ(test, bitmap_weight(page, MTIER_RANGE_PAGES), 3);
	KUNIT_EXPECT_TRUE(test, test_bit(10, page));
	KUNIT_EXPECT_TRUE(test, test_bit(13, page));
	KUNIT_EXPECT_TRUE(test, test_bit(14, page));
	mtier_file_set_free(&set);
}

/* Another one that begins elsewhere meets two of them. */
static void ranges_that_overlap_meet(struct kunit *test)
{
	struct mtier_file_key mine = set_key(1, 100, 512), edge = set_key(1, 611, 512);
	struct mtier_file_key after = set_key(1, 612, 512), before = set_key(1, 0, 100);
	struct mtier_file_set set = { };

	KUNIT_ASSERT_EQ(test, mtier_file_set_room(&set, 10), 0);
	KUNIT_EXPECT_TRUE(test, mtier_file_set_add(&set, &mine));
	KUNIT_EXPECT_EQ(test, set_count(&set, &edge), 1);
	KUNIT_EXPECT_FALSE(test, mtier_file_set_all(&set, &edge));
	KUNIT_EXPECT_EQ(test, set_count(&set, &after), 0);
	KUNIT_EXPECT_EQ(test, set_count(&set, &before), 0);
	mtier_file_set_free(&set);
}

/* A search ends at a free entry, so there have to be some. */
static void a_full_set_takes_nothing(struct kunit *test)
{
	struct mtier_file_set set = { };
	unsigned long i, took = 0;

	KUNIT_ASSERT_EQ(test, mtier_file_set_room(&set, 1), 0);
	for (i = 0; i < SET_PARTS; i++) {
		struct mtier_file_key key = set_key(0, i * MTIER_RANGE_PAGES, 1);

		took += mtier_file_set_add(&set, &key);
	}
	KUNIT_EXPECT_GT(test, took, 0);
	KUNIT_EXPECT_EQ(test, set.nr, took);
	KUNIT_EXPECT_LE(test, 2 * set.nr, 1UL << set.bits);
	KUNIT_EXPECT_FALSE(test, set_has(&set, 0, SET_PARTS * MTIER_RANGE_PAGES));
	mtier_file_set_free(&set);
}

static struct kunit_case mtier_file_set_cases[] = {
	KUNIT_CASE(an_empty_set_has_nothing),
	KUNIT_CASE(a_set_has_what_was_added),
	KUNIT_CASE(ranges_side_by_side_do_not_meet),
	KUNIT_CASE(pages_are_where_the_key_has_them),
	KUNIT_CASE(ranges_that_overlap_meet),
	KUNIT_CASE(a_full_set_takes_nothing),
	{ }
};

static struct kunit_suite mtier_file_set_suite = {
	.name = "mtier_file_set",
	.test_cases = mtier_file_set_cases,
};

kunit_test_suite(mtier_file_set_suite);

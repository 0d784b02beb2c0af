// SPDX-License-Identifier: GPL-2.0
/* The set of page tables shows which scan is the first. Included by ../table_set.c. */
#include <kunit/test.h>

#define MANY	3000UL

static const struct mm_struct *table_mm(unsigned long i)
{
	return (const struct mm_struct *)(i * 64);
}

/* A page table is new in the first scan of a burst, and known in the second. */
static void a_table_is_new_once(struct kunit *test)
{
	struct mtier_table_set set = { };

	mtier_table_set_grow(&set);
	KUNIT_EXPECT_FALSE(test, mtier_table_set_add(&set, table_mm(1), 0));
	KUNIT_EXPECT_TRUE(test, mtier_table_set_add(&set, table_mm(1), 0));
	KUNIT_EXPECT_FALSE(test, mtier_table_set_add(&set, table_mm(1), PMD_SIZE));
	KUNIT_EXPECT_FALSE(test, mtier_table_set_add(&set, table_mm(2), 0));
	KUNIT_EXPECT_EQ(test, set.nr, 3);
	mtier_table_set_free(&set);
}

/* Without memory each table is new, and nothing is counted for it. */
static void without_memory_all_are_new(struct kunit *test)
{
	struct mtier_table_set set = { };

	KUNIT_EXPECT_FALSE(test, mtier_table_set_add(&set, table_mm(1), 0));
	KUNIT_EXPECT_FALSE(test, mtier_table_set_add(&set, table_mm(1), 0));
	KUNIT_EXPECT_EQ(test, set.missed, 2);
}

/* The set grows by the number of tables that it had no room for, and keeps the others. */
static void it_grows_by_what_it_missed(struct kunit *test)
{
	struct mtier_table_set set = { };
	unsigned long i, new = 0;

	mtier_table_set_grow(&set);
	for (i = 1; i <= MANY; i++)
		new += !mtier_table_set_add(&set, table_mm(i), 0);
	KUNIT_EXPECT_EQ(test, new, MANY);
	KUNIT_EXPECT_EQ(test, set.missed, MANY - set.nr);
	mtier_table_set_grow(&set);
	KUNIT_EXPECT_EQ(test, set.missed, 0);
	for (i = 1, new = 0; i <= MANY; i++)
		new += !mtier_table_set_add(&set, table_mm(i), 0);
	KUNIT_EXPECT_EQ(test, set.nr, MANY);
	KUNIT_EXPECT_LT(test, new, MANY);
	for (i = 1, new = 0; i <= MANY; i++)
		new += !mtier_table_set_add(&set, table_mm(i), 0);
	KUNIT_EXPECT_EQ(test, new, 0);
	mtier_table_set_free(&set);
}

static struct kunit_case mtier_table_set_cases[] = {
	KUNIT_CASE(a_table_is_new_once),
	KUNIT_CASE(without_memory_all_are_new),
	KUNIT_CASE(it_grows_by_what_it_missed),
	{ }
};

static struct kunit_suite mtier_table_set_suite = {
	.name = "mtier_table_set",
	.test_cases = mtier_table_set_cases,
};

kunit_test_suite(mtier_table_set_suite);

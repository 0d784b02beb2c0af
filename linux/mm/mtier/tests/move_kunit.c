// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the results of a batch for folios that do not migrate. Included by
 * ../move.c.
 */
#include <kunit/test.h>

#include "exact.h"

/* Allocate a folio on its LRU list, with one reference, that of the caller. */
static struct folio *move_folio(struct kunit *test)
{
	struct folio *folio = folio_alloc(GFP_HIGHUSER_MOVABLE, 0);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	folio_add_lru(folio);
	lru_add_drain();
	return folio;
}

static int move_init(struct kunit *test)
{
	test->priv = mtier_move_alloc(16);
	return test->priv ? 0 : -ENOMEM;
}

static void move_exit(struct kunit *test)
{
	mtier_move_free(test->priv);
}

/* Get the exact number of isolated pages of a node. */
static long move_isolated(int nid)
{
	return exact_node_stat(nid, NR_ISOLATED_ANON) +
	       exact_node_stat(nid, NR_ISOLATED_FILE);
}

/* The owner of a folio frees it while it is isolated: its result is GONE. */
static void move_freed(struct kunit *test, bool down)
{
	struct folio *folio = move_folio(test);
	struct mtier_move *mv = test->priv;
	unsigned long pfn = folio_pfn(folio);
	int nid = folio_nid(folio);
	long isolated = move_isolated(nid);

	mtier_move_begin(mv, nid, nid, down, 16);
	KUNIT_EXPECT_TRUE(test, mtier_move_add(mv, folio));
	KUNIT_EXPECT_EQ(test, move_isolated(nid), isolated + 1);
	folio_put(folio);
	KUNIT_EXPECT_EQ(test, mtier_move_run(mv), 0);
	KUNIT_EXPECT_EQ(test, mtier_move_fate(mv, pfn), MTIER_FATE_GONE);
	KUNIT_EXPECT_EQ(test, move_isolated(nid), isolated);
}

static void freed_meanwhile_is_not_moved(struct kunit *test)
{
	move_freed(test, false);
}

static void freed_on_its_way_down_is_not_moved(struct kunit *test)
{
	move_freed(test, true);
}

/* The folio has a reference that does not belong to a mapping. */
static void referenced_stays(struct kunit *test)
{
	struct folio *folio = move_folio(test);
	struct mtier_move *mv = test->priv;
	unsigned long pfn = folio_pfn(folio);
	int nid = folio_nid(folio);
	long isolated = move_isolated(nid);

	mtier_move_begin(mv, nid, nid, true, 16);
	KUNIT_EXPECT_TRUE(test, mtier_move_add(mv, folio));
	KUNIT_EXPECT_EQ(test, mtier_move_run(mv), 0);
	KUNIT_EXPECT_EQ(test, mtier_move_fate(mv, pfn), MTIER_FATE_STAYED);
	KUNIT_EXPECT_EQ(test, mv->nr_copies, 0);
	KUNIT_EXPECT_EQ(test, move_isolated(nid), isolated);
	folio_put(folio);
}

/* The caller of a batch has only made room for its base pages. */
static void larger_than_the_room_does_not_fit(struct kunit *test)
{
	struct folio *folio = folio_alloc(GFP_HIGHUSER_MOVABLE, 2);
	struct mtier_move *mv = test->priv;
	int nid;

	KUNIT_ASSERT_NOT_NULL(test, folio);
	nid = folio_nid(folio);
	mtier_move_begin(mv, nid, nid, false, 3);
	KUNIT_EXPECT_FALSE(test, mtier_move_fits(mv, folio));
	KUNIT_EXPECT_EQ(test, mtier_move_run(mv), 0);
	mtier_move_begin(mv, nid, nid, false, 4);
	KUNIT_EXPECT_TRUE(test, mtier_move_fits(mv, folio));
	KUNIT_EXPECT_EQ(test, mtier_move_run(mv), 0);
	folio_put(folio);
}

static struct kunit_case mtier_move_cases[] = {
	KUNIT_CASE(larger_than_the_room_does_not_fit),
	KUNIT_CASE(freed_meanwhile_is_not_moved),
	KUNIT_CASE(freed_on_its_way_down_is_not_moved),
	KUNIT_CASE(referenced_stays),
	{ }
};

static struct kunit_suite mtier_move_suite = {
	.name = "mtier_move",
	.init = move_init,
	.exit = move_exit,
	.test_cases = mtier_move_cases,
};

kunit_test_suite(mtier_move_suite);

// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the search for page cache that nobody maps. Included by ../unmapped.c.
 */
#include <kunit/test.h>

#include "map_file.h"

/* Get a page of a new file in shared memory, on its LRU list, with a reference. */
static struct folio *unmapped_folio(struct kunit *test, struct file *file)
{
	struct page *page = shmem_read_mapping_page(file->f_mapping, 0);

	KUNIT_ASSERT_FALSE(test, IS_ERR(page));
	lru_add_drain();
	KUNIT_ASSERT_TRUE(test, PageLRU(page));
	return page_folio(page);
}

static bool unmapped_found(struct folio *folio, int nid)
{
	struct folio *found = mtier_unmapped_get(folio_page(folio, 0), nid);

	if (found)
		folio_put(found);
	return found == folio;
}

static void page_cache_that_is_mapped_is_left_out(struct kunit *test)
{
	struct file *file = map_file_make(test);
	struct folio *folio = unmapped_folio(test, file);
	unsigned long at;

	KUNIT_EXPECT_TRUE(test, unmapped_found(folio, folio_nid(folio)));
	KUNIT_EXPECT_FALSE(test, unmapped_found(folio, folio_nid(folio) + 1));
	/* The first page of the file. */
	at = kunit_vm_mmap(test, file, 0, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			   0);
	KUNIT_ASSERT_NE(test, at, 0);
	map_touch(test, at, 1);
	KUNIT_EXPECT_FALSE(test, unmapped_found(folio, folio_nid(folio)));
	vm_munmap(at, PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, unmapped_found(folio, folio_nid(folio)));
	folio_put(folio);
	fput(file);
}

static void locked_page_cache_is_left_out(struct kunit *test)
{
	struct file *file = map_file_make(test);
	struct folio *folio = unmapped_folio(test, file);

	KUNIT_EXPECT_TRUE(test, unmapped_found(folio, folio_nid(folio)));
	folio_set_unevictable(folio);
	KUNIT_EXPECT_FALSE(test, unmapped_found(folio, folio_nid(folio)));
	folio_clear_unevictable(folio);
	folio_put(folio);
	fput(file);
}

static void an_access_removes_the_mark(struct kunit *test)
{
	struct file *file = map_file_make(test);
	struct folio *folio = unmapped_folio(test, file);

	mtier_unmapped_tag(folio);
	KUNIT_EXPECT_TRUE(test, mtier_unmapped_unused(folio));
	folio_mark_accessed(folio);
	KUNIT_EXPECT_FALSE(test, mtier_unmapped_unused(folio));
	/* The second access activates the page, and is found like the first. */
	mtier_unmapped_tag(folio);
	KUNIT_EXPECT_TRUE(test, mtier_unmapped_unused(folio));
	folio_mark_accessed(folio);
	KUNIT_EXPECT_FALSE(test, mtier_unmapped_unused(folio));
	folio_put(folio);
	fput(file);
}

static void each_block_is_visited_before_any_is_again(struct kunit *test)
{
	unsigned long nr, i, at;
	unsigned long *seen;

	seen = kunit_kcalloc(test, BITS_TO_LONGS(700), sizeof(long), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, seen);
	for (nr = 1; nr < 700; nr++) {
		bitmap_zero(seen, 700);
		for (i = 0, at = 0; i < nr; i++) {
			at = (at + mtier_unmapped_step(nr)) % nr;
			__set_bit(at, seen);
		}
		KUNIT_ASSERT_EQ(test, bitmap_weight(seen, 700), nr);
	}
}

/* Record a block of @nr pages that were marked @ms ago; @once of them were used once. */
static struct mtier_unmapped_block *unmapped_block_once(struct mtier_unmapped *u,
							unsigned int nr, unsigned int once,
							u64 ms)
{
	struct mtier_unmapped_block *b;

	mtier_unmapped_record(u, 0, nr, once);
	b = mtier_unmapped_block(u, u->nr - 1);
	b->ns -= ms * NSEC_PER_MSEC;
	return b;
}

static void unmapped_block(struct mtier_unmapped *u, unsigned int nr, u64 ms)
{
	unmapped_block_once(u, nr, 0, ms);
}

/* A node that does not exist in the guest. */
#define UNMAPPED_NODE	(MAX_NUMNODES - 1)

static struct mtier_unmapped *unmapped_state(struct kunit *test)
{
	struct mtier_unmapped *u = kunit_kzalloc(test, sizeof(*u), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, u);
	KUNIT_ASSERT_NULL(test, mtier_unmapped[UNMAPPED_NODE]);
	u->share = MTIER_Q16;
	u->whole = MTIER_Q16;
	/* Also across the end of the ring. */
	u->first = MTIER_UNMAPPED_BLOCKS - 1;
	mtier_unmapped[UNMAPPED_NODE] = u;
	return u;
}

static struct mtier_unmapped_room unmapped_room(void)
{
	struct mtier_unmapped_room room = { .age_ns = U64_MAX };

	mtier_unmapped_room(UNMAPPED_NODE, &room);
	return room;
}

static void blocks_count_when_they_are_old(struct kunit *test)
{
	struct mtier_unmapped *u = unmapped_state(test);
	struct mtier_unmapped_room room = unmapped_room();

	KUNIT_EXPECT_EQ(test, room.pages, 0);
	KUNIT_EXPECT_EQ(test, room.age_ns, U64_MAX);
	unmapped_block(u, 300, 1500);
	unmapped_block(u, MTIER_BLOCK_PAGES, 1200);
	unmapped_block(u, 200, 100);
	room = unmapped_room();
	KUNIT_EXPECT_EQ(test, room.pages, 300 + MTIER_BLOCK_PAGES);
	KUNIT_EXPECT_EQ(test, room.whole, MTIER_BLOCK_PAGES);
	KUNIT_EXPECT_EQ(test, room.age_ns, MTIER_UNMAPPED_AGE_NS);
	/* Blocks that are not used get older. Then younger blocks do not count. */
	mtier_unmapped_block(u, 0)->ns -= 60 * NSEC_PER_SEC;
	room = unmapped_room();
	KUNIT_EXPECT_EQ(test, room.pages, 300);
	KUNIT_EXPECT_EQ(test, room.whole, 0);
	KUNIT_EXPECT_GE(test, room.age_ns, 30 * NSEC_PER_SEC);
	mtier_unmapped[UNMAPPED_NODE] = NULL;
}

/* Pages that were used once make room soon; the other pages of such a block do not. */
static void what_was_used_once_counts_soon(struct kunit *test)
{
	struct mtier_unmapped *u = unmapped_state(test);
	const u64 soon_ms = 2 * MTIER_UNMAPPED_ONCE_NS / NSEC_PER_MSEC;
	struct mtier_unmapped_block *b;
	struct mtier_unmapped_room room;

	unmapped_block_once(u, 400, 200, soon_ms);
	KUNIT_EXPECT_EQ(test, unmapped_room().pages, 0);
	b = unmapped_block_once(u, 400, 300, soon_ms);
	KUNIT_EXPECT_EQ(test, b->nr, 300);
	KUNIT_EXPECT_TRUE(test, mtier_unmapped_due(b, ktime_get_ns()));
	room = unmapped_room();
	KUNIT_EXPECT_EQ(test, room.pages, 300);
	KUNIT_EXPECT_EQ(test, room.whole, 0);
	KUNIT_EXPECT_GE(test, room.age_ns, MTIER_UNMAPPED_ONCE_NS);
	KUNIT_EXPECT_LT(test, room.age_ns, 2 * MTIER_UNMAPPED_ONCE_NS);
	b = unmapped_block_once(u, MTIER_BLOCK_PAGES, MTIER_BLOCK_PAGES, 0);
	KUNIT_EXPECT_TRUE(test, b->full);
	KUNIT_EXPECT_FALSE(test, mtier_unmapped_due(b, ktime_get_ns()));
	KUNIT_EXPECT_EQ(test, u->pages, 400 + 300 + MTIER_BLOCK_PAGES);
	mtier_unmapped[UNMAPPED_NODE] = NULL;
}

/* A second use is known to the LRU lists. */
static void a_page_is_used_once_until_it_is_used_again(struct kunit *test)
{
	struct file *file = map_file_make(test);
	struct folio *folio = unmapped_folio(test, file);
	unsigned int i;

	KUNIT_EXPECT_TRUE(test, mtier_unmapped_once(folio));
	for (i = 0; i < 3; i++)
		folio_mark_accessed(folio);
	/* It waits in a batch. */
	lru_add_drain();
	KUNIT_EXPECT_FALSE(test, mtier_unmapped_once(folio));
	folio_put(folio);
	fput(file);
}

static void room_is_what_left_before(struct kunit *test)
{
	struct mtier_unmapped *u = unmapped_state(test);
	unsigned int i;

	unmapped_block(u, 400, 1500);
	unmapped_block(u, 400, 1400);
	mtier_unmapped_done(u, mtier_unmapped_block(u, 0));
	KUNIT_EXPECT_EQ(test, u->pages, 400);
	KUNIT_EXPECT_EQ(test, u->share, MTIER_Q16 * 7 / 8);
	KUNIT_EXPECT_EQ(test, unmapped_room().pages, 350);
	mtier_unmapped_trim(u);
	KUNIT_EXPECT_EQ(test, u->nr, 1);
	KUNIT_EXPECT_EQ(test, u->first, 0);
	KUNIT_EXPECT_EQ(test, unmapped_room().pages, 350);
	for (i = 0; i < 1000; i++)
		mtier_unmapped_learn(&u->share, 0, 400);
	KUNIT_EXPECT_EQ(test, u->share, MTIER_UNMAPPED_SHARE);
	for (i = 0; i < 1000; i++)
		mtier_unmapped_learn(&u->share, 400, 400);
	KUNIT_EXPECT_EQ(test, u->share, MTIER_Q16);
	mtier_unmapped[UNMAPPED_NODE] = NULL;
}

/* Used pages are no room, and a block of which all were used is over. */
static void a_count_leaves_out_what_was_used(struct kunit *test)
{
	struct mtier_unmapped *u = unmapped_state(test);
	struct mtier_unmapped_block *b, *next;

	unmapped_block(u, MTIER_BLOCK_PAGES, 1500);
	unmapped_block(u, 400, 1500);
	b = mtier_unmapped_block(u, 0);
	next = mtier_unmapped_block(u, 1);
	mtier_unmapped_recount(u, b, 500);
	KUNIT_EXPECT_EQ(test, unmapped_room().pages, 500 + 400);
	KUNIT_EXPECT_EQ(test, unmapped_room().whole, 0);
	/* More than were marked are no room. */
	mtier_unmapped_recount(u, next, MTIER_BLOCK_PAGES);
	KUNIT_EXPECT_EQ(test, u->pages, 500 + 400);
	/* The share learns from pages that left, not from pages that were used. */
	b->left = 100;
	mtier_unmapped_recount(u, b, 0);
	KUNIT_EXPECT_EQ(test, b->nr, 0);
	KUNIT_EXPECT_EQ(test, u->share, MTIER_Q16);
	mtier_unmapped_recount(u, next, 0);
	KUNIT_EXPECT_EQ(test, next->nr, 0);
	KUNIT_EXPECT_EQ(test, u->share, MTIER_Q16);
	KUNIT_EXPECT_EQ(test, u->pages, 0);
	mtier_unmapped_trim(u);
	KUNIT_EXPECT_EQ(test, u->nr, 0);
	mtier_unmapped[UNMAPPED_NODE] = NULL;
}

static void a_block_is_counted_at_each_double_age(struct kunit *test)
{
	struct mtier_unmapped *u = unmapped_state(test);
	struct mtier_unmapped_block *b = unmapped_block_once(u, 400, 0, 0);
	const u64 at = b->ns, age = MTIER_UNMAPPED_AGE_NS;

	KUNIT_EXPECT_FALSE(test, mtier_unmapped_old_count(b, at + age - 1));
	KUNIT_EXPECT_TRUE(test, mtier_unmapped_old_count(b, at + age));
	b->count_ns = at + age;
	KUNIT_EXPECT_FALSE(test, mtier_unmapped_old_count(b, at + 2 * age - 1));
	KUNIT_EXPECT_TRUE(test, mtier_unmapped_old_count(b, at + 2 * age));
	b->nr = 0;
	KUNIT_EXPECT_FALSE(test, mtier_unmapped_old_count(b, at + 2 * age));
	mtier_unmapped[UNMAPPED_NODE] = NULL;
}

/* A block of one page. */
static void what_is_used_after_its_mark_is_not_counted(struct kunit *test)
{
	struct file *file = map_file_make(test);
	struct folio *folio = unmapped_folio(test, file);
	struct mtier_unmapped_block b = {
		.pfn = folio_pfn(folio), .end = folio_pfn(folio) + 1,
		.age_ns = MTIER_UNMAPPED_AGE_NS, .nr = 1,
	};
	int nid = folio_nid(folio);

	mtier_unmapped_tag(folio);
	KUNIT_EXPECT_EQ(test, mtier_unmapped_unused_of(&b, nid), 1);
	KUNIT_EXPECT_EQ(test, mtier_unmapped_unused_of(&b, nid + 1), 0);
	folio_mark_accessed(folio);
	KUNIT_EXPECT_EQ(test, mtier_unmapped_unused_of(&b, nid), 0);
	folio_put(folio);
	fput(file);
}

static struct kunit_case unmapped_cases[] = {
	KUNIT_CASE(page_cache_that_is_mapped_is_left_out),
	KUNIT_CASE(locked_page_cache_is_left_out),
	KUNIT_CASE(an_access_removes_the_mark),
	KUNIT_CASE(each_block_is_visited_before_any_is_again),
	KUNIT_CASE(blocks_count_when_they_are_old),
	KUNIT_CASE(what_was_used_once_counts_soon),
	KUNIT_CASE(a_page_is_used_once_until_it_is_used_again),
	KUNIT_CASE(room_is_what_left_before),
	KUNIT_CASE(a_count_leaves_out_what_was_used),
	KUNIT_CASE(a_block_is_counted_at_each_double_age),
	KUNIT_CASE(what_is_used_after_its_mark_is_not_counted),
	{ }
};

static struct kunit_suite unmapped_suite = {
	.name = "mtier_unmapped",
	.test_cases = unmapped_cases,
};

kunit_test_suite(unmapped_suite);

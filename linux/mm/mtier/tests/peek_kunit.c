// SPDX-License-Identifier: GPL-2.0
/*
 * Pages of a range are counted by tier. Included by ../peek.c.
 */
#include <kunit/test.h>

#include "map_file.h"

static void an_entry_has_pages_of_two_tiers(struct kunit *test)
{
	const unsigned long most = MTIER_RANGE_PAGES, at = 5 * PMD_SIZE;
	unsigned long e = at | mtier_range_entry(most, most) | MTIER_RANGE_UNREAD;

	KUNIT_EXPECT_EQ(test, e & PMD_MASK, at);
	KUNIT_EXPECT_EQ(test, mtier_range_pages(e, MTIER_TOP), most);
	KUNIT_EXPECT_EQ(test, mtier_range_pages(e, MTIER_LOW), most);
	KUNIT_EXPECT_EQ(test, mtier_range_only(e, MTIER_RANGE_LOW),
			at | mtier_range_entry(0, most) | MTIER_RANGE_UNREAD);
	KUNIT_EXPECT_EQ(test, mtier_range_only(e, 0), at | MTIER_RANGE_UNREAD);
	KUNIT_EXPECT_EQ(test, mtier_range_sides(e), MTIER_RANGE_TOP | MTIER_RANGE_LOW);
	KUNIT_EXPECT_EQ(test, mtier_range_sides(at | mtier_range_entry(0, 1)),
			MTIER_RANGE_LOW);
	KUNIT_EXPECT_EQ(test, mtier_range_sides(at | MTIER_RANGE_UNREAD), 0);
	KUNIT_EXPECT_EQ(test, mtier_range_merge(at | mtier_range_entry(3, 40),
						at | mtier_range_entry(20, 5)),
			at | mtier_range_entry(20, 40));
	KUNIT_EXPECT_EQ(test, mtier_range_merge(at, at | MTIER_RANGE_UNREAD),
			at | MTIER_RANGE_UNREAD);
}

/* Ranges in use of a middle tier can hold pages to promote and pages to demote. */
static void a_middle_tier_is_scanned_for_both(struct kunit *test)
{
	struct mtier_peek p = { };

	if (MAX_NUMNODES < 3)
		kunit_skip(test, "too few nodes for three tiers");
	node_set(1, p.slow);
	node_set(2, p.slow);
	node_set(1, p.middle);
	KUNIT_EXPECT_EQ(test, mtier_peek_sides(&p, 0), MTIER_RANGE_TOP);
	KUNIT_EXPECT_EQ(test, mtier_peek_sides(&p, 1), MTIER_RANGE_TOP | MTIER_RANGE_LOW);
	KUNIT_EXPECT_EQ(test, mtier_peek_sides(&p, 2), MTIER_RANGE_LOW);
}

/* Map a range with pages, and get the entry above its page table. */
static pmd_t *peek_range(struct kunit *test, struct file *file, unsigned long *at)
{
	*at = map_file(test, file);
	map_touch(test, *at, MTIER_RANGE_PAGES);
	return pmd_off(current->mm, *at);
}

static unsigned long peek_at(const struct mtier_peek *p, pmd_t *pmd, unsigned long at)
{
	unsigned long pages;

	mmap_read_lock(current->mm);
	pages = mtier_peek(p, vma_lookup(current->mm, at), pmd, at);
	mmap_read_unlock(current->mm);
	return pages;
}

/* The mean is right, however few pages a range has. */
static void sparse_ranges_are_estimated(struct kunit *test)
{
	const struct mtier_peek p = { .slow = node_states[N_MEMORY] };
	unsigned int i, found = 0;
	unsigned long at, pages;
	pmd_t *pmd;

	pmd = peek_range(test, NULL, &at);
	KUNIT_EXPECT_EQ(test, peek_at(&p, pmd, at), mtier_range_entry(0, MTIER_RANGE_PAGES));
	KUNIT_ASSERT_EQ(test, vm_munmap(at + PAGE_SIZE, MTIER_RANGE_SIZE - PAGE_SIZE), 0);
	for (i = 0; i < 64 * MTIER_PEEK_STEP; i++) {
		pages = peek_at(&p, pmd, at);
		if (!pages)
			continue;
		KUNIT_EXPECT_EQ(test, pages, mtier_range_entry(0, MTIER_PEEK_STEP));
		found++;
	}
	/* 64 on average; the deviation is 8. */
	KUNIT_EXPECT_GT(test, found, 24);
	KUNIT_EXPECT_LT(test, found, 104);
}

/*
 * A page with another mapper counts every other time in a private mapping. Sweeps list
 * shared mappings once, so there it counts each time.
 */
static void shared_pages_count_once(struct kunit *test)
{
	const struct mtier_peek p = { .slow = node_states[N_MEMORY] };
	struct file *file = map_file_make(test);
	unsigned long pages = 0, at, private;
	unsigned int i;
	pmd_t *pmd;

	pmd = peek_range(test, file, &at);
	private = map_how(test, file, PROT_READ, MAP_PRIVATE);
	map_read(test, private, MTIER_RANGE_PAGES);
	KUNIT_EXPECT_EQ(test, peek_at(&p, pmd, at), mtier_range_entry(0, MTIER_RANGE_PAGES));
	pmd = pmd_off(current->mm, private);
	for (i = 0; i < 64; i++)
		pages += mtier_range_pages(peek_at(&p, pmd, private), MTIER_LOW);
	/* Half of 64 times all pages; the deviation of 1,024 entries is 16. */
	KUNIT_EXPECT_GT(test, pages, (512 - 90) * MTIER_PEEK_STEP);
	KUNIT_EXPECT_LT(test, pages, (512 + 90) * MTIER_PEEK_STEP);
	fput(file);
}

static struct kunit_case mtier_peek_cases[] = {
	KUNIT_CASE(an_entry_has_pages_of_two_tiers),
	KUNIT_CASE(a_middle_tier_is_scanned_for_both),
	KUNIT_CASE(sparse_ranges_are_estimated),
	KUNIT_CASE(shared_pages_count_once),
	{ }
};

static struct kunit_suite mtier_peek_suite = {
	.name = "mtier_peek",
	.test_cases = mtier_peek_cases,
};

kunit_test_suite(mtier_peek_suite);

// SPDX-License-Identifier: GPL-2.0
/*
 * Which of the pages that may give way a move takes. Included by ../cold.c.
 */
#include <kunit/test.h>
#include <linux/mman.h>
#include <linux/mmu_notifier.h>

#include "exact.h"

#define COLD_SMALL	2	/* base pages, on either side of a huge one */

/**
 * struct cold_scene - two pages and, between them, a folio larger than both
 * @mm: their address space
 * @at: where they are mapped: a page before a boundary of ranges, the range, and
 *	a page after it
 * @mv: what is to move
 * @nid: node that all of them are on
 */
struct cold_scene {
	struct mm_struct *mm;
	unsigned long at;
	struct mtier_move *mv;
	int nid;
};

static struct folio *cold_folio(unsigned long at)
{
	struct folio *folio;
	struct page *page;

	if (get_user_pages_fast(at, 1, FOLL_WRITE, &page) != 1)
		return NULL;
	folio = page_folio(page);
	/* The mapping keeps it. */
	put_page(page);
	return folio;
}

/* A mapping whose second range is a huge page, if there are any. */
static int cold_map(struct kunit *test, struct cold_scene *s)
{
	struct vm_area_struct *vma;
	unsigned long at;

	at = kunit_vm_mmap(test, NULL, 0, 4 * MTIER_RANGE_SIZE,
			   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   0);
	if (!at)
		return -ENOMEM;
	at = ALIGN(at, MTIER_RANGE_SIZE) + MTIER_RANGE_SIZE;
	mmap_write_lock(current->mm);
	vma = vma_lookup(current->mm, at);
	if (vma)
		vm_flags_set(vma, VM_HUGEPAGE);
	mmap_write_unlock(current->mm);
	if (!vma || !cold_folio(at))
		return -ENOMEM;
	mmap_write_lock(current->mm);
	vm_flags_mod(vma, VM_NOHUGEPAGE, VM_HUGEPAGE);
	mmap_write_unlock(current->mm);
	s->at = at;
	return 0;
}

static int cold_init(struct kunit *test)
{
	struct cold_scene *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	if (!s || cold_map(test, s))
		return -ENOMEM;
	s->mm = current->mm;
	mmget(s->mm);
	s->nid = folio_nid(cold_folio(s->at));
	s->mv = mtier_move_alloc(16);
	mutex_lock(&mtier_mutex);
	test->priv = s;
	if (!s->mv || mtier_ranges_start())
		return -ENOMEM;
	lru_add_drain();
	if (mtier_on())
		kunit_skip(test, "promotion is switched on");
	return mtier_cold_add_node(s->nid);
}

static void cold_exit(struct kunit *test)
{
	struct cold_scene *s = test->priv;

	if (!s)
		return;
	if (!mtier_on()) {
		mtier_cold_free();
		mtier_hot_free();
	}
	mutex_unlock(&mtier_mutex);
	exact_leave_mm(s->mm);
	mtier_move_free(s->mv);
}

/* As many looks as it takes find it idle. */
static void cold_note(struct kunit *test, unsigned long addr)
{
	struct mtier_hot_params params = mtier_cold_params(U32_MAX);
	u32 looks = READ_ONCE(mtier_conf.cold_looks), now = mtier_now_tick();
	struct mtier_range_key at = {
		.mm = current->mm,
		.start = ALIGN_DOWN(addr, MTIER_RANGE_SIZE),
		.target = NUMA_NO_NODE,
	};
	struct cold_scene *s = test->priv;
	struct folio *folio = cold_folio(addr);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	lru_add_drain();
	while (looks--)
		mtier_cold_note(s->nid, &at, (addr - at.start) >> PAGE_SHIFT,
				folio_pfn(folio), true, now - looks, &params);
}

/* What is too large for the rest of a move waits, and others go. */
static void smaller_ones_go_before_one_that_does_not_fit(struct kunit *test)
{
	struct cold_scene *s = test->priv;
	struct mtier_ranges *set = &mtier_cold[s->nid];
	struct mtier_range *left;

	if (!folio_test_large(cold_folio(s->at)))
		kunit_skip(test, "no huge page");
	cold_note(test, s->at - PAGE_SIZE);
	cold_note(test, s->at);
	cold_note(test, s->at + MTIER_RANGE_SIZE);
	KUNIT_ASSERT_EQ(test, set->fill, 3);
	KUNIT_ASSERT_EQ(test, set->nr, 3);

	mtier_move_down(s->mv, s->nid, s->nid, COLD_SMALL);
	mtier_cold_gather(s->mv);
	KUNIT_EXPECT_EQ(test, s->mv->nr_folios, COLD_SMALL);
	mtier_move_run(s->mv);
	KUNIT_EXPECT_EQ(test, set->fill, 1);
	left = mtier_ranges_take(set, NULL, s->mv->todo);
	KUNIT_ASSERT_NOT_NULL(test, left);
	KUNIT_EXPECT_EQ(test, left->key.start, s->at);
	mtier_ranges_release(set, left, s->mv->todo);
}

/* Does a page of a new mapping with these flags give way? */
static bool cold_goes(struct kunit *test, unsigned long flags, bool unevictable)
{
	struct vm_area_struct *vma;
	struct page *page;
	unsigned long at;
	bool goes;

	at = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | flags, 0);
	KUNIT_ASSERT_NE(test, at, 0);
	KUNIT_ASSERT_EQ(test, get_user_pages_fast(at, 1, FOLL_WRITE, &page), 1);
	if (unevictable)
		folio_set_unevictable(page_folio(page));
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, at);
	goes = vma && mtier_folio_gives_way(page_folio(page), vma);
	mmap_read_unlock(current->mm);
	if (unevictable)
		folio_clear_unevictable(page_folio(page));
	put_page(page);
	return goes;
}

/* It would be refused later, but fill the queue until then. */
static void locked_memory_is_no_candidate(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, cold_goes(test, 0, false));
	KUNIT_EXPECT_FALSE(test, cold_goes(test, MAP_LOCKED, false));
	/* By SHM_LOCK, say */
	KUNIT_EXPECT_FALSE(test, cold_goes(test, 0, true));
}

/* Its TLBs are not flushed between two looks: what it uses looks idle. */
static void memory_of_a_secondary_mmu_is_no_candidate(struct kunit *test)
{
	static const struct mmu_notifier_ops ops = {};
	struct mmu_notifier mn = { .ops = &ops };

	KUNIT_ASSERT_EQ(test, mmu_notifier_register(&mn, current->mm), 0);
	KUNIT_EXPECT_FALSE(test, cold_goes(test, 0, false));
	mmu_notifier_unregister(&mn, current->mm);
}

static struct kunit_case mtier_cold_cases[] = {
	KUNIT_CASE(smaller_ones_go_before_one_that_does_not_fit),
	KUNIT_CASE(locked_memory_is_no_candidate),
	KUNIT_CASE(memory_of_a_secondary_mmu_is_no_candidate),
	{ }
};

static struct kunit_suite mtier_cold_suite = {
	.name = "mtier_cold",
	.init = cold_init,
	.exit = cold_exit,
	.test_cases = mtier_cold_cases,
};

kunit_test_suite(mtier_cold_suite);

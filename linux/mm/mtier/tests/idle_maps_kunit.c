// SPDX-License-Identifier: GPL-2.0
/*
 * Idle mappings of pages are removed before the pages migrate, and come back with a fault.
 * Included by ../idle_maps.c.
 */
#include <linux/swap.h>

#include "map_file.h"

#define IDLE_MAPS	(2 * MTIER_IDLE_USED_PART)

/**
 * struct idle_scene - a page of a file with many mappers, in a batch
 * @file: the file
 * @at: address of its page in each mapping
 * @folio: the page, isolated
 * @folios: the list of the batch
 */
struct idle_scene {
	struct file *file;
	unsigned long at[IDLE_MAPS];
	struct folio *folio;
	struct list_head folios;
};

static struct idle_scene *idle_begin(struct kunit *test)
{
	struct idle_scene *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	struct page *page;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->file = map_file_make(test);
	for (i = 0; i < IDLE_MAPS; i++) {
		s->at[i] = map_file(test, s->file);
		map_touch(test, s->at[i], 1);
	}
	KUNIT_ASSERT_EQ(test, get_user_pages_fast(s->at[0], 1, 0, &page), 1);
	s->folio = page_folio(page);
	lru_add_drain_all();
	INIT_LIST_HEAD(&s->folios);
	KUNIT_ASSERT_TRUE(test, folio_isolate_lru(s->folio));
	list_add(&s->folio->lru, &s->folios);
	return s;
}

static void idle_unmap(struct idle_scene *s)
{
	mtier_idle_unmap(s->file->f_mapping, &s->folios);
}

static void idle_end(struct idle_scene *s)
{
	list_del(&s->folio->lru);
	folio_putback_lru(s->folio);
	folio_put(s->folio);
	fput(s->file);
}

/* Check whether a page is mapped at an address. */
static bool idle_maps(unsigned long at)
{
	pmd_t *pmd = mm_find_pmd(current->mm, at & PMD_MASK);
	spinlock_t *ptl;	/* of this page table */
	bool maps;
	pte_t *pte;

	pte = pmd ? pte_offset_map_lock(current->mm, pmd, at, &ptl) : NULL;
	if (!pte)
		return false;
	maps = pte_present(ptep_get(pte));
	pte_unmap_unlock(pte, ptl);
	return maps;
}

static s64 idle_rss(void)
{
	return percpu_counter_sum(&current->mm->rss_stat[MM_SHMEMPAGES]);
}

static void idle_mappings_are_removed(struct kunit *test)
{
	struct idle_scene *s = idle_begin(test);
	int ref = folio_ref_count(s->folio);
	s64 rss = idle_rss();
	unsigned int i;

	for (i = 2; i < 5; i++)
		map_rest(test, s->at[i]);
	idle_unmap(s);
	for (i = 0; i < IDLE_MAPS; i++)
		KUNIT_EXPECT_EQ(test, idle_maps(s->at[i]), i < 2 || i >= 5);
	KUNIT_EXPECT_EQ(test, folio_mapcount(s->folio), IDLE_MAPS - 3);
	KUNIT_EXPECT_EQ(test, folio_ref_count(s->folio), ref - 3);
	KUNIT_EXPECT_EQ(test, idle_rss(), rss - 3);
	/* A fault maps the same page again. */
	map_read(test, s->at[3], 1);
	KUNIT_EXPECT_TRUE(test, idle_maps(s->at[3]));
	KUNIT_EXPECT_EQ(test, folio_mapcount(s->folio), IDLE_MAPS - 2);
	idle_end(s);
}

/* A few mappings in use are removed with many idle ones. */
static void the_last_mappings_are_removed_as_well(struct kunit *test)
{
	struct idle_scene *s = idle_begin(test);
	unsigned int i, used = IDLE_MAPS / MTIER_IDLE_USED_PART;

	for (i = used; i < IDLE_MAPS; i++)
		map_rest(test, s->at[i]);
	idle_unmap(s);
	KUNIT_EXPECT_EQ(test, folio_mapcount(s->folio), 0);
	idle_end(s);

	s = idle_begin(test);
	for (i = used + 1; i < IDLE_MAPS; i++)
		map_rest(test, s->at[i]);
	idle_unmap(s);
	KUNIT_EXPECT_EQ(test, folio_mapcount(s->folio), used + 1);
	idle_end(s);
}

/* A CPU has the translation although the page table looks idle. */
static void the_tlb_is_flushed(struct kunit *test)
{
	struct idle_scene *s = idle_begin(test);
	pmd_t *pmd = mm_find_pmd(current->mm, s->at[2] & PMD_MASK);
	struct vm_area_struct *vma;

	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, s->at[2]);
	mmap_read_unlock(current->mm);
	KUNIT_ASSERT_NOT_NULL(test, vma);
	/* The same CPU reads the page before and after. */
	migrate_disable();
	map_read(test, s->at[2], 1);
	pmdp_test_and_clear_young(vma, s->at[2] & PMD_MASK, pmd);
	idle_unmap(s);
	KUNIT_EXPECT_FALSE(test, idle_maps(s->at[2]));
	map_read(test, s->at[2], 1);
	migrate_enable();
	KUNIT_EXPECT_TRUE(test, idle_maps(s->at[2]));
	idle_end(s);
}

/* What was written through a mapping is known after it is gone. */
static void a_dirty_entry_makes_the_page_dirty(struct kunit *test)
{
	struct idle_scene *s = idle_begin(test);

	folio_clear_dirty(s->folio);
	folio_test_clear_young(s->folio);
	map_rest(test, s->at[2]);
	idle_unmap(s);
	KUNIT_EXPECT_TRUE(test, folio_test_dirty(s->folio));
	KUNIT_EXPECT_TRUE(test, folio_test_young(s->folio));
	idle_end(s);
}

/* Locked memory stays mapped, and so does a private copy. */
static void locked_memory_and_copies_stay(struct kunit *test)
{
	struct idle_scene *s = idle_begin(test);
	unsigned long copy = map_how(test, s->file, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct vm_area_struct *vma;

	map_touch(test, copy, 1);
	map_rest(test, copy);
	map_rest(test, s->at[2]);
	mmap_write_lock(current->mm);
	vma = vma_lookup(current->mm, s->at[2]);
	if (vma)
		vm_flags_set(vma, VM_LOCKED);
	mmap_write_unlock(current->mm);
	idle_unmap(s);
	KUNIT_EXPECT_TRUE(test, idle_maps(s->at[2]));
	KUNIT_EXPECT_TRUE(test, idle_maps(copy));
	mmap_write_lock(current->mm);
	if (vma)
		vm_flags_clear(vma, VM_LOCKED);
	mmap_write_unlock(current->mm);
	idle_end(s);
}

static struct kunit_case mtier_idle_maps_cases[] = {
	KUNIT_CASE(idle_mappings_are_removed),
	KUNIT_CASE(the_last_mappings_are_removed_as_well),
	KUNIT_CASE(the_tlb_is_flushed),
	KUNIT_CASE(a_dirty_entry_makes_the_page_dirty),
	KUNIT_CASE(locked_memory_and_copies_stay),
	{ }
};

static struct kunit_suite mtier_idle_maps_suite = {
	.name = "mtier_idle_maps",
	.test_cases = mtier_idle_maps_cases,
};

kunit_test_suite(mtier_idle_maps_suite);

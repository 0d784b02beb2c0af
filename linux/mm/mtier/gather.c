// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: isolate the selected pages of a range.
 *
 * A selected page is an address at which a scan found a page shortly before. All
 * conditions are checked again: the address space is in use, there is a VMA at the
 * address, it maps a page of the source node, and that page may migrate
 * (eligible.c). The page table is locked once for all selected pages that a VMA has
 * in the range. Their folios are checked and isolated after the unlock. Where a
 * private mapping has a copy of a page, the copy is isolated, not the page of the file.
 *
 * A page that is not isolated is counted in @ended of the batch, by reason.
 *
 * Locking: VMAs are held from here to the end of the batch; see eligible.c.
 */
#include <linux/hugetlb.h>
#include <linux/jiffies.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>
#include <linux/swap.h>

#include "../internal.h"
#include "move.h"
#include "mtier.h"

/*
 * Time between two drains of the LRU batches, which interrupt all CPUs. It doubles
 * after each drain that did not help.
 */
#define MTIER_LRU_MIN_MS	1000
#define MTIER_LRU_MAX_MS	64000

/*
 * Record a selected page: with its folio, or without if nothing is mapped. Skip a
 * folio on another node of the same tier: the tier of a selected page is known, but
 * not its node. Each node of the tier is processed in its own batches.
 */
static void mtier_found_add(struct mtier_move *mv, struct folio *folio,
			    unsigned int page)
{
	if (folio && folio_nid(folio) != mv->source)
		return;
	if (folio)
		folio_get(folio);
	mv->found[mv->nr_found++] = (struct mtier_found) {
		.folio = folio,
		.page = page,
	};
}

/* Record a huge page once. Other selected pages of its range are outdated. */
static bool mtier_find_huge(struct mtier_move *mv, struct vm_area_struct *vma,
			    pmd_t *pmd, unsigned long start,
			    unsigned int page, unsigned int end)
{
	struct folio *folio = NULL;
	spinlock_t *ptl;	/* of this page table */
	pmd_t entry;

	ptl = pmd_trans_huge_lock(pmd, vma);
	if (!ptl)
		return false;
	__acquire(ptl);		/* hidden from sparse */
	entry = pmdp_get(pmd);
	if (pmd_present(entry))
		folio = vm_normal_folio_pmd(vma, start, entry);
	for (; page < end; page = find_next_bit(mv->todo, end, page + 1)) {
		mtier_found_add(mv, folio, page);
		folio = NULL;
	}
	spin_unlock(ptl);
	return true;
}

/* Record all selected pages as not mapped: there is no page table. */
static void mtier_find_none(struct mtier_move *mv, unsigned int page,
			    unsigned int end)
{
	for (; page < end; page = find_next_bit(mv->todo, end, page + 1))
		mtier_found_add(mv, NULL, page);
}

static struct folio *mtier_pte_folio(struct vm_area_struct *vma,
				     unsigned long addr, pte_t *pte)
{
	pte_t entry = ptep_get(pte);

	return pte_present(entry) ? vm_normal_folio(vma, addr, entry) : NULL;
}

/*
 * Record the selected pages of a file from its page cache. All mappers were scanned,
 * so that a page can be selected that is not mapped in this VMA.
 */
static void mtier_find_file(struct mtier_move *mv, struct vm_area_struct *vma,
			    unsigned long start, unsigned int page,
			    unsigned int end)
{
	struct folio *folio;

	for (; page < end; page = find_next_bit(mv->todo, end, page + 1)) {
		folio = filemap_get_folio(vma->vm_file->f_mapping,
					  linear_page_index(vma, start +
							    page * PAGE_SIZE));
		mtier_found_add(mv, IS_ERR(folio) ? NULL : folio, page);
		if (!IS_ERR(folio))
			folio_put(folio);
	}
}

/*
 * Record which folios the selected pages from @page to @end are now: those that the
 * VMA maps, or those of its file. The page cache is looked up without a sleep.
 */
static void mtier_find(struct mtier_move *mv, struct vm_area_struct *vma,
		       unsigned long start, unsigned int page, unsigned int end)
{
	pmd_t *pmd = mm_find_pmd(vma->vm_mm, start);
	bool files = mtier_may_be_others(vma);
	struct folio *folio;
	pte_t *table = NULL;
	spinlock_t *ptl;	/* of this page table */

	mv->nr_found = 0;
	if (!files && pmd && mtier_find_huge(mv, vma, pmd, start, page, end))
		return;
	if (pmd && !mtier_has_no_copies(vma))
		table = pte_offset_map_lock(vma->vm_mm, pmd, start, &ptl);
	if (!table) {
		if (files)
			mtier_find_file(mv, vma, start, page, end);
		else
			mtier_find_none(mv, page, end);
		return;
	}
	__acquire(ptl);		/* hidden from sparse */
	for (; page < end; page = find_next_bit(mv->todo, end, page + 1)) {
		folio = mtier_pte_folio(vma, start + page * PAGE_SIZE,
					table + page);
		if (files && !(folio && folio_test_anon(folio)))
			mtier_find_file(mv, vma, start, page, page + 1);
		else
			mtier_found_add(mv, folio, page);
	}
	pte_unmap_unlock(table, ptl);
}

/*
 * Check whether a folio is pinned. A pin of a small folio is 1024 references, and
 * folio_maybe_dma_pinned() counts those of mappers, too.
 */
static bool mtier_folio_pinned(struct folio *folio)
{
	if (!folio_maybe_dma_pinned(folio) || folio_test_large(folio))
		return folio_maybe_dma_pinned(folio);
	return folio_ref_count(folio) - folio_mapcount(folio) >= GUP_PIN_COUNTING_BIAS;
}

/* Check the conditions of a folio that do not depend on its mappers. */
static enum mtier_why mtier_look_again(struct mtier_move *mv,
				       struct folio *folio)
{
	if (folio_is_zone_device(folio) || folio_test_hugetlb(folio) ||
	    folio_test_ksm(folio))
		return MTIER_WHY_KIND;
	/* Locked memory is not demoted, as reclaim does not evict it. */
	if (mv->down && folio_test_unevictable(folio))
		return MTIER_WHY_KIND;
	/* Also page cache, which mtier_folio_stays() does not check. */
	if (mtier_folio_pinned(folio))
		return MTIER_WHY_PINNED;
	/* Many file systems cannot move dirty folios without blocking. */
	if (folio_is_file_lru(folio) && folio_test_dirty(folio))
		return MTIER_WHY_DIRTY;
	return MTIER_MAY;
}

/*
 * Add a folio to the batch if it may migrate. Returns false if it does not fit.
 * After a large folio that does not fit, the batch stays open for smaller ones.
 */
static bool mtier_take(struct mtier_move *mv, struct mtier_guarded *held,
		       unsigned long addr, struct folio *folio)
{
	enum mtier_why why;

	why = mtier_look_again(mv, folio);
	if (why == MTIER_MAY && !mtier_move_fits(mv, folio)) {
		mv->closed |= !folio_test_large(folio);
		return false;
	}
	if (why == MTIER_MAY)
		why = mtier_guard_ask(&mv->guard, folio, held, addr,
				      !mv->nr_folios);
	if (why == MTIER_WHY_CROWDED)
		mv->closed = true;
	if (why == MTIER_WHY_CROWDED ||
	    (why == MTIER_WHY_POLICY && mv->elsewhere))
		return false;
	if (why == MTIER_MAY && mtier_fast_wants(mv, folio, held->vma)) {
		mtier_fast_add(mv, folio, held->vma, addr);
	} else if (why == MTIER_MAY && !mtier_move_add(mv, folio)) {
		mv->off_lru |= !folio_test_lru(folio);
		why = MTIER_WHY_OFF_LRU;
	}
	if (why == MTIER_MAY)
		held->rules->nr_folios++;
	else
		mv->ended[why]++;
	return true;
}

/* Add all recorded folios, as long as the batch is open. */
static void mtier_take_found(struct mtier_move *mv, struct mtier_guarded *held,
			     unsigned long start)
{
	unsigned int i;

	for (i = 0; i < mv->nr_found; i++) {
		const struct mtier_found *found = &mv->found[i];
		unsigned long addr = start + found->page * PAGE_SIZE;

		if (!found->folio) {
			mv->ended[MTIER_WHY_GONE]++;
			__set_bit(found->page, mv->done);
			continue;
		}
		if (!mv->closed && mtier_take(mv, held, addr, found->folio))
			__set_bit(found->page, mv->done);
		folio_put(found->folio);
	}
}

/* Lock the VMA at an address. An empty batch unlocks others if they are too many. */
static struct mtier_guarded *mtier_gather_at(struct mtier_move *mv,
					     struct mm_struct *mm,
					     unsigned long addr,
					     enum mtier_why *why)
{
	struct mtier_guarded *held = mtier_guard_at(&mv->guard, mm, addr, why);

	if (held || *why != MTIER_WHY_CROWDED || mv->nr_folios)
		return held;
	mtier_guard_end(&mv->guard);
	return mtier_guard_at(&mv->guard, mm, addr, why);
}

/**
 * mtier_gather() - Isolate the selected pages of a range that may migrate.
 * @mv: the batch; the selected pages are set in its @todo
 * @mm: the address space, pinned
 * @start: start address of the range
 *
 * Sets the pages that were processed in @mv->done: they were added to the batch, or
 * are counted in @mv->ended.
 *
 * Return: false if the batch is full.
 */
bool mtier_gather(struct mtier_move *mv, struct mm_struct *mm,
		  unsigned long start)
{
	unsigned int page, end;
	enum mtier_why why;

	bitmap_zero(mv->done, MTIER_RANGE_PAGES);
	for (page = find_first_bit(mv->todo, MTIER_RANGE_PAGES);
	     page < MTIER_RANGE_PAGES && !mv->closed;
	     page = find_next_bit(mv->todo, MTIER_RANGE_PAGES, end)) {
		struct mtier_guarded *held;

		held = mtier_gather_at(mv, mm, start + page * PAGE_SIZE, &why);
		if (held) {
			end = min_t(unsigned long, MTIER_RANGE_PAGES,
				    (held->vma->vm_end - start) >> PAGE_SHIFT);
			mtier_find(mv, held->vma, start, page, end);
			mtier_take_found(mv, held, start);
			continue;
		}
		mv->closed = why == MTIER_WHY_CROWDED;
		if (mv->closed)
			break;
		end = page + 1;
		mv->ended[why]++;
		__set_bit(page, mv->done);
	}
	return !mv->closed;
}

/**
 * mtier_lru_init() - Initialise the state for draining LRU batches.
 * @lru: the state
 */
void mtier_lru_init(struct mtier_lru *lru)
{
	*lru = (struct mtier_lru) {
		.next = jiffies,
		.ms = MTIER_LRU_MIN_MS,
	};
}

/**
 * mtier_lru_drain() - Drain the LRU batches after an exchange, if that may help.
 * @lru: the state; its @off_lru is set if a folio was not on its LRU list
 *
 * New pages can stay in the LRU batch of a CPU for a long time, and cannot be
 * isolated from it. A drain puts them on their lists for the next exchange. The rate
 * of drains is limited, since a folio that another task has isolated cannot be
 * distinguished from a folio in a batch.
 *
 * Context: may sleep.
 */
void mtier_lru_drain(struct mtier_lru *lru)
{
	/* The first exchange after a drain shows whether it helped. */
	if (lru->drained) {
		lru->ms = lru->off_lru ? min(2 * lru->ms, MTIER_LRU_MAX_MS) :
					 MTIER_LRU_MIN_MS;
		lru->next = jiffies + msecs_to_jiffies(lru->ms);
	}
	lru->drained = lru->off_lru && time_after_eq(jiffies, lru->next);
	if (!lru->drained)
		return;
	lru_add_drain_all();
	lru->off_lru = false;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: copy and remap frozen pages.
 *
 * The caller has frozen the pages (move_fast.c): each has a migration entry, no
 * references, and no writable TLB entry, and is locked. No code from here to the new
 * entries allocates or takes a lock of an mm.
 *
 * Other tasks can change the migration entries during the copy, so these are read
 * again. F5 and so on are the hazards of Documentation/mm/mtier.rst.
 *
 * Locking: page table lock, or lruvec->lru_lock; one at a time.
 */
#include <linux/highmem.h>
#include <linux/memcontrol.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/page_owner.h>
#include <linux/pagevec.h>
#include <linux/rmap.h>
#include <linux/swapops.h>
#include <kunit/static_stub.h>

#include "../internal.h"
#include "move.h"
#include "mtier.h"

/**
 * mtier_table_leave() - Unlock the page table that is locked, if any.
 * @table: the page table
 */
void mtier_table_leave(struct mtier_table *table)
{
	if (!table->pte)
		return;
	__acquire(RCU);		/* in mtier_table_lock() */
	__acquire(table->ptl);
	pte_unmap_unlock(table->pte, table->ptl);
	table->pte = NULL;
}

/**
 * mtier_table_lock() - Lock the page table that maps a page.
 * @table: the page table that is locked so far, if any
 * @page: the page, whose VMA is held
 *
 * Return: the entry of the page, or NULL if there is no page table.
 */
pte_t *mtier_table_lock(struct mtier_table *table,
			const struct mtier_fast_page *page)
{
	struct mm_struct *mm = page->vma->vm_mm;
	unsigned long start = page->addr & PMD_MASK;
	pte_t *pte;
	pmd_t *pmd;

	mtier_table_leave(table);
	pmd = mm_find_pmd(mm, start);
	if (!pmd)
		return NULL;
	pte = pte_offset_map_lock(mm, pmd, start, &table->ptl);
	if (!pte)
		return NULL;
	__release(RCU);		/* in mtier_table_leave() */
	table->start = start;
	table->pte = pte;
	return pte + pte_index(page->addr);
}

/**
 * mtier_fast_copy() - Copy the contents of a frozen page.
 * @dst: new page
 * @src: old page
 *
 * Return: 0, or nonzero after a machine check, which means that contents are lost
 * (F17).
 */
int mtier_fast_copy(struct folio *dst, struct folio *src)
{
	KUNIT_STATIC_STUB_REDIRECT(mtier_fast_copy, dst, src);
	return copy_mc_highpage(&dst->page, &src->page);
}

/*
 * Replace the migration entry of a page by an entry that maps @to, with the bits
 * that the migration entry has now (F6): another task may have write-protected it
 * since the freeze. See remove_migration_ptes(). Returns false if the page was
 * unmapped (F5).
 */
static bool mtier_fast_map(const struct mtier_move *mv,
			   const struct mtier_fast_page *page, pte_t *ptep,
			   struct folio *to)
{
	struct vm_area_struct *vma = page->vma;
	pte_t old = ptep_get(ptep), pte;
	swp_entry_t entry;

	if (!is_swap_pte(old))
		return false;
	entry = pte_to_swp_entry(old);
	if (!is_migration_entry(entry) ||
	    pfn_swap_entry_folio(entry) != page->src)
		return false;
	pte = mk_pte(&to->page, READ_ONCE(vma->vm_page_prot));
	if (!is_migration_entry_young(entry))
		pte = pte_mkold(pte);
	if (folio_test_dirty(to) && is_migration_entry_dirty(entry))
		pte = pte_mkdirty(pte);
	if (pte_swp_soft_dirty(old))
		pte = pte_mksoft_dirty(pte);
	else
		pte = pte_clear_soft_dirty(pte);
	if (is_writable_migration_entry(entry) &&
	    (to == page->src ||
	     !tlb_defer_flight_protects(&mv->fast->defer, vma)))
		pte = pte_mkwrite(pte, vma);
	else if (pte_swp_uffd_wp(old))
		pte = pte_mkuffd_wp(pte);
	if (!is_readable_migration_entry(entry))
		SetPageAnonExclusive(&to->page);
	set_pte_at(vma->vm_mm, page->addr, ptep, pte);
	/* The old entry was not present, so there is nothing to invalidate. */
	update_mmu_cache(vma, page->addr, ptep);
	return true;
}

/* Map the old page again after its copy failed. */
static void mtier_fast_restore(struct mtier_move *mv,
			       struct mtier_fast_page *page)
{
	struct mtier_table table = {};
	struct folio *src = page->src;
	pte_t *ptep;
	bool mapped;

	mv->nr_folios--;
	mv->nr_pages--;
	mv->ended[MTIER_WHY_BUSY]++;
	count_vm_event(MTIER_FAST_POISON);
	mv->fast->frame[mv->fast->nr_frames++] = &page->dst->page;

	folio_ref_unfreeze(src, 1);
	ptep = mtier_table_at(&table, page);
	mapped = ptep && mtier_fast_map(mv, page, ptep, src);
	mtier_table_leave(&table);
	folio_unlock(src);
	if (mapped)
		return;
	atomic_set(&src->_mapcount, -1);
	lruvec_stat_mod_folio(src, NR_ANON_MAPPED, -1);
	folio_put(src);
}

/* Copy frozen pages. Returns the number of good copies, which are first in @page. */
static unsigned int mtier_fast_copy_all(struct mtier_move *mv,
					struct mtier_fast_page *page,
					unsigned int nr)
{
	unsigned int i, good = 0;

	for (i = 0; i < nr; i++) {
		if (mtier_fast_copy(page[i].dst, page[i].src))
			mtier_fast_restore(mv, &page[i]);
		else
			page[good++] = page[i];
	}
	return good;
}

/*
 * Copy all page state except the contents to @dst. @dst is not mapped yet; only a
 * PFN walker can find it and take a reference (F11). One reference is for the new
 * entry. One keeps the page until it is on its LRU list.
 */
static void mtier_fast_dress(struct folio *dst, struct folio *src, int reason)
{
	__folio_set_locked(dst);
	__folio_set_swapbacked(dst);
	dst->index = src->index;
	WRITE_ONCE(dst->mapping, src->mapping);
	folio_migrate_flags(dst, src);
	set_page_owner_migrate_reason(&dst->page, reason);
	atomic_set(&dst->_mapcount, 0);
	folio_ref_inc(dst);
	folio_unlock(dst);
}

/**
 * struct mtier_tally - LRU batch: pages of one LRU list that are counted at once
 * @lruvec: lruvec of the list, locked; NULL if none is locked
 * @lru: index of the list
 * @zid: zone of the pages
 * @nr: number of pages
 * @listed: number of pages on lists of the LRU without generations
 */
struct mtier_tally {
	struct lruvec *lruvec;
	enum lru_list lru;
	enum zone_type zid;
	int nr;
	int listed;
};

static void mtier_tally_count(struct mtier_tally *t, const struct mtier_move *mv,
			      bool arrived)
{
	int sign = arrived ? 1 : -1;

	update_lru_size(t->lruvec, t->lru, t->zid, sign * t->listed);
	__mod_lruvec_state(t->lruvec, NR_ANON_MAPPED, sign * t->nr);
	if (arrived && mv->down)
		count_memcg_events(lruvec_memcg(t->lruvec), MTIER_DEMOTED,
				   t->nr);
	else if (arrived)
		__mod_lruvec_state(t->lruvec, PGPROMOTE_SUCCESS, t->nr);
	t->nr = 0;
	t->listed = 0;
}

/* Lock the LRU list of a page, after counting the pages of another list. */
static void mtier_tally_at(struct mtier_tally *t, const struct mtier_move *mv,
			   struct folio *folio, bool arrived)
{
	enum lru_list lru = folio_lru_list(folio);
	enum zone_type zid = folio_zonenum(folio);

	if (t->nr && (lru != t->lru || zid != t->zid ||
		      !folio_matches_lruvec(folio, t->lruvec)))
		mtier_tally_count(t, mv, arrived);
	if (!t->nr)
		t->lruvec = folio_lruvec_relock_irq(folio, t->lruvec);
	t->lru = lru;
	t->zid = zid;
	t->nr++;
}

/* Remove the old pages from their LRU lists, or add the new pages to theirs. */
static void mtier_fast_lru(const struct mtier_move *mv,
			   const struct mtier_fast_page *page, unsigned int nr,
			   bool arrived)
{
	struct mtier_tally t = {};
	unsigned int i;

	for (i = 0; i < nr; i++) {
		struct folio *folio = arrived ? page[i].dst : page[i].src;

		mtier_tally_at(&t, mv, folio, arrived);
		if (!arrived) {
			if (!lru_gen_del_folio(t.lruvec, folio, false)) {
				list_del(&folio->lru);
				t.listed++;
			}
			folio_clear_lru(folio);
			continue;
		}
		if (!lru_gen_add_folio(t.lruvec, folio, false)) {
			list_add(&folio->lru, &t.lruvec->lists[t.lru]);
			t.listed++;
		}
		folio_set_lru(folio);
	}
	if (!t.nr)
		return;
	mtier_tally_count(&t, mv, arrived);
	__acquire(&t.lruvec->lru_lock);	/* by mtier_tally_at() */
	unlock_page_lruvec_irq(t.lruvec);
}

/*
 * Map the new pages, and free those whose entry is gone. Returns the number of
 * mapped pages, which are first in @page. Fills @old with all old pages.
 */
static unsigned int mtier_fast_map_all(struct mtier_move *mv,
				       struct mtier_fast_page *page,
				       unsigned int nr, struct folio **old)
{
	struct folio *lost[MTIER_SETTLE_PAGES];
	unsigned int i, nr_lost = 0, mapped = 0;
	struct mtier_table table = {};

	for (i = 0; i < nr; i++) {
		pte_t *ptep = mtier_table_at(&table, &page[i]);

		old[i] = page[i].src;
		if (ptep && mtier_fast_map(mv, &page[i], ptep, page[i].dst))
			page[mapped++] = page[i];
		else
			lost[nr_lost++] = page[i].dst;
	}
	mtier_table_leave(&table);

	mv->nr_folios -= nr_lost;
	mv->nr_pages -= nr_lost;
	mv->ended[MTIER_WHY_GONE] += nr_lost;
	while (nr_lost) {
		struct folio *dst = lost[--nr_lost];

		atomic_set(&dst->_mapcount, -1);
		folio_put_refs(dst, 2);
	}
	return mapped;
}

/*
 * Wake the tasks that wait for the old pages, and free the pages, which have no
 * references. If the flush is deferred, the pages are kept until the flush.
 */
static void mtier_fast_free(struct tlb_defer_flight *defer, struct folio **old,
			    unsigned int nr)
{
	struct folio_batch batch;
	unsigned int i;

	folio_batch_init(&batch);
	for (i = 0; i < nr; i++) {
		atomic_set(&old[i]->_mapcount, -1);
		folio_unlock(old[i]);
		if (tlb_defer_flight_keep(defer, old[i]))
			continue;
		if (!folio_batch_add(&batch, old[i]))
			free_unref_folios(&batch);
	}
	if (folio_batch_count(&batch))
		free_unref_folios(&batch);
}

/**
 * mtier_fast_settle() - Copy frozen pages to their new frames and map them.
 * @mv: the batch
 * @page: the pages, with their TLB flush done or deferred; migrated pages come first
 *	afterwards
 * @nr: number of pages, at most MTIER_SETTLE_PAGES
 *
 * Return: number of migrated pages. The others have left the batch.
 */
unsigned int mtier_fast_settle(struct mtier_move *mv,
			       struct mtier_fast_page *page, unsigned int nr)
{
	int reason = mv->down ? MR_DEMOTION : MR_TIER_PROMOTE;
	struct folio *old[MTIER_SETTLE_PAGES];
	unsigned int i, arrived;

	nr = mtier_fast_copy_all(mv, page, nr);
	/* F12: remove the pages from their lists before the charge moves */
	mtier_fast_lru(mv, page, nr, false);
	for (i = 0; i < nr; i++)
		mtier_fast_dress(page[i].dst, page[i].src, reason);
	arrived = mtier_fast_map_all(mv, page, nr, old);
	mtier_fast_lru(mv, page, arrived, true);
	for (i = 0; i < arrived; i++)
		folio_put(page[i].dst);
	mtier_fast_free(&mv->fast->defer, old, nr);
	return arrived;
}

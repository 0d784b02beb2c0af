// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: remove idle mappings of pages of files before these migrate.
 *
 * migrate_pages() replaces each entry that maps a page twice, and finds each by a walk over
 * all mappers. With hundreds of mappers, this takes most of the time. Most of these
 * mappings are idle: the Accessed bit of the entry above the page table shows that no page
 * in it was used since the last sweep (sweep.c). There, the entries of the batch are
 * removed first: page table by page table, as reclaim does it for pages that it takes.
 * Nothing is lost, as the pages stay in the page cache. A process that uses them again
 * gets a minor fault, which maps up to 16 pages. If few mappings are left then, they are
 * removed as well, so that nothing is left for migrate_pages() to replace.
 *
 * Only small folios are removed, from VMAs without locked memory, userfaultfd, and
 * secondary MMUs. Private copies are other pages. All other mappings are left to
 * migrate_pages().
 *
 * A TLB may still have entries of an idle page table. The flush is done before the page
 * table lock is dropped, so that an entry which is clear is in no TLB.
 *
 * Locking, by trylock, under the locks of a batch (eligible.c):
 *
 *   i_mmap_rwsem (read)	keeps the VMAs, and their page tables
 *     page table lock
 */
#include <linux/fs.h>
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/pgtable.h>
#include <linux/rmap.h>
#include <linux/userfaultfd_k.h>

#include <asm/tlbflush.h>

#include "../internal.h"
#include "entries.h"
#include "move.h"
#include "mtier.h"

/* Mappings in use are removed as well if they are at most one in this many. */
#define MTIER_IDLE_USED_PART	8
/* Most VMAs whose page tables in use are noted. */
#define MTIER_IDLE_USED_VMAS	64
/* Most folios of a batch. */
#define MTIER_IDLE_FOLIOS	MTIER_RANGE_PAGES

/**
 * struct mtier_idle_page - a page of the file in the batch
 * @index: its offset in the file
 * @pfn: its frame
 * @folio: its folio, with a reference, of one page
 */
struct mtier_idle_page {
	pgoff_t index;
	unsigned long pfn;
	struct folio *folio;
};

/**
 * struct mtier_idle - state of the removal
 * @mapping: the file
 * @page: its pages that are in the batch
 * @nr_pages: number of entries in @page
 * @first: offset of the first of these pages in the file
 * @last: offset of the last one
 * @used: VMAs with page tables that were in use
 * @nr_used: number of entries in @used; more than there is room for if some are missing
 * @remove_used: remove from page tables in use as well
 * @vma: current VMA
 * @pte: the page table that is locked; NULL if there is none
 * @ptl: its lock
 * @start: first address of the page table that was looked for last
 * @from: first address of the entries removed from it
 * @end: end address of these
 * @nr: number of these, all of pages of the same kind
 */
struct mtier_idle {
	struct address_space *mapping;
	struct mtier_idle_page page[MTIER_IDLE_FOLIOS];
	unsigned int nr_pages;
	pgoff_t first;
	pgoff_t last;
	struct vm_area_struct *used[MTIER_IDLE_USED_VMAS];
	unsigned int nr_used;
	bool remove_used;
	struct vm_area_struct *vma;
	pte_t *pte;
	spinlock_t *ptl;	/* of @pte */
	unsigned long start;
	unsigned long from;
	unsigned long end;
	int nr;
};

/* Used by kmtierd alone, and too large for its stack. */
static struct mtier_idle mtier_idle_state;

/* ---- one page table ---- */

/* Flush the TLB, and unlock the page table. */
static void mtier_idle_leave(struct mtier_idle *idle)
{
	struct mm_struct *mm = idle->vma->vm_mm;

	if (!idle->pte)
		return;
	if (idle->nr) {
		flush_tlb_range(idle->vma, idle->from, idle->end);
		update_hiwater_rss(mm);
		add_mm_counter(mm, mm_counter_file(idle->page[0].folio), -idle->nr);
	}
	__acquire(RCU);		/* in mtier_idle_enter() */
	__acquire(idle->ptl);
	pte_unmap_unlock(idle->pte, idle->ptl);
	idle->pte = NULL;
}

/* Check whether entries of a VMA may be removed. */
static bool mtier_idle_may(struct vm_area_struct *vma)
{
	return !(vma->vm_flags & (VM_LOCKED | VM_PFNMAP | VM_MIXEDMAP)) &&
	       !userfaultfd_armed(vma) && !mm_has_notifiers(vma->vm_mm);
}

/* Note that the current VMA has a page table in use. */
static void mtier_idle_note(struct mtier_idle *idle)
{
	unsigned int nr = idle->nr_used;

	if (nr && nr <= MTIER_IDLE_USED_VMAS && idle->used[nr - 1] == idle->vma)
		return;
	if (nr < MTIER_IDLE_USED_VMAS)
		idle->used[nr] = idle->vma;
	idle->nr_used++;
}

/* Lock the page table at @start of the current VMA, if entries are removed from it. */
static void mtier_idle_enter(struct mtier_idle *idle, unsigned long start)
{
	struct mm_struct *mm = idle->vma->vm_mm;
	pmd_t *pmd = mm_find_pmd(mm, start), entry;
	pte_t *pte;

	mtier_idle_leave(idle);
	idle->start = start;
	idle->nr = 0;
	idle->from = ULONG_MAX;
	idle->end = 0;
	if (!pmd)
		return;
	entry = pmdp_get_lockless(pmd);
	if (pmd_leaf(entry))
		return;
	if (pmd_young(entry) && !idle->remove_used) {
		mtier_idle_note(idle);
		return;
	}
	pte = pte_offset_map_lock(mm, pmd, start, &idle->ptl);
	if (!pte)
		return;
	__release(RCU);		/* in mtier_idle_leave() */
	idle->pte = pte;
	/* The lock makes sure that mlock() sees the entries, or this sees its flag. */
	if (!mtier_idle_may(idle->vma))
		mtier_idle_leave(idle);
}

/* Remove the entry at @addr of the locked page table if it maps the page. */
static void mtier_idle_remove(struct mtier_idle *idle, const struct mtier_idle_page *page,
			      unsigned long addr)
{
	struct vm_area_struct *vma = idle->vma;
	struct folio *folio = page->folio;
	pte_t *pte = idle->pte + pte_index(addr);
	pte_t entry = ptep_get(pte);

	if (!pte_present(entry) || pte_pfn(entry) != page->pfn)
		return;
	flush_cache_page(vma, addr, page->pfn);
	entry = ptep_get_and_clear(vma->vm_mm, addr, pte);
	if (pte_dirty(entry))
		folio_mark_dirty(folio);
	if (pte_young(entry))
		mtier_folio_tell(folio);
	folio_remove_rmap_pte(folio, &folio->page, vma);
	folio_put(folio);
	idle->nr++;
	idle->from = min(idle->from, addr);
	idle->end = max(idle->end, addr + PAGE_SIZE);
}

/* ---- all of them ---- */

/* Remove the entries that map pages of the batch from a VMA. */
static void mtier_idle_vma(struct mtier_idle *idle, struct vm_area_struct *vma)
{
	unsigned long addr;
	unsigned int i;

	idle->vma = vma;
	idle->start = 1;
	for (i = 0; i < idle->nr_pages; i++) {
		const struct mtier_idle_page *page = &idle->page[i];

		if (page->index < vma->vm_pgoff ||
		    page->index - vma->vm_pgoff >= vma_pages(vma))
			continue;
		addr = vma->vm_start + ((page->index - vma->vm_pgoff) << PAGE_SHIFT);
		if (idle->start != (addr & PMD_MASK))
			mtier_idle_enter(idle, addr & PMD_MASK);
		if (idle->pte)
			mtier_idle_remove(idle, page, addr);
	}
	mtier_idle_leave(idle);
}

/* Remove the entries from idle page tables. False if another task waits for the lock. */
static bool mtier_idle_all(struct mtier_idle *idle, unsigned int *nr_vmas)
{
	struct address_space *mapping = idle->mapping;
	struct vm_area_struct *vma;

	*nr_vmas = 0;
	vma_interval_tree_foreach(vma, &mapping->i_mmap, idle->first, idle->last) {
		if (rwsem_is_contended(&mapping->i_mmap_rwsem))
			return false;
		mtier_idle_vma(idle, vma);
		cond_resched();
		++*nr_vmas;
	}
	return true;
}

/* Remove the entries from page tables in use. */
static void mtier_idle_all_used(struct mtier_idle *idle)
{
	unsigned int i;

	idle->remove_used = true;
	for (i = 0; i < idle->nr_used; i++)
		mtier_idle_vma(idle, idle->used[i]);
}

/* Find the pages of the file in the batch. Returns false if there is none. */
static bool mtier_idle_find(struct mtier_idle *idle, struct list_head *folios)
{
	struct folio *folio;

	list_for_each_entry(folio, folios, lru) {
		if (folio_test_large(folio) || READ_ONCE(folio->mapping) != idle->mapping ||
		    idle->nr_pages == MTIER_IDLE_FOLIOS)
			continue;
		idle->page[idle->nr_pages++] = (struct mtier_idle_page) {
			.index = folio->index, .pfn = folio_pfn(folio), .folio = folio,
		};
		idle->first = min(idle->first, folio->index);
		idle->last = max(idle->last, folio->index);
	}
	return idle->nr_pages;
}

/**
 * mtier_idle_unmap() - Remove idle mappings of the folios of a batch.
 * @mapping: the file; the others of the batch are left alone
 * @folios: the folios, isolated, each with a reference
 *
 * If only few of the mappings were not idle, these are removed as well: a minor fault for
 * up to 16 pages costs less than two walks over all mappers of each.
 *
 * Nothing more is removed if another task waits for the lock of the file.
 */
void mtier_idle_unmap(struct address_space *mapping, struct list_head *folios)
{
	struct mtier_idle *idle = &mtier_idle_state;
	unsigned int nr;

	*idle = (struct mtier_idle) { .mapping = mapping, .first = ULONG_MAX };
	if (!arch_has_hw_nonleaf_pmd_young() || !mtier_idle_find(idle, folios) ||
	    !i_mmap_trylock_read(mapping))
		return;
	if (mtier_idle_all(idle, &nr) &&
	    idle->nr_used <= min(nr / MTIER_IDLE_USED_PART, MTIER_IDLE_USED_VMAS))
		mtier_idle_all_used(idle);
	i_mmap_unlock_read(mapping);
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/idle_maps_kunit.c"
#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: read and clear the page table entries of a folio in a scan.
 *
 * Most scanned folios are single pages with one entry. If a caller sets @nr to the
 * constant 1, the compiler removes the code for large folios.
 *
 * Locking: the page table lock.
 */
#ifndef _MM_MTIER_ENTRIES_H
#define _MM_MTIER_ENTRIES_H

#include <linux/mm.h>
#include <linux/page_idle.h>
#include <linux/pgtable.h>

#include "../internal.h"

/**
 * struct mtier_entries - entries that map a page, or a part of a large folio
 * @vma: VMA of the entries
 * @addr: first address that they map
 * @pmd: the entry of a huge page, or NULL
 * @pte: the first entry, if @pmd is NULL
 * @nr: number of base pages that they map
 */
struct mtier_entries {
	struct vm_area_struct *vma;
	unsigned long addr;
	pmd_t *pmd;
	pte_t *pte;
	unsigned int nr;
};

/**
 * mtier_entries_present() - Check whether the first entry is present.
 * @e: the entries
 *
 * Return: true if the first entry maps a page.
 */
static __always_inline bool
mtier_entries_present(const struct mtier_entries *e)
{
	return e->pmd ? pmd_present(pmdp_get(e->pmd)) :
			pte_present(ptep_get(e->pte));
}

/**
 * mtier_entries_folio() - Get the folio that the first entry maps.
 * @e: the entries
 *
 * Return: the folio, or NULL if the entry maps none.
 */
static __always_inline struct folio *
mtier_entries_folio(const struct mtier_entries *e)
{
	pte_t entry;

	if (!mtier_entries_present(e))
		return NULL;
	if (e->pmd)
		return vm_normal_folio_pmd(e->vma, e->addr, pmdp_get(e->pmd));
	entry = ptep_get(e->pte);
	/* With special entries, vm_normal_folio() excludes the zero page. */
	if (!IS_ENABLED(CONFIG_ARCH_HAS_PTE_SPECIAL) &&
	    is_zero_pfn(pte_pfn(entry)))
		return NULL;
	return vm_normal_folio(e->vma, e->addr, entry);
}

/* Check whether entry @i still maps the page that follows from the first entry. */
static inline bool mtier_entries_same(const struct mtier_entries *e,
				      unsigned int i, pte_t entry)
{
	return pte_present(entry) &&
	       pte_pfn(entry) == pte_pfn(ptep_get(e->pte)) + i;
}

/**
 * mtier_entries_young() - Check whether the Accessed bit of any entry is set.
 * @e: the entries; the first of them is present
 *
 * Return: true if at least one bit is set.
 */
static __always_inline bool mtier_entries_young(const struct mtier_entries *e)
{
	unsigned int i;

	if (e->pmd)
		return pmd_young(pmdp_get(e->pmd));
	if (e->nr == 1)
		return pte_young(ptep_get(e->pte));
	for (i = 0; i < e->nr; i++) {
		pte_t entry = ptep_get(e->pte + i);

		if (pte_young(entry) && mtier_entries_same(e, i, entry))
			return true;
	}
	return false;
}

/**
 * mtier_entries_clear() - Clear the Accessed bits of all entries.
 * @e: the entries; the first of them is present
 *
 * Return: true if at least one bit was set.
 */
static __always_inline bool mtier_entries_clear(const struct mtier_entries *e)
{
	unsigned long addr = e->addr;
	bool young = false;
	unsigned int i;

	if (IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE) && e->pmd)
		return pmdp_test_and_clear_young(e->vma, addr, e->pmd);
	if (e->nr == 1)
		return ptep_test_and_clear_young(e->vma, addr, e->pte);
	for (i = 0; i < e->nr; i++, addr += PAGE_SIZE)
		if (mtier_entries_same(e, i, ptep_get(e->pte + i)) &&
		    ptep_test_and_clear_young(e->vma, addr, e->pte + i))
			young = true;
	return young;
}

/**
 * mtier_entries_nr() - Count the consecutive entries that map a large folio.
 * @e: the first entry
 * @folio: the folio
 * @most: upper limit of the count
 *
 * Return: number of entries.
 */
static inline unsigned int mtier_entries_nr(const struct mtier_entries *e,
					    struct folio *folio,
					    unsigned int most)
{
	const fpb_t flags = FPB_IGNORE_DIRTY | FPB_IGNORE_SOFT_DIRTY;

	return folio_pte_batch(folio, e->addr, e->pte, ptep_get(e->pte), most,
			       flags, NULL, NULL, NULL);
}

/**
 * mtier_folio_tell() - Mark a folio as accessed for other users of the bit.
 * @folio: folio whose Accessed bit was set, and has been cleared
 *
 * Reclaim and idle page tracking read the young and idle flags of the folio.
 */
static __always_inline void mtier_folio_tell(struct folio *folio)
{
	if (!folio_test_young(folio))
		folio_set_young(folio);
	if (folio_test_idle(folio))
		folio_clear_idle(folio);
}

#endif /* _MM_MTIER_ENTRIES_H */
